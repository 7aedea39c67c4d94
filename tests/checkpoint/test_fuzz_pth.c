/*
 * Promise 31 for checkpoints: damaged at random, byte by byte, in the archive, within the pickle
 * (where the archive's CRCs do not help) and in the manifest, they are read or refused, never more.
 * Run it under sanitizers; YOKE_FUZZ_TRIES sets how often (600).
 */
#define _GNU_SOURCE
#include "harness.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "io/zip.h"

static int tries(void)
{
    const char *wanted = getenv("YOKE_FUZZ_TRIES");
    return wanted ? atoi(wanted) : 600;
}

typedef struct bytes {
    unsigned char *data;
    size_t size;
} bytes;

static yk_model *make_model(void)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 2, 2});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    x = yk_nn_batch_norm(yk_nn_conv2d(x, "conv", 2, 1, NULL), "bn");
    x = yk_nn_linear(yk_flatten(x), "fc", 10);
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_cross_entropy(x, labels, NULL),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = "ref")));
    return model;
}

static bytes slurp(const char *path)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    bytes content = {malloc(1 << 20), 0};
    content.size = fread(content.data, 1, 1 << 20, file);
    fclose(file);
    return content;
}

/* One to four changes: a random byte, an edge value, a neighbour's byte. */
static void damage(bytes content, uint64_t turn)
{
    uint64_t changes = 1 + yki_hash3(turn, 0, 0) % 4;
    for (uint64_t i = 1; i <= changes; i++) {
        static const unsigned char edges[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
        size_t at = yki_hash3(turn, i, 0) % content.size;
        uint64_t draw = yki_hash3(turn, i, 1);
        content.data[at] = draw % 3 == 0   ? (unsigned char)(draw >> 8)
                           : draw % 3 == 1 ? edges[(draw >> 8) % sizeof edges]
                                           : content.data[(at + 1) % content.size];
    }
}

/* The model and optimizer that everything is loaded into; where loading succeeds, all is well. */
typedef struct target {
    yk_model *model;
    yk_optimizer *optimizer;
    int loaded, refused;
} target;

static target make_target(void)
{
    target made = {.model = make_model()};
    assert_ok(yk_adam_create(&made.optimizer, made.model, NULL));
    assert_ok(yk_optimizer_step(made.optimizer));
    yk_training_state training = {.arch = "fuzzed", .epoch = 1, .step = 1, .lr = 0.1};
    assert_ok(yk_checkpoint_save(yk_test_path("sound.pth"), made.model, made.optimizer, &training));
    return made;
}

static void try_to_load(target *into, const char *path)
{
    yk_training_state training;
    if (yk_checkpoint_load(path, into->model, into->optimizer, &training) == YK_OK) {
        into->loaded++;
        return;
    }
    into->refused++;
    assert_contains(yk_last_error(), "damaged.pth");
    assert_null(strchr(yk_last_error(), '\n'));
}

static void finish(target *into)
{
    assert_true(into->refused > 0);
    yk_optimizer_destroy(into->optimizer);
    yk_model_destroy(into->model);
}

YK_TEST(promise_31_damaged_archives)
{
    target into = make_target();
    bytes sound = slurp(yk_test_path("sound.pth")), damaged = {malloc(sound.size), sound.size};
    for (int i = 0; i < tries(); i++) {
        memcpy(damaged.data, sound.data, sound.size);
        damage(damaged, (uint64_t)i);
        yk_test_write_file(yk_test_path("damaged.pth"), damaged.data, damaged.size);
        try_to_load(&into, yk_test_path("damaged.pth"));
    }
    free(damaged.data);
    free(sound.data);
    finish(&into);
}

YK_TEST(promise_31_truncated_archives)
{
    target into = make_target();
    bytes sound = slurp(yk_test_path("sound.pth"));
    for (size_t size = 0; size < sound.size; size += sound.size / 200) {
        yk_test_write_file(yk_test_path("damaged.pth"), sound.data, size);
        try_to_load(&into, yk_test_path("damaged.pth"));
    }
    assert_int_equal(into.loaded, 0);
    free(sound.data);
    finish(&into);
}

/* The archive again, with the pickle given instead of its own. */
static void rebuild(yki_zip *zip, const char *path, bytes pickle)
{
    void *members[64] = {0};
    size_t count = yki_zip_count(zip);
    yki_zip_writer *writer;
    assert_true(count <= 64);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    assert_ok(yki_zip_writer_create(&writer, fd, path));
    for (size_t i = 0; i < count; i++) {
        size_t size = pickle.size;
        bool is_pickle = strstr(yki_zip_name(zip, i), "data.pkl") != NULL;
        if (!is_pickle)
            assert_ok(yki_zip_read(zip, i, &members[i], &size));
        assert_ok(yki_zip_writer_add(writer, yki_zip_name(zip, i),
                                     is_pickle ? pickle.data : members[i], size));
    }
    assert_ok(yki_zip_writer_finish(writer));
    close(fd);
    for (size_t i = 0; i < count; i++)
        free(members[i]);
}

YK_TEST(promise_31_damaged_pickles)
{
    target into = make_target();
    for (int i = 0; i < tries(); i++) {
        yki_zip *zip;
        void *data;
        bytes pickle;
        assert_ok(yki_zip_open(&zip, yk_test_path("sound.pth")));
        assert_ok(
            yki_zip_read(zip, (size_t)yki_zip_find(zip, "archive/data.pkl"), &data, &pickle.size));
        pickle.data = data;
        damage(pickle, (uint64_t)i);
        rebuild(zip, yk_test_path("damaged.pth"), pickle);
        try_to_load(&into, yk_test_path("damaged.pth"));
        free(data);
        yki_zip_close(zip);
    }
    finish(&into);
}

YK_TEST(promise_31_damaged_manifests)
{
    yk_model *model = make_model();
    const char *dir = yk_test_directory();
    char path[512], manifest[256];
    setenv("YOKE_LOG", "error", 1); /* no warnings of what is damaged */
    for (int64_t epoch = 1; epoch <= 2; epoch++)
        assert_ok(yk_checkpoint_dir_save(dir, model, NULL, &(yk_training_state){.epoch = epoch},
                                         YK_KEEP_ALL));
    snprintf(manifest, sizeof manifest, "%s", yk_test_path("manifest.json"));
    bytes sound = slurp(manifest), damaged = {malloc(sound.size), sound.size};
    for (int i = 0; i < tries(); i++) {
        memcpy(damaged.data, sound.data, sound.size);
        damage(damaged, (uint64_t)i);
        yk_test_write_file(manifest, damaged.data, damaged.size);
        yk_status status = yk_checkpoint_dir_latest(dir, path, sizeof path);
        assert_true(status == YK_OK || status == YK_ERROR_FORMAT);
    }
    free(damaged.data);
    free(sound.data);
    yk_model_destroy(model);
}

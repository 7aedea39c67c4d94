/*
 * Saving in the background: the file holds what was there when it was asked for, to the byte of a
 * save in the foreground; errors; kill -9 at random moments (YOKE_KILL_TRIES sets how often).
 */
#define _GNU_SOURCE
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/random.h"
#include "kill.h"

/* A model with an optimizer that has state and averages: about 1 MB a copy. */
typedef struct trained {
    yk_model *model;
    yk_optimizer *optimizer;
    yk_ema *ema;
} trained;

static trained train_a_step(void)
{
    trained t;
    float images[4 * 3 * 32 * 32] = {0.5f, -1, 2};
    int32_t labels[4] = {0, 1, 2, 3};
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 32, 32});
    yk_value *y = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *logits = yk_nn_linear(yk_flatten(x), "fc", 64);
    assert_ok(yk_model_create(&t.model, yk_cross_entropy(logits, y, NULL),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.threads = 1)));
    assert_ok(
        yk_sgd_create(&t.optimizer, t.model,
                      YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1, o.momentum = 0.9)));
    assert_ok(yk_ema_create(&t.ema, t.optimizer, NULL));
    const char *names[] = {"images", "labels"};
    yk_tensor tensors[] = {{.data = images, .dtype = YK_F32, .ndim = 4, .dims = {4, 3, 32, 32}},
                           {.data = labels, .dtype = YK_I32, .ndim = 1, .dims = {4}}};
    yk_batch batch = {.size = 4, .count = 2, .names = names, .tensors = tensors};
    assert_ok(yk_model_forward(t.model, &batch));
    assert_ok(yk_model_backward(t.model));
    assert_ok(yk_optimizer_step(t.optimizer));
    assert_ok(yk_ema_update(t.ema));
    return t;
}

static void destroy_trained(trained t)
{
    yk_ema_destroy(t.ema);
    yk_optimizer_destroy(t.optimizer);
    yk_model_destroy(t.model);
}

/* Every number of the model, of the optimizer's state and of the averages. */
static void fill(const trained *t, float value)
{
    for (size_t i = 0; i < yk_model_parameter_count(t->model); i++) {
        const char *name;
        yk_tensor tensors[3] = {yk_model_parameter(t->model, i).value};
        assert_true(yk_optimizer_state(t->optimizer, i, 0, &name, &tensors[1]));
        tensors[2] = yk_ema_value(t->ema, i);
        for (int k = 0; k < 3; k++)
            for (int64_t e = 0; e < yk_tensor_count(&tensors[k]); e++)
                ((float *)tensors[k].data)[e] = value;
    }
}

static yk_training_state state_of(int64_t epoch)
{
    return (yk_training_state){.arch = "linear", .epoch = epoch, .step = 10 * epoch};
}

static void assert_same_file(const char *a, const char *b, const char *name)
{
    char output[256];
    if (yk_test_command(output, sizeof output, "cmp %s/%s %s/%s", a, name, b, name) != 0)
        fail_msg("%s", output);
}

YK_TEST(the_file_is_that_of_a_save_in_the_foreground)
{
    yk_checkpoint_saver *saver;
    trained t = train_a_step();
    const char *foreground = yk_test_path("foreground"), *background = yk_test_path("background");
    yk_training_state training = state_of(1);
    assert_ok(yk_checkpoint_dir_save(foreground, t.model, t.optimizer, &training, 3));
    assert_ok(yk_checkpoint_saver_create(&saver, background, 3));
    assert_ok(yk_checkpoint_saver_save(saver, t.model, t.optimizer, &training));
    fill(&t, -7); /* what comes later is not in the file */
    training = state_of(99);
    assert_ok(yk_checkpoint_saver_wait(saver));
    assert_false(yk_checkpoint_saver_busy(saver));
    assert_same_file(foreground, background, "checkpoint-1.pth");
    assert_same_file(foreground, background, "model.pth");
    yk_checkpoint_saver_destroy(saver);
    destroy_trained(t);
}

YK_TEST(one_save_follows_the_other)
{
    enum { SAVES = 30 };
    yk_checkpoint_saver *saver;
    trained t = train_a_step();
    const char *foreground = yk_test_path("foreground"), *background = yk_test_path("background");
    assert_ok(yk_checkpoint_saver_create(&saver, background, 2));
    for (int64_t epoch = 1; epoch <= SAVES; epoch++) {
        yk_training_state training = state_of(epoch);
        fill(&t, (float)epoch);
        assert_ok(yk_checkpoint_saver_save(saver, t.model, t.optimizer, &training));
        if (epoch > SAVES - 2)
            assert_ok(yk_checkpoint_dir_save(foreground, t.model, t.optimizer, &training, 2));
    }
    fill(&t, -1);
    yk_checkpoint_saver_destroy(saver); /* waits for the last one */
    assert_same_file(foreground, background, "checkpoint-29.pth");
    assert_same_file(foreground, background, "checkpoint-30.pth");
    assert_same_file(foreground, background, "model.pth");
    char output[256];
    assert_int_equal(yk_test_command(output, sizeof output, "ls %s", background), 0);
    assert_string_equal(output, "checkpoint-29.pth\ncheckpoint-30.pth\nmanifest.json\nmodel.pth\n");
    destroy_trained(t);
}

/* A manifest that is a folder is found when the files are written already. */
YK_TEST(a_failure_in_the_background_is_reported_once_and_saves_nothing_more)
{
    yk_checkpoint_saver *saver;
    trained t = train_a_step();
    const char *dir = yk_test_path("run");
    char manifest[300], path[300];
    yk_training_state first = state_of(1), second = state_of(2);
    setenv("YOKE_LOG", "error", 1); /* the manifest that cannot be read is a warning */
    snprintf(manifest, sizeof manifest, "%s/manifest.json", dir);
    assert_ok(yk_checkpoint_saver_create(&saver, dir, 3));
    assert_int_equal(mkdir(dir, 0777), 0);
    assert_int_equal(mkdir(manifest, 0777), 0);
    assert_ok(yk_checkpoint_saver_save(saver, t.model, t.optimizer, &first));
    assert_status(YK_ERROR_IO, yk_checkpoint_saver_save(saver, t.model, t.optimizer, &second));
    assert_contains(yk_last_error(), "manifest.json: is not a file");
    assert_ok(yk_checkpoint_saver_wait(saver));
    snprintf(path, sizeof path, "%s/checkpoint-2.pth", dir);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(rmdir(manifest), 0);
    assert_ok(yk_checkpoint_saver_save(saver, t.model, t.optimizer, &second));
    assert_ok(yk_checkpoint_saver_wait(saver));
    assert_int_equal(access(path, F_OK), 0);
    yk_checkpoint_saver_destroy(saver);
    destroy_trained(t);
}

YK_TEST(what_cannot_begin_is_refused_at_once)
{
    yk_checkpoint_saver *saver = (yk_checkpoint_saver *)1;
    trained t = train_a_step(), other = train_a_step();
    yk_training_state training = state_of(1);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_checkpoint_saver_create(&saver, "run", 0));
    assert_contains(yk_last_error(), "cannot keep 0 checkpoints");
    assert_null(saver);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_checkpoint_saver_create(&saver, NULL, 1));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_checkpoint_saver_create(NULL, "run", 1));
    assert_ok(yk_checkpoint_saver_create(&saver, yk_test_path("run"), 1));
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_checkpoint_saver_save(saver, t.model, other.optimizer, &training));
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_checkpoint_saver_save(saver, t.model, t.optimizer, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_checkpoint_saver_save(saver, NULL, t.optimizer, &training));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_checkpoint_saver_wait(NULL));
    assert_false(yk_checkpoint_saver_busy(NULL));
    assert_false(yk_checkpoint_saver_busy(saver));
    yk_checkpoint_saver_destroy(saver);
    yk_checkpoint_saver_destroy(NULL);
    destroy_trained(other);
    destroy_trained(t);
}

/* ---- kill -9 --------------------------------------------------------------------------------- */

/* Saves one checkpoint after another until it is killed; tells which it was sure of. */
static void save_for_ever(const char *dir, const trained *t, int64_t epoch,
                          volatile int64_t *completed)
{
    yk_checkpoint_saver *saver;
    if (yk_checkpoint_saver_create(&saver, dir, 3) != YK_OK)
        _exit(1);
    for (;; epoch++) {
        yk_training_state training = state_of(epoch);
        fill(t, (float)epoch);
        if (yk_checkpoint_saver_save(saver, t->model, t->optimizer, &training) != YK_OK)
            _exit(1);
        fill(t, -2);          /* in no file */
        if (epoch % 2 == 0) { /* the others are waited for by the next save */
            if (yk_checkpoint_saver_wait(saver) != YK_OK)
                _exit(1);
            *completed = epoch;
        }
    }
}

static void assert_filled(const trained *t, float value)
{
    for (size_t i = 0; i < yk_model_parameter_count(t->model); i++) {
        yk_tensor tensor = yk_model_parameter(t->model, i).value;
        for (int64_t e = 0; e < yk_tensor_count(&tensor); e++)
            assert_true(((float *)tensor.data)[e] == value);
    }
}

YK_TEST(promise_14_kill_9_at_random_moments_of_a_background_save)
{
    const char *wanted = getenv("YOKE_KILL_TRIES");
    int tries = wanted ? atoi(wanted) : 60;
    trained t = train_a_step();
    const char *dir = yk_test_path("killed");
    volatile int64_t *completed =
        mmap(NULL, sizeof *completed, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    yk_training_state training = state_of(1);
    fill(&t, 1);
    yk_test_count_steps();
    assert_ok(yk_checkpoint_dir_save(dir, t.model, t.optimizer, &training, 3));
    uint64_t steps = 4 * (uint64_t)yk_test_steps(); /* a few saves */
    int64_t newest = *completed = 1;
    for (int try = 0; try < tries; try++) {
        pid_t pid = yk_test_fork();
        if (pid == 0)
            save_for_ever(dir, &t, newest + 1, completed);
        yk_test_kill_after(pid, (int64_t)(yki_hash3(41, 0, (uint64_t)try) % steps));
        char path[512];
        assert_ok(yk_checkpoint_dir_latest(dir, path, sizeof path));
        assert_ok(yk_checkpoint_load(path, t.model, t.optimizer, &training));
        assert_filled(&t, (float)training.epoch);
        if (training.epoch < *completed)
            fail_msg("try %d: checkpoint %d was complete, %s is the newest", try, (int)*completed,
                     path);
        newest = training.epoch;
    }
    assert_true(newest > 1); /* else it never got to save anything */
    munmap((void *)completed, sizeof *completed);
    destroy_trained(t);
}

/*
 * Kernels that were chosen by measuring them, among ranks and in checkpoints. What is chosen must
 * not depend on time here: each test measures once and then rewrites the files, so that they name
 * the first or the last kernel of each convolution.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include <yoke/checkpoint.h>
#include <yoke/ddp.h>
#include <yoke/optim.h>

#include "device/plan_cache.h"
#include "model/choices.h"
#include "model/model_hooks.h"
#include "model/replica.h"
#include "same.h"
#include "small_network.h"

enum { SAMPLES = 16 };

static const network measured = {
    .device = "cpu", .dtype = YK_F32, .channels = 64, .seed = 3, .benchmark = true};

static void train_steps(yk_model *model, yk_optimizer *optimizer, int first, int last)
{
    static samples own;
    for (int s = first; s < last; s++) {
        const yk_batch *batch = take_samples(&own, YK_F32, (int64_t)s * SAMPLES, SAMPLES);
        assert_ok(yk_model_forward(model, batch));
        assert_ok(yk_model_backward(model));
        assert_ok(yk_optimizer_step(optimizer));
    }
}

static yk_optimizer *make_sgd(yk_model *model)
{
    yk_optimizer *optimizer;
    assert_ok(
        yk_sgd_create(&optimizer, model, YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1)));
    return optimizer;
}

/* ---- files of choices ------------------------------------------------------------------------ */

/* The line of a file of the cache that says what was measured: "PROBLEM: KERNEL KERNEL ...". */
static bool read_problem(const char *folder, const char *name, char *line, size_t size)
{
    char path[2 * YKI_PLAN_PATH];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = strstr(name, ".plan") ? fopen(path, "r") : NULL;
    bool read = file && fgets(line, (int)size, file) && fgets(line, (int)size, file);
    if (file)
        fclose(file);
    line[read ? strcspn(line, "\n") : 0] = '\0';
    return read;
}

static void rewrite(const char *folder, const char *line, bool last)
{
    char kernel[YKI_KERNEL_NAME];
    const char *from = last ? strrchr(line, ' ') + 1 : strchr(line, ':') + 2;
    snprintf(kernel, sizeof kernel, "%.*s", (int)strcspn(from, " "), from);
    yki_plan_cache_write(folder, line, 1, kernel);
}

/* Lets the files that a model of this network reads name the first or the last kernel that can run
 * each convolution. Returns how many there are. */
static int fill_cache(const char *cache, bool last)
{
    static char lines[32][1024];
    char folder[YKI_PLAN_PATH];
    int count = 0;
    setenv("XDG_CACHE_HOME", cache, 1);
    yk_model *model = make_model(&measured);
    yk_optimizer *optimizer = make_sgd(model);
    train_steps(model, optimizer, 0, 1);
    const yki_choices *choices = yki_model_choices(model);
    yki_plan_cache_folder(folder, choices->hardware, choices->library);
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
    DIR *open = opendir(folder);
    for (struct dirent *entry; open && count < 32 && (entry = readdir(open));)
        count += read_problem(folder, entry->d_name, lines[count], sizeof *lines);
    if (open)
        closedir(open);
    for (int i = 0; i < count; i++)
        rewrite(folder, lines[i], last);
    return count;
}

static bool same_choices(const yki_choices *a, const yki_choices *b)
{
    bool same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++)
        same = strcmp(a->list[i].kernel, b->list[i].kernel) == 0;
    return same;
}

/* Whether the choices are those of rank 0. */
static bool same_as_rank0(yk_group *world, const yki_choices *choices)
{
    static yki_choice list[32];
    size_t bytes = choices->count * sizeof *list;
    assert_true(bytes <= sizeof list);
    if (bytes)
        memcpy(list, choices->list, bytes);
    assert_ok(yk_broadcast(world, list, bytes, YK_U8, 0, NULL));
    return same_choices(choices, &(yki_choices){.list = list, .count = choices->count});
}

/* ---- ranks ----------------------------------------------------------------------------------- */

/* Opens the job, and gives each rank a cache that differs from the other's. Returns how many
 * convolutions there are to choose for. */
static int open_ranks(yk_group **world, int rank)
{
    char cache[YKI_PLAN_PATH / 2];
    snprintf(cache, sizeof cache, "%s/rank%d", yk_test_directory(), rank);
    int count = fill_cache(cache, rank > 0);
    assert_ok(yk_group_init(world, NULL));
    return count;
}

YK_TEST_RANKS(ranks_with_other_caches_use_the_same_kernels, 2)
{
    yk_group *group;
    yk_ddp *ddp;
    int count = open_ranks(&group, rank);
    yk_model *model = make_model(&measured);
    assert_ok(yk_ddp_create(&ddp, model, group, NULL));
    yk_optimizer *optimizer = make_sgd(model);
    train_steps(model, optimizer, 0, 2);
    assert_int_equal(yki_model_choices(model)->count, count);
    assert_true(same_as_rank0(group, yki_model_choices(model)));
    yk_optimizer_destroy(optimizer);
    yk_ddp_destroy(ddp);
    yk_model_destroy(model);
    yk_group_destroy(group);
}

/* Choices that differ, since no rank knew of the others, are agreed on when DDP is made. */
YK_TEST_RANKS(choices_before_ddp_become_the_same, 2)
{
    yk_group *group;
    yk_ddp *ddp;
    int count = open_ranks(&group, rank);
    yk_model *model = make_model(&measured);
    yk_optimizer *optimizer = make_sgd(model);
    train_steps(model, optimizer, 0, 1);
    bool same = same_as_rank0(group, yki_model_choices(model));
    assert_true(same == (rank == 0 || count == 0));
    assert_ok(yk_ddp_create(&ddp, model, group, NULL));
    assert_true(same_as_rank0(group, yki_model_choices(model)));
    train_steps(model, optimizer, 1, 3);
    assert_int_equal(yki_model_choices(model)->count, count);
    yk_optimizer_destroy(optimizer);
    yk_ddp_destroy(ddp);
    yk_model_destroy(model);
    yk_group_destroy(group);
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

/* Where its own cache says otherwise, and where kernels are not measured at all. */
YK_TEST(promise_03_a_resumed_run_uses_the_kernels_of_its_checkpoint)
{
    static const yk_training_state saved = {.arch = "small"};
    char cache[2][YKI_PLAN_PATH / 2];
    for (int i = 0; i < 2; i++) {
        snprintf(cache[i], sizeof cache[i], "%s/%d", yk_test_directory(), i);
        if (fill_cache(cache[i], i > 0) == 0)
            skip_because("one kernel for each convolution on this processor");
    }
    setenv("XDG_CACHE_HOME", cache[1], 1);
    yk_model *model = make_model(&measured);
    yk_optimizer *optimizer = make_sgd(model);
    train_steps(model, optimizer, 0, 2);
    assert_ok(yk_checkpoint_save(yk_test_path("a.pth"), model, optimizer, &saved));
    train_steps(model, optimizer, 2, 4);

    setenv("XDG_CACHE_HOME", cache[0], 1);
    for (int benchmark = 0; benchmark < 2; benchmark++) {
        network net = measured;
        yk_training_state loaded;
        net.benchmark = benchmark;
        yk_model *resumed = make_model(&net);
        yk_optimizer *other = make_sgd(resumed);
        train_steps(resumed, other, 0, 1);
        assert_false(same_choices(yki_model_choices(resumed), yki_model_choices(model)));
        assert_ok(yk_checkpoint_load(yk_test_path("a.pth"), resumed, other, &loaded));
        train_steps(resumed, other, 2, 4);
        assert_true(same_choices(yki_model_choices(resumed), yki_model_choices(model)));
        assert_same_values(resumed, model);
        yk_optimizer_destroy(other);
        yk_model_destroy(resumed);
    }
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
}

/* ---- replicas -------------------------------------------------------------------------------- */

/* Also where their own cache says otherwise: those of a checkpoint reach the model alone. */
YK_TEST(replicas_take_over_the_kernels_of_their_model)
{
    static samples own;
    char cache[2][YKI_PLAN_PATH / 2];
    for (int i = 0; i < 2; i++) {
        snprintf(cache[i], sizeof cache[i], "%s/%d", yk_test_directory(), i);
        if (fill_cache(cache[i], i > 0) == 0)
            skip_because("one kernel for each convolution on this processor");
    }
    const yk_batch *batch = take_samples(&own, YK_F32, 0, SAMPLES);
    setenv("XDG_CACHE_HOME", cache[1], 1);
    yk_model *model = make_model(&measured), *replica;
    assert_ok(yk_model_forward(model, batch));
    setenv("XDG_CACHE_HOME", cache[0], 1);
    assert_ok(yki_model_replicate(&replica, model, NULL));
    assert_ok(yk_model_forward(replica, batch));
    assert_false(same_choices(yki_model_choices(replica), yki_model_choices(model)));
    assert_ok(yki_model_refresh_replica(replica, model));
    assert_true(same_choices(yki_model_choices(replica), yki_model_choices(model)));
    assert_ok(yk_model_forward(replica, batch));
    assert_true(yk_model_loss(replica) == yk_model_loss(model));
    yk_model_destroy(replica);
    yk_model_destroy(model);
}

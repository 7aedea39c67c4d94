/* Checkpoints that are written while the next steps run. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "parts.h"

/* A folder of this test; the name is that of a run. */
static const char *run_folder(const char *name)
{
    static char paths[2][256];
    static int next;
    char *path = paths[next++ % 2];
    snprintf(path, sizeof paths[0], "%s/%s", yk_test_directory(), name);
    return path;
}

static yk_status count_save(void *context, yk_trainer *trainer)
{
    (void)trainer;
    ++*(int *)context;
    return YK_OK;
}

/* Two epochs that save after every step and keep everything. */
static void train_into(const char *output, bool save_async, yk_group *group, int *saves)
{
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.group = group;
    options.epochs = 2;
    options.output = output;
    options.save_every = 1;
    options.save_async = save_async;
    options.keep = YK_KEEP_ALL;
    options.callbacks.context = saves;
    options.callbacks.on_save = count_save;
    parts p = create_parts(&options, 200);
    assert_ok(yk_trainer_fit(p.trainer));
    destroy_parts(p);
}

static void assert_same_folders(const char *a, const char *b)
{
    char output[1024];
    if (yk_test_command(output, sizeof output, "diff -r -x manifest.json %s %s", a, b) != 0)
        fail_msg("%s", output);
}

YK_TEST(every_file_is_that_of_a_save_in_the_foreground)
{
    int waited = 0, written = 0;
    const char *a = run_folder("a"), *b = run_folder("b");
    train_into(a, false, NULL, &waited);
    train_into(b, true, NULL, &written);
    assert_same_folders(a, b);
    assert_int_equal(waited, 20);
    assert_int_equal(written, 20);
}

static void save_on_ranks(int rank, int world)
{
    (void)world;
    yk_group *group;
    int waited = 0, written = 0;
    char a[512], b[512];
    assert_ok(yk_group_init(&group, NULL));
    snprintf(a, sizeof a, "%s/a", getenv("YK_TEST_RUN"));
    snprintf(b, sizeof b, "%s/b", getenv("YK_TEST_RUN"));
    train_into(a, false, group, &waited);
    train_into(b, true, group, &written);
    assert_int_equal(waited, 10);
    assert_int_equal(written, 10);
    assert_ok(yk_barrier(group));
    if (rank == 0)
        assert_same_folders(a, b);
    yk_group_destroy(group);
}

YK_TEST(ranks_agree_on_when_it_was_written)
{
    setenv("YK_TEST_RUN", yk_test_directory(), 0); /* the ranks inherit it */
    yk_test_ranks(2, save_on_ranks);
}

/* The folder of a run whose manifest cannot be written, which is found after the files are. */
static void block_manifest(const char *output)
{
    char path[300];
    snprintf(path, sizeof path, "%s/manifest.json", output);
    assert_int_equal(mkdir(output, 0777), 0);
    assert_int_equal(mkdir(path, 0777), 0);
    setenv("YOKE_LOG", "error", 1);
}

YK_TEST(a_failure_ends_a_later_step)
{
    bool finished = false;
    yk_status status = YK_OK;
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.epochs = YK_NEVER; /* the failure ends it, however late the saver comes to it */
    options.output = run_folder("run");
    options.save_async = true;
    block_manifest(options.output);
    parts p = create_parts(&options, 200);
    assert_ok(yk_trainer_step(p.trainer, NULL));
    assert_ok(yk_trainer_save(p.trainer));
    while (status == YK_OK && !finished) {
        usleep(1000);
        status = yk_trainer_step(p.trainer, &finished);
    }
    assert_status(YK_ERROR_IO, status);
    assert_contains(yk_last_error(), "manifest.json: is not a file");
    destroy_parts(p);
}

YK_TEST(a_failure_of_the_last_save_is_returned_by_wait)
{
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.output = run_folder("run");
    options.save_async = true;
    block_manifest(options.output);
    parts p = create_parts(&options, 200);
    assert_ok(yk_trainer_step(p.trainer, NULL));
    assert_ok(yk_trainer_wait(p.trainer)); /* nothing to wait for */
    assert_ok(yk_trainer_save(p.trainer));
    assert_status(YK_ERROR_IO, yk_trainer_wait(p.trainer));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_trainer_wait(NULL));
    destroy_parts(p);
}

YK_TEST(destroying_waits_for_the_file)
{
    char path[512];
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.output = run_folder("run");
    options.save_async = true;
    parts p = create_parts(&options, 200);
    assert_ok(yk_trainer_step(p.trainer, NULL));
    assert_ok(yk_trainer_save(p.trainer));
    destroy_parts(p);
    assert_ok(yk_checkpoint_dir_latest(options.output, path, sizeof path));
    assert_contains(path, "checkpoint-step-1.pth");
}

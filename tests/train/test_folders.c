/* Output folders that ranks do not share: each keeps the checkpoints that its host needs. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "parts.h"

/* The folder of a "host", below the folder that the parent of the ranks has made. */
static const char *host_folder(int host)
{
    static char paths[3][512];
    snprintf(paths[host], sizeof paths[0], "%s/host%d/run", getenv("YK_TEST_RUN"), host);
    return paths[host];
}

static void on_ranks(int world, void (*body)(int rank, int world))
{
    setenv("YK_TEST_RUN", yk_test_directory(), 0); /* the ranks inherit it */
    yk_test_ranks(world, body);
}

static yk_group *join_group(void)
{
    yk_group *group;
    setenv("YOKE_LOG", "error", 1); /* that folders are not shared is a warning */
    assert_ok(yk_group_init(&group, NULL));
    return group;
}

static bool has_resumed; /* in the last run */

/* Trains to so many epochs, resuming where there is something; the parts are the caller's. */
static parts train_to(int64_t epochs, const char *output, bool save_async, yk_group *group)
{
    yk_ddp *ddp;
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.group = group;
    options.epochs = epochs;
    options.output = output;
    options.save_every = 2;
    options.save_async = save_async;
    options.keep = 2;
    parts p = create_parts(&options, 200);
    assert_ok(yk_ddp_create(&ddp, p.model, group, NULL));
    if (output)
        assert_ok(yk_trainer_resume_latest(p.trainer, &has_resumed));
    assert_ok(yk_trainer_fit(p.trainer));
    yk_ddp_destroy(ddp);
    return p;
}

static void assert_same_checkpoints(int a, int b)
{
    char output[1024];
    if (yk_test_command(output, sizeof output, "diff -r -x model.pth %s %s", host_folder(a),
                        host_folder(b)) != 0)
        fail_msg("%s", output);
    assert_int_equal(
        yk_test_command(output, sizeof output, "ls -A %s | grep -c '^\\.\\|tmp'", host_folder(b)),
        1); /* no token, no temporary file */
}

static void assert_checkpoint(int host, const char *name)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", host_folder(host), name);
    assert_int_equal(access(path, R_OK), 0);
}

/* ---- saving ---------------------------------------------------------------------------------- */

static void save_in_two_folders(int rank, int world)
{
    (void)world;
    yk_group *group = join_group();
    destroy_parts(train_to(2, host_folder(rank), false, group));
    assert_ok(yk_barrier(group));
    assert_checkpoint(1, "checkpoint-2.pth");
    assert_same_checkpoints(0, 1);
    yk_group_destroy(group);
}

YK_TEST(each_folder_gets_a_copy)
{
    on_ranks(2, save_in_two_folders);
}

static void save_in_the_background(int rank, int world)
{
    (void)world;
    yk_group *group = join_group();
    destroy_parts(train_to(2, host_folder(rank), true, group));
    assert_ok(yk_barrier(group));
    assert_checkpoint(1, "checkpoint-2.pth");
    assert_same_checkpoints(0, 1);
    yk_group_destroy(group);
}

YK_TEST(each_folder_gets_a_copy_of_what_is_saved_in_the_background)
{
    on_ranks(2, save_in_the_background);
}

/* Ranks 1 and 2 share the second host; both would write the same file. */
static void share_the_second_host(int rank, int world)
{
    (void)world;
    char output[1024];
    yk_group *group = join_group();
    destroy_parts(train_to(1, host_folder(rank > 0), false, group));
    assert_ok(yk_barrier(group));
    assert_same_checkpoints(0, 1);
    assert_int_equal(
        yk_test_command(output, sizeof output, "ls -d %s/host* | wc -l", getenv("YK_TEST_RUN")), 0);
    assert_int_equal(atoi(output), 2);
    yk_group_destroy(group);
}

YK_TEST(one_rank_keeps_the_copies_of_its_host)
{
    on_ranks(3, share_the_second_host);
}

/* ---- resuming -------------------------------------------------------------------------------- */

/* Removes a host's folder, as if the host were new. */
static void lose_folder(int host, int rank, yk_group *group)
{
    char output[256];
    assert_ok(yk_barrier(group));
    if (rank == 0)
        yk_test_command(output, sizeof output, "rm -r %s", host_folder(host));
    assert_ok(yk_barrier(group));
}

static void resume_on_other_hosts(int rank, int world)
{
    (void)world;
    yk_group *group = join_group();
    parts whole = train_to(3, NULL, false, group);
    destroy_parts(train_to(1, host_folder(rank), false, group));
    lose_folder(0, rank, group);
    destroy_parts(train_to(2, host_folder(rank), false, group)); /* from the copy on host 1 */
    assert_ok(yk_barrier(group));
    assert_checkpoint(0, "checkpoint-2.pth");
    assert_true(has_resumed);
    assert_same_checkpoints(0, 1);
    lose_folder(1, rank, group);
    parts last = train_to(3, host_folder(rank), false, group);
    assert_true(has_resumed);
    assert_same_weights(&whole, &last);
    assert_ok(yk_barrier(group));
    assert_checkpoint(1, "checkpoint-3.pth");
    destroy_parts(last);
    destroy_parts(whole);
    yk_group_destroy(group);
}

YK_TEST(promise_15_a_run_resumes_on_the_hosts_that_are_left)
{
    on_ranks(2, resume_on_other_hosts);
}

static void find_nothing(int rank, int world)
{
    (void)world;
    yk_group *group = join_group();
    assert_ok(yk_checkpoint_dir_share(host_folder(rank), group));
    assert_ok(yk_checkpoint_dir_share(host_folder(0), group));
    assert_ok(yk_checkpoint_dir_share("/dev/null/folder", group)); /* the error is a save's */
    assert_ok(yk_checkpoint_dir_share(host_folder(0), NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_checkpoint_dir_share(NULL, group));
    yk_group_destroy(group);
}

YK_TEST(folders_without_checkpoints_have_nothing_to_share)
{
    on_ranks(2, find_nothing);
}

/* ---- files by which ranks show their folders ------------------------------------------------- */

static const char *token(const char *name)
{
    static char path[600];
    snprintf(path, sizeof path, "%s/%s", host_folder(0), name);
    return path;
}

/* So old that no rank can be looking any more, by the clock of the file system. */
static void leave_token(const char *name, time_t age_s)
{
    struct stat info;
    int fd = open(token(name), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &info), 0);
    const struct timespec times[2] = {{.tv_sec = info.st_mtime - age_s},
                                      {.tv_sec = info.st_mtime - age_s}};
    assert_int_equal(futimens(fd, times), 0);
    close(fd);
}

static void look_beside_tokens(int rank, int world)
{
    (void)world;
    yk_group *group = join_group();
    if (rank == 0) {
        char command[1024];
        yk_test_command(command, sizeof command, "mkdir -p %s", host_folder(0));
        leave_token(".yoke-0123456789abcdef-0", 7200);
        leave_token(".yoke-0123456789abcdef-12", 7200);
        leave_token(".yoke-0123456789abcdef-1", 60);    /* another rank may be looking */
        leave_token(".yoke-0123456789abcdef-1x", 7200); /* somebody else's */
    }
    assert_ok(yk_barrier(group));
    assert_ok(yk_checkpoint_dir_share(host_folder(0), group));
    if (rank == 0) {
        assert_int_not_equal(access(token(".yoke-0123456789abcdef-0"), F_OK), 0);
        assert_int_not_equal(access(token(".yoke-0123456789abcdef-12"), F_OK), 0);
        assert_int_equal(access(token(".yoke-0123456789abcdef-1"), F_OK), 0);
        assert_int_equal(access(token(".yoke-0123456789abcdef-1x"), F_OK), 0);
    }
    yk_group_destroy(group);
}

YK_TEST(files_that_killed_ranks_have_left_are_removed)
{
    on_ranks(2, look_beside_tokens);
}

static void look_without_rank_1(int rank, int world)
{
    (void)world;
    yk_group *group = join_group();
    if (rank == 1)
        _exit(0);
    char output[1024];
    assert_true(yk_checkpoint_dir_share(host_folder(0), group) != YK_OK);
    assert_int_equal(yk_test_command(output, sizeof output, "ls -A %s | wc -l", host_folder(0)), 0);
    assert_string_equal(output, "0\n");
    yk_group_destroy(group);
}

YK_TEST(a_look_that_fails_leaves_no_file)
{
    on_ranks(2, look_without_rank_1);
}

/* ---- folders that cannot be written to ------------------------------------------------------- */

static void refuse_a_folder(yk_group *group, const char *expected)
{
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.group = group;
    options.output = "/dev/null/run";
    parts p = create_parts(&options, 200);
    assert_status(YK_ERROR_IO, yk_trainer_fit(p.trainer));
    assert_contains(yk_last_error(), expected);
    assert_int_equal(yk_trainer_state(p.trainer)->step, 0);
    destroy_parts(p);
}

YK_TEST(a_folder_that_cannot_be_made_is_refused_before_the_first_step)
{
    refuse_a_folder(NULL, "/dev/null/run: cannot create the folder: Not a directory");
}

static void refuse_on_ranks(int rank, int world)
{
    (void)world;
    yk_group *group = join_group();
    refuse_a_folder(group, rank == 0 ? "/dev/null/run: cannot create the folder: Not a directory"
                                     : "/dev/null/run: rank 0 cannot create files there");
    yk_group_destroy(group);
}

YK_TEST(so_is_it_on_all_ranks)
{
    on_ranks(2, refuse_on_ranks);
}

/* What groups promise when ranks do not meet: some missing, one twice, many jobs at once. */
#define _GNU_SOURCE
#include "rank_lines.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- 8: missing ranks, and ranks too many ---------------------------------------------------- */

static void missing_body(int rank, int world)
{
    (void)world;
    char path[256];
    if (rank == 2 || rank == 3)
        return;
    snprintf(path, sizeof path, "%s/stderr-%d", getenv("YK_TEST_LINES"), rank);
    assert_non_null(freopen(path, "w", stderr));
    yk_group *group = NULL;
    yk_status status =
        yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.timeout_s = 4));
    leave_line(rank);
    exit(status == YK_ERROR_TIMEOUT ? 3 : 4);
}

YK_TEST(promise_08_missing_ranks_are_listed)
{
    int statuses[5];
    open_lines();
    yk_test_ranks_status(5, missing_body, statuses, NULL);
    assert_contains(text_of("stderr", 0), "still waiting for rank 2, 3 of 5");
    for (int r = 0; r < 5; r++) {
        if (r == 2 || r == 3)
            continue;
        assert_int_equal(WEXITSTATUS(statuses[r]), 3);
        assert_contains(line_of(r), "rank 2, 3 of 5 did not join within 4 s");
    }
}

static void no_rank_0_body(int rank, int world)
{
    (void)world;
    yk_group *group = NULL;
    if (rank == 0)
        return;
    assert_status(
        YK_ERROR_TIMEOUT,
        yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.timeout_s = 0.5)));
    assert_contains(yk_last_error(), "rank 0");
}

YK_TEST(promise_08_rank_0_is_missing)
{
    yk_test_ranks(2, no_rank_0_body);
}

static void twice_body(int rank, int world)
{
    yk_group *group = NULL;
    char method[64];
    snprintf(method, sizeof method, "tcp://127.0.0.1:%s", getenv("MASTER_PORT"));
    int claimed = rank == 2 ? 1 : rank;
    double start = yk_test_now();
    assert_status(YK_ERROR_MISMATCH,
                  yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT,
                                                o.init_method = method, o.rank = claimed,
                                                o.world_size = world, o.timeout_s = 30)));
    assert_contains(yk_last_error(), "rank 1 was claimed twice");
    assert_true(yk_test_now() - start < 10);
}

YK_TEST(rank_that_comes_twice)
{
    yk_test_ranks(3, twice_body);
}

YK_TEST(a_rank_beyond_its_world_is_refused_with_what_to_set)
{
    yk_group *group = NULL;
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.rank = 2,
                                                o.world_size = 2)));
    assert_contains(yk_last_error(), "rank 2 of a world of 2: RANK counts from 0, WORLD_SIZE from");
}

YK_TEST(init_methods_that_make_no_sense_are_refused_on_one_rank_too)
{
    static const char *const wrong[] = {"foo://127.0.0.1:29500", "tcp://127.0.0.1",
                                        "tcp://127.0.0.1:0", "file://relative"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        yk_group *group = NULL;
        assert_status(
            YK_ERROR_INVALID_ARGUMENT,
            yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT,
                                          o.init_method = wrong[i], o.world_size = 1, o.rank = 0)));
        assert_contains(yk_last_error(), wrong[i]);
    }
    yk_group *group;
    assert_ok(yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT,
                                            o.init_method = "tcp://127.0.0.1:29500",
                                            o.world_size = 1, o.rank = 0)));
    yk_group_destroy(group);
}

/* As PyTorch's init methods may end. Each process used to train alone, or to wait at a path of its
 * own. */
YK_TEST(an_init_method_with_a_query_is_refused)
{
    static const char *const wrong[] = {"env://?rank=1&world_size=2",
                                        "file:///tmp/meet?rank=1&world_size=2",
                                        "tcp://127.0.0.1:29500?rank=1&world_size=2"};
    for (int i = 0; i < 6; i++) {
        yk_group *group = NULL;
        yk_group_options options = YK_GROUP_OPTIONS_INIT;
        options.init_method = wrong[i / 2];
        options.timeout_s = 0.1;
        if (i % 2 == 1) {
            options.rank = 1;
            options.world_size = 2;
        }
        assert_status(YK_ERROR_INVALID_ARGUMENT, yk_group_init(&group, &options));
        assert_contains(yk_last_error(), "rank and world_size are given beside it");
    }
}

YK_TEST(without_a_rank_only_env_makes_a_group_of_one)
{
    static const char *const others[] = {"tcp://127.0.0.1:29500", "file:///tmp/meet"};
    yk_group *group = NULL;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_status(YK_ERROR_INVALID_ARGUMENT,
                      yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT,
                                                    o.init_method = others[i])));
        assert_contains(yk_last_error(), "set RANK and WORLD_SIZE");
    }
    assert_ok(yk_group_init(&group, NULL));
    assert_int_equal(yk_group_size(group), 1);
    yk_group_destroy(group);
}

/* ---- 9: many jobs at once -------------------------------------------------------------------- */

static void job_body(int rank, int world)
{
    (void)world;
    char method[256];
    yk_group *group = NULL;
    snprintf(method, sizeof method, "file://%s/job-%d", getenv("YK_TEST_LINES"), rank / 2);
    assert_ok(yk_group_init(&group,
                            YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.init_method = method,
                                    o.rank = rank % 2, o.world_size = 2)));
    int64_t sum = rank / 2;
    assert_ok(yk_all_reduce(group, &sum, 1, YK_I64, YK_REDUCE_SUM, NULL));
    assert_int_equal(sum, rank / 2 * 2);
    yk_group_destroy(group);
}

YK_TEST(promise_09_twenty_jobs_at_once)
{
    open_lines();
    yk_test_ranks(40, job_body);
}

/* torchrun's agent, here the test, holds MASTER_PORT and speaks another protocol there. */
static void torchrun_body(int rank, int world)
{
    (void)rank;
    setenv("MASTER_PORT", getenv("YK_TEST_AGENT_PORT"), 1);
    setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
    yk_group *group = join(20);
    int32_t one = 1;
    assert_ok(yk_all_reduce(group, &one, 1, YK_I32, YK_REDUCE_SUM, NULL));
    assert_int_equal(one, world);
    yk_group_destroy(group);
}

YK_TEST(port_held_by_torchruns_agent)
{
    yk_store_server *agent = NULL;
    int port = 0;
    char text[16];
    if (!getenv("YK_TEST_RANK")) {
        assert_ok(yk_store_serve(&agent, "127.0.0.1", &port, "another secret"));
        snprintf(text, sizeof text, "%d", port);
        setenv("YK_TEST_AGENT_PORT", text, 1);
    }
    yk_test_ranks(3, torchrun_body);
    yk_store_server_destroy(agent);
}

/* Leaves the file of an agent; old: one that was written two days ago. */
static void leave_agent_file(char path[256], pid_t agent, bool old)
{
    struct timespec times[2] = {{.tv_sec = time(NULL) - (old ? 2 * 86400 : 0)}};
    times[1] = times[0];
    snprintf(path, 256, "%s/yoke-torchrun-%u-%d-29500-0", yk_test_directory(), geteuid(),
             (int)agent);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* Rank 0 of another job was killed while it waited for the others. */
YK_TEST(files_of_agents_that_have_ended_are_removed)
{
    enum { NO_PROCESS = 1 << 30 }; /* larger than any process ID of Linux */
    char ended[256] = "", recent[256] = "", alive[256] = "";
    if (!getenv("YK_TEST_RANK")) {
        setenv("XDG_RUNTIME_DIR", yk_test_directory(), 1);
        leave_agent_file(ended, NO_PROCESS, true);
        leave_agent_file(recent, NO_PROCESS + 1, false);
        leave_agent_file(alive, getpid(), true);
        setenv("YK_TEST_AGENT_PORT", "29501", 1);
    }
    yk_test_ranks(2, torchrun_body);
    assert_int_equal(access(ended, F_OK), -1);
    assert_int_equal(access(recent, F_OK), 0);
    assert_int_equal(access(alive, F_OK), 0);
}

/* ---- wills ---------------------------------------------------------------------------------- */

/* Rank 1 ends without leaving its group. */
static void departing_body(int rank, int world)
{
    (void)world;
    setenv("MASTER_PORT", getenv("YK_TEST_STORE_PORT"), 1);
    setenv("YOKE_USE_LAUNCHER_STORE", "1", 1);
    setenv("YOKE_STORE_PREFIX", "attempt/1/", 1);
    yk_group *group = join(20);
    if (rank == 1)
        _exit(0);
    yk_group_destroy(group);
}

YK_TEST(the_store_learns_that_a_rank_is_gone)
{
    yk_store_server *server = NULL;
    yk_store *store;
    int port = 0;
    char text[128] = "";
    size_t used;
    bool found;
    if (!getenv("YK_TEST_RANK")) {
        assert_ok(yk_store_serve(&server, "127.0.0.1", &port, NULL));
        snprintf(text, sizeof text, "%d", port);
        setenv("YK_TEST_STORE_PORT", text, 1);
    }
    yk_test_ranks(2, departing_body);
    assert_ok(yk_store_connect(&store, "127.0.0.1", port, NULL, 5));
    assert_ok(yk_store_get(store, "attempt/1/gone/1", text, sizeof text - 1, &used, 10));
    assert_contains(text, " on host ");
    assert_ok(yk_store_check(store, "attempt/1/gone/0", &found));
    assert_false(found);
    yk_store_destroy(store);
    yk_store_server_destroy(server);
}

/* What a dead job left under the same path is no obstacle. */
YK_TEST(stale_rendezvous_file)
{
    open_lines();
    if (!getenv("YK_TEST_RANK"))
        leave_text("job", 0, "yoke-store 1 1 0123456789abcdef\n");
    yk_test_ranks(2, job_body);
}

/* ---- paths and addresses -------------------------------------------------------------------- */

static void expect_no_file(const char *path, const char *what)
{
    char method[300];
    struct stat before, after;
    snprintf(method, sizeof method, "file://%s", path);
    assert_int_equal(lstat(path, &before), 0);
    for (int rank = 0; rank < 2; rank++) {
        yk_group *group;
        assert_status(YK_ERROR_INVALID_ARGUMENT,
                      yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT,
                                                    o.init_method = method, o.rank = rank,
                                                    o.world_size = 2, o.timeout_s = 60)));
        assert_contains(yk_last_error(), path);
        assert_contains(yk_last_error(), what);
    }
    assert_int_equal(lstat(path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
}

YK_TEST(a_rendezvous_path_that_is_no_file_is_refused)
{
    char path[256];
    snprintf(path, sizeof path, "%s/fifo", yk_test_directory());
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_no_file(path, "a FIFO");
    expect_no_file(yk_test_directory(), "a folder");
    if (geteuid() != 0) /* which could have replaced it */
        expect_no_file("/dev/null", "a device");
}

static void brackets_body(int rank, int world)
{
    (void)rank;
    setenv("MASTER_ADDR", "[::1]", 1);
    yk_group *group = join(20);
    int32_t one = 1;
    assert_ok(yk_all_reduce(group, &one, 1, YK_I32, YK_REDUCE_SUM, NULL));
    assert_int_equal(one, world);
    yk_group_destroy(group);
}

YK_TEST(master_addr_may_be_an_ipv6_address_in_brackets)
{
    yk_store_server *server;
    int port = YK_PORT_ANY;
    if (!getenv("YK_TEST_RANK")) {
        if (yk_store_serve(&server, "::1", &port, NULL) != YK_OK)
            skip_because("no IPv6 here: %s", yk_last_error());
        yk_store_server_destroy(server);
    }
    yk_test_ranks(2, brackets_body);
}

/* The store across hosts: lost hosts are noticed on both sides, and addresses work. */
#define _GNU_SOURCE
#include "hosts.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "comm/job/rendezvous.h"

/* ---- a host that is cut off ------------------------------------------------------------------ */

static void await_file(const char *path)
{
    for (int i = 0; access(path, F_OK) != 0; i++) {
        assert_true(i < 3000);
        usleep(10000);
    }
}

static void leave_file(const char *path)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fclose(file);
}

/* Rank 1 sends nothing meanwhile: the keepalive packets alone have to find out. */
static void be_cut_off(int rank, int world)
{
    (void)world;
    yk_store_server *server;
    yk_store *store;
    int port = atoi(getenv("MASTER_PORT"));
    char text[64] = "";
    size_t used;
    setenv("YOKE_HEARTBEAT_TIMEOUT", "3", 1);
    if (rank == 0)
        assert_ok(yk_store_serve(&server, getenv("MASTER_ADDR"), &port, "s"));
    assert_ok(yk_store_connect(&store, getenv("MASTER_ADDR"), port, "s", 20));
    if (rank == 1) {
        assert_string_equal(yk_store_local_address(store), "10.77.0.2");
        assert_ok(yk_store_set_will(store, "gone/1", "rank 1", 6));
        leave_file(getenv("YK_TEST_READY"));
        assert_status(YK_ERROR_NETWORK, yk_store_wait(store, "never", 60));
        assert_contains(yk_last_error(), "is lost: Connection timed out");
    } else {
        assert_ok(yk_store_get(store, "gone/1", text, sizeof text - 1, &used, 60));
        assert_string_equal(text, "rank 1");
    }
    yk_store_destroy(store);
    if (rank == 0)
        yk_store_server_destroy(server);
}

static void cut_when_ready(void)
{
    await_file(getenv("YK_TEST_READY"));
    yk_test_cut(2);
}

YK_TEST(both_sides_notice_that_a_host_is_cut_off)
{
    char path[256];
    if (!getenv("YK_TEST_RANK")) {
        snprintf(path, sizeof path, "%s/ready", yk_test_directory());
        setenv("YK_TEST_READY", path, 1);
    }
    yk_test_host_ranks(2, 1, be_cut_off, NULL, cut_when_ready);
}

/* ---- addresses ------------------------------------------------------------------------------- */

static void expect_addresses(yki_job *job)
{
    int64_t left;
    for (int r = 0; r < job->world; r++)
        assert_string_equal(job->peers[r].address, r < 2 ? "10.77.0.1" : "10.77.0.2");
    assert_int_equal(job->local_rank, job->rank % 2);
    assert_int_equal(job->local_world, 2);
    assert_ok(yk_store_add(job->store, "test/left", 1, &left));
    while (job->rank == 0 && left < job->world) { /* rank 0 serves the store */
        usleep(1000);
        assert_ok(yk_store_add(job->store, "test/left", 0, &left));
    }
    yki_job_leave(job);
}

/* n1 means 127.0.1.1 to the ranks of n1, as Debian has it in /etc/hosts. */
YK_TEST_HOST_RANKS(a_host_that_calls_itself_127_0_1_1_is_reached, 2, 2)
{
    yki_job job;
    yk_group_options options = YK_GROUP_OPTIONS_INIT;
    setenv("MASTER_ADDR", "n1", 1);
    unsetenv("LOCAL_RANK");
    unsetenv("LOCAL_WORLD_SIZE");
    options.timeout_s = 20;
    assert_ok(yki_job_join(&job, &options));
    expect_addresses(&job);
}

/* The sum goes through the store, so that what is tested is the meeting and nothing else. */
YK_TEST_HOST_RANKS(two_hundred_and_fifty_six_ranks_of_eight_hosts_meet, 8, 32)
{
    yki_job job;
    yk_group_options options = YK_GROUP_OPTIONS_INIT;
    int64_t sum, left;
    options.timeout_s = 60;
    assert_ok(yki_job_join(&job, &options));
    assert_int_equal(job.hosts, 8);
    for (int r = 0; r < world; r++)
        assert_string_equal(job.peers[r].address, yk_test_address(1 + r / 32));
    assert_ok(yk_store_add(job.store, "test/sum", rank, &sum));
    assert_ok(yk_store_add(job.store, "test/left", 1, &left));
    while (rank == 0 && left < world) { /* rank 0 serves the store */
        usleep(1000);
        assert_ok(yk_store_add(job.store, "test/left", 0, &left));
    }
    if (rank == 0) {
        assert_ok(yk_store_add(job.store, "test/sum", 0, &sum));
        assert_int_equal(sum, world * (world - 1) / 2);
    }
    yki_job_leave(&job);
}

static void reduce_over_all(int rank, int world)
{
    yk_group *group;
    int64_t sum = rank;
    assert_ok(
        yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.timeout_s = 60)));
    assert_ok(yk_all_reduce(group, &sum, 1, YK_I64, YK_REDUCE_SUM, NULL));
    assert_int_equal(sum, world * (world - 1) / 2);
    yk_group_destroy(group);
}

YK_TEST(two_hundred_and_fifty_six_ranks_of_eight_hosts_reduce)
{
    if (!getenv("YK_TEST_LARGE"))
        skip_because("it takes 45 seconds of CPU time; YK_TEST_LARGE=1 runs it");
    yk_test_host_ranks(8, 32, reduce_over_all, NULL, NULL);
}

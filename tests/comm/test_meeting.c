/* What ranks learn of each other: addresses that work on other hosts, and who is missing. */
#define _GNU_SOURCE
#include "harness.h"
#include "outer_address.h"

#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/job/host.h"
#include "comm/job/rendezvous.h"

static void join(yki_job *job, const char *method)
{
    yk_group_options options = YK_GROUP_OPTIONS_INIT;
    options.init_method = method;
    options.timeout_s = 20;
    assert_ok(yki_job_join(job, &options));
}

/* Rank 0 serves the store, so it leaves last. */
static void leave(yki_job *job)
{
    int64_t left;
    assert_ok(yk_store_add(job->store, "test/left", 1, &left));
    while (job->rank == 0 && left < job->world) {
        usleep(1000);
        assert_ok(yk_store_add(job->store, "test/left", 0, &left));
    }
    yki_job_leave(job);
}

YK_TEST_RANKS(ranks_publish_the_address_of_their_connection, 2)
{
    yki_job job;
    join(&job, "env://");
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    for (int r = 0; r < world; r++) {
        assert_string_equal(job.peers[r].address, "127.0.0.1");
        assert_string_equal(job.peers[r].host, host);
    }
    assert_int_equal(job.peers[rank].pid, getpid());
    leave(&job);
}

/* Publishes the entries of both ranks as one of another version would. */
static void join_as_another_version(void)
{
    yk_store *store;
    char entries[1024];
    size_t used;
    assert_ok(yk_store_connect(&store, getenv("MASTER_ADDR"), atoi(getenv("MASTER_PORT")),
                               getenv("YOKE_SECRET"), 20));
    assert_ok(yk_store_get(store, "group/0/rank/0", entries, 512, &used, 20));
    used += (size_t)snprintf(entries + used, sizeof entries - used,
                             "\n2 machine2 n2 10.0.0.2 9.9.9-abc\n");
    assert_ok(yk_store_set(store, "group/0/ranks", entries, used));
    yk_store_destroy(store);
}

YK_TEST_RANKS(ranks_of_another_version_are_refused, 2)
{
    yki_job job;
    yk_group_options options = YK_GROUP_OPTIONS_INIT;
    options.timeout_s = 20;
    if (rank == 0) {
        assert_status(YK_ERROR_MISMATCH, yki_job_join(&job, &options));
        assert_contains(yk_last_error(), yk_build());
        assert_contains(yk_last_error(), "rank 1 on host n2 yoke 9.9.9-abc: all ranks need the "
                                         "same version");
    } else {
        join_as_another_version();
    }
}

/* The system lets a host have any name. */
YK_TEST_RANKS(names_of_hosts_with_spaces_do_not_shift_what_is_published, 2)
{
    setenv("YOKE_TEST_HOST", "my host|your\nhost", 1);
    yki_job job;
    join(&job, "env://");
    assert_string_equal(job.peers[0].host, "my?host");
    assert_string_equal(job.peers[1].host, "your?host");
    for (int r = 0; r < world; r++)
        assert_string_equal(job.peers[r].address, "127.0.0.1");
    leave(&job);
}

/* As pods may have. Where this process may not name a host, the own name must do. */
YK_TEST_RANKS(the_longest_names_of_hosts_are_known, 2)
{
    char host[HOST_NAME_MAX + 1];
    memset(host, 'a' + rank, HOST_NAME_MAX);
    if (unshare(CLONE_NEWUTS) || sethostname(host, HOST_NAME_MAX))
        gethostname(host, sizeof host);
    host[HOST_NAME_MAX] = '\0';
    yki_job job;
    join(&job, "env://");
    assert_string_equal(job.peers[rank].host, host);
    for (int r = 0; r < world; r++) {
        assert_int_equal(strlen(job.peers[r].host), strlen(host));
        assert_string_equal(job.peers[r].address, "127.0.0.1");
    }
    leave(&job);
}

/* Rank 0 reaches its own store through the loopback interface. */
static void corrected_body(int rank, int world)
{
    char outer[INET_ADDRSTRLEN], method[128];
    assert_true(find_outer_address(outer));
    snprintf(method, sizeof method, "tcp://%s:%s", rank == 0 ? "0.0.0.0" : outer,
             getenv("MASTER_PORT"));
    yki_job job;
    join(&job, method);
    for (int r = 0; r < world; r++)
        assert_string_equal(job.peers[r].address, outer);
    leave(&job);
}

YK_TEST(no_loopback_address_is_given_to_other_hosts)
{
    char outer[INET_ADDRSTRLEN];
    if (!find_outer_address(outer))
        skip_because("this host has only loopback addresses");
    yk_test_ranks(3, corrected_body);
}

YK_TEST_RANKS(the_environment_overrides_the_address, 2)
{
    setenv("YOKE_LOCAL_ADDR", rank ? "127.0.0.3" : "127.0.0.2", 1);
    yki_job job;
    join(&job, "env://");
    assert_string_equal(job.peers[0].address, "127.0.0.2");
    assert_string_equal(job.peers[1].address, "127.0.0.3");
    leave(&job);
    (void)world;
}

YK_TEST(an_interface_overrides_the_address)
{
    yki_peer me = {.address = ""};
    setenv("GLOO_SOCKET_IFNAME", "no-such-one,lo", 1);
    assert_ok(yki_host_address(&me, NULL));
    assert_string_equal(me.address, "127.0.0.1");
    setenv("YOKE_SOCKET_IFNAME", "no-such-one", 1);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yki_host_address(&me, NULL));
    assert_contains(yk_last_error(), "YOKE_SOCKET_IFNAME=no-such-one: this host has no such");
    assert_contains(yk_last_error(), "lo");
    setenv("YOKE_LOCAL_ADDR", "x..y", 1);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yki_host_address(&me, NULL));
    assert_contains(yk_last_error(), "YOKE_LOCAL_ADDR=x..y: ");
    for (int i = 0; i < 2; i++) {
        setenv("YOKE_LOCAL_ADDR", i ? "[::1]" : "::1", 1);
        assert_ok(yki_host_address(&me, NULL));
        assert_string_equal(me.address, "::1");
    }
}

YK_TEST(loopback_addresses_are_known)
{
    assert_true(yki_host_is_loopback("127.0.1.1"));
    assert_true(yki_host_is_loopback("::1"));
    assert_false(yki_host_is_loopback("10.77.0.1"));
    assert_false(yki_host_is_loopback("fe80::1%eth0"));
}

/* What rank 0 says while it joins. */
static const char *join_and_listen(yki_job *job, const char *method)
{
    static char said[4096];
    int ends[2], before = dup(STDERR_FILENO);
    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    join(job, method);
    dup2(before, STDERR_FILENO);
    close(before);
    close(ends[1]);
    ssize_t size = read(ends[0], said, sizeof said - 1);
    said[size > 0 ? size : 0] = '\0';
    close(ends[0]);
    return said;
}

static void expect_warning(bool expected, const char *host, const char *secret)
{
    yki_job job;
    char method[64];
    setenv("YOKE_SECRET", secret, 1);
    snprintf(method, sizeof method, "tcp://%s:%s", host, getenv("MASTER_PORT"));
    const char *said = join_and_listen(&job, method);
    assert_int_equal(strstr(said, "YOKE_SECRET is not set: any program") != NULL, expected);
    leave(&job);
}

/* Everybody may join a job without a secret, which matters where other hosts reach its port. */
YK_TEST_RANKS(promise_32_a_public_store_without_a_secret_is_warned_about, 2)
{
    expect_warning(rank == 0, "0.0.0.0", "");
    (void)world;
}

YK_TEST_RANKS(a_secret_needs_no_warning, 2)
{
    expect_warning(false, "0.0.0.0", "s3cret");
    (void)rank, (void)world;
}

YK_TEST_RANKS(a_store_of_one_machine_needs_no_warning, 2)
{
    expect_warning(false, "127.0.0.1", "");
    (void)rank, (void)world;
}

YK_TEST_RANKS(world_sizes_that_differ_are_named, 3)
{
    yk_group *group;
    char method[64];
    snprintf(method, sizeof method, "tcp://127.0.0.1:%s", getenv("MASTER_PORT"));
    assert_status(
        YK_ERROR_MISMATCH,
        yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT,
                                      o.init_method = method, o.rank = rank,
                                      o.world_size = rank == 2 ? 4 : world, o.timeout_s = 20)));
    assert_contains(yk_last_error(), "has world size");
}

/* Rank 0 was the last to come and was stopped before it told rank 1. */
YK_TEST(a_rank_that_does_not_tell_that_all_have_come_is_not_missing)
{
    static const char entry[] = "1 machine host 127.0.0.1";
    const char *secret = "of this test";
    char method[64];
    int port = YK_PORT_ANY;
    yk_store_server *server;
    yk_store *store;
    yk_group *group;
    setenv("YOKE_SECRET", secret, 1);
    assert_ok(yk_store_serve(&server, "127.0.0.1", &port, secret));
    assert_ok(yk_store_connect(&store, "127.0.0.1", port, secret, 10));
    assert_ok(yk_store_set(store, "group/0/rank/0", entry, sizeof entry - 1));
    snprintf(method, sizeof method, "tcp://127.0.0.1:%d", port);
    assert_status(YK_ERROR_TIMEOUT,
                  yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT,
                                                o.init_method = method, o.rank = 1,
                                                o.world_size = 2, o.timeout_s = 0.5)));
    assert_contains(yk_last_error(),
                    "all 2 ranks have joined, but the last of them did not confirm it");
    yk_store_destroy(store);
    yk_store_server_destroy(server);
}

/* As by a rank that asks a slow name service for its address, or died before it had it. */
YK_TEST(a_rank_that_comes_twice_is_named_before_the_first_has_an_entry)
{
    const char *secret = "of this test";
    char method[64];
    int port = YK_PORT_ANY;
    int64_t claims;
    yk_store_server *server;
    yk_store *store;
    yk_group *group;
    setenv("YOKE_SECRET", secret, 1);
    assert_ok(yk_store_serve(&server, "127.0.0.1", &port, secret));
    assert_ok(yk_store_connect(&store, "127.0.0.1", port, secret, 10));
    assert_ok(yk_store_add(store, "group/0/claim/1", 1, &claims));
    snprintf(method, sizeof method, "tcp://127.0.0.1:%d", port);
    assert_status(YK_ERROR_MISMATCH,
                  yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT,
                                                o.init_method = method, o.rank = 1,
                                                o.world_size = 2, o.timeout_s = 20)));
    assert_contains(yk_last_error(), "rank 1 was claimed twice, by another process and by pid ");
    bool found;
    assert_ok(yk_store_check(store, "group/0/conflict", &found));
    assert_true(found);
    yk_store_destroy(store);
    yk_store_server_destroy(server);
}

/* Rank 1 has reached the store through a loopback interface, so it is to find an address by which
 * rank 0 reaches it; meanwhile it is stopped, or dies. */
static void await_address(bool dies, yk_status expected, const char *text)
{
    static const char note[] = "pid 7 killed by signal 9";
    char method[64], entry[128];
    int size = snprintf(entry, sizeof entry, "7 machine host 127.0.0.1 %s", yk_build());
    int port = YK_PORT_ANY;
    int64_t joined;
    yk_store_server *server;
    yk_store *store;
    yk_group *group;
    setenv("YOKE_SECRET", "of this test", 1);
    setenv("YOKE_USE_LAUNCHER_STORE", "1", 1);
    setenv("YOKE_LOCAL_ADDR", "192.0.2.1", 1);
    assert_ok(yk_store_serve(&server, "127.0.0.1", &port, "of this test"));
    assert_ok(yk_store_connect(&store, "127.0.0.1", port, "of this test", 10));
    assert_ok(yk_store_set(store, "group/0/rank/1", entry, (size_t)size));
    assert_ok(yk_store_add(store, "group/0/joined", 1, &joined));
    if (dies)
        assert_ok(yk_store_set(store, "dead/1", note, sizeof note - 1));
    snprintf(method, sizeof method, "tcp://127.0.0.1:%d", port);
    assert_status(expected,
                  yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT,
                                                o.init_method = method, o.rank = 0,
                                                o.world_size = 2, o.timeout_s = dies ? 20 : 0.5)));
    assert_contains(yk_last_error(), text);
    yk_store_destroy(store);
    yk_store_server_destroy(server);
}

YK_TEST(a_rank_that_does_not_tell_its_address_is_named)
{
    await_address(false, YK_ERROR_TIMEOUT, "rank 1 did not publish its address within 0.5 s");
}

YK_TEST(promise_01_a_rank_that_dies_before_it_tells_its_address_is_named)
{
    await_address(true, YK_ERROR_PEER_FAILED,
                  "rank 1 ended before it joined: pid 7 killed by signal 9");
}

/* The launcher learns that rank 0 is the cause, even if it sees the end of rank 1 first. */
YK_TEST(promise_11_the_launcher_is_told_who_ended_before_it_joined)
{
    static const char note[] = "pid 7 killed by signal 9 (SIGKILL)";
    char method[64], text[256];
    int port = YK_PORT_ANY;
    size_t used;
    yk_store_server *server;
    yk_store *store;
    yk_group *group;
    setenv("YOKE_SECRET", "of this test", 1);
    setenv("YOKE_USE_LAUNCHER_STORE", "1", 1);
    assert_ok(yk_store_serve(&server, "127.0.0.1", &port, "of this test"));
    assert_ok(yk_store_connect(&store, "127.0.0.1", port, "of this test", 10));
    assert_ok(yk_store_set(store, "dead/0", note, sizeof note - 1));
    snprintf(method, sizeof method, "tcp://127.0.0.1:%d", port);
    assert_status(YK_ERROR_PEER_FAILED,
                  yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT,
                                                o.init_method = method, o.rank = 1,
                                                o.world_size = 2, o.timeout_s = 20)));
    assert_contains(yk_last_error(), "rank 0 ended before it joined: pid 7 killed by signal 9");
    assert_ok(yk_store_get(store, "failure", text, sizeof text - 1, &used, 0));
    text[used] = '\0';
    assert_int_equal(strtol(text, NULL, 10), 0);
    assert_contains(text, "rank 0 ended before it joined: pid 7 killed by signal 9");
    yk_store_destroy(store);
    yk_store_server_destroy(server);
}

/* Joins by this method and expects the launcher's store, or one of rank 0. */
static void join_beside_a_launcher(const char *method, bool in_launchers_store)
{
    yki_job job;
    join(&job, method);
    assert_int_equal(job.launcher, in_launchers_store);
    leave(&job);
}

/* The launcher's store is at YOKE_STORE_PORT; MASTER_PORT, where nothing listens, means it too. */
static void store_port_body(int rank, int world)
{
    char method[64];
    (void)rank;
    (void)world;
    setenv("YOKE_SECRET", "of this test", 1);
    setenv("YOKE_USE_LAUNCHER_STORE", "1", 1);
    setenv("YOKE_STORE_PREFIX", "env/", 1);
    join_beside_a_launcher("env://", true);
    snprintf(method, sizeof method, "tcp://127.0.0.1:%s", getenv("MASTER_PORT"));
    setenv("YOKE_STORE_PREFIX", "master/", 1);
    join_beside_a_launcher(method, true);
    snprintf(method, sizeof method, "tcp://127.0.0.1:%s", getenv("MASTER_PORT"));
    setenv("MASTER_PORT", "1", 1);
    join_beside_a_launcher(method, false);
}

YK_TEST(the_store_of_a_launcher_may_have_a_port_of_its_own)
{
    yk_store_server *server = NULL;
    if (!getenv("YK_TEST_RANK")) {
        char text[16];
        int port = YK_PORT_ANY;
        assert_ok(yk_store_serve(&server, "127.0.0.1", &port, "of this test"));
        snprintf(text, sizeof text, "%d", port);
        setenv("YOKE_STORE_PORT", text, 1);
    }
    yk_test_ranks(2, store_port_body);
    yk_store_server_destroy(server);
    setenv("YOKE_STORE_PORT", "many", 1);
    setenv("YOKE_USE_LAUNCHER_STORE", "1", 1);
    yk_group *group;
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT,
                                                o.init_method = "tcp://127.0.0.1:29500", o.rank = 0,
                                                o.world_size = 2)));
    assert_contains(yk_last_error(), "YOKE_STORE_PORT many: expected a port from 1 to 65535");
}

/* Many ranks of one machine: what each asks of the store does not grow with their number. */
YK_TEST_RANKS(sixty_four_ranks_meet, 64)
{
    yki_job job;
    join(&job, "env://");
    for (int r = 0; r < world; r++)
        assert_true(job.peers[r].pid > 0);
    assert_int_equal(job.peers[rank].pid, getpid());
    leave(&job);
}

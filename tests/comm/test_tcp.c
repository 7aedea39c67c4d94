/*
 * The tcp backend: how its ranks connect while strangers call and while a rank dies or is late. The
 * library calls this program's connect() and accept4(), in which a case does what it needs at the
 * very moment.
 */
#define _GNU_SOURCE
#include "clock.h"
#include "harness.h"

#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the moments ----------------------------------------------------------------------------- */

typedef struct listener {
    const struct sockaddr *address;
    socklen_t length;
} listener;

static void (*before_connect)(const listener *to); /* the higher of two ranks */
static void (*before_accept)(void);                /* the lower one */

/* An address of another rank, and not of the job's store. */
static bool is_of_rank(const struct sockaddr *address)
{
    const char *store = getenv("MASTER_PORT");
    in_port_t port = htons((in_port_t)(store ? atoi(store) : 0));
    return (address->sa_family == AF_INET &&
            ((const struct sockaddr_in *)address)->sin_port != port) ||
           (address->sa_family == AF_INET6 &&
            ((const struct sockaddr_in6 *)address)->sin6_port != port);
}

static bool is_for_ranks(int descriptor)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    return getsockname(descriptor, (struct sockaddr *)&address, &length) == 0 &&
           is_of_rank((struct sockaddr *)&address);
}

__attribute__((visibility("default"))) int connect(int descriptor, __CONST_SOCKADDR_ARG address,
                                                   socklen_t length)
{
    if (before_connect && is_of_rank(address.__sockaddr__))
        before_connect(&(listener){address.__sockaddr__, length});
    return (int)syscall(SYS_connect, descriptor, address.__sockaddr__, length);
}

__attribute__((visibility("default"))) int accept4(int descriptor, __SOCKADDR_ARG address,
                                                   socklen_t *length, int flags)
{
    if (before_accept && is_for_ranks(descriptor))
        before_accept();
    return (int)syscall(SYS_accept4, descriptor, address.__sockaddr__, length, flags);
}

static yk_status try_to_open(yk_group **group, double timeout_s)
{
    return yk_group_init(group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.backend = "tcp",
                                        o.timeout_s = timeout_s));
}

static void expect_ipv6(const listener *to)
{
    assert_int_equal(to->address->sa_family, AF_INET6);
    before_connect = NULL;
}

/* Reduces within the exchange of calls, and after it. */
static void reduce(yk_group *group)
{
    static const size_t counts[] = {1, 1000003};
    float *data = calloc(1000003, sizeof *data);
    assert_non_null(data);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < counts[round]; i++)
            data[i] = (float)(yk_group_rank(group) + (int)(i % 1009));
        assert_ok(yk_all_reduce(group, data, counts[round], YK_F32, YK_REDUCE_SUM, NULL));
        for (size_t i = 0; i < counts[round]; i++)
            assert_true(data[i] == (float)(1 + 2 * (int)(i % 1009)));
    }
    free(data);
}

/* ---- addresses ------------------------------------------------------------------------------- */

YK_TEST_RANKS(two_ranks_connect_over_ipv6, 2)
{
    yk_group *group;
    if (access("/proc/net/if_inet6", R_OK))
        skip_because("this machine has no IPv6");
    setenv("YOKE_LOCAL_ADDR", "::1", 1);
    before_connect = expect_ipv6;
    assert_ok(try_to_open(&group, 60));
    assert_true(rank == 0 || !before_connect);
    reduce(group);
    yk_group_destroy(group);
}

/* ---- strangers ------------------------------------------------------------------------------- */

enum { STRANGERS = 100 };

static int strangers[STRANGERS];

static int call_as_stranger(const listener *to)
{
    int descriptor = socket(to->address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(descriptor >= 0);
    assert_int_equal(syscall(SYS_connect, descriptor, to->address, to->length), 0);
    return descriptor;
}

/* They say nothing, half a greeting, a wrong one, or more than one. */
static void let_strangers_call(const listener *to)
{
    static const char told[40] = "what somebody says who does not know it";
    static const size_t lengths[] = {0, 8, 20, sizeof told};
    before_connect = NULL;
    for (int i = 0; i < STRANGERS; i++) {
        strangers[i] = call_as_stranger(to);
        size_t length = lengths[i % 4];
        if (length)
            assert_int_equal(send(strangers[i], told, length, MSG_NOSIGNAL), length);
    }
}

/* Rank 0 has let none of them in: it closes each, and sends it nothing. */
static void check_strangers_are_sent_away(void)
{
    for (int i = 0; i < STRANGERS; i++) {
        char byte;
        struct timeval limit = {.tv_sec = 20};
        setsockopt(strangers[i], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        ssize_t got = recv(strangers[i], &byte, 1, 0);
        assert_true(got == 0 || (got < 0 && errno == ECONNRESET));
        close(strangers[i]);
    }
}

YK_TEST_RANKS(strangers_do_not_get_in_and_hold_nobody_up, 2)
{
    yk_group *group;
    double start = yk_test_now();
    before_connect = let_strangers_call;
    assert_ok(try_to_open(&group, 60));
    assert_true(yk_test_now() - start < 20);
    if (rank == 1)
        check_strangers_are_sent_away();
    reduce(group);
    yk_group_destroy(group);
}

/* ---- deaths and delays ----------------------------------------------------------------------- */

static int count_descriptors(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

/* The other rank is at fault, which is noticed long before the time is over. */
static void check_it_is_named(const char *name)
{
    yk_group *group;
    double start = yk_test_now();
    int descriptors = count_descriptors();
    assert_status(YK_ERROR_PEER_FAILED, try_to_open(&group, 60));
    assert_contains(yk_last_error(), name);
    assert_true(yk_test_now() - start < 30);
    assert_int_equal(count_descriptors(), descriptors);
}

static void check_one_is_killed(int killed, void (*body)(int rank, int world))
{
    int statuses[2];
    yk_test_ranks_status(2, body, statuses, NULL);
    assert_true(WIFSIGNALED(statuses[killed]) && WTERMSIG(statuses[killed]) == SIGKILL);
    assert_int_equal(statuses[1 - killed], 0);
}

static void die(void)
{
    kill(getpid(), SIGKILL);
}

static void die_before_connecting(const listener *to __attribute__((unused)))
{
    die();
}

static void rank_1_dies(int rank, int world __attribute__((unused)))
{
    yk_group *group;
    before_connect = die_before_connecting;
    if (rank == 0)
        check_it_is_named("rank 1");
    else
        assert_ok(try_to_open(&group, 60));
}

YK_TEST(a_rank_killed_before_it_connects_is_named)
{
    check_one_is_killed(1, rank_1_dies);
}

/* Calls the other rank, and waits until it has closed the connection. */
static void call_until_it_is_gone(const listener *to)
{
    char byte;
    before_connect = NULL;
    int descriptor = call_as_stranger(to);
    while (recv(descriptor, &byte, 1, 0) > 0)
        ;
    close(descriptor);
}

/* Rank 0 is called, dies of it, and listens no more when rank 1 connects. */
static void rank_0_dies(int rank, int world __attribute__((unused)))
{
    yk_group *group;
    before_connect = call_until_it_is_gone;
    before_accept = die;
    if (rank == 1)
        check_it_is_named("rank 0");
    else
        assert_ok(try_to_open(&group, 60));
}

YK_TEST(a_rank_killed_while_it_listens_is_named)
{
    check_one_is_killed(0, rank_0_dies);
}

/* Its connection is made, and never taken. */
static void rank_0_dies_of_the_connection(int rank, int world __attribute__((unused)))
{
    yk_group *group;
    before_accept = die;
    if (rank == 1)
        check_it_is_named("rank 0");
    else
        assert_ok(try_to_open(&group, 60));
}

YK_TEST(a_rank_killed_when_it_is_connected_is_named)
{
    check_one_is_killed(0, rank_0_dies_of_the_connection);
}

static void come_too_late(const listener *to)
{
    call_until_it_is_gone(to);
    _exit(0);
}

YK_TEST_RANKS(a_rank_that_is_late_to_connect_is_named, 2)
{
    yk_group *group;
    before_connect = come_too_late;
    assert_status(YK_ERROR_TIMEOUT, try_to_open(&group, 2));
    assert_contains(yk_last_error(), "rank 1 did not take part");
}

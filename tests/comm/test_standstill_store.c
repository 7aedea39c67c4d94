/* Ranks that stand still, and the store: what they ask it, and what they say without it. */
#define _GNU_SOURCE
#include "harness.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/group_state.h"
#include "leave.h"

enum { STANDS_S = 1, LATE_S = 4, TIMEOUT_S = 4 };

static atomic_int questions; /* of this process, about what other ranks wait for */

static bool is_about(const struct iovec *part, const char *key)
{
    return part->iov_len > 0 && memmem(part->iov_base, part->iov_len, key, strlen(key)) != NULL;
}

typedef ssize_t sendmsg_function(int fd, const struct msghdr *message, int flags);

/* Takes the place of the C library's function. */
ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    sendmsg_function *real = (sendmsg_function *)dlsym(RTLD_NEXT, "sendmsg");
    for (size_t i = 0; i < message->msg_iovlen; i++)
        if (is_about(&message->msg_iov[i], "/standstill/") &&
            !is_about(&message->msg_iov[i], "/standstill/0"))
            atomic_fetch_add(&questions, 1);
    return real(fd, message, flags);
}

static yk_group *join(double timeout_s)
{
    yk_group *group = NULL;
    assert_ok(yk_group_init(
        &group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.timeout_s = timeout_s)));
    group->watched->job.timeout_s = 2 * STANDS_S;
    return group;
}

static int64_t count_changes(const yk_group *group)
{
    int64_t changes = 0;
    yki_fair_lock_take(group->job.lock);
    yk_status status = yk_store_add(group->job.store, "group/0/standstill", 0, &changes);
    yki_fair_lock_release(group->job.lock);
    assert_ok(status);
    return changes;
}

/* As while one evaluates, or writes a checkpoint. */
YK_TEST_RANKS(late_ranks_are_asked_about_once_for_each_change, 5)
{
    const int late = world - 2;
    yk_group *all = join(60);
    if (rank > 1)
        sleep(LATE_S);
    assert_ok(yk_barrier(all));
    if (rank == 0) {
        int64_t changes = count_changes(all);
        assert_in_range(changes, 1, 8);
        assert_in_range(atomic_load(&questions), late, (late + 1) * changes);
    }
    yk_test_await_all(all);
    yk_group_destroy(all);
}

/* ---- without the store ----------------------------------------------------------------------- */

static bool waits_in_vain(const yk_group *group)
{
    char text[YKI_ERROR_LINE];
    return yki_watch_standstill(group->job.watch, text, sizeof text);
}

/* A thread that has made no call before. */
static void *make_the_missing_call(void *copy)
{
    const yk_group *group = copy;
    while (!waits_in_vain(group))
        usleep(1000);
    yk_store_interrupt(group->job.store);
    while (!(yki_watch_lost(group->job.watch) > 0))
        usleep(1000);
    assert_ok(yk_barrier(copy));
    return NULL;
}

/* Rank 0 has waited in vain, goes on, and waits for rank 1 later. */
YK_TEST_RANKS(what_ranks_had_waited_for_is_no_reason_later, 2)
{
    (void)world;
    char done[256];
    pthread_t thread;
    float x = 1;
    yk_group *all = join(TIMEOUT_S), *copy;
    assert_ok(yk_group_duplicate(&copy, all));
    copy->watched->job.timeout_s = 2 * STANDS_S;
    snprintf(done, sizeof done, "%s/done", getenv("TMPDIR"));
    if (rank == 0)
        assert_int_equal(pthread_create(&thread, NULL, make_the_missing_call, copy), 0);
    else
        assert_ok(yk_barrier(copy));
    assert_ok(yk_all_reduce(all, &x, 1, YK_F32, YK_REDUCE_SUM, NULL));
    if (rank == 0) {
        pthread_join(thread, NULL);
        assert_status(YK_ERROR_TIMEOUT, yk_barrier(all));
        assert_contains(yk_last_error(), "timed out after 4 s: rank 1 did not take part");
        close(open(done, O_CREAT | O_WRONLY | O_CLOEXEC, 0666));
    }
    while (rank == 1 && access(done, F_OK))
        usleep(10000);
    yk_group_destroy(copy);
    yk_group_destroy(all);
}

/*
 * Counters that only grow, published by one rank and awaited by the others.
 *
 * A wait has four phases. If every rank has its own core, it polls for about as long as it takes to
 * fall asleep and be woken, and then polls in turns with sched_yield(). Otherwise it only yields.
 * At last it sleeps on a futex in slices of 20 ms, between which the group is asked whether to keep
 * waiting (a peer may have died, or the timeout expired). The number of cores does not tell
 * what else runs on them: other programs, other groups, threads of the peers. sched_yield() gives
 * the core to anything else that can run, and takes less than a microsecond if nothing can. A rank
 * therefore polls for long only on a core that would otherwise be idle.
 *
 * A publisher pays for a wake-up only if a rank sleeps: the exchange in yki_shm_publish and the
 * increment in sleep_on are both sequentially consistent, so either the publisher sees the sleeper
 * or the sleeper sees the value. So is the increment of a bell, on which a rank waits for any of
 * several messages.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/group_internal.h"
#include "comm/shm/shm.h"

#define LONGEST_YIELDS_S 5e-3

enum {
    POLLS = 300,   /* without a pause: the peer is expected soon */
    PAUSES = 4000, /* about 0.1 to 0.2 ms */
    TURNS = 300,   /* of pauses and a yield: together 0.7 to 1 ms, if nobody takes the core */
    PAUSES_OF_A_TURN = 64,
    YIELDS = 200,
    PATIENT_PAUSES = 100, /* on the communication thread, which shares a core with computation */
    PATIENT_YIELDS = 2,
    SLICE_NS = 20 * 1000 * 1000
};

static inline void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void yki_shm_publish(shm_backend *shm, shm_counter *counter, uint32_t value)
{
    atomic_exchange(counter, value);
    if (atomic_load(&shm->me->sleepers) > 0)
        syscall(SYS_futex, counter, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void yki_shm_ring(shm_backend *shm, int rank)
{
    shm_rank *other = shm->ranks[rank];
    atomic_fetch_add(&other->bell, 1);
    if (atomic_load(&other->sleepers) > 0)
        syscall(SYS_futex, &other->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void sleep_on(shm_backend *shm, int rank, shm_counter *counter, uint32_t target)
{
    shm_counter *sleepers = &shm->ranks[rank]->sleepers;
    atomic_fetch_add(sleepers, 1);
    uint32_t now = atomic_load(counter);
    if ((int32_t)(now - target) < 0)
        syscall(SYS_futex, counter, FUTEX_WAIT, now, &(struct timespec){.tv_nsec = SLICE_NS}, NULL,
                0);
    atomic_fetch_sub(sleepers, 1);
}

/* A rank that has rung the bell is not missing, although its message is read after the wait. */
static bool missing(const void *argument, int rank)
{
    const shm_wait *wait = argument;
    if (wait->missing)
        return !yki_shm_reached(wait->counter(wait, wait->only), wait->target) &&
               wait->missing(wait, rank);
    if (rank == wait->shm->rank || (wait->only >= 0 && rank != wait->only))
        return false;
    return !yki_shm_reached(wait->counter(wait, rank), wait->target);
}

static bool pause_for(const shm_wait *wait, shm_counter *counter, int pauses)
{
    for (; pauses > 0; pauses--) {
        pause_briefly();
        if (yki_shm_reached(counter, wait->target))
            return true;
    }
    return false;
}

static bool poll_for(const shm_wait *wait, shm_counter *counter, int pauses)
{
    for (int i = 0; i < POLLS; i++)
        if (yki_shm_reached(counter, wait->target))
            return true;
    return pause_for(wait, counter, pauses);
}

static bool yield_for(const shm_wait *wait, shm_counter *counter, int yields, int pauses)
{
    double until = yki_now() + LONGEST_YIELDS_S; /* on a crowded machine each takes long */
    for (; yields > 0 && yki_now() < until; yields--) {
        sched_yield();
        if (yki_shm_reached(counter, wait->target) || pause_for(wait, counter, pauses))
            return true;
    }
    return false;
}

static bool poll_briefly(const shm_wait *wait, shm_counter *counter)
{
    const bool spin = wait->shm->spin;
    if (wait->shm->background)
        return (spin && poll_for(wait, counter, PATIENT_PAUSES)) ||
               yield_for(wait, counter, PATIENT_YIELDS, 0);
    if (spin)
        return poll_for(wait, counter, PAUSES) || yield_for(wait, counter, TURNS, PAUSES_OF_A_TURN);
    return yield_for(wait, counter, YIELDS, 0);
}

/* Tells the ranks that arrive later. Only the first reason counts. */
static yk_status give_up(const shm_backend *shm, yk_status status)
{
    shm_header *header = shm->header;
    int before = SHM_GOES_ON;
    if (!atomic_compare_exchange_strong(&header->given_up, &before, SHM_GIVING_UP))
        return status;
    header->status = (int)status;
    snprintf(header->reason, sizeof header->reason, "%s",
             yki_group_failure_text(shm->site->context));
    atomic_store(&header->given_up, SHM_GIVEN_UP);
    return status;
}

/* What another rank does after it has let this one go on is no mismatch: the counter, which is read
 * again last, has been reached by then. */
static bool is_hopeless(const shm_wait *wait, shm_counter *counter)
{
    yk_mismatch found;
    if (!wait->hopeless || !wait->hopeless(wait, &found) || yki_shm_reached(counter, wait->target))
        return false;
    wait->call->mismatch = found;
    return true;
}

static yk_status wait_long(const shm_wait *wait, int rank, shm_counter *counter)
{
    shm_backend *shm = wait->shm;
    if (poll_briefly(wait, counter))
        return YK_OK;
    for (double next_look = 0;;) {
        sleep_on(shm, rank, counter, wait->target);
        if (yki_shm_reached(counter, wait->target)) {
            if (wait->call)
                wait->call->met_s = yki_now();
            return YK_OK;
        }
        if (is_hopeless(wait, counter))
            return YK_ERROR_MISMATCH;
        double now = yki_now();
        if (now < next_look)
            continue; /* the wake-up was for another waiter */
        next_look = now + 1e-9 * SLICE_NS;
        yk_status status = shm->site->look(shm->site->context, missing, wait);
        if (status != YK_OK)
            return give_up(shm, status);
    }
}

/*
 * A rank that arrives after others have given up must not take their published lines for their
 * presence. It gets the reason of the first of them, who may have ended since.
 */
yk_status yki_shm_check_given_up(const shm_backend *shm)
{
    const shm_header *header = shm->header;
    if (atomic_load_explicit(&header->given_up, memory_order_relaxed) == SHM_GOES_ON)
        return YK_OK;
    for (int naps = 0; naps < 100 && atomic_load(&header->given_up) != SHM_GIVEN_UP; naps++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    if (atomic_load(&header->given_up) != SHM_GIVEN_UP)
        return yki_error(YK_ERROR_NETWORK, "another rank has given up the group");
    return yki_group_adopt_failure(shm->site->context, (yk_status)header->status, header->reason);
}

yk_status yki_shm_wait_for(const shm_wait *wait)
{
    int first = wait->only >= 0 ? wait->only : 0;
    int last = wait->only >= 0 ? wait->only : wait->shm->world - 1;
    for (int r = first; r <= last; r++) {
        shm_counter *counter = wait->counter(wait, r);
        if (!yki_shm_reached(counter, wait->target))
            YK_TRY(wait_long(wait, r, counter));
    }
    return YK_OK;
}

static shm_counter *step_of(const shm_wait *wait, int rank)
{
    return &wait->shm->ranks[rank]->step;
}

yk_status yki_shm_step(shm_backend *shm)
{
    yki_shm_publish(shm, &shm->me->step, ++shm->step);
    return yki_shm_wait_for(
        &(shm_wait){.shm = shm, .counter = step_of, .target = shm->step, .only = -1});
}

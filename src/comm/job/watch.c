/*
 * While a group waits, the watch reads three things every 100 ms: the group's failure, which ranks
 * have left it (keys left/RANK), and, in a job of several hosts, which ranks are gone (the last
 * wills gone/RANK). Once the store is lost, it asks nothing more; groups on one machine do not need
 * it, because the kernel tells of deaths.
 *
 * It also publishes the training step of this rank (key step/RANK) once a second, if it has
 * changed, so that a step sends nothing itself.
 *
 * While groups wait for long, it finds out whether ranks wait for each other in different groups.
 *
 * Records of failures are written here too, and what the launcher is to know. If the store does not
 * answer, the group reports what it has found by itself.
 */
#define _GNU_SOURCE
#include "comm/job/watch.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "comm/job/standstill.h"
#include "comm/store/client.h"

#define PERIOD_S 0.1
#define AWAKE_S  0.3  /* a group that has not asked for so long rests, if its end is not told */
#define ANSWER_S 2.5  /* how long a rank waits for its record to be written */
#define LINGER_S 0.25 /* the process that serves the store gives the others time to read it */
#define LEAVE_S  1.0  /* how long the store is served for ranks that have not left yet */
#define STUCK_S  0.5  /* how long a request may take when nobody needs its answer any more */
#define STEP_S   1.0  /* between two looks at the training step */
#define STAND_S  0.5  /* between two looks at whether the rank stands still, while a group waits */

enum { NO_STEP = -1 };
enum { KEYS = 64 << 10 }; /* bytes of the keys of a part, beside those that each rank has */
enum { KEY_ROOM = 32 };   /* of a key as yk_store_list writes it, without the group's prefix */

struct yki_watch {
    const yki_job *job; /* of all ranks */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool started, stopping;
    yki_watched *first;
    bool working;        /* the thread asks the store, without the lock */
    atomic_llong step;   /* the training step of this rank; NO_STEP: none was noted */
    long long told_step; /* what the store says */
    double step_read;    /* when step was last looked at */
    bool saves;          /* the launcher is to be told that a checkpoint is being written, */
    yki_failure cause;   /* and this, if it has a status */
    yki_standstill standstill;
    atomic_bool *gone; /* [world of the job] */
    /* Not beside `saves`, which compilers read together with its neighbours, without care. */
    atomic_bool batches; /* this rank has begun to take batches */
    atomic_bool is_lost;
    double lost;                 /* valid once is_lost is set, */
    bool was_closed, was_silent; /* and so are these */
    char *keys;                  /* scratch for lists: as the store returns them, */
    size_t keys_size;
    bool *listed; /* [world of the job] and which ranks are in them */
};

/* ---- reading the store ----------------------------------------------------------------------- */

static void note_loss(yki_watch *watch, yk_status status)
{
    if (status != YK_ERROR_NETWORK || atomic_load(&watch->is_lost))
        return;
    watch->lost = yki_now();
    yki_fair_lock_take(watch->job->lock);
    watch->was_closed = yki_store_was_closed(watch->job->store);
    watch->was_silent = yki_store_was_silent(watch->job->store);
    yki_fair_lock_release(watch->job->lock);
    atomic_store(&watch->is_lost, true);
}

/* Notes in watch->listed which ranks have a key PREFIX/RANK; false if the store does not tell. */
static bool list_ranks(yki_watch *watch, const char *prefix, int world)
{
    size_t used;
    yki_fair_lock_take(watch->job->lock);
    yk_status status =
        yk_store_list(watch->job->store, prefix, watch->keys, watch->keys_size, &used);
    yki_fair_lock_release(watch->job->lock);
    note_loss(watch, status);
    if (status != YK_OK)
        return false;
    memset(watch->listed, 0, (size_t)world * sizeof *watch->listed);
    for (const char *key = watch->keys; key < watch->keys + used; key += strlen(key) + 1) {
        int rank = atoi(key + strlen(prefix));
        if (rank >= 0 && rank < world)
            watch->listed[rank] = true;
    }
    return true;
}

/* Sets the flags of the ranks that have a key PREFIX/RANK. */
static void read_flags(yki_watch *watch, const char *prefix, atomic_bool *flags, int world)
{
    if (!list_ranks(watch, prefix, world))
        return;
    for (int r = 0; r < world; r++)
        if (watch->listed[r])
            atomic_store(&flags[r], true);
}

/* Makes the failure final. Called without the lock. */
static void conclude(yki_watch *watch, yki_watched *watched, const yki_failure *failure)
{
    if (watch->job->server && !atomic_load(&watch->is_lost))
        nanosleep(&(struct timespec){.tv_nsec = (long)(1e9 * LINGER_S)}, NULL);
    pthread_mutex_lock(&watch->lock);
    if (!atomic_load(&watched->failed)) {
        watched->failure = *failure;
        atomic_store(&watched->failed, true);
    }
    watched->proposed = false;
    pthread_cond_broadcast(&watch->changed);
    pthread_mutex_unlock(&watch->lock);
}

/* What a rank has done for this one is known before its departure is. */
static void read_departures(yki_watch *watch, yki_watched *watched)
{
    char prefix[YKI_JOB_KEY];
    const yki_job *job = &watched->job;
    yki_job_key(job, prefix, sizeof prefix, "left/", -1);
    if (!list_ranks(watch, prefix, job->world))
        return;
    for (int r = 0; r < job->world; r++) {
        uint64_t sent, received;
        if (!watch->listed[r] || atomic_load(&watched->left[r]))
            continue;
        note_loss(watch, yki_messages_read(job, r, &sent, &received));
        atomic_store(&watched->last_messages[r], sent);
        atomic_store(&watched->last_messages[job->world + r], received);
        atomic_store(&watched->left[r], true);
    }
}

/* Other threads read the flags at any time, also while the store is asked. */
static void read_waits(yki_watch *watch, yki_watched *watched)
{
    char prefix[YKI_JOB_KEY];
    const yki_job *job = &watched->job;
    yki_job_key(job, prefix, sizeof prefix, "waiting/", -1);
    if (!list_ranks(watch, prefix, job->world))
        return;
    for (int r = 0; r < job->world; r++)
        atomic_store(&watched->waits[r], watch->listed[r]);
}

static void read_group(yki_watch *watch, yki_watched *watched, const yki_waiting *waiting)
{
    yki_failure failure;
    const yki_job *job = &watched->job;
    note_loss(watch, yki_failure_read(job, &failure));
    if (failure.status != YK_OK) {
        conclude(watch, watched, &failure);
        return;
    }
    read_departures(watch, watched);
    if (watch->job->hosts > 1)
        read_flags(watch, "gone/", watch->gone, watch->job->world);
    yki_waiting_publish(job, &watched->told, waiting);
    if (waiting->active)
        read_waits(watch, watched);
    if (yki_waiting_is_hopeless(job, &watched->told, &failure)) {
        yki_failure_record(job, &failure);
        conclude(watch, watched, &failure);
    }
}

static void record_failure(yki_watch *watch, yki_watched *watched, yki_failure failure)
{
    if (watched->dead >= 0)
        yki_death_words(&watched->job, watched->dead, atomic_load(&watch->batches), failure.text,
                        sizeof failure.text);
    if (!atomic_load(&watch->is_lost))
        yki_failure_record(&watched->job, &failure);
    conclude(watch, watched, &failure);
}

/* ---- goodbyes -------------------------------------------------------------------------------- */

/* Requires the lock of the store. What fails here is only what is left in the store. */
static void delete_keys(const yki_job *job)
{
    char prefix[YKI_JOB_KEY];
    size_t size = KEYS + (size_t)job->world * KEY_ROOM, used = 0;
    char *keys = yki_calloc(size, 1);
    yki_job_key(job, prefix, sizeof prefix, "", -1);
    if (keys && yk_store_list(job->store, prefix, keys, size, &used) == YK_OK)
        for (const char *key = keys; key < keys + used; key += strlen(key) + 1)
            yk_store_delete(job->store, key, NULL);
    free(keys);
}

/* A job may make and destroy parts for days: the last rank that leaves one deletes its keys. */
static void say_goodbye(yki_watch *watch, const yki_watched *watched)
{
    char key[YKI_JOB_KEY], count_key[YKI_JOB_KEY];
    int64_t count;
    const yki_job *job = &watched->job;
    if (atomic_load(&watch->is_lost) || atomic_load(&watched->failed))
        return;
    yki_job_key(job, key, sizeof key, "left", job->rank);
    yki_job_key(job, count_key, sizeof count_key, "departures", -1);
    note_loss(watch, yki_messages_publish(job, watched->messages));
    yki_fair_lock_take(job->lock);
    yk_status status = yk_store_set(job->store, key, "", 0);
    if (!watched->is_whole && status == YK_OK &&
        yk_store_add(job->store, count_key, 1, &count) == YK_OK && count == job->world)
        delete_keys(job);
    yki_fair_lock_release(job->lock);
    note_loss(watch, status);
}

static void free_watched(yki_watched *watched)
{
    free(watched->left);
    free(watched->messages);
    free(watched->job.peers);
    free(watched);
}

/* With the lock. */
static void forget(yki_watch *watch, yki_watched *watched)
{
    yki_watched **at = &watch->first;
    while (*at != watched)
        at = &(*at)->next;
    *at = watched->next;
    free_watched(watched);
}

static bool any_leaving(const yki_watch *watch)
{
    const yki_watched *at = watch->first;
    while (at && !at->leaving)
        at = at->next;
    return at != NULL;
}

/* ---- the thread ------------------------------------------------------------------------------ */

static bool asked_lately(const yki_watched *watched, double now)
{
    return watched->asked > 0 && now - watched->asked < AWAKE_S;
}

/* A thread that waits may itself wait for a core for longer than that. */
static bool still_waits(const yki_watched *watched, double now)
{
    return watched->waiting.active && watched->waiting.end_is_told ? atomic_load(&watched->holds)
                                                                   : asked_lately(watched, now);
}

/* When there is something to do for this group; a moment in the past means now. The goodbye to all
 * ranks comes before those to parts, which only tidy up. */
static double due(const yki_watch *watch, const yki_watched *watched, double now)
{
    if (watched->proposed || watched->leaving)
        return watched->is_whole ? -1 : 0;
    bool tells =
        asked_lately(watched, now) || still_waits(watched, now) || watched->told.published.active;
    if (!tells || atomic_load(&watched->failed) || atomic_load(&watch->is_lost))
        return now + 3600;
    return watched->read + PERIOD_S;
}

/* When the training step is to be published. */
static double step_due(const yki_watch *watch, double now)
{
    bool any = atomic_load(&watch->step) != NO_STEP && !atomic_load(&watch->is_lost);
    return any ? watch->step_read + STEP_S : now + 3600;
}

/* The first group with something to do before *when, and the moment; NULL where there is none. */
static yki_watched *most_urgent(const yki_watch *watch, double now, double *when)
{
    yki_watched *urgent = NULL;
    for (yki_watched *at = watch->first; at; at = at->next) {
        double moment = due(watch, at, now);
        if (moment < *when) {
            urgent = at;
            *when = moment;
        }
    }
    return urgent;
}

static void sleep_until(yki_watch *watch, double moment)
{
    struct timespec at = {.tv_sec = (time_t)moment};
    at.tv_nsec = (long)(1e9 * (moment - (double)at.tv_sec));
    pthread_cond_timedwait(&watch->changed, &watch->lock, &at);
}

static void begin_request(yki_watch *watch)
{
    watch->working = true;
    pthread_mutex_unlock(&watch->lock);
}

static void end_request(yki_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    watch->working = false;
    pthread_cond_broadcast(&watch->changed);
}

static void serve(yki_watch *watch, yki_watched *watched, double now)
{
    watched->read = now;
    bool proposed = watched->proposed, leaves = watched->leaving && !proposed;
    yki_failure failure = watched->failure;
    yki_waiting waiting = watched->waiting;
    waiting.active = waiting.active && still_waits(watched, now);
    begin_request(watch);
    if (proposed)
        record_failure(watch, watched, failure);
    else if (leaves)
        say_goodbye(watch, watched);
    else
        read_group(watch, watched, &waiting);
    end_request(watch);
    if (leaves)
        forget(watch, watched);
}

static void publish_step(yki_watch *watch, double now)
{
    const yki_job *job = watch->job;
    char key[YKI_JOB_KEY], text[24];
    long long step = atomic_load(&watch->step);
    watch->step_read = now;
    if (step == watch->told_step)
        return;
    watch->told_step = step;
    yki_job_key(job, key, sizeof key, "step", job->rank);
    int size = snprintf(text, sizeof text, "%lld", step);
    begin_request(watch);
    yki_fair_lock_take(job->lock);
    yk_status status = yk_store_set(job->store, key, text, (size_t)size);
    yki_fair_lock_release(job->lock);
    note_loss(watch, status);
    end_request(watch);
}

/* When it is to be looked at whether this rank stands still. */
static double standstill_due(const yki_watch *watch, double now)
{
    bool any = watch->standstill.told[0];
    for (const yki_watched *at = watch->first; at && !any; at = at->next)
        any = atomic_load(&at->holds);
    return any && !atomic_load(&watch->is_lost) ? watch->standstill.read + STAND_S : now + 3600;
}

static void look_for_standstill(yki_watch *watch, double now)
{
    char text[YKI_STANDSTILL], found[YKI_LOST];
    watch->standstill.read = now;
    yki_standstill_describe(text, watch->first);
    if (!text[0] && !watch->standstill.told[0])
        return;
    begin_request(watch);
    yki_standstill_publish(watch->job, &watch->standstill, text);
    yki_standstill_find(found, watch->job, &watch->standstill);
    end_request(watch);
    memcpy(watch->standstill.found, found, sizeof found);
    snprintf(watch->standstill.waits, sizeof text, "%s", text);
}

static bool has_news(const yki_watch *watch)
{
    return watch->saves || watch->cause.status != YK_OK;
}

static void tell_launcher(yki_watch *watch)
{
    const yki_job *job = watch->job;
    bool saves = watch->saves;
    yki_failure cause = watch->cause;
    watch->saves = false;
    watch->cause.status = YK_OK;
    begin_request(watch);
    if (saves && !atomic_load(&watch->is_lost)) {
        yki_fair_lock_take(job->lock);
        yk_status status = yk_store_set(job->store, "saving", "", 0);
        yki_fair_lock_release(job->lock);
        note_loss(watch, status);
    }
    if (cause.status != YK_OK && !atomic_load(&watch->is_lost))
        yki_failure_report(job, &cause);
    end_request(watch);
}

static void *run(void *argument)
{
    yki_watch *watch = argument;
    pthread_mutex_lock(&watch->lock);
    while (!watch->stopping) {
        double now = yki_now(), step = step_due(watch, now), stand = standstill_due(watch, now);
        double when = step < stand ? step : stand;
        yki_watched *urgent = most_urgent(watch, now, &when);
        if (has_news(watch))
            tell_launcher(watch);
        else if (when > now)
            sleep_until(watch, when);
        else if (urgent)
            serve(watch, urgent, now);
        else if (stand <= now)
            look_for_standstill(watch, now);
        else
            publish_step(watch, now);
    }
    pthread_mutex_unlock(&watch->lock);
    return NULL;
}

/* With the lock. Without a thread the group relies on what it sees by itself. */
static void start(yki_watch *watch)
{
    if (!watch->started)
        watch->started = yki_thread_create(&watch->thread, "yoke-watch", NULL, run, watch) == 0;
}

/*
 * Waits, with the lock held, until the thread has nothing left to do. This process does not need
 * the store any more, so a request that gets no answer is interrupted, and the connection is lost;
 * what was sent still arrives. The store that this process serves itself always answers in the end.
 */
static void await_idle(yki_watch *watch)
{
    double patience = yki_now() + STUCK_S;
    while (watch->working || has_news(watch) || any_leaving(watch)) {
        sleep_until(watch, patience);
        if (yki_now() < patience)
            continue;
        if (!watch->job->server)
            yk_store_interrupt(watch->job->store);
        patience = yki_now() + STUCK_S;
    }
}

/* ---- for the job ----------------------------------------------------------------------------- */

static void free_watch(yki_watch *watch)
{
    pthread_cond_destroy(&watch->changed);
    pthread_mutex_destroy(&watch->lock);
    free(watch->gone);
    free(watch->keys);
    free(watch->listed);
    free(watch);
}

yk_status yki_watch_create(yki_watch **watch, const yki_job *job)
{
    *watch = NULL;
    yki_watch *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "the watch of a job");
    pthread_mutex_init(&made->lock, NULL);
    yki_cond_init(&made->changed);
    made->job = job;
    made->told_step = NO_STEP;
    atomic_init(&made->step, NO_STEP);
    made->keys_size = (size_t)job->world * (KEY_ROOM + YKI_JOB_PREFIX);
    made->keys = yki_calloc(made->keys_size, 1);
    made->gone = yki_calloc((size_t)job->world, sizeof *made->gone);
    made->listed = yki_calloc((size_t)job->world, sizeof *made->listed);
    if (!made->keys || !made->gone || !made->listed) {
        free_watch(made);
        return yki_error_memory((size_t)job->world, "the watch of a job");
    }
    *watch = made;
    return YK_OK;
}

void yki_watch_destroy(yki_watch *watch)
{
    if (!watch)
        return;
    if (watch->started) {
        pthread_mutex_lock(&watch->lock);
        watch->stopping = true;
        pthread_cond_broadcast(&watch->changed);
        await_idle(watch);
        pthread_mutex_unlock(&watch->lock);
        pthread_join(watch->thread, NULL);
    }
    free_watch(watch);
}

bool yki_watch_gone(const yki_job *job, int rank)
{
    const yki_peer *peer = &job->peers[rank];
    return peer->remote ? atomic_load(&job->watch->gone[peer->job_rank]) : yki_peer_ended(peer);
}

double yki_watch_lost(const yki_watch *watch)
{
    return atomic_load(&watch->is_lost) ? watch->lost : 0;
}

void yki_watch_note_step(yki_watch *watch, int64_t step)
{
    if (atomic_exchange(&watch->step, step) != NO_STEP)
        return;
    pthread_mutex_lock(&watch->lock);
    start(watch);
    pthread_cond_broadcast(&watch->changed);
    pthread_mutex_unlock(&watch->lock);
}

void yki_watch_note_batches(yki_watch *watch)
{
    atomic_store(&watch->batches, true);
}

void yki_watch_announce_save(yki_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    start(watch);
    watch->saves = watch->started;
    pthread_cond_broadcast(&watch->changed);
    pthread_mutex_unlock(&watch->lock);
}

void yki_watch_report_cause(yki_watch *watch, const yki_failure *cause)
{
    pthread_mutex_lock(&watch->lock);
    start(watch);
    if (watch->started && watch->cause.status == YK_OK)
        watch->cause = *cause;
    pthread_cond_broadcast(&watch->changed);
    double deadline = yki_now() + ANSWER_S;
    while ((has_news(watch) || watch->working) && yki_now() < deadline)
        sleep_until(watch, deadline);
    pthread_mutex_unlock(&watch->lock);
}

bool yki_watch_was_closed(const yki_watch *watch)
{
    return atomic_load(&watch->is_lost) && watch->was_closed;
}

bool yki_watch_was_silent(const yki_watch *watch)
{
    return atomic_load(&watch->is_lost) && watch->was_silent;
}

/* ---- for a group ----------------------------------------------------------------------------- */

yk_status yki_watch_add(yki_watched **watched, const yki_job *job)
{
    yki_watch *watch = job->watch;
    size_t world = (size_t)job->world;
    *watched = NULL;
    yki_watched *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "a group");
    made->job = *job;
    made->job.peers = yki_calloc(world, sizeof *job->peers);
    made->left = yki_calloc(3 * world, sizeof *made->left);
    made->messages = yki_calloc(4 * world, sizeof *made->messages);
    if (!made->job.peers || !made->left || !made->messages) {
        free_watched(made);
        return yki_error_memory(world * sizeof *job->peers, "a group");
    }
    memcpy(made->job.peers, job->peers, world * sizeof *job->peers);
    made->waits = made->left + world;
    made->partners = made->waits + world;
    made->last_messages = made->messages + 2 * world;
    *watched = made;
    if (!watch)
        return YK_OK;
    made->is_whole = job == watch->job;
    pthread_mutex_lock(&watch->lock);
    made->next = watch->first;
    watch->first = made;
    pthread_mutex_unlock(&watch->lock);
    return YK_OK;
}

void yki_watch_calls(yki_watched *watched, void *queue, bool (*rests)(void *queue, bool waits),
                     const _Atomic uint64_t *begun)
{
    yki_watch *watch = watched->job.watch;
    if (!watch)
        return;
    pthread_mutex_lock(&watch->lock);
    watched->rests = rests;
    watched->begun = begun;
    watched->queue = queue;
    pthread_mutex_unlock(&watch->lock);
}

/* If the store is lost, this rank does not learn that others have moved on, so its own calls
 * decide whether what was found still holds. */
bool yki_watch_standstill(yki_watch *watch, char *text, size_t size)
{
    bool waits = false;
    if (!watch)
        return false;
    pthread_mutex_lock(&watch->lock);
    for (const yki_watched *at = watch->first; at && !waits; at = at->next)
        waits = yki_standstill_goes_on(watch->standstill.waits, at);
    snprintf(text, size, "%s", waits ? watch->standstill.found : "");
    pthread_mutex_unlock(&watch->lock);
    return text[0] != '\0';
}

static bool all_have_left(yki_watch *watch)
{
    char prefix[YKI_JOB_KEY];
    const yki_job *job = watch->job;
    yki_job_key(job, prefix, sizeof prefix, "left/", -1);
    if (!list_ranks(watch, prefix, job->world))
        return atomic_load(&watch->is_lost);
    for (int r = 0; r < job->world; r++)
        if (r != job->rank && !watch->listed[r] && !yki_watch_gone(job, r))
            return false;
    return true;
}

/*
 * The store that this process serves ends with the job's first group. The other ranks get some time
 * to finish what they do with it, such as a split.
 */
static void await_departures(yki_watch *watch)
{
    for (double deadline = yki_now() + LEAVE_S; yki_now() < deadline && !all_have_left(watch);)
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

void yki_watch_remove(yki_watched *watched)
{
    yki_watch *watch = watched->job.watch;
    if (!watch) {
        free_watched(watched);
        return;
    }
    bool is_whole = watched->is_whole, failed = atomic_load(&watched->failed);
    pthread_mutex_lock(&watch->lock);
    start(watch);
    watched->leaving = true;
    if (!watch->started)
        forget(watch, watched);
    pthread_cond_broadcast(&watch->changed);
    if (is_whole)
        await_idle(watch);
    pthread_mutex_unlock(&watch->lock);
    if (is_whole && watch->job->server && !failed)
        await_departures(watch);
}

void yki_watch_ask(yki_watched *watched, const yki_waiting *waiting)
{
    yki_watch *watch = watched->job.watch;
    if (!watch || atomic_load(&watch->is_lost))
        return;
    pthread_mutex_lock(&watch->lock);
    double now = yki_now();
    bool asleep = now - watched->asked >= AWAKE_S;
    watched->asked = now;
    watched->waiting = *waiting;
    atomic_store(&watched->holds, waiting->active && waiting->end_is_told);
    start(watch);
    if (asleep)
        pthread_cond_broadcast(&watch->changed);
    pthread_mutex_unlock(&watch->lock);
}

void yki_watch_rest(yki_watched *watched)
{
    if (atomic_load(&watched->holds))
        atomic_store(&watched->holds, false);
}

/* Without the store's answer, the failure is what this rank has found. */
static void decide_alone(yki_watched *watched, const yki_failure *failure)
{
    if (atomic_load(&watched->failed))
        return;
    watched->failure = *failure;
    atomic_store(&watched->failed, true);
}

void yki_watch_fail_here(yki_watched *watched, const yki_failure *failure)
{
    yki_watch *watch = watched->job.watch;
    if (watch)
        pthread_mutex_lock(&watch->lock);
    decide_alone(watched, failure);
    if (watch)
        pthread_mutex_unlock(&watch->lock);
}

void yki_watch_fail(yki_watched *watched, int dead, const yki_failure *failure)
{
    yki_watch *watch = watched->job.watch;
    if (!watch) {
        decide_alone(watched, failure);
        return;
    }
    pthread_mutex_lock(&watch->lock);
    if (!atomic_load(&watched->failed) && !watched->proposed) {
        watched->failure = *failure;
        watched->dead = dead;
        watched->proposed = true;
        start(watch);
        pthread_cond_broadcast(&watch->changed);
    }
    double deadline = yki_now() + ANSWER_S;
    while (!atomic_load(&watched->failed) && watch->started && yki_now() < deadline)
        sleep_until(watch, deadline);
    decide_alone(watched, failure);
    pthread_mutex_unlock(&watch->lock);
}

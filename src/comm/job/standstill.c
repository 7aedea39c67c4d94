/* See standstill.h. */
#define _GNU_SOURCE
#include "comm/job/standstill.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "comm/job/callers.h"
#include "comm/job/describe.h"

#define PATIENCE_S 5.0 /* how long each wait has taken, or half of the timeout */
#define SURE_S     1.0 /* how long they have been lost, without any change */

enum {
    AWAITED = 8, /* ranks that are named in a line */
    LIST = 96,   /* bytes of them */
    KNOWN = 32,  /* ranks that are asked about */
    WORDS = YKI_WORDS + YKI_GROUP_LABEL + 8
};

/* ---- what this rank tells -------------------------------------------------------------------- */

static bool waits_in(const yki_watched *group)
{
    return group->queue && atomic_load(&group->holds) && !atomic_load(&group->failed);
}

/* Whether the thread waits in one of the groups' collectives. */
static bool is_held(const void *groups, const yki_caller *caller)
{
    const void *queue = atomic_load(&caller->queue);
    for (const yki_watched *at = groups; at; at = at->next)
        if (waits_in(at) && (at->waiting.caller == caller || (queue && at->queue == queue)))
            return true;
    return false;
}

/* Whether the group makes no progress. */
static bool is_stuck(const yki_watched *group, double now)
{
    const double timeout_s = group->job.timeout_s;
    const double patience_s = timeout_s < 2 * PATIENCE_S ? timeout_s / 2 : PATIENCE_S;
    if (!group->queue)
        return true;
    if (!waits_in(group))
        return group->rests(group->queue, false);
    return now - group->waiting.since >= patience_s &&
           group->waiting.what.operation < YK_OPERATION_SEND && group->rests(group->queue, true);
}

static bool all_are_stuck(const yki_watched *first)
{
    const double now = yki_now();
    bool any = false;
    for (const yki_watched *at = first; at; at = at->next) {
        if (!is_stuck(at, now))
            return false;
        any = any || waits_in(at);
    }
    return any && yki_callers_all(is_held, first);
}

/* "1,2", or "-": by their numbers in the job. */
static void list_awaited(char list[LIST], const yki_watched *group)
{
    size_t used = 0;
    int count = 0;
    snprintf(list, LIST, "-");
    for (int r = 0; r < group->job.world && count < AWAITED; r++) {
        if (r == group->job.rank || atomic_load(&group->waits[r]))
            continue;
        used += (size_t)snprintf(list + used, LIST - used, "%s%d", count++ ? "," : "",
                                 group->job.peers[r].job_rank);
    }
}

__attribute__((format(printf, 3, 4))) static void add(char text[YKI_STANDSTILL], size_t *used,
                                                      const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (*used < YKI_STANDSTILL)
        *used += (size_t)vsnprintf(text + *used, YKI_STANDSTILL - *used, format, arguments);
    va_end(arguments);
}

static void add_wait(char text[YKI_STANDSTILL], size_t *used, const yki_watched *group)
{
    char list[LIST], words[YKI_WORDS];
    list_awaited(list, group);
    yki_describe(words, &group->job, &group->waiting.what);
    add(text, used, "wait %s %llu %s %s in %s\n", group->job.prefix,
        (unsigned long long)group->waiting.sequence, list, words, group->job.label);
}

static void describe(char text[YKI_STANDSTILL], const yki_watched *first)
{
    size_t used = 0;
    text[0] = '\0';
    if (!all_are_stuck(first))
        return;
    for (const yki_watched *at = first; at; at = at->next) {
        if (!at->queue)
            continue;
        if (waits_in(at))
            add_wait(text, &used, at);
        add(text, &used, "has %s %llu\n", at->job.prefix,
            (unsigned long long)atomic_load(at->begun));
    }
    if (used >= YKI_STANDSTILL)
        text[0] = '\0'; /* more groups than there is room for */
}

/* Threads go on while they are looked at, one after the other. If nothing has changed from one time
 * to the next, all of them waited in between. */
void yki_standstill_describe(char text[YKI_STANDSTILL], const yki_watched *first)
{
    char again[YKI_STANDSTILL];
    describe(text, first);
    if (!text[0])
        return;
    describe(again, first);
    if (strcmp(text, again) != 0)
        text[0] = '\0';
}

/* How often ranks have told something else; once more by this one, or 0 times. False where the
 * store does not answer. */
static bool count_changes(const yki_job *job, int more, int64_t *changes)
{
    char key[YKI_JOB_KEY];
    yki_job_key(job, key, sizeof key, "standstill", -1);
    yki_fair_lock_take(job->lock);
    yk_status status = yk_store_add(job->store, key, more, changes);
    yki_fair_lock_release(job->lock);
    return status == YK_OK;
}

void yki_standstill_publish(const yki_job *job, yki_standstill *state, const char *text)
{
    char key[YKI_JOB_KEY];
    int64_t changes;
    if (strcmp(state->told, text) == 0)
        return;
    yki_job_key(job, key, sizeof key, "standstill", job->rank);
    yki_fair_lock_take(job->lock);
    if (text[0])
        yk_store_set(job->store, key, text, strlen(text));
    else
        yk_store_delete(job->store, key, NULL);
    yki_fair_lock_release(job->lock);
    count_changes(job, 1, &changes); /* after the change: who reads this number finds it */
    snprintf(state->told, sizeof state->told, "%s", text);
}

/* ---- what the ranks have told ---------------------------------------------------------------- */

typedef struct stand {
    int rank;
    bool lost;  /* as far as is known */
    bool named; /* in the chain that is described */
    char *text;
} stand;

typedef struct wait {
    char prefix[YKI_JOB_PREFIX], awaited[LIST], words[WORDS];
    unsigned long long sequence;
} wait;

typedef struct stands_known {
    stand stands[KNOWN]; /* this rank's first */
    int count;
} stands_known;

/* The next wait at or behind *line, which is then behind it; false where there is none. */
static bool next_wait(const char **line, wait *found)
{
    while (*line && **line) {
        const char *at = *line, *end = strchr(at, '\n');
        int words = 0;
        *line = end ? end + 1 : NULL;
        if (!end || sscanf(at, "wait %95s %llu %95s %n", found->prefix, &found->sequence,
                           found->awaited, &words) < 3)
            continue;
        snprintf(found->words, sizeof found->words, "%.*s", (int)(end - at) - words, at + words);
        return true;
    }
    return false;
}

/* Whether the rank is known not to have begun the collective. */
static bool lacks(const stand *other, const wait *w)
{
    char prefix[YKI_JOB_PREFIX];
    unsigned long long begun;
    for (const char *line = other->text; line && *line;) {
        const char *end = strchr(line, '\n');
        if (sscanf(line, "has %95s %llu", prefix, &begun) == 2 && strcmp(prefix, w->prefix) == 0)
            return begun < w->sequence;
        line = end ? end + 1 : NULL;
    }
    return false;
}

/* Takes the first rank off the list; -1 at its end. */
static int next_rank(const char **list)
{
    int rank = -1, size = 0;
    if (sscanf(*list, "%d%n", &rank, &size) < 1)
        return -1;
    *list += size;
    *list += **list == ',';
    return rank;
}

static int find_stand(const stands_known *known, int rank)
{
    int at = 0;
    while (at < known->count && known->stands[at].rank != rank)
        at++;
    return at < known->count ? at : -1;
}

bool yki_standstill_goes_on(const char *text, const yki_watched *group)
{
    wait w;
    while (next_wait(&text, &w))
        if (strcmp(w.prefix, group->job.prefix) == 0)
            return waits_in(group) && group->waiting.sequence == w.sequence;
    return false;
}

/* One of those known that the collective lacks, and that is lost, too; -1: none. */
static int find_missing(const stands_known *known, const wait *w)
{
    const char *list = w->awaited;
    for (int rank; (rank = next_rank(&list)) >= 0;) {
        int at = find_stand(known, rank);
        if (at >= 0 && known->stands[at].lost && lacks(&known->stands[at], w))
            return at;
    }
    return -1;
}

static void add_stand(stands_known *known, int rank, const char *text)
{
    char *copy = yki_strdup(text);
    if (copy)
        known->stands[known->count++] = (stand){.rank = rank, .lost = true, .text = copy};
}

static void read_stand(stands_known *known, const yki_job *job, int rank)
{
    char key[YKI_JOB_KEY], text[YKI_STANDSTILL];
    size_t used;
    yki_job_key(job, key, sizeof key, "standstill", rank);
    yki_fair_lock_take(job->lock);
    yk_status status = yk_store_get(job->store, key, text, sizeof text - 1, &used, 0);
    yki_fair_lock_release(job->lock);
    if (status != YK_OK)
        return;
    text[used] = '\0';
    add_stand(known, rank, text);
}

/* This rank's, those of the ranks that it waits for, and so on. */
static void read_stands(stands_known *known, const yki_job *job, const char *own)
{
    wait w;
    add_stand(known, job->rank, own);
    for (int i = 0; i < known->count; i++)
        for (const char *line = known->stands[i].text; next_wait(&line, &w);) {
            const char *list = w.awaited;
            for (int rank; (rank = next_rank(&list)) >= 0 && known->count < KNOWN;)
                if (find_stand(known, rank) < 0)
                    read_stand(known, job, rank);
        }
}

/* Whether each collective in which the rank waits lacks one that is lost. */
static bool is_lost(const stands_known *known, const stand *of)
{
    wait w;
    for (const char *line = of->text; next_wait(&line, &w);)
        if (find_missing(known, &w) < 0)
            return false;
    return true;
}

/* What remains lost are ranks that can only wait for each other. */
static void save_others(stands_known *known)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (int i = 0; i < known->count; i++) {
            stand *at = &known->stands[i];
            if (at->lost && !is_lost(known, at)) {
                at->lost = false;
                changed = true;
            }
        }
    }
}

/* ---- lost ranks ------------------------------------------------------------------------------ */

/* FNV-1a */
static uint64_t add_hash(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    return hash;
}

/* False if this rank is not lost. */
static bool follow(yki_stand_chain *c, stands_known *known, const yki_job *job)
{
    wait w;
    char name[YKI_RANK_NAME];
    size_t used = 0;
    *c = (yki_stand_chain){.first = job->rank, .hash = 0xcbf29ce484222325u};
    if (known->count == 0 || !known->stands[0].lost)
        return false;
    for (stand *at = known->stands; !at->named;) {
        const char *line = at->text;
        const int next = next_wait(&line, &w) ? find_missing(known, &w) : -1;
        if (next < 0) /* a lost rank waits for another one */
            return false;
        c->hash = add_hash(c->hash, at->text);
        c->first = at->rank < c->first ? at->rank : c->first;
        yki_rank_name(job, at->rank, name);
        if (used < sizeof c->text)
            used += (size_t)snprintf(
                c->text + used, sizeof c->text - used, "%s%s called %s",
                used ? ", " : "ranks wait for each other in different groups: ", name, w.words);
        at->named = true;
        at = &known->stands[next];
    }
    return true;
}

/* Of what the ranks have told by now. */
static void suspect(const yki_job *job, yki_standstill *state)
{
    yki_stand_chain c;
    stands_known known = {.count = 0};
    read_stands(&known, job, state->told);
    save_others(&known);
    bool lost = follow(&c, &known, job);
    for (int i = 0; i < known.count; i++)
        free(known.stands[i].text);
    if (lost && state->since > 0 && c.hash == state->suspected.hash)
        return;
    state->suspected = c;
    state->since = lost ? yki_now() : 0;
    state->warned = false;
}

static void warn(const yki_job *job, yki_standstill *state)
{
    if (state->warned || state->suspected.first != job->rank)
        return;
    state->warned = true;
    YKI_WARN("%s; unless another thread makes one of the missing calls, this fails after %g s",
             state->suspected.text, job->timeout_s);
}

void yki_standstill_find(char found[YKI_LOST], const yki_job *job, yki_standstill *state)
{
    int64_t changes;
    found[0] = '\0';
    if (!state->told[0]) {
        state->since = 0;
        return;
    }
    if (count_changes(job, 0, &changes) && changes != state->changes) {
        state->changes = changes;
        suspect(job, state);
    }
    if (state->since > 0 && yki_now() - state->since >= SURE_S) {
        snprintf(found, YKI_LOST, "%s", state->suspected.text);
        warn(job, state);
    }
}

/* Opening and closing the groups of both levels, and passing calls through the stages. */
#define _GNU_SOURCE
#include "comm/two_level/two_level.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "comm/backend/thread.h"
#include "comm/job/callers.h"

#define GIVE_UP_S 5.0 /* how long a cancelled stage may take to end */
#define PATIENCE  2.0 /* by how much longer than the timeout the levels wait: they know less */

/* ---- places ---------------------------------------------------------------------------------- */

static void find_hosts(two_level *tl, const yk_backend_site *site)
{
    for (int r = 0; r < site->ranks; r++) {
        int first = 0; /* the first rank of the same host */
        while (strcmp(site->members[first].machine, site->members[r].machine) != 0)
            first++;
        tl->index_of[r] = 0;
        for (int before = first; before < r; before++)
            tl->index_of[r] += tl->host_of[before] == tl->host_of[first];
        tl->host_of[r] = first == r ? tl->hosts++ : tl->host_of[first];
        if (tl->index_of[r] >= tl->most)
            tl->most = tl->index_of[r] + 1;
    }
    tl->host = tl->host_of[site->rank];
    tl->slices = tl->most;
    for (int h = 0; h < tl->hosts; h++) {
        int here = 0;
        for (int r = 0; r < site->ranks; r++)
            here += tl->host_of[r] == h;
        tl->slices = here < tl->slices ? here : tl->slices;
    }
    tl->even = tl->slices == tl->most;
}

static bool allocate(two_level *tl, int world)
{
    size_t n = (size_t)world;
    tl->host_of = yki_calloc(2 * n, sizeof *tl->host_of);
    tl->called = yki_calloc(n, sizeof *tl->called);
    tl->index_of = tl->host_of ? tl->host_of + n : NULL;
    return tl->host_of && tl->called;
}

/* Of all-gathers. Most of it is never touched where there are none of much data. */
static yk_status allocate_gathered(two_level *tl)
{
    size_t table = yki_two_level_table_bytes(tl), column = yki_two_level_column_bytes(tl);
    tl->row = yki_calloc(1, table / (size_t)tl->hosts);
    tl->table = yki_calloc(1, table);
    tl->column = yki_calloc(1, column);
    return tl->row && tl->table && tl->column
               ? YK_OK
               : yki_error_memory(2 * table + column, "all-gathers between hosts");
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* The numbers of the parts, by which their keys differ. */
enum { REDUCING, GATHERING, LEADERS, ACROSS, FLAT, PARTS };

/* Opens a group of the ranks for which the host (or -1) and the rank there (or -1) are these. */
static yk_status open_part(two_level *tl, yk_group **part, int number, int host, int index)
{
    const two_level_ops *table = (const two_level_ops *)tl->group->ops;
    int count = 0, *ranks = yki_calloc((size_t)tl->world, sizeof *ranks);
    if (!ranks)
        return yki_error_memory((size_t)tl->world * sizeof *ranks, "the ranks of a host");
    for (int r = 0; r < tl->world; r++)
        if ((host < 0 || tl->host_of[r] == host) && (index < 0 || tl->index_of[r] == index))
            ranks[count++] = r;
    const yk_backend_ops *ops = host >= 0 ? &yki_backend_shm : table->network;
    yk_status status = yki_part_create(part, tl->group, ranks, count, number);
    free(ranks);
    YK_TRY(status);
    (*part)->patience_s = PATIENCE;
    (*part)->whole = tl->group; /* whose other ranks may be the cause of a wait */
    YK_TRY(yki_part_open(part, count == 1 ? &yki_backend_self : ops));
    (*part)->whole = NULL;
    return YK_OK;
}

/*
 * Where ranks share a core, several slices do not cross the network any sooner than one. They only
 * take more time, because their ranks wait for each other's turns. All ranks must agree.
 */
static yk_status choose_slices(two_level *tl)
{
    int32_t crowded = yki_shm_is_crowded(tl->reducing->backend);
    YK_TRY(yk_all_reduce(tl->flat, &crowded, 1, YK_I32, YK_REDUCE_MAX, NULL));
    if (crowded)
        tl->slices = 1;
    return YK_OK;
}

static yk_status open_groups(two_level *tl)
{
    int index = tl->index_of[yk_group_rank(tl->group)];
    tl->group->parts = PARTS;
    YK_TRY(open_part(tl, &tl->reducing, REDUCING, tl->host, -1));
    YK_TRY(open_part(tl, &tl->gathering, GATHERING, tl->host, -1));
    yki_shm_share_regions(tl->gathering->backend, tl->reducing->backend);
    if (index == 0)
        YK_TRY(open_part(tl, &tl->leaders, LEADERS, -1, 0));
    if (index < tl->slices)
        YK_TRY(open_part(tl, &tl->across, ACROSS, -1, index));
    YK_TRY(open_part(tl, &tl->flat, FLAT, -1, -1));
    return choose_slices(tl);
}

/* ---- stages ---------------------------------------------------------------------------------- */

/*
 * Waits until the stage before this one has finished the piece, or a stage has failed. After a
 * failure, which other ranks may not know of yet, no stage begins a later work either: it would do
 * so out of step with the ranks that still wait in an earlier one.
 */
static yk_status await_turn(two_level *tl, two_level_work *work, int stage, size_t piece)
{
    pthread_mutex_lock(&tl->lock);
    while (stage > 0 && work->done[stage - 1] <= piece && work->status == YK_OK)
        pthread_cond_wait(&tl->changed, &tl->lock);
    if (work->status == YK_OK && tl->failed != YK_OK) {
        work->status = tl->failed;
        memcpy(work->line, tl->failed_line, sizeof work->line);
        pthread_cond_broadcast(&tl->changed);
    }
    yk_status status = work->status;
    pthread_mutex_unlock(&tl->lock);
    return status;
}

static void finish_turn(two_level *tl, two_level_work *work, int stage, yk_status status)
{
    pthread_mutex_lock(&tl->lock);
    if (status != YK_OK && work->status == YK_OK) {
        work->status = status;
        yki_error_copy(work->line, sizeof work->line);
        if (tl->failed == YK_OK && atomic_load(&tl->group->watched->failed)) {
            tl->failed = status;
            memcpy(tl->failed_line, work->line, sizeof tl->failed_line);
        }
    }
    work->done[stage]++;
    pthread_cond_broadcast(&tl->changed);
    pthread_mutex_unlock(&tl->lock);
}

static bool must_check(const two_level_stage *stage, const yk_backend_call *call, size_t piece)
{
    return stage->number == 0 && piece == 0 && call->message_count == 0;
}

static yk_status run_piece(two_level_stage *stage, yk_backend_call *call, size_t piece,
                           size_t pieces)
{
    if (must_check(stage, call, piece))
        YK_TRY(yki_two_level_check(stage->owner, call));
    two_level_piece part = yki_two_level_piece(call, piece, pieces);
    return stage->run(stage->owner, &part);
}

/* The run function of a stage's thread. */
static yk_status run_stage(void *context, yk_backend_call *call)
{
    two_level_stage *stage = context;
    two_level *tl = stage->owner;
    two_level_work *work = &tl->works[stage->next++ % TWO_LEVEL_WORKS];
    size_t pieces = yki_two_level_pieces(tl, call);
    yk_status status = YK_OK;
    yki_caller_works();
    for (size_t piece = 0; piece < pieces && status == YK_OK; piece++) {
        status = await_turn(tl, work, stage->number, piece);
        if (status != YK_OK)
            return yki_error_set_line(status, work->line);
        status = run_piece(stage, call, piece, pieces);
        finish_turn(tl, work, stage->number, status);
    }
    return status;
}

static yk_status start_stages(two_level *tl)
{
    static const char *const names[] = {"yoke-reduce", "yoke-across", "yoke-gather"};
    static yk_status (*const runs[])(two_level *, const two_level_piece *) = {
        yki_two_level_reduce, yki_two_level_cross, yki_two_level_gather};
    for (int i = 0; i < TWO_LEVEL_STAGES; i++) {
        two_level_stage *stage = &tl->stage[i];
        *stage = (two_level_stage){.owner = tl, .number = i, .run = runs[i]};
        YK_TRY(yk_backend_thread_create(&stage->thread, names[i], run_stage, stage));
        YK_TRY(yki_backend_thread_reserve(stage->thread, TWO_LEVEL_WORKS));
    }
    return YK_OK;
}

/* ---- calls without the stages' threads ------------------------------------------------------- */

/* Whether the parts, while their calls wait, also look at all ranks. */
static void look_at_all(two_level *tl, bool also)
{
    yk_group *parts[] = {tl->reducing, tl->gathering, tl->leaders, tl->across, tl->flat};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i])
            parts[i]->whole = also ? tl->group : NULL;
}

/* All stages on the caller's thread, which would only wait for them. */
static yk_status run_directly(two_level *tl, yk_backend_call *call)
{
    yk_status status = YK_OK;
    look_at_all(tl, true);
    for (int i = 0; i < TWO_LEVEL_STAGES && status == YK_OK; i++)
        status = run_piece(&tl->stage[i], call, 0, 1);
    look_at_all(tl, false);
    return status;
}

/* ---- the table's functions ------------------------------------------------------------------- */

static void two_level_close(yk_backend *backend)
{
    two_level *tl = (two_level *)backend;
    for (int i = 0; i < TWO_LEVEL_STAGES; i++)
        yk_backend_thread_destroy(tl->stage[i].thread, tl->abandoned);
    if (tl->abandoned)
        return; /* a stage still uses all of it */
    yk_group_destroy(tl->flat);
    yk_group_destroy(tl->across);
    yk_group_destroy(tl->leaders);
    yk_group_destroy(tl->gathering);
    yk_group_destroy(tl->reducing);
    pthread_cond_destroy(&tl->changed);
    pthread_mutex_destroy(&tl->lock);
    free(tl->host_of);
    free(tl->called);
    free(tl->row);
    free(tl->table);
    free(tl->column);
    free(tl);
}

static yk_status two_level_open(yk_backend **backend, const yk_backend_site *site)
{
    *backend = NULL;
    two_level *tl = yki_calloc(1, sizeof *tl);
    if (!tl)
        return yki_error_memory(sizeof *tl, "the two-level backend");
    tl->group = site->context;
    tl->base.ops = tl->group->ops;
    tl->world = site->ranks;
    pthread_mutex_init(&tl->lock, NULL);
    pthread_cond_init(&tl->changed, NULL);
    yk_status status = YK_OK;
    if (!allocate(tl, site->ranks))
        status = yki_error_memory((size_t)site->ranks * 64, "the ranks of all hosts");
    if (status == YK_OK) {
        find_hosts(tl, site);
        status = allocate_gathered(tl);
    }
    if (status == YK_OK)
        status = open_groups(tl);
    if (status == YK_OK)
        status = start_stages(tl);
    if (status != YK_OK) {
        two_level_close(&tl->base);
        return status;
    }
    *backend = &tl->base;
    return YK_OK;
}

/* Posting to the threads needs no memory: a stage begins at once, so the others must get the call.
 */
static yk_status two_level_post(yk_backend *backend, yk_backend_call *call, yk_backend_work **out)
{
    two_level *tl = (two_level *)backend;
    two_level_work *work = &tl->works[tl->posted % TWO_LEVEL_WORKS];
    *out = NULL;
    if (!call->background && yki_two_level_pieces(tl, call) == 1)
        return run_directly(tl, call);
    memset(work->done, 0, sizeof work->done); /* no stage looks at it before it is posted */
    work->status = YK_OK;
    for (int i = 0; i < TWO_LEVEL_STAGES; i++)
        YK_TRY(yk_backend_thread_post(tl->stage[i].thread, call, &work->handle[i]));
    tl->posted++;
    *out = (yk_backend_work *)work;
    return YK_OK;
}

/* The first stage, which compares the ranks' calls, has the last word. */
static yk_status two_level_test(yk_backend *backend, yk_backend_work *handle, double wait_s,
                                bool *done)
{
    two_level *tl = (two_level *)backend;
    two_level_work *work = (two_level_work *)handle;
    int last = TWO_LEVEL_STAGES - 1;
    yk_status status =
        yk_backend_thread_test(tl->stage[last].thread, work->handle[last], wait_s, done);
    for (int i = last - 1; i >= 0 && *done; i--)
        for (bool over = false; !over;)
            yk_backend_thread_test(tl->stage[i].thread, work->handle[i], 1, &over);
    return status == YK_OK ? YK_OK : yki_error_set_line(status, work->line);
}

/* Fails the groups of both levels, so that what waits in them ends. */
static void two_level_cancel(yk_backend *backend, yk_backend_work *work)
{
    two_level *tl = (two_level *)backend;
    yk_group *parts[] = {tl->reducing, tl->gathering, tl->leaders, tl->across, tl->flat};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i])
            yki_watch_fail_here(parts[i]->watched, &tl->group->watched->failure);
    bool done = false;
    for (double deadline = yki_now() + GIVE_UP_S; !done && yki_now() < deadline;)
        two_level_test(backend, work, 0.1, &done);
    tl->abandoned = tl->abandoned || !done;
}

/* No stage runs meanwhile, because a group allocates only when nothing else is under way. */
static yk_status two_level_alloc(yk_backend *backend, yk_backend_call *call, void **memory)
{
    two_level *tl = (two_level *)backend;
    look_at_all(tl, true);
    yk_status status = yki_two_level_check(tl, call);
    if (status == YK_OK) {
        status = yk_group_alloc(tl->reducing, call->what.count, memory);
        if (status != YK_OK)
            yki_two_level_adopt_failure(tl, tl->reducing, status);
    }
    look_at_all(tl, false);
    return status;
}

static yk_status two_level_free(yk_backend *backend, void *memory)
{
    return yk_group_free(((two_level *)backend)->reducing, memory);
}

yk_status yki_two_level_find(const yk_backend_ops **ops, const yk_backend_ops *network)
{
    static two_level_ops *tables[8];
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    size_t i = 0, room = sizeof tables / sizeof *tables;
    *ops = NULL;
    pthread_mutex_lock(&lock);
    while (i < room && tables[i] && tables[i]->network != network)
        i++;
    if (i < room && !tables[i] && (tables[i] = yki_calloc(1, sizeof **tables))) {
        two_level_ops *made = tables[i];
        snprintf(made->name, sizeof made->name, "shm+%.64s", network->name);
        made->network = network;
        made->ops = (yk_backend_ops){.version = YK_BACKEND_VERSION,
                                     .size = sizeof made->ops,
                                     .name = made->name,
                                     .capabilities = YK_BACKEND_REGISTERED_MEMORY,
                                     .max_works = TWO_LEVEL_WORKS,
                                     .open = two_level_open,
                                     .close = two_level_close,
                                     .post = two_level_post,
                                     .test = two_level_test,
                                     .cancel = two_level_cancel,
                                     .alloc = two_level_alloc,
                                     .free = two_level_free};
    }
    if (i < room && tables[i])
        *ops = &tables[i]->ops;
    pthread_mutex_unlock(&lock);
    return *ops ? YK_OK : yki_error_memory(sizeof **tables, "the two-level backend");
}

/*
 * The order of what ranks read and write in the memory that they share.
 *
 * ThreadSanitizer sees the threads of one process only, and only where they use the same addresses.
 * Here the ranks are threads, each with a backend of its own, and after opening them, all use the
 * mappings of one: those of rank 0 for the control segment, and of its owner for each region. Under
 * `make tsan`, the test therefore fails wherever no counter orders what two ranks do, even if this
 * processor would not reorder it. In every build, the results are checked.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "comm/shm/shm.h"
#include "harness.h"

enum { MOST = 4, KEYS = 16, VALUE = 512, LARGEST = 150000, ROUNDS = 250 };

/* ---- the job --------------------------------------------------------------------------------- */

typedef struct entry {
    char key[32], value[VALUE];
    size_t size;
} entry;

typedef struct job {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    entry entries[KEYS];
    int keys, world;
    yk_backend_member members[MOST];
} job;

/* A rank, and what its thread does. */
typedef struct rank_thread {
    job *job;
    int rank;
    yk_backend_site site;
    yk_backend *backend;
    int32_t *shared;       /* memory of the region: input, then output */
    int32_t *own;          /* the same in memory of the rank alone */
    shm_segment *segments; /* of the region, as this rank has mapped them */
    pthread_t thread;
    void (*act)(struct rank_thread *self);
    yk_status status;
    int round;      /* the one that is running, */
    bool differs;   /* and whether a number in it was wrong */
    char line[256]; /* the error of status */
} rank_thread;

static yk_status set_key(void *context, const char *key, const void *value, size_t size)
{
    job *j = ((rank_thread *)context)->job;
    pthread_mutex_lock(&j->lock);
    entry *made = &j->entries[j->keys++];
    snprintf(made->key, sizeof made->key, "%s", key);
    memcpy(made->value, value, size);
    made->size = size;
    pthread_cond_broadcast(&j->changed);
    pthread_mutex_unlock(&j->lock);
    return YK_OK;
}

static const entry *find_key(const job *j, const char *key)
{
    for (int i = 0; i < j->keys; i++)
        if (strcmp(j->entries[i].key, key) == 0)
            return &j->entries[i];
    return NULL;
}

static yk_status get_key(void *context, const char *key, void *value, size_t size, size_t *used,
                         double timeout_s)
{
    job *j = ((rank_thread *)context)->job;
    const entry *found;
    (void)timeout_s;
    pthread_mutex_lock(&j->lock);
    while (!(found = find_key(j, key)))
        pthread_cond_wait(&j->changed, &j->lock);
    *used = found->size < size ? found->size : size;
    memcpy(value, found->value, *used);
    pthread_mutex_unlock(&j->lock);
    return YK_OK;
}

static yk_status look(void *context, bool (*missing)(const void *wait, int rank), const void *wait)
{
    (void)context, (void)missing, (void)wait;
    return YK_OK;
}

static void *run(void *argument)
{
    rank_thread *self = argument;
    self->act(self);
    if (self->status != YK_OK)
        snprintf(self->line, sizeof self->line, "%s", yk_last_error());
    return NULL;
}

/* All ranks act at the same time. */
static void act_all(rank_thread *ranks, int world, void (*act)(rank_thread *self))
{
    for (int r = 0; r < world; r++) {
        ranks[r].act = act;
        assert_int_equal(pthread_create(&ranks[r].thread, NULL, run, &ranks[r]), 0);
    }
    for (int r = 0; r < world; r++)
        pthread_join(ranks[r].thread, NULL);
    for (int r = 0; r < world; r++)
        if (ranks[r].status != YK_OK || ranks[r].differs)
            fail_msg("rank %d of %d, round %d: %s", r, world, ranks[r].round,
                     ranks[r].differs ? "wrong numbers" : ranks[r].line);
}

/* ---- the memory ------------------------------------------------------------------------------ */

static size_t region_bytes(int world)
{
    return 2 * (size_t)world * LARGEST * sizeof(int32_t);
}

static void open_rank(rank_thread *self)
{
    void *memory = NULL;
    yk_backend_call call = {
        .what = {.operation = YK_OPERATION_ALLOC, .count = region_bytes(self->job->world)},
        .sequence = 1};
    self->status = yki_backend_shm.open(&self->backend, &self->site);
    if (self->status == YK_OK)
        self->status = yki_backend_shm.alloc(self->backend, &call, &memory);
    self->shared = memory;
    self->own = calloc(region_bytes(self->job->world), 1);
}

static void age(shm_counter *counter, uint32_t by)
{
    atomic_fetch_add(counter, by);
}

/* As if the ranks had met so often before. All counters wrap within the rounds. */
static void age_counters(shm_backend *shm)
{
    const uint32_t by = (uint32_t)-4;
    uint32_t *own[] = {shm->sent, shm->received, shm->filled, shm->drained};
    shm->ticket += by;
    shm->step += by;
    shm->chunk += by;
    age(&shm->me->line[0].ticket, by);
    age(&shm->me->line[1].ticket, by);
    age(&shm->me->step, by);
    for (int r = 0; r < shm->world; r++) {
        shm_channel *channel = &shm->me->to[r];
        shm_counter *shared[] = {&channel->sent, &channel->filled, &channel->received,
                                 &channel->drained};
        for (int i = 0; i < 4; i++) {
            own[i][r] += by;
            age(shared[i], by);
        }
    }
}

/* From here on all use the same addresses. */
static void use_same_mappings(rank_thread *ranks, int world)
{
    const shm_backend *first = (const shm_backend *)ranks[0].backend;
    for (int r = 0; r < world; r++) {
        shm_backend *shm = (shm_backend *)ranks[r].backend;
        memcpy(shm->ranks, first->ranks, (size_t)world * sizeof *shm->ranks);
        shm->header = first->header;
        shm->me = shm->ranks[r];
        ranks[r].segments = calloc((size_t)world, sizeof *ranks[r].segments);
        memcpy(ranks[r].segments, shm->regions[0].segments,
               (size_t)world * sizeof *ranks[r].segments);
    }
    for (int r = 0; r < world; r++)
        age_counters((shm_backend *)ranks[r].backend);
    for (int r = 0; r < world; r++)
        for (int owner = 0; owner < world; owner++)
            ((shm_backend *)ranks[r].backend)->regions[0].segments[owner].memory =
                ranks[owner].segments[owner].memory;
}

static void close_ranks(rank_thread *ranks, int world)
{
    for (int r = 0; r < world; r++) {
        shm_backend *shm = (shm_backend *)ranks[r].backend;
        memcpy(shm->regions[0].segments, ranks[r].segments,
               (size_t)world * sizeof *ranks[r].segments);
        yki_backend_shm.close(ranks[r].backend);
        free(ranks[r].segments);
        free(ranks[r].own);
    }
}

/* ---- the rounds ------------------------------------------------------------------------------ */

/* What all ranks know of a round. */
typedef struct plan {
    int number, world;
    yk_descriptor what;
    uint64_t in_region, out_region, background; /* a bit for each rank */
    int from, to;                               /* of a message; to is -1: all to their next */
} plan;

static plan draw_plan(int number, int world)
{
    static const uint64_t counts[] = {1, 8, 9, 100, 129, 2000, 5000, 70000, LARGEST};
    static const yk_operation operations[] = {YK_OPERATION_ALL_REDUCE,     YK_OPERATION_REDUCE,
                                              YK_OPERATION_BROADCAST,      YK_OPERATION_ALL_GATHER,
                                              YK_OPERATION_GATHER,         YK_OPERATION_SCATTER,
                                              YK_OPERATION_REDUCE_SCATTER, YK_OPERATION_SEND,
                                              YK_OPERATION_BARRIER,        YK_OPERATION_ALL_TO_ALL};
    uint64_t word = yki_hash3(7, (uint64_t)number, (uint64_t)world);
    yk_operation operation = operations[word % (sizeof operations / sizeof *operations)];
    int root = (int)(word >> 8 & 0xff) % world;
    bool rooted = operation == YK_OPERATION_REDUCE || operation == YK_OPERATION_BROADCAST ||
                  operation == YK_OPERATION_GATHER || operation == YK_OPERATION_SCATTER;
    bool alike = word >> 60 < 10; /* mostly: then data is exchanged where it lies */
    plan p = {.number = number,
              .world = world,
              .what = {.operation = (uint8_t)operation,
                       .dtype = YK_I32,
                       .root = rooted ? root : 0,
                       .count = counts[(word >> 16) % (sizeof counts / sizeof *counts)]},
              .in_region = alike ? -(word >> 24 & 1) : word >> 24,
              .out_region = alike ? -(word >> 25 & 1) : word >> 32,
              .background = word >> 40,
              .from = root,
              .to = word >> 50 & 1 ? -1 : (root + 1) % world};
    if (operation == YK_OPERATION_BARRIER)
        p.what = (yk_descriptor){.operation = YK_OPERATION_BARRIER};
    return p;
}

/* What a rank gives at an index. */
static int32_t number_of(const plan *p, int rank, uint64_t index)
{
    return (int32_t)(1000 * p->number + 7 * rank + (int)(index % 1000003));
}

static int32_t sum_of(const plan *p, uint64_t index)
{
    int32_t sum = 0;
    for (int r = 0; r < p->world; r++)
        sum += number_of(p, r, index);
    return sum;
}

/* Each rank sends to the next one; or one of them does. */
static bool sends(const plan *p, int rank)
{
    return p->to < 0 || rank == p->from;
}

static bool receives(const plan *p, int rank)
{
    return sends(p, (rank + p->world - 1) % p->world);
}

static bool has_pieces(const plan *p)
{
    return p->what.operation == YK_OPERATION_SCATTER ||
           p->what.operation == YK_OPERATION_ALL_TO_ALL ||
           p->what.operation == YK_OPERATION_REDUCE_SCATTER;
}

/* What this rank must find at an index of its output, in part `part` of what it gathers. */
static int32_t wanted(const plan *p, int rank, int part, uint64_t index)
{
    uint64_t piece = (uint64_t)rank * p->what.count + index;
    switch ((yk_operation)p->what.operation) {
    case YK_OPERATION_ALL_REDUCE:
    case YK_OPERATION_REDUCE:
        return sum_of(p, index);
    case YK_OPERATION_REDUCE_SCATTER:
        return sum_of(p, piece);
    case YK_OPERATION_SCATTER:
        return number_of(p, p->what.root, piece);
    case YK_OPERATION_ALL_TO_ALL:
        return number_of(p, part, piece);
    case YK_OPERATION_BROADCAST:
        return number_of(p, p->what.root, index);
    case YK_OPERATION_SEND:
        return number_of(p, (rank + p->world - 1) % p->world, index);
    default:
        return number_of(p, part, index);
    }
}

/* How many parts this rank gets. */
static int parts_for(const plan *p, int rank)
{
    bool root = rank == p->what.root;
    switch ((yk_operation)p->what.operation) {
    case YK_OPERATION_ALL_GATHER:
    case YK_OPERATION_ALL_TO_ALL:
        return p->world;
    case YK_OPERATION_GATHER:
        return root ? p->world : 0;
    case YK_OPERATION_REDUCE:
        return root;
    case YK_OPERATION_SEND:
        return receives(p, rank);
    case YK_OPERATION_BARRIER:
        return 0;
    default:
        return 1;
    }
}

static bool in_place(const plan *p)
{
    return p->what.operation == YK_OPERATION_ALL_REDUCE ||
           p->what.operation == YK_OPERATION_REDUCE || p->what.operation == YK_OPERATION_BROADCAST;
}

static size_t list_messages(const plan *p, int rank, int32_t *in, int32_t *out,
                            yk_backend_message messages[2])
{
    size_t count = 0;
    yk_descriptor what = {.dtype = YK_I32, .count = p->what.count};
    for (int i = 0; i < 2; i++) {
        bool send = i == rank % 2;
        if (!(send ? sends(p, rank) : receives(p, rank)))
            continue;
        what.operation = send ? YK_OPERATION_SEND : YK_OPERATION_RECV;
        what.root = (rank + (send ? 1 : p->world - 1)) % p->world;
        messages[count++] = (yk_backend_message){.what = what, .data = send ? in : out};
    }
    return count;
}

static void run_round(rank_thread *self, const plan *p)
{
    int rank = self->rank;
    uint64_t half = (uint64_t)p->world * LARGEST;
    int32_t *in = p->in_region >> rank & 1 ? self->shared : self->own;
    int32_t *out = (p->out_region >> rank & 1 ? self->shared : self->own) + half;
    yk_backend_call call = {.what = p->what,
                            .sequence = (uint64_t)p->number + 2,
                            .in = in,
                            .out = in_place(p) ? in : out,
                            .background = p->background >> rank & 1};
    yk_backend_message messages[2];
    if (p->what.operation == YK_OPERATION_SEND) {
        call.messages = messages;
        call.message_count = list_messages(p, rank, in, out, messages);
        if (call.message_count == 0)
            return;
    }
    uint64_t given = p->what.count * (has_pieces(p) ? (uint64_t)p->world : 1);
    for (uint64_t i = 0; i < given; i++)
        in[i] = number_of(p, rank, i);
    yk_backend_work *work;
    self->status = yki_backend_shm.post(self->backend, &call, &work);
    const int32_t *got = call.out;
    for (int part = 0; part < parts_for(p, rank); part++)
        for (uint64_t i = 0; i < p->what.count; i++)
            self->differs |= got[(uint64_t)part * p->what.count + i] != wanted(p, rank, part, i);
}

static void run_rounds(rank_thread *self)
{
    for (int i = 0; i < ROUNDS && self->status == YK_OK && !self->differs; i++) {
        plan p = draw_plan(i, self->job->world);
        self->round = i;
        run_round(self, &p);
    }
}

static void ranks_share_memory_in_order(int world)
{
    job j = {
        .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .world = world};
    rank_thread ranks[MOST] = {0};
    for (int r = 0; r < world; r++) {
        j.members[r] = (yk_backend_member){
            .job_rank = r, .pid = getpid(), .host = "here", .address = "", .machine = "here"};
        ranks[r].job = &j;
        ranks[r].rank = r;
        ranks[r].site = (yk_backend_site){.size = sizeof ranks[r].site,
                                          .rank = r,
                                          .ranks = world,
                                          .members = j.members,
                                          .timeout_s = 60,
                                          .context = &ranks[r],
                                          .set = set_key,
                                          .get = get_key,
                                          .look = look};
    }
    act_all(ranks, world, open_rank);
    use_same_mappings(ranks, world);
    act_all(ranks, world, run_rounds);
    close_ranks(ranks, world);
}

YK_TEST(two_ranks_share_memory_in_order)
{
    ranks_share_memory_in_order(2);
}

YK_TEST(three_ranks_share_memory_in_order)
{
    ranks_share_memory_in_order(3);
}

YK_TEST(four_ranks_share_memory_in_order)
{
    ranks_share_memory_in_order(4);
}

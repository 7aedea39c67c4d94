/*
 * The fake backend, a module for tests: it fulfils the contract of <yoke/backend.h> between the
 * processes of one machine, and uses every freedom that the contract leaves. The works in flight
 * progress in any order, a few bytes at a time; a work that is finished may be called unfinished; a
 * lost peer may go unnoticed; nothing happens unless a work is tested. The numbers are right, but
 * the contributions of the ranks are added in any order. See adversary.h for the
 * choice of what happens.
 *
 * Every rank sends its descriptor to all others, and each moves data only when it has them all.
 * Data goes straight from each rank to those that need it; a result is written at the very end.
 */
#define _GNU_SOURCE
#include <yoke/backend.h>

#include <signal.h>
#include <string.h>
#include <time.h>

#include "adversary.h"
#include "reduce.h"
#include "wire.h"

enum { MAX_WORKS = 4, LARGEST_FRAME = 256 << 10, QUEUED = 512 << 10 };

/* Bytes that one rank sends to, or gets from, another. */
typedef struct part {
    char *bytes;
    size_t size, done;
} part;

struct yk_backend_work {
    yk_backend_work *next, *before; /* in the order of posting */
    yk_backend_call *call;
    double not_before; /* it is held back until then */
    bool announced;    /* the descriptor is on its way */
    bool compared;     /* all descriptors are there and agree */
    bool ended;        /* with status and line */
    yk_status status;
    char line[64];
    yk_descriptor *all; /* [ranks]; in send and recv only those of two ranks */
    bool *has;          /* [ranks]: which descriptors are there */
    part *out, *in;     /* [ranks] */
    void *scratch;      /* what a reduction receives */
    int unsent;         /* frames that have not left */
    /* A call with messages is not in the list of works itself: each message is one, with a call. */
    yk_backend_work **messages; /* [call->message_count] */
    yk_backend_call own;        /* of a message */
};

/* A descriptor for a call that this rank has not posted yet. */
typedef struct early {
    struct early *next;
    int from;
    fake_header header;
    yk_descriptor what;
} early;

typedef struct fake_backend {
    yk_backend base;
    const yk_backend_site *site;
    fake_adversary adversary;
    fake_wire wire;
    yk_backend_work *works, *last; /* oldest first */
    early *early;
    yk_descriptor incoming[FAKE_RANKS_MAX]; /* one that arrives from each rank */
    int untruths; /* tests in a row that called a finished work unfinished */
} fake_backend;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int job_rank(const fake_backend *fake)
{
    return fake->site->members[fake->site->rank].job_rank;
}

static bool is_transfer(const yk_backend_work *work)
{
    return work->call->what.operation == YK_OPERATION_SEND ||
           work->call->what.operation == YK_OPERATION_RECV;
}

/* Whether this call exchanges descriptors with that rank. */
static bool involves(const fake_backend *fake, const yk_backend_work *work, int rank)
{
    return rank != fake->site->rank && (!is_transfer(work) || rank == work->call->what.root);
}

static void end_work(yk_backend_work *work, yk_status status, const char *line)
{
    work->ended = true;
    work->status = status;
    snprintf(work->line, sizeof work->line, "%s", line);
}

/* ---- descriptors ----------------------------------------------------------------------------- */

/* The kind under which this rank announces a call, and under which its peers do. */
static uint64_t own_kind(const yk_backend_work *work)
{
    return work->call->what.operation == YK_OPERATION_SEND   ? FAKE_SENDER
           : work->call->what.operation == YK_OPERATION_RECV ? FAKE_RECEIVER
                                                             : FAKE_COLLECTIVE;
}

static uint64_t their_kind(const yk_backend_work *work)
{
    return work->call->what.operation == YK_OPERATION_SEND   ? FAKE_RECEIVER
           : work->call->what.operation == YK_OPERATION_RECV ? FAKE_SENDER
                                                             : FAKE_COLLECTIVE;
}

static yk_status announce(fake_backend *fake, yk_backend_work *work)
{
    fake_header header = {
        .kind = own_kind(work), .sequence = work->call->sequence, .bytes = sizeof(yk_descriptor)};
    for (int r = 0; r < fake->site->ranks; r++) {
        if (!involves(fake, work, r))
            continue;
        yk_status status =
            fake_wire_send(&fake->wire, r, &header, &work->call->what, &work->unsent);
        if (status != YK_OK)
            return status;
    }
    return YK_OK;
}

static void take_descriptor(yk_backend_work *work, int from, const yk_descriptor *what)
{
    work->all[from] = *what;
    work->has[from] = true;
}

/* Takes the descriptors that came before the call was posted. */
static void take_early(fake_backend *fake, yk_backend_work *work)
{
    for (early **at = &fake->early; *at;) {
        early *one = *at;
        if (one->header.kind != their_kind(work) || one->header.sequence != work->call->sequence ||
            !involves(fake, work, one->from)) {
            at = &one->next;
            continue;
        }
        take_descriptor(work, one->from, &one->what);
        *at = one->next;
        free(one);
    }
}

static bool has_all_descriptors(const fake_backend *fake, const yk_backend_work *work)
{
    for (int r = 0; r < fake->site->ranks; r++)
        if (involves(fake, work, r) && !work->has[r])
            return false;
    return true;
}

static yk_status compare_transfer(const fake_backend *fake, yk_backend_work *work)
{
    yk_backend_call *call = work->call;
    int peer = call->what.root, rank = fake->site->rank;
    return call->what.operation == YK_OPERATION_SEND
               ? yk_backend_compare_messages(call, rank, &call->what, peer, &work->all[peer])
               : yk_backend_compare_messages(call, peer, &work->all[peer], rank, &call->what);
}

/* ---- data ------------------------------------------------------------------------------------ */

/* Whether this rank's data only goes into a reduction. */
static bool is_root_elsewhere(const fake_backend *fake, const yk_backend_work *work)
{
    return work->call->what.operation == YK_OPERATION_REDUCE &&
           work->call->what.root != fake->site->rank;
}

static void send_part(yk_backend_work *work, int to, const void *from, size_t size)
{
    work->out[to] = (part){.bytes = (char *)from, .size = size};
}

static void receive_part(yk_backend_work *work, int from, void *to, size_t size)
{
    work->in[from] = (part){.bytes = to, .size = size};
}

/*
 * A reduction receives from every peer beside the buffers, since these are still being sent. Ranks
 * that get no result send their data to root, and that is all.
 */
static yk_status plan_reduction(fake_backend *fake, yk_backend_work *work, size_t bytes)
{
    const char *in = work->call->in;
    bool scatters = work->call->what.operation == YK_OPERATION_REDUCE_SCATTER;
    size_t stride = scatters ? bytes : 0;
    if (is_root_elsewhere(fake, work)) {
        send_part(work, work->call->what.root, in, bytes);
        return YK_OK;
    }
    work->scratch = malloc((size_t)fake->site->ranks * bytes + 1);
    if (!work->scratch)
        return yk_set_error(YK_ERROR_OUT_OF_MEMORY, "fake: no memory for a reduction");
    for (int r = 0; r < fake->site->ranks; r++) {
        if (work->call->what.operation != YK_OPERATION_REDUCE || r == fake->site->rank)
            send_part(work, r, in + (size_t)r * stride, bytes);
        receive_part(work, r, (char *)work->scratch + (size_t)r * bytes, bytes);
    }
    return YK_OK;
}

/* Who sends what to whom. What this rank would send to itself is copied at the end. */
static yk_status plan_parts(fake_backend *fake, yk_backend_work *work)
{
    const yk_backend_call *call = work->call;
    const yk_descriptor *what = &call->what;
    size_t bytes = what->count * yk_dtype_size((yk_dtype)what->dtype);
    const char *in = call->in;
    char *out = call->out;
    bool on_root = what->root == fake->site->rank;
    bool gathers =
        what->operation == YK_OPERATION_ALL_GATHER || what->operation == YK_OPERATION_ALL_TO_ALL_V;
    if (what->operation == YK_OPERATION_ALL_REDUCE || what->operation == YK_OPERATION_REDUCE ||
        what->operation == YK_OPERATION_REDUCE_SCATTER)
        return plan_reduction(fake, work, bytes);
    for (int r = 0; r < fake->site->ranks; r++) {
        bool from_root = what->root == r;
        size_t place = (size_t)r * bytes;
        if (what->operation == YK_OPERATION_BROADCAST && on_root)
            send_part(work, r, in, bytes);
        if (what->operation == YK_OPERATION_BROADCAST && from_root && !on_root)
            receive_part(work, r, out, bytes);
        if (gathers || (what->operation == YK_OPERATION_GATHER && from_root))
            send_part(work, r, in, bytes);
        if (gathers || (what->operation == YK_OPERATION_GATHER && on_root))
            receive_part(work, r, out + place, bytes);
        if (what->operation == YK_OPERATION_SCATTER && on_root)
            send_part(work, r, in + place, bytes);
        if (what->operation == YK_OPERATION_SCATTER && from_root)
            receive_part(work, r, out, bytes);
        if (what->operation == YK_OPERATION_ALL_TO_ALL) {
            send_part(work, r, in + place, bytes);
            receive_part(work, r, out + place, bytes);
        }
        if (what->operation == YK_OPERATION_SEND && from_root)
            send_part(work, r, in, bytes);
        if (what->operation == YK_OPERATION_RECV && from_root)
            receive_part(work, r, out, bytes);
    }
    return YK_OK;
}

/* Queues a piece of the data for a peer unless enough is queued already. */
static yk_status send_piece(fake_backend *fake, yk_backend_work *work, int to)
{
    part *out = &work->out[to];
    size_t left = out->size - out->done;
    if (to == fake->site->rank || left == 0 || fake->wire.peers[to].queued > QUEUED)
        return YK_OK;
    size_t size = fake_at_most(&fake->adversary, left < LARGEST_FRAME ? left : LARGEST_FRAME);
    fake_header header = {.kind = is_transfer(work) ? FAKE_MESSAGE : FAKE_DATA,
                          .sequence = work->call->sequence,
                          .offset = out->done,
                          .bytes = size};
    yk_status status =
        fake_wire_send(&fake->wire, to, &header, out->bytes + out->done, &work->unsent);
    out->done += status == YK_OK ? size : 0;
    return status;
}

static bool has_moved(const fake_backend *fake, const yk_backend_work *work)
{
    for (int r = 0; r < fake->site->ranks; r++)
        if (r != fake->site->rank &&
            (work->out[r].done < work->out[r].size || work->in[r].done < work->in[r].size))
            return false;
    return work->unsent == 0;
}

/* Everything has arrived and left: now the result may be written, and what is unspecified. */
static void write_result(fake_backend *fake, yk_backend_work *work)
{
    const yk_backend_call *call = work->call;
    int rank = fake->site->rank, ranks = fake->site->ranks;
    const part *mine = &work->out[rank], *place = &work->in[rank];
    if (is_root_elsewhere(fake, work) && call->what.count && !fake_chance(&fake->adversary, 2))
        memset(call->out, 0x5a, work->out[call->what.root].size);
    if (!work->scratch) {
        if (place->size && mine->size && place->bytes != mine->bytes)
            memmove(place->bytes, mine->bytes, place->size);
        return;
    }
    int order[FAKE_RANKS_MAX];
    const void *parts[FAKE_RANKS_MAX];
    fake_order(&fake->adversary, call->what.count, order, ranks);
    for (int r = 0; r < ranks; r++)
        parts[r] = r == rank ? mine->bytes : work->in[r].bytes;
    fake_reduce(call->out, parts, order, ranks, call->what.count, (yk_dtype)call->what.dtype,
                (yk_reduce_op)call->what.reduce);
}

/* ---- progress -------------------------------------------------------------------------------- */

static yk_backend_work *find_work(fake_backend *fake, const fake_header *header, int from)
{
    for (yk_backend_work *work = fake->works; work; work = work->next) {
        if (work->call->sequence != header->sequence || !involves(fake, work, from))
            continue;
        bool data = header->kind == (is_transfer(work) ? FAKE_MESSAGE : FAKE_DATA) &&
                    (!is_transfer(work) || work->call->what.operation == YK_OPERATION_RECV);
        if (data || header->kind == their_kind(work))
            return work;
    }
    return NULL;
}

static bool is_descriptor(const fake_header *header)
{
    return header->kind <= FAKE_RECEIVER;
}

static char *locate(void *context, int from, const fake_header *header)
{
    fake_backend *fake = context;
    if (is_descriptor(header))
        return header->bytes == sizeof *fake->incoming ? (char *)&fake->incoming[from] : NULL;
    yk_backend_work *work = find_work(fake, header, from);
    if (!work || !work->in[from].bytes || header->offset + header->bytes > work->in[from].size)
        return NULL;
    return work->in[from].bytes + header->offset;
}

static void arrived(void *context, int from, const fake_header *header)
{
    fake_backend *fake = context;
    yk_backend_work *work = find_work(fake, header, from);
    if (!is_descriptor(header)) {
        if (work)
            work->in[from].done += header->bytes;
        return;
    }
    if (work) {
        take_descriptor(work, from, &fake->incoming[from]);
        return;
    }
    early *one = malloc(sizeof *one);
    if (!one)
        return;
    *one =
        (early){.next = fake->early, .from = from, .header = *header, .what = fake->incoming[from]};
    fake->early = one;
}

/* A connection that has ended while this work needs it; the peer's last bytes have been read. */
static int lost_peer(const fake_backend *fake, const yk_backend_work *work)
{
    for (int r = 0; r < fake->site->ranks; r++) {
        const fake_peer *peer = &fake->wire.peers[r];
        bool needed = !work->has[r] || work->in[r].done < work->in[r].size ||
                      work->out[r].done < work->out[r].size || peer->first;
        if (involves(fake, work, r) && peer->closed && needed)
            return r;
    }
    return -1;
}

static void end_if_lost(const fake_backend *fake, yk_backend_work *work)
{
    char line[64];
    int lost = lost_peer(fake, work);
    snprintf(line, sizeof line, "fake: the connection to rank %d was closed", lost);
    if (lost >= 0)
        end_work(work, YK_ERROR_NETWORK, line);
}

static yk_status compare(fake_backend *fake, yk_backend_work *work)
{
    work->all[fake->site->rank] = work->call->what;
    yk_status status = is_transfer(work)
                           ? compare_transfer(fake, work)
                           : yk_backend_compare(work->call, work->all, fake->site->ranks);
    work->compared = true;
    return status;
}

static yk_status progress_work(fake_backend *fake, yk_backend_work *work)
{
    yk_status status = YK_OK;
    if (!work->announced) {
        if (now() < work->not_before)
            return YK_OK;
        work->announced = true;
        status = announce(fake, work);
    }
    if (status == YK_OK && !work->compared && has_all_descriptors(fake, work))
        status = compare(fake, work);
    if (status != YK_OK || !work->compared)
        return status;
    for (int r = 0; r < fake->site->ranks && status == YK_OK; r++)
        if (!fake_chance(&fake->adversary, 3))
            status = send_piece(fake, work, r);
    if (status == YK_OK && has_moved(fake, work)) {
        if (!work->call->compare_only)
            write_result(fake, work);
        end_work(work, YK_OK, "");
    }
    return status;
}

static bool hangs(const fake_backend *fake, const yk_backend_work *work)
{
    return !is_transfer(work) &&
           fake_fault(&fake->adversary, "hang", job_rank(fake), work->call->sequence);
}

static void progress_if_possible(fake_backend *fake, yk_backend_work *work)
{
    if (work->ended || hangs(fake, work))
        return;
    yk_status status = progress_work(fake, work);
    if (status != YK_OK)
        end_work(work, status, "fake: the call has failed");
    else if (!work->ended && fake->adversary.reports_closed_connections)
        end_if_lost(fake, work);
}

/* One round: every work a little, sometimes the newest first. */
static void progress(fake_backend *fake)
{
    fake_wire_progress(&fake->wire);
    bool reversed = fake_chance(&fake->adversary, 2);
    if (!reversed)
        for (yk_backend_work *work = fake->works; work; work = work->next)
            progress_if_possible(fake, work);
    else
        for (yk_backend_work *work = fake->last; work; work = work->before)
            progress_if_possible(fake, work);
    fake_wire_progress(&fake->wire);
}

/* A mismatch is over only when the other ranks can find it, too. */
static bool is_over(const yk_backend_work *work)
{
    return work->ended && (work->status != YK_ERROR_MISMATCH || work->unsent == 0);
}

/* A call with messages ends with all of them, or with the first whose failure is no mismatch. */
static void end_with_messages(yk_backend_work *work)
{
    yk_backend_work *failed = NULL;
    bool over = true;
    for (size_t i = 0; i < work->call->message_count; i++) {
        yk_backend_work *message = work->messages[i];
        over = over && is_over(message);
        if (message->ended && message->status != YK_OK &&
            (!failed ||
             (failed->status == YK_ERROR_MISMATCH && message->status != YK_ERROR_MISMATCH)))
            failed = message;
    }
    if (!over && !(failed && failed->status != YK_ERROR_MISMATCH))
        return;
    end_work(work, failed ? failed->status : YK_OK, failed ? failed->line : "");
    if (failed)
        work->call->mismatch = failed->own.mismatch;
}

static bool is_finished(yk_backend_work *work)
{
    if (work->messages && !work->ended)
        end_with_messages(work);
    return work->messages ? work->ended : is_over(work);
}

/* ---- the contract ---------------------------------------------------------------------------- */

static void add_to_list(fake_backend *fake, yk_backend_work *work)
{
    work->before = fake->last;
    if (fake->last)
        fake->last->next = work;
    else
        fake->works = work;
    fake->last = work;
}

static void take_off_list(fake_backend *fake, yk_backend_work *work)
{
    if (work->before)
        work->before->next = work->next;
    else
        fake->works = work->next;
    if (work->next)
        work->next->before = work->before;
    else
        fake->last = work->before;
}

static void free_work(fake_backend *fake, yk_backend_work *work)
{
    for (size_t i = 0; work->messages && i < work->call->message_count; i++)
        if (work->messages[i])
            free_work(fake, work->messages[i]);
    if (!work->messages)
        take_off_list(fake, work);
    free(work->messages);
    fake_wire_forget(&fake->wire, &work->unsent);
    free(work->all);
    free(work->has);
    free(work->out);
    free(work->in);
    free(work->scratch);
    free(work);
}

/* A collective, or a message. */
static yk_status begin_work(fake_backend *fake, yk_backend_call *call, yk_backend_work **out)
{
    size_t ranks = (size_t)fake->site->ranks;
    *out = NULL;
    yk_backend_work *work = calloc(1, sizeof *work);
    if (!work)
        return yk_set_error(YK_ERROR_OUT_OF_MEMORY, "fake: no memory for a work");
    *work = (yk_backend_work){.call = call,
                              .not_before = now() + fake_delay(&fake->adversary),
                              .all = calloc(ranks, sizeof *work->all),
                              .has = calloc(ranks, sizeof *work->has),
                              .out = calloc(ranks, sizeof *work->out),
                              .in = calloc(ranks, sizeof *work->in)};
    add_to_list(fake, work);
    if (!work->all || !work->has || !work->out || !work->in) {
        free_work(fake, work);
        return yk_set_error(YK_ERROR_OUT_OF_MEMORY, "fake: no memory for a work");
    }
    /* Now, since a peer may have all descriptors, and send its data, before this rank has. */
    bool moves = !call->what.invalid && !call->compare_only;
    yk_status status = moves ? plan_parts(fake, work) : YK_OK;
    if (status != YK_OK) {
        free_work(fake, work);
        return status;
    }
    take_early(fake, work);
    *out = work;
    return YK_OK;
}

static yk_status begin_messages(fake_backend *fake, yk_backend_call *call, yk_backend_work **out)
{
    yk_status status = YK_OK;
    yk_backend_work *work = calloc(1, sizeof *work);
    *out = NULL;
    if (work)
        work->messages = calloc(call->message_count, sizeof(yk_backend_work *));
    if (!work || !work->messages) {
        free(work);
        return yk_set_error(YK_ERROR_OUT_OF_MEMORY, "fake: no memory for messages");
    }
    work->call = call;
    for (size_t i = 0; i < call->message_count && status == YK_OK; i++) {
        const yk_backend_message *message = &call->messages[i];
        yk_backend_call one = {.what = message->what,
                               .sequence = message->sequence,
                               .in = message->data,
                               .out = message->data};
        status = begin_work(fake, &one, &work->messages[i]);
        if (status == YK_OK) {
            work->messages[i]->own = one;
            work->messages[i]->call = &work->messages[i]->own;
        }
    }
    if (status == YK_OK)
        *out = work;
    else
        free_work(fake, work);
    return status;
}

static yk_status fake_post(yk_backend *backend, yk_backend_call *call, yk_backend_work **out)
{
    fake_backend *fake = (fake_backend *)backend;
    *out = NULL;
    if (fake_fault(&fake->adversary, "kill", job_rank(fake), call->sequence))
        raise(SIGKILL);
    if (fake_fault(&fake->adversary, "post", job_rank(fake), call->sequence))
        return yk_set_error(YK_ERROR_NETWORK, "fake: this call cannot be posted");
    if (fake_fault(&fake->adversary, "memory", job_rank(fake), call->sequence))
        return yk_set_error(YK_ERROR_OUT_OF_MEMORY, "fake: no memory for a work");
    yk_status status =
        call->message_count > 0 ? begin_messages(fake, call, out) : begin_work(fake, call, out);
    if (status == YK_OK && !fake_chance(&fake->adversary, 2))
        progress(fake);
    return status;
}

/* Whether a finished work is called unfinished this time: at most three times in a row. */
static bool denies(fake_backend *fake)
{
    if (fake->untruths < 3 && fake_chance(&fake->adversary, 3)) {
        fake->untruths++;
        return true;
    }
    fake->untruths = 0;
    return false;
}

static yk_status fake_test(yk_backend *backend, yk_backend_work *work, double wait_s, bool *done)
{
    fake_backend *fake = (fake_backend *)backend;
    double start = now();
    *done = false;
    for (progress(fake); !is_finished(work); progress(fake)) {
        double left = wait_s - (now() - start);
        if (left <= 0 || fake_chance(&fake->adversary, 16))
            return YK_OK;
        fake_wire_wait(&fake->wire, fake->adversary.seed && left > 1e-3 ? 1e-3 : left);
    }
    if (denies(fake))
        return YK_OK;
    yk_status status = work->status;
    if (fake_fault(&fake->adversary, "error", job_rank(fake), work->call->sequence))
        status = yk_set_error(YK_ERROR_NETWORK, "fake: the engine has failed");
    else if (status != YK_OK)
        yk_set_error(status, "%s", work->line);
    *done = true;
    free_work(fake, work);
    return status;
}

static void fake_cancel(yk_backend *backend, yk_backend_work *work)
{
    free_work((fake_backend *)backend, work);
}

static void fake_close(yk_backend *backend)
{
    fake_backend *fake = (fake_backend *)backend;
    while (fake->works)
        free_work(fake, fake->works);
    for (early *one = fake->early, *next; one; one = next) {
        next = one->next;
        free(one);
    }
    fake_wire_close(&fake->wire);
    free(fake);
}

extern __attribute__((visibility("default"))) const yk_backend_ops yk_backend_module;

/* Waits for a key that never comes, as engines wait for those of other ranks. */
static yk_status be_late(const yk_backend_site *site)
{
    char value[8];
    size_t used;
    yk_status status = site->get(site->context, "never", value, sizeof value, &used, 0.5);
    return status == YK_ERROR_TIMEOUT ? YK_OK : status;
}

static yk_status start_engine(fake_backend *fake)
{
    const yk_backend_site *site = fake->site;
    if (site->ranks > FAKE_RANKS_MAX)
        return yk_set_error(YK_ERROR_UNSUPPORTED, "fake: %d ranks, at most %d are supported",
                            site->ranks, FAKE_RANKS_MAX);
    if (fake_fault(&fake->adversary, "open", job_rank(fake), 0))
        return yk_set_error(YK_ERROR_NETWORK, "fake: the engine does not start");
    yk_status status = fake_wire_open(&fake->wire, site);
    if (status == YK_OK && fake_fault(&fake->adversary, "late", job_rank(fake), 0)) {
        status = be_late(site);
        if (status != YK_OK)
            fake_wire_close(&fake->wire);
    }
    return status;
}

static yk_status fake_open(yk_backend **backend, const yk_backend_site *site)
{
    *backend = NULL;
    fake_backend *fake = calloc(1, sizeof *fake);
    if (!fake)
        return yk_set_error(YK_ERROR_OUT_OF_MEMORY, "fake: no memory for a backend");
    fake->base.ops = &yk_backend_module;
    fake->site = site;
    fake_adversary_init(&fake->adversary, job_rank(fake));
    fake->wire = (fake_wire){.adversary = &fake->adversary,
                             .rank = site->rank,
                             .ranks = site->ranks,
                             .locate = locate,
                             .arrived = arrived,
                             .context = fake};
    yk_status status = start_engine(fake);
    if (status != YK_OK)
        free(fake);
    else
        *backend = &fake->base;
    return status;
}

const yk_backend_ops yk_backend_module = {.version = YK_BACKEND_VERSION,
                                          .size = sizeof(yk_backend_ops),
                                          .name = "fake",
                                          .max_works = MAX_WORKS,
                                          .open = fake_open,
                                          .close = fake_close,
                                          .post = fake_post,
                                          .test = fake_test,
                                          .cancel = fake_cancel};

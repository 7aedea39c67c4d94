/*
 * The tcp backend: collectives and messages between hosts, over a connection between any two ranks.
 *
 * Ranks connect with each other (meeting.h). Each call is one transfer or two: the exchange of what
 * all ranks call (comm/engine/engine.h), and what moves its data (transfer.h). A cancelled call is
 * ended by resetting all connections, after which nothing touches the buffers any more.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/open_files.h"
#include "comm/call.h"
#include "comm/engine/engine.h"
#include "comm/tcp/meeting.h"
#include "comm/tcp/transfer.h"

#define CANCELLED_CALL_S 1.0 /* within which a cancelled call ends */

enum {
    LOOK_MS = 20, /* between two looks at the other ranks */
    /* What a rank receives in a small call, at most. Measured between two hosts: with 2 ranks and
     * with 4, small calls are faster up to 1 MiB, but their buffers cost memory. */
    SMALL_BYTES = 512 * 1024
};

typedef struct tcp_engine {
    yki_engine_base common; /* first */
    tcp_links links;
    tcp_exchange exchange; /* that is under way */
} tcp_engine;

static tcp_links *links_of(yki_engine_base *engine)
{
    return &((tcp_engine *)engine)->links;
}

/* ---- the exchange ---------------------------------------------------------------------------- */

static void init_exchange(yki_engine_base *common, size_t bytes)
{
    tcp_engine *engine = (tcp_engine *)common;
    yki_tcp_exchange_init(&engine->exchange, &engine->links, yki_engine_message(common, 0),
                          common->stride, bytes);
}

/* Tells the call what its exchange has found. */
static yk_status end_exchange(yki_engine_base *common, yk_backend_call *call, yk_status status)
{
    if (status == YK_ERROR_MISMATCH)
        call->mismatch = ((tcp_engine *)common)->exchange.mismatch;
    return status;
}

static yk_status exchange(yki_engine_base *common, yk_backend_call *call, size_t bytes)
{
    init_exchange(common, bytes);
    return end_exchange(common, call, yki_tcp_run(&((tcp_engine *)common)->exchange.base));
}

static yk_status begin_exchange(yki_engine_base *common, size_t bytes)
{
    init_exchange(common, bytes);
    return yki_tcp_begin(&((tcp_engine *)common)->exchange.base);
}

static yk_status test_exchange(yki_engine_base *common, double wait_s, bool *done)
{
    int wait_ms = (int)ceil(1e3 * wait_s);
    yk_status status = yki_tcp_continue(&((tcp_engine *)common)->exchange.base, wait_ms, done);
    *done = *done || status != YK_OK;
    return end_exchange(common, common->direct, status);
}

/* ---- the calls ------------------------------------------------------------------------------- */

static size_t bytes_of(const yk_backend_call *call)
{
    return call->what.count * yk_dtype_size((yk_dtype)call->what.dtype);
}

static yk_status all_reduce(yki_engine_base *engine, yk_backend_call *call)
{
    return yki_tcp_reduce(links_of(engine), -1, call->out, call->what.count,
                          (yk_dtype)call->what.dtype, (yk_reduce_op)call->what.reduce);
}

static yk_status reduce(yki_engine_base *engine, yk_backend_call *call)
{
    return yki_tcp_reduce(links_of(engine), call->what.root, call->out, call->what.count,
                          (yk_dtype)call->what.dtype, (yk_reduce_op)call->what.reduce);
}

static yk_status reduce_scatter(yki_engine_base *engine, yk_backend_call *call)
{
    return yki_tcp_reduce_scatter(links_of(engine), call->out, call->in, call->what.count,
                                  (yk_dtype)call->what.dtype, (yk_reduce_op)call->what.reduce);
}

static yk_status broadcast(yki_engine_base *engine, yk_backend_call *call)
{
    return yki_tcp_broadcast(links_of(engine), call->what.root, call->out, bytes_of(call));
}

/* Copies that are to be filled in. */
static tcp_copy *no_copies(yki_engine_base *engine)
{
    tcp_links *links = links_of(engine);
    memset(links->copies, 0, (size_t)links->ranks * sizeof *links->copies);
    return links->copies;
}

/* This rank's part of its own data. */
static void copy_own(void *to, const void *from, size_t bytes)
{
    if (to != from)
        memcpy(to, from, bytes);
}

static yk_status all_gather(yki_engine_base *engine, yk_backend_call *call)
{
    size_t bytes = bytes_of(call);
    char *all = call->out;
    tcp_copy *copies = no_copies(engine);
    for (int r = 0; r < engine->ranks; r++)
        copies[r] = (tcp_copy){all + (size_t)r * bytes, call->in, bytes, bytes};
    copy_own(copies[engine->rank].to, call->in, bytes);
    return yki_tcp_copy_all(links_of(engine));
}

static yk_status gather(yki_engine_base *engine, yk_backend_call *call)
{
    size_t bytes = bytes_of(call);
    char *all = call->out;
    tcp_copy *copies = no_copies(engine);
    copies[call->what.root] = (tcp_copy){.from = call->in, .outgoing = bytes};
    if (engine->rank == call->what.root) {
        for (int r = 0; r < engine->ranks; r++)
            copies[r] = (tcp_copy){.to = all + (size_t)r * bytes, .incoming = bytes};
        copy_own(copies[engine->rank].to, call->in, bytes);
    }
    return yki_tcp_copy_all(links_of(engine));
}

static yk_status scatter(yki_engine_base *engine, yk_backend_call *call)
{
    size_t bytes = bytes_of(call);
    const char *all = call->in;
    tcp_copy *copies = no_copies(engine);
    copies[call->what.root] = (tcp_copy){.to = call->out, .incoming = bytes};
    if (engine->rank == call->what.root) {
        for (int r = 0; r < engine->ranks; r++)
            copies[r] = (tcp_copy){.from = all + (size_t)r * bytes, .outgoing = bytes};
        copy_own(call->out, copies[engine->rank].from, bytes);
    }
    return yki_tcp_copy_all(links_of(engine));
}

static yk_status all_to_all(yki_engine_base *engine, yk_backend_call *call)
{
    size_t bytes = bytes_of(call);
    const char *in = call->in;
    char *out = call->out;
    tcp_copy *copies = no_copies(engine);
    for (int r = 0; r < engine->ranks; r++) {
        size_t place = (size_t)r * bytes;
        copies[r] = (tcp_copy){out + place, in + place, bytes, bytes};
    }
    copy_own(copies[engine->rank].to, copies[engine->rank].from, bytes);
    return yki_tcp_copy_all(links_of(engine));
}

static yk_status messages(yki_engine_base *engine, yk_backend_call *call)
{
    return yki_tcp_messages(links_of(engine), call);
}

/* ---- opening --------------------------------------------------------------------------------- */

static bool is_missing(const void *connections, int rank)
{
    return ((const tcp_connection *)connections)[rank].socket < 0;
}

static bool any(const void *unused, int rank)
{
    (void)unused;
    (void)rank;
    return true;
}

/* A connection has failed. Whoever is gone is the cause, which may be known a moment later. */
static yk_status look_for_cause(const yk_backend_site *site, yk_status failed)
{
    enum { LOOKS = 75 };
    char line[512];
    snprintf(line, sizeof line, "%s", yk_last_error());
    for (int i = 0; i < LOOKS; i++) {
        YK_TRY(site->look(site->context, any, NULL));
        nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000L}, NULL);
    }
    return yki_error(failed, "%s", line);
}

/* Tells all ranks where this one listens, and calls those before it. */
static yk_status call_others(tcp_meeting *meeting, const yk_backend_site *site,
                             const tcp_card *mine)
{
    char key[32];
    snprintf(key, sizeof key, "tcp/%d", site->rank);
    YK_TRY(site->set(site->context, key, mine, sizeof *mine));
    for (int other = 0; other < site->rank; other++) {
        tcp_card card;
        snprintf(key, sizeof key, "tcp/%d", other);
        YK_TRY(yki_engine_get(site, other, key, &card, sizeof card, "tcp"));
        YK_TRY(yki_tcp_meeting_call(meeting, other, site->members[other].address, &card));
    }
    return YK_OK;
}

static yk_status connect_all(tcp_meeting *meeting, const yk_backend_site *site,
                             const tcp_connection *connections)
{
    for (bool done = false; !done;) {
        YK_TRY(yki_tcp_meeting_continue(meeting, LOOK_MS, &done));
        if (!done)
            YK_TRY(site->look(site->context, is_missing, connections));
    }
    return YK_OK;
}

static yk_status connect(const tcp_links *links, const yk_backend_site *site)
{
    tcp_meeting *meeting;
    tcp_card card;
    YK_TRY(yki_tcp_meeting_open(&meeting, site->rank, site->ranks,
                                site->members[site->rank].address, links->connections, &card));
    yk_status status = call_others(meeting, site, &card);
    if (status == YK_OK)
        status = connect_all(meeting, site, links->connections);
    yki_tcp_meeting_close(meeting);
    return status;
}

static bool is_silent(const void *exchange, int rank)
{
    const tcp_transfer *transfer = exchange;
    return rank != transfer->links->rank && transfer->ops->incoming(transfer, rank) > 0;
}

/* An exchange without a call, after which all ranks have all connections. */
static yk_status meet(tcp_engine *engine, const yk_backend_site *site)
{
    tcp_transfer *transfer = &engine->exchange.base;
    YK_TRY(begin_exchange(&engine->common, sizeof(yk_descriptor)));
    for (bool done = false; !done;) {
        YK_TRY(yki_tcp_continue(transfer, LOOK_MS, &done));
        if (!done)
            YK_TRY(site->look(site->context, is_silent, transfer));
    }
    return YK_OK;
}

static void destroy(tcp_engine *engine)
{
    yk_backend_thread_destroy(engine->common.thread, false);
    yki_tcp_links_destroy(&engine->links);
    yki_engine_fini(&engine->common);
    free(engine);
}

static const yki_engine_calls calls = {
    .exchange = exchange,
    .begin_exchange = begin_exchange,
    .test_exchange = test_exchange,
    .all_reduce = all_reduce,
    .reduce = reduce,
    .broadcast = broadcast,
    .all_gather = all_gather,
    .reduce_scatter = reduce_scatter,
    .gather = gather,
    .scatter = scatter,
    .all_to_all = all_to_all,
    .messages = messages,
};

static yk_status open_engine(tcp_engine *engine, const yk_backend_site *site)
{
    yki_allow_more_open_files(); /* for a connection with each rank */
    size_t small = site->ranks > 1 ? SMALL_BYTES / (size_t)(site->ranks - 1) : 0;
    YK_TRY(yki_engine_init(&engine->common, site, &calls, small));
    YK_TRY(yki_tcp_links_create(&engine->links, site->rank, site->ranks));
    YK_TRY(yk_backend_thread_create(&engine->common.thread, "yoke-tcp", yki_engine_run, engine));
    yk_status status = connect(&engine->links, site);
    if (status == YK_OK)
        status = meet(engine, site);
    return status == YK_ERROR_NETWORK ? look_for_cause(site, status) : status;
}

static yk_status open_backend(yk_backend **backend, const yk_backend_site *site)
{
    tcp_engine *engine = yki_calloc(1, sizeof *engine);
    *backend = NULL;
    if (!engine)
        return yki_error_memory(sizeof *engine, "the tcp backend");
    yk_status status = open_engine(engine, site);
    if (status != YK_OK) {
        destroy(engine);
        return status;
    }
    engine->common.base.ops = &yki_backend_tcp;
    *backend = &engine->common.base;
    return YK_OK;
}

static void close_backend(yk_backend *backend)
{
    tcp_engine *engine = (tcp_engine *)backend;
    if (engine->common.abandoned)
        yk_backend_thread_destroy(engine->common.thread, true);
    else
        destroy(engine);
}

static void cancel(yk_backend *backend, yk_backend_work *work)
{
    tcp_engine *engine = (tcp_engine *)backend;
    yki_tcp_links_reset(&engine->links);
    yki_engine_drop(&engine->common, work, CANCELLED_CALL_S);
}

/* ---- the table ------------------------------------------------------------------------------- */

const yk_backend_ops yki_backend_tcp = {
    .version = YK_BACKEND_VERSION,
    .size = sizeof(yk_backend_ops),
    .name = "tcp",
    .capabilities = YK_BACKEND_RANK_ORDER,
    .max_works = 4,
    .open = open_backend,
    .close = close_backend,
    .post = yki_engine_post,
    .test = yki_engine_test,
    .cancel = cancel,
};

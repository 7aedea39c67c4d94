/*
 * See sim_link.h. Each rank has a window, a file in memory that the others open through /proc: a
 * header, and two slots for what the rank contributes to a collective. When its stream reaches the
 * n-th collective, a rank fills slot n % 2 and publishes n. When all have done so, each reads what
 * it needs. A rank reaches collective n + 2 after it has finished n + 1. By then all ranks have
 * begun n + 1, and so have finished n: a slot is never refilled while another rank reads it.
 */
#define _GNU_SOURCE
#include "device/sim_link.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/thread.h"
#include "device/sim/stream.h"

enum { HEADER_BYTES = 4096, ANSWER_NS = 2000000 };

static const off_t SLOT_BYTES = (off_t)1 << 40; /* of a file that only has the pages in use */

typedef struct window_header {
    _Atomic uint64_t arrived; /* the number of the collective that this rank has reached */
    _Atomic uint32_t called;  /* counts what may be news to this rank; a futex */
    yk_descriptor what[2];    /* of the collectives in the slots */
    uint64_t recorded[2];     /* see exchange */
} window_header;

typedef struct window {
    int file;                      /* -1: not attached */
    window_header *_Atomic header; /* set while the answering thread runs */
} window;

struct yki_sim_link {
    atomic_int references;  /* this rank's own, and one for each operation */
    _Atomic(yki_sim *) sim; /* of the first stream; NULL before */
    int rank, ranks;
    window *windows; /* [ranks] */
    yki_sim_reduce *reduce;
    pthread_t thread;
    bool started;
    atomic_bool stopping;
    uint64_t recorded;         /* collectives, by the thread that enters them */
    uint64_t arrived;          /* under the device's lock */
    _Atomic uint64_t finished; /* arrived, or one less */
    atomic_int aborted;        /* a yk_status */
    char line[YKI_ERROR_LINE];
};

/* The work of a collective; it begins with its link, see yki_sim_find_work. */
typedef struct exchange {
    yki_sim_link *link;
    uint64_t number; /* 0 until the stream has reached it */
    yk_descriptor what;
    const void *in;
    void *out;
    uint64_t recorded; /* 0: it is in no recording; else how many the link had recorded by then */
} exchange;

/* ---- windows --------------------------------------------------------------------------------- */

static yk_status open_window(window *w, int file)
{
    w->file = file;
    void *memory = file < 0 ? MAP_FAILED
                            : mmap(NULL, HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED)
        return yki_error(YK_ERROR_UNSUPPORTED,
                         "device sim: the memory of another rank cannot be opened: %s",
                         strerror(errno));
    w->header = memory;
    return YK_OK;
}

static void close_window(window *w)
{
    if (w->header)
        munmap(w->header, HEADER_BYTES);
    if (w->file >= 0)
        close(w->file);
}

static off_t slot_of(uint64_t number)
{
    return HEADER_BYTES + (off_t)(number % 2) * SLOT_BYTES;
}

/* Reads or writes all of it. */
static yk_status transfer(int file, char *memory, size_t bytes, off_t at, bool writing)
{
    for (size_t done = 0; done < bytes;) {
        off_t place = at + (off_t)done;
        ssize_t moved = writing ? pwrite(file, memory + done, bytes - done, place)
                                : pread(file, memory + done, bytes - done, place);
        if (moved <= 0)
            return yki_error(YK_ERROR_NETWORK, "device sim: %zu bytes between ranks: %s", bytes,
                             moved < 0 ? strerror(errno) : "they are not there");
        done += (size_t)moved;
    }
    return YK_OK;
}

static void call(window_header *header)
{
    atomic_fetch_add(&header->called, 1);
    syscall(SYS_futex, &header->called, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* ---- beginning ------------------------------------------------------------------------------- */

/* How many times `count` elements a rank contributes. */
static size_t pieces_offered(const yk_descriptor *what, int rank, int ranks)
{
    bool root = rank == what->root;
    switch ((yk_operation)what->operation) {
    case YK_OPERATION_BROADCAST:
        return root ? 1 : 0;
    case YK_OPERATION_SCATTER:
        return root ? (size_t)ranks : 0;
    case YK_OPERATION_ALL_TO_ALL:
    case YK_OPERATION_REDUCE_SCATTER:
        return (size_t)ranks;
    default:
        return 1;
    }
}

static size_t bytes_of(const yk_descriptor *what)
{
    return what->count * yk_dtype_size((yk_dtype)what->dtype);
}

static yk_status offer(const exchange *x)
{
    const yki_sim_link *link = x->link;
    const window *own = &link->windows[link->rank];
    size_t bytes = bytes_of(&x->what) * pieces_offered(&x->what, link->rank, link->ranks);
    yki_sim *sim = atomic_load(&link->sim);
    void *found;
    own->header->what[x->number % 2] = x->what;
    own->header->recorded[x->number % 2] = x->recorded;
    if (bytes == 0)
        return YK_OK;
    YK_TRY(yki_sim_find(sim, x->in, bytes, &found));
    return transfer(own->file, found, bytes, slot_of(x->number), true);
}

/* The first failure is kept. */
static void note_abort(yki_sim_link *link, yk_status status, const char *line)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (!atomic_load(&link->aborted)) {
        snprintf(link->line, sizeof link->line, "%s", line);
        atomic_store(&link->aborted, (int)status);
    }
    pthread_mutex_unlock(&lock);
}

/* Called under the device's lock. */
static void arrive(exchange *x)
{
    yki_sim_link *link = x->link;
    x->number = ++link->arrived;
    yk_status status = offer(x);
    if (status != YK_OK) {
        char line[YKI_ERROR_LINE];
        yki_error_copy(line, sizeof line);
        note_abort(link, status, line);
    }
    atomic_store(&link->windows[link->rank].header->arrived, x->number);
    for (int r = 0; r < link->ranks; r++)
        if (r != link->rank && link->windows[r].header)
            call(link->windows[r].header);
}

static bool all_have_arrived(const yki_sim_link *link, uint64_t number)
{
    for (int r = 0; r < link->ranks; r++)
        if (!link->windows[r].header || atomic_load(&link->windows[r].header->arrived) < number)
            return false;
    return true;
}

/* One collective at a time, whatever the streams. */
static bool is_ready(yki_sim *sim, void *work)
{
    (void)sim;
    exchange *x = work;
    yki_sim_link *link = x->link;
    if (atomic_load(&link->aborted))
        return true;
    if (x->number == 0 && link->arrived != atomic_load(&link->finished))
        return false;
    if (x->number == 0)
        arrive(x);
    return atomic_load(&link->aborted) || all_have_arrived(link, x->number);
}

/* ---- moving data ----------------------------------------------------------------------------- */

/* NCCL asks for equal recordings, too: while it records, it may exchange addresses of buffers. */
static yk_status compare(const exchange *x)
{
    const yki_sim_link *link = x->link;
    size_t slot = x->number % 2;
    for (int r = 0; r < link->ranks; r++) {
        const window_header *header = link->windows[r].header;
        if (memcmp(&header->what[slot], &x->what, sizeof x->what) != 0)
            return yki_error(YK_ERROR_INTERNAL,
                             "device sim: the streams of rank %d and rank %d come to different "
                             "collectives",
                             link->rank, r);
        if (header->recorded[slot] != x->recorded)
            return yki_error(YK_ERROR_INTERNAL,
                             "device sim: a collective of rank %d and rank %d is not in the same "
                             "recording",
                             link->rank, r);
    }
    return YK_OK;
}

static yk_status take(const exchange *x, int from, size_t piece, void *to)
{
    size_t bytes = bytes_of(&x->what);
    return transfer(x->link->windows[from].file, to, bytes,
                    slot_of(x->number) + (off_t)(piece * bytes), false);
}

static yk_status take_all(const exchange *x, char *to, size_t piece)
{
    for (int r = 0; r < x->link->ranks; r++)
        YK_TRY(take(x, r, piece, to + (size_t)r * bytes_of(&x->what)));
    return YK_OK;
}

static yk_status reduce(const exchange *x, void *out)
{
    const yki_sim_link *link = x->link;
    size_t ranks = (size_t)link->ranks, bytes = bytes_of(&x->what);
    char *all = yki_calloc(ranks, bytes);
    const void **from = yki_calloc(ranks, sizeof *from);
    yk_status status = YK_OK;
    bool scatters = x->what.operation == YK_OPERATION_REDUCE_SCATTER;
    if (!all || !from)
        status = yki_error_memory(ranks * bytes, "a collective of the sim device");
    if (status == YK_OK)
        status = take_all(x, all, scatters ? (size_t)link->rank : 0);
    for (size_t r = 0; status == YK_OK && r < ranks; r++)
        from[r] = all + r * bytes;
    if (status == YK_OK)
        link->reduce(&out, 1, from, link->ranks, x->what.count, (yk_dtype)x->what.dtype,
                     (yk_reduce_op)x->what.reduce);
    free(all);
    free(from);
    return status;
}

static yk_status move(yki_sim *sim, const exchange *x)
{
    const yki_sim_link *link = x->link;
    yk_operation operation = (yk_operation)x->what.operation;
    bool root = link->rank == x->what.root;
    bool exchanges = operation == YK_OPERATION_ALL_TO_ALL;
    bool gathers = operation == YK_OPERATION_ALL_GATHER || exchanges ||
                   (operation == YK_OPERATION_GATHER && root);
    bool gives = operation == YK_OPERATION_BROADCAST ? root
                                                     : !root && (operation == YK_OPERATION_GATHER ||
                                                                 operation == YK_OPERATION_REDUCE);
    void *out;
    if (gives || x->what.count == 0)
        return YK_OK;
    YK_TRY(
        yki_sim_find(sim, x->out, bytes_of(&x->what) * (gathers ? (size_t)link->ranks : 1), &out));
    if (gathers)
        return take_all(x, out, exchanges ? (size_t)link->rank : 0);
    if (operation == YK_OPERATION_BROADCAST)
        return take(x, x->what.root, 0, out);
    if (operation == YK_OPERATION_SCATTER)
        return take(x, x->what.root, (size_t)link->rank, out);
    return reduce(x, out);
}

static yk_status run(yki_sim *sim, void *work)
{
    const exchange *x = work;
    yki_sim_link *link = x->link;
    yk_status aborted = (yk_status)atomic_load(&link->aborted);
    if (aborted != YK_OK)
        return yki_error_set_line(aborted, link->line);
    yk_status status = compare(x);
    if (status == YK_OK)
        status = move(sim, x);
    atomic_store(&link->finished, x->number);
    return status;
}

/* ---- answering ------------------------------------------------------------------------------- */

static void retain(void *work)
{
    atomic_fetch_add(&((exchange *)work)->link->references, 1);
}

static void release_link(yki_sim_link *link)
{
    if (atomic_fetch_sub(&link->references, 1) != 1)
        return;
    for (int r = 0; r < link->ranks; r++)
        close_window(&link->windows[r]);
    if (atomic_load(&link->sim))
        yki_sim_release_device(atomic_load(&link->sim));
    free(link->windows);
    free(link);
}

static void release(void *work)
{
    release_link(((exchange *)work)->link);
}

static const yki_sim_work kind = {.run = run,
                                  .ready = is_ready,
                                  .retain = retain,
                                  .release = release,
                                  .bytes = sizeof(exchange),
                                  .exclusive = true};

/* Whether another rank has reached a collective that this one has not finished. */
static bool is_awaited(const yki_sim_link *link)
{
    for (int r = 0; r < link->ranks; r++)
        if (r != link->rank && link->windows[r].header &&
            atomic_load(&link->windows[r].header->arrived) > atomic_load(&link->finished))
            return true;
    return false;
}

/* Runs an operation that leads to the collective another rank waits for, if it has been entered. */
static bool answer_once(yki_sim_link *link)
{
    yki_sim *sim = atomic_load(&link->sim);
    bool busy, ran = false;
    yki_stream *stream;
    uint64_t number;
    if (!sim)
        return false;
    pthread_mutex_lock(&sim->lock);
    if (yki_sim_find_work(sim, &kind, link, &stream, &number)) {
        yki_sim_want(sim, stream, number);
        ran = yki_sim_run_one(sim, &busy);
    }
    pthread_cond_broadcast(&sim->progress); /* threads that wait for other ranks look again */
    pthread_mutex_unlock(&sim->lock);
    if (sim->foreign)
        sim->foreign->leave();
    return ran;
}

static void *answer(void *argument)
{
    yki_sim_link *link = argument;
    _Atomic uint32_t *called = &link->windows[link->rank].header->called;
    while (!atomic_load(&link->stopping)) {
        uint32_t seen = atomic_load(called);
        bool awaited = is_awaited(link);
        if (awaited && answer_once(link))
            continue;
        const struct timespec pause = {.tv_nsec = awaited ? ANSWER_NS : 50 * ANSWER_NS};
        syscall(SYS_futex, called, FUTEX_WAIT, seen, &pause, NULL, 0);
    }
    return NULL;
}

/* ---- the link -------------------------------------------------------------------------------- */

static yk_status create_own_window(yki_sim_link *link)
{
    int file = memfd_create("yoke-sim-link", MFD_CLOEXEC);
    if (file >= 0 && ftruncate(file, HEADER_BYTES) != 0) {
        close(file);
        file = -1;
    }
    YK_TRY(open_window(&link->windows[link->rank], file));
    int error = yki_thread_create(&link->thread, "yoke-sim-link", NULL, answer, link);
    if (error)
        return yki_error(YK_ERROR_OUT_OF_MEMORY, "cannot start a thread: %s",
                         yki_thread_error(error));
    link->started = true;
    return YK_OK;
}

yk_status yki_sim_link_create(yki_sim_link **out, int rank, int ranks, yki_sim_reduce *combine)
{
    *out = NULL;
    yki_sim_link *link = yki_calloc(1, sizeof *link);
    if (!link)
        return yki_error_memory(sizeof *link, "a link of sim devices");
    atomic_init(&link->references, 1);
    link->rank = rank;
    link->reduce = combine;
    link->windows = yki_calloc((size_t)ranks, sizeof *link->windows);
    if (!link->windows) {
        free(link);
        return yki_error_memory((size_t)ranks * sizeof *link->windows, "a link of sim devices");
    }
    link->ranks = ranks;
    for (int r = 0; r < ranks; r++)
        link->windows[r].file = -1;
    yk_status status = create_own_window(link);
    if (status != YK_OK)
        yki_sim_link_destroy(link);
    else
        *out = link;
    return status;
}

void yki_sim_link_name(const yki_sim_link *link, char name[YKI_SIM_LINK_NAME])
{
    snprintf(name, YKI_SIM_LINK_NAME, "/proc/%d/fd/%d", (int)getpid(),
             link->windows[link->rank].file);
}

yk_status yki_sim_link_attach(yki_sim_link *link, int rank, const char *name)
{
    return open_window(&link->windows[rank], open(name, O_RDWR | O_CLOEXEC));
}

void yki_sim_link_destroy(yki_sim_link *link)
{
    if (!link)
        return;
    yki_sim_link_abort(link, YK_ERROR_INTERNAL,
                       "device sim: a collective after the end of its link");
    atomic_store(&link->stopping, true);
    if (link->started) {
        call(link->windows[link->rank].header);
        pthread_join(link->thread, NULL);
    }
    release_link(link);
}

/* A link is used with one device, which it may outlive. */
static void use_device(yki_sim_link *link, yki_sim *sim)
{
    if (atomic_load(&link->sim))
        return;
    yki_reference_retain(&sim->references);
    atomic_store(&link->sim, sim);
}

yk_status yki_sim_link_enter(yki_sim_link *link, const yk_backend_call *entered, yki_stream *stream)
{
    if (!stream)
        return yki_error(YK_ERROR_INTERNAL, "device sim: a collective is entered in no stream");
    use_device(link, stream->sim);
    const exchange x = {.link = link,
                        .what = entered->what,
                        .in = entered->in,
                        .out = entered->out,
                        .recorded = stream->recording ? ++link->recorded : 0};
    YK_TRY(yki_sim_enter(stream->sim, stream, &kind, &x));
    call(link->windows[link->rank].header);
    return YK_OK;
}

bool yki_sim_link_is_used(const yki_sim_link *link)
{
    return atomic_load(&link->references) > 1;
}

void yki_sim_link_abort(yki_sim_link *link, yk_status status, const char *line)
{
    note_abort(link, status, line);
    yki_sim *sim = atomic_load(&link->sim);
    if (!sim)
        return;
    pthread_mutex_lock(&sim->lock); /* so that no thread is between looking and waiting */
    pthread_cond_broadcast(&sim->progress);
    pthread_mutex_unlock(&sim->lock);
}

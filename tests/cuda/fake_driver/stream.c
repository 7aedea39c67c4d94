/* What the fake driver enters in its streams: copies, fills, launches, and work of other fakes. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "fake_driver.h"
#include "internal.h"
#include "simulator.h"

/* One thread at a time runs the device's work: the simulator is one. */
static pthread_mutex_t running = PTHREAD_MUTEX_INITIALIZER;

typedef struct work {
    const char *(*run)(void *data);
    int gpu;
    size_t bytes;
    max_align_t data[YK_FAKE_MOST_WORK / sizeof(max_align_t)];
} work;

static yk_status run_work(yki_sim *sim, void *given)
{
    (void)sim;
    work *w = given;
    pthread_mutex_lock(&running);
    fake_memory_open(1u << w->gpu);
    const char *error = fake_failure() ? NULL : w->run(w->data);
    if (error)
        fake_fail(CU_ILLEGAL_ADDRESS, error);
    pthread_mutex_unlock(&running);
    return YK_OK; /* the failure is the context's, which every call looks at */
}

static const yki_sim_work work_kind = {.run = run_work, .bytes = sizeof(work)};

int yk_fake_enter(struct CUstream_st *stream, const char *(*run)(void *data), const void *data,
                  size_t bytes)
{
    work w = {.run = run, .gpu = fake_current(), .bytes = bytes};
    if (fake_failure())
        return fake_failure();
    if (fake_current() < 0)
        return CU_INVALID_CONTEXT;
    if (!stream || bytes > sizeof w.data || stream->gpu != fake_current())
        return CU_INVALID_VALUE;
    memcpy(w.data, data, bytes);
    yk_status status =
        yki_sim_enter(fake_sim(), stream->of, &work_kind, &w); /* waits if it is full */
    fake_memory_open(FAKE_NO_GPU);
    return status == YK_OK ? YKI_CU_SUCCESS : CU_CAPTURE_INVALID;
}

struct yki_stream *yk_fake_stream(struct CUstream_st *stream)
{
    return stream->of;
}

/* ---- copies and fills ----------------------------------------------------------------------- */

typedef struct copy {
    void *to;
    const void *from;
    size_t bytes;
    yki_direction direction;
} copy;

static bool is_right(const copy *c)
{
    bool to = c->direction != YKI_TO_HOST, from = c->direction != YKI_TO_DEVICE;
    return (to ? fake_memory_gpu((uint64_t)(uintptr_t)c->to, c->bytes) >= 0
               : !fake_memory_meets(c->to, c->bytes)) &&
           (from ? fake_memory_gpu((uint64_t)(uintptr_t)c->from, c->bytes) >= 0
                 : !fake_memory_meets(c->from, c->bytes));
}

static const char *run_copy(void *data)
{
    const copy *c = data;
    fake_memory_open(FAKE_ALL_GPUS); /* it may be between two of them */
    if (!is_right(c))
        return "a copy from or to memory that has been freed since it was entered";
    memmove(c->to, c->from, c->bytes);
    return NULL;
}

/* A copy from or to memory that is not pinned is done by the host in part, which no graph can. */
int fake_copy(void *to, const void *from, size_t bytes, yki_direction direction,
              yki_cu_stream stream)
{
    const copy c = {to, from, bytes, direction};
    const void *host = direction == YKI_TO_DEVICE ? from : to;
    if (stream && stream->of->recording && direction != YKI_WITHIN_DEVICE &&
        !fake_pinned_has(host, bytes))
        return CU_CAPTURE_UNSUPPORTED;
    return is_right(&c) ? yk_fake_enter(stream, run_copy, &c, sizeof c) : CU_INVALID_VALUE;
}

typedef struct fill {
    yki_cu_address to;
    size_t bytes;
    int byte;
} fill;

static const char *run_fill(void *data)
{
    const fill *f = data;
    if (fake_memory_gpu(f->to, f->bytes) < 0)
        return "a fill of memory that has been freed since it was entered";
    memset((void *)(uintptr_t)f->to, f->byte, f->bytes);
    return NULL;
}

int fake_fill(yki_cu_address to, unsigned char byte, size_t bytes, yki_cu_stream stream)
{
    const fill f = {to, bytes, byte};
    return fake_memory_gpu(to, bytes) == stream->gpu ? yk_fake_enter(stream, run_fill, &f, sizeof f)
                                                     : CU_INVALID_VALUE;
}

/* ---- launches ------------------------------------------------------------------------------- */

typedef struct launch {
    const yk_sim_kernel *kernel;
    unsigned grid[3];
    max_align_t args[32];
} launch;

/* Whether this launch is the one that YK_FAKE_FAULT names, "kernel:number". */
static bool is_fault(const yk_sim_kernel *kernel)
{
    static int launches;
    const char *fault = getenv("YK_FAKE_FAULT"), *colon = fault ? strchr(fault, ':') : NULL;
    char name[64];
    if (!colon)
        return false;
    snprintf(name, sizeof name, "%.*s", (int)(colon - fault), fault);
    return kernel == yk_sim_find(name) && ++launches == atoi(colon + 1);
}

static const char *run_launch(void *data)
{
    static uint64_t seed;
    const launch *l = data;
    if (is_fault(l->kernel))
        return "a kernel accesses an illegal address, as YK_FAKE_FAULT says";
    return yk_sim_launch(l->kernel, l->grid, l->args, yk_sim_argument_bytes(l->kernel), ++seed);
}

/* 0, or why a GPU refuses it. */
static int make_launch(launch *l, yki_cu_function function, const unsigned grid[3],
                       unsigned threads, const void *args)
{
    if (function->gpu != fake_current())
        return CU_INVALID_HANDLE;
    size_t bytes = yk_sim_argument_bytes(function->kernel);
    *l = (launch){.kernel = function->kernel, .grid = {grid[0], grid[1], grid[2]}};
    if (threads != YKI_CUDA_THREADS || bytes > sizeof l->args || grid[0] == 0 || grid[1] == 0 ||
        grid[2] == 0 || grid[0] > INT32_MAX || grid[1] > 65535 || grid[2] > 65535)
        return CU_INVALID_VALUE;
    memcpy(l->args, args, bytes);
    return YKI_CU_SUCCESS;
}

int fake_launch(yki_cu_function function, const unsigned grid[3], unsigned threads,
                const void *args, yki_cu_stream stream)
{
    launch l;
    int result = make_launch(&l, function, grid, threads, args);
    return result == YKI_CU_SUCCESS ? yk_fake_enter(stream, run_launch, &l, sizeof l) : result;
}

/* ---- operations of recordings ---------------------------------------------------------------- */

bool fake_is_fill(const yki_sim_operation *operation, yki_cu_memset *parameters)
{
    const work *w = (const work *)operation->work;
    if (operation->kind != &work_kind || w->run != run_fill)
        return false;
    const fill *f = (const fill *)w->data;
    *parameters = (yki_cu_memset){
        .to = f->to, .value = (unsigned)f->byte, .element_size = 1, .width = f->bytes, .height = 1};
    return true;
}

yki_sim_operation *fake_new_launch(yki_cu_function function, const unsigned grid[3],
                                   unsigned threads, const void *args)
{
    launch l;
    work w = {.run = run_launch, .gpu = fake_current(), .bytes = sizeof l};
    if (w.gpu < 0 || make_launch(&l, function, grid, threads, args) != YKI_CU_SUCCESS)
        return NULL;
    memcpy(w.data, &l, sizeof l);
    return yki_sim_new_operation(&work_kind, &w);
}

void fake_move_work(yki_sim_operation *to, const yki_sim_operation *from)
{
    memcpy(to->work, from->work, sizeof(work));
}

int fake_synchronize(yki_cu_stream stream)
{
    yki_sim *sim = fake_sim();
    if (stream->of->recording)
        return CU_CAPTURE_INVALID;
    pthread_mutex_lock(&sim->lock);
    (void)yki_sim_reach(sim, stream->of, stream->of->entered);
    pthread_mutex_unlock(&sim->lock);
    fake_memory_open(FAKE_NO_GPU);
    return fake_failure();
}

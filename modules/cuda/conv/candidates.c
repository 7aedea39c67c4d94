/* See candidates.h. */
#include "conv/candidates.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cores.h"
#include "base/memory.h"
#include "base/thread.h"

const size_t yki_cuda_most_workspace = (size_t)512 << 20;

enum { THREADS = 32 };

/* How long more than one plan of each convolution is made: for each, and for all of them. */
static const double seconds_of_one = 5, seconds_of_all = 30;

/* Of one convolution. */
struct yki_cuda_candidates {
    struct yki_cuda_candidates *next;
    char problem[YKI_CUDNN_CONV_TEXT];
    yki_cudnn_graph graph;
    yki_cudnn_proposals proposals;
    yki_cudnn_plan plans[YKI_CUDNN_PROPOSALS]; /* by proposal; empty: there is none */
    int begun, running, made;                  /* plans */
    bool complete;
};

typedef struct yki_cuda_candidates candidates;

/* ---- the list -------------------------------------------------------------------------------- */

static candidates **find(yki_cuda_device *device, const char *problem)
{
    candidates **at = &device->candidates;
    while (*at && strcmp((*at)->problem, problem) != 0)
        at = &(*at)->next;
    return at;
}

static void destroy(candidates *c)
{
    for (int i = 0; i < c->begun; i++)
        yki_cudnn_plan_fini(c->graph.cudnn, &c->plans[i]);
    yki_cudnn_proposals_fini(&c->proposals);
    yki_cudnn_graph_fini(&c->graph);
    free(c);
}

void yki_cuda_candidates_free(yki_cuda_device *device)
{
    while (device->candidates) {
        candidates *c = device->candidates;
        device->candidates = c->next;
        destroy(c);
    }
}

/* The convolution's entry, which is new if it was not foreseen. */
static yk_status begin(yki_cuda_device *device, const yki_cudnn *cudnn, const yki_cudnn_conv *conv,
                       const char *problem, candidates **begun)
{
    candidates **at = find(device, problem);
    *begun = *at;
    if (*begun)
        return YK_OK;
    candidates *c = yki_calloc(1, sizeof *c);
    if (!c)
        return yki_error_memory(sizeof *c, "the plan of a convolution");
    snprintf(c->problem, sizeof c->problem, "%s", problem);
    yk_status status = yki_cudnn_conv_graph(&c->graph, cudnn, conv);
    if (status != YK_OK) {
        destroy(c);
        return status;
    }
    yki_cudnn_propose(&c->graph, &c->proposals);
    *begun = *at = c;
    return YK_OK;
}

yk_status yki_cuda_candidates_foresee(yki_cuda_device *device, const yki_cudnn *cudnn,
                                      const yki_cudnn_conv *conv, const char *problem)
{
    candidates *begun;
    return begin(device, cudnn, conv, problem, &begun);
}

/* ---- making ---------------------------------------------------------------------------------- */

/* What the threads share. */
typedef struct making {
    yki_cuda_device *device;
    pthread_mutex_t lock; /* of the convolutions */
    int most;             /* plans of each */
    double end;           /* from then on, the first plan of each is enough */
} making;

/* The convolution with the fewest plans, of those that want another; NULL: there is none. */
static candidates *next_to_make(const making *m)
{
    candidates *found = NULL;
    bool late = yki_now() > m->end;
    for (candidates *c = m->device->candidates; c; c = c->next) {
        int count = c->made + c->running;
        bool wants = !c->complete && c->begun < c->proposals.count && count < (late ? 1 : m->most);
        if (wants && (!found || count < found->made + found->running))
            found = c;
    }
    return found;
}

static void *make_plans(void *context)
{
    making *m = context;
    yki_device *device = &m->device->base;
    if (device->type->enter)
        device->type->enter(device);
    pthread_mutex_lock(&m->lock);
    for (candidates *c; (c = next_to_make(m));) {
        int i = c->begun++;
        c->running++;
        pthread_mutex_unlock(&m->lock);
        bool made = yki_cudnn_plan_make(&c->proposals, i, yki_cuda_most_workspace, &c->plans[i]);
        pthread_mutex_lock(&m->lock);
        c->running--;
        c->made += made;
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

/* Of all convolutions that have none. This thread works, too, and all of it where no other can be
 * started. */
static void make_all(yki_cuda_device *device)
{
    pthread_t threads[THREADS];
    making m = {.device = device, .most = device->measures ? YKI_CUDA_CANDIDATES : 1};
    int plans = 0, started = 0, cores = yki_cores_available();
    double seconds = 0;
    for (candidates *c = device->candidates; c; c = c->next) {
        plans += c->complete ? 0 : m.most;
        seconds += c->complete ? 0 : seconds_of_one;
    }
    m.end = yki_now() + (seconds < seconds_of_all ? seconds : seconds_of_all);
    pthread_mutex_init(&m.lock, NULL);
    while (started < THREADS && started + 1 < cores && started + 1 < plans &&
           yki_thread_create(&threads[started], "yoke-plans", NULL, make_plans, &m) == 0)
        started++;
    make_plans(&m);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&m.lock);
    for (candidates *c = device->candidates; c; c = c->next)
        c->complete = true;
}

yk_status yki_cuda_candidates_take(yki_cuda_device *device, const yki_cudnn *cudnn,
                                   const yki_cudnn_conv *conv, const char *problem,
                                   yki_cudnn_plan plans[YKI_CUDA_CANDIDATES], int *count)
{
    candidates *c;
    *count = 0;
    YK_TRY(begin(device, cudnn, conv, problem, &c));
    if (!c->complete)
        make_all(device);
    for (int i = 0; i < c->begun; i++)
        if (c->plans[i].descriptor) {
            plans[(*count)++] = c->plans[i];
            c->plans[i] = (yki_cudnn_plan){0};
        }
    *find(device, problem) = c->next;
    destroy(c);
    return YK_OK;
}

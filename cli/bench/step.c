/*
 * `yoke bench step`: full training steps on generated images, so that no time is spent loading
 * data; the median of repeats.
 */
#define _GNU_SOURCE
#include "bench/step.h"

#include <string.h>

#include "bench/memory_bound.h"
#include "bench/profile.h"
#include "common/clock.h"
#include "common/median.h"
#include "setup/setup.h"

enum { CLASSES = 10, WARM_UP = 2 };

/* What is trained, and on what. */
typedef struct training {
    yk_group *world;
    yk_model *model;
    yk_ddp *ddp; /* NULL on one rank */
    yk_optimizer *optimizer;
    yk_dataset *noise;
    yk_loader *loader;
    const yk_batch *batch; /* the loader's, in the memory of the model's device */
} training;

/* A batch of noise, which serves all steps; the values do not affect the time of a step. */
static bool make_batch(training *t, int64_t size, int64_t side)
{
    yk_random_options images = YK_RANDOM_OPTIONS_INIT;
    images.count = size;
    images.height = images.width = side;
    images.classes = CLASSES;
    yk_loader_options loading = YK_LOADER_OPTIONS_INIT;
    loading.batch_size = size;
    loading.prefetch = 1;
    loading.transforms = "Normalize(0.5,0.5)";
    loading.model = t->model;
    if (!cli_ok(yk_random_create(&t->noise, YK_SPLIT_TRAIN, &images)) ||
        !cli_ok(yk_loader_create(&t->loader, t->noise, &loading)))
        return false;
    t->batch = yk_loader_next(t->loader);
    return t->batch || cli_ok(yk_loader_status(t->loader));
}

static bool open_training(training *t, const cli_step_options *o)
{
    const char *source;
    int ranks = yk_group_size(t->world);
    cli_model_setup setup = {.arch = o->arch,
                             .options = o->model,
                             .images = {.ndim = 3, .dims = {3, o->image_size, o->image_size}},
                             .classes = CLASSES};
    setup.options.threads = cli_threads(o->model.threads, yk_group_local_size(t->world), &source);
    yk_sgd_options sgd = YK_SGD_OPTIONS_INIT;
    sgd.lr = 0.01;
    sgd.momentum = 0.9;
    return cli_build_model(&t->model, &setup) &&
           make_batch(t, o->batch_size / ranks, o->image_size) &&
           (ranks == 1 || cli_ok(yk_ddp_create(&t->ddp, t->model, t->world, NULL))) &&
           cli_ok(yk_sgd_create(&t->optimizer, t->model, &sgd));
}

static void close_training(training *t)
{
    yk_optimizer_destroy(t->optimizer);
    yk_ddp_destroy(t->ddp);
    yk_loader_destroy(t->loader);
    yk_dataset_destroy(t->noise);
    yk_model_destroy(t->model);
}

/* ---- measuring ------------------------------------------------------------------------------- */

/* In seconds, of each step. */
typedef struct step_times {
    double step[CLI_STEP_REPEATS], waiting[CLI_STEP_REPEATS], exposed[CLI_STEP_REPEATS];
} step_times;

static bool run_step(training *t)
{
    return cli_ok(yk_model_forward(t->model, t->batch)) && cli_ok(yk_model_backward(t->model)) &&
           cli_ok(yk_optimizer_step(t->optimizer));
}

/* An asynchronous device still computes when a step has been entered. Its loss is known when its
 * forward is done, so that from one loss to the next the device does the work of one step. The host
 * meanwhile enters more, as in training. */
static double time_of_loss(const training *t)
{
    yk_model_loss(t->model);
    return cli_clock_s();
}

static bool time_steps(step_times *times, training *t, const cli_step_options *o)
{
    for (int i = 0; i < WARM_UP; i++)
        if (!run_step(t))
            return false;
    if (o->profile && !cli_ok(yk_model_profile_begin(t->model)))
        return false;
    double before = time_of_loss(t);
    for (int i = 0; i < o->steps; i++) {
        if (!run_step(t))
            return false;
        double now = time_of_loss(t);
        yk_ddp_stats stats = yk_ddp_last_stats(t->ddp);
        times->step[i] = now - before;
        before = now;
        times->waiting[i] = stats.waiting_s;
        times->exposed[i] = stats.exposed_s;
    }
    return !o->profile || cli_ok(yk_model_profile_end(t->model));
}

static void print_result(const cli_step_result *r, const char *amp)
{
    printf("%s, %s, batch %lld = %d x %lld, %s: %.1f images/s, %.2f ms a step", r->arch, amp,
           (long long)r->batch_size, r->ranks, (long long)r->batch_size / r->ranks,
           yk_model_device_description(r->model), 1e3 * (double)r->batch_size / r->step_ms,
           r->step_ms);
    if (r->ranks > 1)
        printf(", waiting for ranks %.2f ms, exposed communication %.2f ms", r->waiting_ms,
               r->exposed_ms);
    printf(" (median of %d)\n", r->steps);
    if (r->bound_ms > 0)
        printf("exposed: %.2f %% of the step; summing the gradients, %.1f MB, takes the memory of "
               "this machine at least %.2f ms\n",
               100 * r->exposed_ms / r->step_ms, 1e-6 * r->gradient_bytes, r->bound_ms);
    if (r->slowest_rank >= 0)
        printf("rank %d is slower: the other ranks waited %.2f ms a step for it\n", r->slowest_rank,
               r->waited_ms);
}

/* ---- the result ------------------------------------------------------------------------------ */

static bool is_on_host(const cli_step_options *o)
{
    return strcmp(o->model.device, "cpu") == 0 || strcmp(o->model.device, "ref") == 0;
}

/* Next to the exposed communication: what would be exposed if nothing was hidden and nothing but
 * memory took time. */
static bool measure_bound(const training *t, cli_step_result *r)
{
    yk_memory_plan plan;
    double seconds = 0;
    if (r->ranks == 1 || !r->on_host)
        return true;
    if (!cli_ok(yk_model_memory_plan(t->model, t->batch->size, &plan)) ||
        !cli_memory_bound_measure(&seconds, t->world, plan.gradients))
        return false;
    r->gradient_bytes = (double)plan.gradients;
    r->bound_ms = 1e3 * seconds;
    return true;
}

static bool report(training *t, step_times *times, const cli_step_options *o)
{
    int steps = (int)o->steps, ranks = yk_group_size(t->world);
    size_t count = (size_t)steps;
    yk_slow_rank slow;
    cli_step_result r = {.arch = o->arch,
                         .amp = cli_amp_name(o->model.amp),
                         .ranks = ranks,
                         .steps = steps,
                         .batch_size = t->batch->size * ranks,
                         .trimmed_ms = 1e3 * cli_take_trimmed_mean(times->step, count),
                         .step_ms = 1e3 * cli_take_median(times->step, count),
                         .waiting_ms = 1e3 * cli_take_median(times->waiting, count),
                         .exposed_ms = 1e3 * cli_take_median(times->exposed, count),
                         .model = t->model,
                         .on_host = is_on_host(o),
                         .profiled = o->profile};
    /* All ranks measure at the same time, as they compute at the same time. */
    if (o->profile && yk_model_measure_limits(t->model, &r.limits) != YK_OK)
        r.limits = (yk_device_limits){.flop_s = 0};
    if (!measure_bound(t, &r))
        return false;
    if (!cli_ok(yk_find_slow_rank(&slow, t->world, 1e-3 * r.waiting_ms, 1e-3 * r.step_ms)))
        return false;
    r.slowest_rank = slow.rank;
    r.waited_ms = 1e3 * slow.waited_s;
    if (yk_group_rank(t->world) != 0)
        return true;
    print_result(&r, o->model.amp ? r.amp : "f32");
    return (!o->profile || cli_profile_print(&r)) && (!o->json || cli_step_write_json(&r, o->json));
}

bool cli_bench_step(const cli_step_options *o)
{
    static step_times times;
    training t = {.world = NULL};
    yk_group_options joining = YK_GROUP_OPTIONS_INIT;
    joining.backend = o->backend;
    if (!cli_ok(yk_group_init(&t.world, &joining)))
        return false;
    bool fine = open_training(&t, o) && time_steps(&times, &t, o) && report(&t, &times, o);
    close_training(&t);
    yk_group_destroy(t.world);
    return fine;
}

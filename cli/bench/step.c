/*
 * `yoke bench step`: full training steps on generated images, so that no time is spent loading
 * data; the median of repeats.
 */
#define _GNU_SOURCE
#include "bench/step.h"

#include <stdlib.h>

#include "bench/profile.h"
#include "clock.h"
#include "setup.h"

enum { CLASSES = 10, WARM_UP = 2 };

/* What is trained, and on what. */
typedef struct training {
    yk_group *world;
    yk_model *model;
    yk_ddp *ddp; /* NULL on one rank */
    yk_optimizer *optimizer;
    yk_tensor tensors[2];
    yk_batch batch;
} training;

/* Fills a batch with noise and repeating labels; the values do not affect the time of a step. */
static bool make_batch(yk_batch *batch, yk_tensor tensors[2], int64_t size, int64_t side)
{
    int64_t image = 3 * side * side;
    static const char *const names[] = {"images", "labels"};
    float *images = malloc((size_t)(size * image) * sizeof *images);
    int32_t *labels = malloc((size_t)size * sizeof *labels);
    if (!images || !labels) {
        free(images);
        free(labels);
        return cli_complain("no memory for a batch of %lld images", (long long)size);
    }
    uint32_t noise = 1;
    for (int64_t i = 0; i < size * image; i++) {
        noise = noise * 1664525u + 1013904223u; /* Numerical Recipes' generator */
        images[i] = (float)(noise >> 8) / (1 << 23) - 1;
    }
    for (int64_t i = 0; i < size; i++)
        labels[i] = (int32_t)(i % CLASSES);
    tensors[0] =
        (yk_tensor){.data = images, .dtype = YK_F32, .ndim = 4, .dims = {size, 3, side, side}};
    tensors[1] = (yk_tensor){.data = labels, .dtype = YK_I32, .ndim = 1, .dims = {size}};
    *batch = (yk_batch){.size = size, .count = 2, .names = names, .tensors = tensors};
    return true;
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
    return make_batch(&t->batch, t->tensors, o->batch_size / ranks, o->image_size) &&
           cli_build_model(&t->model, &setup) &&
           (ranks == 1 || cli_ok(yk_ddp_create(&t->ddp, t->model, t->world, NULL))) &&
           cli_ok(yk_sgd_create(&t->optimizer, t->model, &sgd));
}

static void close_training(training *t)
{
    yk_optimizer_destroy(t->optimizer);
    yk_ddp_destroy(t->ddp);
    yk_model_destroy(t->model);
    free(t->tensors[0].data);
    free(t->tensors[1].data);
}

/* ---- measuring ------------------------------------------------------------------------------- */

/* In seconds, of each step. */
typedef struct step_times {
    double step[CLI_STEP_REPEATS], waiting[CLI_STEP_REPEATS], exposed[CLI_STEP_REPEATS];
} step_times;

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_ms(double *seconds, int count)
{
    qsort(seconds, (size_t)count, sizeof *seconds, compare_doubles);
    return 1e3 * seconds[count / 2];
}

static double mean_ms(const double *seconds, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += seconds[i];
    return 1e3 * sum / count;
}

static bool run_step(training *t)
{
    return cli_ok(yk_model_forward(t->model, &t->batch)) && cli_ok(yk_model_backward(t->model)) &&
           cli_ok(yk_optimizer_step(t->optimizer));
}

static bool time_steps(step_times *times, training *t, const cli_step_options *o)
{
    for (int i = 0; i < WARM_UP; i++)
        if (!run_step(t))
            return false;
    if (o->profile && !cli_ok(yk_model_profile_begin(t->model)))
        return false;
    for (int i = 0; i < o->steps; i++) {
        double start = cli_clock_s();
        if (!run_step(t))
            return false;
        yk_ddp_stats stats = yk_ddp_last_stats(t->ddp);
        times->step[i] = cli_clock_s() - start;
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
    if (r->slowest_rank >= 0)
        printf("rank %d is slower: the other ranks waited %.2f ms a step for it\n", r->slowest_rank,
               r->waited_ms);
}

/* ---- the result ------------------------------------------------------------------------------ */

/*
 * The rank that the others wait for is the one that itself waits least, if the others wait for a
 * noticeable part of a step longer. Collective.
 */
static bool find_slowest(cli_step_result *r, yk_group *world)
{
    const double noticeable = 0.05; /* of a step, as yoke train has it for epochs */
    double *waiting = calloc((size_t)r->ranks, sizeof *waiting), sum = 0;
    int slowest = 0;
    r->slowest_rank = -1;
    if (!waiting)
        return cli_complain("no memory for a table of ranks");
    bool fine = cli_ok(yk_all_gather(world, waiting, &r->waiting_ms, 1, YK_F64, NULL));
    for (int rank = 0; fine && rank < r->ranks; rank++) {
        sum += waiting[rank];
        if (waiting[rank] < waiting[slowest])
            slowest = rank;
    }
    double others = r->ranks > 1 ? (sum - waiting[slowest]) / (r->ranks - 1) : 0;
    if (fine && others - waiting[slowest] > noticeable * r->step_ms) {
        r->slowest_rank = slowest;
        r->waited_ms = others - waiting[slowest];
    }
    free(waiting);
    return fine;
}

static bool report(training *t, step_times *times, const cli_step_options *o)
{
    int steps = (int)o->steps, ranks = yk_group_size(t->world);
    cli_step_result r = {.arch = o->arch,
                         .amp = cli_amp_name(o->model.amp),
                         .ranks = ranks,
                         .steps = steps,
                         .batch_size = t->batch.size * ranks,
                         .mean_ms = mean_ms(times->step, steps),
                         .step_ms = median_ms(times->step, steps),
                         .waiting_ms = median_ms(times->waiting, steps),
                         .exposed_ms = median_ms(times->exposed, steps),
                         .model = t->model,
                         .profiled = o->profile};
    /* All ranks measure at the same time, as they compute at the same time. */
    if (o->profile && yk_model_measure_limits(t->model, &r.limits) != YK_OK)
        r.limits = (yk_device_limits){0, 0};
    if (!find_slowest(&r, t->world))
        return false;
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

/*
 * Times full training steps (forward, backward, SGD with momentum and weight decay) of a network on
 * random data, and prints images/s as JSON: the median of single steps, after warm-up. Under
 * `yoke run` it is DDP over the ranks.
 * Usage: step ARCH IMAGE_SIZE BATCH_PER_RANK off|bf16|fp16 THREADS STEPS
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "../training.h"

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_value);
    return values[count / 2];
}

typedef struct settings {
    yk_arch_fn arch;
    yk_amp amp;
    int64_t image_size; /* width and height */
    int64_t batch_size; /* of a rank */
    int threads, steps;
} settings;

static settings parse_args(int argc, char **argv)
{
    if (argc != 7) {
        fprintf(stderr, "usage: step ARCH IMAGE_SIZE BATCH_PER_RANK off|bf16|fp16 THREADS STEPS\n");
        exit(2);
    }
    settings set = {.arch = yk_arch_find(argv[1]),
                    .amp = strcmp(argv[4], "fp16") == 0   ? YK_AMP_FP16
                           : strcmp(argv[4], "bf16") == 0 ? YK_AMP_BF16
                                                          : YK_AMP_OFF,
                    .image_size = atoll(argv[2]),
                    .batch_size = atoll(argv[3]),
                    .threads = atoi(argv[5]),
                    .steps = atoi(argv[6])};
    if (!set.arch || set.image_size < 1 || set.batch_size < 1 || set.steps < 1) {
        fprintf(stderr, "step: unknown network or impossible size\n");
        exit(2);
    }
    return set;
}

/* Seconds of each step, and of them those of exposed communication. */
static void run_steps(double *seconds, double *exposed, int steps, const bench_training *t,
                      const yk_batch *batch)
{
    enum { WARM_UP = 2 };
    for (int i = -WARM_UP; i < steps; i++) {
        double start = bench_now();
        YK_CHECK(yk_model_forward(t->model, batch));
        YK_CHECK(yk_model_backward(t->model));
        YK_CHECK(yk_optimizer_step(t->optimizer));
        if (i >= 0) {
            seconds[i] = bench_now() - start;
            exposed[i] = yk_ddp_last_stats(t->ddp).exposed_s;
        }
    }
}

int main(int argc, char **argv)
{
    settings set = parse_args(argc, argv);
    bench_training t;
    yk_batch batch;
    yk_tensor tensors[2];
    yk_model_options options = YK_MODEL_OPTIONS_INIT;
    options.amp = set.amp;
    options.threads = set.threads;
    bench_create_training(&t, set.arch, set.image_size, &options);
    bench_make_batch(&batch, tensors, set.batch_size, set.image_size);
    double *seconds = bench_allocate(set.steps, sizeof *seconds);
    double *exposed = bench_allocate(set.steps, sizeof *exposed);
    run_steps(seconds, exposed, set.steps, &t, &batch);

    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double step = median(seconds, set.steps), wait = median(exposed, set.steps);
    int ranks = yk_group_size(t.group);
    if (yk_group_rank(t.group) == 0)
        printf("{\"images_per_s\": %.1f, \"step_ms\": %.1f, \"exposed_ms\": %.2f, "
               "\"peak_mb\": %.0f, \"loss\": %.4f}\n",
               (double)set.batch_size * ranks / step, 1e3 * step, 1e3 * wait,
               (double)usage.ru_maxrss / 1024, yk_model_loss(t.model));

    bench_destroy_training(&t);
    bench_release_batch(tensors);
    free(seconds);
    free(exposed);
    return 0;
}

/*
 * Times full training steps (forward, backward, SGD with momentum and weight decay) of a network on
 * random data, and prints images/s as JSON: the median of single steps, after warm-up. Under
 * `yoke run` it is DDP over the ranks. Usage: step ARCH BATCH_PER_RANK off|bf16|fp16 THREADS STEPS
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <yoke/yoke.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

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

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: step ARCH BATCH_PER_RANK off|bf16|fp16 THREADS STEPS\n");
        return 2;
    }
    int64_t batch_size = atoll(argv[2]);
    int threads = atoi(argv[4]), steps = atoi(argv[5]);
    yk_arch_fn build = yk_arch_find(argv[1]);
    if (!build || batch_size < 1 || steps < 1) {
        fprintf(stderr, "step: unknown network or impossible size\n");
        return 2;
    }
    yk_group *group;
    YK_CHECK(yk_group_init(&group, NULL));

    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 32, 32});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *logits = build(images, 10);
    yk_model *model;
    YK_CHECK(yk_model_create(&model, yk_cross_entropy(logits, labels, NULL),
                             &(yk_model_options){.amp = strcmp(argv[3], "fp16") == 0   ? YK_AMP_FP16
                                                        : strcmp(argv[3], "bf16") == 0 ? YK_AMP_BF16
                                                                                       : YK_AMP_OFF,
                                                 .threads = threads}));
    yk_ddp *ddp;
    YK_CHECK(yk_ddp_create(&ddp, model, group, NULL));
    yk_optimizer *optimizer;
    YK_CHECK(yk_sgd_create(&optimizer, model,
                           &(yk_sgd_options){.lr = 0.01, .momentum = 0.9, .weight_decay = 5e-4}));

    float *pixels = calloc((size_t)batch_size * 3072, sizeof *pixels);
    int32_t *classes = calloc((size_t)batch_size, sizeof *classes);
    double *seconds = calloc((size_t)steps, sizeof *seconds);
    double *exposed = calloc((size_t)steps, sizeof *exposed);
    if (!pixels || !classes || !seconds || !exposed)
        return 1;
    srand(1);
    for (int64_t i = 0; i < batch_size * 3072; i++)
        pixels[i] = (float)rand() / (float)RAND_MAX * 4 - 2;
    for (int64_t i = 0; i < batch_size; i++)
        classes[i] = rand() % 10;
    const char *names[] = {"images", "labels"};
    yk_tensor tensors[] = {
        {.data = pixels, .dtype = YK_F32, .ndim = 4, .dims = {batch_size, 3, 32, 32}},
        {.data = classes, .dtype = YK_I32, .ndim = 1, .dims = {batch_size}}};
    yk_batch batch = {.size = batch_size, .count = 2, .names = names, .tensors = tensors};

    for (int i = -2; i < steps; i++) {
        double start = now();
        YK_CHECK(yk_model_forward(model, &batch));
        YK_CHECK(yk_model_backward(model));
        YK_CHECK(yk_optimizer_step(optimizer));
        if (i >= 0) {
            seconds[i] = now() - start;
            exposed[i] = yk_ddp_last_stats(ddp).exposed_s;
        }
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double step = median(seconds, steps), wait = median(exposed, steps);
    int ranks = yk_group_size(group);
    if (yk_group_rank(group) == 0)
        printf("{\"images_per_s\": %.1f, \"step_ms\": %.1f, \"exposed_ms\": %.2f, "
               "\"peak_mb\": %.0f, \"loss\": %.4f}\n",
               (double)batch_size * ranks / step, 1e3 * step, 1e3 * wait,
               (double)usage.ru_maxrss / 1024, yk_model_loss(model));

    yk_optimizer_destroy(optimizer);
    yk_ddp_destroy(ddp);
    yk_model_destroy(model);
    yk_group_destroy(group);
    free(pixels);
    free(classes);
    free(seconds);
    free(exposed);
    return 0;
}

/* What the benchmarks that train on random data share. */
#ifndef YOKE_BENCH_TRAINING_H
#define YOKE_BENCH_TRAINING_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <yoke/yoke.h>

/* Seconds since some moment. */
static inline double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Zeros; ends the program if there is no memory. */
static inline void *bench_allocate(int64_t count, size_t size)
{
    void *memory = calloc((size_t)count, size);
    if (!memory) {
        fprintf(stderr, "no memory for %lld x %zu bytes\n", (long long)count, size);
        exit(1);
    }
    return memory;
}

/* `size` random images of 3 x side x side and their labels of ten classes, to be released. */
static inline void bench_make_batch(yk_batch *batch, yk_tensor tensors[2], int64_t size,
                                    int64_t side)
{
    static const char *const names[] = {"images", "labels"};
    int64_t count = size * 3 * side * side;
    float *pixels = bench_allocate(count, sizeof *pixels);
    int32_t *classes = bench_allocate(size, sizeof *classes);
    srand48(1);
    for (int64_t i = 0; i < count; i++)
        pixels[i] = (float)(drand48() * 4 - 2);
    for (int64_t i = 0; i < size; i++)
        classes[i] = (int32_t)(lrand48() % 10);
    tensors[0] =
        (yk_tensor){.data = pixels, .dtype = YK_F32, .ndim = 4, .dims = {size, 3, side, side}};
    tensors[1] = (yk_tensor){.data = classes, .dtype = YK_I32, .ndim = 1, .dims = {size}};
    *batch = (yk_batch){.size = size, .count = 2, .names = names, .tensors = tensors};
}

static inline void bench_release_batch(yk_tensor tensors[2])
{
    free(tensors[0].data);
    free(tensors[1].data);
}

/* A network for images of 3 x side x side under DDP, trained by SGD with momentum. */
typedef struct bench_training {
    yk_group *group;
    yk_model *model;
    yk_ddp *ddp;
    yk_optimizer *optimizer;
} bench_training;

static inline void bench_create_training(bench_training *t, yk_arch_fn arch, int64_t side,
                                         const yk_model_options *options)
{
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, side, side});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *loss = yk_cross_entropy(arch(images, 10), labels, NULL);
    yk_sgd_options sgd = YK_SGD_OPTIONS_INIT;
    sgd.lr = 0.01;
    sgd.momentum = 0.9;
    sgd.weight_decay = 5e-4;
    YK_CHECK(yk_group_init(&t->group, NULL));
    YK_CHECK(yk_model_create(&t->model, loss, options));
    YK_CHECK(yk_ddp_create(&t->ddp, t->model, t->group, NULL));
    YK_CHECK(yk_sgd_create(&t->optimizer, t->model, &sgd));
}

static inline void bench_destroy_training(bench_training *t)
{
    yk_optimizer_destroy(t->optimizer);
    yk_ddp_destroy(t->ddp);
    yk_model_destroy(t->model);
    yk_group_destroy(t->group);
}

#endif

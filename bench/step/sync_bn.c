/*
 * What SyncBatchNorm costs: full training steps of one network with batch_norm and with
 * SyncBatchNorm on the same ranks, in turn: the fastest step of each (all that disturbs makes one
 * longer), and their ratio. To be run by `yoke run`.
 * Usage: sync_bn ARCH BATCH_PER_RANK off|bf16 THREADS STEPS
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../training.h"

enum { WARM_UP = 2 };

typedef struct side {
    yk_model *model;
    yk_ddp *ddp;
    yk_optimizer *optimizer;
    double fastest;
} side;

static void open_side(side *s, yk_group *group, yk_arch_fn build, bool synced, char **argv)
{
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 32, 32});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *loss = yk_cross_entropy(build(images, 10), labels, NULL);
    yk_model_options options = YK_MODEL_OPTIONS_INIT;
    options.amp = strcmp(argv[3], "bf16") ? YK_AMP_OFF : YK_AMP_BF16;
    options.threads = atoi(argv[4]);
    YK_CHECK(yk_model_create(&s->model, loss, &options));
    if (synced)
        YK_CHECK(yk_sync_batch_norm_convert(s->model, group));
    YK_CHECK(yk_ddp_create(&s->ddp, s->model, group, NULL));
    yk_sgd_options sgd = YK_SGD_OPTIONS_INIT;
    sgd.lr = 0.01;
    sgd.momentum = 0.9;
    YK_CHECK(yk_sgd_create(&s->optimizer, s->model, &sgd));
    s->fastest = 1e9;
}

static double step(side *s, const yk_batch *batch)
{
    double start = bench_now();
    YK_CHECK(yk_model_forward(s->model, batch));
    YK_CHECK(yk_model_backward(s->model));
    YK_CHECK(yk_optimizer_step(s->optimizer));
    return bench_now() - start;
}

static void close_side(side *s)
{
    yk_optimizer_destroy(s->optimizer);
    yk_ddp_destroy(s->ddp);
    yk_model_destroy(s->model);
}

int main(int argc, char **argv)
{
    yk_arch_fn build = argc == 6 ? yk_arch_find(argv[1]) : NULL;
    int64_t size = argc == 6 ? atoll(argv[2]) : 0;
    int steps = argc == 6 ? atoi(argv[5]) : 0;
    if (!build || size < 1 || steps < 1) {
        fprintf(stderr, "usage: sync_bn ARCH BATCH_PER_RANK off|bf16 THREADS STEPS\n");
        return 2;
    }
    yk_group *group;
    YK_CHECK(yk_group_init(&group, NULL));
    side sides[2];
    for (int i = 0; i < 2; i++)
        open_side(&sides[i], group, build, i == 1, argv);

    yk_batch batch;
    yk_tensor tensors[2];
    bench_make_batch(&batch, tensors, size, 32);

    for (int i = -WARM_UP; i < steps; i++)
        for (int k = 0; k < 2; k++) {
            YK_CHECK(yk_barrier(group));
            double seconds = step(&sides[k], &batch);
            if (i >= 0 && seconds < sides[k].fastest)
                sides[k].fastest = seconds;
        }
    double plain = sides[0].fastest, synced = sides[1].fastest;
    if (yk_group_rank(group) == 0)
        printf("{\"batch_norm_ms\": %.1f, \"sync_batch_norm_ms\": %.1f, \"ratio\": %.4f}\n",
               1e3 * plain, 1e3 * synced, synced / plain);
    for (int i = 0; i < 2; i++)
        close_side(&sides[i]);
    yk_group_destroy(group);
    bench_release_batch(tensors);
    return 0;
}

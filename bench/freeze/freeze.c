/*
 * The processor time of a training step of ResNet-50 (images of 224x224, 5 classes, SGD with
 * momentum) on one thread, all of it trained or only the last layer; in ms, the median of single
 * steps. Usage: freeze trained|frozen BATCH STEPS
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <yoke/yoke.h>

enum { SIDE = 224, CLASSES = 5, WARM_UP = 1 };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void create(yk_model **model, yk_optimizer **optimizer, bool frozen)
{
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, SIDE, SIDE});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *loss = yk_cross_entropy(yk_resnet50(images, CLASSES), labels, NULL);
    yk_model_options options = YK_MODEL_OPTIONS_INIT;
    options.threads = 1;
    yk_sgd_options sgd = YK_SGD_OPTIONS_INIT;
    sgd.lr = 0.01;
    sgd.momentum = 0.9;
    if (frozen) {
        YK_CHECK(yk_graph_set_trainable(graph, "*", false, NULL));
        YK_CHECK(yk_graph_set_trainable(graph, "fc.*", true, NULL));
    }
    YK_CHECK(yk_model_create(model, loss, &options));
    YK_CHECK(yk_sgd_create(optimizer, *model, &sgd));
}

/* The median of the steps, in ms. */
static double measure(yk_model *model, yk_optimizer *optimizer, const yk_batch *batch, int steps)
{
    double *ms = calloc((size_t)steps, sizeof *ms);
    for (int i = -WARM_UP; ms && i < steps; i++) {
        clock_t start = clock();
        YK_CHECK(yk_model_forward(model, batch));
        YK_CHECK(yk_model_backward(model));
        YK_CHECK(yk_optimizer_step(optimizer));
        if (i >= 0)
            ms[i] = 1e3 * (double)(clock() - start) / CLOCKS_PER_SEC;
    }
    if (!ms)
        return 0;
    qsort(ms, (size_t)steps, sizeof *ms, by_value);
    double median = ms[steps / 2];
    free(ms);
    return median;
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"images", "labels"};
    yk_model *model;
    yk_optimizer *optimizer;
    int batch_size = argc == 4 ? atoi(argv[2]) : 0, steps = argc == 4 ? atoi(argv[3]) : 0;
    if (batch_size < 1 || steps < 1) {
        fprintf(stderr, "usage: freeze trained|frozen BATCH STEPS\n");
        return 2;
    }
    size_t count = (size_t)batch_size * 3 * SIDE * SIDE;
    float *pixels = calloc(count, sizeof *pixels);
    int32_t *classes = calloc((size_t)batch_size, sizeof *classes);
    if (!pixels || !classes)
        return 1;
    for (size_t i = 0; i < count; i++)
        pixels[i] = (float)(drand48() * 4 - 2);
    yk_tensor tensors[] = {
        {.data = pixels, .dtype = YK_F32, .ndim = 4, .dims = {batch_size, 3, SIDE, SIDE}},
        {.data = classes, .dtype = YK_I32, .ndim = 1, .dims = {batch_size}}};
    yk_batch batch = {.size = batch_size, .count = 2, .names = names, .tensors = tensors};
    create(&model, &optimizer, strcmp(argv[1], "frozen") == 0);
    printf("{\"step_ms\": %.1f}\n", measure(model, optimizer, &batch, steps));
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
    free(pixels);
    free(classes);
    return 0;
}

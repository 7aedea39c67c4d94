/*
 * OMP_THREAD_LIMIT below the threads asked for, and OMP_DYNAMIC, by which OpenMP may start fewer:
 * kernels that were planned for more threads than there are would leave out the others' share, or
 * wait for them.
 */
#define _GNU_SOURCE
#include "harness.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SAMPLES = 32, CHANNELS = 40, SIDE = 12, PIXELS = CHANNELS * SIDE * SIDE };

/* The loss and the gradient of the first convolution, with so many threads requested. The device
 * describes itself with these words. */
static void run(int threads, const char *words, double *loss, float *gradient, size_t elements)
{
    static float pixels[SAMPLES * PIXELS];
    static int32_t classes[SAMPLES] = {0, 1, 2, 1};
    for (int i = 0; i < SAMPLES * PIXELS; i++)
        pixels[i] = (float)(i * 7919 % 4001) / 2000 - 1;
    const char *names[] = {"images", "labels"};
    yk_tensor tensors[] = {
        {.data = pixels, .dtype = YK_F32, .ndim = 4, .dims = {SAMPLES, CHANNELS, SIDE, SIDE}},
        {.data = classes, .dtype = YK_I32, .ndim = 1, .dims = {SAMPLES}}};
    yk_batch batch = {.size = SAMPLES, .count = 2, .names = names, .tensors = tensors};
    yk_graph *graph = yk_graph_create();
    yk_value *images =
        yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, CHANNELS, SIDE, SIDE});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *x = yk_nn_conv2d(images, "conv", CHANNELS, 3,
                               YK_WITH(yk_conv2d_options, YK_CONV2D_OPTIONS_INIT, o.padding = 1));
    x = yk_flatten(yk_global_avg_pool2d(yk_relu(yk_nn_batch_norm(x, "bn"))));
    yk_model *model;
    assert_ok(
        yk_model_create(&model, yk_cross_entropy(yk_nn_linear(x, "fc", 3), labels, NULL),
                        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.threads = threads)));
    assert_contains(yk_model_device_description(model), words);
    assert_ok(yk_model_forward(model, &batch));
    assert_ok(yk_model_backward(model));
    yk_tensor grad = yk_model_parameter(model, 0).grad;
    assert_int_equal(yk_tensor_count(&grad), elements);
    memcpy(gradient, grad.data, elements * sizeof *gradient);
    *loss = yk_model_loss(model);
    yk_model_destroy(model);
}

static void check_limited(void)
{
    static float three[CHANNELS * CHANNELS * 9], one[CHANNELS * CHANNELS * 9];
    double loss_three, loss_one;
    run(3, ", 1 thread", &loss_three, three, sizeof three / sizeof *three);
    run(1, ", 1 thread", &loss_one, one, sizeof one / sizeof *one);
    assert_true(loss_three == loss_one);
    assert_memory_equal(three, one, sizeof one);
}

/* Runs a case of this program with a variable, which OpenMP reads when it starts. */
static void run_case(const char *name, const char *variable)
{
    char self[1024], output[8192];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_in_range(length, 1, sizeof self - 1);
    self[length] = '\0';
    int code = yk_test_command(output, sizeof output, "%s '%s' %s 2>&1", variable, self, name);
    if (code != 0)
        fail_msg("under %s: %s", variable, output);
}

static bool is_set(const char *variable, const char *value)
{
    const char *text = getenv(variable);
    return text && strcmp(text, value) == 0;
}

YK_TEST(no_more_threads_than_openmp_gives)
{
    if (is_set("OMP_THREAD_LIMIT", "1"))
        check_limited();
    else
        run_case("no_more_threads_than_openmp_gives", "OMP_THREAD_LIMIT=1");
}

/* With OMP_DYNAMIC, OpenMP would start no more than there are cores, and fewer on a busy machine;
 * with OMP_MAX_ACTIVE_LEVELS=0, and in regions of a program's own, only one. */
static void check_many(void)
{
    enum { ELEMENTS = CHANNELS * CHANNELS * 9 };
    static float many[ELEMENTS], one[ELEMENTS];
    double loss_many, loss_one;
    int threads = 2 * (int)sysconf(_SC_NPROCESSORS_ONLN) + 1;
    run(threads, " thread", &loss_many, many, ELEMENTS);
    run(1, ", 1 thread", &loss_one, one, ELEMENTS);
    assert_true(fabs(loss_many - loss_one) < 1e-5);
    for (int i = 0; i < ELEMENTS; i++)
        assert_true(fabsf(many[i] - one[i]) < 1e-5f);
}

YK_TEST(as_many_threads_as_kernels_count_on)
{
    if (is_set("OMP_DYNAMIC", "true") || is_set("OMP_MAX_ACTIVE_LEVELS", "0")) {
        check_many();
        return;
    }
    run_case("as_many_threads_as_kernels_count_on", "OMP_DYNAMIC=true");
    run_case("as_many_threads_as_kernels_count_on", "OMP_MAX_ACTIVE_LEVELS=0");
}

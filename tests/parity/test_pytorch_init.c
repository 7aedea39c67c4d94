/*
 * First weights against those of torchvision's networks after torch.manual_seed. Uniform draws (the
 * last layer) are bitwise PyTorch's. Normal draws (convolutions) are where PyTorch runs its AVX2
 * code, and elsewhere as far from it as its own vector maths is: a few last bits. So are those of
 * the functions of torch.nn.init.
 */
#define _GNU_SOURCE
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <yoke/networks.h>
#include <yoke/nn.h>
#include <yoke/nn_init.h>

#include "pytorch.h"

static const char *path_of(const char *arch, int seed)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s-%d.pth", yk_test_directory(), arch, seed);
    return path;
}

/* Whether PyTorch runs its AVX2 code here. */
static bool torch_vectorises(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2") && !getenv("ATEN_CPU_CAPABILITY");
#else
    return false;
#endif
}

static yk_model *make(const char *arch, int64_t side, int seed)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, side, side});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *loss = yk_cross_entropy(yk_arch_find(arch)(x, 10), labels, NULL);
    yk_model *model;
    assert_ok(yk_model_create(
        &model, loss, YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.seed = (uint64_t)seed)));
    return model;
}

typedef struct difference {
    long elements, differing;
    double largest; /* relative to the tensor's deviation */
} difference;

static void compare(difference *d, const yk_tensor *here, const yk_tensor *there)
{
    const float *a = here->data, *b = there->data;
    int64_t count = yk_tensor_count(here);
    double squares = 0, largest = 0;
    for (int64_t i = 0; i < count; i++) {
        d->differing += memcmp(&a[i], &b[i], sizeof *a) != 0;
        largest = fmax(largest, fabs((double)a[i] - (double)b[i]));
        squares += (double)b[i] * (double)b[i];
    }
    d->elements += count;
    d->largest = fmax(d->largest, largest / (sqrt(squares / (double)count) + 1e-30));
}

static void check(const char *arch, int64_t side, int seed)
{
    pytorch_judges("init.py", "%s %s %d", path_of(arch, seed), arch, seed);
    yk_model *here = make(arch, side, seed), *there = make(arch, side, seed + 1);
    difference normal = {0}, other = {0};
    assert_ok(yk_model_load(there, path_of(arch, seed)));
    for (size_t i = 0; i < yk_model_parameter_count(here); i++) {
        yk_tensor a = yk_model_parameter(here, i).value, b = yk_model_parameter(there, i).value;
        compare(a.ndim == 4 ? &normal : &other, &a, &b);
    }
    print_message("%s, seed %d: of %ld normal weights %ld differ, by at most %.1e deviations; of "
                  "%ld others %ld\n",
                  arch, seed, normal.elements, normal.differing, normal.largest, other.elements,
                  other.differing);
    assert_int_equal(other.differing, 0);
    assert_true(normal.largest < 2e-6);
    assert_true(!torch_vectorises() || normal.differing == 0);
    yk_model_destroy(here);
    yk_model_destroy(there);
}

YK_TEST(resnet18_starts_where_pytorch_does)
{
    check("resnet18-cifar", 32, 0);
    check("resnet18-cifar", 32, 1);
}

YK_TEST(resnet50_starts_where_torchvision_does)
{
    check("resnet50", 32, 0);
    check("resnet50", 32, 1);
}

YK_TEST(mobilenet_v3_starts_where_torchvision_does)
{
    check("mobilenet-v3-large", 32, 0);
    check("mobilenet-v3-small", 32, 1);
}

YK_TEST(mnasnet_starts_where_torchvision_does)
{
    check("mnasnet0-5", 32, 0);
    check("mnasnet1-0", 32, 1);
}

YK_TEST(shufflenet_starts_where_torchvision_does)
{
    check("shufflenet-v2-x0-5", 32, 0);
    check("shufflenet-v2-x1-0", 32, 1);
}

YK_TEST(efficientnet_starts_where_torchvision_does)
{
    check("efficientnet-b0", 32, 0);
    check("efficientnet-b0", 32, 1);
    check("efficientnet-v2-s", 32, 0);
}

YK_TEST(regnet_starts_where_torchvision_does)
{
    check("regnet-y-400mf", 32, 0);
    check("regnet-x-400mf", 32, 1);
}

YK_TEST(densenet_starts_where_torchvision_does)
{
    check("densenet121", 32, 0);
    check("densenet121", 32, 1);
}

YK_TEST(alexnet_starts_where_torchvision_does)
{
    check("alexnet", 64, 0);
}

YK_TEST(squeezenet_starts_where_torchvision_does)
{
    check("squeezenet1-0", 32, 0);
    check("squeezenet1-1", 32, 1);
}

YK_TEST(googlenet_starts_where_torchvision_does)
{
    check("googlenet", 32, 0);
    check("googlenet", 32, 1);
}

YK_TEST(airbench94_starts_where_pytorch_does)
{
    check("airbench94", 32, 0);
    check("airbench94", 32, 1);
}

/* ---- torch.nn.init --------------------------------------------------------------------------- */

enum { WIDTH = 20, LAYERS = 9, ORTHOGONAL = 5 };

/* A convolution and linear layers, which have their names from nn.Sequential. */
static yk_model *make_layers(int seed)
{
    yk_model *model;
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 8, 8});
    x = yk_flatten(yk_global_avg_pool2d(yk_nn_conv2d_bias(x, "0", WIDTH, 3, NULL)));
    for (int i = 1; i < LAYERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        x = yk_nn_linear(x, name, WIDTH);
    }
    assert_ok(yk_model_create(
        &model, NULL,
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.seed = (uint64_t)seed, o.logits = x)));
    return model;
}

static void call_functions(yk_model *model)
{
    assert_ok(yk_nn_init_normal(model, "[1-8].weight", 0, 0.02));
    assert_ok(yk_nn_init_kaiming_normal(model, "0.weight", sqrt(2), YK_FAN_OUT));
    assert_ok(yk_nn_init_uniform(model, "1.weight", -0.1, 0.3));
    assert_ok(yk_nn_init_normal(model, "2.weight", 0.5, 2));
    assert_ok(yk_nn_init_trunc_normal(model, "3.weight", 0, 1, -1, 1.5));
    assert_ok(yk_nn_init_xavier_uniform(model, "4.weight", 5.0 / 3));
    assert_ok(yk_nn_init_orthogonal(model, "5.weight", 2));
    assert_ok(yk_nn_init_xavier_normal(model, "6.weight", 1));
    assert_ok(yk_nn_init_kaiming_uniform(model, "7.weight", sqrt(2), YK_FAN_IN));
    assert_ok(yk_nn_init_kaiming_normal(model, "8.weight", sqrt(2 / (1 + 0.2 * 0.2)), YK_FAN_OUT));
    assert_ok(yk_nn_init_normal(model, "*.bias", 1, 0.5));
    assert_ok(yk_nn_init_constant(model, "4.bias", 0.1));
}

static void check_functions(int seed)
{
    pytorch_judges("init.py", "%s functions %d", path_of("functions", seed), seed);
    yk_model *here = make_layers(seed), *there = make_layers(seed);
    difference orthogonal = {0}, other = {0};
    call_functions(here);
    assert_ok(yk_model_load(there, path_of("functions", seed)));
    for (size_t i = 0; i < yk_model_parameter_count(here); i++) {
        yk_tensor a = yk_model_parameter(here, i).value, b = yk_model_parameter(there, i).value;
        compare(i == 2 * ORTHOGONAL ? &orthogonal : &other, &a, &b);
    }
    print_message("torch.nn.init, seed %d: of %ld numbers %ld differ, by at most %.1e deviations; "
                  "orthogonal ones by at most %.1e\n",
                  seed, other.elements, other.differing, other.largest, orthogonal.largest);
    assert_true(orthogonal.largest < 2e-5);
    assert_true(other.largest < 2e-6);
    assert_true(!torch_vectorises() || other.differing == 0);
    yk_model_destroy(here);
    yk_model_destroy(there);
}

YK_TEST(functions_of_nn_init_give_pytorchs_numbers)
{
    for (int seed = 0; seed < 4; seed++)
        check_functions(seed);
}

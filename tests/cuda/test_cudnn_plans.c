/*
 * Whether the real cuDNN has a plan for every convolution of the networks, on GPUs that are
 * described to it: no GPU is needed, but libcudnn.so.9 is. The descriptions in gpus/ were written
 * from published figures. A plan that must be compiled, which takes seconds, is not made: it is
 * enough that cuDNN proposes it. All other operators of the networks must have kernels of the
 * device. With YK_ALL_PLANS=1 there are more networks, GPUs and dtypes, and with YK_ALL_PLANS=2 all
 * plans are made; YK_PLANS_OF=h200 leaves out the other GPUs.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "base/text.h"
#include "check/trial.h"
#include "compile/rewrite.h"
#include "conv/candidates.h"
#include "drawn_graph.h"
#include "families.h"
#include "harness.h"
#include "implementations.h"
#include "libraries.h"
#include "libraries/cudnn_conv.h"
#include "libraries/rules.h"
#include "sim_device.h"

typedef struct network {
    const char *arch; /* "autoencoder", or what yoke has */
    int64_t batch, pixels;
} network;

static const network networks[] = {
    {"resnet18-cifar", 512, 32},      {"resnet18-cifar", 128, 32},
    {"resnet50", 256, 224},           {"mobilenet-v2", 256, 224},
    {"vgg16-bn", 128, 224},           {"resnext50-32x4d", 128, 224},
    {"vit-b-16", 256, 224},           {"vit-tiny-patch4-32", 256, 32},
    {"airbench94", 1000, 32},         {"autoencoder", 128, 64},
    {"mobilenet-v3-large", 256, 224}, {"mobilenet-v3-small", 256, 224},
    {"efficientnet-b0", 256, 224},    {"convnext-tiny", 128, 224},
    {"densenet121", 128, 224},
};
static const char *const gpus[] = {"h200", "l4", "h100", "a100"};
static const yk_dtype dtypes[] = {YK_BF16, YK_F32, YK_F16, YK_F64};

static int level(void)
{
    const char *chosen = getenv("YK_ALL_PLANS");
    return chosen ? atoi(chosen) : 0;
}

/* ---- the library ----------------------------------------------------------------------------- */

/* The folders where yoke searches: that of a real cuDNN, and before it one that has the stand-in
 * for cuBLASLt alone, because the real one needs a GPU. */
static void choose_libraries(const char *cudnn)
{
    char library[512], folder[256], both[1024];
    snprintf(library, sizeof library, "%s/tests/cuda/libcublasLt.so.13", getenv("YOKE_BUILD"));
    snprintf(folder, sizeof folder, "%s", yk_test_path("libraries"));
    mkdir(folder, 0700);
    assert_true(symlink(library, yk_test_path("libraries/libcublasLt.so.13")) == 0 ||
                errno == EEXIST);
    snprintf(both, sizeof both, "%s:%s", folder, cudnn);
    setenv("YOKE_CUDA_LIBS", both, 1);
}

/* Chooses a real libcudnn.so.9; false if there is none. cuDNN leaks memory from code that it
 * unloads, which no suppression can name: nothing is asked under a sanitizer. */
static bool find_cudnn(void)
{
#if defined __SANITIZE_ADDRESS__
    return false;
#endif
    static const char *const places[] = {
        "/usr/lib/*/libcudnn.so.9", "/usr/local/cuda*/lib*/libcudnn.so.9",
        "/usr/lib/python3*/*-packages/nvidia/cudnn/lib/libcudnn.so.9",
        "/usr/local/lib/python3*/*-packages/nvidia/cudnn/lib/libcudnn.so.9"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        glob_t found;
        bool any = glob(places[i], 0, NULL, &found) == 0;
        if (any) {
            *strrchr(found.gl_pathv[0], '/') = '\0';
            choose_libraries(found.gl_pathv[0]);
        }
        globfree(&found);
        if (any)
            return true;
    }
    return false;
}

/* cuDNN's own search for a driver finds the one that is open already. */
static void open_agreeable_driver(void)
{
    char path[512];
    snprintf(path, sizeof path, "%s/tests/agreeable/libcuda.so.1", getenv("YOKE_BUILD"));
    if (!dlopen(path, RTLD_NOW | RTLD_GLOBAL))
        fail_msg("%s", dlerror());
}

/* ---- plans that are not compiled: what yoke asks for passes through these ------------------- */

static yki_cudnn_calls real;
static cudnn_descriptor trusted; /* the plan that is not made */
static int made, proposed;

static bool runs_a_compiler(cudnn_descriptor config)
{
    cudnn_descriptor engine;
    int notes[CUDNN_NOTES];
    int64_t count = 0, found;
    bool compiled = false;
    assert_int_equal(real.create_descriptor(CUDNN_ENGINE, &engine), 0);
    assert_int_equal(
        real.get_attribute(config, CUDNN_CONFIG_ENGINE, CUDNN_TYPE_DESCRIPTOR, 1, &found, &engine),
        0);
    if (real.get_attribute(engine, CUDNN_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                           CUDNN_NOTES, &count, notes) != 0)
        count = 0;
    for (int64_t i = 0; i < count; i++)
        compiled = compiled || notes[i] == CUDNN_BEHAVIOR_RUNTIME_COMPILATION;
    real.destroy_descriptor(engine);
    return compiled;
}

static int set_attribute(cudnn_descriptor descriptor, int name, int type, int64_t count,
                         const void *values)
{
    bool config = name == CUDNN_PLAN_CONFIG && level() < 2;
    trusted = config && runs_a_compiler(*(cudnn_descriptor const *)values) ? descriptor : NULL;
    return real.set_attribute(descriptor, name, type, count, values);
}

static int finalize(cudnn_descriptor descriptor)
{
    return descriptor == trusted ? 0 : real.finalize(descriptor);
}

/* The workspace is what yoke asks a plan for: here it has one. */
static int get_attribute(cudnn_descriptor descriptor, int name, int type, int64_t room,
                         int64_t *count, void *values)
{
    bool plan = name == CUDNN_PLAN_WORKSPACE;
    if (plan && descriptor == trusted) {
        proposed++;
        *(int64_t *)values = 0;
        return 0;
    }
    made += plan;
    return real.get_attribute(descriptor, name, type, room, count, values);
}

/* ---- networks -------------------------------------------------------------------------------- */

/* Transposed convolutions of the usual kinds. */
static yk_value *autoencoder(yk_value *images, int64_t classes)
{
    yk_conv2d_options down = YK_CONV2D_OPTIONS_INIT;
    yk_conv_transpose2d_options even = YK_CONV_TRANSPOSE2D_OPTIONS_INIT, odd = even;
    down.stride = even.stride = odd.stride = 2;
    down.padding = even.padding = odd.padding = odd.output_padding = 1;
    yk_value *x = yk_relu(yk_nn_conv2d_bias(images, "0", 32, 3, &down));
    x = yk_relu(yk_nn_conv2d_bias(x, "1", 64, 3, &down));
    x = yk_relu(yk_nn_conv_transpose2d_bias(x, "2", 32, 4, &even));
    x = yk_relu(yk_nn_conv_transpose2d(x, "3", 16, 3, &odd));
    x = yk_nn_conv_transpose2d_bias(x, "4", 3, 2, NULL);
    return yk_nn_linear(yk_flatten(yk_global_avg_pool2d(x)), "5", classes);
}

static yk_arch_fn find_network(const char *name)
{
    return strcmp(name, "autoencoder") == 0 ? autoencoder : yk_arch_find(name);
}

/* Forward and backward, up to what a model makes kernels of. */
static void make_training(yk_graph *graph, yk_value *logits, yk_value *loss, yk_dtype dtype)
{
    yki_gradients gradients = {0};
    yk_value *terms[YKI_LOSS_KINDS] = {NULL};
    bool low = yk_dtype_size(dtype) == 2;
    yki_output output = {.made = logits, .read = logits};
    const yki_outputs outputs = {&output, 1};
    assert_non_null(loss);
    assert_ok(yki_graph_prune(graph, loss, &outputs));
    if (low)
        assert_ok(yki_graph_autocast(graph, dtype, NULL, &outputs));
    assert_ok(yki_graph_split_loss(graph, loss, terms));
    assert_ok(yki_graph_differentiate(graph, terms, &gradients));
    yki_graph_remove_detached(graph, &loss, terms, &outputs, &gradients.first_node);
    assert_ok(yki_graph_fuse_sums(graph, gradients.first_node));
    free(gradients.of);
}

static yk_graph *training_graph(const network *net, yk_dtype dtype)
{
    yk_graph *graph = yk_graph_create();
    bool low = yk_dtype_size(dtype) == 2;
    const int64_t dims[] = {YK_BATCH, 3, net->pixels, net->pixels}, rows[] = {YK_BATCH};
    assert_non_null(graph);
    yk_value *images = yk_input(graph, "images", low ? YK_F32 : dtype, 4, dims);
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, rows);
    yk_value *logits = find_network(net->arch)(images, 1000);
    make_training(graph, logits, yk_cross_entropy(logits, labels, NULL), dtype);
    return graph;
}

static yki_operand operand_of(const yk_value *value, int64_t batch)
{
    if (!value)
        return (yki_operand){.ndim = -1};
    yki_operand operand = {.dtype = value->dtype, .ndim = value->ndim};
    memcpy(operand.dims, value->dims, sizeof operand.dims);
    if (operand.ndim > 0 && operand.dims[0] == YK_BATCH) {
        operand.dims[0] = batch;
        operand.layout = yki_cuda_layout(NULL, &operand);
    }
    return operand;
}

static bool is_of_device(const yki_kernel_impl *impl)
{
    const yki_kernel_impl *const *own = yki_cuda_kernels;
    while (*own && *own != impl)
        own++;
    return *own;
}

static yki_kernel_desc describe(const yki_node *node, int64_t batch)
{
    yki_kernel_desc desc = {.op = node->op,
                            .attrs = &node->attrs,
                            .training = true,
                            .in_count = node->in_count,
                            .out_count = node->out_count};
    for (int i = 0; i < YKI_MAX_IN; i++)
        desc.in[i] = operand_of(i < node->in_count ? node->in[i] : NULL, batch);
    for (int i = 0; i < YKI_MAX_OUT; i++)
        desc.out[i] = operand_of(i < node->out_count ? node->out[i] : NULL, batch);
    return desc;
}

/* Its kernel for the described GPU, which must be the device's own: otherwise the host would
 * compute it. False if there is no plan for it. *sums counts those that give the sums that
 * batch_norm wants. */
static bool has_kernel(yki_cuda_device *device, const yki_kernel_desc *desc, int *sums)
{
    yki_kernel *kernel;
    if (yki_kernel_create(&device->base, desc, &kernel) != YK_OK) {
        print_error("%s\n", yk_last_error());
        return false;
    }
    if (!is_of_device(kernel->impl))
        fail_msg("the device has no kernel of its own for a %s", desc->op->name);
    *sums += kernel->sums;
    free(kernel);
    return true;
}

static bool has_plan(yki_cuda_device *device, const yki_node *node, int64_t batch, int *sums)
{
    const yki_kernel_desc desc = describe(node, batch);
    return has_kernel(device, &desc, sums);
}

static bool wants_sums(const yki_node *node)
{
    return node->op == &yki_op_conv2d && node->out[YKI_CONV2D_SUMS];
}

static bool is_convolution(const yki_node *node)
{
    return strncmp(node->op->name, "conv2d", 6) == 0 || node->op == &yki_op_conv_transpose2d;
}

static bool is_left_out(const char *gpu)
{
    const char *only = getenv("YK_PLANS_OF");
    return only && strcmp(only, gpu) != 0;
}

static void say_without_sums(const yki_node *node)
{
    const yk_value *x = node->in[YKI_CONV2D_X], *weight = node->in[YKI_CONV2D_WEIGHT];
    char shapes[2][96], stride[YKI_PAIR_TEXT];
    print_message("  no sums: x %s, weight %s, stride %s, groups %lld\n",
                  yki_shape_text(x, shapes[0], sizeof shapes[0]),
                  yki_shape_text(weight, shapes[1], sizeof shapes[1]),
                  yki_pair_text(node->attrs.stride, stride), (long long)node->attrs.groups);
}

/* A device whose cuDNN builds plans for this GPU. */
static yki_cuda_device *describe_device(const char *gpu)
{
    static const yki_device_options options = {.threads = 1};
    char path[512], json[4096] = "";
    yki_device *base;
    snprintf(path, sizeof path, "%s/tests/cuda/gpus/%s.json", getenv("YOKE_SOURCE"), gpu);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    json[fread(json, 1, sizeof json - 1, file)] = '\0';
    fclose(file);
    assert_ok(sim_device_type.create(&base, &options));
    yki_cuda_device *device = (yki_cuda_device *)base;
    assert_ok(yki_cudnn_open_described(&device->cudnn, json));
    real = device->cudnn->calls;
    device->cudnn->calls.set_attribute = set_attribute;
    device->cudnn->calls.finalize = finalize;
    device->cudnn->calls.get_attribute = get_attribute;
    device->fuses = true;
    return device;
}

static void check(const char *gpu, const network *net, yk_dtype dtype)
{
    int missing = 0, wanted = 0, sums = 0;
    yki_cuda_device *device = describe_device(gpu);
    yki_device *base = &device->base;
    made = proposed = 0;
    yk_graph *graph = training_graph(net, dtype);
    for (size_t i = 0; i < graph->node_count; i++) {
        int before = sums;
        missing += !has_plan(device, graph->nodes[i], net->batch, &sums);
        wanted += wants_sums(graph->nodes[i]);
        if (yk_dtype_size(dtype) == 2 && wants_sums(graph->nodes[i]) && sums == before)
            say_without_sums(graph->nodes[i]);
    }
    print_message("%s, %s, batch %lld, %s: %d plans, %d proposed, %d missing, %d of %d with sums\n",
                  gpu, net->arch, (long long)net->batch, yk_dtype_name(dtype), made, proposed,
                  missing, sums, wanted);
    yk_graph_destroy(graph);
    base->type->destroy(base);
    assert_int_equal(missing, 0);
    if (yk_dtype_size(dtype) == 2 && strncmp(net->arch, "resnet", 6) == 0)
        assert_int_equal(sums, wanted);
}

static void need_cudnn(void)
{
    if (!find_cudnn()) {
        print_message("there is no libcudnn.so.9 that can be asked\n");
        skip();
    }
    open_agreeable_driver();
}

YK_TEST(every_convolution_has_a_plan)
{
    need_cudnn();
    size_t most = level() ? sizeof networks / sizeof *networks : 1;
    for (size_t n = 0; n < most; n++)
        for (size_t g = 0; g < (level() ? 4 : 2); g++)
            for (size_t d = 0; d < (level() ? 4 : 2) && !is_left_out(gpus[g]); d++)
                check(gpus[g], &networks[n], dtypes[d]);
}

/* ---- drawn convolutions ---------------------------------------------------------------------- */

/* One of the numbers, drawn from a seed and the place of the draw. */
static int64_t one_of(const int64_t *numbers, size_t count, uint64_t seed, uint64_t place)
{
    return numbers[yki_hash3(seed, place, 0) % count];
}
#define ONE_OF(seed, place, ...)                                                                   \
    one_of((const int64_t[]){__VA_ARGS__},                                                         \
           sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), seed, place)

#define DRAWN_CHANNELS 1, 3, 4, 12, 16, 24, 30, 64, 96, 100, 256, 512

typedef struct drawn {
    int64_t batch, in, out, groups, image[2], filter[2];
    bool transposed, biased;
    yk_conv2d_options conv;
} drawn;

static drawn draw(uint64_t seed)
{
    int64_t width = ONE_OF(seed, 6, 0, 0, 1, 9, 17), other = ONE_OF(seed, 8, 0, 0, 0, 1, 3);
    drawn d = {.transposed = ONE_OF(seed, 0, 0, 0, 1),
               .batch = ONE_OF(seed, 1, 1, 2, 7, 32, 128, 256),
               .in = ONE_OF(seed, 2, DRAWN_CHANNELS),
               .out = ONE_OF(seed, 3, DRAWN_CHANNELS),
               .groups = ONE_OF(seed, 4, 1, 1, 1, 2, 4, 32, 0),
               .image = {ONE_OF(seed, 5, 1, 4, 7, 8, 14, 32, 56, 63)},
               .filter = {ONE_OF(seed, 7, 1, 1, 2, 3, 3, 3, 4, 5, 7, 11)},
               .biased = ONE_OF(seed, 9, 0, 1),
               .conv = YK_CONV2D_OPTIONS_INIT};
    if (d.groups == 0) /* depthwise */
        d.groups = d.out = d.in;
    d.image[1] = width ? width : d.image[0];
    d.filter[1] = other ? other : d.filter[0];
    d.conv.stride = ONE_OF(seed, 10, 1, 1, 2, 3, 4);
    d.conv.padding = ONE_OF(seed, 11, 0, 1, 2, 3);
    d.conv.dilation = ONE_OF(seed, 12, 1, 1, 1, 2, 3);
    if (ONE_OF(seed, 13, 0, 0, 1)) {
        d.conv.column_stride = ONE_OF(seed, 14, 1, 1, 2, 3);
        d.conv.column_padding = ONE_OF(seed, 15, 0, 1, 2);
        d.conv.column_dilation = ONE_OF(seed, 16, 1, 1, 2);
    }
    d.conv.groups = d.groups;
    return d;
}

static yk_value *convolve(const drawn *d, yk_value *x, yk_value *bias)
{
    const int64_t plain[] = {d->out, d->in / d->groups, d->filter[0], d->filter[1]};
    const int64_t turned[] = {d->in, d->out / d->groups, d->filter[0], d->filter[1]};
    yk_value *weight = yk_parameter(x->graph, "weight", x->dtype, 4, d->transposed ? turned : plain,
                                    YK_INIT_NORMAL, 0);
    if (!d->transposed)
        return yk_conv2d(x, weight, bias, &d->conv);
    yk_conv_transpose2d_options options = YK_CONV_TRANSPOSE2D_OPTIONS_INIT;
    options.stride = d->conv.stride;
    options.padding = d->conv.padding;
    options.dilation = d->conv.dilation;
    options.column_stride = d->conv.column_stride;
    options.column_padding = d->conv.column_padding;
    options.column_dilation = d->conv.column_dilation;
    options.groups = d->groups;
    return yk_conv_transpose2d(x, weight, bias, &options);
}

/* NULL where the drawn sizes do not go together. */
static yk_graph *convolution_graph(const drawn *d, yk_dtype dtype)
{
    yk_graph *graph = yk_graph_create();
    yk_dtype full = yk_dtype_size(dtype) == 2 ? YK_F32 : dtype;
    const int64_t dims[] = {YK_BATCH, d->in, d->image[0], d->image[1]};
    yk_value *x = yk_input(graph, "x", full, 4, dims);
    x = yk_multiply(x, yk_parameter(graph, "scale", full, 0, NULL, YK_INIT_ONES, 0));
    yk_value *bias = yk_parameter(graph, "bias", full, 1, &d->out, YK_INIT_ZEROS, 0);
    yk_value *y = convolve(d, x, d->biased ? bias : NULL);
    if (y->valid) {
        make_training(graph, y, yk_reduce_loss(yk_multiply(y, y), YK_LOSS_MEAN), dtype);
        return graph;
    }
    yk_graph_destroy(graph);
    return NULL;
}

static void check_drawn(const char *gpu, uint64_t seed, yk_dtype dtype, int *plans)
{
    const drawn d = draw(seed);
    yk_graph *graph = convolution_graph(&d, dtype);
    if (!graph)
        return;
    yki_cuda_device *device = describe_device(gpu);
    for (size_t i = 0; i < graph->node_count; i++) {
        int sums = 0;
        if (is_convolution(graph->nodes[i]) && !has_plan(device, graph->nodes[i], d.batch, &sums))
            fail_msg("%s has no plan for a convolution in %s of seed %llu", gpu,
                     yk_dtype_name(dtype), (unsigned long long)seed);
        *plans += is_convolution(graph->nodes[i]);
    }
    yk_graph_destroy(graph);
    device->base.type->destroy(&device->base);
}

YK_TEST(drawn_convolutions_have_plans)
{
    uint64_t seed, end;
    int plans = 0;
    need_cudnn();
    for (drawn_seeds(6, &seed, &end); seed < end; seed++)
        for (size_t g = 0; g < sizeof gpus / sizeof *gpus; g++)
            for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes && !is_left_out(gpus[g]); d++)
                check_drawn(gpus[g], seed, dtypes[d], &plans);
    print_message("%d plans\n", plans);
    assert_true(plans > 0);
}

/* ---- the cases of the conformance suite, which tests/gpu/verify runs ------------------------- */

typedef struct row {
    const conformance_family *family;
    const conformance_case *c;
} row;

static yk_value *build_row(yk_graph *graph, yk_dtype dtype, const void *data)
{
    const row *r = data;
    return r->family->build(graph, r->c, dtype);
}

/* Values but parameters and their gradients have the device's layout. */
static void lay_out(const yki_trial *trial, yki_operand *operand, const yk_value *value)
{
    if (value && !trial->plain[value->id])
        operand->layout = yki_cuda_layout(NULL, operand);
}

static void check_row(const char *gpu, const row *r, yk_dtype dtype, int *plans)
{
    const yki_conformance_case one = {.label = "a convolution", .build = build_row, .data = r};
    yki_trial trial;
    yki_cuda_device *device = describe_device(gpu);
    assert_ok(yki_trial_init(&trial, &one, dtype, "ref", false));
    for (size_t n = 0; n < trial.graph->node_count; n++) {
        const yki_node *node = trial.graph->nodes[n];
        yki_kernel_desc desc = describe(node, 0);
        int sums = 0;
        for (int i = 0; i < node->in_count; i++)
            lay_out(&trial, &desc.in[i], node->in[i]);
        for (int i = 0; i < node->out_count; i++)
            lay_out(&trial, &desc.out[i], node->out[i]);
        if (!has_kernel(device, &desc, &sums))
            fail_msg("%s has no plan for %s in %s, case %d of its family", gpu, node->op->name,
                     yk_dtype_name(dtype), (int)(r->c - r->family->cases));
        *plans += is_convolution(node);
    }
    yki_trial_fini(&trial);
    device->base.type->destroy(&device->base);
}

YK_TEST(cases_of_operators_have_plans)
{
    static const conformance_family *const families[] = {&family_conv2d, &family_conv2d_sums,
                                                         &family_conv_transpose2d};
    int plans = 0;
    need_cudnn();
    for (size_t g = 0; g < (level() ? 4 : 1); g++)
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes && !is_left_out(gpus[g]); d++)
            for (size_t f = 0; f < sizeof families / sizeof *families; f++)
                for (size_t i = 0; i < families[f]->count; i++)
                    check_row(gpus[g], &(row){families[f], &families[f]->cases[i]}, dtypes[d],
                              &plans);
    print_message("%d plans\n", plans);
    assert_true(plans > 0);
}

/* ---- plans that are made at once ------------------------------------------------------------- */

/* Gradients of weights, whose engines must be compiled. */
static yki_cudnn_conv gradient_of(int64_t batch)
{
    return (yki_cudnn_conv){.direction = YKI_CUDNN_BACKWARD_WEIGHT,
                            .dtype = YK_BF16,
                            .x = {batch, 64, 32, 32},
                            .w = {64, 64, 3, 3},
                            .y = {batch, 64, 32, 32},
                            .stride = {1, 1},
                            .padding = {1, 1},
                            .dilation = {1, 1}};
}

/* Without the parameters of kernels, between which are bytes that nobody has set. */
static char *text_of(const yki_cudnn *cudnn, const yki_cudnn_plan *plan)
{
    static const char parameters[] = "\"rawData\":\"";
    char *text = yki_cudnn_plan_save(cudnn, plan);
    assert_non_null(text);
    for (char *at = text; (at = strstr(at, parameters));)
        for (at += sizeof parameters - 1; *at && *at != '"'; at++)
            *at = '-';
    return text;
}

/* The plans that one thread makes, one after the other, are those that several make. */
YK_TEST(plans_that_are_made_at_once_are_the_same)
{
    enum { CONVOLUTIONS = 4 };
    need_cudnn();
    if (level() < 2)
        skip_because("compilers take their time: set YK_ALL_PLANS=2");
    yki_cuda_device *device = describe_device("h200");
    yki_cudnn_plan plans[YKI_CUDA_CANDIDATES];
    char problem[YKI_CUDNN_CONV_TEXT];
    int count, made_alone = 0;
    double alone = 0;
    device->measures = true;
    for (int i = 0; i < CONVOLUTIONS; i++) {
        yki_cudnn_conv conv = gradient_of(128 << i);
        yki_cudnn_conv_text(&conv, problem);
        assert_ok(yki_cuda_candidates_foresee(device, device->cudnn, &conv, problem));
    }
    double begin = yki_now();
    for (int i = 0; i < CONVOLUTIONS; i++) {
        yki_cudnn_conv conv = gradient_of(128 << i);
        yki_cudnn_graph graph;
        yki_cudnn_proposals proposals;
        yki_cudnn_conv_text(&conv, problem);
        assert_ok(yki_cuda_candidates_take(device, device->cudnn, &conv, problem, plans, &count));
        if (i == 0)
            print_message("%d plans of each at once: %.1f s\n", count, yki_now() - begin);
        assert_true(count > 0); /* there may be no time for all */
        assert_ok(yki_cudnn_conv_graph(&graph, device->cudnn, &conv));
        yki_cudnn_propose(&graph, &proposals);
        for (int p = 0, found = 0; found < count; p++) {
            yki_cudnn_plan plan;
            begin = yki_now();
            bool works = yki_cudnn_plan_make(&proposals, p, yki_cuda_most_workspace, &plan);
            alone += yki_now() - begin;
            if (!works)
                continue;
            char *expected = text_of(device->cudnn, &plan);
            char *text = text_of(device->cudnn, &plans[found]);
            assert_string_equal(text, expected);
            free(text);
            free(expected);
            yki_cudnn_plan_fini(device->cudnn, &plan);
            yki_cudnn_plan_fini(device->cudnn, &plans[found++]);
            made_alone++;
        }
        yki_cudnn_proposals_fini(&proposals);
        yki_cudnn_graph_fini(&graph);
    }
    print_message("%d plans one after the other: %.1f s\n", made_alone, alone);
    device->base.type->destroy(&device->base);
}

/* ---- the stand-in ---------------------------------------------------------------------------- */

/* Whether cuDNN takes ones as an attribute. */
static bool cudnn_takes(int descriptor, int name, int type, int64_t count)
{
    static int64_t ones[16];
    cudnn_descriptor asked;
    for (int i = 0; i < 16; i++)
        ones[i] = 1;
    assert_int_equal(real.create_descriptor(descriptor, &asked), 0);
    bool takes = real.set_attribute(asked, name, type, count, ones) == 0;
    real.destroy_descriptor(asked);
    return takes;
}

static bool is_number(int type)
{
    return type != CUDNN_TYPE_DESCRIPTOR && type != CUDNN_TYPE_HANDLE &&
           type != CUDNN_TYPE_VOID_PTR && type != CUDNN_TYPE_CHAR;
}

/* What it takes is taken; it may refuse more. */
YK_TEST(the_stand_in_refuses_what_cudnn_refuses)
{
    need_cudnn();
    yki_cuda_device *device = describe_device("h200");
    int refused = 0, taken = 0;
    for (int i = 0; i < fake_rule_count; i++) {
        const fake_rule *r = &fake_rules[i];
        for (int type = 0; type <= CUDNN_TYPE_CHAR; type++) {
            if (!is_number(type))
                continue;
            bool takes = cudnn_takes(r->descriptor, r->name, type, r->least);
            if (fake_may_set(r->descriptor, r->name, type, r->least) && !takes)
                fail_msg("cuDNN refuses attribute %d of descriptor %d in type %d", r->name,
                         r->descriptor, type);
            taken += takes;
            refused += !takes;
        }
        if (is_number(r->type) && r->most == 1)
            assert_false(cudnn_takes(r->descriptor, r->name, r->type, 2));
    }
    print_message("%d taken, %d refused\n", taken, refused);
    device->base.type->destroy(&device->base);
}

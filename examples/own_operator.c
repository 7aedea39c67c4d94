/*
 * Your own operator: swish, y = x sigmoid(beta x), with its gradient and a kernel for each device.
 * In PyTorch it would be a torch.autograd.Function. The program tests the operator as yoke tests
 * its own, and then lets a network with it learn sin(3 x).
 *
 *     ./own_operator
 */
#define _POSIX_C_SOURCE 200809L
#include "common.h"

#include <math.h>

typedef struct swish_attributes {
    double beta;
} swish_attributes;

/* ---- gradient: dx = dy (s + beta x s (1 - s)), s = sigmoid(beta x) -------------------------- */

static yk_status swish_backward_ref(const yk_operator_run *run)
{
    const swish_attributes *a = run->attributes;
    const yk_tensor *dy = &run->inputs[0], *x = &run->inputs[1], *dx = &run->outputs[0];
    for (int64_t i = 0; i < yk_tensor_count(x); i++) {
        double value = yk_tensor_get(x, i), s = 1 / (1 + exp(-a->beta * value));
        yk_tensor_set(dx, i, yk_tensor_get(dy, i) * (s + a->beta * value * s * (1 - s)));
    }
    return YK_OK;
}

static const yk_operator_kernel swish_backward_kernel = {.size = sizeof(yk_operator_kernel),
                                                         .run = swish_backward_ref,
                                                         .in_place = true,
                                                         .elementwise = true};
static const yk_operator swish_backward = {
    .size = sizeof(yk_operator),
    .name = "swish_backward",
    .input_count = 2,
    .output_count = 1,
    .inputs = {{.name = "dy", .is_activation = true}, {.name = "x", .is_activation = true}},
    .attributes = sizeof(swish_attributes),
    .ref = &swish_backward_kernel};

static yk_status swish_gradient(const yk_operator_node *node, yk_value *const *dy,
                                const bool *needs, yk_value **dx)
{
    yk_value *inputs[] = {dy[0], node->inputs[0]};
    if (needs[0])
        dx[0] = yk_operator_apply(&swish_backward, node->attributes, inputs, NULL);
    return YK_OK;
}

/* ---- swish: in plain C for any dtype, and for float32 a loop that compilers vectorise ------- */

static yk_status swish_ref(const yk_operator_run *run)
{
    const swish_attributes *a = run->attributes;
    const yk_tensor *x = &run->inputs[0], *y = &run->outputs[0];
    for (int64_t i = 0; i < yk_tensor_count(x); i++)
        yk_tensor_set(y, i, yk_tensor_get(x, i) / (1 + exp(-a->beta * yk_tensor_get(x, i))));
    return YK_OK;
}

static bool is_f32(const yk_operator_run *run)
{
    return run->inputs[0].dtype == YK_F32;
}

static yk_status swish_cpu(const yk_operator_run *run)
{
    float beta = (float)((const swish_attributes *)run->attributes)->beta;
    const float *x = run->inputs[0].data;
    float *y = run->outputs[0].data;
    for (int64_t i = 0; i < yk_tensor_count(&run->inputs[0]); i++)
        y[i] = x[i] / (1 + expf(-beta * x[i]));
    return YK_OK;
}

static const yk_operator_kernel swish_ref_kernel = {.size = sizeof(yk_operator_kernel),
                                                    .run = swish_ref};
static const yk_operator_kernel swish_cpu_kernel = {.size = sizeof(yk_operator_kernel),
                                                    .run = swish_cpu,
                                                    .supports = is_f32,
                                                    .in_place = true,
                                                    .elementwise = true};
static const yk_operator swish_operator = {.size = sizeof(yk_operator),
                                           .name = "swish",
                                           .input_count = 1,
                                           .output_count = 1,
                                           .inputs = {{.name = "input", .is_activation = true}},
                                           .attributes = sizeof(swish_attributes),
                                           .gradient = swish_gradient,
                                           .ref = &swish_ref_kernel,
                                           .cpu = &swish_cpu_kernel};

static yk_value *swish(yk_value *x, double beta)
{
    return yk_operator_apply(&swish_operator, &(swish_attributes){beta}, &x, NULL);
}

/* ---- the program ---------------------------------------------------------------------------- */

static yk_value *build_case(yk_graph *graph, yk_dtype dtype, const void *data)
{
    (void)data;
    return swish(yk_input(graph, "x", dtype, 4, (int64_t[]){2, 20, 5, 3}), 1.5);
}

enum { SAMPLES = 256 };

int main(int argc, char **argv)
{
    const char *device = "cpu";
    const flag flags[] = {FLAG_DEVICE(&device)};
    parse_flags(argc, argv, flags, sizeof flags / sizeof *flags);
    YK_CHECK(yk_operator_check(build_case, NULL));
    printf("swish passes yoke's tests of operators\n");

    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, 1});
    yk_value *target = yk_input(graph, "target", YK_F32, 2, (int64_t[]){YK_BATCH, 1});
    yk_value *hidden = swish(yk_nn_linear(x, "fc1", 32), 1.5);
    yk_value *y = yk_nn_linear(swish(yk_nn_linear(hidden, "fc2", 32), 1.5), "fc3", 1);
    yk_model *model;
    yk_model_options options = YK_MODEL_OPTIONS_INIT;
    options.device = device;
    options.threads = 1; /* there is too little work for more */
    YK_CHECK(yk_model_create(&model, yk_mse_loss(y, target, YK_LOSS_MEAN), &options));
    yk_optimizer *optimizer;
    yk_adam_options adam = YK_ADAM_OPTIONS_INIT;
    adam.lr = 0.01;
    YK_CHECK(yk_adam_create(&optimizer, model, &adam));

    static float points[SAMPLES], values[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) {
        points[i] = 4.0f * (float)i / SAMPLES - 2;
        values[i] = sinf(3 * points[i]);
    }
    const char *names[] = {"x", "target"};
    const yk_tensor tensors[] = {
        {.data = points, .dtype = YK_F32, .ndim = 2, .dims = {SAMPLES, 1}},
        {.data = values, .dtype = YK_F32, .ndim = 2, .dims = {SAMPLES, 1}}};
    const yk_batch batch = {.size = SAMPLES, .count = 2, .names = names, .tensors = tensors};
    for (int step = 1; step <= 500; step++) {
        YK_CHECK(yk_model_forward(model, &batch));
        YK_CHECK(yk_model_backward(model));
        YK_CHECK(yk_optimizer_step(optimizer));
        if (step % 100 == 0)
            printf("Step %d: loss %.5f\n", step, yk_model_loss(model));
    }
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
    return 0;
}

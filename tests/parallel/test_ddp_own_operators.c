/*
 * A program's own operators in distributed training: an activation and a loss, which is a mean or a
 * sum over the samples. The gradients are those of one process on the joint batch.
 */
#include <yoke/operator.h>

#include "side.h"

/* ---- y = x^3 --------------------------------------------------------------------------------- */

static yk_status run_cube_backward(const yk_operator_run *run)
{
    const yk_tensor *dy = &run->inputs[0], *x = &run->inputs[1];
    for (int64_t i = 0; i < yk_tensor_count(x); i++)
        yk_tensor_set(&run->outputs[0], i,
                      3 * yk_tensor_get(x, i) * yk_tensor_get(x, i) * yk_tensor_get(dy, i));
    return YK_OK;
}

static yk_status run_cube(const yk_operator_run *run)
{
    const yk_tensor *x = &run->inputs[0];
    for (int64_t i = 0; i < yk_tensor_count(x); i++)
        yk_tensor_set(&run->outputs[0], i, pow(yk_tensor_get(x, i), 3));
    return YK_OK;
}

static const yk_operator_kernel cube_backward_kernel = {
    .size = sizeof(yk_operator_kernel), .run = run_cube_backward, .elementwise = true};
static const yk_operator cube_backward = {
    .size = sizeof(yk_operator),
    .name = "cube_backward",
    .input_count = 2,
    .output_count = 1,
    .inputs = {{.name = "dy", .is_activation = true}, {.name = "x", .is_activation = true}},
    .ref = &cube_backward_kernel};

static yk_status cube_gradient(const yk_operator_node *node, yk_value *const *dy, const bool *needs,
                               yk_value **dx)
{
    if (needs[0])
        dx[0] =
            yk_operator_apply(&cube_backward, NULL, (yk_value *[]){dy[0], node->inputs[0]}, NULL);
    return YK_OK;
}

static const yk_operator_kernel cube_kernel = {.size = sizeof(yk_operator_kernel), .run = run_cube};
static const yk_operator cube = {.size = sizeof(yk_operator),
                                 .name = "cube",
                                 .input_count = 1,
                                 .output_count = 1,
                                 .inputs = {{.name = "x", .is_activation = true}},
                                 .gradient = cube_gradient,
                                 .ref = &cube_kernel};

/* ---- the loss: squares, summed over all elements, or their mean ----------------------------- */

typedef struct reduction {
    bool sum;
} reduction;

static double share_of(const yk_operator_run *run, const yk_tensor *x)
{
    const reduction *attributes = run->attributes;
    return attributes->sum ? 1 : 1.0 / (double)yk_tensor_count(x);
}

static yk_status run_squares_backward(const yk_operator_run *run)
{
    const yk_tensor *dy = &run->inputs[0], *x = &run->inputs[1];
    for (int64_t i = 0; i < yk_tensor_count(x); i++)
        yk_tensor_set(&run->outputs[0], i,
                      2 * share_of(run, x) * yk_tensor_get(x, i) * yk_tensor_get(dy, 0));
    return YK_OK;
}

static yk_status run_squares(const yk_operator_run *run)
{
    const yk_tensor *x = &run->inputs[0];
    double sum = 0;
    for (int64_t i = 0; i < yk_tensor_count(x); i++)
        sum += yk_tensor_get(x, i) * yk_tensor_get(x, i);
    yk_tensor_set(&run->outputs[0], 0, sum * share_of(run, x));
    return YK_OK;
}

static yk_status shape_as_x(const yk_operator_node *node, yk_tensor *outputs)
{
    outputs[0].ndim = yk_value_shape(node->inputs[1], outputs[0].dims);
    return YK_OK;
}

static yk_status shape_of_a_number(const yk_operator_node *node, yk_tensor *outputs)
{
    (void)node;
    outputs[0].ndim = 0;
    return YK_OK;
}

static const yk_operator_kernel squares_backward_kernel = {.size = sizeof(yk_operator_kernel),
                                                           .run = run_squares_backward};
static const yk_operator squares_backward = {
    .size = sizeof(yk_operator),
    .name = "squares_backward",
    .input_count = 2,
    .output_count = 1,
    .inputs = {{.name = "dy", .is_activation = true}, {.name = "x", .is_activation = true}},
    .attributes = sizeof(reduction),
    .shape = shape_as_x,
    .ref = &squares_backward_kernel};

static yk_status squares_gradient(const yk_operator_node *node, yk_value *const *dy,
                                  const bool *needs, yk_value **dx)
{
    if (needs[0])
        dx[0] = yk_operator_apply(&squares_backward, node->attributes,
                                  (yk_value *[]){dy[0], node->inputs[0]}, NULL);
    return YK_OK;
}

static bool squares_are_summed(const void *attributes)
{
    return ((const reduction *)attributes)->sum;
}

static const yk_operator_kernel squares_kernel = {.size = sizeof(yk_operator_kernel),
                                                  .run = run_squares};
static const yk_operator squares = {.size = sizeof(yk_operator),
                                    .name = "squares",
                                    .input_count = 1,
                                    .output_count = 1,
                                    .inputs = {{.name = "x", .is_activation = true}},
                                    .attributes = sizeof(reduction),
                                    .autocast = YK_AUTOCAST_FULL,
                                    .shape = shape_of_a_number,
                                    .gradient = squares_gradient,
                                    .is_sum = squares_are_summed,
                                    .ref = &squares_kernel};

/* ---- training -------------------------------------------------------------------------------- */

static yk_model *create(const char *device, bool sum)
{
    int64_t dims[] = {YK_BATCH, 3, SIDE, SIDE};
    yk_value *x = yk_flatten(yk_input(yk_graph_create(), "images", YK_F64, 4, dims));
    x = yk_nn_linear(x, "fc1", 4);
    x = yk_operator_apply(&cube, NULL, &x, NULL);
    x = yk_nn_linear(x, "fc2", 3);
    yk_value *loss = yk_operator_apply(&squares, &(reduction){sum}, &x, NULL);
    yk_model *model;
    assert_ok(yk_model_create(&model, loss,
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device,
                                      o.seed = 3, o.threads = 1)));
    return model;
}

static const yk_batch *images_only(samples *s, int64_t first, int64_t count)
{
    take_samples(s, YK_F64, first, count);
    s->batch.count = 1;
    return &s->batch;
}

/* Uneven batches: a mean counts each sample alike, and sums are averaged over the ranks. */
static void train(const char *device, bool sum)
{
    static const int64_t counts[] = {3, 5, 2};
    side s = {.net = {.device = device, .dtype = YK_F64}};
    side_join(&s, &(network){.device = device, .dtype = YK_F64});
    s.model = create(device, sum);
    s.alone = create(device, sum);
    assert_ok(yk_ddp_create(&s.ddp, s.model, s.group, NULL));
    int64_t first = 0, all = 0;
    for (int r = 0; r < s.world; r++) {
        first += r < s.rank ? counts[r] : 0;
        all += counts[r];
    }
    step(s.model, images_only(&s.own, first, counts[s.rank]));
    step(s.alone, images_only(&s.joint, 0, all));
    for (size_t p = 0; p < yk_model_parameter_count(s.model); p++) {
        yk_parameter_view found = yk_model_parameter(s.model, p);
        yk_tensor expected = yk_test_on_host(yk_model_parameter(s.alone, p).grad);
        for (int64_t i = 0; sum && i < yk_tensor_count(&expected); i++)
            ((double *)expected.data)[i] /= s.world;
        assert_near(found.name, &found.grad, &expected, 1e-12);
    }
    side_end(&s);
}

YK_TEST_RANKS(an_own_loss_that_is_a_mean_is_weighted_by_samples, 3)
{
    train("ref", false);
}

YK_TEST_RANKS(an_own_loss_that_is_a_sum_is_averaged_over_ranks, 3)
{
    train("ref", true);
}

YK_TEST_RANKS(own_operators_train_on_the_cpu_device, 2)
{
    train("cpu", false);
}

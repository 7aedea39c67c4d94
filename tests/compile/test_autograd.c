/* Whole networks: gradients against central differences, in f64 on ref; then cpu against ref. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "compile/rewrite.h"
#include "harness.h"
#include "model/model.h"
#include "nets.h"

enum { SAMPLES = 3, DIFFERENCES = 12 };

/* The loss with the same dropout masks as the first forward had. */
static double loss_again(yk_model *model, const net_batch *b)
{
    if (model->training)
        yk_model_set_forwards(model, 0);
    assert_ok(yk_model_forward(model, &b->batch));
    return yk_model_loss(model);
}

static void check_parameter(const test_net *net, yk_model *model, const net_batch *b, size_t p,
                            const double *gradient)
{
    const double h = 1e-5;
    yk_parameter_view view = yk_model_parameter(model, p);
    double *x = view.value.data, error = 0, norm = 0;
    int64_t count = yk_tensor_count(&view.value), stride = count / DIFFERENCES + 1;
    for (int64_t i = 0; i < count; i += stride) {
        double kept = x[i];
        x[i] = kept + h;
        double above = loss_again(model, b);
        x[i] = kept - h;
        double slope = (above - loss_again(model, b)) / (2 * h);
        x[i] = kept;
        error += (slope - gradient[i]) * (slope - gradient[i]);
        norm += slope * slope;
    }
    if (!(sqrt(error) <= 1e-6 * sqrt(norm) + 1e-9))
        fail_msg("%s, %s: error %g, norm %g", net->name, view.name, sqrt(error), sqrt(norm));
}

static void check_net(const test_net *net, bool training)
{
    yk_model *model = net_model(net, "ref", YK_F64, 1);
    net_batch b;
    net_batch_init(&b, YK_F64, SAMPLES, 7);
    if (!training)
        yk_model_eval(model);
    net_step(model, &b);
    int64_t count;
    double *gradients = net_gradients(model, &count), *at = gradients;
    for (size_t p = 0; p < yk_model_parameter_count(model); p++) {
        check_parameter(net, model, &b, p, at);
        yk_tensor grad = yk_model_parameter(model, p).grad;
        at += yk_tensor_count(&grad);
    }
    free(gradients);
    net_batch_fini(&b);
    yk_model_destroy(model);
}

YK_TEST(gradients_in_training)
{
    for (int i = 0; i < net_count; i++)
        check_net(&nets[i], true);
}

YK_TEST(gradients_in_evaluation)
{
    for (int i = 0; i < net_count; i++)
        check_net(&nets[i], false);
}

/* ---- one gradient for two ------------------------------------------------------------------- */

/* relu(norm(x)) + p, of which two others are made: what norm's backward is given is p's gradient
 * too. The batch is part of the shapes, so that p can have them. */
static yk_value *sum_with_parameter(yk_graph *graph)
{
    const int64_t dims[] = {SAMPLES, NET_CHANNELS, NET_ROWS, NET_COLUMNS};
    yk_value *images = yk_input(graph, "images", YK_F64, 4, dims);
    yk_value *p = yk_parameter(graph, "p", YK_F64, 4, dims, YK_INIT_ONES, 0);
    yk_value *sum = yk_add(yk_relu(yk_nn_batch_norm(images, "norm")), p);
    yk_value *both = yk_add(yk_relu(sum), yk_gelu(sum));
    return yk_nn_linear(yk_flatten(both), "fc", NET_CLASSES);
}

YK_TEST(a_parameters_gradient_survives_fusion)
{
    static const test_net net = {.name = "sum with a parameter"};
    yk_graph *graph = yk_graph_create();
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){SAMPLES});
    yk_value *loss = yk_cross_entropy(sum_with_parameter(graph), labels, NULL);
    yk_model *model;
    net_batch b;
    int64_t count;
    assert_ok(yk_model_create(&model, loss,
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = "ref")));
    net_shake(model, 3);
    net_batch_init(&b, YK_F64, SAMPLES, 7);
    net_step(model, &b);
    double *gradients = net_gradients(model, &count);
    assert_string_equal(yk_model_parameter(model, 0).name, "p");
    check_parameter(&net, model, &b, 0, gradients);
    free(gradients);
    net_batch_fini(&b);
    yk_model_destroy(model);
}

/* What a network learns from another one's probabilities, and what the other learns: nothing. */
YK_TEST(labels_may_be_computed_and_are_constants)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "images", YK_F64, 2, (int64_t[]){YK_BATCH, 3});
    yk_value *given = yk_input(graph, "given", YK_F64, 2, (int64_t[]){YK_BATCH, 3});
    yk_value *student = yk_nn_linear(x, "student", 3), *probabilities = yk_softmax(given);
    yk_value *teacher = yk_softmax(yk_add(given, yk_nn_linear(x, "teacher", 3)));
    yk_value *loss = yk_add(yk_cross_entropy(student, teacher, NULL),
                            yk_scale(yk_cross_entropy(student, probabilities, NULL), -1));
    double images[] = {1, 2, 3}, numbers[] = {0.5, -1, 2}, zeros[9] = {0};
    const yk_tensor tensors[] = {{.data = images, .dtype = YK_F64, .ndim = 2, .dims = {1, 3}},
                                 {.data = numbers, .dtype = YK_F64, .ndim = 2, .dims = {1, 3}}};
    const yk_batch batch = {
        .size = 1, .count = 2, .names = (const char *[]){"images", "given"}, .tensors = tensors};
    yk_model *model;
    assert_ok(yk_model_create(&model, loss,
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = "ref")));
    yk_parameter_view weight = yk_model_parameter(model, 0), other = yk_model_parameter(model, 2);
    assert_string_equal(other.name, "teacher.weight");
    assert_ok(yk_model_forward(model, &batch));
    assert_ok(yk_model_backward(model));
    assert_memory_equal(other.grad.data, zeros, sizeof zeros);
    assert_true(fabs(((double *)weight.grad.data)[0]) > 1e-3);
    memset(other.value.data, 0, sizeof zeros); /* the two labels are the same now */
    memset(yk_model_parameter(model, 3).value.data, 0, sizeof zeros / 3);
    yk_model_zero_grad(model);
    assert_ok(yk_model_forward(model, &batch));
    assert_ok(yk_model_backward(model));
    assert_memory_equal(weight.grad.data, zeros, sizeof zeros);
    yk_model_destroy(model);
}

YK_TEST(a_parameter_that_is_added_to_the_loss_has_gradient_one)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "images", YK_F64, 2, (int64_t[]){YK_BATCH, 3});
    yk_value *offset = yk_parameter(graph, "offset", YK_F64, 0, NULL, YK_INIT_ONES, 0);
    yk_value *loss = yk_mse_loss(yk_nn_linear(x, "fc", 3), x, YK_LOSS_MEAN);
    yk_model *model;
    double pixels[] = {1, 2, 3};
    assert_ok(yk_model_create(&model, yk_add(loss, offset),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = "ref")));
    const yk_tensor images = {.data = pixels, .dtype = YK_F64, .ndim = 2, .dims = {1, 3}};
    const yk_batch batch = {
        .size = 1, .count = 1, .names = (const char *[]){"images"}, .tensors = &images};
    for (int times = 1; times <= 2; times++) {
        assert_ok(yk_model_forward(model, &batch));
        assert_ok(yk_model_backward(model));
        assert_true(*(double *)yk_model_parameter(model, 0).grad.data == times);
    }
    yk_model_destroy(model);
}

/* ---- slices --------------------------------------------------------------------------------- */

enum { STEPS = 20 };

static int count_nodes(const yk_model *model, const yki_op *op)
{
    int count = 0;
    for (size_t n = 0; n < model->graph->node_count; n++)
        count += model->graph->nodes[n]->op == op;
    return count;
}

/* Reads every `stride`-th step of a layer's outputs. */
static yk_model *model_of_steps(int stride)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F64, 3, (int64_t[]){YK_BATCH, STEPS, 3});
    yk_value *y = yk_nn_linear(x, "fc", 4), *steps[STEPS];
    int count = 0;
    for (int64_t t = 0; t < STEPS; t += stride)
        steps[count++] = yk_tanh(yk_slice(y, 1, t, 1));
    yk_value *read = yk_concat(steps, count, 1);
    yk_value *target = yk_input(graph, "target", YK_F64, 3, (int64_t[]){YK_BATCH, count, 4});
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_mse_loss(read, target, YK_LOSS_MEAN), NULL));
    return model;
}

/* 20 are joined as 8, 8 and 4; so are they in forward. */
YK_TEST(gradients_of_slices_are_joined)
{
    yk_model *model = model_of_steps(1);
    assert_int_equal(count_nodes(model, &yki_op_add), 0);
    assert_int_equal(count_nodes(model, &yki_op_pad), 0);
    assert_int_equal(count_nodes(model, &yki_op_concat), 4 + 4);
    yk_model_destroy(model);
    model = model_of_steps(2);
    assert_int_equal(count_nodes(model, &yki_op_add), 0);
    assert_int_equal(count_nodes(model, &yki_op_pad), STEPS / 2);
    assert_int_equal(count_nodes(model, &yki_op_concat), 3 + 3);
    yk_model_destroy(model);
}

/* It is final when backward has reached its last slice, and not at the end. */
YK_TEST(a_parameter_that_is_read_in_slices_does_not_wait_for_others)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F64, 2, (int64_t[]){YK_BATCH, 3});
    yk_value *y = yk_nn_linear(x, "first", 3);
    yk_value *p = yk_parameter(graph, "p", YK_F64, 2, (int64_t[]){4, 3}, YK_INIT_ONES, 0);
    for (int64_t i = 0; i < 2; i++) /* as queries and keys of one weight */
        y = yk_tanh(yk_linear(y, yk_pad(yk_slice(p, 0, 2 * i, 2), 0, 0, 1), NULL));
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_mse_loss(y, x, YK_LOSS_MEAN), NULL));
    assert_string_equal(yk_model_parameter(model, 2).name, "p");
    assert_int_equal(model->variables.grad_order[0], 2);
    yk_model_destroy(model);
}

/* ---- cpu against ref ------------------------------------------------------------------------ */

static void compare(const char *what, const char *name, const double *got, const double *expected,
                    int64_t count, double tolerance)
{
    double error = 0, norm = 0;
    for (int64_t i = 0; i < count; i++) {
        error += (got[i] - expected[i]) * (got[i] - expected[i]);
        norm += expected[i] * expected[i];
    }
    if (!(sqrt(error) <= tolerance * sqrt(norm)))
        fail_msg("%s, %s: error %g, norm %g", name, what, sqrt(error), sqrt(norm));
}

static double *gradients_on(const test_net *net, const char *device, yk_dtype dtype, int64_t width,
                            bool training, double *loss, int64_t *count)
{
    yk_model *model = net_model(net, device, dtype, width);
    net_batch b;
    net_batch_init(&b, dtype, 9, 7);
    if (!training)
        yk_model_eval(model);
    *loss = net_step(model, &b);
    double *gradients = net_gradients(model, count);
    net_batch_fini(&b);
    yk_model_destroy(model);
    return gradients;
}

static void check_device(const test_net *net, int64_t width, bool training)
{
    double loss[2];
    int64_t count;
    double *cpu = gradients_on(net, "cpu", YK_F32, width, training, &loss[0], &count);
    double *ref = gradients_on(net, "ref", YK_F64, width, training, &loss[1], &count);
    compare("loss", net->name, &loss[0], &loss[1], 1, 1e-5);
    compare("gradients", net->name, cpu, ref, count, 1e-4);
    free(cpu);
    free(ref);
}

YK_TEST(cpu_agrees_with_ref)
{
    for (int i = 0; i < net_count; i++) {
        check_device(&nets[i], 1, true);
        check_device(&nets[i], 1, false);
    }
}

YK_TEST(cpu_agrees_with_ref_in_blocked_layouts)
{
    for (int i = 0; i < net_count; i++) {
        check_device(&nets[i], 7, true);
        check_device(&nets[i], 7, false);
    }
}

/* ---- out of memory ----------------------------------------------------------------------------*/

/* Leaves the process so many bytes of memory, and no more from the system. */
static void leave_memory(size_t bytes)
{
    static void *volatile taken;
    struct rlimit limit;
    void *volatile left = malloc(bytes);
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    for (size_t size = 1 << 20; size > 0; size /= 2)
        while ((taken = malloc(size)))
            ;
    free(left);
}

static void give_memory_again(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_AS, &limit);
}

static yk_value *small_loss(yk_graph *graph)
{
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, 2});
    for (int i = 0; i < 4; i++)
        x = yk_scale(yk_flatten(yk_relu(yk_nn_linear(x, (char[]){(char)('a' + i), '\0'}, 2))), 2);
    return yk_reduce_loss(x, YK_LOSS_MEAN);
}

YK_TEST(too_little_memory_is_what_the_error_says)
{
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    skip_because("sanitizers need memory of their own");
#endif
    int failures = 0;
    for (size_t bytes = 1 << 10; bytes < 40 << 10; bytes += 256) {
        yk_graph *graph = yk_graph_create();
        yk_value *loss = small_loss(graph), *terms[YKI_LOSS_KINDS];
        yki_gradients gradients = {.of = NULL};
        assert_ok(yki_graph_split_loss(graph, loss, terms));
        leave_memory(bytes);
        yk_status status = yki_graph_differentiate(graph, terms, &gradients);
        give_memory_again();
        if (status != YK_OK)
            assert_status(YK_ERROR_OUT_OF_MEMORY, status);
        failures += status != YK_OK;
        free(gradients.of);
        yk_graph_destroy(graph);
    }
    assert_in_range(failures, 10, 150);
}

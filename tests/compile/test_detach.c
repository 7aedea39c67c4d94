/* yk_detach: the value as it is, and no gradient by way of it. */
#include "harness.h"

#include <math.h>

#include "model/model.h"

static const int64_t one[] = {1}, batch_of_2[] = {YK_BATCH, 2};

typedef struct built {
    yk_graph *graph;
    yk_value *x, *w; /* (N, 2); (1), which begins with 1 */
} built;

static built begin(void)
{
    built b = {.graph = yk_graph_create()};
    b.x = yk_input(b.graph, "x", YK_F32, 2, batch_of_2);
    b.w = yk_parameter(b.graph, "w", YK_F32, 1, one, YK_INIT_ONES, 0);
    return b;
}

static yk_model *create_with(yk_value *loss, yk_value *output, const char *device, yk_amp amp)
{
    yk_model *model;
    assert_ok(yk_model_create(&model, loss,
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device,
                                      o.logits = output, o.amp = amp, o.threads = 1)));
    return model;
}

/* One sample, (1, 2). */
static void forward(yk_model *model)
{
    static const char *const names[] = {"x"};
    static float x[] = {1, 2};
    const yk_tensor tensor = {.data = x, .dtype = YK_F32, .ndim = 2, .dims = {1, 2}};
    assert_ok(yk_model_forward(
        model, &(yk_batch){.size = 1, .count = 1, .names = names, .tensors = &tensor}));
}

static double gradient(yk_model *model)
{
    assert_ok(yk_model_backward(model));
    yk_tensor grad = yk_test_on_host(yk_model_parameter(model, 0).grad);
    return yk_tensor_get(&grad, 0);
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* The sum of h detach(h) for h = w x: its derivative is that of h alone, the sum of x^2. */
static void multiply(const char *device, yk_amp amp)
{
    built b = begin();
    yk_value *h = yk_multiply(b.w, b.x), *zero = yk_scale(b.x, 0);
    yk_value *product = yk_multiply(h, yk_detach(yk_detach(h)));
    yk_model *model = create_with(yk_l1_loss(product, zero, YK_LOSS_SUM), NULL, device, amp);
    for (int i = 0; i < 3; i++) {
        forward(model);
        assert_float_equal(yk_model_loss(model), 1 + 4, 1e-6);
        assert_float_equal(gradient(model), 1 + 4, 1e-6);
        yk_model_zero_grad(model);
    }
    yk_model_destroy(model);
}

YK_TEST(a_detached_factor_is_a_constant)
{
    multiply("ref", YK_AMP_OFF);
    multiply("cpu", YK_AMP_OFF);
    multiply("cpu", YK_AMP_BF16);
    multiply("sim", YK_AMP_OFF);
}

/* The straight-through estimator of VQ-VAE: z + detach(q - z) is q, and has z's gradient. */
YK_TEST(a_gradient_passes_around_what_is_detached)
{
    built b = begin();
    yk_value *z = yk_multiply(b.w, b.x), *q = yk_scale(z, 10);
    yk_value *straight = yk_add(z, yk_detach(yk_add(q, yk_scale(z, -1))));
    yk_value *loss = yk_l1_loss(straight, yk_scale(b.x, 0), YK_LOSS_SUM);
    yk_model *model = create_with(loss, NULL, "cpu", YK_AMP_OFF);
    forward(model);
    assert_float_equal(yk_model_loss(model), 10 * (1 + 2), 1e-5);
    assert_float_equal(gradient(model), 1 + 2, 1e-6);
    yk_model_destroy(model);
}

/* A parameter itself, and a target that the network computes. */
YK_TEST(a_detached_parameter_is_read_as_it_is)
{
    built b = begin();
    yk_value *target = yk_multiply(yk_detach(b.w), b.x);
    yk_value *loss = yk_mse_loss(yk_scale(yk_multiply(b.w, b.x), 2), target, YK_LOSS_SUM);
    yk_model *model = create_with(loss, NULL, "cpu", YK_AMP_OFF);
    forward(model);
    assert_float_equal(yk_model_loss(model), 1 + 4, 1e-5);      /* (2 w x - w x)^2 */
    assert_float_equal(gradient(model), 2 * 2 * (1 + 4), 1e-5); /* 2 (2 w x - target) 2 x */
    yk_model_destroy(model);
}

/* ---- what is left of it ---------------------------------------------------------------------- */

static size_t steps_of(bool detached, bool *same)
{
    built b = begin();
    yk_value *x = yk_relu(b.x), *h = detached ? yk_detach(x) : x;
    yk_value *loss = yk_mse_loss(yk_multiply(b.w, h), yk_scale(h, 0), YK_LOSS_SUM);
    yk_model *model = create_with(loss, detached ? yk_detach(h) : h, "cpu", YK_AMP_OFF);
    forward(model);
    size_t steps = model->executor.current->plan->step_count;
    yk_tensor output;
    assert_ok(yk_model_output(model, &output));
    *same = yk_tensor_get(&output, 1) == 2;
    yk_model_destroy(model);
    return steps;
}

YK_TEST(detaching_costs_nothing)
{
    bool first, second;
    assert_int_equal(steps_of(true, &first), steps_of(false, &second));
    assert_true(first && second);
}

/* The loss is there; what is only in its detached terms is not trained. */
YK_TEST(a_detached_term_has_a_value_only)
{
    built b = begin();
    yk_value *term = yk_mse_loss(yk_multiply(b.w, b.x), yk_scale(b.x, 0), YK_LOSS_SUM);
    yk_model *model =
        create_with(yk_detach(yk_add(term, yk_detach(term))), NULL, "cpu", YK_AMP_OFF);
    forward(model);
    assert_float_equal(yk_model_loss(model), 2 * (1 + 4), 1e-5);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_backward(model));
    assert_contains(yk_last_error(), "nothing is trained");
    yk_model_destroy(model);
}

YK_TEST(a_model_without_a_loss_may_detach)
{
    built b = begin();
    yk_tensor output;
    yk_model *model = create_with(NULL, yk_detach(yk_relu(yk_detach(b.x))), "cpu", YK_AMP_OFF);
    forward(model);
    assert_ok(yk_model_output(model, &output));
    assert_float_equal(yk_tensor_get(&output, 0), 1, 0);
    assert_float_equal(yk_tensor_get(&output, 1), 2, 0);
    yk_model_destroy(model);
}

YK_TEST(detaching_nothing_is_an_error_of_the_graph)
{
    yk_model *model;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_create(&model, yk_detach(NULL), NULL));
}

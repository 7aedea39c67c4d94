/* yk_mean: numbers and gradients, over each dimension and on each device. Sums share its rules for
 * the first dimension. */
#include "harness.h"

#include <math.h>

enum { SAMPLES = 3, ROW = 4 * 5 * 6, COUNT = SAMPLES * ROW };
static const int64_t sizes[] = {SAMPLES, 4, 5, 6};

/* Where element i of x is counted in the mean over dim. */
static int place(int i, int dim)
{
    int at = 0, rest = COUNT;
    for (int d = 0; d < 4; d++) {
        rest /= (int)sizes[d];
        if (d != dim)
            at = at * (int)sizes[d] + i / rest % (int)sizes[d];
    }
    return at;
}

/* The sum of (y - target)^2, where y is the mean over dim of x + weight. */
static yk_model *create(const char *device, int64_t dim, yk_value **y)
{
    yk_model *model;
    int64_t dims[YK_MAX_DIMS];
    yk_graph *graph = yk_graph_create();
    yk_value *weight = yk_parameter(graph, "weight", YK_F32, 3, sizes + 1, YK_INIT_ZEROS, 0);
    yk_value *x = yk_input(graph, "x", YK_F32, 4, (int64_t[]){YK_BATCH, 4, 5, 6});
    *y = yk_mean(yk_add(x, weight), dim);
    int ndim = yk_value_shape(*y, dims);
    yk_value *loss = yk_mse_loss(*y, yk_input(graph, "target", YK_F32, ndim, dims), YK_LOSS_SUM);
    assert_ok(yk_model_create(&model, loss,
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device,
                                      o.threads = 1, o.outputs = y, o.output_count = 1)));
    return model;
}

static void check(const char *device, int dim)
{
    yk_value *y;
    yk_model *model = create(device, dim == 3 ? -1 : dim, &y);
    float x[COUNT], target[COUNT] = {0};
    double mean[COUNT] = {0}, slope[ROW] = {0};
    const int64_t size = sizes[dim];
    for (int i = 0; i < COUNT; i++) {
        x[i] = (float)sin(0.7 * i);
        mean[place(i, dim)] += (double)x[i] / (double)size;
    }
    for (int i = 0; i < COUNT; i++)
        slope[i % ROW] += 2 * mean[place(i, dim)] / (double)size;

    const char *const names[] = {"x", "target"};
    yk_tensor tensors[] = {{.data = x, .dtype = YK_F32, .ndim = 4, .dims = {SAMPLES, 4, 5, 6}},
                           {.data = target, .dtype = YK_F32}};
    tensors[1].ndim = yk_value_shape(y, tensors[1].dims);
    tensors[1].dims[0] = SAMPLES;
    const yk_batch batch = {.size = SAMPLES, .count = 2, .names = names, .tensors = tensors};
    yk_tensor output, grad;
    assert_ok(yk_model_forward(model, &batch));
    assert_ok(yk_model_backward(model));
    assert_ok(yk_model_output_at(model, 0, &output));
    assert_int_equal(yk_tensor_count(&output), COUNT / size);
    for (int64_t i = 0; i < COUNT / size; i++)
        assert_true(fabs(yk_tensor_get(&output, i) - mean[i]) < 1e-6);
    grad = yk_model_parameter(model, 0).grad;
    for (int64_t i = 0; i < ROW; i++)
        assert_true(fabs(yk_tensor_get(&grad, i) - slope[i]) < 1e-6);
    yk_model_destroy(model);
}

YK_TEST(each_dimension_but_the_batch)
{
    for (int dim = 1; dim < 4; dim++) {
        check("ref", dim);
        check("cpu", dim);
    }
}

/* ---- of values without a batch --------------------------------------------------------------- */

enum { BATCH = 3, WIDTH = 5 };

/* The squares of sums or means over the batch of x + weight, and of the sum or mean of weight. */
static void check_first(const char *device, yk_value *(*reduce)(yk_value *x, int64_t dim),
                        double over_batch, double over_width)
{
    float x[BATCH * WIDTH];
    double column[WIDTH] = {0};
    static const char *const names[] = {"x"};
    yk_graph *graph = yk_graph_create();
    yk_value *weight =
        yk_parameter(graph, "weight", YK_F32, 1, (int64_t[]){WIDTH}, YK_INIT_ONES, 0);
    yk_value *in = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, WIDTH});
    yk_value *columns = reduce(yk_all_gather_batch(yk_add(in, weight), 1, BATCH), 0);
    yk_value *whole = reduce(weight, -1);
    yk_value *loss =
        yk_add(yk_reduce_loss(yk_pow(columns, 2), YK_LOSS_SUM), yk_multiply(whole, whole));
    yk_model *model;
    assert_ok(yk_model_create(
        &model, loss,
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device, o.threads = 1)));
    for (int i = 0; i < BATCH * WIDTH; i++) {
        x[i] = (float)sin(0.7 * i);
        column[i % WIDTH] += ((double)x[i] + 1) * over_batch;
    }
    yk_tensor tensor = {.data = x, .dtype = YK_F32, .ndim = 2, .dims = {BATCH, WIDTH}};
    const yk_batch batch = {.size = BATCH, .count = 1, .names = names, .tensors = &tensor};
    assert_ok(yk_model_forward(model, &batch));
    assert_ok(yk_model_backward(model));
    double of_weight = WIDTH * over_width, expected = of_weight * of_weight;
    yk_tensor grad = yk_test_on_host(yk_model_parameter(model, 0).grad);
    for (int i = 0; i < WIDTH; i++) {
        double slope = 2 * column[i] * BATCH * over_batch + 2 * of_weight * over_width;
        assert_true(fabs(yk_tensor_get(&grad, i) - slope) < 1e-5 * (1 + fabs(slope)));
        expected += column[i] * column[i];
    }
    assert_true(fabs(yk_model_loss(model) - expected) < 1e-5 * expected);
    yk_model_destroy(model);
}

YK_TEST(the_first_dimension_of_what_has_no_batch)
{
    static const char *const devices[] = {"ref", "cpu", "sim"};
    for (int i = 0; i < 3; i++) {
        check_first(devices[i], yk_sum, 1, 1);
        check_first(devices[i], yk_mean, 1.0 / BATCH, 1.0 / WIDTH);
    }
}

/* Which values are images, and so have the layout that a device has for them. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include "compile/rewrite.h"
#include "model/model.h"

typedef struct network {
    yk_graph *graph;
    yk_value *x; /* (N, 8, 6, 6) */
} network;

static network begin(void)
{
    network n = {.graph = yk_graph_create()};
    n.x = yk_input(n.graph, "x", YK_F32, 4, (int64_t[]){YK_BATCH, 8, 6, 6});
    return n;
}

static yk_value *conv(yk_value *x, const char *name)
{
    yk_value *weight = yk_parameter(yk_value_graph(x), name, YK_F32, 4, (int64_t[]){8, 8, 1, 1},
                                    YK_INIT_KAIMING_UNIFORM, 8);
    return yk_conv2d(x, weight, NULL, NULL);
}

static yk_value *pixels_of(yk_value *image)
{
    return yk_permute(image, 4, (int64_t[]){0, 2, 3, 1});
}

/* "1" for each value that is an image, "0" for the others. */
static void assert_images(const network *n, yk_value *const *values, const char *expected)
{
    bool *images;
    assert_int_equal(n->graph->status, YK_OK);
    assert_ok(yki_graph_find_images(n->graph, &images));
    for (size_t i = 0; i < strlen(expected); i++)
        if (images[values[i]->id] != (expected[i] == '1'))
            fail_msg("value %zu of %s is taken for the other kind", i, expected);
    free(images);
    yk_graph_destroy(n->graph);
}

YK_TEST(what_a_convolution_reads_and_writes_is_an_image)
{
    network n = begin();
    yk_value *y = conv(n.x, "weight");
    assert_images(&n, (yk_value *[]){n.x, y, y->producer->in[YKI_CONV2D_WEIGHT]}, "110");
}

YK_TEST(what_no_operator_of_images_touches_is_none)
{
    network n = begin();
    yk_value *relu = yk_relu(n.x), *rows = yk_softmax(relu), *flat = yk_flatten(rows);
    assert_images(&n, (yk_value *[]){n.x, relu, rows, flat}, "0000");
}

YK_TEST(values_that_are_added_or_joined_are_of_one_kind)
{
    network n = begin();
    yk_value *other = yk_input(n.graph, "other", YK_F32, 4, (int64_t[]){YK_BATCH, 8, 6, 6});
    yk_value *more = yk_input(n.graph, "more", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 6, 6});
    yk_value *sum = yk_add(yk_relu(n.x), other);
    yk_value *joined = yk_concat((yk_value *[]){sum, more}, 2, 1);
    yk_value *pooled = yk_global_avg_pool2d(joined); /* which alone says that all are images */
    assert_images(&n, (yk_value *[]){n.x, other, more, sum, joined, pooled}, "111111");
}

YK_TEST(a_factor_for_each_channel_is_an_image_like_what_it_scales)
{
    network n = begin();
    yk_value *factor = yk_input(n.graph, "factor", YK_F32, 4, (int64_t[]){YK_BATCH, 8, 1, 1});
    yk_value *y = conv(yk_multiply(n.x, factor), "weight");
    assert_images(&n, (yk_value *[]){factor, y}, "11");
}

YK_TEST(permute_and_reshape_end_images)
{
    network n = begin();
    yk_value *y = conv(n.x, "weight"), *pixels = pixels_of(y), *gelu = yk_gelu(pixels);
    yk_value *back = yk_permute(gelu, 4, (int64_t[]){0, 3, 1, 2}), *z = conv(back, "next");
    yk_value *halves = yk_reshape(z, 4, (int64_t[]){YK_BATCH, 2, 4, 36});
    assert_images(&n, (yk_value *[]){y, pixels, gelu, back, z, halves}, "100110");
}

/* Rows of an image, such as those of softmax, are in its layout, too. */
YK_TEST(one_use_as_an_image_is_enough)
{
    network n = begin();
    yk_value *scores = yk_softmax(n.x), *pixels = pixels_of(n.x), *y = conv(n.x, "weight");
    assert_images(&n, (yk_value *[]){n.x, scores, pixels, y}, "1101");
}

/* ---- in a plan ------------------------------------------------------------------------------- */

static const yki_plan *plan_of(const yk_model *model)
{
    return model->executor.plans.list[0]->plan;
}

/* How many steps the plan of a training step on the cpu has for this operator. */
static int steps_of(const yk_model *model, const yki_op *op)
{
    const yki_plan *plan = plan_of(model);
    int count = 0;
    for (size_t i = 0; i < plan->step_count; i++)
        count += plan->steps[i].node ? plan->steps[i].node->op == op : op == &yki_op_reorder;
    return count;
}

/* Any loss. */
static yk_value *loss_of(yk_value *y)
{
    return yk_cross_entropy(yk_flatten(y),
                            yk_input(yk_value_graph(y), "labels", YK_I32, 1, (int64_t[]){YK_BATCH}),
                            NULL);
}

static yk_model *train(network *n, yk_value *loss)
{
    static float numbers[2 * 8 * 6 * 6];
    static int32_t labels[2];
    static const char *const names[] = {"x", "labels"};
    const yk_tensor tensors[] = {
        {.data = numbers, .dtype = YK_F32, .ndim = 4, .dims = {2, 8, 6, 6}},
        {.data = labels, .dtype = YK_I32, .ndim = 1, .dims = {2}}};
    const yk_batch batch = {.size = 2, .count = 2, .names = names, .tensors = tensors};
    yk_model *model;
    assert_int_equal(n->graph->status, YK_OK);
    assert_ok(yk_model_create(
        &model, loss,
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = "cpu", o.threads = 1)));
    assert_ok(yk_model_forward(model, &batch));
    assert_ok(yk_model_backward(model));
    return model;
}

YK_TEST(rows_of_tokens_are_never_reordered)
{
    network n = begin();
    yk_value *weight = yk_parameter(n.graph, "weight", YK_F32, 1, (int64_t[]){6}, YK_INIT_ONES, 0);
    yk_model *model = train(&n, loss_of(yk_softmax(yk_multiply(n.x, weight))));
    assert_int_equal(steps_of(model, &yki_op_reorder), 0);
    for (size_t i = 0; i < plan_of(model)->step_count; i++)
        assert_int_equal(plan_of(model)->steps[i].out[0].layout, YKI_PLAIN);
    yk_model_destroy(model);
}

YK_TEST(an_image_is_reordered_once_when_it_comes)
{
    network n = begin();
    yk_value *y = pixels_of(conv(yk_relu(conv(n.x, "first")), "second"));
    yk_model *model = train(&n, loss_of(y));
    assert_int_equal(steps_of(model, &yki_op_reorder), 1);
    assert_int_equal(steps_of(model, &yki_op_permute), 2); /* forward and backward */
    yk_model_destroy(model);
}

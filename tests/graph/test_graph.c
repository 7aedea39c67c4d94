/* Building a graph: names and scopes, symbolic batch, and the sticky error. */
#include <string.h>

#include "graph/operators.h"
#include "harness.h"

static yk_value *images(yk_graph *graph)
{
    return yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 8, 8});
}

static yk_value *parameter(yk_graph *graph, const char *name, int ndim, const int64_t *dims)
{
    return yk_parameter(graph, name, YK_F32, ndim, dims, YK_INIT_ZEROS, 0);
}

/* No model is made of the graph, and why. */
static void assert_refused(yk_value *value, yk_status status, const char *text)
{
    yk_model *model = NULL;
    assert_status(status, yk_model_create(
                              &model, value,
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = "ref")));
    assert_null(model);
    assert_contains(yk_last_error(), text);
}

/* The value is invalid and so is the graph; the error line starts as all do. */
static void assert_error(yk_value *value, yk_status status, const char *text)
{
    int64_t dims[YK_MAX_DIMS];
    char line[512];
    snprintf(line, sizeof line, "yoke: %s", text);
    assert_int_equal(yk_value_shape(value, dims), -1);
    assert_refused(value, status, line);
}

YK_TEST(the_batch_stays_symbolic)
{
    yk_graph *graph = yk_graph_create();
    int64_t dims[YK_MAX_DIMS];
    yk_value *weight = parameter(graph, "weight", 4, (int64_t[]){5, 3, 3, 3});
    yk_value *y = yk_conv2d(images(graph), weight, NULL,
                            YK_WITH(yk_conv2d_options, YK_CONV2D_OPTIONS_INIT, o.stride = 2));
    assert_int_equal(yk_value_shape(y, dims), 4);
    assert_true(dims[0] == YK_BATCH && dims[1] == 5 && dims[2] == 3 && dims[3] == 3);
    assert_int_equal(yk_value_dtype(y), YK_F32);
    assert_ptr_equal(yk_value_graph(y), graph);
    yk_graph_destroy(graph);
}

YK_TEST(options_without_their_initialiser_are_an_error_of_the_graph)
{
    yk_graph *graph = yk_graph_create();
    yk_value *weight = parameter(graph, "weight", 4, (int64_t[]){5, 3, 3, 3});
    yk_value *y = yk_conv2d(images(graph), weight, NULL,
                            YK_WITH(yk_conv2d_options, YK_CONV2D_OPTIONS_INIT, o.size = 0));
    assert_error(y, YK_ERROR_INVALID_ARGUMENT,
                 "conv2d: yk_conv2d_options: its size is 0; initialise the struct with "
                 "YK_CONV2D_OPTIONS_INIT");
    yk_graph_destroy(graph);
    graph = yk_graph_create();
    weight = parameter(graph, "weight", 4, (int64_t[]){5, 3, 3, 3});
    y = yk_conv2d(images(graph), weight, NULL,
                  YK_WITH(yk_conv2d_options, YK_CONV2D_OPTIONS_INIT, o.stride = 0));
    assert_error(y, YK_ERROR_INVALID_ARGUMENT,
                 "conv2d: stride 0, padding 0, dilation 1, groups 1: expected 1 or more");
    yk_graph_destroy(graph);
}

YK_TEST(the_first_error_sticks_and_names_scope_op_and_shapes)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = images(graph);
    yk_scope_push(graph, "layer1");
    yk_scope_push(graph, "0");
    yk_value *weight = parameter(graph, "conv1.weight", 4, (int64_t[]){5, 4, 3, 3});
    yk_value *wrong = yk_conv2d(x, weight, NULL, NULL);
    yk_scope_pop(graph);
    /* All that follow are invalid too, whatever is asked of them; no second error is recorded. */
    yk_value *y = yk_relu(yk_add(wrong, x));
    y = yk_linear(yk_flatten(yk_gelu(y)), x, NULL);
    y = yk_dropout(yk_scale(yk_max_pool2d(y, 2, 2, 0), 2), 0.5);
    y = yk_batch_norm(yk_global_avg_pool2d(yk_avg_pool2d(y, 2, 2, 0)), x, x, x, x, NULL);
    y = yk_cross_entropy(y, x, NULL);
    assert_ptr_equal(yk_value_graph(y), graph);
    assert_error(y, YK_ERROR_INVALID_SHAPE, "layer1.0.conv2d: input (N, 3, 8, 8)");
    assert_contains(yk_last_error(), "(N, 3, 8, 8)");
    assert_contains(yk_last_error(), "(5, 4, 3, 3)");
    yk_graph_destroy(graph);
}

YK_TEST(an_invalid_value_may_stand_in_any_place)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = images(graph);
    yk_value *bad =
        yk_parameter(graph, "weight", YK_F32, 4, (int64_t[]){5, 0, 3, 3}, YK_INIT_ZEROS, 0);
    assert_error(yk_conv2d(x, bad, NULL, NULL), YK_ERROR_INVALID_SHAPE, "weight: dimension 1 is 0");
    assert_error(yk_add(x, bad), YK_ERROR_INVALID_SHAPE, "weight: dimension 1 is 0");
    yk_graph_destroy(graph);
}

YK_TEST(a_name_is_given_once)
{
    yk_graph *graph = yk_graph_create();
    yk_scope_push(graph, "fc");
    parameter(graph, "weight", 1, (int64_t[]){4});
    yk_value *again = yk_buffer(graph, "weight", YK_F32, 1, (int64_t[]){4}, YK_INIT_ZEROS);
    assert_error(again, YK_ERROR_INVALID_ARGUMENT,
                 "the name fc.weight is taken; yk_scope_reuse uses it again");
    yk_graph_destroy(graph);
}

YK_TEST(each_of_many_names_is_given_once)
{
    enum { NAMES = 1000 };
    char name[16];
    for (int taken = 0; taken < NAMES; taken += 100) {
        yk_graph *graph = yk_graph_create();
        for (int i = 0; i < NAMES; i++) {
            snprintf(name, sizeof name, "p%d", i * 37 % NAMES); /* each of them, in no order */
            assert_true(parameter(graph, name, 1, (int64_t[]){4})->valid);
        }
        snprintf(name, sizeof name, "p%d", taken);
        assert_error(parameter(graph, name, 1, (int64_t[]){4}), YK_ERROR_INVALID_ARGUMENT,
                     "the name p");
        yk_graph_destroy(graph);
    }
}

YK_TEST(scopes_prefix_parameters_and_buffers_but_not_inputs)
{
    yk_graph *graph = yk_graph_create();
    yk_scope_push(graph, "layer4");
    yk_scope_push(graph, "1");
    assert_string_equal(parameter(graph, "w", 1, (int64_t[]){1})->name, "layer4.1.w");
    assert_string_equal(images(graph)->name, "images");
    yk_scope_pop(graph);
    assert_string_equal(yk_buffer(graph, "b", YK_F32, 1, (int64_t[]){1}, YK_INIT_ZEROS)->name,
                        "layer4.b");
    yk_scope_pop(graph);
    yk_scope_pop(graph); /* one too many is harmless */
    assert_string_equal(parameter(graph, "w", 1, (int64_t[]){1})->name, "w");
    yk_graph_destroy(graph);
}

YK_TEST(a_pop_takes_what_was_pushed_dots_and_all)
{
    yk_graph *graph = yk_graph_create();
    yk_scope_push(graph, "encoder");
    yk_scope_push(graph, "layer1.0");
    yk_scope_pop(graph);
    assert_string_equal(parameter(graph, "w", 1, (int64_t[]){1})->name, "encoder.w");
    yk_graph_destroy(graph);
}

YK_TEST(a_scope_that_is_used_again_has_the_same_values)
{
    const int64_t one[] = {1};
    yk_graph *graph = yk_graph_create();
    yk_scope_push(graph, "encoder");
    yk_scope_push(graph, "0");
    yk_value *w = parameter(graph, "w", 1, one);
    yk_value *b = yk_buffer(graph, "b", YK_F32, 1, one, YK_INIT_ONES);
    yk_scope_pop(graph);
    yk_scope_pop(graph);
    yk_scope_reuse(graph, "encoder");
    yk_scope_push(graph, "0");
    assert_ptr_equal(parameter(graph, "w", 1, one), w);
    assert_ptr_equal(yk_buffer(graph, "b", YK_F32, 1, one, YK_INIT_ZEROS), b);
    assert_int_equal(b->init, YK_INIT_ONES);
    yk_scope_pop(graph);
    yk_scope_reuse(graph, "0"); /* within one that is used again */
    assert_ptr_equal(parameter(graph, "w", 1, one), w);
    yk_scope_pop(graph);
    yk_scope_pop(graph);
    yk_scope_push(graph, "decoder"); /* the pop has ended it */
    assert_string_equal(parameter(graph, "w", 1, one)->name, "decoder.w");
    yk_scope_reuse(NULL, "encoder");
    yk_graph_destroy(graph);
}

/* As layers that no scope surrounds. */
YK_TEST(a_scope_without_a_name_is_the_current_one)
{
    const int64_t one[] = {1};
    yk_graph *graph = yk_graph_create();
    yk_value *outer = parameter(graph, "w", 1, one);
    yk_scope_reuse(graph, "");
    assert_ptr_equal(parameter(graph, "w", 1, one), outer);
    yk_scope_pop(graph);
    yk_scope_push(graph, "encoder");
    yk_scope_push(graph, "");
    yk_value *w = parameter(graph, "w", 1, one);
    assert_string_equal(w->name, "encoder.w");
    yk_scope_reuse(graph, "");
    assert_ptr_equal(parameter(graph, "w", 1, one), w);
    yk_scope_pop(graph);
    yk_scope_pop(graph);
    assert_string_equal(parameter(graph, "v", 1, one)->name, "encoder.v");
    for (int i = 0; i < 1000; i++)
        yk_scope_push(graph, "");
    assert_refused(yk_reduce_loss(w, YK_LOSS_SUM), YK_ERROR_INVALID_ARGUMENT,
                   "yoke: the scope \"\" in \"encoder.\" would be the 257th that has not ended; at "
                   "most 256 are possible: does an earlier yk_scope_push lack its yk_scope_pop?");
    yk_graph_destroy(graph);
}

static yk_value *use_again(yk_graph *graph, const char *name, int64_t size)
{
    yk_scope_push(graph, "fc");
    parameter(graph, "weight", 1, (int64_t[]){4});
    yk_scope_pop(graph);
    yk_scope_reuse(graph, "fc");
    return parameter(graph, name, 1, &size);
}

YK_TEST(what_is_used_again_has_been_declared_alike)
{
    yk_graph *graph = yk_graph_create();
    assert_error(use_again(graph, "bias", 4), YK_ERROR_INVALID_ARGUMENT,
                 "there is no fc.bias that could be used again");
    yk_graph_destroy(graph);
    graph = yk_graph_create();
    assert_error(use_again(graph, "weight", 5), YK_ERROR_INVALID_SHAPE,
                 "fc.weight cannot be used again: it is a parameter (4) float32");
    yk_graph_destroy(graph);
    graph = yk_graph_create();
    assert_true(use_again(graph, "weight", 4)->valid);
    yk_value *buffer = yk_buffer(graph, "weight", YK_F32, 1, (int64_t[]){4}, YK_INIT_ZEROS);
    assert_error(buffer, YK_ERROR_INVALID_SHAPE, "fc.weight cannot be used again");
    yk_graph_destroy(graph);
}

static yk_tensor floats(float *numbers, int64_t count)
{
    return (yk_tensor){.data = numbers, .dtype = YK_F32, .ndim = 1, .dims = {count}};
}

YK_TEST(a_buffer_of_given_numbers_keeps_a_copy_of_them)
{
    float numbers[] = {1, 2, 3};
    const yk_tensor tensor = floats(numbers, 3);
    int64_t dims[YK_MAX_DIMS];
    yk_graph *graph = yk_graph_create();
    yk_scope_push(graph, "attn");
    yk_value *mask = yk_register_buffer(graph, "mask", &tensor, true);
    numbers[1] = 7;
    assert_string_equal(mask->name, "attn.mask");
    assert_int_equal(yk_value_shape(mask, dims), 1);
    assert_int_equal(dims[0], 3);
    assert_int_equal(yk_value_dtype(mask), YK_F32);
    assert_true(((float *)mask->given)[1] == 2);
    assert_true(yki_value_is_saved(mask));
    assert_false(yki_value_is_saved(yk_register_buffer(graph, "other", &tensor, false)));
    yk_scope_pop(graph);
    yk_graph_destroy(graph);
}

YK_TEST(numbers_that_cannot_be_given_are_refused)
{
    float numbers[] = {1, 2, 3};
    const yk_tensor good = floats(numbers, 3);
    yk_tensor bad[] = {good, good, good, good, good, good};
    static const struct {
        yk_status status;
        const char *text;
    } expected[] = {
        {YK_ERROR_INVALID_ARGUMENT, "attn.mask: the tensor has no data: NULL"},
        {YK_ERROR_INVALID_SHAPE, "attn.mask: dimension 0 is 0, expected 1 or more"},
        {YK_ERROR_INVALID_SHAPE, "attn.mask: dimension 0 is -1, expected 1 or more"},
        {YK_ERROR_INVALID_ARGUMENT, "attn.mask: expected 0 to 6 dimensions, not 7"},
        {YK_ERROR_INVALID_ARGUMENT, "attn.mask: there is no dtype 99"},
        {YK_ERROR_INVALID_ARGUMENT, "attn.mask: the tensor is in the memory of a device: copy it "
                                    "with yk_tensor_read"},
    };
    bad[0].data = NULL;
    bad[1].dims[0] = 0;
    bad[2].dims[0] = YK_BATCH;
    bad[3].ndim = 7;
    bad[4].dtype = (yk_dtype)99;
    bad[5].device = (yk_device *)numbers;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        yk_graph *graph = yk_graph_create();
        yk_scope_push(graph, "attn");
        assert_error(yk_register_buffer(graph, "mask", &bad[i], true), expected[i].status,
                     expected[i].text);
        yk_graph_destroy(graph);
    }
    yk_graph *graph = yk_graph_create();
    assert_error(yk_register_buffer(graph, "mask", NULL, true), YK_ERROR_INVALID_ARGUMENT,
                 "mask: the tensor is NULL");
    yk_graph_destroy(graph);
    graph = yk_graph_create();
    assert_error(yk_constant(graph, NULL), YK_ERROR_INVALID_ARGUMENT,
                 "_tensor_constant0: the tensor is NULL");
    yk_graph_destroy(graph);
    graph = yk_graph_create();
    assert_error(yk_register_buffer(graph, NULL, &good, true), YK_ERROR_INVALID_ARGUMENT,
                 "the name of a value is NULL");
    yk_graph_destroy(graph);
    graph = yk_graph_create();
    yk_register_buffer(graph, "mask", &good, true);
    assert_error(yk_register_buffer(graph, "mask", &good, false), YK_ERROR_INVALID_ARGUMENT,
                 "the name mask is taken");
    yk_graph_destroy(graph);
    assert_int_equal(yk_value_shape(yk_register_buffer(NULL, "mask", &good, true), NULL), -1);
    assert_int_equal(yk_value_shape(yk_constant(NULL, &good), NULL), -1);
}

YK_TEST(a_buffer_that_is_used_again_has_the_same_numbers)
{
    float numbers[] = {1, 2, 3};
    const yk_tensor tensor = floats(numbers, 3);
    for (int wrong = 0; wrong < 4; wrong++) {
        yk_graph *graph = yk_graph_create();
        yk_value *mask = wrong == 3 ? yk_buffer(graph, "mask", YK_F32, 1, tensor.dims, YK_INIT_ONES)
                                    : yk_register_buffer(graph, "mask", &tensor, true);
        yk_scope_reuse(graph, "");
        numbers[2] = wrong == 1 ? 4 : 3;
        yk_value *again = yk_register_buffer(graph, "mask", &tensor, wrong != 2);
        if (wrong > 0)
            assert_error(again, YK_ERROR_INVALID_ARGUMENT,
                         "mask cannot be used again: it starts with other numbers, or only one of "
                         "the two is persistent");
        else
            assert_ptr_equal(again, mask);
        numbers[2] = 3;
        yk_graph_destroy(graph);
    }
}

/* As each call of forward() makes its own. */
YK_TEST(each_constant_is_one_of_its_own)
{
    float numbers[] = {1, 2, 3};
    const yk_tensor tensor = floats(numbers, 3), shorter = floats(numbers, 2);
    yk_graph *graph = yk_graph_create();
    yk_scope_push(graph, "attn");
    yk_value *first = yk_constant(graph, &tensor);
    yk_scope_pop(graph);
    yk_scope_reuse(graph, "attn");
    yk_value *second = yk_constant(graph, &shorter);
    yk_value *missing = parameter(graph, "weight", 1, tensor.dims); /* names are used again still */
    yk_scope_pop(graph);
    assert_string_equal(first->name, "attn._tensor_constant0");
    assert_string_equal(second->name, "attn._tensor_constant1");
    assert_false(yki_value_is_saved(first));
    assert_int_equal(yk_value_shape(missing, NULL), -1);
    yk_graph_destroy(graph);
}

YK_TEST(given_indices_are_rows_of_the_weight)
{
    int64_t numbers[] = {0, 4, 3};
    const yk_tensor index = {.data = numbers, .dtype = YK_I64, .ndim = 1, .dims = {3}};
    int64_t dims[YK_MAX_DIMS];
    for (int wrong = 0; wrong < 3; wrong++) {
        yk_graph *graph = yk_graph_create();
        numbers[2] = wrong == 0 ? 3 : wrong == 1 ? 5 : -1;
        yk_value *rows = yk_embedding(yk_register_buffer(graph, "index", &index, true),
                                      parameter(graph, "table", 2, (int64_t[]){5, 2}));
        if (wrong == 0) {
            assert_int_equal(yk_value_shape(rows, dims), 2);
            assert_true(dims[0] == 3 && dims[1] == 2);
        } else
            assert_error(rows, YK_ERROR_INVALID_ARGUMENT,
                         wrong == 1 ? "embedding: index 5, element 2 of index, is outside 0..4"
                                    : "embedding: index -1, element 2 of index, is outside 0..4");
        yk_graph_destroy(graph);
    }
}

YK_TEST(given_indices_are_places_of_the_dimension)
{
    int64_t numbers[] = {3, 0, 3, 1};
    const yk_tensor index = {.data = numbers, .dtype = YK_I64, .ndim = 1, .dims = {4}};
    int64_t dims[YK_MAX_DIMS];
    for (int wrong = 0; wrong < 2; wrong++) {
        yk_graph *graph = yk_graph_create();
        numbers[2] = wrong ? 4 : 3;
        yk_value *x = yk_input(graph, "x", YK_F32, 3, (int64_t[]){YK_BATCH, 4, 2});
        yk_value *y = yk_index_select(x, 1, yk_register_buffer(graph, "order", &index, true));
        if (wrong) {
            assert_error(y, YK_ERROR_INVALID_ARGUMENT,
                         "take_along_dim: index 4, element 2 of order, is outside 0..3");
        } else {
            assert_int_equal(yk_value_shape(y, dims), 3);
            assert_true(dims[0] == YK_BATCH && dims[1] == 4 && dims[2] == 2);
        }
        yk_graph_destroy(graph);
    }
}

/* What is done to a sequence between two convolutions is done to the image of one row. */
YK_TEST(sequences_stay_images_between_convolutions)
{
    yk_graph *graph = yk_graph_create();
    const int64_t filters[] = {4, 4, 3};
    yk_value *x = yk_input(graph, "x", YK_F32, 3, (int64_t[]){YK_BATCH, 4, 9});
    yk_value *weight = parameter(graph, "weight", 3, filters);
    yk_value *first = yk_conv1d(x, weight, NULL, NULL);
    yk_value *second = yk_conv1d(yk_relu(yk_add(first, first)), weight, NULL, NULL);
    const yk_value *image = second->producer->in[0]->producer->in[0]; /* reshape, flatten */
    assert_true(image->producer->op == &yki_op_conv2d);
    const yk_value *before = image->producer->in[YKI_CONV2D_X];
    assert_true(before->producer->op == &yki_op_relu);
    before = before->producer->in[0];
    assert_true(before->producer->op == &yki_op_add);
    assert_true(before->producer->in[0]->producer->op == &yki_op_conv2d);
    const yk_value *longer = yk_conv_transpose1d(second, weight, NULL, NULL);
    image = longer->producer->in[0]->producer->in[0];
    assert_true(image->producer->op == &yki_op_conv_transpose2d);
    assert_true(image->producer->in[YKI_CONV_TRANSPOSE2D_X]->producer->op == &yki_op_conv2d);
    yk_graph_destroy(graph);
}

YK_TEST(a_scope_without_end_is_an_error)
{
    yk_graph *graph = yk_graph_create();
    for (int i = 0; i < 100; i++)
        yk_scope_push(graph, "deeper");
    assert_refused(yk_relu(images(graph)), YK_ERROR_INVALID_ARGUMENT,
                   "makes a prefix of 259 characters; at most 255 are possible");
    yk_graph_destroy(graph);
}

static int version_of(const yk_graph *graph, const char *scope)
{
    return yki_scope_version_of(graph, scope, strlen(scope));
}

YK_TEST(scopes_have_versions)
{
    yk_scope_version(NULL, 2);
    yk_graph *graph = yk_graph_create();
    yk_scope_version(graph, 3);
    yk_scope_push(graph, "layer");
    yk_scope_push(graph, "bn");
    yk_scope_version(graph, 4);
    yk_scope_version(graph, 2);
    yk_scope_pop(graph);
    yk_scope_pop(graph);
    assert_int_equal(version_of(graph, ""), 3);
    assert_int_equal(version_of(graph, "layer."), 1);
    assert_int_equal(version_of(graph, "layer.bn."), 2);
    assert_int_equal(version_of(graph, "layer.b."), 1);
    yk_scope_push(graph, "layer");
    yk_scope_version(graph, 0);
    yk_scope_pop(graph);
    assert_refused(yk_relu(images(graph)), YK_ERROR_INVALID_ARGUMENT,
                   "layer.yk_scope_version: expected 1 or more, not 0");
    yk_graph_destroy(graph);
}

YK_TEST(only_an_input_has_a_symbolic_batch)
{
    yk_graph *graph = yk_graph_create();
    assert_error(parameter(graph, "w", 2, (int64_t[]){YK_BATCH, 2}), YK_ERROR_INVALID_SHAPE,
                 "w: dimension 0 is -1");
    yk_graph_destroy(graph);
    graph = yk_graph_create();
    assert_error(yk_input(graph, "x", YK_F32, 2, (int64_t[]){2, YK_BATCH}), YK_ERROR_INVALID_SHAPE,
                 "x: dimension 1 is -1");
    yk_graph_destroy(graph);
    graph = yk_graph_create();
    assert_error(yk_input(graph, "x", YK_F32, 7, (int64_t[]){1, 1, 1, 1, 1, 1, 1}),
                 YK_ERROR_INVALID_ARGUMENT, "x: expected 0 to 6 dimensions, not 7");
    yk_graph_destroy(graph);
}

YK_TEST(sizes_can_be_counted)
{
    const int64_t huge = (int64_t)1 << 31;
    yk_graph *graph = yk_graph_create();
    assert_error(yk_input(graph, "x", YK_F32, 4, (int64_t[]){YK_BATCH, huge, huge, 4}),
                 YK_ERROR_INVALID_SHAPE, "x is too large");
    yk_graph_destroy(graph);
    graph = yk_graph_create();
    assert_error(parameter(graph, "w", 2, (int64_t[]){huge, huge}), YK_ERROR_INVALID_SHAPE,
                 "w is too large");
    yk_graph_destroy(graph);
}

YK_TEST(graphs_do_not_mix)
{
    yk_graph *one = yk_graph_create(), *other = yk_graph_create();
    assert_error(yk_add(images(one), images(other)), YK_ERROR_INVALID_ARGUMENT,
                 "add: the value for the right side belongs to another graph");
    yk_graph_destroy(one);
    yk_graph_destroy(other);
}

YK_TEST(the_loss_must_be_a_scalar)
{
    yk_graph *graph = yk_graph_create();
    yk_model *model = NULL;
    yk_value *weight = parameter(graph, "weight", 4, (int64_t[]){5, 3, 3, 3});
    yk_value *y = yk_conv2d(images(graph), weight, NULL, NULL);
    assert_status(
        YK_ERROR_INVALID_SHAPE,
        yk_model_create(&model, y,
                        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = "ref")));
    assert_contains(yk_last_error(), "(N, 5, 6, 6)");
    assert_contains(yk_last_error(), "scalar");
    yk_graph_destroy(graph);
}

/* Without an overflow where it is seen whether all windows are alike. */
YK_TEST(an_adaptive_pool_of_a_huge_size_is_refused)
{
    static const int64_t sizes[] = {INT64_MAX, INT64_MIN, -1, 0, INT64_C(1) << 62};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        yk_graph *graph = yk_graph_create();
        yk_value *x = yk_input(graph, "x", YK_F32, 4, (int64_t[]){YK_BATCH, 4, 6, 6});
        assert_int_equal(yk_value_shape(yk_adaptive_avg_pool2d(x, 1, sizes[i]), NULL), -1);
        yk_graph_destroy(graph);
    }
}

/*
 * The functions of functional.h against PyTorch's: what they compute of tensors that PyTorch has
 * drawn, and, as a step of SGD with a rate of 1, the gradients of the mean of its squares.
 */
#include <yoke/functional.h>

#include <stdio.h>

#include "harness.h"
#include "pytorch.h"
#include "tensor_files.h"

/* x (4, 6, 5), other of the same shape, weight (6) */
typedef struct operands {
    yk_value *x, *other, *weight;
} operands;

typedef struct function {
    const char *name; /* in functional.py */
    yk_value *(*call)(const operands *in);
} function;

/* Of the first four columns of x. */
static yk_value *image_of(yk_value *x, int64_t channels, int64_t rows, int64_t columns)
{
    return yk_reshape(yk_slice(x, 2, 0, 4), 4, (int64_t[]){-1, channels, rows, columns});
}

/* The first of 12 numbers of rows, as a buffer. */
static yk_value *numbers(yk_value *x, int ndim, int64_t rows, int64_t columns)
{
    static int64_t all[] = {3, 0, 5, 5, 1, 1, 4, 2, 0, 5, 3, 3};
    return yk_constant(
        yk_value_graph(x),
        &(yk_tensor){.data = all, .dtype = YK_I64, .ndim = ndim, .dims = {rows, columns}});
}

static yk_value *rows(yk_value *x)
{
    return yk_reshape(x, 2, (int64_t[]){-1, 5});
}

/* 1 where the first of dimension 1 is above 0, and -1 elsewhere. */
static yk_value *signs(yk_value *x)
{
    yk_value *first = yk_select(x, 1, 0);
    return yk_add_scalar(yk_scale(yk_greater(first, yk_full_like(first, 0)), 2), -1);
}

#define FUNCTION(name, of)                                                                         \
    static yk_value *call_##name(const operands *in)                                               \
    {                                                                                              \
        return of;                                                                                 \
    }
FUNCTION(selu, yk_selu(in->x))
FUNCTION(softplus, yk_softplus(in->x))
FUNCTION(log_softplus, yk_log(yk_softplus(in->x)))
FUNCTION(logsigmoid, yk_logsigmoid(in->x))
FUNCTION(mish, yk_mish(in->x))
FUNCTION(hardsigmoid, yk_hardsigmoid(in->x))
FUNCTION(prelu, yk_prelu(in->x, in->weight))
FUNCTION(glu, yk_glu(in->x, 1))
FUNCTION(unsqueeze, yk_unsqueeze(in->x, -1))
FUNCTION(squeeze, yk_squeeze(yk_slice(in->x, 2, 3, 1), -1))
FUNCTION(transpose, yk_transpose(in->x, 1, -1))
FUNCTION(select, yk_select(in->x, 1, -2))
FUNCTION(roll, yk_concat((yk_value *[]){yk_roll(in->x, 2, 1), yk_roll(in->x, -13, -1),
                                        yk_roll(in->x, 6, 1)},
                         3, 1))
FUNCTION(pixel_shuffle, yk_pixel_shuffle(image_of(in->x, 8, 3, 1), 2))
FUNCTION(pixel_unshuffle, yk_pixel_unshuffle(image_of(in->x, 2, 6, 2), 2))
FUNCTION(stack, yk_stack((yk_value *[]){in->x, in->other, in->x}, 3, 2))
FUNCTION(normalize, yk_normalize(in->x, 1))
FUNCTION(cosine_similarity, yk_cosine_similarity(in->x, in->other, -1))
FUNCTION(logsumexp, yk_logsumexp(in->x, 1))
FUNCTION(where, yk_where(yk_less(in->x, in->other), in->x, yk_scale(in->other, 2)))
FUNCTION(equal, yk_add(yk_equal(in->x, in->other), yk_minimum(in->x, in->other)))
FUNCTION(pad_reflect,
         yk_pad_with(yk_pad_with(in->x, 1, 5, 2, YK_PAD_REFLECT), 2, 0, 4, YK_PAD_REFLECT))
FUNCTION(pad_replicate,
         yk_pad_with(yk_pad_with(in->x, 1, 7, 2, YK_PAD_REPLICATE), -1, 1, 0, YK_PAD_REPLICATE))
FUNCTION(pad_circular,
         yk_pad_with(yk_pad_with(in->x, 1, 6, 1, YK_PAD_CIRCULAR), 2, 2, 5, YK_PAD_CIRCULAR))
FUNCTION(pad2d_reflect, yk_pad2d_with(image_of(in->x, 2, 3, 4), 2, YK_PAD_REFLECT))
FUNCTION(conv1d,
         yk_conv1d(yk_scale(in->x, 0.02), yk_reshape(in->other, 3, (int64_t[]){8, 3, 5}), NULL,
                   YK_WITH(yk_conv1d_options, YK_CONV1D_OPTIONS_INIT, o.stride = 2, o.padding = 4,
                           o.groups = 2)))
FUNCTION(conv_transpose1d,
         yk_conv_transpose1d(yk_scale(in->x, 0.02), yk_reshape(in->other, 3, (int64_t[]){6, 4, 5}),
                             NULL,
                             YK_WITH(yk_conv_transpose1d_options, YK_CONV_TRANSPOSE1D_OPTIONS_INIT,
                                     o.stride = 3, o.padding = 2, o.output_padding = 1,
                                     o.groups = 2, o.dilation = 2)))
FUNCTION(max_pool1d, yk_max_pool1d(in->x, 3, 2, 1))
FUNCTION(avg_pool1d, yk_avg_pool1d(in->x, 3, 1, 1))
FUNCTION(take_along_dim, yk_take_along_dim(in->x, numbers(in->x, 2, 4, 3), 1))
FUNCTION(take_one, yk_take_along_dim(in->x, numbers(in->x, 1, 4, 1), 1))
FUNCTION(index_select, yk_index_select(in->x, 1, numbers(in->x, 1, 12, 1)))
FUNCTION(pairwise_distance, yk_pairwise_distance(in->x, in->other))
FUNCTION(triplet_margin_loss, yk_triplet_margin_loss(rows(in->x), rows(in->other),
                                                     rows(yk_roll(in->x, 1, 1)), 2, YK_LOSS_MEAN))
FUNCTION(cosine_embedding_loss, yk_cosine_embedding_loss(rows(in->x), rows(in->other),
                                                         signs(rows(in->x)), 0.1, YK_LOSS_SUM))
FUNCTION(margin_ranking_loss,
         yk_margin_ranking_loss(in->x, in->other, yk_reshape(signs(in->x), 3, (int64_t[]){4, 1, 5}),
                                0.5, YK_LOSS_MEAN))

static const function functions[] = {
    {"selu", call_selu},
    {"softplus", call_softplus},
    {"log_softplus", call_log_softplus},
    {"logsigmoid", call_logsigmoid},
    {"mish", call_mish},
    {"hardsigmoid", call_hardsigmoid},
    {"prelu", call_prelu},
    {"glu", call_glu},
    {"unsqueeze", call_unsqueeze},
    {"squeeze", call_squeeze},
    {"transpose", call_transpose},
    {"select", call_select},
    {"roll", call_roll},
    {"pixel_shuffle", call_pixel_shuffle},
    {"pixel_unshuffle", call_pixel_unshuffle},
    {"stack", call_stack},
    {"normalize", call_normalize},
    {"cosine_similarity", call_cosine_similarity},
    {"logsumexp", call_logsumexp},
    {"where", call_where},
    {"equal", call_equal},
    {"pad_reflect", call_pad_reflect},
    {"pad_replicate", call_pad_replicate},
    {"pad_circular", call_pad_circular},
    {"pad2d_reflect", call_pad2d_reflect},
    {"conv1d", call_conv1d},
    {"conv_transpose1d", call_conv_transpose1d},
    {"max_pool1d", call_max_pool1d},
    {"avg_pool1d", call_avg_pool1d},
    {"take_along_dim", call_take_along_dim},
    {"take_one", call_take_one},
    {"index_select", call_index_select},
    {"pairwise_distance", call_pairwise_distance},
    {"triplet_margin_loss", call_triplet_margin_loss},
    {"cosine_embedding_loss", call_cosine_embedding_loss},
    {"margin_ranking_loss", call_margin_ranking_loss},
};

/* Writes NAME.DEVICE, the result in f32, and NAME.DEVICE.pth, the operands after the step. */
static void run_on(const function *f, const char *device)
{
    char name[64];
    yk_tensor result;
    yk_graph *graph = yk_graph_create();
    const int64_t dims[] = {4, 6, 5};
    const operands in = {yk_parameter(graph, "x", YK_F32, 3, dims, YK_INIT_ZEROS, 0),
                         yk_parameter(graph, "other", YK_F32, 3, dims, YK_INIT_ZEROS, 0),
                         yk_parameter(graph, "weight", YK_F32, 1, dims + 1, YK_INIT_ZEROS, 0)};
    yk_value *y = f->call(&in);
    yk_value *all = yk_add(yk_reduce_loss(yk_pow(y, 2), YK_LOSS_MEAN),
                           yk_scale(yk_add(yk_reduce_loss(in.other, YK_LOSS_SUM),
                                           yk_reduce_loss(in.weight, YK_LOSS_SUM)),
                                    0.5)); /* each operand has a gradient */
    yk_model *model;
    yk_optimizer *sgd;
    assert_ok(yk_model_create(&model, all,
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device,
                                      o.outputs = &y, o.output_count = 1)));
    assert_ok(yk_sgd_create(&sgd, model, YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 1)));
    assert_ok(yk_model_load(model, file_of("start.pth")));
    assert_ok(yk_model_forward(model, &(yk_batch){.size = 1}));
    assert_ok(yk_model_output_at(model, 0, &result));
    snprintf(name, sizeof name, "%s.%s", f->name, device);
    FILE *file = fopen(file_of(name), "wbe");
    assert_non_null(file);
    assert_int_equal(fwrite(result.data, yk_tensor_bytes(&result), 1, file), 1);
    assert_int_equal(fclose(file), 0);
    assert_ok(yk_model_backward(model));
    assert_ok(yk_optimizer_step(sgd));
    snprintf(name, sizeof name, "%s.%s.pth", f->name, device);
    assert_ok(yk_model_save(model, file_of(name)));
    yk_optimizer_destroy(sgd);
    yk_model_destroy(model);
}

YK_TEST(functions_are_pytorchs)
{
    pytorch_judges("functional.py", "start %s", yk_test_directory());
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        run_on(&functions[i], "ref");
        run_on(&functions[i], "cpu");
    }
    pytorch_judges("functional.py", "judge %s ref cpu", yk_test_directory());
}

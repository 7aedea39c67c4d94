/* Mistakes with the functions of functional.h. What they compute: parity/test_pytorch_functional.
 */
#include <yoke/yoke.h>

#include "harness.h"

static yk_value *x_of(int ndim)
{
    return yk_input(yk_graph_create(), "x", YK_F32, ndim, (int64_t[]){YK_BATCH, 5, 4, 3});
}

/* The graph's error has these words. Destroys the graph. */
static void refused(yk_value *y, const char *words)
{
    yk_model *model;
    assert_int_equal(yk_value_shape(y, NULL), -1);
    assert_int_not_equal(YK_OK, yk_model_create(&model, y, NULL));
    assert_contains(yk_last_error(), words);
    yk_graph_destroy(yk_value_graph(y));
}

YK_TEST(shapes_that_do_not_fit_are_refused)
{
    refused(yk_glu(x_of(2), 1), "glu: dimension 1 of input has size 5, expected an even number");
    refused(yk_glu(x_of(3), 0),
            "glu: input has shape (N, 5, 4), of which dimension 0 is the batch");
    refused(yk_glu(x_of(3), 3), "glu: input has shape (N, 5, 4), which has no dimension 3");
    refused(yk_unsqueeze(x_of(2), 0), "unsqueeze: input has shape (N, 5), to which dimension 0");
    refused(yk_unsqueeze(x_of(2), 4), "to which dimension 4 cannot be added");
    refused(yk_unsqueeze(yk_unsqueeze(yk_unsqueeze(x_of(4), 1), 1), 1), "of at most 6");
    refused(yk_squeeze(x_of(3), 1), "squeeze: input has shape (N, 5, 4), expected a size of 1");
    refused(yk_squeeze(x_of(3), 0), "after the first");
    refused(yk_squeeze(x_of(3), 3), "in dimension 3");
    refused(yk_transpose(x_of(3), 0, 1),
            "transpose: input has shape (N, 5, 4), of which dimension 0");
    refused(yk_transpose(x_of(3), 1, -4), "which has no dimension -4");
    refused(yk_select(x_of(3), 1, 5), "slice");
    refused(yk_select(x_of(3), 1, -6), "slice");
    refused(yk_select(x_of(3), 0, 1), "batch");
    refused(yk_select(x_of(3), 0, INT64_MIN), "batch");
    refused(yk_unsqueeze(yk_squeeze(x_of(3), 3), INT64_MIN), "in dimension 3");
    refused(yk_roll(x_of(3), 1, 0), "roll: input has shape (N, 5, 4), of which dimension 0 is");
    refused(yk_roll(x_of(3), 1, 3), "which has no dimension 3");
    refused(yk_pixel_shuffle(x_of(4), 2),
            "pixel_shuffle: input has shape (N, 5, 4, 3), expected (N, C, H, W) with channels in "
            "multiples of the square of 2");
    refused(yk_pixel_shuffle(x_of(4), 0), "of the square of 0");
    refused(yk_pixel_shuffle(x_of(3), 1), "input has shape (N, 5, 4), expected");
    refused(yk_pixel_unshuffle(x_of(4), 2),
            "pixel_unshuffle: input has shape (N, 5, 4, 3), expected (N, C, H, W) with rows and "
            "columns in multiples of 2");
    refused(yk_pad_with(x_of(3), 1, 5, 0, YK_PAD_REFLECT),
            "pad_with: padding 5 and 0 of a dimension of size 5: expected 0 to 4");
    refused(yk_pad_with(x_of(3), 1, 0, 6, YK_PAD_CIRCULAR), "expected 0 to 5");
    refused(yk_pad_with(x_of(3), 1, 2000, 0, YK_PAD_REPLICATE), "expected 0 to 1024");
    refused(yk_pad_with(x_of(3), 1, 0, -1, YK_PAD_REPLICATE), "padding 0 and -1");
    refused(yk_pad_with(x_of(3), 0, 1, 1, YK_PAD_REFLECT), "dimension 0 is the batch");
    refused(yk_pad_with(x_of(3), 1, 1, 1, (yk_pad_mode)7), "pad_with: there is no mode 7");
    refused(yk_pad2d_with(x_of(3), 1, YK_PAD_REFLECT),
            "pad2d_with: input has shape (N, 5, 4), expected (N, C, H, W)");
    yk_value *sequence = x_of(2);
    refused(yk_conv1d(sequence, yk_unsqueeze(sequence, 1), NULL, NULL),
            "conv1d: input has 2 dimensions, expected");
    sequence = x_of(3);
    refused(yk_conv1d(sequence, yk_slice(yk_unsqueeze(sequence, 1), 2, 0, 2), NULL, NULL),
            "conv1d: weight has 4 dimensions, expected (K, C / groups, S)");
    refused(yk_nn_conv1d(x_of(3), "conv", 8, 7, NULL), "is larger than input (N, 5, 1, 4)");
    refused(yk_nn_conv1d(x_of(4), "conv", 8, 3, NULL), "conv1d: input has 4 dimensions");
    sequence = x_of(3);
    refused(yk_conv_transpose1d(sequence, sequence, NULL, NULL),
            "conv_transpose1d: weight has 3 dimensions, expected (C, F / groups, S)");
    refused(yk_nn_conv_transpose1d(x_of(4), "up", 8, 3, NULL),
            "conv_transpose1d: input has 4 dimensions, expected (N, C, L)");
    refused(yk_nn_conv_transpose1d(x_of(3), "up", 8, 3,
                                   YK_WITH(yk_conv_transpose1d_options,
                                           YK_CONV_TRANSPOSE1D_OPTIONS_INIT, o.output_padding = 1)),
            "output_padding 0x1 with stride 1");
    refused(yk_max_pool1d(x_of(4), 2, 2, 0), "max_pool1d: input has 4 dimensions, expected");
    refused(yk_avg_pool1d(x_of(2), 2, 2, 0), "avg_pool1d: input has 2 dimensions, expected");
    refused(yk_normalize(x_of(3), 0), "batch");
    refused(yk_logsumexp(x_of(3), 3), "no dimension 3");
    yk_value *x = x_of(2),
             *other = yk_input(yk_value_graph(x), "y", YK_F32, 3, (int64_t[]){YK_BATCH, 5, 1});
    refused(yk_stack((yk_value *[]){x, other}, 2, 1), "concat");
    x = x_of(3);
    refused(yk_stack(&x, 0, 1), "concat");
    refused(yk_prelu(x, yk_slice(x, 1, 0, 2)), "cannot be broadcast");
}

YK_TEST(no_value_is_refused)
{
    refused(yk_selu(NULL), "NULL");
    refused(yk_softplus(NULL), "NULL");
    refused(yk_logsigmoid(NULL), "NULL");
    refused(yk_mish(NULL), "NULL");
    refused(yk_hardsigmoid(NULL), "NULL");
    refused(yk_prelu(NULL, NULL), "NULL");
    refused(yk_glu(NULL, 1), "NULL");
    refused(yk_unsqueeze(NULL, 1), "NULL");
    refused(yk_squeeze(NULL, 1), "NULL");
    refused(yk_transpose(NULL, 1, 2), "NULL");
    refused(yk_select(NULL, 1, 0), "NULL");
    refused(yk_roll(NULL, 1, 1), "NULL");
    refused(yk_pixel_shuffle(NULL, 2), "NULL");
    refused(yk_pixel_unshuffle(NULL, 2), "NULL");
    refused(yk_stack(NULL, 1, 0), "NULL");
    refused(yk_stack((yk_value *[]){NULL}, 1, 1), "NULL");
    refused(yk_normalize(NULL, 1), "NULL");
    refused(yk_cosine_similarity(NULL, NULL, 1), "NULL");
    refused(yk_logsumexp(NULL, 1), "NULL");
    refused(yk_pad_with(NULL, 1, 1, 1, YK_PAD_REFLECT), "NULL");
    refused(yk_pad2d_with(NULL, 1, YK_PAD_REFLECT), "NULL");
    refused(yk_conv1d(NULL, NULL, NULL, NULL), "NULL");
    refused(yk_conv_transpose1d(NULL, NULL, NULL, NULL), "NULL");
    refused(yk_max_pool1d(NULL, 1, 1, 0), "NULL");
    refused(yk_avg_pool1d(NULL, 1, 1, 0), "NULL");
    refused(yk_take_along_dim(NULL, NULL, 1), "NULL");
    refused(yk_index_select(NULL, 1, NULL), "NULL");
    refused(yk_pairwise_distance(NULL, NULL), "NULL");
    refused(yk_triplet_margin_loss(NULL, NULL, NULL, 1, YK_LOSS_MEAN), "NULL");
    refused(yk_cosine_embedding_loss(NULL, NULL, NULL, 0, YK_LOSS_MEAN), "NULL");
    refused(yk_margin_ranking_loss(NULL, NULL, NULL, 0, YK_LOSS_MEAN), "NULL");
}

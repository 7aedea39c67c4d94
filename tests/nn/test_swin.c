/* Swin transformers: names, buffers, masks and images of any size. What they compute is compared in
 * tests/parity. */
#include "harness.h"

#include <yoke/networks.h>

#include "graph/graph.h"

static yk_graph *build(const char *arch, yk_dtype dtype, int64_t rows, int64_t columns)
{
    yk_graph *graph = yk_graph_create();
    int64_t dims[YK_MAX_DIMS];
    yk_value *images = yk_input(graph, "images", dtype, 4, (int64_t[]){YK_BATCH, 3, rows, columns});
    assert_int_equal(yk_value_shape(yk_arch_find(arch)(images, 10), dims), 2);
    assert_string_equal(graph->error, "");
    assert_true(dims[0] == YK_BATCH && dims[1] == 10);
    return graph;
}

/* The n-th value that a file has, or the n-th constant; NULL after the last. */
static const yk_value *nth(const yk_graph *graph, bool saved, int n)
{
    for (size_t i = 0; i < graph->value_count; i++) {
        const yk_value *value = graph->values[i];
        bool counts = saved ? yki_value_is_saved(value) : value->transient;
        if (counts && n-- == 0)
            return value;
    }
    return NULL;
}

YK_TEST(names_and_their_order_are_torchvisions)
{
    static const char *const names[] = {"features.0.0.weight",
                                        "features.0.0.bias",
                                        "features.0.2.weight",
                                        "features.0.2.bias",
                                        "features.1.0.norm1.weight",
                                        "features.1.0.norm1.bias",
                                        "features.1.0.attn.relative_position_bias_table",
                                        "features.1.0.attn.relative_position_index",
                                        "features.1.0.attn.qkv.weight",
                                        "features.1.0.attn.qkv.bias",
                                        "features.1.0.attn.proj.weight",
                                        "features.1.0.attn.proj.bias",
                                        "features.1.0.norm2.weight",
                                        "features.1.0.norm2.bias",
                                        "features.1.0.mlp.0.weight",
                                        "features.1.0.mlp.0.bias",
                                        "features.1.0.mlp.3.weight",
                                        "features.1.0.mlp.3.bias",
                                        "features.1.1.norm1.weight"};
    yk_graph *graph = build("swin-t", YK_F32, 224, 224);
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
        assert_string_equal(nth(graph, true, i)->name, names[i]);
    assert_string_equal(nth(graph, true, 32)->name, "features.2.reduction.weight");
    assert_string_equal(nth(graph, true, 33)->name, "features.2.norm.weight");
    assert_string_equal(nth(graph, true, 181)->name, "norm.weight");
    assert_string_equal(nth(graph, true, 184)->name, "head.bias");
    assert_null(nth(graph, true, 185));
    yk_graph_destroy(graph);
}

YK_TEST(names_of_the_second_version_are_torchvisions)
{
    static const char *const names[] = {"features.1.0.norm1.bias",
                                        "features.1.0.attn.logit_scale",
                                        "features.1.0.attn.relative_coords_table",
                                        "features.1.0.attn.relative_position_index",
                                        "features.1.0.attn.qkv.weight",
                                        "features.1.0.attn.qkv.bias",
                                        "features.1.0.attn.proj.weight",
                                        "features.1.0.attn.proj.bias",
                                        "features.1.0.attn.cpb_mlp.0.weight",
                                        "features.1.0.attn.cpb_mlp.0.bias",
                                        "features.1.0.attn.cpb_mlp.2.weight",
                                        "features.1.0.norm2.weight"};
    yk_graph *graph = build("swin-v2-t", YK_F32, 256, 256);
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
        assert_string_equal(nth(graph, true, 5 + i)->name, names[i]);
    assert_null(nth(graph, true, 209 + 24));
    yk_graph_destroy(graph);
}

/* Distances of pixels of a window of 7x7: none, and the largest ones. */
YK_TEST(indices_are_those_of_distances)
{
    enum { PIXELS = 49, LAST = PIXELS - 1 };
    yk_graph *graph = build("swin-t", YK_F32, 224, 224);
    const yk_value *index = nth(graph, true, 7);
    const int64_t *numbers = index->given;
    assert_int_equal(index->dtype, YK_I64);
    assert_true(index->ndim == 1 && index->dims[0] == PIXELS * PIXELS);
    for (int i = 0; i < PIXELS; i++)
        assert_int_equal(numbers[i * PIXELS + i], 6 * 13 + 6);
    assert_int_equal(numbers[LAST], 0); /* from the first pixel to the last */
    assert_int_equal(numbers[LAST * PIXELS], 168);
    assert_int_equal(numbers[1], 6 * 13 + 5);
    assert_int_equal(numbers[7], 5 * 13 + 6);
    yk_graph_destroy(graph);
}

YK_TEST(coordinates_are_logarithms_of_distances)
{
    yk_graph *graph = build("swin-v2-t", YK_F32, 256, 256);
    const yk_value *table = nth(graph, true, 7);
    const float *numbers = table->given;
    assert_true(table->ndim == 4 && table->dims[0] == 1 && table->dims[1] == 15 &&
                table->dims[2] == 15 && table->dims[3] == 2);
    /* sign(d) log2(8 |d| / 7 + 1) / 3 of the distance d, down and to the right */
    assert_float_equal(numbers[0], -1.05664, 1e-5);
    assert_float_equal(numbers[2 * (15 * 7 + 8)], 0, 0);
    assert_float_equal(numbers[2 * (15 * 7 + 8) + 1], 0.3665118, 1e-6);
    assert_float_equal(numbers[2 * (15 * 14 + 7)], 1.05664, 1e-5);
    yk_graph_destroy(graph);
}

/* Blocks that shift windows have a mask, unless one window has the whole image. */
YK_TEST(shifted_windows_have_masks)
{
    static const int64_t windows[] = {64, 16, 4, 4, 4};
    yk_graph *graph = build("swin-t", YK_F32, 224, 224);
    for (int i = 0; i < 5; i++) {
        const yk_value *mask = nth(graph, false, i);
        assert_true(mask->ndim == 2 && mask->dims[0] == windows[i] && mask->dims[1] == 49 * 49);
    }
    assert_null(nth(graph, false, 5));
    yk_graph_destroy(graph);
}

/* Images of 8x7 patches: they are padded to two windows, one above the other, of which the lower
 * one has rows from both edges. Columns are not shifted. */
static void check_mask_of_rows(yk_dtype dtype)
{
    enum { PIXELS = 49 };
    yk_graph *graph = build("swin-t", dtype, 35, 31);
    const yk_value *mask = nth(graph, false, 0);
    assert_int_equal(mask->dtype, dtype);
    assert_true(mask->dims[0] == 2 && mask->dims[1] == PIXELS * PIXELS);
    for (int64_t i = 0; i < mask->dims[0] * mask->dims[1]; i++) {
        const int64_t from = i / PIXELS % PIXELS / 7, to = i % PIXELS / 7;
        const bool lower = i >= PIXELS * PIXELS;
        const double found =
            dtype == YK_F64 ? ((double *)mask->given)[i] : (double)((float *)mask->given)[i];
        assert_true(found == (lower && (from >= 4) != (to >= 4) ? -100 : 0));
    }
    assert_null(nth(graph, false, 1));
    yk_graph_destroy(graph);
}

YK_TEST(masks_tell_the_sides_of_the_edge_apart)
{
    check_mask_of_rows(YK_F32);
    check_mask_of_rows(YK_F64);
}

YK_TEST(images_may_have_any_size)
{
    static const int64_t sizes[][2] = {{4, 4}, {33, 200}, {96, 64}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        yk_graph_destroy(build("swin-s", YK_F32, sizes[i][0], sizes[i][1]));
        yk_graph_destroy(build("swin-v2-t", YK_F32, sizes[i][0], sizes[i][1]));
    }
    yk_graph *graph = yk_graph_create();
    yk_value *tiny = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 3, 8});
    assert_int_equal(yk_value_shape(yk_swin_t(tiny, 10), NULL), -1);
    assert_contains(graph->error, "conv2d");
    yk_graph_destroy(graph);
}

/* As DINO applies a network to large and small crops. */
YK_TEST(images_of_two_sizes_share_weights)
{
    yk_graph *graph = build("swin-t", YK_F32, 112, 112);
    yk_scope_reuse(graph, "");
    yk_value *small = yk_input(graph, "small", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 56, 56});
    assert_int_equal(yk_value_shape(yk_swin_t(small, 10), NULL), 2);
    yk_scope_pop(graph);
    assert_null(nth(graph, true, 185));
    assert_non_null(nth(graph, false, 2)); /* two masks of the large ones, one of the small ones */
    assert_null(nth(graph, false, 3));
    yk_graph_destroy(graph);
}

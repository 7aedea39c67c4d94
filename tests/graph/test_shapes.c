/* The shape rules: a table of calls with the shape they give, or the error they must name. */
#include <math.h>
#include <string.h>

#include "graph/operators.h"
#include "harness.h"

typedef struct shape_case {
    const char *call; /* picks the operator */
    int64_t x[YK_MAX_DIMS], other[YK_MAX_DIMS];
    int64_t kernel, stride, padding, groups, dilation;
    double number;             /* p, alpha, smoothing */
    int64_t mask[YK_MAX_DIMS]; /* attention's */
    int64_t kv_heads;          /* likewise */
    const char *expected;      /* "(N, 3, 4)", or a part of the error */
} shape_case;

enum { B = YK_BATCH };

static const shape_case cases[] = {
    {"conv2d", {B, 3, 32, 32}, {64, 3, 3, 3}, .padding = 1, .expected = "(N, 64, 32, 32)"},
    {"conv2d",
     {B, 3, 33, 20},
     {8, 3, 3, 3},
     .stride = 2,
     .padding = 1,
     .expected = "(N, 8, 17, 10)"},
    {"conv2d",
     {2, 3, 224, 224},
     {64, 3, 7, 7},
     .stride = 2,
     .padding = 3,
     .expected = "(2, 64, 112, 112)"},
    {"conv2d", {B, 3, 9, 9}, {8, 3, 3, 3}, .dilation = 4, .expected = "(N, 8, 1, 1)"},
    {"conv2d", {B, 3, 9, 9}, {8, 3, 2, 2}, .stride = 5, .expected = "(N, 8, 2, 2)"},
    {"conv2d", {B, 12, 5, 5}, {8, 3, 1, 1}, .groups = 4, .expected = "(N, 8, 5, 5)"},
    {"conv2d",
     {B, 12, 5, 5},
     {8, 4, 1, 1},
     .groups = 4,
     .expected = "(N, 12, 5, 5) does not fit weight (8, 4, 1, 1) with 4 groups"},
    {"conv2d", {B, 12, 5, 5}, {9, 3, 1, 1}, .groups = 4, .expected = "does not fit"},
    {"conv2d",
     {B, 3, 2, 2},
     {8, 3, 3, 3},
     .expected = "weight (8, 3, 3, 3) is larger than input (N, 3, 2, 2) with padding 0"},
    {"conv2d", {B, 3, 8, 8}, {8, 3, 3, 3}, .padding = -1, .expected = "padding -1"},
    {"conv2d", {B, 3, 8, 8}, {8, 3, 3, 3}, .stride = -1, .expected = "stride -1"},
    {"conv2d", {B, 3, 8, 8}, {8, 3, 3, 3}, .padding = INT64_MAX, .expected = "padding 9223"},
    {"conv2d", {B, 3, 8, 8}, {8, 3, 3, 3}, .padding = 1 << 30, .expected = "result is too large"},
    {"conv2d",
     {B, 1, 8, 8},
     {1, 1, ((int64_t)1 << 33) + 1, 1},
     .dilation = INT32_MAX, /* the product does not fit into 64 bits */
     .expected = "weight (1, 1, 8589934593, 1) is larger than input (N, 1, 8, 8)"},
    {"conv2d",
     {B, 3, 8},
     {8, 3, 3, 3},
     .expected = "input has shape (N, 3, 8), expected 4 dimensions; sequences (N, C, L) are images "
                 "of one row, (N, C, 1, L): see yk_reshape"},
    {"conv2d", {B, 3, 8, 8}, {8, 3}, .expected = "weight has shape (8, 3), expected 4 dimensions"},
    {"conv_transpose2d", {B, 100, 1, 1}, {100, 64, 4, 4}, .expected = "(N, 64, 4, 4)"},
    {"conv_transpose2d",
     {B, 64, 4, 5},
     {64, 3, 4, 4},
     .stride = 2,
     .padding = 1,
     .expected = "(N, 3, 8, 10)"},
    {"conv_transpose2d",
     {B, 8, 4, 3},
     {8, 16, 3, 3},
     .stride = 2,
     .padding = 1,
     .kernel = 1,
     .expected = "(N, 16, 8, 6)"},
    {"conv_transpose2d", {B, 8, 4, 3}, {8, 2, 3, 3}, .groups = 4, .expected = "(N, 8, 6, 5)"},
    {"conv_transpose2d", {B, 8, 4, 3}, {8, 2, 3, 2}, .dilation = 3, .expected = "(N, 2, 10, 6)"},
    {"conv_transpose2d",
     {B, 8, 4, 3},
     {16, 8, 3, 3},
     .expected = "input (N, 8, 4, 3) does not fit weight (16, 8, 3, 3) with 1 group"},
    {"conv_transpose2d", {B, 8, 4, 3}, {8, 2, 3, 3}, .groups = 3, .expected = "with 3 groups"},
    {"conv_transpose2d",
     {B, 8, 4, 3},
     {8, 2, 3, 3},
     .stride = 2,
     .kernel = 2,
     .expected = "output_padding 2 with stride 2: expected 0 or more, and less than the stride"},
    {"conv_transpose2d", {B, 8, 4, 3}, {8, 2, 3, 3}, .kernel = -1, .expected = "output_padding -1"},
    {"conv_transpose2d", {B, 8, 4, 3}, {8, 2, 3, 3}, .stride = -1, .expected = "stride -1"},
    {"conv_transpose2d",
     {B, 8, 4, 3},
     {8, 2, 3, 3},
     .padding = 3,
     .expected = "a padding of 3 leaves nothing of the result of input (N, 8, 4, 3) and weight "
                 "(8, 2, 3, 3)"},
    {"conv_transpose2d",
     {B, 8, 1 << 20, 1 << 16},
     {8, 2, 3, 3},
     .stride = INT32_MAX,
     .expected = "result is too large"},
    {"conv_transpose2d",
     {B, 8, 4},
     {8, 2, 3, 3},
     .expected = "input has shape (N, 8, 4), expected 4 dimensions"},
    {"linear", {B, 512}, {10, 512}, .expected = "(N, 10)"},
    {"linear", {B, 512}, {512, 10}, .expected = "input (N, 512) does not fit weight (512, 10)"},
    {"linear", {B, 7, 512}, {10, 512}, .expected = "(N, 7, 10)"},
    {"linear", {B, 3, 8, 6}, {10, 6}, .expected = "(N, 3, 8, 10)"},
    {"linear", {4, 3, 8, 6}, {10, 6}, .expected = "(4, 3, 8, 10)"},
    {"linear",
     {B, 3, 8, 8},
     {10, 192},
     .expected = "input (N, 3, 8, 8) does not fit weight (10, 192): rows are along the last "
                 "dimension; yk_flatten makes each sample one row"},
    {"linear", {B}, {10, 1}, .expected = "input has shape (N), expected 2 dimensions"},
    /* other: keys, then values with `stride` columns; without them, x has all three; groups: heads;
     * padding: dropout_p */
    {"attention", {B, 5, 8}, {B, 7, 8}, .stride = 6, .groups = 2, .expected = "(N, 5, 6)"},
    {"attention", {4, 5, 24}, .groups = 2, .expected = "(4, 5, 8)"},
    {"attention",
     {B, 5, 8},
     {B, 7, 9},
     .stride = 6,
     .groups = 1,
     .expected = "query (N, 5, 8), key (N, 7, 9) and value (N, 7, 6) do not fit each other"},
    {"attention",
     {B, 5, 8},
     {B, 7, 8},
     .stride = 6,
     .groups = 4,
     .expected = "value has shape (N, 7, 6), whose last dimension is not divisible by 4 heads"},
    {"attention",
     {B, 5, 24},
     .groups = 3,
     .expected =
         "query has shape (N, 5, 24), whose last dimension is not divisible by 9 heads: 3 of "
         "queries, 3 of keys and 3 of values"},
    {"attention",
     {B, 5, 24},
     {B, 7, 8},
     .stride = 6,
     .groups = 6,
     .kv_heads = 2,
     .expected = "(N, 5, 18)"},
    {"attention", {B, 5, 24}, .groups = 4, .kv_heads = 2, .expected = "(N, 5, 12)"},
    {"attention", {4, 5, 24}, .groups = 6, .kv_heads = 1, .expected = "(4, 5, 18)"},
    {"attention",
     {B, 5, 24},
     .groups = 6,
     .kv_heads = 4,
     .expected = "num_kv_heads is 4, expected a divisor of num_heads, 6, or 0"},
    {"attention", {B, 5, 24}, .groups = 2, .kv_heads = 4, .expected = "num_kv_heads is 4"},
    {"attention", {B, 5, 24}, .groups = 2, .kv_heads = -1, .expected = "num_kv_heads is -1"},
    {"attention",
     {B, 5, 24},
     .groups = 6,
     .kv_heads = 2,
     .expected = "query has shape (N, 5, 24), whose last dimension is not divisible by 10 heads: 6 "
                 "of queries, 2 of keys and 2 of values"},
    {"attention",
     {B, 5, 24},
     {B, 7, 24},
     .stride = 24,
     .groups = 6,
     .kv_heads = 2,
     .expected = "query (N, 5, 24), key (N, 7, 24) and value (N, 7, 24) do not fit each other with "
                 "6 heads of queries and 2 of keys and values"},
    {"attention",
     {B, 5, 24},
     {B, 7, 8},
     .stride = 7,
     .groups = 6,
     .kv_heads = 2,
     .expected = "value has shape (N, 7, 7), whose last dimension is not divisible by 2 heads"},
    {"attention",
     {B, 5, 24},
     .groups = 4,
     .kv_heads = 2,
     .mask = {B, 2, 5, 5},
     .expected = "attn_mask (N, 2, 5, 5) cannot be broadcast to the scores (N, 4, 5, 5)"},
    {"attention", {B, 5, 24}, .groups = -1, .expected = "num_heads is -1, expected at least 1"},
    {"attention", {B, 5, 24}, .groups = 1, .number = INFINITY, .expected = "scale is inf"},
    {"attention",
     {B, 5, 24},
     .groups = 1,
     .padding = 1,
     .expected = "dropout_p is 1, expected 0 <= dropout_p < 1"},
    {"attention", {B, 5, 24}, .groups = 1, .padding = -1, .expected = "dropout_p is -1"},
    {"attention", {B, 5, 24}, .groups = 2, .mask = {B, 2, 5, 5}, .expected = "(N, 5, 8)"},
    {"attention", {B, 5, 24}, .groups = 2, .mask = {B, 1, 1, 5}, .expected = "(N, 5, 8)"},
    {"attention", {B, 5, 24}, .groups = 2, .mask = {5, 1}, .expected = "(N, 5, 8)"},
    {"attention",
     {B, 5, 24},
     .groups = 2,
     .mask = {B, 5},
     .expected = "attn_mask (N, 5) cannot be broadcast to the scores (N, 2, 5, 5)"},
    {"attention",
     {B, 5, 8},
     {B, 7, 8},
     .stride = 6,
     .groups = 2,
     .mask = {3, 1, 1, 7},
     .expected = "attn_mask (3, 1, 1, 7) cannot be broadcast to the scores (N, 2, 5, 7)"},
    {"attention", {B, 5}, .groups = 1, .expected = "query has shape (N, 5), expected 3 dimensions"},
    {"embedding", {B}, {10, 4}, .expected = "(N, 4)"},
    {"embedding", {B, 7}, {10, 4}, .expected = "(N, 7, 4)"},
    {"embedding", {3, 7}, {10, 4}, .expected = "(3, 7, 4)"},
    {"embedding",
     {B, 7, 2},
     {10, 4},
     .expected = "indices has shape (N, 7, 2), expected 1 dimension"},
    /* other: the index; number: the dimension */
    {"take_along_dim", {B, 7}, {B}, .number = 1, .expected = "(N)"},
    {"take_along_dim", {B, 7}, {B, 3}, .number = -1, .expected = "(N, 3)"},
    {"take_along_dim", {B, 7, 4}, {B, 3}, .number = 1, .expected = "(N, 3, 4)"},
    {"take_along_dim", {B, 7, 4}, {B}, .number = 1, .expected = "(N, 4)"},
    {"take_along_dim", {B, 7, 4}, {B, 7}, .number = 2, .expected = "(N, 7)"},
    {"take_along_dim", {6, 4}, {9}, .expected = "(9, 4)"},
    {"take_along_dim",
     {B, 7, 4},
     {B, 3, 4},
     .number = 1,
     .expected = "index has shape (N, 3, 4), expected the dimensions of input (N, 7, 4) before "
                 "dimension 1, and at most one more"},
    {"take_along_dim", {B, 7}, {5}, .number = 1, .expected = "index has shape (5), expected the"},
    {"take_along_dim", {B, 7}, {B}, .expected = "dimension 0 is the batch"},
    {"take_along_dim", {B, 7}, {B}, .number = 2, .expected = "(N, 7), which has no dimension 2"},
    {"index_select", {B, 7, 4}, {9}, .number = 1, .expected = "(N, 9, 4)"},
    {"index_select", {B, 7, 4}, {2}, .number = -1, .expected = "(N, 7, 2)"},
    {"index_select",
     {B, 7, 4},
     {B},
     .number = 1,
     .expected = "index has shape (N), expected (K), without a batch"},
    {"embedding", {B}, {10}, .expected = "weight has shape (10), expected 2 dimensions"},
    {"flatten", {B, 3, 8, 8}, .expected = "(N, 192)"},
    {"flatten", {B, 7}, .expected = "(N, 7)"},
    {"flatten", {B}, .expected = "expected 2 dimensions"},
    {"permute", {B, 3, 8, 6}, {1, 3, 4, 2}, .expected = "(N, 8, 6, 3)"}, /* other: from 1 on */
    {"permute", {4, 3}, {2, 1}, .expected = "(3, 4)"},
    {"permute", {B, 3}, {2, 1}, .expected = "(N, 3): the batch stays first"},
    {"permute", {B, 3, 8}, {1, 3}, .expected = "(N, 3, 8): expected each of its 3 dimensions once"},
    {"permute", {B, 3, 8}, {1, 3, 3}, .expected = "expected each of its 3 dimensions once"},
    {"permute", {B, 3, 8}, {1, 2, 4}, .expected = "expected each of its 3 dimensions once"},
    {"permute", {B, 3, 8}, {1, -1, 2}, .expected = "expected each of its 3 dimensions once"},
    /* other: first and count; number: the dimension */
    {"slice", {B, 5, 8, 8}, {1, 3}, .number = 1, .expected = "(N, 3, 8, 8)"},
    {"slice", {B, 65, 24}, {0, 1}, .number = 1, .expected = "(N, 1, 24)"},
    {"slice", {B, 5, 8, 6}, {4, 2}, .number = -1, .expected = "(N, 5, 8, 2)"},
    {"slice", {B, 5, 8, 6}, {4, 2}, .number = -2, .expected = "(N, 5, 2, 6)"},
    {"slice", {7, 3}, {2, 4}, .expected = "(4, 3)"},
    {"slice", {7}, {2, 4}, .expected = "(4)"},
    {"slice",
     {B, 5},
     {3, 3},
     .number = 1,
     .expected = "first 3 and count 3 are not within dimension 1 of the input (N, 5)"},
    {"slice", {B, 5}, {0, 0}, .number = 1, .expected = "count is 0, expected 1 or more"},
    {"slice", {B, 5}, {-1, 2}, .number = -1, .expected = "first -1 and count 2 are not"},
    {"slice",
     {B, 5},
     {1, INT64_MAX},
     .number = 1,
     .expected = "first 1 and count 9223372036854775807 are"},
    {"slice",
     {B, 5},
     {0, 1},
     .expected = "input has shape (N, 5), of which dimension 0 is the batch"},
    {"slice", {B, 5}, {0, 1}, .number = -2, .expected = "dimension 0 is the batch"},
    {"slice", {B, 5}, {0, 1}, .number = 2, .expected = "(N, 5), which has no dimension 2"},
    {"slice", {B, 5}, {0, 1}, .number = -3, .expected = "(N, 5), which has no dimension -3"},
    /* other: before and after */
    {"pad", {B, 64, 24}, {1, 0}, .number = 1, .expected = "(N, 65, 24)"},
    {"pad", {B, 64, 24}, {1, 2}, .number = -1, .expected = "(N, 64, 27)"},
    {"pad", {B, 5, 8, 6}, {0, 2}, .number = 2, .expected = "(N, 5, 10, 6)"},
    {"pad", {1, 5}, {0, 3}, .number = 1, .expected = "(1, 8)"},
    {"pad", {1, 5}, {0, 3}, .expected = "(4, 5)"},
    {"pad",
     {B, 5},
     {-1, 3},
     .number = 1,
     .expected = "-1 before and 3 after the input: expected 0"},
    {"pad", {B, 5}, {0, INT64_MAX}, .number = 1, .expected = "expected 0 to 2147483647"},
    {"pad", {B, 5}, {0, 1}, .expected = "dimension 0 is the batch"},
    {"pad", {B, 5}, {0, 1}, .number = 2, .expected = "(N, 5), which has no dimension 2"},
    {"pad", {B, 5}, {0, 1}, .number = -3, .expected = "(N, 5), which has no dimension -3"},
    {"reshape", {B, 192}, {B, 3, 8, 8}, .expected = "(N, 3, 8, 8)"},
    {"reshape", {B, 3, 8, 8}, {B, 3, -1}, .expected = "(N, 3, 64)"},
    {"reshape", {B, 3, 8, 8}, {B, -1}, .expected = "(N, 192)"},
    {"reshape", {B, 3, 8, 8}, {-1, 12, 4, 4}, .expected = "(N, 12, 4, 4)"},
    {"reshape", {B, 3, 8}, {B, 4, -1, 3}, .expected = "(N, 4, 2, 3)"},
    {"reshape", {5, 6}, {5, 2, 3}, .expected = "(5, 2, 3)"},
    {"reshape", {5, 6}, {-1, 6, 1}, .expected = "(5, 6, 1)"},
    {"reshape", {B}, {B, 1, 1}, .expected = "(N, 1, 1)"},
    {"reshape", {B, 1, 1}, {B}, .expected = "(N)"},
    {"reshape", {B, 6}, {B, 6}, .expected = "(N, 6)"},
    {"reshape", {B, 3, 8, 8}, {B, 5, -1}, .expected = "(N, 3, 8, 8) has 192 elements in a sample"},
    {"reshape", {B, 3, 8, 8}, {B, 3, 8}, .expected = "which do not fit the result"},
    {"reshape", {B, 3, 8, 8}, {B, 3, 8, 16}, .expected = "which do not fit the result"},
    {"reshape", {B, 3, 8, 8}, {B, INT64_MAX, 2, 4}, .expected = "which do not fit the result"},
    {"reshape", {B, 3, 8, 8}, {B, -1, -1}, .expected = "2 dimensions of the result are -1"},
    {"reshape", {B, 3, 8, 8}, {B, 3, -2}, .expected = "dimension 2 of the result is -2"},
    {"reshape",
     {B, 3, 8, 8},
     {4, 3, 64},
     .expected = "the batch of input (N, 3, 8, 8) stays first: the first dimension cannot be 4"},
    {"reshape", {5, 6}, {3, 10}, .expected = "(3, 10)"},
    {"reshape", {5, 6}, {-1, 3}, .expected = "(10, 3)"},
    {"reshape", {12, 4, 2}, {8, -1}, .expected = "(8, 12)"},
    {"reshape", {5, 6}, {-1, -1}, .expected = "(5, 6)"},
    {"reshape", {6}, {2, 3}, .expected = "(2, 3)"},
    {"reshape", {5, 6}, {4, -1}, .expected = "(5, 6) has 30 elements, which do not fit"},
    {"reshape", {5, 6}, {-2, 3}, .expected = "dimension 0 of the result is -2"},
    {"add", {B, 3, 8, 8}, {B, 3, 8, 8}, .expected = "(N, 3, 8, 8)"},
    {"add", {B, 3, 8, 8}, {B, 3, 8, 4}, .expected = "(N, 3, 8, 8) and (N, 3, 8, 4) differ"},
    {"add", {B, 3}, {5, 3}, .expected = "differ, and cannot be broadcast to each other"},
    {"add", {B, 3, 8, 8}, {3, 1, 1}, .expected = "(N, 3, 8, 8)"},
    {"add", {1, 8}, {B, 3, 8, 8}, .expected = "(N, 3, 8, 8)"},
    {"add", {B, 1}, {1, 7}, .expected = "(N, 7)"},
    {"add", {1}, {B, 5}, .expected = "(N, 5)"},
    {"add", {B}, {4, 1}, .expected = "differ, and cannot be broadcast"}, /* N would be last */
    {"multiply", {B, 16, 4, 4}, {B, 16, 1, 1}, .expected = "(N, 16, 4, 4)"},
    {"multiply", {B, 3, 8}, {B, 3, 8}, .expected = "(N, 3, 8)"},
    {"multiply", {B, 3}, {5, 3}, .expected = "differ"},
    {"concat", {B, 3, 8, 8}, {B, 5, 8, 8}, .number = 1, .expected = "(N, 8, 8, 8)"},
    {"concat", {B, 3, 8, 8}, {B, 3, 8, 5}, .number = -1, .expected = "(N, 3, 8, 13)"},
    {"concat", {B, 3, 8, 8}, {B, 3, 1, 8}, .number = 2, .expected = "(N, 3, 9, 8)"},
    {"concat", {2, 3}, {5, 3}, .expected = "(7, 3)"},
    {"concat",
     {B, 3, 8, 8},
     {B, 5, 8, 4},
     .number = 1,
     .expected = "(N, 3, 8, 8) float32 and (N, 5, 8, 4) float32 differ in more than dimension 1"},
    {"concat", {B, 3}, {B, 3, 1}, .number = 1, .expected = "differ in more than dimension 1"},
    {"concat",
     {B, 3},
     {B, 3},
     .expected = "first value has shape (N, 3), of which dimension 0 is the batch"},
    {"concat", {B, 3}, {B, 3}, .number = 2, .expected = "(N, 3), which has no dimension 2"},
    {"concat", {B}, {B}, .number = -2, .expected = "(N), which has no dimension -2"},
    {"concat", {2}, {B}, .expected = "shape (N), of which dimension 0 is the batch"},
    {"softmax", {B, 5, 7}, .expected = "(N, 5, 7)"},
    {"softmax", {B, 5, 7, 7}, .expected = "(N, 5, 7, 7)"},
    {"softmax", {7}, .expected = "(7)"},
    {"softmax", {B}, .expected = "expected at least 1 dimension besides the batch"},
    {"log_softmax", {B, 5, 7}, .expected = "(N, 5, 7)"},
    {"log_softmax", {B}, .expected = "expected at least 1 dimension besides the batch"},
    {"layer_norm", {B, 5, 7}, {5, 7}, .number = 1e-5, .expected = "(N, 5, 7)"},
    {"layer_norm", {B, 5, 7, 3}, {7, 3}, .number = 1e-5, .expected = "(N, 5, 7, 3)"},
    {"layer_norm",
     {B, 5},
     {5, 5},
     .number = 1e-5,
     .expected = "expected at least 2 dimensions besides the batch"},
    {"layer_norm", {B, 5, 7}, {7}, .number = 1e-5, .expected = "(N, 5, 7)"},
    {"layer_norm",
     {B, 5},
     {4},
     .number = 1e-5,
     .expected = "weight has shape (4), expected that of the last dimensions of the input (N, 5)"},
    {"layer_norm", {B, 5}, {5}, .expected = "eps is 0, expected a finite number above 0"},
    {"rms_norm", {B, 5, 7}, {5, 7}, .number = 1e-5, .expected = "(N, 5, 7)"},
    {"rms_norm", {B, 5, 7}, {7}, .number = 1e-5, .expected = "(N, 5, 7)"},
    {"rms_norm",
     {B, 5},
     {5, 5},
     .number = 1e-5,
     .expected = "expected at least 2 dimensions besides the batch"},
    {"rms_norm",
     {B, 5},
     {4},
     .number = 1e-5,
     .expected = "weight has shape (4), expected that of the last dimensions of the input (N, 5)"},
    {"rms_norm", {B, 5}, {5}, .number = INFINITY, .expected = "eps is inf, expected a finite"},
    {"rotary_embedding", {B, 5, 12}, .groups = 2, .expected = "(N, 5, 12)"},
    {"rotary_embedding", {B, 5, 12}, .groups = 2, .stride = 4, .expected = "(N, 5, 12)"},
    {"rotary_embedding", {B, 12}, .groups = 2, .expected = "input has shape (N, 12)"},
    {"rotary_embedding", {B, 5, 12}, .expected = "num_heads is 0, expected at least 1"},
    {"rotary_embedding",
     {B, 5, 12},
     .groups = 5,
     .expected = "(N, 5, 12), whose last dimension is not divisible by 5 heads"},
    {"rotary_embedding",
     {B, 5, 9},
     .groups = 3,
     .expected = "rotary_dim is 3, expected an even number from 2 to the 3 columns of a head"},
    {"rotary_embedding",
     {B, 5, 12},
     .groups = 3,
     .stride = 6,
     .expected = "rotary_dim is 6, expected an even number from 2 to the 4 columns of a head"},
    {"rotary_embedding",
     {B, 5, 12},
     .groups = 2,
     .number = -1,
     .expected = "base is -1, expected a finite number above 0"},
    {"rotary_embedding",
     {B, 5, 12},
     .groups = 2,
     .padding = -1,
     .expected = "first_position is -1, expected 0 to 16777216"},
    {"rotary_embedding",
     {B, 5, 12},
     .groups = 2,
     .padding = 16777214,
     .expected = "positions end at 16777219, expected at most 16777216"},
    {"group_norm", {B, 6, 5, 7}, {6}, .groups = 3, .number = 1e-5, .expected = "(N, 6, 5, 7)"},
    {"group_norm", {B, 6}, {6}, .groups = 1, .number = 1e-5, .expected = "(N, 6)"},
    {"group_norm",
     {B, 6, 5},
     {6},
     .groups = 4,
     .number = 1e-5,
     .expected = "num_groups is 4, expected a divisor of the 6 channels of the input (N, 6, 5)"},
    {"group_norm", {B, 6, 5}, {6}, .number = 1e-5, .expected = "num_groups is 0, expected"},
    {"group_norm",
     {B},
     {6},
     .groups = 1,
     .number = 1e-5,
     .expected = "input has shape (N), expected (N, C, ...)"},
    {"group_norm",
     {B, 6, 5},
     {5},
     .groups = 2,
     .number = 1e-5,
     .expected = "weight has shape (5), expected (6)"},
    {"group_norm", {B, 6}, {6}, .groups = 2, .expected = "eps is 0, expected a finite number"},
    {"matmul", {B, 5, 7}, {B, 7, 3}, .expected = "(N, 5, 3)"},
    {"matmul", {B, 2, 5, 7}, {B, 2, 7, 3}, .expected = "(N, 2, 5, 3)"},
    {"matmul", {B, 2, 4, 5, 7}, {B, 2, 4, 7, 3}, .expected = "(N, 2, 4, 5, 3)"},
    {"matmul", {B, 3, 2, 4, 1, 1}, {B, 3, 2, 4, 1, 1}, .expected = "(N, 3, 2, 4, 1, 1)"},
    {"matmul", {4, 5}, {5, 6}, .expected = "(4, 6)"},
    {"matmul",
     {B, 5, 7},
     {B, 6, 3},
     .expected = "left side (N, 5, 7) does not fit right side (N, 6, 3), expected (..., M, K) and "
                 "(..., K, P)"},
    {"matmul",
     {B, 5, 7},
     {7, 3},
     .expected = "left side (N, 5, 7) does not fit right side (7, 3), expected (N, ..., M, K) and "
                 "(N, ..., K, P); the product with a weight, which has no batch, is yk_linear"},
    {"matmul", {B, 2, 5, 7}, {B, 3, 7, 3}, .expected = "(N, 2, 5, 7) does not fit"},
    {"matmul", {B, 7}, {7, 3}, .expected = "(N, 7) does not fit right side (7, 3)"},
    {"matmul", {B}, {B}, .expected = "(N) does not fit right side (N)"},
    {"relu", {B, 3, 8, 8}, .expected = "(N, 3, 8, 8)"},
    {"gelu", {B, 3}, .expected = "(N, 3)"},
    {"relu6", {B, 3, 8, 8}, .expected = "(N, 3, 8, 8)"},
    {"sigmoid", {B, 3}, .expected = "(N, 3)"},
    {"silu", {B}, .expected = "(N)"},
    {"hardswish", {5}, .expected = "(5)"},
    {"tanh", {B, 3, 8}, .expected = "(N, 3, 8)"},
    {"leaky_relu", {B, 3}, .number = 0.2, .expected = "(N, 3)"},
    {"leaky_relu",
     {B, 3},
     .number = -0.2,
     .expected = "negative_slope is -0.2, expected at least 0"},
    {"leaky_relu", {B, 3}, .number = INFINITY, .expected = "negative_slope is inf"},
    {"elu", {B, 3}, .number = -0.5, .expected = "(N, 3)"},
    {"elu", {B, 3}, .number = INFINITY, .expected = "alpha is inf, expected a finite number"},
    {"sin", {B, 3, 8}, .expected = "(N, 3, 8)"},
    {"cos", {5}, .expected = "(5)"},
    {"abs", {B, 3}, .expected = "(N, 3)"},
    {"exp", {B, 3, 8, 8}, .expected = "(N, 3, 8, 8)"},
    {"log", {5}, .expected = "(5)"},
    {"sqrt", {B, 3}, .expected = "(N, 3)"},
    {"pow", {B, 3}, .number = -2.5, .expected = "(N, 3)"},
    {"pow", {B, 3}, .number = INFINITY, .expected = "exponent is inf, expected a finite number"},
    {"pow", {B, 3}, .number = NAN, .expected = "expected a finite number"},
    {"clamp", {B, 3}, .number = 2, .expected = "(N, 3)"},
    {"clamp", {B, 3}, .number = INFINITY, .expected = "(N, 3)"},
    {"clamp", {B, 3}, .number = -3, .expected = "min is -1 and max -3, expected min <= max"},
    {"clamp", {B, 3}, .number = NAN, .expected = "expected min <= max"},
    {"add_scalar", {B, 3}, .number = 2, .expected = "(N, 3)"},
    {"scale", {B, 3}, .number = 2, .expected = "(N, 3)"},
    {"dropout", {B, 3}, .number = 0.5, .expected = "(N, 3)"},
    {"dropout", {B, 3}, .number = 1, .expected = "p is 1, expected 0 <= p < 1"},
    {"dropout", {B, 3}, .number = -0.1, .expected = "p is -0.1"},
    {"max_pool2d",
     {B, 64, 112, 112},
     .kernel = 3,
     .stride = 2,
     .padding = 1,
     .expected = "(N, 64, 56, 56)"},
    {"max_pool2d",
     {1, 1, 3, 3},
     .kernel = 46340,
     .stride = 1,
     .padding = 23170,
     .expected = "(1, 1, 4, 4)"},
    {"max_pool2d",
     {1, 1, 3, 3},
     .kernel = 46342,
     .stride = 1,
     .padding = 23171,
     .expected = "kernel 46342: expected windows of less than 2^31"},
    {"max_pool2d", {B, 64, 5, 7}, .kernel = 2, .stride = 2, .expected = "(N, 64, 2, 3)"},
    {"max_pool2d",
     {B, 64, 5, 7},
     .kernel = 2,
     .stride = 2,
     .padding = 2,
     .expected = "padding 2: expected 1 or more, and a padding from 0 to half the kernel"},
    {"max_pool2d",
     {B, 64, 2, 7},
     .kernel = 3,
     .stride = 1,
     .expected = "kernel 3 is larger than input (N, 64, 2, 7)"},
    {"max_pool2d",
     {B, 64, 2, 7},
     .kernel = 3,
     .stride = 1,
     .padding = INT64_MAX,
     .expected = "padding 9223"},
    {"avg_pool2d", {B, 64, 5, 7}, .kernel = 2, .stride = 3, .expected = "(N, 64, 2, 2)"},
    {"avg_pool2d", {B, 64, 5, 7}, .kernel = 2, .expected = "stride 0"},
    {"interpolate", {B, 64, 5, 7}, .kernel = 10, .stride = 2, .expected = "(N, 64, 10, 2)"},
    {"interpolate",
     {B, 64, 5},
     .kernel = 10,
     .stride = 2,
     .expected = "input has shape (N, 64, 5), expected 4 dimensions"},
    {"interpolate",
     {B, 64, 5, 7},
     .kernel = 10,
     .stride = -2,
     .expected = "the result has 10 x -2 elements, expected 1 x 1 or more"},
    {"interpolate",
     {B, 64, 5, 7},
     .kernel = INT64_MAX,
     .stride = 1,
     .expected = "9223372036854775807 x 1 elements"},
    {"interpolate",
     {B, 64, 5, 7},
     .kernel = 1 << 30,
     .stride = 1 << 30,
     .expected = "result is too large"},
    {"interpolate",
     {B, 64, 5, 7},
     .kernel = 10,
     .stride = 2,
     .dilation = 1,
     .expected = "align_corners has a meaning for YK_INTERPOLATE_BILINEAR only"},
    {"interpolate",
     {B, 64, 5, 7},
     .kernel = 10,
     .stride = 2,
     .padding = 2,
     .expected = "mode is 2, expected 0 or 1"},
    {"global_avg_pool2d", {B, 64, 5, 7}, .expected = "(N, 64, 1, 1)"},
    {"global_avg_pool2d", {B, 64}, .expected = "expected 4 dimensions"},
    {"mean", {B, 64, 5, 7}, .number = 1, .expected = "(N, 5, 7)"},
    {"mean", {B, 64, 5, 7}, .number = -1, .expected = "(N, 64, 5)"},
    {"mean", {8, 5, 7}, .number = 2, .expected = "(8, 5)"},
    {"mean", {B, 64}, .number = -1, .expected = "(N)"},
    {"mean", {8, 5, 7}, .number = 0, .expected = "(5, 7)"},
    {"mean", {8, 5}, .number = -2, .expected = "(5)"},
    {"mean", {8}, .number = -1, .expected = "()"},
    {"mean", {B, 64, 5}, .number = 0, .expected = "(N, 64, 5), of which dimension 0 is the batch"},
    {"mean", {B, 64, 5}, .number = -3, .expected = "dimension 0 is the batch"},
    {"mean", {B, 64, 5}, .number = 3, .expected = "(N, 64, 5), which has no dimension 3"},
    {"mean", {8, 5}, .number = -3, .expected = "(8, 5), which has no dimension -3"},
    {"mean", {B}, .number = -1, .expected = "dimension 0 is the batch"},
    {"sum", {B, 64, 5, 7}, .number = 1, .expected = "(N, 5, 7)"},
    {"sum", {B, 64, 5, 7}, .number = -1, .expected = "(N, 64, 5)"},
    {"sum", {8, 5, 7}, .number = 2, .expected = "(8, 5)"},
    {"randn_like", {B, 64, 5}, .expected = "(N, 64, 5)"},
    {"sum", {B, 64}, .number = -1, .expected = "(N)"},
    {"sum", {8, 5, 7, 3}, .number = 0, .expected = "(5, 7, 3)"},
    {"sum", {8, 5}, .number = -2, .expected = "(5)"},
    {"sum", {8}, .number = 0, .expected = "()"},
    {"amax", {B, 64, 5, 7}, .number = 1, .expected = "(N, 5, 7)"},
    {"amax", {B, 64}, .number = -1, .expected = "(N)"},
    {"amax", {8, 5, 7}, .number = 0, .expected = "(5, 7)"},
    {"amax", {8}, .number = 0, .expected = "()"},
    {"amax", {B, 64, 5}, .number = 0, .expected = "(N, 64, 5), of which dimension 0 is the batch"},
    {"amin", {B, 64, 5}, .number = -1, .expected = "(N, 64)"},
    {"amin", {8, 5}, .number = -3, .expected = "(8, 5), which has no dimension -3"},
    {"sum", {B, 64, 5}, .number = 0, .expected = "(N, 64, 5), of which dimension 0 is the batch"},
    {"sum", {B, 64, 5}, .number = -3, .expected = "dimension 0 is the batch"},
    {"sum", {B, 64, 5}, .number = 3, .expected = "(N, 64, 5), which has no dimension 3"},
    {"sum", {8, 5}, .number = -3, .expected = "(8, 5), which has no dimension -3"},
    {"reduce_loss", {B, 64, 5}, .expected = "()"},
    {"reduce_loss", {B}, .expected = "()"},
    {"batch_norm", {B, 64, 5, 7}, {64}, .expected = "(N, 64, 5, 7)"},
    {"batch_norm", {B, 64}, {64}, .expected = "(N, 64)"},
    {"batch_norm", {B, 64, 5}, {64}, .expected = "(N, 64, 5)"},
    {"batch_norm", {B}, {64}, .expected = "shape (N), expected (N, C), (N, C, L) or (N, C, H, W)"},
    {"batch_norm", {B, 64, 5, 7}, {32}, .expected = "weight has shape (32), expected (64)"},
    {"mse_loss", {B, 3, 8}, {B, 3, 8}, .expected = "()"},
    {"mse_loss",
     {B, 3},
     {B, 4},
     .expected = "(N, 3) float32 and the target's (N, 4) float32 differ"},
    {"mse_loss", {B, 3}, {B}, .expected = "differ"},
    {"smooth_l1_loss", {B, 3, 8}, {B, 3, 8}, .number = 0.5, .expected = "()"},
    {"smooth_l1_loss", {B, 3}, {B, 3}, .expected = "()"},
    {"smooth_l1_loss", {B, 3}, {B, 4}, .expected = "differ"},
    {"smooth_l1_loss", {B, 3}, {B, 3}, .number = -1, .expected = "beta is -1, expected at least 0"},
    {"smooth_l1_loss", {B, 3}, {B, 3}, .number = INFINITY, .expected = "beta is inf"},
    {"huber_loss", {B, 3}, {B, 3}, .number = 0.5, .expected = "()"},
    {"huber_loss", {B, 3}, {B, 3}, .expected = "delta is 0, expected above 0"},
    {"binary_cross_entropy_with_logits", {B, 3, 8, 8}, {B, 3, 8, 8}, .expected = "()"},
    {"binary_cross_entropy_with_logits", {B, 3}, {B}, .expected = "differ"},
    {"binary_cross_entropy_with_logits", {B, 3}, {B, 3}, .kernel = 3, .expected = "()"},
    {"binary_cross_entropy_with_logits", {B}, {B}, .kernel = 1, .expected = "()"},
    {"binary_cross_entropy_with_logits",
     {B, 3},
     {B, 3},
     .kernel = 2,
     .expected = "pos_weight is (2) float32, expected (3) or (1)"},
    {"cross_entropy", {B, 10}, {B}, .number = 0.1, .expected = "()"},
    {"cross_entropy", {B, 10}, {B}, .number = 1.5, .expected = "label_smoothing is 1.5"},
    {"soft_cross_entropy", {B, 10}, {B, 10}, .expected = "()"},
    {"soft_cross_entropy",
     {B, 10},
     {B, 9},
     .expected = "logits' shape and dtype, (N, 10) float32, not (N, 9) float32"},
    {"soft_cross_entropy", {B, 10}, {B}, .expected = "labels are float32, expected int32 or int64"},
    {"cross_entropy", {4, 10}, {B}, .expected = "labels have shape (N), expected (4)"},
    {"cross_entropy",
     {B, 1, 10},
     {B},
     .expected = "labels have shape (N), expected (N, 10); of logits (N, 1, C), as yk_slice gives "
                 "them, yk_reshape makes (N, C)"},
    {"cross_entropy", {B, 10}, {B, 1}, .expected = "labels have shape (N, 1), expected (N)"},
    {"cross_entropy", {B, 10}, {B, 10}, .expected = "(N, 10) float32, not (N, 10) int32"},
    {"cross_entropy",
     {B, 3, 8, 8},
     {B, 1, 8, 8},
     .expected = "labels have shape (N, 1, 8, 8), expected (N, 8, 8)"},
    {"cross_entropy", {B, 3, 8, 8}, {B, 8, 8}, .expected = "()"},
    {"cross_entropy", {B, 3, 8}, {B, 8}, .kernel = 3, .expected = "()"},
    {"cross_entropy",
     {B, 3, 8, 8},
     {B},
     .expected = "labels have shape (N), expected (N, 8, 8), one for each place of an image; for "
                 "one for each sample, call yk_flatten before the last linear layer"},
    {"cross_entropy",
     {B, 3, 8, 9},
     {B, 8, 8},
     .expected = "labels have shape (N, 8, 8), expected (N, 8, 9)"},
    {"cross_entropy",
     {B},
     {B},
     .expected = "logits have shape (N), expected at least 2 dimensions"},
    {"cross_entropy", {B, 3}, {B}, .kernel = 4, .expected = "weight has shape (4), expected (3)"},
    /* stride: class_dim */
    {"cross_entropy", {B, 7, 10}, {B, 7}, .stride = -1, .expected = "()"},
    {"cross_entropy", {B, 10}, {B}, .stride = -1, .kernel = 10, .expected = "()"},
    {"cross_entropy",
     {B, 7, 10},
     {B, 10},
     .stride = -1,
     .expected = "labels have shape (N, 10), expected (N, 7)"},
    {"cross_entropy",
     {B, 7, 10},
     {B, 7},
     .stride = -1,
     .kernel = 7,
     .expected = "weight has shape (7), expected (10)"},
    {"cross_entropy", {B, 7, 10}, {B, 7}, .stride = 2, .expected = "class_dim is 2"},
    {"cross_entropy",
     {B, 3, 8, 8},
     {B, 3, 8},
     .stride = -1,
     .expected = "logits have shape (N, 3, 8, 8), expected at most 3 dimensions"},
    {"soft_cross_entropy", {B, 3, 8, 8}, {B, 3, 8, 8}, .expected = "()"},
};
enum { CASES = sizeof cases / sizeof *cases };

static int rank_of(const int64_t *dims)
{
    int ndim = 0;
    while (ndim < YK_MAX_DIMS && dims[ndim])
        ndim++;
    return ndim;
}

static yk_value *batch_norm(yk_graph *graph, yk_value *x, const int64_t *dims)
{
    yk_value *weight = yk_parameter(graph, "weight", YK_F32, 1, dims, YK_INIT_ONES, 0);
    yk_value *bias = yk_parameter(graph, "bias", YK_F32, 1, dims, YK_INIT_ZEROS, 0);
    yk_value *mean = yk_buffer(graph, "running_mean", YK_F32, 1, dims, YK_INIT_ZEROS);
    yk_value *var = yk_buffer(graph, "running_var", YK_F32, 1, dims, YK_INIT_ONES);
    return yk_batch_norm(x, weight, bias, mean, var, NULL);
}

/* kernel: the number of weights. */
static yk_value *cross_entropy(yk_graph *graph, yk_value *x, const shape_case *c)
{
    yk_value *labels = yk_input(graph, "labels", YK_I32, rank_of(c->other), c->other);
    yk_cross_entropy_options options = YK_CROSS_ENTROPY_OPTIONS_INIT;
    options.label_smoothing = c->number;
    options.class_dim = c->stride ? c->stride : 1;
    if (c->kernel)
        options.weight = yk_buffer(graph, "weight", YK_F32, 1, &c->kernel, YK_INIT_ONES);
    return yk_cross_entropy(x, labels, &options);
}

static yk_value *bce(yk_graph *graph, yk_value *x, const shape_case *c)
{
    yk_value *target = yk_input(graph, "other", YK_F32, rank_of(c->other), c->other);
    yk_binary_cross_entropy_options options = YK_BINARY_CROSS_ENTROPY_OPTIONS_INIT;
    if (c->kernel)
        options.pos_weight = yk_buffer(graph, "weight", YK_F32, 1, &c->kernel, YK_INIT_ONES);
    return yk_binary_cross_entropy_with_logits(x, target, &options);
}

/* Operators with a second operand. */
static yk_value *build_two(yk_graph *graph, const shape_case *c, yk_value *x)
{
    int ndim = rank_of(c->other);
    if (strcmp(c->call, "batch_norm") == 0)
        return batch_norm(graph, x, c->other);
    if (strcmp(c->call, "cross_entropy") == 0)
        return cross_entropy(graph, x, c);
    if (strcmp(c->call, "soft_cross_entropy") == 0)
        return yk_cross_entropy(x, yk_input(graph, "labels", YK_F32, ndim, c->other), NULL);
    if (strcmp(c->call, "add") == 0)
        return yk_add(x, yk_input(graph, "other", YK_F32, ndim, c->other));
    if (strcmp(c->call, "concat") == 0)
        return yk_concat((yk_value *[]){x, yk_input(graph, "other", YK_F32, ndim, c->other)}, 2,
                         (int64_t)c->number);
    if (strcmp(c->call, "multiply") == 0)
        return yk_multiply(x, yk_input(graph, "other", YK_F32, ndim, c->other));
    if (strcmp(c->call, "smooth_l1_loss") == 0)
        return yk_smooth_l1_loss(x, yk_input(graph, "other", YK_F32, ndim, c->other), c->number,
                                 YK_LOSS_MEAN);
    if (strcmp(c->call, "huber_loss") == 0)
        return yk_huber_loss(x, yk_input(graph, "other", YK_F32, ndim, c->other), c->number,
                             YK_LOSS_MEAN);
    if (strcmp(c->call, "binary_cross_entropy_with_logits") == 0)
        return bce(graph, x, c);
    if (strcmp(c->call, "matmul") == 0)
        return yk_matmul(x, yk_input(graph, "other", YK_F32, ndim, c->other));
    if (strcmp(c->call, "mse_loss") == 0)
        return yk_mse_loss(x, yk_input(graph, "other", YK_F32, ndim, c->other), YK_LOSS_MEAN);
    yk_value *weight = yk_parameter(graph, "weight", YK_F32, ndim, c->other, YK_INIT_ZEROS, 0);
    if (strcmp(c->call, "layer_norm") == 0)
        return yk_layer_norm(x, weight, weight, c->number);
    if (strcmp(c->call, "rms_norm") == 0)
        return yk_rms_norm(x, weight, c->number);
    if (strcmp(c->call, "group_norm") == 0)
        return yk_group_norm(x, c->groups, weight, NULL, c->number);
    if (strcmp(c->call, "linear") == 0)
        return yk_linear(x, weight, NULL);
    if (strcmp(c->call, "conv_transpose2d") == 0) /* `kernel`: the output_padding */
        return yk_conv_transpose2d(
            x, weight, NULL,
            YK_WITH(yk_conv_transpose2d_options, YK_CONV_TRANSPOSE2D_OPTIONS_INIT,
                    o.stride = c->stride ? c->stride : 1, o.padding = c->padding,
                    o.output_padding = c->kernel, o.dilation = c->dilation ? c->dilation : 1,
                    o.groups = c->groups ? c->groups : 1));
    return yk_conv2d(x, weight, NULL,
                     YK_WITH(yk_conv2d_options, YK_CONV2D_OPTIONS_INIT,
                             o.stride = c->stride ? c->stride : 1, o.padding = c->padding,
                             o.dilation = c->dilation ? c->dilation : 1,
                             o.groups = c->groups ? c->groups : 1));
}

static const struct {
    const char *name;
    yk_value *(*apply)(yk_value *x);
} functions[] = {{"relu", yk_relu}, {"relu6", yk_relu6},
                 {"gelu", yk_gelu}, {"sigmoid", yk_sigmoid},
                 {"silu", yk_silu}, {"hardswish", yk_hardswish},
                 {"tanh", yk_tanh}, {"softmax", yk_softmax},
                 {"abs", yk_abs},   {"randn_like", yk_randn_like},
                 {"exp", yk_exp},   {"log", yk_log},
                 {"sqrt", yk_sqrt}, {"log_softmax", yk_log_softmax},
                 {"sin", yk_sin},   {"cos", yk_cos}};

static yk_value *attention(yk_graph *graph, yk_value *x, const shape_case *c)
{
    yk_value *k = NULL, *v = NULL, *mask = NULL;
    const int64_t values[] = {c->other[0], c->other[1], c->stride};
    if (c->mask[0])
        mask = yk_input(graph, "mask", YK_F32, rank_of(c->mask), c->mask);
    if (c->other[0]) {
        k = yk_input(graph, "k", YK_F32, 3, c->other);
        v = yk_input(graph, "v", YK_F32, 3, values);
    }
    return yk_scaled_dot_product_attention(
        x, k, v,
        YK_WITH(yk_attention_options, YK_ATTENTION_OPTIONS_INIT, o.num_heads = c->groups,
                o.num_kv_heads = c->kv_heads, o.dropout_p = (double)c->padding, o.attn_mask = mask,
                o.scale = c->number != 0 ? c->number : NAN));
}

/* (kernel, stride): the result's size; `padding`: the mode; `dilation`: align_corners. */
static yk_value *interpolate(yk_value *x, const shape_case *c)
{
    return yk_interpolate(x, c->kernel, c->stride,
                          YK_WITH(yk_interpolate_options, YK_INTERPOLATE_OPTIONS_INIT,
                                  o.mode = (yk_interpolate_mode)c->padding,
                                  o.align_corners = c->dilation));
}

/* `stride`: rotary_dim; `padding`: first_position. */
static yk_value *rotary(yk_value *x, const shape_case *c)
{
    return yk_rotary_embedding(x, YK_WITH(yk_rotary_embedding_options,
                                          YK_ROTARY_EMBEDDING_OPTIONS_INIT, o.num_heads = c->groups,
                                          o.rotary_dim = c->stride, o.first_position = c->padding,
                                          o.base = c->number != 0 ? c->number : 10000));
}

static yk_value *build(yk_graph *graph, const shape_case *c)
{
    if (strcmp(c->call, "embedding") == 0)
        return yk_embedding(
            yk_input(graph, "x", YK_I32, rank_of(c->x), c->x),
            yk_parameter(graph, "weight", YK_F32, rank_of(c->other), c->other, YK_INIT_ZEROS, 0));
    yk_value *x = yk_input(graph, "x", YK_F32, rank_of(c->x), c->x);
    if (strcmp(c->call, "take_along_dim") == 0)
        return yk_take_along_dim(x, yk_input(graph, "i", YK_I64, rank_of(c->other), c->other),
                                 (int64_t)c->number);
    if (strcmp(c->call, "index_select") == 0)
        return yk_index_select(x, (int64_t)c->number,
                               yk_input(graph, "i", YK_I32, rank_of(c->other), c->other));
    if (strcmp(c->call, "rotary_embedding") == 0)
        return rotary(x, c);
    if (strcmp(c->call, "interpolate") == 0)
        return interpolate(x, c);
    if (strcmp(c->call, "attention") == 0)
        return attention(graph, x, c);
    if (strcmp(c->call, "flatten") == 0)
        return yk_flatten(x);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(c->call, functions[i].name) == 0)
            return functions[i].apply(x);
    if (strcmp(c->call, "reshape") == 0)
        return yk_reshape(x, rank_of(c->other), c->other);
    if (strcmp(c->call, "permute") == 0) {
        int64_t order[YK_MAX_DIMS];
        for (int d = 0; d < YK_MAX_DIMS; d++)
            order[d] = c->other[d] - 1;
        return yk_permute(x, rank_of(c->other), order);
    }
    if (strcmp(c->call, "slice") == 0)
        return yk_slice(x, (int64_t)c->number, c->other[0], c->other[1]);
    if (strcmp(c->call, "pad") == 0)
        return yk_pad(x, (int64_t)c->number, c->other[0], c->other[1]);
    if (strcmp(c->call, "leaky_relu") == 0)
        return yk_leaky_relu(x, c->number);
    if (strcmp(c->call, "elu") == 0)
        return yk_elu(x, c->number);
    if (strcmp(c->call, "pow") == 0)
        return yk_pow(x, c->number);
    if (strcmp(c->call, "clamp") == 0)
        return yk_clamp(x, -1, c->number);
    if (strcmp(c->call, "add_scalar") == 0)
        return yk_add_scalar(x, c->number);
    if (strcmp(c->call, "scale") == 0)
        return yk_scale(x, c->number);
    if (strcmp(c->call, "dropout") == 0)
        return yk_dropout(x, c->number);
    if (strcmp(c->call, "max_pool2d") == 0)
        return yk_max_pool2d(x, c->kernel, c->stride, c->padding);
    if (strcmp(c->call, "avg_pool2d") == 0)
        return yk_avg_pool2d(x, c->kernel, c->stride, c->padding);
    if (strcmp(c->call, "global_avg_pool2d") == 0)
        return yk_global_avg_pool2d(x);
    if (strcmp(c->call, "mean") == 0)
        return yk_mean(x, (int64_t)c->number);
    if (strcmp(c->call, "sum") == 0)
        return yk_sum(x, (int64_t)c->number);
    if (strcmp(c->call, "amax") == 0)
        return yk_amax(x, (int64_t)c->number);
    if (strcmp(c->call, "amin") == 0)
        return yk_amin(x, (int64_t)c->number);
    if (strcmp(c->call, "reduce_loss") == 0)
        return yk_reduce_loss(x, YK_LOSS_MEAN);
    return build_two(graph, c, x);
}

/* What errors call it. */
static const char *operator_of(const char *call)
{
    return strcmp(call, "soft_cross_entropy") == 0 ? "cross_entropy"
           : strcmp(call, "attention") == 0        ? "scaled_dot_product_attention"
           : strcmp(call, "index_select") == 0     ? "take_along_dim"
                                                   : call;
}

YK_TEST(shapes_and_their_errors)
{
    for (int i = 0; i < CASES; i++) {
        char text[96];
        yk_graph *graph = yk_graph_create();
        yk_value *y = build(graph, &cases[i]);
        bool wants_shape = cases[i].expected[0] == '(' && !strchr(cases[i].expected, ')')[1];
        if (y->valid != wants_shape)
            fail_msg("case %d, %s: %s", i, cases[i].call, y->valid ? "no error" : graph->error);
        if (y->valid)
            assert_string_equal(yki_shape_text(y, text, sizeof text), cases[i].expected);
        else
            assert_contains(graph->error, cases[i].expected);
        if (!y->valid)
            assert_contains(graph->error, operator_of(cases[i].call));
        yk_graph_destroy(graph);
    }
}

/* No node is made of it, but the dimension has to exist. */
YK_TEST(a_concat_of_one_value_checks_its_dimension)
{
    const int64_t dims[] = {YK_BATCH, 10};
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, dims);
    assert_ptr_equal(yk_concat(&x, 1, -1), x);
    yk_value *wrong = yk_concat(&x, 1, 2);
    assert_int_equal(yk_value_shape(wrong, NULL), -1);
    assert_ptr_equal(yk_concat(&wrong, 1, 1), wrong);
    assert_contains(graph->error, "concat: input has shape (N, 10), which has no dimension 2");
    yk_graph_destroy(graph);
}

YK_TEST(dtypes_are_checked)
{
    const int64_t dims[] = {YK_BATCH, 10};
    yk_graph *graph = yk_graph_create();
    yk_relu(yk_input(graph, "x", YK_I32, 2, dims));
    assert_contains(graph->error, "relu: input is int32, expected float32 or float64");
    yk_graph_destroy(graph);

    graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, dims);
    yk_cross_entropy(x, yk_input(graph, "labels", YK_U8, 1, dims), NULL);
    assert_contains(graph->error, "labels are uint8, expected int32 or int64");
    yk_graph_destroy(graph);

    graph = yk_graph_create();
    x = yk_input(graph, "x", YK_F32, 2, dims);
    yk_subtract(x, yk_input(graph, "counts", YK_I32, 2, dims));
    assert_contains(graph->error, "subtract: counts is int32, expected float32 like the input");
    yk_graph_destroy(graph);

    graph = yk_graph_create();
    x = yk_input(graph, "x", YK_F32, 2, dims);
    yk_add(x, yk_input(graph, "y", YK_F64, 2, dims));
    assert_contains(graph->error, "add: y is float64, expected float32 like the input");
    yk_graph_destroy(graph);
}

YK_TEST(reductions_are_checked)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 1, (int64_t[]){YK_BATCH});
    yk_mse_loss(x, x, (yk_loss_reduction)2);
    assert_contains(graph->error, "mse_loss: there is no reduction 2");
    yk_graph_destroy(graph);
    graph = yk_graph_create();
    x = yk_input(graph, "x", YK_F32, 1, (int64_t[]){YK_BATCH});
    yk_reduce_loss(x, (yk_loss_reduction)-1);
    assert_contains(graph->error, "reduce_loss: there is no reduction -1");
    yk_graph_destroy(graph);
}

/* Operands of two dtypes in one operator would be read wrongly: they are refused. */
YK_TEST(parameters_have_the_dtype_of_their_input)
{
    for (int dtype = YK_F64; dtype < YK_DTYPE_COUNT; dtype++) {
        char expected[96];
        yk_graph *graph = yk_graph_create();
        yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, 4});
        yk_value *weight =
            yk_parameter(graph, "weight", (yk_dtype)dtype, 2, (int64_t[]){3, 4}, YK_INIT_ZEROS, 0);
        assert_false(yk_linear(x, weight, NULL)->valid);
        snprintf(expected, sizeof expected, "linear: weight is %s, expected float32 like the input",
                 yk_dtype_name((yk_dtype)dtype));
        assert_contains(graph->error, expected);
        yk_graph_destroy(graph);
    }
}

YK_TEST(a_bias_has_the_dtype_of_the_input)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 8, 8});
    yk_value *weight =
        yk_parameter(graph, "weight", YK_F32, 4, (int64_t[]){5, 3, 3, 3}, YK_INIT_ZEROS, 0);
    yk_value *bias = yk_parameter(graph, "bias", YK_F16, 1, (int64_t[]){5}, YK_INIT_ZEROS, 0);
    yk_conv2d(x, weight, bias, NULL);
    assert_contains(graph->error, "conv2d: bias is float16, expected float32 like the input");
    yk_graph_destroy(graph);
}

/* What the batch's size decides is no weight: its gradient would have no fixed shape. */
YK_TEST(a_weight_does_not_depend_on_the_batch)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, 4});
    assert_false(yk_linear(x, x, NULL)->valid);
    assert_contains(graph->error, "linear: weight has shape (N, 4), which depends on the batch");
    yk_graph_destroy(graph);
    graph = yk_graph_create();
    x = yk_input(graph, "x", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 8, 8});
    assert_false(yk_conv2d(x, x, NULL, NULL)->valid);
    assert_contains(graph->error, "conv2d: weight has shape (N, 3, 8, 8), which depends");
    yk_graph_destroy(graph);
}

/* Training writes them: an input is the caller's memory. */
YK_TEST(running_statistics_are_buffers)
{
    const int64_t channels[] = {6};
    for (int wrong = 0; wrong < 3; wrong++) {
        static const char *const names[] = {"running_mean", "running_var", "num_batches_tracked"};
        char expected[96];
        yk_graph *graph = yk_graph_create();
        yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, 6});
        yk_value *vector = yk_buffer(graph, "vector", YK_F32, 1, channels, YK_INIT_ZEROS);
        yk_value *input = yk_input(graph, "input", YK_F32, 1, channels);
        yk_value *batches = yk_input(graph, "batches", YK_I64, 0, NULL);
        yk_value *y = yk_batch_norm(x, vector, vector, wrong == 0 ? input : vector,
                                    wrong == 1 ? input : vector,
                                    YK_WITH(yk_batch_norm_options, YK_BATCH_NORM_OPTIONS_INIT,
                                            o.num_batches_tracked = wrong == 2 ? batches : NULL));
        assert_false(y->valid);
        snprintf(expected, sizeof expected, "batch_norm: %s is not a buffer", names[wrong]);
        assert_contains(graph->error, expected);
        yk_graph_destroy(graph);
    }
}

/* A graph whose batch_norm is given this weight and counter has this error. */
static void assert_norm_error(bool with_weight, yk_dtype counter, int counter_ndim, double eps,
                              const char *expected)
{
    const int64_t channels[] = {6};
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, 6});
    yk_value *vector = yk_buffer(graph, "vector", YK_F32, 1, channels, YK_INIT_ZEROS);
    yk_value *batches = yk_buffer(graph, "batches", counter, counter_ndim, channels, YK_INIT_ZEROS);
    yk_value *y = yk_batch_norm(x, with_weight ? vector : NULL, vector, vector, vector,
                                YK_WITH(yk_batch_norm_options, YK_BATCH_NORM_OPTIONS_INIT,
                                        o.eps = eps, o.num_batches_tracked = batches));
    assert_false(y->valid);
    assert_contains(graph->error, expected);
    yk_graph_destroy(graph);
}

YK_TEST(batch_norm_is_given_what_its_kernels_write)
{
    assert_norm_error(false, YK_I64, 0, 0, "batch_norm: the value for the weight is NULL");
    assert_norm_error(true, YK_F32, 0, 0, "num_batches_tracked is () float32, expected () int64");
    assert_norm_error(true, YK_I64, 1, 0, "num_batches_tracked is (6) int64, expected () int64");
    assert_norm_error(true, YK_I64, 0, -1, "eps -1");
    assert_norm_error(true, YK_I64, 0, (double)NAN,
                      "eps nan, momentum 0.1: expected a finite eps above 0");
}

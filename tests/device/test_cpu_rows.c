/* Rows that come from memory instead of a cache: layer_norm and rms_norm, see loops/rows.h. */
#define _GNU_SOURCE
#include "same_bits.h"

/* Three rows remain of those that are taken four at a time. */
enum { LONG_ROWS = 4099, LENGTH = 768 };

static const yki_attrs norm = {.eps = 1e-5};
static const yki_operand rows = {.dtype = YK_F32, .ndim = 2, .dims = {LONG_ROWS, LENGTH}};
static const yki_operand row = {.dtype = YK_F32, .ndim = 1, .dims = {LENGTH}};

static void far_rows_have_the_bits_of_near_ones(const yki_op *op, const yki_kernel_impl *impl,
                                                yki_operand second, yki_operand third)
{
    yki_kernel_desc desc = {.op = op,
                            .attrs = &norm,
                            .in_count = third.ndim < 0 ? 2 : 3,
                            .in = {rows, second, third},
                            .out_count = 1,
                            .out = {rows}};
    same_bits_unaligned(&desc, impl);
}

YK_TEST(layer_norm_from_memory_has_the_bits_of_that_from_a_cache)
{
    far_rows_have_the_bits_of_near_ones(&yki_op_layer_norm, &yki_cpu_layer_norm, row, row);
}

YK_TEST(rms_norm_from_memory_has_the_bits_of_that_from_a_cache)
{
    far_rows_have_the_bits_of_near_ones(&yki_op_rms_norm, &yki_cpu_rms_norm, row, none);
}

YK_TEST(the_gradient_of_layer_norm_from_memory_has_the_bits_of_that_from_a_cache)
{
    far_rows_have_the_bits_of_near_ones(&yki_op_layer_norm_backward, &yki_cpu_layer_norm_backward,
                                        rows, row);
}

YK_TEST(the_gradient_of_rms_norm_from_memory_has_the_bits_of_that_from_a_cache)
{
    far_rows_have_the_bits_of_near_ones(&yki_op_rms_norm_backward, &yki_cpu_rms_norm_backward, rows,
                                        row);
}

/* Where two vectors fill a line. */

YK_TEST(layer_norm_from_memory_has_the_bits_of_that_from_a_cache_with_avx2)
{
    on_avx2();
    far_rows_have_the_bits_of_near_ones(&yki_op_layer_norm, &yki_cpu_layer_norm, row, row);
}

YK_TEST(the_gradient_of_layer_norm_from_memory_has_the_bits_of_that_from_a_cache_with_avx2)
{
    on_avx2();
    far_rows_have_the_bits_of_near_ones(&yki_op_layer_norm_backward, &yki_cpu_layer_norm_backward,
                                        rows, row);
}

YK_TEST(the_gradient_of_rms_norm_from_memory_has_the_bits_of_that_from_a_cache_with_avx2)
{
    on_avx2();
    far_rows_have_the_bits_of_near_ones(&yki_op_rms_norm_backward, &yki_cpu_rms_norm_backward, rows,
                                        row);
}

/* The bytes that tensors take one after the other, and sums of them. */
#include "harness.h"

#include <math.h>

#include "tensor/tensor.h"

YK_TEST(padded_bytes_keep_the_next_tensor_aligned)
{
    yk_tensor scalar = {.dtype = YK_F32};
    yk_tensor row = {.dtype = YK_F32, .ndim = 1, .dims = {16}};
    yk_tensor odd = {.dtype = YK_F64, .ndim = 2, .dims = {3, 3}};
    yk_tensor none = {.dtype = YK_F32, .ndim = 1, .dims = {0}};
    assert_int_equal(yki_tensor_padded_bytes(&scalar), 64);
    assert_int_equal(yki_tensor_padded_bytes(&row), 64);
    assert_int_equal(yki_tensor_padded_bytes(&odd), 128);
    assert_int_equal(yki_tensor_padded_bytes(&none), 0);
}

YK_TEST(sums_are_those_of_one_multiplication_and_one_addition)
{
    enum { COUNT = 37 };
    float a[COUNT], b[COUNT], sum[COUNT];
    double wide_a[COUNT], wide_b[COUNT], wide[COUNT];
    for (int i = 0; i < COUNT; i++) {
        wide_a[i] = 1.0 / (i + 3);
        wide_b[i] = (i - 20) * 0.1;
        a[i] = (float)wide_a[i];
        b[i] = (float)wide_b[i];
    }
    yki_add_scaled(YK_F32, sum, 0.3, a, b, COUNT);
    yki_add_scaled(YK_F64, wide, 0.3, wide_a, wide_b, COUNT);
    for (int i = 0; i < COUNT; i++) {
        float product = 0.3F * a[i];
        double wide_product = 0.3 * wide_a[i];
        assert_true(sum[i] == product + b[i]);
        assert_true(wide[i] == wide_product + wide_b[i]);
    }
}

YK_TEST(a_sum_may_take_the_place_of_either_side)
{
    float a[] = {1, 2, 3, 4, 5}, b[] = {10, 20, 30, 40, 50};
    yki_add_scaled(YK_F32, a, 1, a, b, 4);
    yki_add_scaled(YK_F32, b, 2, a, b, 4);
    assert_true(a[0] == 11 && a[3] == 44 && a[4] == 5);
    assert_true(b[0] == 32 && b[3] == 128 && b[4] == 50);
}

/* ---- single elements ------------------------------------------------------------------------- */

static double rounded(yk_dtype dtype, double number)
{
    double memory = 0;
    yk_tensor tensor = {.data = &memory, .dtype = dtype};
    yk_tensor_set(&tensor, 0, number);
    return yk_tensor_get(&tensor, 0);
}

YK_TEST(integers_are_the_nearest_in_their_range)
{
    static const yk_dtype dtypes[] = {YK_I32, YK_I64, YK_U8};
    for (int i = 0; i < 3; i++) {
        assert_true(rounded(dtypes[i], 2.7) == 3);
        assert_true(rounded(dtypes[i], 2.5) == 2);
        assert_true(rounded(dtypes[i], 3.5) == 4);
        assert_true(rounded(dtypes[i], (double)NAN) == 0);
    }
    assert_true(rounded(YK_I32, -2.7) == -3);
    assert_true(rounded(YK_I32, 3e9) == INT32_MAX);
    assert_true(rounded(YK_I32, -3e9) == INT32_MIN);
    assert_true(rounded(YK_I32, INT32_MIN) == INT32_MIN);
    assert_true(rounded(YK_I64, (double)INFINITY) == (double)INT64_MAX);
    assert_true(rounded(YK_I64, -1e300) == (double)INT64_MIN);
    assert_true(rounded(YK_I64, 0x1p53) == 0x1p53);
    assert_true(rounded(YK_U8, 255.6) == 255);
    assert_true(rounded(YK_U8, -7) == 0);
}

/* A float in between would be a tie, which goes the other way. */
YK_TEST(sixteen_bits_are_rounded_once)
{
    assert_true(rounded(YK_BF16, 1 + 0x1p-8 + 0x1p-40) == 1 + 0x1p-7);
    assert_true(rounded(YK_BF16, 1 + 3 * 0x1p-8 - 0x1p-40) == 1 + 0x1p-7);
    assert_true(rounded(YK_BF16, -(1 + 0x1p-8 + 0x1p-40)) == -(1 + 0x1p-7));
    assert_true(rounded(YK_BF16, 1 + 0x1p-8) == 1);
    assert_true(rounded(YK_F16, 1 + 0x1p-11 + 0x1p-50) == 1 + 0x1p-10);
    assert_true(rounded(YK_F16, 1 + 3 * 0x1p-11 - 0x1p-50) == 1 + 0x1p-10);
    assert_true(rounded(YK_F16, 0x1p-25 + 0x1p-60) == 0x1p-24);
    assert_true(rounded(YK_F16, 0x1p-25) == 0);
    assert_true(rounded(YK_F16, 65520 - 0x1p-30) == 65504);
    assert_true(isinf(rounded(YK_F16, 65520)));
    assert_true(isinf(rounded(YK_BF16, 1e300)));
    assert_true(rounded(YK_BF16, 1e-300) == 0 && rounded(YK_F16, -1e-300) == 0);
    assert_true(isnan(rounded(YK_BF16, (double)NAN)) && isnan(rounded(YK_F16, (double)NAN)));
}

/* Outside a tensor, and where it is in the memory of a device, there is nothing to read or set. */
YK_TEST(elements_that_a_program_cannot_reach_are_left_alone)
{
    float numbers[] = {1, 2, 3, 4};
    yk_tensor tensor = {.data = numbers + 1, .dtype = YK_F32, .ndim = 1, .dims = {2}};
    const int64_t outside[] = {-1, 2, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        assert_true(yk_tensor_get(&tensor, outside[i]) == 0);
        yk_tensor_set(&tensor, outside[i], 7);
    }
    tensor.data = NULL;
    yk_tensor_set(&tensor, 0, 7);
    assert_true(yk_tensor_get(&tensor, 0) == 0);
    tensor.data = numbers;
    tensor.device = (yk_device *)1;
    yk_tensor_set(&tensor, 0, 7);
    assert_true(yk_tensor_get(&tensor, 0) == 0);
    for (int i = 0; i < 4; i++)
        assert_true(numbers[i] == (float)(i + 1));
}

YK_TEST(no_elements_need_no_memory)
{
    float host = 5;
    const yk_tensor tensor = {.dtype = YK_F32, .ndim = 2, .dims = {0, 3}};
    assert_ok(yk_tensor_read(&tensor, &host));
    assert_ok(yk_tensor_write(&tensor, &host));
    assert_true(host == 5);
    const yk_tensor none = {.dtype = YK_F32, .ndim = 1, .dims = {1}};
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_tensor_read(&none, &host));
    assert_contains(yk_last_error(), "no data");
}

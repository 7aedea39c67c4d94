/* The bytes that tensors take one after the other, and sums of them. */
#include "harness.h"
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

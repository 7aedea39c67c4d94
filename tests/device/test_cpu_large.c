/* Kernels of the cpu device that walk in another order through tensors which no cache holds. */
#include "cpu_check.h"

enum { DIMS = 4 };

static check_case start(const yki_op *op, yk_dtype dtype, bool blocked, int threads)
{
    int block = check_has_block(16) ? 16 : check_has_block(8) ? 8 : 4;
    return (check_case){.op = op,
                        .dtype = dtype,
                        .blocked = blocked,
                        .block = block,
                        .threads = threads,
                        .tolerance_low = 0x1p-8,
                        .state = 42};
}

/* More than 8 MiB, with rows that do not come out even. */
static void check_permutation(const int64_t *x, const int64_t *order, yk_dtype dtype, int threads)
{
    check_case c = start(&yki_op_permute, dtype, false, threads);
    int64_t y[DIMS];
    for (int d = 0; d < DIMS; d++) {
        c.attrs.dims[d] = order[d];
        y[d] = x[order[d]];
    }
    check_in(&c, dtype, DIMS, x, 1, 0);
    check_out(&c, dtype, DIMS, y);
    check(&c);
}

YK_TEST(large_permutations_equal_ref)
{
    static const struct {
        int64_t x[DIMS], order[DIMS];
        yk_dtype dtype;
    } cases[] = {
        {{3, 197, 75, 48}, {0, 2, 1, 3}, YK_F32},  {{3, 75, 197, 48}, {0, 2, 1, 3}, YK_F32},
        {{3, 197, 75, 97}, {0, 2, 1, 3}, YK_BF16}, {{5, 33, 131, 100}, {2, 0, 1, 3}, YK_F32},
        {{5, 33, 131, 100}, {1, 2, 0, 3}, YK_F32}, {{1, 1, 211, 10007}, {2, 0, 1, 3}, YK_F32},
        {{1, 16, 16, 8209}, {0, 2, 1, 3}, YK_F32}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int threads = 1; threads <= 3; threads += 2)
            check_permutation(cases[i].x, cases[i].order, cases[i].dtype, threads);
}

/* 12 MiB and more. */
YK_TEST(large_sums_of_broadcast_sides_equal_ref)
{
    static const int64_t x[] = {3, 40, 165, 160},
                         sides[][DIMS] = {
                             {1, 40, 1, 1}, {3, 1, 165, 160}, {1, 40, 165, 160}, {3, 40, 1, 1}};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++)
        for (int blocked = 0; blocked < 2; blocked++)
            for (int threads = 1; threads <= 3; threads += 2) {
                check_case c = start(&yki_op_add, YK_F32, blocked, threads);
                check_in(&c, YK_F32, DIMS, x, 1, 0);
                check_in(&c, YK_F32, DIMS, sides[i], 1, 0);
                check_out(&c, YK_F32, DIMS, x);
                check(&c);
            }
}

/* 12 MiB and more, which are written past the caches unless they take the place of an operand. */
static void check_element_wise(const yki_op *op, int operands, yk_dtype dtype, bool blocked)
{
    const int64_t dims[] = {dtype == YK_F32 ? 3 : 6, 35, 165, 177};
    for (int threads = 1; threads <= 3; threads += 2) {
        check_case c = start(op, dtype, blocked, threads);
        c.tolerance = 1e-6; /* of exp and gelu */
        for (int i = 0; i < operands; i++)
            check_in(&c, dtype, DIMS, dims, 1, 2);
        check_out(&c, dtype, DIMS, dims);
        check(&c);
    }
}

YK_TEST(large_element_wise_results_equal_ref)
{
    static const struct {
        const yki_op *op;
        int operands;
    } cases[] = {{&yki_op_relu, 1}, {&yki_op_exp, 1}, {&yki_op_gelu, 1}, {&yki_op_divide, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int blocked = 0; blocked < 2; blocked++) {
            check_element_wise(cases[i].op, cases[i].operands, YK_F32, blocked);
            check_element_wise(cases[i].op, cases[i].operands, YK_BF16, blocked);
        }
}

/* Of few images, whose channels threads share. */
static void check_part(const yki_op *op, int64_t dim, int64_t first, int64_t of_x, int64_t of_y,
                       bool blocked)
{
    int64_t x[] = {4, 120, 33, 31}, y[] = {4, 120, 33, 31};
    x[dim] = of_x;
    y[dim] = of_y;
    for (int threads = 1; threads <= 3; threads += 2) {
        check_case c = start(op, YK_F32, blocked, threads);
        c.attrs.dim = dim;
        c.attrs.first = first;
        c.attrs.count = of_y;
        check_in(&c, YK_F32, DIMS, x, 1, 0);
        if (op == &yki_op_concat) {
            x[dim] = of_y - of_x;
            check_in(&c, YK_F32, DIMS, x, 1, 0);
            x[dim] = of_x;
        }
        check_out(&c, YK_F32, DIMS, y);
        check(&c);
    }
}

YK_TEST(parts_of_few_images_equal_ref)
{
    for (int blocked = 0; blocked < 2; blocked++) {
        check_part(&yki_op_concat, 0, 0, 3, 14, blocked);
        check_part(&yki_op_concat, 1, 0, 32, 101, blocked);
        check_part(&yki_op_concat, 1, 0, 37, 100, blocked);
        check_part(&yki_op_concat, 2, 0, 3, 70, blocked);
        check_part(&yki_op_slice, 0, 2, 16, 13, blocked);
        check_part(&yki_op_slice, 1, 16, 120, 100, blocked);
        check_part(&yki_op_slice, 1, 3, 120, 117, blocked);
        check_part(&yki_op_pad, 0, 2, 9, 17, blocked);
        check_part(&yki_op_pad, 1, 32, 48, 160, blocked);
        check_part(&yki_op_pad, 1, 5, 67, 133, blocked);
        check_part(&yki_op_pad, 1, 0, 64, 67, blocked);
        check_part(&yki_op_pad, 3, 1, 29, 31, blocked);
    }
}

/* 24 MiB and more in both, of which what is written goes past the caches. */
static void check_pooling(const yki_op *op, bool grows, int64_t kernel, yk_dtype dtype)
{
    const int64_t most[] = {dtype == YK_F32 ? 5 : 9, 33, 200, 202};
    const int64_t few[] = {most[0], 33, 100, 101};
    for (int threads = 1; threads <= 3; threads += 2) {
        check_case c = start(op, dtype, true, threads);
        c.attrs = (yki_attrs){.kernel = {kernel, kernel},
                              .stride = {2, 2},
                              .padding = {kernel / 2, kernel / 2},
                              .bilinear = kernel > 0};
        if (kernel == 2)
            c.attrs.padding[0] = c.attrs.padding[1] = 0;
        c.tolerance = 1e-5;
        check_in(&c, dtype, DIMS, grows ? few : most, 1, 0);
        if (op == &yki_op_max_pool2d_backward) /* places of maxima */
            check_in(&c, YK_U8, DIMS, few, (double)(kernel * kernel) / 2,
                     (double)(kernel * kernel) / 2);
        check_out(&c, dtype, DIMS, grows ? most : few);
        check(&c);
    }
}

YK_TEST(large_pools_and_images_equal_ref)
{
    for (int i = 0; i < 2; i++) {
        const yk_dtype dtype = i ? YK_BF16 : YK_F32;
        check_pooling(&yki_op_max_pool2d, false, 2, dtype);
        check_pooling(&yki_op_max_pool2d, false, 3, dtype);
        check_pooling(&yki_op_max_pool2d_backward, true, 2, dtype);
        check_pooling(&yki_op_max_pool2d_backward, true, 3, dtype);
        check_pooling(&yki_op_avg_pool2d, false, 2, dtype);
        check_pooling(&yki_op_avg_pool2d_backward, true, 2, dtype);
        check_pooling(&yki_op_avg_pool2d_backward, true, 3, dtype);
        for (int bilinear = 0; bilinear < 2; bilinear++) {
            check_pooling(&yki_op_interpolate, true, bilinear, dtype);
            check_pooling(&yki_op_interpolate_backward, true, bilinear, dtype);
        }
    }
}

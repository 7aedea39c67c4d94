/* Operators that broadcast: add, subtract, multiply, divide, and those that choose; reduce, which
 * is what becomes of their gradients; sum and reduce_loss, which reduce too, and their gradient
 * expand. */
#include "device/broadcast.h"
#include "device/ref/ref.h"

#define YKI_REAL       double
#define YKI_RULE(name) name##_rule
#include "device/compare_rules.h"

/* Walks through a smaller tensor as the elements of the larger one, to which it is broadcast, come
 * in their order. */
typedef struct walk {
    int64_t dims[YK_MAX_DIMS], index[YK_MAX_DIMS]; /* of the larger one */
    int64_t step[YK_MAX_DIMS];                     /* 0 where the smaller one is repeated */
    int64_t at;
} walk;

static walk walk_through(const yk_tensor *small, const yk_tensor *of)
{
    walk w = {.at = 0};
    int64_t from[YK_MAX_DIMS], stride = 1;
    yki_broadcast_dims(small->ndim, small->dims, from);
    yki_broadcast_dims(of->ndim, of->dims, w.dims);
    for (int d = YK_MAX_DIMS - 1; d >= 0; d--) {
        w.step[d] = from[d] == 1 ? 0 : stride;
        stride *= from[d];
    }
    return w;
}

static int64_t next_place(walk *w)
{
    int64_t place = w->at;
    for (int d = YK_MAX_DIMS - 1; d >= 0; d--) {
        w->at += w->step[d];
        if (++w->index[d] < w->dims[d])
            break;
        w->at -= w->step[d] * w->dims[d];
        w->index[d] = 0;
    }
    return place;
}

typedef double function_of_two(double a, double b, const yki_attrs *attrs);

static void map2(const yki_kernel *kernel, const yki_kernel_args *run, function_of_two *f)
{
    const yki_attrs *attrs = yki_ref_attrs(kernel);
    yk_tensor a = yki_ref_in(kernel, run, 0), b = yki_ref_in(kernel, run, 1);
    yk_tensor y = yki_ref_out(kernel, run, 0);
    if (!a.data || !b.data || !y.data) /* there are no elements */
        return;
    walk of_a = walk_through(&a, &y), of_b = walk_through(&b, &y);
    int64_t count = yk_tensor_count(&y);
    for (int64_t i = 0; i < count; i++)
        yki_ref_set(
            &y, i,
            f(yki_ref_get(&a, next_place(&of_a)), yki_ref_get(&b, next_place(&of_b)), attrs));
}

#define MAP2(name, function)                                                                       \
    static double name##_of(double a, double b, const yki_attrs *attrs)                            \
    {                                                                                              \
        (void)attrs;                                                                               \
        return function;                                                                           \
    }                                                                                              \
    static yk_status ref_##name(const yki_kernel *kernel, const yki_kernel_args *run)              \
    {                                                                                              \
        map2(kernel, run, name##_of);                                                              \
        return YK_OK;                                                                              \
    }                                                                                              \
    YKI_REF_IMPL(name, YKI_EITHER_SIDE)
MAP2(add, a + b);
MAP2(subtract, a - b);
MAP2(multiply, (a * b));
MAP2(divide, a / b);
MAP2(maximum, maximum_rule(a, b));
MAP2(minimum, minimum_rule(a, b));
MAP2(compare, compare_rule(a, b, attrs->alpha, attrs->beta));
MAP2(masked_fill, masked_fill_rule(a, b, attrs->alpha, attrs->beta));

/* ---- reduce: y[j] is the sum or mean of the x[i] to which y[j] can be broadcast -------------- */

/* The sum over the dimensions from d on, in which y has size 1, of x or, where there is a factor,
 * of products; `at` is the element of both. */
static double sum_repeated(const yk_tensor *x, const yk_tensor *factor, const int64_t *of,
                           const int64_t *from, int d, int64_t at)
{
    if (d == YK_MAX_DIMS)
        return yki_ref_get(x, at) * (factor ? yki_ref_get(factor, at) : 1);
    double sum = 0;
    int64_t stride = 1;
    for (int inner = d + 1; inner < YK_MAX_DIMS; inner++)
        stride *= from[inner];
    for (int64_t i = 0; i < (of[d] == 1 ? from[d] : 1); i++)
        sum += sum_repeated(x, factor, of, from, d + 1, at + i * stride);
    return sum;
}

static yk_status reduce(const yki_kernel *kernel, const yki_kernel_args *run,
                        const yk_tensor *factor, bool mean)
{
    yk_tensor x = yki_ref_in(kernel, run, 0), y = yki_ref_out(kernel, run, 0);
    int64_t of[YK_MAX_DIMS], from[YK_MAX_DIMS], count = yk_tensor_count(&y);
    yki_broadcast_dims(y.ndim, y.dims, of);
    yki_broadcast_dims(x.ndim, x.dims, from);
    double terms = mean ? (double)yk_tensor_count(&x) / (double)count : 1;
    for (int64_t j = 0; j < count; j++) {
        int64_t at = 0, stride = 1, rest = j;
        for (int d = YK_MAX_DIMS - 1; d >= 0; d--) {
            at += rest % of[d] * stride;
            rest /= of[d];
            stride *= from[d];
        }
        yki_ref_set(&y, j, sum_repeated(&x, factor, of, from, 0, at) / terms);
    }
    return YK_OK;
}

static yk_status ref_reduce(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor factor = yki_ref_in(kernel, run, YKI_REDUCE_FACTOR);
    return reduce(kernel, run, factor.data ? &factor : NULL, false);
}

static yk_status ref_sum(const yki_kernel *kernel, const yki_kernel_args *run)
{
    return reduce(kernel, run, NULL, false);
}

static yk_status ref_reduce_loss(const yki_kernel *kernel, const yki_kernel_args *run)
{
    return reduce(kernel, run, NULL, yki_ref_attrs(kernel)->reduction == YK_LOSS_MEAN);
}

static yk_status ref_expand(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor dy = yki_ref_in(kernel, run, YKI_EXPAND_DY);
    yk_tensor dx = yki_ref_out(kernel, run, YKI_EXPAND_DX);
    bool mean = yki_ref_attrs(kernel)->reduction == YK_LOSS_MEAN;
    walk of_dy = walk_through(&dy, &dx);
    int64_t count = yk_tensor_count(&dx);
    double terms = mean ? (double)count / (double)yk_tensor_count(&dy) : 1;
    for (int64_t i = 0; i < count; i++)
        yki_ref_set(&dx, i, yki_ref_get(&dy, next_place(&of_dy)) / terms);
    return YK_OK;
}

YKI_REF_IMPL(reduce, 0);
YKI_REF_IMPL(sum, 0);
YKI_REF_IMPL(reduce_loss, 0);
YKI_REF_IMPL(expand, 0);

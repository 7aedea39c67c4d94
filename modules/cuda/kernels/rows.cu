/* softmax and layer_norm over the rows of a matrix, with a warp for each row. */
#include "sums.cuh"

/* ---- softmax --------------------------------------------------------------------------------- */

template <typename T> DEVICE void softmax(const yki_cuda_rows_args &args)
{
    typedef real_of<T> real;
    int64_t row = row_of_warp();
    if (row >= args.rows)
        return;
    const T *x = (const T *)args.x + row * args.columns;
    T *out = (T *)args.out + row * args.columns;
    real largest = -INFINITY, sum = 0;
    for (int i = lane_number(); i < args.columns; i += WARP)
        largest = widen(x[i]) > largest ? widen(x[i]) : largest;
    largest = warp_max(largest);
    for (int i = lane_number(); i < args.columns; i += WARP)
        sum += exp(widen(x[i]) - largest);
    sum = warp_sum(sum);
    for (int i = lane_number(); i < args.columns; i += WARP)
        out[i] = narrow<T>(exp(widen(x[i]) - largest) / sum);
}
SCALAR_KERNELS(softmax, yki_cuda_rows_args, softmax)

/* dx = y (dy - sum(dy y)) */
template <typename T> DEVICE void softmax_backward(const yki_cuda_rows_args &args)
{
    typedef real_of<T> real;
    int64_t row = row_of_warp();
    if (row >= args.rows)
        return;
    const T *y = (const T *)args.y + row * args.columns,
            *dy = (const T *)args.dy + row * args.columns;
    T *out = (T *)args.out + row * args.columns;
    real sum = 0;
    for (int i = lane_number(); i < args.columns; i += WARP)
        sum += widen(dy[i]) * widen(y[i]);
    sum = warp_sum(sum);
    for (int i = lane_number(); i < args.columns; i += WARP)
        out[i] = narrow<T>(widen(y[i]) * (widen(dy[i]) - sum));
}
SCALAR_KERNELS(softmax_backward, yki_cuda_rows_args, softmax_backward)

/* ---- layer_norm: y = h weight + bias, h = (x - mean) invstd ---------------------------------- */

template <typename T>
DEVICE void row_moments(const T *x, int columns, double eps, real_of<T> *mean, real_of<T> *invstd)
{
    typedef real_of<T> real;
    real sum = 0, squares = 0;
    for (int i = lane_number(); i < columns; i += WARP)
        sum += widen(x[i]);
    *mean = warp_sum(sum) / (real)columns;
    for (int i = lane_number(); i < columns; i += WARP)
        squares += (widen(x[i]) - *mean) * (widen(x[i]) - *mean);
    *invstd = 1 / sqrt(warp_sum(squares) / (real)columns + (real)eps);
}

template <typename T> DEVICE void layer_norm(const yki_cuda_rows_args &args)
{
    typedef real_of<T> real;
    int64_t row = row_of_warp();
    if (row >= args.rows)
        return;
    const T *x = (const T *)args.x + row * args.columns;
    T *out = (T *)args.out + row * args.columns;
    const real *weight = (const real *)args.weight, *bias = (const real *)args.bias;
    real mean, invstd;
    row_moments(x, args.columns, args.eps, &mean, &invstd);
    for (int i = lane_number(); i < args.columns; i += WARP)
        out[i] = narrow<T>((widen(x[i]) - mean) * invstd * weight[i] + bias[i]);
}
SCALAR_KERNELS(layer_norm, yki_cuda_rows_args, layer_norm)

/* With g = dy weight: dx = invstd (g - mean(g) - h mean(g h)). Keeps the moments for the columns.
 */
template <typename T> DEVICE void layer_norm_backward(const yki_cuda_rows_args &args)
{
    typedef real_of<T> real;
    int64_t row = row_of_warp();
    if (row >= args.rows)
        return;
    const T *x = (const T *)args.x + row * args.columns,
            *dy = (const T *)args.dy + row * args.columns;
    T *out = (T *)args.out + row * args.columns;
    const real *weight = (const real *)args.weight;
    real mean, invstd, sum = 0, product = 0;
    row_moments(x, args.columns, args.eps, &mean, &invstd);
    for (int i = lane_number(); i < args.columns; i += WARP) {
        real g = widen(dy[i]) * weight[i];
        sum += g;
        product += g * (widen(x[i]) - mean) * invstd;
    }
    sum = warp_sum(sum) / (real)args.columns;
    product = warp_sum(product) / (real)args.columns;
    if (lane_number() == 0) {
        args.moments[2 * row] = mean;
        args.moments[2 * row + 1] = invstd;
    }
    for (int i = lane_number(); args.out && i < args.columns; i += WARP) {
        real g = widen(dy[i]) * weight[i], h = (widen(x[i]) - mean) * invstd;
        out[i] = narrow<T>(invstd * (g - (sum + h * product)));
    }
}
SCALAR_KERNELS(layer_norm_backward, yki_cuda_rows_args, layer_norm_backward)

/* dweight = sum(dy h) and dbias = sum(dy) over the rows of a slice. */
template <typename T, int W> DEVICE void layer_norm_reduce(const yki_cuda_rows_reduce_args &args)
{
    typedef real_of<T> real;
    const yki_cuda_columns &at = args.at;
    const part p = part_of<W>(at);
    real sum[W] = {}, product[W] = {};
    for (int64_t row = p.row; row < p.last; row += p.stride) {
        real x[W], dy[W];
        const real mean = (real)args.moments[2 * row], invstd = (real)args.moments[2 * row + 1];
        load((const T *)args.x + row * at.columns + p.column, x);
        load((const T *)args.dy + row * at.columns + p.column, dy);
#pragma unroll
        for (int i = 0; i < W; i++) {
            sum[i] += dy[i];
            product[i] += dy[i] * (x[i] - mean) * invstd;
        }
    }
    add_up<real, W>(at, p, sum, product, args.partial);
}
KERNELS(layer_norm_reduce, yki_cuda_rows_reduce_args, layer_norm_reduce)

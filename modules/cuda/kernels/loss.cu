/*
 * cross_entropy, with a warp for each row of logits, and losses over pairs of elements. Losses are
 * added up in two steps: those of each block, and then the blocks' in order.
 */
#include "map.cuh"
#include "sums.cuh"

/* ---- cross_entropy --------------------------------------------------------------------------- */

/* The element of a row's first class. */
DEVICE int64_t begin_of(const yki_cuda_cross_entropy_args &args, int64_t row)
{
    return row / args.apart * args.apart * args.columns + row % args.apart;
}

/* What the probability of class i should be, in the row that begins there, which counts. */
template <typename R>
DEVICE R target(const yki_cuda_cross_entropy_args &args, int64_t begin, int i, int label)
{
    R share = args.shares ? ((const R *)args.shares)[begin + i * args.apart] : (R)(i == label);
    R target = (R)(args.smoothing / args.columns) + (R)(1 - args.smoothing) * share;
    return args.weight ? target * ((const R *)args.weight)[i] : target;
}

/* logits: of the first class. They are read once: the sum is relative to the largest one so far. */
template <typename T>
DEVICE real_of<T> log_sum_exp(const yki_cuda_cross_entropy_args &args, const T *logits)
{
    typedef real_of<T> real;
    const int several = 4;
    real largest = -INFINITY, sum = 0, logit[several];
    for (int first = lane_number(); first < args.columns; first += several * WARP) {
        real larger = largest;
#pragma unroll
        for (int k = 0; k < several; k++) {
            const int i = first + k * WARP;
            logit[k] = i < args.columns ? widen(logits[i * args.apart]) : (real)-INFINITY;
            larger = logit[k] > larger ? logit[k] : larger;
        }
        if (larger > largest)
            sum *= exp(largest - larger);
        largest = larger;
#pragma unroll
        for (int k = 0; k < several; k++)
            if (logit[k] != -INFINITY) /* largest may be -infinity too */
                sum += exp(logit[k] - largest);
    }
    const real all = warp_max(largest);
    return all + log(warp_sum(sum * exp(largest - all)));
}

DEVICE bool is_ignored(const yki_cuda_cross_entropy_args &args, int64_t row)
{
    return !args.shares && index_at(args.labels, args.wide, row) == args.ignored;
}

/* The label of a row that counts. One that is no class is reported, and makes the loss NaN. */
DEVICE int label_of(const yki_cuda_cross_entropy_args &args, int64_t row)
{
    if (args.shares)
        return 0;
    const int64_t label = index_at(args.labels, args.wide, row);
    if (label >= 0 && label < args.columns)
        return (int)label;
    report(&args.mistakes->label, row / args.pixels);
    return -1;
}

/* Adds this lane's classes to the loss, and in lane 0 the row's share of what a mean is divided by.
 */
template <typename T>
DEVICE void add_row(const yki_cuda_cross_entropy_args &args, int64_t row, double *loss,
                    double *total)
{
    typedef real_of<T> real;
    const int64_t begin = begin_of(args, row);
    const T *logits = (const T *)args.logits + begin;
    const bool ignored = is_ignored(args, row);
    const int label = ignored ? 0 : label_of(args, row);
    const real norm = log_sum_exp(args, logits);
    const auto add_class = [&](int i) {
        const real share = target<real>(args, begin, i, label);
        if (share != 0) /* the other factor may be -infinity */
            *loss -= share * (widen(logits[i * args.apart]) - norm);
    };
    const bool one_hot = !args.shares && args.smoothing == 0;
    for (int i = lane_number(); i < args.columns && !ignored && !one_hot; i += WARP)
        add_class(i);
    if (lane_number() != 0)
        return;
    if (args.log_sums)
        ((real *)args.log_sums)[row] = norm;
    if (ignored)
        return;
    if (one_hot && label >= 0)
        add_class(label);
    const bool weighted = args.weight && !args.shares && label >= 0;
    *loss += label < 0 ? (double)NAN : 0;
    *total += weighted ? (double)((const real *)args.weight)[label] : 1;
}

template <typename T> DEVICE void cross_entropy(const yki_cuda_cross_entropy_args &args)
{
    double loss = 0, total = 0;
    for (int64_t row = row_of_warp(); row < args.rows; row += (int64_t)gridDim.x * WARPS)
        add_row<T>(args, row, &loss, &total);
    loss = block_sum(loss);
    __syncthreads();
    total = block_sum(total);
    if (threadIdx.x != 0)
        return;
    args.losses[blockIdx.x] = loss;
    args.losses[gridDim.x + blockIdx.x] = total;
}
SCALAR_KERNELS(cross_entropy, yki_cuda_cross_entropy_args, cross_entropy)

template <typename R> DEVICE void cross_entropy_sum(const yki_cuda_cross_entropy_sum_args &args)
{
    double sum = 0, total = 0;
    for (int64_t i = threadIdx.x; i < args.count; i += THREADS) {
        sum += args.losses[i];
        total += args.losses[args.count + i];
    }
    sum = block_sum(sum);
    __syncthreads();
    total = block_sum(total);
    if (threadIdx.x != 0)
        return;
    *(R *)args.loss = (R)(args.mean ? sum * (1 / total) : sum);
    if (args.total)
        *(R *)args.total = (R)total;
}
KERNEL(cross_entropy_sum_f32, yki_cuda_cross_entropy_sum_args, cross_entropy_sum<float>)
KERNEL(cross_entropy_sum_f64, yki_cuda_cross_entropy_sum_args, cross_entropy_sum<double>)

template <typename T> DEVICE void cross_entropy_backward(const yki_cuda_cross_entropy_args &args)
{
    typedef real_of<T> real;
    int64_t row = row_of_warp();
    if (row >= args.rows)
        return;
    const int64_t begin = begin_of(args, row);
    const T *logits = (const T *)args.logits + begin;
    T *dlogits = (T *)args.dlogits + begin;
    const real norm = ((const real *)args.log_sums)[row];
    const bool ignored = is_ignored(args, row);
    const int label = args.shares ? 0 : (int)index_at(args.labels, args.wide, row);
    real factor = *(const real *)args.dloss;
    if (args.total) /* 0 if no row counts */
        factor *= (real)(1 / (double)*(const real *)args.total);
    real sum = 0;
    for (int i = lane_number(); i < args.columns; i += WARP)
        sum += target<real>(args, begin, i, label);
    sum = warp_sum(sum);
    for (int i = lane_number(); i < args.columns; i += WARP) {
        const real share = exp(widen(logits[i * args.apart]) - norm);
        const real excess = sum * share - target<real>(args, begin, i, label);
        dlogits[i * args.apart] = narrow<T>(ignored ? (real)0 : excess * factor);
    }
}
SCALAR_KERNELS(cross_entropy_backward, yki_cuda_cross_entropy_args, cross_entropy_backward)

/* ---- losses over pairs of elements ----------------------------------------------------------- */

#define YKI_REAL       float
#define YKI_RULE(name) name##_rule
#include "device/loss_rules.h"
#undef YKI_REAL
#define YKI_REAL double
#include "device/loss_rules.h"

template <typename R> DEVICE R square(R x)
{
    return x * x;
}

/* The pos_weight of element i. */
template <typename R> DEVICE R weight_of(const yki_cuda_pairs_args &args, int64_t i)
{
    if (!args.pos_weight)
        return 1;
    return ((const R *)args.pos_weight)[(int32_t)i / args.repeats % args.weights];
}

/* The sum of f(x, target, place). A block takes YKI_CUDA_PAIRS elements, the last one the rest. */
template <typename R, int W, typename F> DEVICE void pair_loss(const yki_cuda_pairs_args &args, F f)
{
    const R *x = (const R *)args.x, *target = (const R *)args.target;
    int64_t first = (int64_t)blockIdx.x * YKI_CUDA_PAIRS, last = first + YKI_CUDA_PAIRS;
    last = last < args.count ? last : args.count;
    int64_t whole = first + (last - first) / W * W;
    R sum = 0;
#pragma unroll 4
    for (int64_t i = first + threadIdx.x * W; i < whole; i += THREADS * W) {
        R a[W], b[W];
        load(x + i, a);
        load(target + i, b);
#pragma unroll
        for (int j = 0; j < W; j++)
            sum += f(a[j], b[j], i + j);
    }
    int64_t rest = whole + threadIdx.x;
    if (rest < last)
        sum += f(x[rest], target[rest], rest);
    double all = block_sum((double)sum);
    if (threadIdx.x == 0)
        args.losses[blockIdx.x] = all;
}

/* The slopes f(x, target) times the factor. */
template <typename R, int W, typename F>
DEVICE void pair_slopes(const yki_cuda_pairs_args &args, F f)
{
    const R factor = *(const R *)args.dloss * (R)args.factor;
    yki_cuda_map_args given = {args.x, args.target, args.dx, args.count, 0, 0};
    map<R, R, W, true>(given, [=](R a, R b) { return f(a, b) * factor; });
}

#define PAIRS(name)                                                                                \
    KERNEL(name##_f32, yki_cuda_pairs_args, name<float, 4>)                                        \
    KERNEL(name##_f64, yki_cuda_pairs_args, name<double, 2>)

template <typename R, int W> DEVICE void mse_loss(const yki_cuda_pairs_args &args)
{
    pair_loss<R, W>(args, [=](R a, R b, int64_t) { return square(a - b); });
}
PAIRS(mse_loss)

template <typename R, int W> DEVICE void reduce_loss(const yki_cuda_pairs_args &args)
{
    pair_loss<R, W>(args, [=](R a, R, int64_t) { return a; });
}
PAIRS(reduce_loss)

template <typename R, int W> DEVICE void mse_loss_backward(const yki_cuda_pairs_args &args)
{
    pair_slopes<R, W>(args, [=](R a, R b) { return a - b; });
}
PAIRS(mse_loss_backward)

template <typename R, int W> DEVICE void smooth_l1_loss(const yki_cuda_pairs_args &args)
{
    const R beta = (R)args.beta;
    pair_loss<R, W>(args, [=](R a, R b, int64_t) { return smooth_l1_rule(a - b, beta); });
}
PAIRS(smooth_l1_loss)

template <typename R, int W> DEVICE void smooth_l1_loss_backward(const yki_cuda_pairs_args &args)
{
    const R beta = (R)args.beta;
    pair_slopes<R, W>(args, [=](R a, R b) { return smooth_l1_slope_rule(a - b, beta); });
}
PAIRS(smooth_l1_loss_backward)

template <typename R, int W>
DEVICE void binary_cross_entropy_with_logits(const yki_cuda_pairs_args &args)
{
    pair_loss<R, W>(args,
                    [=](R a, R b, int64_t i) { return bce_rule(a, b, weight_of<R>(args, i)); });
}
PAIRS(binary_cross_entropy_with_logits)

/* One element in each thread, which needs to know its place. */
template <typename R, int W>
DEVICE void binary_cross_entropy_with_logits_backward(const yki_cuda_pairs_args &args)
{
    int64_t i = thread_number();
    if (i >= args.count)
        return;
    const R factor = *(const R *)args.dloss * (R)args.factor;
    R slope =
        bce_slope_rule(((const R *)args.x)[i], ((const R *)args.target)[i], weight_of<R>(args, i));
    ((R *)args.dx)[i] = slope * factor;
}
PAIRS(binary_cross_entropy_with_logits_backward)

/* ---- the sum --------------------------------------------------------------------------------- */

template <typename R> DEVICE void loss_sum(const yki_cuda_loss_args &args)
{
    double sum = 0;
    for (int64_t i = threadIdx.x; i < args.count; i += THREADS)
        sum += args.losses[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        *(R *)args.loss = (R)(sum * args.factor);
}
KERNEL(loss_sum_f32, yki_cuda_loss_args, loss_sum<float>)
KERNEL(loss_sum_f64, yki_cuda_loss_args, loss_sum<double>)

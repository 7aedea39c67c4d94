/*
 * add and the other operators of two sides, and reduce, the gradient of their broadcasting; sum,
 * which is the same, and its gradient expand: see kernels/broadcast.cu and, for operands of one
 * shape, kernels/elementwise.cu. And permute: its operands, too, have memory of different orders.
 * Where they are transposed matrices, kernels/layout.cu moves them.
 */
#include "device/broadcast.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "bias.h"
#include "implementations.h"

/* Row-major dimension d of a tensor is dimension order[d] in its memory, from the last one on:
 * those of an image are N, H, W, C. */
static int place_in_memory(const yki_operand *operand, int d)
{
    static const int last[4] = {0, 3, 1, 2};
    int first = YK_MAX_DIMS - 4;
    return operand->layout == YKI_CHANNELS_LAST && d >= first ? first + last[d - first] : d;
}

/* The sizes of all YK_MAX_DIMS row-major dimensions, and their strides in memory. */
static void measure(const yki_operand *operand, int64_t *dims, int64_t *stride)
{
    int64_t in_memory[YK_MAX_DIMS], product = 1;
    yki_broadcast_dims(operand->ndim, operand->dims, dims);
    for (int d = 0; d < YK_MAX_DIMS; d++)
        in_memory[place_in_memory(operand, d)] = dims[d];
    int64_t strides[YK_MAX_DIMS];
    for (int d = YK_MAX_DIMS - 1; d >= 0; d--) {
        strides[d] = product;
        product *= in_memory[d];
    }
    for (int d = 0; d < YK_MAX_DIMS; d++)
        stride[d] = strides[place_in_memory(operand, d)];
}

static bool same_shape(const yki_operand *a, const yki_operand *b)
{
    return a->ndim == b->ndim && a->layout == b->layout &&
           memcmp(a->dims, b->dims, (size_t)a->ndim * sizeof *a->dims) == 0;
}

static bool is_repeated(const yki_kernel_desc *desc)
{
    return !same_shape(&desc->in[0], &desc->out[0]) || !same_shape(&desc->in[1], &desc->out[0]);
}

/* ---- two sides ------------------------------------------------------------------------------- */

/* The strides of an operand along y's dimensions, in the order of y's memory. */
static void align(const yki_operand *operand, const yki_operand *y, int32_t *strides)
{
    int64_t dims[YK_MAX_DIMS], stride[YK_MAX_DIMS];
    measure(operand, dims, stride);
    for (int d = 0; d < YK_MAX_DIMS; d++)
        strides[place_in_memory(y, d)] = dims[d] == 1 ? 0 : (int32_t)stride[d];
}

static yki_cuda_broadcast_args args_of(const yki_kernel_desc *desc)
{
    const yki_operand *y = &desc->out[0];
    yki_cuda_broadcast_args args = {.count = yki_operand_count(y)};
    int64_t dims[YK_MAX_DIMS], stride[YK_MAX_DIMS];
    measure(y, dims, stride);
    for (int d = 0; d < YK_MAX_DIMS; d++)
        args.dims[place_in_memory(y, d)] = (int32_t)dims[d];
    align(&desc->in[0], y, args.a_stride);
    align(&desc->in[1], y, args.b_stride);
    return args;
}

/* Whether W neighbours in y are neighbours in an operand, or one element: the last dimension is a
 * multiple of W in all, and all other strides are. */
static int width_of(const yki_kernel_desc *desc, const yki_cuda_broadcast_args *args)
{
    int width = yki_cuda_width_for(desc->out[0].dtype, args->dims[YK_MAX_DIMS - 1]);
    for (int operand = 0; operand < 2; operand++) {
        const int32_t *stride = operand ? args->b_stride : args->a_stride;
        bool whole = stride[YK_MAX_DIMS - 1] == 1;
        if (!whole && stride[YK_MAX_DIMS - 1] != 0)
            return 1;
        for (int d = 0; d < YK_MAX_DIMS - 1; d++)
            if (whole && stride[d] % width)
                return 1;
    }
    return width;
}

static yk_status prepare(yki_device *device, const yki_kernel_desc *desc, const char *name,
                         yki_kernel **kernel)
{
    if (!is_repeated(desc))
        return yki_cuda_prepare_one(device, desc, name, true, kernel);
    char full[32];
    yki_cuda_broadcast_args args = args_of(desc);
    snprintf(full, sizeof full, "%s_broadcast", name);
    return yki_cuda_prepare_one(device, desc, full, width_of(desc, &args) > 1, kernel);
}

static yk_status run_broadcast(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    if (!is_repeated(&k->desc))
        return yki_cuda_run_map(kernel, run);
    yki_cuda_broadcast_args args = args_of(&k->desc);
    args.a = yki_cuda_in(k, run, 0);
    args.b = yki_cuda_in(k, run, 1);
    args.y = yki_cuda_out(k, run, 0);
    args.alpha = k->attrs.alpha;
    args.beta = k->attrs.beta;
    yki_cuda_grid grid = yki_cuda_grid_of(args.count / width_of(&k->desc, &args));
    return yki_cuda_launch(k, 0, grid, &args, sizeof args, run);
}

#define BROADCAST(name)                                                                            \
    static yk_status prepare_##name(yki_device *device, const yki_kernel_desc *desc,               \
                                    yki_kernel **kernel)                                           \
    {                                                                                              \
        return prepare(device, desc, #name, kernel);                                               \
    }                                                                                              \
    IMPLEMENTATION(name, yki_cuda_supports_any_layout, prepare_##name, run_broadcast,              \
                   YKI_EITHER_SIDE)
BROADCAST(add);
BROADCAST(subtract);
BROADCAST(multiply);
BROADCAST(divide);
BROADCAST(maximum);
BROADCAST(minimum);
BROADCAST(compare);
BROADCAST(masked_fill);

/* ---- expand: the second operand is the first ------------------------------------------------- */

static yki_kernel_desc doubled(const yki_kernel_desc *desc)
{
    yki_kernel_desc pair = *desc;
    pair.in[1] = pair.in[0];
    return pair;
}

static yk_status prepare_expand(yki_device *device, const yki_kernel_desc *desc,
                                yki_kernel **kernel)
{
    const yki_kernel_desc pair = doubled(desc);
    yki_cuda_broadcast_args args = args_of(&pair);
    return yki_cuda_prepare_one(device, desc, "expand", width_of(&pair, &args) > 1, kernel);
}

static yk_status run_expand(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    const yki_kernel_desc pair = doubled(&k->desc);
    yki_cuda_broadcast_args args = args_of(&pair);
    bool mean = k->attrs.reduction == YK_LOSS_MEAN;
    args.a = args.b = yki_cuda_in(k, run, 0);
    args.y = yki_cuda_out(k, run, 0);
    args.alpha = mean ? (double)yki_operand_count(&k->desc.in[0]) / (double)args.count : 1;
    yki_cuda_grid grid = yki_cuda_grid_of(args.count / width_of(&pair, &args));
    return yki_cuda_launch(k, 0, grid, &args, sizeof args, run);
}
IMPLEMENTATION(expand, yki_cuda_supports_any_layout, prepare_expand, run_expand, 0);

/* ---- reduce ---------------------------------------------------------------------------------- */

/* stages */
enum { REDUCE, COLUMNS = REDUCE, SLICES = REDUCE, MERGE, CONVERT };

static yki_cuda_reduce_args reduce_args_of(const yki_kernel_desc *desc)
{
    const yki_operand *dy = &desc->in[0], *dx = &desc->out[0];
    yki_cuda_reduce_args args = {.count = yki_operand_count(dx)};
    int64_t dims[YK_MAX_DIMS], stride[YK_MAX_DIMS], of[YK_MAX_DIMS];
    measure(dy, dims, stride);
    yki_broadcast_dims(dx->ndim, dx->dims, of);
    for (int d = 0; d < YK_MAX_DIMS; d++) {
        int at = place_in_memory(dx, d);
        args.kept[at] = (int32_t)of[d];
        args.summed[at] = of[d] == 1 ? (int32_t)dims[d] : 1;
        args.stride[at] = (int32_t)stride[d];
    }
    args.repeated = yki_operand_count(dy) / args.count;
    return args;
}

/* dy as a batch of matrices, in the order of memory, whose rows are added up: kept dimensions,
 * summed ones and kept ones again. There is one matrix for positions that all samples share, and
 * one for each sample for a mean of its pixels. False if it is not. */
static bool find_matrices(const yki_cuda_reduce_args *args, yki_cuda_reduce_rows_args *found)
{
    int64_t sizes[] = {1, 1, 1}, stride = 1; /* from the last dimensions on: kept, summed, kept */
    int part = 0;
    for (int d = YK_MAX_DIMS - 1; d >= 0; d--) {
        const int64_t size = (int64_t)args->kept[d] * args->summed[d];
        if (size == 1)
            continue;
        const bool is_summed = args->summed[d] > 1;
        part += is_summed != (part == 1);
        if (part > 2 || args->stride[d] != stride)
            return false;
        sizes[part] *= size;
        stride *= size;
    }
    *found = (yki_cuda_reduce_rows_args){
        .batch = sizes[2], .rows = (int32_t)sizes[1], .columns = (int32_t)sizes[0]};
    return true;
}

/* One matrix, whose sums are those of a bias's gradient. */
static yki_operand matrix_of(yk_dtype dtype, const yki_cuda_reduce_rows_args *args)
{
    return (yki_operand){
        .dtype = dtype, .ndim = 2, .dims = {args->rows, args->columns}, .layout = YKI_PLAIN};
}

/* The grid of several; zeros where they are too few to fill a GPU. */
static yki_cuda_grid grid_of_matrices(yk_dtype dtype, yki_cuda_reduce_rows_args *args)
{
    enum { LEAST_BLOCKS = 64 };
    const int64_t vectors = args->columns / yki_cuda_width_for(dtype, args->columns);
    args->tile = (int32_t)(vectors < YKI_CUDA_THREADS ? vectors : YKI_CUDA_THREADS);
    const int64_t across = yki_cuda_blocks(vectors, args->tile);
    if (args->columns == 1 || across * args->batch < LEAST_BLOCKS)
        return (yki_cuda_grid){0};
    return (yki_cuda_grid){(unsigned)across, yki_cuda_blocks_in_loops(args->batch), 1};
}

/* Into how many slices the sums are divided, each of which a block adds up; 0: no sum is divided,
 * because there are enough of them for a warp each, or few numbers in each. */
static int64_t slices_of(yki_cuda_reduce_args *args)
{
    enum { LEAST_WARPS = 4096, LEAST_TERMS = 8 * YKI_CUDA_THREADS };
    const int64_t wanted = yki_cuda_blocks(YKI_CUDA_BLOCKS, args->count);
    const int64_t most = args->repeated / LEAST_TERMS;
    if (args->count >= LEAST_WARPS || most == 0)
        return 0;
    args->slice = yki_cuda_blocks(args->repeated, wanted < most ? wanted : most);
    return yki_cuda_blocks(args->repeated, args->slice);
}

/* Sums that have more bits than dx, before they are rounded. */
static size_t sum_bytes(const yki_kernel_desc *desc)
{
    const yk_dtype dtype = desc->out[0].dtype, real = yki_accumulate_dtype(dtype);
    return dtype == real ? 0 : (size_t)yki_operand_count(&desc->out[0]) * yk_dtype_size(real);
}

static bool is_product(const yki_kernel_desc *desc)
{
    return desc->op == &yki_op_reduce && desc->in[YKI_REDUCE_FACTOR].ndim >= 0;
}

static yk_status prepare_matrix(yki_cuda_kernel *k, const yki_operand *matrix)
{
    const size_t sums = sum_bytes(&k->desc);
    yki_cuda_reserve(k, yki_cuda_bias_gradient_bytes(matrix));
    yki_cuda_reserve(k, sums);
    YK_TRY(yki_cuda_bias_gradient_find(k, COLUMNS, matrix, is_product(&k->desc)));
    return sums ? yki_cuda_convert_find(k, CONVERT, YK_F32, matrix->dtype) : YK_OK;
}

static size_t partial_bytes(yki_cuda_reduce_args *args)
{
    return (size_t)slices_of(args) * 2 * (size_t)args->count * sizeof(double);
}

static yk_status prepare_slices(yki_cuda_kernel *k, yki_cuda_reduce_args *args)
{
    const yk_dtype dtype = k->desc.in[0].dtype;
    const size_t sums = sum_bytes(&k->desc);
    const char *name = is_product(&k->desc) ? "reduce_slices_product" : "reduce_slices";
    yki_cuda_reserve(k, partial_bytes(args));
    yki_cuda_reserve(k, sums);
    YK_TRY(yki_cuda_find(k, SLICES, name, dtype, true));
    YK_TRY(yki_cuda_find(k, MERGE, "sums_merge", yki_accumulate_dtype(dtype), true));
    return sums ? yki_cuda_convert_find(k, CONVERT, YK_F32, dtype) : YK_OK;
}

static yk_status prepare_reduce(yki_device *device, const yki_kernel_desc *desc,
                                yki_kernel **kernel)
{
    yki_cuda_kernel *k;
    const yk_dtype dtype = desc->in[0].dtype;
    yki_cuda_reduce_args args = reduce_args_of(desc);
    yki_cuda_reduce_rows_args rows;
    const bool found = find_matrices(&args, &rows);
    if (found && rows.batch == 1) {
        const yki_operand matrix = matrix_of(dtype, &rows);
        YK_TRY(yki_cuda_prepare(device, desc, &k));
        return yki_cuda_prepared(k, prepare_matrix(k, &matrix), kernel);
    }
    if (found && grid_of_matrices(dtype, &rows).x)
        return yki_cuda_prepare_one(device, desc,
                                    is_product(desc) ? "reduce_rows_product" : "reduce_rows",
                                    yki_cuda_width_for(dtype, rows.columns) > 1, kernel);
    if (slices_of(&args) > 0) {
        YK_TRY(yki_cuda_prepare(device, desc, &k));
        return yki_cuda_prepared(k, prepare_slices(k, &args), kernel);
    }
    return yki_cuda_prepare_one(device, desc, is_product(desc) ? "reduce_product" : "reduce", true,
                                kernel);
}

/* Where sums are made: dx, or if they are rounded the end of scratch memory. */
static void *sums_of(const yki_cuda_kernel *k, const yki_kernel_args *run, void *dx)
{
    const size_t sums = sum_bytes(&k->desc);
    return sums ? (char *)run->scratch + k->base.scratch - yki_align(sums, 256) : dx;
}

static yk_status round_sums(const yki_cuda_kernel *k, const yki_kernel_args *run, const void *sums,
                            void *dx)
{
    return sums == dx
               ? YK_OK
               : yki_cuda_convert(k, CONVERT, sums, dx, yki_operand_count(&k->desc.out[0]), run);
}

static yk_status add_matrix(const yki_cuda_kernel *k, const yki_cuda_reduce_rows_args *args,
                            const yki_kernel_args *run)
{
    const yki_operand matrix = matrix_of(k->desc.in[0].dtype, args);
    void *to = sums_of(k, run, args->dx);
    YK_TRY(
        yki_cuda_bias_gradient(k, COLUMNS, &matrix, args->dy, args->factor, to, run->scratch, run));
    return round_sums(k, run, to, args->dx);
}

static yk_status add_slices(const yki_cuda_kernel *k, yki_cuda_reduce_args *args, int64_t slices,
                            const yki_kernel_args *run)
{
    void *to = sums_of(k, run, args->dx);
    args->partial = run->scratch;
    const yki_cuda_grid grid = {(unsigned)args->count, (unsigned)slices, 1};
    const yki_cuda_sums_merge_args merge = {.columns = (int32_t)args->count,
                                            .slices = (int32_t)slices,
                                            .partial = args->partial,
                                            .dbias = to};
    YK_TRY(yki_cuda_launch(k, SLICES, grid, args, sizeof *args, run));
    YK_TRY(
        yki_cuda_launch(k, MERGE, yki_cuda_grid_of_merge(args->count), &merge, sizeof merge, run));
    return round_sums(k, run, to, args->dx);
}

static yk_status run_reduce(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    yki_cuda_reduce_args args = reduce_args_of(&k->desc);
    yki_cuda_reduce_rows_args rows;
    const bool found = find_matrices(&args, &rows);
    args.dy = rows.dy = yki_cuda_in(k, run, 0);
    args.factor = rows.factor = is_product(&k->desc) ? run->in[YKI_REDUCE_FACTOR] : NULL;
    args.dx = rows.dx = yki_cuda_out(k, run, 0);
    if (found && rows.batch == 1)
        return add_matrix(k, &rows, run);
    yki_cuda_grid grid = found ? grid_of_matrices(k->desc.in[0].dtype, &rows) : (yki_cuda_grid){0};
    if (grid.x)
        return yki_cuda_launch(k, REDUCE, grid, &rows, sizeof rows, run);
    const int64_t slices = slices_of(&args);
    if (slices > 0)
        return add_slices(k, &args, slices, run);
    grid = yki_cuda_grid_of(args.count * 32);
    return yki_cuda_launch(k, REDUCE, grid, &args, sizeof args, run);
}

/* A factor lies in memory like dy. */
static bool supports_reduce(const yki_device *device, const yki_kernel_desc *desc)
{
    return yki_cuda_supports_any_layout(device, desc) &&
           (!is_product(desc) ||
            desc->in[YKI_REDUCE_FACTOR].layout == desc->in[YKI_REDUCE_DY].layout);
}
IMPLEMENTATION(reduce, supports_reduce, prepare_reduce, run_reduce, 0);
IMPLEMENTATION(sum, yki_cuda_supports_any_layout, prepare_reduce, run_reduce, 0);

/* ---- permute -------------------------------------------------------------------------------- */

enum { LAST = YK_MAX_DIMS - 1, PERMUTE_BYTES = 16 /* that a thread moves at most */ };

/* Dimensions that are neighbours in x, too, become one. */
static void merge(yki_cuda_permute_args *args)
{
    int at = YK_MAX_DIMS;
    for (int d = LAST; d >= 0; d--) {
        if (args->dims[d] == 1)
            continue;
        if (at <= LAST && args->stride[d] == args->stride[at] * args->dims[at]) {
            args->dims[at] *= args->dims[d];
        } else {
            at--;
            args->dims[at] = args->dims[d];
            args->stride[at] = args->stride[d];
        }
    }
    while (at > 0) {
        at--;
        args->dims[at] = 1;
        args->stride[at] = 0;
    }
}

/* How many elements a thread can move at once: neighbours in both, which begin at multiples. */
static int lanes_of(const yki_cuda_permute_args *args, size_t size)
{
    int most = args->stride[LAST] == 1 ? PERMUTE_BYTES / (int)size : 1;
    for (int d = 0; d <= LAST; d++)
        while ((d < LAST ? args->stride[d] : args->dims[d]) % most)
            most /= 2;
    return most;
}

/* The elements are vectors of `bytes`. */
static yki_cuda_permute_args permute_args_of(const yki_kernel_desc *desc, const yki_attrs *attrs,
                                             size_t *bytes)
{
    const yki_operand *x = &desc->in[YKI_PERMUTE_X], *y = &desc->out[YKI_PERMUTE_Y];
    const int missing = YK_MAX_DIMS - y->ndim;
    int64_t dims[YK_MAX_DIMS], stride[YK_MAX_DIMS], sizes[YK_MAX_DIMS], own[YK_MAX_DIMS];
    measure(x, dims, stride);
    measure(y, sizes, own);
    yki_cuda_permute_args args = {.count = yki_operand_count(y)};
    for (int d = 0; d < YK_MAX_DIMS; d++) {
        const int place = place_in_memory(y, d);
        const int64_t from = d < missing ? d : missing + attrs->dims[d - missing];
        args.dims[place] = (int32_t)sizes[d];
        args.stride[place] = (int32_t)stride[from];
    }
    merge(&args);
    const int lanes = lanes_of(&args, yk_dtype_size(x->dtype));
    args.count /= lanes;
    args.dims[LAST] /= lanes;
    for (int d = 0; d < LAST; d++)
        args.stride[d] /= lanes;
    *bytes = yk_dtype_size(x->dtype) * (size_t)lanes;
    return args;
}

/* Whether y is the transposed matrices of x, which tiles read and write in whole lines. */
static bool is_transposed(const yki_cuda_permute_args *args)
{
    const int32_t rows = args->dims[LAST], columns = args->dims[LAST - 1];
    const int32_t *batch = &args->dims[LAST - 2], *stride = &args->stride[LAST - 2];
    return args->dims[0] == 1 && rows > 1 && stride[1] == 1 && stride[2] == columns &&
           (*batch == 1 || stride[0] == rows * columns);
}

static yk_status prepare_permute(yki_device *device, const yki_kernel_desc *desc,
                                 yki_kernel **kernel)
{
    yki_cuda_kernel *k;
    size_t bytes;
    char name[16];
    YK_TRY(yki_cuda_prepare(device, desc, &k));
    const yki_cuda_permute_args args = permute_args_of(desc, desc->attrs, &bytes);
    snprintf(name, sizeof name, "%s_%zu", is_transposed(&args) ? "transpose" : "permute", bytes);
    return yki_cuda_prepared(k, yki_cuda_find_exactly(k, 0, name), kernel);
}

static yk_status launch_transpose(const yki_cuda_kernel *k, const yki_cuda_permute_args *permute,
                                  const yki_kernel_args *run)
{
    const yki_cuda_transpose_args args = {.in = permute->x,
                                          .out = permute->y,
                                          .batch = permute->dims[LAST - 2],
                                          .rows = permute->dims[LAST],
                                          .columns = permute->dims[LAST - 1],
                                          .in_pitch = permute->dims[LAST - 1],
                                          .out_pitch = permute->dims[LAST]};
    return yki_cuda_launch(k, 0, yki_cuda_grid_of_transpose(&args), &args, sizeof args, run);
}

static yk_status run_permute(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    size_t bytes;
    yki_cuda_permute_args args = permute_args_of(&k->desc, &k->attrs, &bytes);
    args.x = run->in[YKI_PERMUTE_X];
    args.y = run->out[YKI_PERMUTE_Y];
    if (is_transposed(&args))
        return launch_transpose(k, &args, run);
    return yki_cuda_launch(k, 0, yki_cuda_grid_of(args.count), &args, sizeof args, run);
}
IMPLEMENTATION(permute, yki_cuda_supports_any_layout, prepare_permute, run_permute, 0);

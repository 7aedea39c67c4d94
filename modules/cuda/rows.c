/*
 * softmax, log_softmax, layer_norm and rms_norm: see kernels/rows.cu. Rows are those of plain
 * tensors: images, which have their channels last, are brought into that order first, and the
 * result back into theirs. What the norms share reads operands by layer_norm's numbers, which are
 * those of rms_norm.
 */
#include "cuda.h"
#include "implementations.h"

enum { ROW, REDUCE, MERGE, TRANSPOSE };

/* ---- rows, and images in plain order -------------------------------------------------------- */

/* Of a norm: the operand that is as long as a row; -1 otherwise. */
static int weight_of(const yki_op *op)
{
    if (op == &yki_op_layer_norm || op == &yki_op_rms_norm)
        return YKI_LAYER_NORM_WEIGHT;
    if (op == &yki_op_layer_norm_backward || op == &yki_op_rms_norm_backward)
        return YKI_LAYER_NORM_BACKWARD_WEIGHT;
    return -1;
}

/* A row is as long as weight or, without one, as the last dimension. */
static int32_t columns_of(const yki_kernel_desc *desc)
{
    const yki_operand *x = &desc->in[0];
    int weight = weight_of(desc->op);
    return (int32_t)(weight < 0 ? x->dims[x->ndim - 1] : yki_operand_count(&desc->in[weight]));
}

/* Whether rows are vectors of 16 bytes. */
static bool takes_vectors(const yki_kernel_desc *desc)
{
    return yki_cuda_width_for(desc->in[0].dtype, columns_of(desc)) > 1;
}

static int64_t rows_of(const yki_kernel_desc *desc)
{
    return yki_operand_count(&desc->in[0]) / columns_of(desc);
}

static bool is_image(const yki_kernel_desc *desc)
{
    return desc->in[0].layout == YKI_CHANNELS_LAST;
}

/* The bytes of one tensor like x in scratch memory. */
static size_t room_of(const yki_kernel_desc *desc)
{
    size_t bytes = (size_t)yki_operand_count(&desc->in[0]) * yk_dtype_size(desc->in[0].dtype);
    return is_image(desc) ? (bytes + 255) / 256 * 256 : 0;
}

/* Where the rooms begin: after what the kernels themselves need. */
static void *room(const yki_cuda_kernel *k, const yki_kernel_args *run, int number)
{
    size_t all = 3 * room_of(&k->desc);
    return (char *)run->scratch + k->base.scratch - all + (size_t)number * room_of(&k->desc);
}

static yk_status transpose(const yki_cuda_kernel *k, const yki_kernel_args *run, const void *from,
                           void *to, bool to_plain)
{
    const yki_operand *x = &k->desc.in[0];
    int32_t channels = (int32_t)x->dims[1], pixels = (int32_t)(x->dims[2] * x->dims[3]);
    int32_t rows = to_plain ? pixels : channels, columns = to_plain ? channels : pixels;
    yki_cuda_transpose_args args = {.in = from,
                                    .out = to,
                                    .batch = x->dims[0],
                                    .rows = rows,
                                    .columns = columns,
                                    .in_pitch = columns,
                                    .out_pitch = rows};
    yki_cuda_grid grid = yki_cuda_grid_of_transpose(&args);
    return yki_cuda_launch(k, TRANSPOSE, grid, &args, sizeof args, run);
}

/* An input like x in plain order. */
static yk_status take(const yki_cuda_kernel *k, const yki_kernel_args *run, int in, int number,
                      const void **plain)
{
    *plain = yki_cuda_in(k, run, in);
    if (!is_image(&k->desc))
        return YK_OK;
    const void *image = *plain;
    *plain = room(k, run, number);
    return transpose(k, run, image, room(k, run, number), true);
}

/* Output 0 in plain order, in the last room of an image; NULL if it is not wanted. */
static void *result_of(const yki_cuda_kernel *k, const yki_kernel_args *run)
{
    void *out = yki_cuda_out(k, run, 0);
    return out && is_image(&k->desc) ? room(k, run, 2) : out;
}

static yk_status give(const yki_cuda_kernel *k, const yki_kernel_args *run)
{
    void *out = yki_cuda_out(k, run, 0);
    if (!out || !is_image(&k->desc))
        return YK_OK;
    return transpose(k, run, room(k, run, 2), out, false);
}

/* A warp for each row. */
static yki_cuda_grid grid_of_rows(int64_t rows)
{
    return yki_cuda_grid_of(rows * 32);
}

static yki_cuda_rows_args args_of(const yki_cuda_kernel *k, const yki_kernel_args *run)
{
    return (yki_cuda_rows_args){.out = result_of(k, run),
                                .rows = rows_of(&k->desc),
                                .columns = columns_of(&k->desc),
                                .eps = k->attrs.eps};
}

/* Finds the kernel of a row, and that of layouts; scratch is what the kernels need themselves. */
static yk_status prepare_rows(yki_cuda_kernel *k, const char *name, size_t scratch)
{
    yk_dtype dtype = k->desc.in[0].dtype;
    k->base.scratch = (scratch + 255) / 256 * 256 + 3 * room_of(&k->desc);
    const char *move = yk_dtype_size(dtype) == 8   ? "transpose_8"
                       : yk_dtype_size(dtype) == 4 ? "transpose_4"
                                                   : "transpose_2";
    YK_TRY(yki_cuda_find_exactly(k, TRANSPOSE, move));
    return yki_cuda_find(k, ROW, name, dtype, takes_vectors(&k->desc));
}

static yk_status prepare(yki_device *device, const yki_kernel_desc *desc, const char *name,
                         yki_kernel **kernel)
{
    yki_cuda_kernel *k;
    YK_TRY(yki_cuda_prepare(device, desc, &k));
    return yki_cuda_prepared(k, prepare_rows(k, name, 0), kernel);
}

static yk_status launch_rows(const yki_cuda_kernel *k, const yki_kernel_args *run,
                             const yki_cuda_rows_args *args)
{
    YK_TRY(yki_cuda_launch(k, ROW, grid_of_rows(args->rows), args, sizeof *args, run));
    return give(k, run);
}

/* ---- softmax, log_softmax, whose operands have the same numbers ----------------------------- */

/* Kernels have the names of operators. */
static yk_status prepare_softmax(yki_device *device, const yki_kernel_desc *desc,
                                 yki_kernel **kernel)
{
    return prepare(device, desc, desc->op->name, kernel);
}

static yk_status run_softmax(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    yki_cuda_rows_args args = args_of(k, run);
    YK_TRY(take(k, run, YKI_SOFTMAX_X, 0, &args.x));
    return launch_rows(k, run, &args);
}

static yk_status run_softmax_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    yki_cuda_rows_args args = args_of(k, run);
    YK_TRY(take(k, run, YKI_SOFTMAX_BACKWARD_DY, 0, &args.dy));
    YK_TRY(take(k, run, YKI_SOFTMAX_BACKWARD_Y, 1, &args.y));
    return launch_rows(k, run, &args);
}
IMPLEMENTATION(softmax, yki_cuda_supports, prepare_softmax, run_softmax, 1);
IMPLEMENTATION(softmax_backward, yki_cuda_supports, prepare_softmax, run_softmax_backward, 1);
IMPLEMENTATION(log_softmax, yki_cuda_supports, prepare_softmax, run_softmax, 1);
IMPLEMENTATION(log_softmax_backward, yki_cuda_supports, prepare_softmax, run_softmax_backward, 1);

/* ---- layer_norm, rms_norm ------------------------------------------------------------------- */

static yk_status prepare_layer_norm(yki_device *device, const yki_kernel_desc *desc,
                                    yki_kernel **kernel)
{
    return prepare(device, desc, "layer_norm", kernel);
}

static yk_status run_layer_norm(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    yki_cuda_rows_args args = args_of(k, run);
    YK_TRY(take(k, run, YKI_LAYER_NORM_X, 0, &args.x));
    args.weight = yki_cuda_in(k, run, YKI_LAYER_NORM_WEIGHT);
    args.bias = yki_cuda_in(k, run, YKI_LAYER_NORM_BIAS);
    return launch_rows(k, run, &args);
}
IMPLEMENTATION(layer_norm, yki_cuda_supports, prepare_layer_norm, run_layer_norm, 0);

static yk_status prepare_rms_norm(yki_device *device, const yki_kernel_desc *desc,
                                  yki_kernel **kernel)
{
    return prepare(device, desc, "rms_norm", kernel);
}

static yk_status run_rms_norm(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    yki_cuda_rows_args args = args_of(k, run);
    YK_TRY(take(k, run, YKI_RMS_NORM_X, 0, &args.x));
    args.weight = yki_cuda_in(k, run, YKI_RMS_NORM_WEIGHT);
    return launch_rows(k, run, &args);
}
IMPLEMENTATION(rms_norm, yki_cuda_supports, prepare_rms_norm, run_rms_norm, 0);

static yki_cuda_grid divide(const yki_kernel_desc *desc, yki_cuda_columns *at)
{
    int32_t columns = columns_of(desc);
    int width = yki_cuda_width_for(desc->in[0].dtype, columns);
    return yki_cuda_grid_of_columns(1, rows_of(desc), columns, width, at);
}

static size_t moment_bytes(const yki_kernel_desc *desc)
{
    return (size_t)rows_of(desc) * 2 * sizeof(double);
}

/* `name`: the kernel of a row. */
static yk_status prepare_norm_backward(yki_device *device, const yki_kernel_desc *desc,
                                       const char *name, yki_kernel **kernel)
{
    yki_cuda_kernel *k;
    YK_TRY(yki_cuda_prepare(device, desc, &k));
    yk_dtype dtype = desc->in[0].dtype;
    yki_cuda_columns at;
    yki_cuda_grid grid = divide(desc, &at);
    size_t scratch = moment_bytes(desc) + yki_cuda_partial_bytes(grid, &at);
    yk_status status = prepare_rows(k, name, scratch);
    if (status == YK_OK)
        status = yki_cuda_find(k, REDUCE, "layer_norm_reduce", dtype, takes_vectors(desc));
    if (status == YK_OK)
        status = yki_cuda_find(k, MERGE, "sums_merge", yki_accumulate_dtype(dtype), true);
    return yki_cuda_prepared(k, status, kernel);
}

static yk_status prepare_layer_norm_backward(yki_device *device, const yki_kernel_desc *desc,
                                             yki_kernel **kernel)
{
    return prepare_norm_backward(device, desc, "layer_norm_backward", kernel);
}

static yk_status prepare_rms_norm_backward(yki_device *device, const yki_kernel_desc *desc,
                                           yki_kernel **kernel)
{
    return prepare_norm_backward(device, desc, "rms_norm_backward", kernel);
}

/* rms_norm's has no dbias, as where that of layer_norm is not wanted. */
static yk_status run_norm_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    yki_cuda_rows_args args = args_of(k, run);
    YK_TRY(take(k, run, YKI_LAYER_NORM_BACKWARD_X, 0, &args.x));
    YK_TRY(take(k, run, YKI_LAYER_NORM_BACKWARD_DY, 1, &args.dy));
    args.weight = yki_cuda_in(k, run, YKI_LAYER_NORM_BACKWARD_WEIGHT);
    args.moments = run->scratch;
    YK_TRY(launch_rows(k, run, &args));
    yki_cuda_rows_reduce_args reduce = {
        .x = args.x,
        .dy = args.dy,
        .moments = args.moments,
        .partial = (double *)((char *)run->scratch + moment_bytes(&k->desc)),
    };
    yki_cuda_grid grid = divide(&k->desc, &reduce.at);
    yki_cuda_sums_merge_args merge = {.rows = args.rows,
                                      .columns = args.columns,
                                      .slices = (int32_t)grid.y,
                                      .partial = reduce.partial,
                                      .dweight =
                                          yki_cuda_out(k, run, YKI_LAYER_NORM_BACKWARD_DWEIGHT),
                                      .dbias = yki_cuda_out(k, run, YKI_LAYER_NORM_BACKWARD_DBIAS)};
    if (!merge.dweight && !merge.dbias)
        return YK_OK;
    YK_TRY(yki_cuda_launch(k, REDUCE, grid, &reduce, sizeof reduce, run));
    grid = yki_cuda_grid_of_merge(merge.columns);
    return yki_cuda_launch(k, MERGE, grid, &merge, sizeof merge, run);
}
IMPLEMENTATION(layer_norm_backward, yki_cuda_supports, prepare_layer_norm_backward,
               run_norm_backward, 0);
IMPLEMENTATION(rms_norm_backward, yki_cuda_supports, prepare_rms_norm_backward, run_norm_backward,
               0);

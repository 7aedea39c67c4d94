/* flatten, reshape, reorder, concat, slice, pad: see kernels/layout.cu. */
#include <stdio.h>

#include "cuda.h"
#include "implementations.h"

/* The order of elements is that of a layout; flatten and its like keep plain order. */
static bool is_last(const yki_operand *operand)
{
    return operand->layout == YKI_CHANNELS_LAST;
}

static int64_t pixels_of(const yki_operand *image)
{
    return image->dims[2] * image->dims[3];
}

/* One step moves all: a transposition of each image, or a copy where the order is the same. */
static bool is_transposed(const yki_kernel_desc *desc)
{
    const yki_operand *image = is_last(&desc->in[0]) ? &desc->in[0] : &desc->out[0];
    return is_last(&desc->in[0]) != is_last(&desc->out[0]) && pixels_of(image) > 1 &&
           image->dims[1] > 1;
}

static yk_status prepare_copy(yki_device *device, const yki_kernel_desc *desc, const char *what,
                              bool vectors, yki_kernel **kernel)
{
    yki_cuda_kernel *k;
    YK_TRY(yki_cuda_prepare(device, desc, &k));
    char name[32];
    snprintf(name, sizeof name, "%s_%zu%s", what, yk_dtype_size(desc->in[0].dtype),
             vectors ? "" : "_1");
    return yki_cuda_prepared(k, yki_cuda_find_exactly(k, 0, name), kernel);
}

static yk_status launch_copy(const yki_cuda_kernel *k, const yki_cuda_copy_args *args, int width,
                             const yki_kernel_args *run)
{
    yki_cuda_grid grid = yki_cuda_grid_of(args->rows * args->columns / width);
    return yki_cuda_launch(k, 0, grid, args, sizeof *args, run);
}

/* ---- flatten, reshape, reorder ------------------------------------------------------------- */

static yk_status prepare_reorder(yki_device *device, const yki_kernel_desc *desc,
                                 yki_kernel **kernel)
{
    if (is_transposed(desc))
        return prepare_copy(device, desc, "transpose", true, kernel);
    int width = yki_cuda_width_for(desc->in[0].dtype, yki_operand_count(&desc->in[0]));
    return prepare_copy(device, desc, "copy", width > 1, kernel);
}

/* An image that has its channels last is (pixels, channels), a plain one (channels, pixels). */
static yk_status run_transpose(const yki_cuda_kernel *k, const yki_kernel_args *run)
{
    bool from_last = is_last(&k->desc.in[0]);
    const yki_operand *image = from_last ? &k->desc.in[0] : &k->desc.out[0];
    int64_t channels = image->dims[1], pixels = pixels_of(image), batch = image->dims[0];
    int32_t rows = (int32_t)(from_last ? pixels : channels);
    int32_t columns = (int32_t)(from_last ? channels : pixels);
    yki_cuda_transpose_args args = {.in = yki_cuda_in(k, run, 0),
                                    .out = yki_cuda_out(k, run, 0),
                                    .batch = batch,
                                    .rows = rows,
                                    .columns = columns,
                                    .in_pitch = columns,
                                    .out_pitch = rows};
    return yki_cuda_launch(k, 0, yki_cuda_grid_of_transpose(&args), &args, sizeof args, run);
}

static yk_status run_reorder(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    if (is_transposed(&k->desc))
        return run_transpose(k, run);
    if (run->in[0] == run->out[0]) /* the order is the same */
        return YK_OK;
    int64_t count = yki_operand_count(&k->desc.in[0]);
    yki_cuda_copy_args args = {.in = yki_cuda_in(k, run, 0),
                               .out = yki_cuda_out(k, run, 0),
                               .rows = 1,
                               .columns = count,
                               .in_pitch = count,
                               .out_pitch = count};
    return launch_copy(k, &args, yki_cuda_width_for(k->desc.in[0].dtype, count), run);
}

/* reorder takes bytes, too. */
static bool supports_reorder(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    return desc->in[0].layout != YKI_BLOCKED && desc->out[0].layout != YKI_BLOCKED &&
           yki_operand_count(&desc->in[0]) <= INT32_MAX;
}
IMPLEMENTATION(flatten, yki_cuda_supports_any_layout, prepare_reorder, run_reorder, 1);
IMPLEMENTATION(reshape, yki_cuda_supports_any_layout, prepare_reorder, run_reorder, 1);
IMPLEMENTATION(reorder, supports_reorder, prepare_reorder, run_reorder, 0);

/* ---- concat, slice, pad: parts of rows ------------------------------------------------------- */

/* The length of a row, which is all of dimension dim with what lies within it in memory. */
static int64_t row_of(const yki_operand *operand, int64_t dim)
{
    static const int of_image[] = {0, 2, 3, 1};
    int64_t row = 1;
    for (int i = operand->ndim; i-- > 0;) {
        const int d = is_last(operand) ? of_image[i] : i;
        row *= operand->dims[d];
        if (d == dim)
            break;
    }
    return row;
}

static int64_t rows_of(const yki_operand *operand, int64_t dim)
{
    return yki_operand_count(operand) / row_of(operand, dim);
}

/* Where in a row dimension dim has come to `first`. */
static int64_t place_of(const yki_operand *operand, int64_t dim, int64_t first)
{
    return row_of(operand, dim) / operand->dims[dim] * first;
}

/* Operands that have all the same layout, whichever it is. */
static bool supports_parts(const yki_device *device, const yki_kernel_desc *desc)
{
    bool supports = yki_cuda_supports_any_layout(device, desc);
    for (int i = 0; i < desc->in_count && desc->in[i].ndim >= 0; i++)
        supports = supports && desc->in[i].layout == desc->out[0].layout;
    return supports;
}

/* Every value begins and ends at a vector, or elements are moved one by one. */
static int concat_width(const yki_kernel_desc *desc, int64_t dim)
{
    int width = yki_cuda_width(desc->in[0].dtype);
    for (int i = 0; i < desc->in_count && desc->in[i].ndim >= 0; i++)
        if (row_of(&desc->in[i], dim) % width)
            return 1;
    return width;
}

static yk_status prepare_concat(yki_device *device, const yki_kernel_desc *desc,
                                yki_kernel **kernel)
{
    return prepare_copy(device, desc, "copy", concat_width(desc, desc->attrs->dim) > 1, kernel);
}

static yk_status run_concat(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    const int64_t dim = k->attrs.dim, pitch = row_of(&k->desc.out[0], dim);
    int64_t place = 0;
    for (int i = 0; i < k->desc.in_count && k->desc.in[i].ndim >= 0; i++) {
        int64_t columns = row_of(&k->desc.in[i], dim);
        size_t offset = (size_t)place * yk_dtype_size(k->desc.in[0].dtype);
        yki_cuda_copy_args args = {.in = yki_cuda_in(k, run, i),
                                   .out = (char *)yki_cuda_out(k, run, 0) + offset,
                                   .rows = rows_of(&k->desc.out[0], dim),
                                   .columns = columns,
                                   .in_pitch = columns,
                                   .out_pitch = pitch};
        YK_TRY(launch_copy(k, &args, concat_width(&k->desc, dim), run));
        place += columns;
    }
    return YK_OK;
}
IMPLEMENTATION(concat, supports_parts, prepare_concat, run_concat, 0);

static int slice_width(const yki_kernel_desc *desc, const yki_attrs *attrs)
{
    const yki_operand *x = &desc->in[0];
    int width = yki_cuda_width(x->dtype);
    bool whole = row_of(x, attrs->dim) % width == 0 &&
                 row_of(&desc->out[0], attrs->dim) % width == 0 &&
                 place_of(x, attrs->dim, attrs->first) % width == 0;
    return whole ? width : 1;
}

static yk_status prepare_slice(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    bool vectors = slice_width(desc, desc->attrs) > 1;
    return prepare_copy(device, desc, "copy", vectors, kernel);
}

static yk_status run_slice(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    const yki_operand *x = &k->desc.in[0], *y = &k->desc.out[0];
    const int64_t dim = k->attrs.dim, place = place_of(x, dim, k->attrs.first);
    yki_cuda_copy_args args = {.in = (const char *)yki_cuda_in(k, run, 0) +
                                     (size_t)place * yk_dtype_size(x->dtype),
                               .out = yki_cuda_out(k, run, 0),
                               .rows = rows_of(y, dim),
                               .columns = row_of(y, dim),
                               .in_pitch = row_of(x, dim),
                               .out_pitch = row_of(y, dim)};
    return launch_copy(k, &args, slice_width(&k->desc, &k->attrs), run);
}
IMPLEMENTATION(slice, supports_parts, prepare_slice, run_slice, 0);

/* Vectors of the result, whose elements are read one by one. */
static int pad_width(const yki_kernel_desc *desc, int64_t dim)
{
    const int width = yki_cuda_width(desc->out[0].dtype);
    return row_of(&desc->out[0], dim) % width == 0 ? width : 1;
}

static yk_status prepare_pad(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    return prepare_copy(device, desc, "pad", pad_width(desc, desc->attrs->dim) > 1, kernel);
}

static yk_status run_pad(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    const yki_operand *x = &k->desc.in[0], *y = &k->desc.out[0];
    const int64_t dim = k->attrs.dim;
    yki_cuda_copy_args args = {.in = yki_cuda_in(k, run, 0),
                               .out = yki_cuda_out(k, run, 0),
                               .rows = rows_of(y, dim),
                               .columns = row_of(x, dim),
                               .in_pitch = row_of(x, dim),
                               .out_pitch = row_of(y, dim),
                               .first = place_of(y, dim, k->attrs.first)};
    yki_cuda_grid grid = yki_cuda_grid_of(args.rows * args.out_pitch / pad_width(&k->desc, dim));
    return yki_cuda_launch(k, 0, grid, &args, sizeof args, run);
}
IMPLEMENTATION(pad, supports_parts, prepare_pad, run_pad, 0);

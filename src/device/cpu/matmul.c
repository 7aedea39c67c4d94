/*
 * matmul by oneDNN, to which a transposed matrix is one with other strides. Many products are cut
 * into slices, each of which one thread computes (onednn_slices.h), so that their bits do not
 * depend on the number of threads; all threads share each of a few. 16 bits that oneDNN does not
 * compute with go through f32.
 */
#include "device/matmul.h"

#include <stdlib.h>

#include "base/memory.h"
#include "device/cpu/convert16.h"
#include "device/cpu/geometry.h"
#include "device/cpu/onednn_slices.h"

enum {
    LEAST_SLICES = 16,
    SLICE = 1 << 19 /* multiplications: enough that starting a slice takes no time */
};

typedef struct matmul_kernel {
    yki_kernel base;
    dnnl_stream_t stream;
    yki_dnn_primitive whole; /* if there are slices, only the description of one */
    yki_dnn_slices slices;
} matmul_kernel;

static void matmul_destroy(yki_kernel *kernel)
{
    matmul_kernel *k = (matmul_kernel *)kernel;
    yki_dnn_destroy(&k->whole);
    yki_dnn_slices_destroy(&k->slices);
    free(k);
}

/* So many matrices of rows and columns. */
static yk_status describe_matrices(yki_md *md, int64_t count, int64_t rows, int64_t columns,
                                   bool is_transposed, yk_dtype dtype)
{
    const int64_t dims[] = {count, rows, columns};
    const int64_t strides[] = {rows * columns, is_transposed ? 1 : columns,
                               is_transposed ? rows : 1};
    return yki_md_with_strides(md, 3, dims, dtype, strides);
}

/* Of `count` products. The caller destroys the descriptors, also after a failure. */
static yk_status describe(yki_md mds[3], const yki_matmul *m, int64_t count, yk_dtype dtype)
{
    YK_TRY(describe_matrices(&mds[0], count, m->rows, m->inner, m->transpose_a, dtype));
    YK_TRY(describe_matrices(&mds[1], count, m->inner, m->columns, m->transpose_b, dtype));
    return describe_matrices(&mds[2], count, m->rows, m->columns, false, dtype);
}

/* How many products a slice has: a divisor of their number, by their sizes alone. 0: no slices. */
static int64_t products_of_slice(const yki_matmul *m)
{
    const double product = (double)(m->rows * m->columns) * (double)m->inner;
    int64_t best = m->count >= LEAST_SLICES;
    for (int64_t n = 2; n <= m->count / LEAST_SLICES && (double)n * product <= SLICE; n++)
        if (m->count % n == 0)
            best = n;
    return best;
}

static void cut(yki_dnn_slices *slices, const yki_device *device, const yki_matmul *m, int64_t each,
                yk_dtype dtype)
{
    const size_t bytes = (size_t)each * yk_dtype_size(dtype);
    slices->count = m->count / each;
    slices->team = device->threads < slices->count ? device->threads : (int)slices->count;
    slices->steps[0] = (size_t)(m->rows * m->inner) * bytes;
    slices->steps[1] = (size_t)(m->inner * m->columns) * bytes;
    slices->steps[2] = (size_t)(m->rows * m->columns) * bytes;
}

static yk_status prepare_product(matmul_kernel *k, dnnl_engine_t engine, yki_md mds[3])
{
    static const int arguments[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    const yki_const_md given[] = {mds[0], mds[1], mds[2]};
    const int threads = yki_dnn_slices_begin(&k->slices);
    const dnnl_status_t described =
        yki_dnn_describe_matmul(&k->whole.desc, engine, mds[0], mds[1], NULL, mds[2]);
    yki_dnn_slices_end(threads);
    if (described != dnnl_success)
        return yki_dnn_error(described, "dnnl_matmul");
    if (k->slices.count == 0) {
        YK_TRY(yki_dnn_prepare(&k->whole, engine, 3, arguments, given));
        k->base.scratch = k->whole.scratch;
        return YK_OK;
    }
    YK_TRY(yki_dnn_slices_prepare(&k->slices, k->whole.desc, engine, 3, arguments, given));
    k->base.scratch = (size_t)k->slices.team * k->slices.scratch;
    return YK_OK;
}

static yk_status prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    const yki_cpu_device *cpu = (const yki_cpu_device *)device;
    const yk_dtype dtype = desc->in[YKI_MATMUL_A].dtype;
    const yki_matmul m = yki_matmul_of(desc);
    const int64_t each = products_of_slice(&m);
    yki_md mds[3] = {NULL};
    matmul_kernel *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a matmul kernel");
    k->stream = cpu->stream;
    k->base.matrix_unit = dtype == YK_BF16 && (cpu->has_amx || cpu->native_bf16);
    if (each)
        cut(&k->slices, device, &m, each, dtype);
    yk_status status = describe(mds, &m, each ? each : m.count, dtype);
    if (status == YK_OK)
        status = prepare_product(k, cpu->engine, mds);
    for (int i = 0; i < 3; i++)
        yki_md_destroy(mds[i]);
    if (status == YK_OK)
        *kernel = &k->base;
    else
        matmul_destroy(&k->base);
    return status;
}

static yk_status run_matmul(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const matmul_kernel *k = (const matmul_kernel *)kernel;
    void *pointers[] = {run->in[YKI_MATMUL_A], run->in[YKI_MATMUL_B], run->out[YKI_MATMUL_Y]};
    return k->slices.count > 0 ? yki_dnn_slices_run(&k->slices, pointers, run->scratch)
                               : yki_dnn_run(&k->whole, k->stream, pointers, run->scratch);
}

static bool supports(const yki_device *device, const yki_kernel_desc *desc)
{
    const yk_dtype dtype = desc->in[YKI_MATMUL_A].dtype;
    return dtype == YK_F32 || (dtype == YK_BF16 && ((const yki_cpu_device *)device)->has_bf16);
}

const yki_kernel_impl yki_cpu_matmul = {.op = &yki_op_matmul,
                                        .supports = supports,
                                        .prepare = prepare,
                                        .run = run_matmul,
                                        .destroy = matmul_destroy};

/* ---- 16 bits through f32 --------------------------------------------------------------------- */

typedef struct staged_kernel {
    yki_kernel base;
    yki_kernel *inner;
    yk_dtype dtype;
    int threads;
    size_t elements[3], at[3]; /* of a, b and y, and where in scratch their copies are */
    size_t inner_at;           /* the scratch of the inner kernel */
} staged_kernel;

static void staged_destroy(yki_kernel *kernel)
{
    staged_kernel *k = (staged_kernel *)kernel;
    matmul_destroy(k->inner);
    free(k);
}

static size_t reserve(yki_kernel *kernel, size_t bytes)
{
    const size_t at = kernel->scratch;
    kernel->scratch = yki_align(at + bytes, YKI_SCRATCH_ALIGNMENT);
    return at;
}

static yk_status prepare_staged(yki_device *device, const yki_kernel_desc *desc,
                                yki_kernel **kernel)
{
    yki_kernel_desc f32 = *desc;
    yki_operand *const operands[] = {&f32.in[YKI_MATMUL_A], &f32.in[YKI_MATMUL_B],
                                     &f32.out[YKI_MATMUL_Y]};
    staged_kernel *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a matmul kernel");
    k->dtype = desc->in[YKI_MATMUL_A].dtype;
    k->threads = device->threads;
    for (int i = 0; i < 3; i++) {
        operands[i]->dtype = YK_F32;
        k->elements[i] = (size_t)yki_operand_count(operands[i]);
        k->at[i] = reserve(&k->base, k->elements[i] * sizeof(float));
    }
    yk_status status = prepare(device, &f32, &k->inner);
    if (status != YK_OK) {
        free(k);
        return status;
    }
    k->inner_at = reserve(&k->base, k->inner->scratch);
    *kernel = &k->base;
    return YK_OK;
}

static yk_status run_staged(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const staged_kernel *k = (const staged_kernel *)kernel;
    char *scratch = run->scratch;
    void *copies[] = {scratch + k->at[0], scratch + k->at[1], scratch + k->at[2]};
    for (int i = 0; i < 2; i++)
        yki_cpu_widen(copies[i], run->in[i], k->dtype, k->elements[i], k->threads);
    const yki_kernel_args inner = {
        .in = copies, .out = &copies[2], .scratch = scratch + k->inner_at};
    YK_TRY(run_matmul(k->inner, &inner));
    yki_cpu_narrow(run->out[YKI_MATMUL_Y], copies[2], k->dtype, k->elements[2], k->threads);
    return YK_OK;
}

static bool supports_staged(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    return yki_is_float(&desc->in[YKI_MATMUL_A]);
}

const yki_kernel_impl yki_cpu_matmul_staged = {.op = &yki_op_matmul,
                                               .supports = supports_staged,
                                               .prepare = prepare_staged,
                                               .run = run_staged,
                                               .destroy = staged_destroy};

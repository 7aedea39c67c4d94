/*
 * linear with oneDNN's matrix product: y = x W^T + b, dx = dy W, dW = dy^T x, db = sum of dy.
 * Transposes are expressed as strides. In bf16 the weights are converted (packed) once per step.
 * The sums of db are made in double, of parts of the samples that depend on the shape alone and in
 * their order, so that their bits do not depend on the number of threads.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/cpu/geometry.h"
#include "device/cpu/loops/loops.h"
#include "device/cpu/onednn.h"

enum { MOST_PARTS = 64, PART_SAMPLES = 64 /* of db, at least */ };

typedef struct linear_kernel {
    yki_kernel base;
    dnnl_stream_t stream;
    yki_dnn_primitive product;
    yki_dnn_primitive convert; /* f32 weights to bf16; empty in f32 */
    yk_dtype dtype;
    bool bias;
    /* For db: */
    const yki_cpu_loops *loops;
    int64_t batch, outputs, parts; /* of dy */
    int team;
} linear_kernel;

/* (rows, columns); transposed if the memory holds (columns, rows). */
typedef struct matrix {
    int64_t rows, columns;
    yk_dtype dtype;
    bool transposed;
} matrix;

static yk_status describe_matrix(yki_md *md, const matrix *m)
{
    int64_t dims[] = {m->rows, m->columns};
    int64_t strides[] = {m->transposed ? 1 : m->columns, m->transposed ? m->rows : 1};
    return yki_md_with_strides(md, 2, dims, m->dtype, strides);
}

static void linear_destroy(yki_kernel *kernel)
{
    linear_kernel *k = (linear_kernel *)kernel;
    yki_dnn_destroy(&k->product);
    yki_dnn_destroy(&k->convert);
    free(k);
}

/* The caller destroys the descriptors, also after a failure. */
static yk_status describe_product(yki_md mds[4], const matrix *a, const matrix *b, const matrix *c,
                                  bool bias)
{
    int64_t bias_dims[] = {1, c->columns}, bias_strides[] = {c->columns, 1};
    YK_TRY(describe_matrix(&mds[0], a));
    YK_TRY(describe_matrix(&mds[1], b));
    YK_TRY(describe_matrix(&mds[2], c));
    return bias ? yki_md_with_strides(&mds[3], 2, bias_dims, YK_F32, bias_strides) : YK_OK;
}

/* c = a b (+ bias (columns of c)). Pointers at run: a, b, c, [bias]. */
static yk_status prepare_product(linear_kernel *k, dnnl_engine_t engine, const matrix *a,
                                 const matrix *b, const matrix *c, bool bias)
{
    yki_md mds[4] = {NULL};
    yk_status status = describe_product(mds, a, b, c, bias);
    if (status != YK_OK)
        goto out;
    dnnl_status_t described =
        yki_dnn_describe_matmul(&k->product.desc, engine, mds[0], mds[1], mds[3], mds[2]);
    if (described != dnnl_success) {
        status = yki_dnn_error(described, "dnnl_matmul");
        goto out;
    }
    int arguments[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS};
    yki_const_md const_mds[] = {mds[0], mds[1], mds[2], mds[3]};
    status = yki_dnn_prepare(&k->product, engine, bias ? 4 : 3, arguments, const_mds);
out:
    for (int i = 0; i < 4; i++)
        yki_md_destroy(mds[i]);
    return status;
}

/* For bf16, where the weights (O, I) are converted once per step. */
static yk_status prepare_convert(linear_kernel *k, dnnl_engine_t engine, const yki_operand *weight)
{
    yki_md from = NULL, to = NULL;
    yk_status status = yki_md_with_tag(&from, 2, weight->dims, YK_F32, dnnl_ab);
    if (status != YK_OK)
        goto out;
    status = yki_md_with_tag(&to, 2, weight->dims, YK_BF16, dnnl_ab);
    if (status != YK_OK)
        goto out;
    status = yki_dnn_prepare_reorder(&k->convert, engine, from, to);
    if (status != YK_OK)
        goto out;
    k->base.pack_input = 1;
    k->base.pack_bytes = yki_md_size(to);
out:
    yki_md_destroy(from);
    yki_md_destroy(to);
    return status;
}

static yk_status linear_create(yki_device *device, const matrix *a, const matrix *b,
                               const matrix *c, bool bias, const yki_operand *packed_weight,
                               yki_kernel **kernel)
{
    yki_cpu_device *cpu = (yki_cpu_device *)device;
    linear_kernel *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a linear kernel");
    k->stream = cpu->stream;
    k->bias = bias;
    k->dtype = a->dtype;
    k->base.matrix_unit = a->dtype == YK_BF16 && (cpu->has_amx || cpu->native_bf16);
    yk_status status = prepare_product(k, cpu->engine, a, b, c, bias);
    if (status != YK_OK)
        goto discard;
    if (packed_weight && a->dtype == YK_BF16)
        status = prepare_convert(k, cpu->engine, packed_weight);
    if (status != YK_OK)
        goto discard;
    k->base.scratch = k->product.scratch;
    *kernel = &k->base;
    return YK_OK;
discard:
    linear_destroy(&k->base);
    return status;
}

static bool linear_supports(const yki_device *device, const yki_kernel_desc *desc)
{
    bool has_bf16 = ((const yki_cpu_device *)device)->has_bf16;
    return desc->in[0].dtype == YK_F32 || (desc->in[0].dtype == YK_BF16 && has_bf16);
}

static yk_status linear_pack(const yki_kernel *kernel, const void *parameter, void *packed,
                             yki_stream *stream)
{
    (void)stream;
    const linear_kernel *k = (const linear_kernel *)kernel;
    void *pointers[] = {(void *)(uintptr_t)parameter, packed};
    return yki_dnn_run(&k->convert, k->stream, pointers, NULL);
}

/* Forward and backward read the same converted weights. */
static bool linear_same_pack(const yki_kernel *kernel, const yki_kernel *other)
{
    return kernel->pack_bytes == other->pack_bytes;
}

/* ---- forward: x (N, I), weight (O, I), [bias (O)] -> y (N, O) -------------------------------- */

static yk_status linear_create_forward(yki_device *device, const yki_kernel_desc *desc,
                                       yki_kernel **kernel)
{
    const yki_operand *x = &desc->in[YKI_LINEAR_X], *weight = &desc->in[YKI_LINEAR_WEIGHT];
    matrix a = {x->dims[0], x->dims[1], x->dtype, false};
    matrix b = {weight->dims[1], weight->dims[0], x->dtype, true};
    matrix c = {x->dims[0], weight->dims[0], desc->out[YKI_LINEAR_Y].dtype, false};
    return linear_create(device, &a, &b, &c, desc->in[YKI_LINEAR_BIAS].ndim >= 0, weight, kernel);
}

static yk_status linear_run_forward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const linear_kernel *k = (const linear_kernel *)kernel;
    void *pointers[] = {run->in[YKI_LINEAR_X], run->in[YKI_LINEAR_WEIGHT], run->out[YKI_LINEAR_Y],
                        k->bias ? run->in[YKI_LINEAR_BIAS] : NULL};
    return yki_dnn_run(&k->product, k->stream, pointers, run->scratch);
}

const yki_kernel_impl yki_cpu_linear = {.op = &yki_op_linear,
                                        .supports = linear_supports,
                                        .prepare = linear_create_forward,
                                        .run = linear_run_forward,
                                        .destroy = linear_destroy,
                                        .pack = linear_pack,
                                        .same_pack = linear_same_pack};

/* ---- gradient of x: dy (N, O), weight (O, I) -> dx (N, I) ------------------------------------ */

static yk_status linear_create_backward_data(yki_device *device, const yki_kernel_desc *desc,
                                             yki_kernel **kernel)
{
    const yki_operand *dy = &desc->in[YKI_LINEAR_BACKWARD_DATA_DY],
                      *weight = &desc->in[YKI_LINEAR_BACKWARD_DATA_WEIGHT];
    matrix a = {dy->dims[0], dy->dims[1], dy->dtype, false};
    matrix b = {weight->dims[0], weight->dims[1], dy->dtype, false};
    matrix c = {dy->dims[0], weight->dims[1], desc->out[YKI_LINEAR_BACKWARD_DATA_DX].dtype, false};
    return linear_create(device, &a, &b, &c, false, weight, kernel);
}

static yk_status linear_run_backward_data(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const linear_kernel *k = (const linear_kernel *)kernel;
    return yki_dnn_run(&k->product, k->stream,
                       (void *[]){run->in[YKI_LINEAR_BACKWARD_DATA_DY],
                                  run->in[YKI_LINEAR_BACKWARD_DATA_WEIGHT],
                                  run->out[YKI_LINEAR_BACKWARD_DATA_DX]},
                       run->scratch);
}

const yki_kernel_impl yki_cpu_linear_backward_data = {.op = &yki_op_linear_backward_data,
                                                      .supports = linear_supports,
                                                      .prepare = linear_create_backward_data,
                                                      .run = linear_run_backward_data,
                                                      .destroy = linear_destroy,
                                                      .pack = linear_pack,
                                                      .same_pack = linear_same_pack};

/* ---- gradient of the weights: x (N, I), dy (N, O) -> dweight (O, I), [dbias (O)] ------------- */

static void prepare_bias(linear_kernel *k, const yki_device *device, const yki_operand *dy)
{
    k->bias = true;
    k->loops = yki_cpu_loops_of(device);
    k->batch = dy->dims[0];
    k->outputs = dy->dims[1];
    k->parts = k->batch / PART_SAMPLES;
    k->parts = k->parts < 1 ? 1 : k->parts < MOST_PARTS ? k->parts : MOST_PARTS;
    k->team = yki_team(device, k->batch * k->outputs);
    const size_t sums = (size_t)(k->parts * k->outputs) * sizeof(double);
    k->base.scratch = sums > k->base.scratch ? sums : k->base.scratch;
}

static yk_status linear_create_backward_weight(yki_device *device, const yki_kernel_desc *desc,
                                               yki_kernel **kernel)
{
    const yki_operand *x = &desc->in[YKI_LINEAR_BACKWARD_WEIGHT_X],
                      *dy = &desc->in[YKI_LINEAR_BACKWARD_WEIGHT_DY];
    matrix a = {dy->dims[1], dy->dims[0], dy->dtype, true};
    matrix b = {x->dims[0], x->dims[1], x->dtype, false};
    matrix c = {dy->dims[1], x->dims[1], YK_F32, false};
    YK_TRY(linear_create(device, &a, &b, &c, false, NULL, kernel));
    if (desc->out[YKI_LINEAR_BACKWARD_WEIGHT_DBIAS].ndim >= 0)
        prepare_bias((linear_kernel *)*kernel, device, dy);
    return YK_OK;
}

static void sum_part(const linear_kernel *k, const char *dy, int64_t part, double *sums)
{
    const int64_t begin = k->batch * part / k->parts, end = k->batch * (part + 1) / k->parts;
    const size_t before = (size_t)(begin * k->outputs) * yk_dtype_size(k->dtype);
    memset(sums, 0, (size_t)k->outputs * sizeof *sums);
    k->loops->sum_rows(k->dtype, dy + before, NULL, end - begin, k->outputs, k->outputs, sums);
}

/* sums: (parts, outputs) */
static void sum_samples(const linear_kernel *k, const void *dy, double *sums, float *db)
{
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
        int64_t begin, end;
#pragma omp for schedule(dynamic)
        for (int64_t part = 0; part < k->parts; part++)
            sum_part(k, dy, part, sums + part * k->outputs);
        yki_share(k->outputs, &begin, &end);
        for (int64_t part = 1; part < k->parts; part++)
            for (int64_t o = begin; o < end; o++)
                sums[o] += sums[part * k->outputs + o];
        for (int64_t o = begin; o < end; o++)
            db[o] = (float)sums[o];
    }
}

static yk_status linear_run_backward_weight(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const linear_kernel *k = (const linear_kernel *)kernel;
    if (k->bias)
        sum_samples(k, run->in[YKI_LINEAR_BACKWARD_WEIGHT_DY], run->scratch,
                    run->out[YKI_LINEAR_BACKWARD_WEIGHT_DBIAS]);
    return yki_dnn_run(&k->product, k->stream,
                       (void *[]){run->in[YKI_LINEAR_BACKWARD_WEIGHT_DY],
                                  run->in[YKI_LINEAR_BACKWARD_WEIGHT_X],
                                  run->out[YKI_LINEAR_BACKWARD_WEIGHT_DWEIGHT]},
                       run->scratch);
}

const yki_kernel_impl yki_cpu_linear_backward_weight = {.op = &yki_op_linear_backward_weight,
                                                        .supports = linear_supports,
                                                        .prepare = linear_create_backward_weight,
                                                        .run = linear_run_backward_weight,
                                                        .destroy = linear_destroy};

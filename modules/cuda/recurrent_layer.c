/*
 * Recurrent layers: in each step a product with the weight by cuBLASLt, and a kernel for what the
 * gates do (kernels/recurrent.cu), one after another in the stream. Where activations have 16 bits,
 * a copy of the weight in their type is packed once per step of the optimizer, as for linear.
 */
#include "device/recurrent.h"

#include <stdlib.h>

#include "base/memory.h"
#include "implementations.h"
#include "libraries.h"

enum { STEP, CAST }; /* kernels */

typedef struct layer {
    yki_cuda_kernel cuda;
    yki_recurrent r;
    yki_cublas_product product;
    size_t product_at;   /* in scratch: what the product makes, */
    size_t hidden_at;    /* the hidden state or, in backward, the gradients of the gates, */
    size_t cell_at;      /* the cell or, in backward, what is carried from step to step, */
    size_t workspace_at; /* and the library's own */
    int64_t vectors;     /* threads of a state of all samples */
} layer;

static bool supports(const yki_device *device, const yki_kernel_desc *desc)
{
    const yk_dtype dtype = desc->in[0].dtype;
    return yki_cuda_is_real(dtype) && yki_cuda_supports(device, desc) &&
           desc->in[YKI_LSTM_WEIGHT].dtype == yki_accumulate_dtype(dtype);
}

static void destroy(yki_kernel *kernel)
{
    layer *k = (layer *)kernel;
    yki_cublas_product_fini(&k->product);
    free(k);
}

/* Forward multiplies states by the turned weight, backward gradients of gates by the weight. */
static yk_status prepare_product(layer *k, bool backward)
{
    const yk_dtype dtype = k->cuda.desc.in[0].dtype;
    const int64_t rows = k->r.gates * k->r.size;
    const yki_cublas_shape shape = {.dtype = dtype,
                                    .result = dtype,
                                    .rows = k->r.samples,
                                    .inner = backward ? rows : k->r.size,
                                    .columns = backward ? k->r.size : rows,
                                    .transpose_b = !backward};
    const yki_cublas *cublas;
    bool found;
    YK_TRY(yki_cuda_need_cublas(k->cuda.device, &cublas));
    YK_TRY(yki_cublas_prepare(&k->product, cublas, &shape, &found));
    if (!found)
        return yki_cublas_no_algorithm(&shape);
    const size_t state = (size_t)(k->r.samples * k->r.size);
    const size_t gates = state * (size_t)k->r.gates, each = yk_dtype_size(dtype);
    k->product_at = yki_cuda_reserve(&k->cuda, (backward ? state : gates) * each);
    k->hidden_at = yki_cuda_reserve(&k->cuda, (backward ? gates : state) * each);
    k->cell_at = yki_cuda_reserve(&k->cuda, state * yk_dtype_size(yki_accumulate_dtype(dtype)));
    k->workspace_at = yki_cuda_reserve(&k->cuda, k->product.workspace);
    return YK_OK;
}

static yk_status prepare_kernels(layer *k, bool backward)
{
    const yk_dtype dtype = k->cuda.desc.in[0].dtype;
    const yki_operand *weight = &k->cuda.desc.in[YKI_LSTM_WEIGHT];
    const int width = yki_cuda_width_for(dtype, k->r.size);
    k->vectors = k->r.samples * (k->r.size / width);
    YK_TRY(yki_cuda_find(&k->cuda, STEP, k->cuda.desc.op->name, dtype, width > 1));
    YK_TRY(prepare_product(k, backward));
    if (weight->dtype == dtype)
        return YK_OK;
    k->cuda.base.pack_input = YKI_LSTM_WEIGHT;
    k->cuda.base.pack_bytes = (size_t)yki_operand_count(weight) * yk_dtype_size(dtype);
    return yki_cuda_convert_find(&k->cuda, CAST, weight->dtype, dtype);
}

static yk_status prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    layer *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a recurrent layer");
    yki_cuda_kernel_init(&k->cuda, device, desc);
    k->r = yki_recurrent_of(desc, desc->attrs);
    yk_status status =
        prepare_kernels(k, desc->op == &yki_op_lstm_backward || desc->op == &yki_op_gru_backward);
    if (status == YK_OK)
        *kernel = &k->cuda.base;
    else
        destroy(&k->cuda.base);
    return status;
}

static yk_status pack(const yki_kernel *kernel, const void *parameter, void *packed,
                      yki_stream *stream)
{
    const layer *k = (const layer *)kernel;
    const yki_kernel_args run = {.stream = stream};
    return yki_cuda_convert(&k->cuda, CAST, parameter, packed,
                            yki_operand_count(&k->cuda.desc.in[YKI_LSTM_WEIGHT]), &run);
}

/* Forward and backward read the same converted weight. */
static bool same_pack(const yki_kernel *kernel, const yki_kernel *other)
{
    return kernel->pack_bytes == other->pack_bytes;
}

static yk_status multiply(const layer *k, const void *a, void *c, const yki_kernel_args *run)
{
    const yki_cublas_terms terms = {.a = a, .b = run->in[YKI_LSTM_WEIGHT], .c = c, .scale = 1};
    return yki_cublas_run(&k->product, &terms, (char *)run->scratch + k->workspace_at,
                          k->cuda.device->launcher->handle_of(run->stream));
}

static yk_status launch(const layer *k, const void *args, size_t bytes, const yki_kernel_args *run)
{
    return yki_cuda_launch(&k->cuda, STEP, yki_cuda_grid_of(k->vectors), args, bytes, run);
}

/* What both ways have. */
static yki_cuda_layer_args numbers_of(const layer *k)
{
    return (yki_cuda_layer_args){
        .samples = k->r.samples, .size = k->r.size, .steps = k->r.steps, .reverse = k->r.reverse};
}

/* The states are where they are wanted after the last step, or in scratch. */
static void *place_of(void *wanted, const yki_kernel_args *run, size_t at)
{
    return wanted ? wanted : (char *)run->scratch + at;
}

static yk_status run_forward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const layer *k = (const layer *)kernel;
    const yki_cuda_kernel *cuda = &k->cuda;
    const bool is_lstm = cuda->desc.op == &yki_op_lstm;
    void *from_hidden = (char *)run->scratch + k->product_at;
    yki_cuda_layer_args args = numbers_of(k);
    args.from_input = yki_cuda_in(cuda, run, YKI_LSTM_FROM_INPUT);
    args.bias = yki_cuda_in(cuda, run, YKI_LSTM_BIAS);
    args.lengths = yki_cuda_in(cuda, run, YKI_LSTM_LENGTHS);
    args.h0 = yki_cuda_in(cuda, run, YKI_LSTM_H0);
    args.c0 = is_lstm ? yki_cuda_in(cuda, run, YKI_LSTM_C0) : NULL;
    args.y = yki_cuda_out(cuda, run, YKI_LSTM_Y);
    args.saved = yki_cuda_out(cuda, run, is_lstm ? (int)YKI_LSTM_SAVED : (int)YKI_GRU_SAVED);
    args.hidden = place_of(yki_cuda_out(cuda, run, YKI_LSTM_H_N), run, k->hidden_at);
    if (is_lstm)
        args.cell = place_of(yki_cuda_out(cuda, run, YKI_LSTM_C_N), run, k->cell_at);
    for (args.step = 0; args.step < k->r.steps; args.step++) {
        const void *hidden = args.step == 0 ? args.h0 : args.hidden;
        args.from_hidden = hidden ? from_hidden : NULL;
        if (hidden)
            YK_TRY(multiply(k, hidden, from_hidden, run));
        YK_TRY(launch(k, &args, sizeof args, run));
    }
    return YK_OK;
}

static yk_status run_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const layer *k = (const layer *)kernel;
    const yki_cuda_kernel *cuda = &k->cuda;
    const bool is_lstm = cuda->desc.op == &yki_op_lstm_backward;
    char *scratch = run->scratch;
    yki_cuda_layer_slopes_args args = {.of = numbers_of(k), .operand = scratch + k->hidden_at};
    args.of.h0 = yki_cuda_in(cuda, run, YKI_LSTM_BACKWARD_H0);
    args.of.lengths = yki_cuda_in(cuda, run, YKI_LSTM_BACKWARD_LENGTHS);
    args.of.y = yki_cuda_in(cuda, run, YKI_LSTM_BACKWARD_Y);
    args.of.saved = yki_cuda_in(cuda, run, YKI_LSTM_BACKWARD_SAVED);
    args.from_after = scratch + k->product_at;
    args.dy = yki_cuda_in(cuda, run, YKI_LSTM_BACKWARD_DY);
    args.dh_n = yki_cuda_in(cuda, run, YKI_LSTM_BACKWARD_DH_N);
    args.dc_n = is_lstm ? yki_cuda_in(cuda, run, YKI_LSTM_BACKWARD_DC_N) : NULL;
    args.carried = args.dcell = scratch + k->cell_at;
    args.dgates = yki_cuda_out(cuda, run, YKI_LSTM_BACKWARD_DGATES);
    args.before = yki_cuda_out(cuda, run, YKI_LSTM_BACKWARD_BEFORE);
    args.dinput = is_lstm ? NULL : yki_cuda_out(cuda, run, YKI_GRU_BACKWARD_DINPUT);
    args.dh0 = yki_cuda_out(cuda, run, YKI_LSTM_BACKWARD_DH0);
    args.dc0 = is_lstm ? yki_cuda_out(cuda, run, YKI_LSTM_BACKWARD_DC0) : NULL;
    const int64_t end = args.dh0 || args.dc0 ? -1 : 0;
    for (args.of.step = k->r.steps - 1; args.of.step >= end; args.of.step--) {
        if (args.of.step < k->r.steps - 1)
            YK_TRY(multiply(k, args.operand, scratch + k->product_at, run));
        YK_TRY(launch(k, &args, sizeof args, run));
    }
    return YK_OK;
}

#define LAYER(name, way)                                                                           \
    const yki_kernel_impl yki_cuda_##name = {.op = &yki_op_##name,                                 \
                                             .supports = supports,                                 \
                                             .prepare = prepare,                                   \
                                             .run = run_##way,                                     \
                                             .destroy = destroy,                                   \
                                             .pack = pack,                                         \
                                             .same_pack = same_pack}
LAYER(lstm, forward);
LAYER(lstm_backward, backward);
LAYER(gru, forward);
LAYER(gru_backward, backward);

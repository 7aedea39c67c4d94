/* The cells of recurrent layers: see kernels/recurrent.cu. */
#include "cuda.h"
#include "implementations.h"

/* Vectors where every sample's states begin at a whole one. The last output is a state. */
static yk_status prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    const bool is_lstm = desc->op == &yki_op_lstm_cell || desc->op == &yki_op_lstm_cell_backward;
    const int64_t size = desc->in[0].dims[1] / (is_lstm ? 4 : 3);
    const bool vectors = yki_cuda_width_for(desc->in[0].dtype, size) > 1;
    return yki_cuda_prepare_one(device, desc, desc->op->name, vectors, kernel);
}

static yk_status launch(const yki_cuda_kernel *k, const yki_cuda_cell_args *cell, const void *args,
                        size_t size, const yki_kernel_args *run)
{
    const int64_t vectors = cell->size / yki_cuda_width_for(k->desc.in[0].dtype, cell->size);
    return yki_cuda_launch(k, 0, yki_cuda_grid_of(cell->samples * vectors), args, size, run);
}

static yk_status run_lstm(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    const yki_cuda_cell_args args = {.from_input = yki_cuda_in(k, run, YKI_LSTM_CELL_FROM_INPUT),
                                     .from_hidden = yki_cuda_in(k, run, YKI_LSTM_CELL_FROM_HIDDEN),
                                     .state = yki_cuda_in(k, run, YKI_LSTM_CELL_CELL),
                                     .hidden = yki_cuda_out(k, run, YKI_LSTM_CELL_HIDDEN),
                                     .next = yki_cuda_out(k, run, YKI_LSTM_CELL_NEXT),
                                     .gates = yki_cuda_out(k, run, YKI_LSTM_CELL_GATES),
                                     .samples = k->desc.in[YKI_LSTM_CELL_CELL].dims[0],
                                     .size = k->desc.in[YKI_LSTM_CELL_CELL].dims[1]};
    return launch(k, &args, &args, sizeof args, run);
}

static yk_status run_lstm_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    const yki_cuda_cell_slopes_args args = {
        .of = {.gates = yki_cuda_in(k, run, YKI_LSTM_CELL_BACKWARD_GATES),
               .state = yki_cuda_in(k, run, YKI_LSTM_CELL_BACKWARD_CELL),
               .next = yki_cuda_in(k, run, YKI_LSTM_CELL_BACKWARD_NEXT),
               .samples = k->desc.in[YKI_LSTM_CELL_BACKWARD_CELL].dims[0],
               .size = k->desc.in[YKI_LSTM_CELL_BACKWARD_CELL].dims[1]},
        .dhidden = yki_cuda_in(k, run, YKI_LSTM_CELL_BACKWARD_DHIDDEN),
        .dnext = yki_cuda_in(k, run, YKI_LSTM_CELL_BACKWARD_DNEXT),
        .dgates = yki_cuda_out(k, run, YKI_LSTM_CELL_BACKWARD_DGATES),
        .dstate = yki_cuda_out(k, run, YKI_LSTM_CELL_BACKWARD_DCELL)};
    return launch(k, &args.of, &args, sizeof args, run);
}

static yk_status run_gru(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    const yki_cuda_cell_args args = {.from_input = yki_cuda_in(k, run, YKI_GRU_CELL_FROM_INPUT),
                                     .from_hidden = yki_cuda_in(k, run, YKI_GRU_CELL_FROM_HIDDEN),
                                     .state = yki_cuda_in(k, run, YKI_GRU_CELL_HIDDEN),
                                     .hidden = yki_cuda_out(k, run, YKI_GRU_CELL_NEXT),
                                     .gates = yki_cuda_out(k, run, YKI_GRU_CELL_GATES),
                                     .samples = k->desc.in[YKI_GRU_CELL_HIDDEN].dims[0],
                                     .size = k->desc.in[YKI_GRU_CELL_HIDDEN].dims[1]};
    return launch(k, &args, &args, sizeof args, run);
}

static yk_status run_gru_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_cuda_kernel *k = (const yki_cuda_kernel *)kernel;
    const yki_cuda_cell_slopes_args args = {
        .of = {.gates = yki_cuda_in(k, run, YKI_GRU_CELL_BACKWARD_GATES),
               .from_hidden = yki_cuda_in(k, run, YKI_GRU_CELL_BACKWARD_FROM_HIDDEN),
               .state = yki_cuda_in(k, run, YKI_GRU_CELL_BACKWARD_HIDDEN),
               .samples = k->desc.in[YKI_GRU_CELL_BACKWARD_HIDDEN].dims[0],
               .size = k->desc.in[YKI_GRU_CELL_BACKWARD_HIDDEN].dims[1]},
        .dhidden = yki_cuda_in(k, run, YKI_GRU_CELL_BACKWARD_DNEXT),
        .dinput = yki_cuda_out(k, run, YKI_GRU_CELL_BACKWARD_DINPUT),
        .dgates = yki_cuda_out(k, run, YKI_GRU_CELL_BACKWARD_DGATES),
        .dstate = yki_cuda_out(k, run, YKI_GRU_CELL_BACKWARD_DHIDDEN)};
    return launch(k, &args.of, &args, sizeof args, run);
}

IMPLEMENTATION(lstm_cell, yki_cuda_supports, prepare, run_lstm, 0);
IMPLEMENTATION(lstm_cell_backward, yki_cuda_supports, prepare, run_lstm_backward, 0);
IMPLEMENTATION(gru_cell, yki_cuda_supports, prepare, run_gru, 0);
IMPLEMENTATION(gru_cell_backward, yki_cuda_supports, prepare, run_gru_backward, 0);

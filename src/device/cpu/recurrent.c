/* The cells of recurrent layers: threads share the samples. See loops/recurrent.h. */
#include "base/memory.h"
#include "device/cpu/geometry.h"
#include "device/cpu/loops/loops.h"

enum { LSTM_GATES = 4, GRU_GATES = 3 };

typedef struct cell {
    yki_kernel base;
    const yki_cpu_loops *loops;
    yk_dtype dtype;
    int64_t samples, size; /* size: of a state */
    int team;
} cell;

/* What is there has one dtype. */
static bool supports(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    bool good = yki_is_float(&desc->in[0]);
    for (int i = 0; i < desc->in_count; i++)
        good = good && (!yki_has_in(desc, i) || desc->in[i].dtype == desc->in[0].dtype);
    for (int i = 0; i < desc->out_count; i++)
        good = good && (!yki_has_out(desc, i) || desc->out[i].dtype == desc->in[0].dtype);
    return good;
}

/* The first input has the gates, of forward and backward. */
static yk_status prepare(yki_device *device, const yki_kernel_desc *desc, int64_t gates,
                         yki_kernel **kernel)
{
    cell *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a recurrent cell");
    k->loops = yki_cpu_loops_of(device);
    k->dtype = desc->in[0].dtype;
    k->samples = desc->in[0].dims[0];
    k->size = desc->in[0].dims[1] / gates;
    k->team = yki_team(device, yki_operand_count(&desc->in[0]));
    *kernel = &k->base;
    return YK_OK;
}

static yk_status prepare_lstm(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    return prepare(device, desc, LSTM_GATES, kernel);
}

static yk_status prepare_gru(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    return prepare(device, desc, GRU_GATES, kernel);
}

/* A sample of an operand with so many states in a row; NULL of what is absent. */
static const void *read_at(const cell *k, const void *operand, int64_t sample, int64_t states)
{
    const size_t offset = (size_t)(sample * states * k->size) * yk_dtype_size(k->dtype);
    return operand ? (const char *)operand + offset : NULL;
}

static void *write_at(const cell *k, void *operand, int64_t sample, int64_t states)
{
    return (void *)(uintptr_t)read_at(k, operand, sample, states);
}

#define FOR_EACH_SAMPLE(k, n)                                                                      \
    _Pragma("omp parallel for num_threads(k->team) if (k->team > 1)") for (int64_t n = 0;          \
                                                                           n < k->samples; n++)

static yk_status run_lstm(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const cell *k = (const cell *)kernel;
    FOR_EACH_SAMPLE(k, n)
    {
        const yki_lstm_row row = {
            .from_input = read_at(k, run->in[YKI_LSTM_CELL_FROM_INPUT], n, LSTM_GATES),
            .from_hidden = read_at(k, run->in[YKI_LSTM_CELL_FROM_HIDDEN], n, LSTM_GATES),
            .cell = read_at(k, run->in[YKI_LSTM_CELL_CELL], n, 1),
            .hidden = write_at(k, run->out[YKI_LSTM_CELL_HIDDEN], n, 1),
            .next = write_at(k, run->out[YKI_LSTM_CELL_NEXT], n, 1),
            .gates = write_at(k, run->out[YKI_LSTM_CELL_GATES], n, LSTM_GATES)};
        k->loops->lstm_cell(k->dtype, &row, k->size);
    }
    return YK_OK;
}

static yk_status run_lstm_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const cell *k = (const cell *)kernel;
    FOR_EACH_SAMPLE(k, n)
    {
        const yki_lstm_slopes row = {
            .gates = read_at(k, run->in[YKI_LSTM_CELL_BACKWARD_GATES], n, LSTM_GATES),
            .cell = read_at(k, run->in[YKI_LSTM_CELL_BACKWARD_CELL], n, 1),
            .next = read_at(k, run->in[YKI_LSTM_CELL_BACKWARD_NEXT], n, 1),
            .dhidden = read_at(k, run->in[YKI_LSTM_CELL_BACKWARD_DHIDDEN], n, 1),
            .dnext = read_at(k, run->in[YKI_LSTM_CELL_BACKWARD_DNEXT], n, 1),
            .dgates = write_at(k, run->out[YKI_LSTM_CELL_BACKWARD_DGATES], n, LSTM_GATES),
            .dcell = write_at(k, run->out[YKI_LSTM_CELL_BACKWARD_DCELL], n, 1)};
        k->loops->lstm_cell_slopes(k->dtype, &row, k->size);
    }
    return YK_OK;
}

static yk_status run_gru(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const cell *k = (const cell *)kernel;
    FOR_EACH_SAMPLE(k, n)
    {
        const yki_gru_row row = {
            .from_input = read_at(k, run->in[YKI_GRU_CELL_FROM_INPUT], n, GRU_GATES),
            .from_hidden = read_at(k, run->in[YKI_GRU_CELL_FROM_HIDDEN], n, GRU_GATES),
            .hidden = read_at(k, run->in[YKI_GRU_CELL_HIDDEN], n, 1),
            .next = write_at(k, run->out[YKI_GRU_CELL_NEXT], n, 1),
            .gates = write_at(k, run->out[YKI_GRU_CELL_GATES], n, GRU_GATES)};
        k->loops->gru_cell(k->dtype, &row, k->size);
    }
    return YK_OK;
}

static yk_status run_gru_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const cell *k = (const cell *)kernel;
    FOR_EACH_SAMPLE(k, n)
    {
        const yki_gru_slopes row = {
            .gates = read_at(k, run->in[YKI_GRU_CELL_BACKWARD_GATES], n, GRU_GATES),
            .from_hidden = read_at(k, run->in[YKI_GRU_CELL_BACKWARD_FROM_HIDDEN], n, GRU_GATES),
            .hidden = read_at(k, run->in[YKI_GRU_CELL_BACKWARD_HIDDEN], n, 1),
            .dnext = read_at(k, run->in[YKI_GRU_CELL_BACKWARD_DNEXT], n, 1),
            .dinput = write_at(k, run->out[YKI_GRU_CELL_BACKWARD_DINPUT], n, GRU_GATES),
            .dgates = write_at(k, run->out[YKI_GRU_CELL_BACKWARD_DGATES], n, GRU_GATES),
            .dhidden = write_at(k, run->out[YKI_GRU_CELL_BACKWARD_DHIDDEN], n, 1)};
        k->loops->gru_cell_slopes(k->dtype, &row, k->size);
    }
    return YK_OK;
}

#define IMPL(name, prepare_, run_)                                                                 \
    const yki_kernel_impl yki_cpu_##name = {                                                       \
        .op = &yki_op_##name, .supports = supports, .prepare = prepare_, .run = run_}
IMPL(lstm_cell, prepare_lstm, run_lstm);
IMPL(lstm_cell_backward, prepare_lstm, run_lstm_backward);
IMPL(gru_cell, prepare_gru, run_gru);
IMPL(gru_cell_backward, prepare_gru, run_gru_backward);

/*
 * Recurrent layers, of all steps. A step is a product with the weight, of a few rows and a vector
 * of units of every gate at a time, and what the gates then do to the states of these units, while
 * their sums are in the first-level cache. The weight is packed in the order in which it is read.
 *
 * Each thread takes all steps of its own samples, so that threads never wait for each other, and
 * the weight stays in the caches of each. Where there are fewer samples than that needs, threads
 * share the units of all samples instead, and meet after each step. Every sum is made in the same
 * order either way: a sample's results depend neither on the threads nor on the other samples.
 *
 * Threads keep their sequences in the order of their lengths, the longest first, so that those that
 * have a step i are neighbours. What the products read is f32, or bf16 where that is faster.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/cpu/geometry.h"
#include "device/cpu/loops/loops.h"
#include "device/cpu/onednn.h"
#include "device/recurrent.h"
#include "tensor/bf16.h"
#include "tensor/element.h"

enum {
    LSTM_GATES = 4,
    LEAST_SAMPLES = 2,     /* of a thread, where it has samples of its own */
    THREAD_WORK = 1 << 16, /* multiplications that are worth a thread, ... */
    SHARED_WORK = 1 << 16, /* ... and of a step, where threads share it */
    NEAR_WEIGHT = 1 << 19, /* bytes of weights that stay in the second-level cache */
    MOST_LANES = 16,
    TILE_PAIRS = 16
};

typedef struct layer {
    yki_kernel base;
    const yki_gate_loops *loops;
    yki_recurrent r;
    yk_dtype dtype, operand; /* of activations, and of what products read: f32 or bf16 */
    int64_t lanes, vectors;  /* of a vector, and of a state */
    int64_t inner;           /* numbers of 4 bytes of a row that is multiplied */
    int team;
    bool shares_units;
    size_t counts_at, kept_at, dcell_at, bias_at, operand_at, operand_bytes; /* in scratch */
} layer;

/* A run. A slot is a sample's place among all, by threads and then by lengths. */
typedef struct passage {
    const layer *k;
    const yki_kernel_args *run;
    int64_t *samples, *counts; /* by slot: the sample, and how many steps it has */
    float *kept, *dcell;       /* (slots, padded): the LSTM's cell, the GRU's hidden state; in
                                  backward, what does not pass the weight, and the cell's gradient */
    float *bias;               /* (vectors, gates, lanes) */
    char *operand[2];          /* (slots, inner): of steps of either parity */
} passage;

static int64_t padded_size(const layer *k)
{
    return k->vectors * k->lanes;
}

/* Of the vector that begins with this one. */
static int64_t units_of(const layer *k, int64_t unit)
{
    return k->r.size - unit < k->lanes ? k->r.size - unit : k->lanes;
}

/* ---- preparation ----------------------------------------------------------------------------- */

/* What is there has one dtype, besides parameters and lengths. */
static bool supports(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    const bool backward = desc->op == &yki_op_lstm_backward || desc->op == &yki_op_gru_backward;
    const int first_activation = backward ? YKI_LSTM_BACKWARD_H0 : YKI_LSTM_H0;
    bool good = yki_is_float(&desc->in[0]) && desc->in[YKI_LSTM_WEIGHT].dtype == YK_F32;
    for (int i = first_activation; i < desc->in_count; i++)
        good = good && (!yki_has_in(desc, i) || desc->in[i].dtype == desc->in[0].dtype);
    for (int i = 0; i < desc->out_count; i++)
        good = good && (!yki_has_out(desc, i) || desc->out[i].dtype == desc->in[0].dtype);
    return good;
}

static size_t reserve(layer *k, size_t bytes)
{
    const size_t at = k->base.scratch;
    k->base.scratch = yki_align(at + bytes, YKI_SCRATCH_ALIGNMENT);
    return at;
}

static void choose_team(layer *k, int threads)
{
    const double step = (double)(k->r.samples * k->r.gates * k->r.size) * (double)k->r.size;
    const double worth = step * (double)k->r.steps / THREAD_WORK;
    const int64_t shares = k->r.samples / LEAST_SAMPLES;
    k->team = worth < threads ? (int)worth : threads;
    k->team = k->team < 1 ? 1 : k->team;
    k->shares_units = shares < k->team && step >= SHARED_WORK;
    if (!k->shares_units && shares < k->team)
        k->team = shares < 1 ? 1 : (int)shares;
}

static void choose_loops(layer *k, const yki_device *device)
{
    const yki_cpu_loops *loops = yki_cpu_loops_of(device);
    k->lanes = loops->pack / 2;
    k->loops = &loops->gates;
    k->operand = YK_F32;
#if defined(__x86_64__)
    const yki_cpu_device *cpu = (const yki_cpu_device *)device;
    if (k->dtype == YK_BF16 && device->block == MOST_LANES && (cpu->has_amx || cpu->native_bf16)) {
        k->loops = cpu->has_amx ? &yki_gate_loops_amx : &yki_gate_loops_bf16;
        k->operand = YK_BF16;
    }
#endif
}

static yk_status prepare(yki_device *device, const yki_kernel_desc *desc, int64_t width,
                         yki_kernel **kernel)
{
    layer *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a recurrent layer");
    k->r = yki_recurrent_of(desc, desc->attrs);
    k->dtype = desc->in[0].dtype;
    choose_loops(k, device);
    k->vectors = (k->r.size + k->lanes - 1) / k->lanes;
    choose_team(k, device->threads);
    const size_t samples = (size_t)k->r.samples, state = samples * (size_t)padded_size(k);
    k->inner = width * padded_size(k);
    if (k->operand == YK_BF16) /* pairs, of which a tile has 16 */
        k->inner = (k->inner / 2 + TILE_PAIRS - 1) / TILE_PAIRS * TILE_PAIRS;
    k->base.matrix_unit = k->operand == YK_BF16;
    k->base.pack_input = YKI_LSTM_WEIGHT;
    k->base.pack_bytes = (size_t)(k->inner * k->r.gates / width * padded_size(k)) * sizeof(float);
    reserve(k, (samples + (size_t)k->r.steps + 1) * sizeof(int64_t));
    k->counts_at = reserve(k, samples * sizeof(int64_t));
    k->kept_at = reserve(k, state * sizeof(float));
    k->dcell_at = reserve(k, state * sizeof(float));
    k->bias_at = reserve(k, (size_t)(k->r.gates * padded_size(k)) * sizeof(float));
    k->operand_bytes = yki_align(samples * (size_t)k->inner * sizeof(float), YKI_SCRATCH_ALIGNMENT);
    k->operand_at = reserve(k, 2 * k->operand_bytes);
    *kernel = &k->base;
    return YK_OK;
}

/* The product of forward reads the hidden state, ... */
static yk_status prepare_forward(yki_device *device, const yki_kernel_desc *desc,
                                 yki_kernel **kernel)
{
    return prepare(device, desc, 1, kernel);
}

/* ... and that of backward the gradients of all gates. */
static yk_status prepare_backward(yki_device *device, const yki_kernel_desc *desc,
                                  yki_kernel **kernel)
{
    return prepare(device, desc,
                   desc->in[YKI_LSTM_WEIGHT].dims[0] / desc->in[YKI_LSTM_WEIGHT].dims[1], kernel);
}

/* ---- packed weights -------------------------------------------------------------------------- */

/* Number `inner` of a column, in lane `lane` of a vector. */
static void put_number(const layer *k, void *vectors, int64_t at, int64_t inner, int64_t vector,
                       int64_t count, int64_t lane, float value)
{
    if (k->operand == YK_F32) {
        ((float *)vectors)[at + (inner * count + vector) * k->lanes + lane] = value;
        return;
    }
    const int64_t pair = at + (inner / 2 * count + vector) * k->lanes + lane;
    ((uint16_t *)vectors)[2 * pair + inner % 2] = yki_bf16_from_float(value);
}

/* (vectors, inner, gates, lanes): a vector of units of every gate for each number of the state. */
static yk_status pack_forward(const yki_kernel *kernel, const void *parameter, void *packed,
                              yki_stream *stream)
{
    const layer *k = (const layer *)kernel;
    const int64_t size = k->r.size, gates = k->r.gates, each = k->inner * gates * k->lanes;
    (void)stream;
#pragma omp parallel for num_threads(k->team) if (k->team > 1)
    for (int64_t vector = 0; vector < k->vectors; vector++) {
        memset((float *)packed + vector * each, 0, (size_t)each * sizeof(float));
        for (int64_t g = 0; g < gates; g++)
            for (int64_t lane = 0; lane < k->lanes && vector * k->lanes + lane < size; lane++) {
                const float *row =
                    (const float *)parameter + (g * size + vector * k->lanes + lane) * size;
                for (int64_t i = 0; i < size; i++)
                    put_number(k, packed, vector * each, i, g, gates, lane, row[i]);
            }
    }
    return YK_OK;
}

/* The columns of the weight are multiplied a few vectors at a time: blocks of nearly equal size. */
static int64_t block_count(const layer *k)
{
    return (k->vectors + YKI_GATE_VECTORS - 1) / YKI_GATE_VECTORS;
}

static int64_t block_begin(const layer *k, int64_t block)
{
    return k->vectors * block / block_count(k);
}

/* (blocks, inner, vectors of the block, lanes): a row is a gate of a unit. */
static yk_status pack_backward(const yki_kernel *kernel, const void *parameter, void *packed,
                               yki_stream *stream)
{
    const layer *k = (const layer *)kernel;
    const int64_t size = k->r.size, padded = padded_size(k);
    (void)stream;
#pragma omp parallel for num_threads(k->team) if (k->team > 1)
    for (int64_t block = 0; block < block_count(k); block++) {
        const int64_t begin = block_begin(k, block), count = block_begin(k, block + 1) - begin;
        const int64_t first = begin * k->lanes, at = first * k->inner;
        const int64_t end = size < first + count * k->lanes ? size : first + count * k->lanes;
        memset((float *)packed + at, 0, (size_t)(k->inner * count * k->lanes) * sizeof(float));
        for (int64_t row = 0; row < k->r.gates * size; row++) {
            const int64_t inner = row / size * padded + row % size;
            const float *from = (const float *)parameter + row * size;
            for (int64_t i = first; i < end; i++)
                put_number(k, packed, at, inner, (i - first) / k->lanes, count,
                           (i - first) % k->lanes, from[i]);
        }
    }
    return YK_OK;
}

/* ---- slots ----------------------------------------------------------------------------------- */

/* So many threads have samples of their own. */
static int64_t owners(const layer *k)
{
    return k->shares_units ? 1 : k->team;
}

static int64_t first_slot(const layer *k, int64_t owner)
{
    const int64_t each = k->r.samples / owners(k), left = k->r.samples % owners(k);
    return owner * each + (owner < left ? owner : left);
}

static int64_t count_steps(const passage *p, int64_t sample, int lengths)
{
    const void *given = p->run->in[lengths];
    return given ? yki_steps_of_length(((const float *)given)[sample], p->k->r.steps)
                 : p->k->r.steps;
}

/* The longest sequences first, which the owners take in turn. `lengths` is an input. */
static void fill_slots(const passage *p, int lengths)
{
    const layer *k = p->k;
    int64_t *begins = p->samples + k->r.samples; /* of the sequences with so many steps */
    memset(begins, 0, (size_t)(k->r.steps + 1) * sizeof *begins);
    for (int64_t n = 0; n < k->r.samples; n++)
        begins[count_steps(p, n, lengths)]++;
    int64_t at = 0;
    for (int64_t steps = k->r.steps; steps >= 0; steps--) {
        const int64_t count = begins[steps];
        begins[steps] = at;
        at += count;
    }
    for (int64_t n = 0; n < k->r.samples; n++) {
        const int64_t steps = count_steps(p, n, lengths), place = begins[steps]++;
        const int64_t slot = first_slot(k, place % owners(k)) + place / owners(k);
        p->samples[slot] = n;
        p->counts[slot] = steps;
    }
}

static passage begin(const layer *k, const yki_kernel_args *run, int lengths)
{
    char *scratch = run->scratch;
    const passage p = {
        .k = k,
        .run = run,
        .samples = (int64_t *)scratch,
        .counts = (int64_t *)(scratch + k->counts_at),
        .kept = (float *)(scratch + k->kept_at),
        .dcell = (float *)(scratch + k->dcell_at),
        .bias = (float *)(scratch + k->bias_at),
        .operand = {scratch + k->operand_at, scratch + k->operand_at + k->operand_bytes}};
    fill_slots(&p, lengths);
    memset(p.operand[0], 0, 2 * k->operand_bytes);
    return p;
}

/* ---- operands -------------------------------------------------------------------------------- */

/* Of a slot's sample at a time, in an operand of so many groups of states; NULL if it is absent. */
static void *step_at(const passage *p, void *operand, int64_t slot, int64_t t, int64_t groups)
{
    const layer *k = p->k;
    const int64_t row = p->samples[slot] * k->r.steps + t;
    return operand ? (char *)operand + (size_t)(row * groups * k->r.size) * yk_dtype_size(k->dtype)
                   : NULL;
}

static void *state_at(const passage *p, void *operand, int64_t slot)
{
    const size_t bytes = (size_t)p->k->r.size * yk_dtype_size(p->k->dtype);
    return operand ? (char *)operand + (size_t)p->samples[slot] * bytes : NULL;
}

static char *operand_at(const passage *p, int64_t parity, int64_t slot)
{
    return p->operand[parity & 1] + (size_t)(slot * p->k->inner) * sizeof(float);
}

/* A state of a slot from an operand, in whole vectors; zeros if it is absent. */
static void read_state(const passage *p, void *operand, int64_t slot, float *state)
{
    const layer *k = p->k;
    float *row = state + slot * padded_size(k);
    const void *from = state_at(p, operand, slot);
    memset(row, 0, (size_t)padded_size(k) * sizeof *row);
    for (int64_t i = 0; from && i < k->r.size; i++)
        row[i] = (float)yki_element_get(k->dtype, from, i);
}

static void write_state(const passage *p, void *operand, int64_t slot, const float *state)
{
    void *to = state_at(p, operand, slot);
    for (int64_t i = 0; to && i < p->k->r.size; i++)
        yki_element_set(p->k->dtype, to, i, state[i]);
}

/* Zeros after the end of a slot's sequence. */
static void clear_ended(const passage *p, void *operand, int64_t slot, int64_t groups)
{
    const layer *k = p->k;
    const int64_t steps = k->r.steps - p->counts[slot];
    if (operand && steps > 0)
        memset(step_at(p, operand, slot, p->counts[slot], groups), 0,
               (size_t)(steps * groups * k->r.size) * yk_dtype_size(k->dtype));
}

static int64_t time_of(const passage *p, int64_t slot, int64_t i)
{
    return yki_time_of_step(i, p->counts[slot], p->k->r.reverse);
}

/* ---- rows of a product ----------------------------------------------------------------------- */

/* What part of a step is done: slots [first, first + active), and vectors or blocks of units. */
typedef struct part {
    int64_t first, active, begin, end;
    int64_t step;
} part;

/* Some of the part's slots, and all of its units. */
typedef void tile_fn(const passage *p, const part *of, int64_t slot, int rows);

/* A few rows at a time, nearly equally many. */
static void for_each_tile(const passage *p, const part *of, int most, tile_fn *run)
{
    const int64_t tiles = (of->active + most - 1) / most;
    for (int64_t i = 0; i < tiles; i++) {
        const int64_t begin = of->active * i / tiles, end = of->active * (i + 1) / tiles;
        run(p, of, of->first + begin, (int)(end - begin));
    }
}

/* As many units at a time as have weights that stay in the second-level cache, from which every
 * tile reads them. `units`: of all threads. */
static void for_each_unit(const passage *p, const part *of, int64_t units, int most, tile_fn *run)
{
    const int64_t bytes = (int64_t)p->k->base.pack_bytes / units, count = of->end - of->begin;
    const int64_t fit = bytes < NEAR_WEIGHT ? NEAR_WEIGHT / bytes : 1;
    const int64_t groups = (count + fit - 1) / fit;
    for (int64_t i = 0; i < groups; i++) {
        part group = *of;
        group.begin = of->begin + count * i / groups;
        group.end = of->begin + count * (i + 1) / groups;
        for_each_tile(p, &group, most, run);
    }
}

/* The threads' parts of all steps: each its own samples, or its share of `units`. */
typedef void steps_fn(const passage *p, part *own);

static void run_parts(const passage *p, int64_t units, steps_fn *steps)
{
    const layer *k = p->k;
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
        part own = {.first = 0, .active = k->r.samples, .begin = 0, .end = units};
        if (k->shares_units) {
            yki_share(units, &own.begin, &own.end);
            steps(p, &own);
        } else
            for (int64_t i = omp_get_thread_num(); i < k->team; i += omp_get_num_threads()) {
                own.first = first_slot(k, i);
                own.active = first_slot(k, i + 1) - own.first;
                steps(p, &own);
            }
    }
}

/* Between steps, where threads share them. */
static void meet(const layer *k)
{
    if (k->shares_units) {
#pragma omp barrier
    }
}

/* ---- forward --------------------------------------------------------------------------------- */

static bool is_lstm(const layer *k)
{
    return k->r.gates == LSTM_GATES;
}

static void *saved_of(const layer *k, const yki_kernel_args *run)
{
    return run->out[is_lstm(k) ? (int)YKI_LSTM_SAVED : (int)YKI_GRU_SAVED];
}

/* What the step reads of other operands comes from memory meanwhile. */
static void fetch_gates(const layer *k, const yki_recurrent_step *steps, int rows, int64_t unit)
{
    const int64_t bytes = (int64_t)yk_dtype_size(k->dtype);
    for (int r = 0; r < rows; r++)
        for (int64_t g = 0; g < k->r.gates; g++)
            __builtin_prefetch((const char *)steps[r].from_input + (g * k->r.size + unit) * bytes);
}

/* Of a row, but for its units. */
static yki_recurrent_step step_of(const passage *p, int64_t slot, int64_t step)
{
    const layer *k = p->k;
    const yki_kernel_args *run = p->run;
    const int64_t t = time_of(p, slot, step), gates = k->r.gates;
    return (yki_recurrent_step){.dtype = k->dtype,
                                .operand_dtype = k->operand,
                                .size = k->r.size,
                                .from_input =
                                    step_at(p, run->in[YKI_LSTM_FROM_INPUT], slot, t, gates),
                                .saved = step_at(p, saved_of(k, run), slot, t, gates + 1),
                                .y = step_at(p, run->out[YKI_LSTM_Y], slot, t, 1),
                                .operand = operand_at(p, step + 1, slot),
                                .kept = p->kept + slot * padded_size(k)};
}

static void forward_tile(const passage *p, const part *of, int64_t slot, int rows)
{
    const layer *k = p->k;
    float sums[YKI_GATE_ROWS * YKI_GATE_VECTORS * MOST_LANES] __attribute__((aligned(64)));
    const int64_t gates = k->r.gates, each = gates * k->lanes;
    yki_recurrent_step steps[YKI_GATE_ROWS];
    for (int r = 0; r < rows; r++)
        steps[r] = step_of(p, slot + r, of->step);
    for (int64_t vector = of->begin; vector < of->end; vector++) {
        const int64_t unit = vector * k->lanes;
        const yki_gate_product product = {.a = operand_at(p, of->step, slot),
                                          .b = (const float *)p->run->in[YKI_LSTM_WEIGHT] +
                                               vector * k->inner * each,
                                          .c = sums,
                                          .pitch = k->inner,
                                          .inner = k->inner};
        fetch_gates(k, steps, rows, unit);
        k->loops->multiply(&product, rows, (int)gates);
        for (int r = 0; r < rows; r++) {
            steps[r].unit = unit;
            steps[r].count = units_of(k, unit);
            steps[r].product = sums + r * each;
            steps[r].bias = p->bias + vector * each;
        }
        (is_lstm(k) ? k->loops->lstm : k->loops->gru)(steps, rows);
    }
}

static void forward_steps(const passage *p, part *own)
{
    const layer *k = p->k;
    const int most = k->loops->rows[k->r.gates];
    for (own->step = 0; own->step < k->r.steps; own->step++) {
        while (own->active > 0 && p->counts[own->first + own->active - 1] <= own->step)
            own->active--;
        if (own->active == 0)
            break;
        for_each_unit(p, own, k->vectors, most, forward_tile);
        meet(k);
    }
}

static void pack_bias(const passage *p)
{
    const layer *k = p->k;
    const float *bias = p->run->in[YKI_LSTM_BIAS];
    memset(p->bias, 0, (size_t)(k->r.gates * padded_size(k)) * sizeof *bias);
    for (int64_t g = 0; g < k->r.gates; g++)
        for (int64_t i = 0; i < k->r.size; i++)
            p->bias[(i / k->lanes * k->r.gates + g) * k->lanes + i % k->lanes] =
                bias[g * k->r.size + i];
}

/* The hidden state of a slot before the first step, as the products read it. */
static void read_first(const passage *p, int64_t slot)
{
    const layer *k = p->k;
    const void *h0 = state_at(p, p->run->in[YKI_LSTM_H0], slot);
    for (int64_t i = 0; h0 && i < k->r.size; i++)
        yki_element_set(k->operand, operand_at(p, 0, slot), i, yki_element_get(k->dtype, h0, i));
}

static void write_last(const passage *p, int64_t slot, void *h_n)
{
    const layer *k = p->k;
    void *to = state_at(p, h_n, slot);
    const char *from = operand_at(p, p->counts[slot], slot);
    for (int64_t i = 0; to && i < k->r.size; i++)
        yki_element_set(k->dtype, to, i, yki_element_get(k->operand, from, i));
}

static yk_status run_forward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const layer *k = (const layer *)kernel;
    const passage p = begin(k, run, YKI_LSTM_LENGTHS);
    void *first = run->in[is_lstm(k) ? (int)YKI_LSTM_C0 : (int)YKI_GRU_H0];
    pack_bias(&p);
    for (int64_t slot = 0; slot < k->r.samples; slot++) {
        read_first(&p, slot);
        read_state(&p, first, slot, p.kept);
    }
    run_parts(&p, k->vectors, forward_steps);
    for (int64_t slot = 0; slot < k->r.samples; slot++) {
        const float *kept = p.kept + slot * padded_size(k);
        if (is_lstm(k))
            write_last(&p, slot, run->out[YKI_LSTM_H_N]);
        write_state(&p, run->out[is_lstm(k) ? (int)YKI_LSTM_C_N : (int)YKI_GRU_H_N], slot, kept);
        clear_ended(&p, run->out[YKI_LSTM_Y], slot, 1);
        clear_ended(&p, saved_of(k, run), slot, k->r.gates + 1);
    }
    return YK_OK;
}

/* ---- backward -------------------------------------------------------------------------------- */

/* The hidden state before a step of a slot; NULL: zeros. */
static void *state_before(const passage *p, int64_t slot, int64_t i)
{
    if (i == 0)
        return state_at(p, p->run->in[YKI_LSTM_BACKWARD_H0], slot);
    return step_at(p, p->run->in[YKI_LSTM_BACKWARD_Y], slot, time_of(p, slot, i - 1), 1);
}

static void write_before(const passage *p, int64_t slot)
{
    const size_t bytes = (size_t)p->k->r.size * yk_dtype_size(p->k->dtype);
    void *before = p->run->out[YKI_LSTM_BACKWARD_BEFORE];
    for (int64_t i = 0; before && i < p->counts[slot]; i++) {
        const void *from = state_before(p, slot, i);
        void *to = step_at(p, before, slot, time_of(p, slot, i), 1);
        if (from)
            memcpy(to, from, bytes);
        else
            memset(to, 0, bytes);
    }
    clear_ended(p, before, slot, 1);
}

/* What step `step` gives to the hidden state before it. */
static int multiply_block(const passage *p, int64_t step, int64_t slot, int rows, int64_t block,
                          float *sums)
{
    const layer *k = p->k;
    const int64_t begin = block_begin(k, block), count = block_begin(k, block + 1) - begin;
    yki_gate_product product = {.a = operand_at(p, step, slot),
                                .b = (const float *)p->run->in[YKI_LSTM_BACKWARD_WEIGHT] +
                                     begin * k->lanes * k->inner,
                                .pitch = k->inner,
                                .inner = k->inner};
    product.c = sums;
    k->loops->multiply(&product, rows, (int)count);
    return (int)count;
}

/* Of a row, but for its units. */
static yki_recurrent_slopes slopes_of(const passage *p, int64_t slot, int64_t step)
{
    const layer *k = p->k;
    const yki_kernel_args *run = p->run;
    const int64_t t = time_of(p, slot, step), gates = k->r.gates;
    void *dinput = is_lstm(k) ? NULL : run->out[YKI_GRU_BACKWARD_DINPUT];
    return (yki_recurrent_slopes){
        .dtype = k->dtype,
        .operand_dtype = k->operand,
        .size = k->r.size,
        .padded = padded_size(k),
        .carried = p->kept + slot * padded_size(k),
        .dcell = p->dcell + slot * padded_size(k),
        .saved = step_at(p, run->in[YKI_LSTM_BACKWARD_SAVED], slot, t, gates + 1),
        .dy = step_at(p, run->in[YKI_LSTM_BACKWARD_DY], slot, t, 1),
        .before = state_before(p, slot, step),
        .dgates = step_at(p, run->out[YKI_LSTM_BACKWARD_DGATES], slot, t, gates),
        .dinput = step_at(p, dinput, slot, t, gates),
        .operand = operand_at(p, step, slot)};
}

static void backward_tile(const passage *p, const part *of, int64_t slot, int rows)
{
    const layer *k = p->k;
    float sums[YKI_GATE_ROWS * YKI_GATE_VECTORS * MOST_LANES] __attribute__((aligned(64)));
    yki_recurrent_slopes slopes[YKI_GATE_ROWS];
    for (int r = 0; r < rows; r++)
        slopes[r] = slopes_of(p, slot + r, of->step);
    for (int64_t block = of->begin; block < of->end; block++) {
        const int vectors = multiply_block(p, of->step + 1, slot, rows, block, sums);
        for (int v = 0; v < vectors; v++) {
            const int64_t unit = (block_begin(k, block) + v) * k->lanes;
            for (int r = 0; r < rows; r++) {
                slopes[r].product = sums + (r * vectors + v) * k->lanes;
                slopes[r].unit = unit;
                slopes[r].count = units_of(k, unit);
            }
            (is_lstm(k) ? k->loops->lstm_slopes : k->loops->gru_slopes)(slopes, rows);
        }
    }
}

/* The gradient of the hidden state before the first step, in the place of what is carried. */
static void first_tile(const passage *p, const part *of, int64_t slot, int rows)
{
    const layer *k = p->k;
    float sums[YKI_GATE_ROWS * YKI_GATE_VECTORS * MOST_LANES] __attribute__((aligned(64)));
    for (int64_t block = of->begin; block < of->end; block++) {
        const int64_t columns = multiply_block(p, 0, slot, rows, block, sums) * k->lanes;
        for (int r = 0; r < rows; r++) {
            float *to = p->kept + (slot + r) * padded_size(k) + block_begin(k, block) * k->lanes;
            for (int64_t i = 0; i < columns; i++)
                to[i] += sums[r * columns + i];
        }
    }
}

static void backward_steps(const passage *p, part *own)
{
    const layer *k = p->k;
    const int most = k->loops->rows[YKI_GATE_VECTORS];
    const int64_t slots = own->active;
    own->active = 0;
    for (own->step = k->r.steps - 1; own->step >= 0; own->step--) {
        while (own->active < slots && p->counts[own->first + own->active] > own->step)
            own->active++;
        if (own->active == 0)
            continue;
        for_each_unit(p, own, block_count(k), most, backward_tile);
        meet(k);
    }
    own->active = slots;
    if (p->run->out[YKI_LSTM_BACKWARD_DH0])
        for_each_unit(p, own, block_count(k), most, first_tile);
}

static yk_status run_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const layer *k = (const layer *)kernel;
    const passage p = begin(k, run, YKI_LSTM_BACKWARD_LENGTHS);
    for (int64_t slot = 0; slot < k->r.samples; slot++) {
        read_state(&p, run->in[YKI_LSTM_BACKWARD_DH_N], slot, p.kept);
        read_state(&p, is_lstm(k) ? run->in[YKI_LSTM_BACKWARD_DC_N] : NULL, slot, p.dcell);
    }
    run_parts(&p, block_count(k), backward_steps);
#pragma omp parallel for num_threads(k->team) if (k->team > 1)
    for (int64_t slot = 0; slot < k->r.samples; slot++) {
        write_before(&p, slot);
        clear_ended(&p, run->out[YKI_LSTM_BACKWARD_DGATES], slot, k->r.gates);
        const int64_t state = slot * padded_size(k);
        write_state(&p, run->out[YKI_LSTM_BACKWARD_DH0], slot, p.kept + state);
        if (is_lstm(k))
            write_state(&p, run->out[YKI_LSTM_BACKWARD_DC0], slot, p.dcell + state);
        else
            clear_ended(&p, run->out[YKI_GRU_BACKWARD_DINPUT], slot, k->r.gates);
    }
    return YK_OK;
}

#define IMPL(name, way)                                                                            \
    const yki_kernel_impl yki_cpu_##name = {.op = &yki_op_##name,                                  \
                                            .supports = supports,                                  \
                                            .prepare = prepare_##way,                              \
                                            .run = run_##way,                                      \
                                            .pack = pack_##way}
IMPL(lstm, forward);
IMPL(lstm_backward, backward);
IMPL(gru, forward);
IMPL(gru_backward, backward);

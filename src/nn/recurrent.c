/*
 * Recurrent layers, as PyTorch's LSTM and GRU, and their cells. A graph has no loops, so layers are
 * unrolled. What the inputs add to the gates is computed for all steps at once.
 */
#include "nn/layers.h"

#include <yoke/functional.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/options.h"
#include "graph/operators.h"

/* What a step reads and writes. The cell is the LSTM's alone. */
typedef struct state {
    yk_value *hidden, *cell; /* (N, size) */
} state;

typedef struct recurrent {
    const char *name, *cell_name; /* in errors */
    int64_t gates;
    /* from_input, from_hidden: (N, gates size) */
    void (*step)(state *s, yk_value *from_input, yk_value *from_hidden);
} recurrent;

static void lstm_step(state *s, yk_value *from_input, yk_value *from_hidden)
{
    s->hidden = yk_lstm_cell(from_input, from_hidden, s->cell, &s->cell);
}

static void gru_step(state *s, yk_value *from_input, yk_value *from_hidden)
{
    s->hidden = yk_gru_cell(from_input, from_hidden, s->hidden);
}

static const recurrent lstm = {"lstm", "lstm_cell", 4, lstm_step};
static const recurrent gru = {"gru", "gru_cell", 3, gru_step};

/* The parameters of a cell, or of a direction of a layer. */
typedef struct weights {
    yk_value *ih, *hh, *bias_ih, *bias_hh;
} weights;

/* What all layers of a stack share. */
typedef struct stack {
    const recurrent *kind;
    int64_t size, directions;
    yk_nn_recurrent_options options;
    yk_value **outputs;          /* (N, 1, size) of each step */
    yk_value **running, **ended; /* (N, 1) masks of each step, where sequences have lengths */
    yk_value **hidden, **cell;   /* (N, 1, size): the last ones of each layer and direction */
} stack;

static yk_value *declare(yk_value *x, const char *what, const char *suffix, int ndim,
                         const int64_t *dims, int64_t size)
{
    char name[64];
    snprintf(name, sizeof name, "%s%s", what, suffix);
    return yk_parameter(yk_value_graph(x), name, yk_value_dtype(x), ndim, dims,
                        YK_INIT_UNIFORM_FAN_IN, size);
}

/* For inputs of the last dimension of x. */
static weights declare_weights(yk_value *x, const recurrent *kind, const char *suffix, int64_t size)
{
    const int64_t rows = kind->gates * size;
    const int64_t input[] = {rows, x->dims[x->ndim - 1]}, hidden[] = {rows, size};
    weights w = {.ih = declare(x, "weight_ih", suffix, 2, input, size)};
    w.hh = declare(x, "weight_hh", suffix, 2, hidden, size);
    w.bias_ih = declare(x, "bias_ih", suffix, 1, &rows, size);
    w.bias_hh = declare(x, "bias_hh", suffix, 1, &rows, size);
    return w;
}

/* (N, size), of what an input adds to the gates: (N, gates size). */
static yk_value *zeros_of(yk_value *from_input, int64_t size)
{
    return yk_full_like(yk_slice(from_input, -1, 0, size), 0);
}

/* One of the given states, or zeros: (N, size). */
static yk_value *first_state(const stack *s, yk_value *given, int64_t index, yk_value *zeros)
{
    int64_t dims[YK_MAX_DIMS];
    if (!given || yk_value_shape(given, dims) < 0)
        return given ? given : zeros;
    return yk_reshape(yk_slice(given, 1, index, 1), 2, (int64_t[]){dims[0], s->size});
}

/* Which sequences have step t, and which do not: lengths are whole numbers. */
static void mask_steps(const stack *s, int64_t steps)
{
    yk_value *lengths = yk_unsqueeze(s->options.lengths, 1);
    for (int64_t t = 0; t < steps; t++) {
        yk_value *left = yk_add_scalar(lengths, -(double)t);
        s->running[t] = yk_clamp(left, 0, 1);
        s->ended[t] = yk_clamp(yk_add_scalar(yk_scale(left, -1), 1), 0, 1);
    }
}

/* x (N, T, I), with zeros after the ends of sequences: whatever it has there, NaN too, would reach
 * the gradient of the weights. */
static yk_value *clear_ended(const stack *s, yk_value *x, int64_t steps)
{
    return yk_masked_fill(x, yk_stack(s->ended, (int)steps, 1), 0);
}

/* Where a sequence has ended, it keeps the state from before the step. *output: 0 there. */
static yk_value *keep_ended(const stack *s, int64_t t, yk_value *next, yk_value *before,
                            yk_value **output)
{
    *output = yk_masked_fill(next, s->ended[t], 0);
    return yk_add(*output, yk_masked_fill(before, s->running[t], 0));
}

/* One step; returns its output, (N, size). */
static yk_value *step(const stack *s, int64_t t, state *now, yk_value *from_input,
                      yk_value *from_hidden)
{
    const state before = *now;
    yk_value *output, *unused;
    s->kind->step(now, from_input, from_hidden);
    if (!s->options.lengths)
        return now->hidden;
    now->hidden = keep_ended(s, t, now->hidden, before.hidden, &output);
    if (s->kind == &lstm)
        now->cell = keep_ended(s, t, now->cell, before.cell, &unused);
    return output;
}

/* x (N, T, I) -> (N, T, size) */
static yk_value *run_direction(const stack *s, yk_value *x, int64_t layer, bool reverse)
{
    int64_t dims[YK_MAX_DIMS];
    char suffix[32];
    if (yk_value_shape(x, dims) < 0)
        return x;
    snprintf(suffix, sizeof suffix, "_l%lld%s", (long long)layer, reverse ? "_reverse" : "");
    const int64_t size = s->size, rows = s->kind->gates * size,
                  index = layer * s->directions + reverse;
    const int64_t one[] = {dims[0], 1, size};
    const weights w = declare_weights(x, s->kind, suffix, size);
    yk_value *inputs = yk_linear(x, w.ih, w.bias_ih);
    state now = {NULL, NULL};
    for (int64_t i = 0; i < dims[1]; i++) {
        int64_t t = reverse ? dims[1] - 1 - i : i;
        yk_value *from_input = yk_reshape(yk_slice(inputs, 1, t, 1), 2, (int64_t[]){dims[0], rows});
        if (i == 0) {
            yk_value *zeros = zeros_of(from_input, size);
            now.hidden = first_state(s, s->options.h0, index, zeros);
            now.cell = first_state(s, s->options.c0, index, zeros);
        }
        yk_value *from_hidden = yk_linear(now.hidden, w.hh, w.bias_hh);
        s->outputs[t] = yk_reshape(step(s, t, &now, from_input, from_hidden), 3, one);
    }
    s->hidden[index] = yk_reshape(now.hidden, 3, one);
    if (s->options.c_n)
        s->cell[index] = yk_reshape(now.cell, 3, one);
    return yk_concat(s->outputs, (int)dims[1], 1);
}

static yk_value *run_layer(const stack *s, yk_value *x, int64_t layer)
{
    if (layer > 0 && s->options.dropout != 0)
        x = yk_dropout(x, s->options.dropout);
    yk_value *sides[2] = {run_direction(s, x, layer, false)};
    if (s->options.bidirectional)
        sides[1] = run_direction(s, x, layer, true);
    return yk_concat(sides, (int)s->directions, -1);
}

static yk_status check_state(const stack *s, const yk_value *x, const char *name,
                             const yk_value *given)
{
    const int64_t states = s->options.num_layers * s->directions;
    char text[96];
    if (!given || !given->valid ||
        (given->ndim == 3 && given->dims[0] == x->dims[0] && given->dims[1] == states &&
         given->dims[2] == s->size))
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_SHAPE, "%s has shape %s, expected (N, %lld, %lld)", name,
                     yki_shape_text(given, text, sizeof text), (long long)states,
                     (long long)s->size);
}

static yk_status check(const stack *s, const yk_value *x)
{
    const yk_nn_recurrent_options *o = &s->options;
    char text[96];
    if (x->ndim != 3)
        return yki_error(YK_ERROR_INVALID_SHAPE, "input has shape %s, expected (N, T, I)",
                         yki_shape_text(x, text, sizeof text));
    if (!yki_in_range(s->size, 1) || !yki_in_range(o->num_layers, 1))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "hidden_size %lld, num_layers %lld: expected 1 or more",
                         (long long)s->size, (long long)o->num_layers);
    if (!(o->dropout >= 0 && o->dropout < 1)) /* of one layer, too, where it has no effect */
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "dropout is %g, expected 0 <= dropout < 1",
                         o->dropout);
    if (s->kind == &gru && (o->c0 || o->c_n))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "c0 and c_n are options of an lstm");
    if (o->lengths && o->lengths->valid &&
        (o->lengths->ndim != 1 || o->lengths->dims[0] != x->dims[0]))
        return yki_error(YK_ERROR_INVALID_SHAPE, "lengths have shape %s, expected (N)",
                         yki_shape_text(o->lengths, text, sizeof text));
    YK_TRY(check_state(s, x, "h0", o->h0));
    return check_state(s, x, "c0", o->c0);
}

static yk_status allocate(stack *s, int64_t steps)
{
    size_t states = (size_t)(s->options.num_layers * s->directions);
    s->outputs = yki_calloc((size_t)steps, sizeof *s->outputs);
    s->hidden = yki_calloc(states, sizeof *s->hidden);
    s->cell = yki_calloc(states, sizeof *s->cell);
    s->running = yki_calloc((size_t)steps, sizeof *s->running);
    s->ended = yki_calloc((size_t)steps, sizeof *s->ended);
    return s->outputs && s->hidden && s->cell && s->running && s->ended
               ? YK_OK
               : yki_error_memory((3 * (size_t)steps + 2 * states) * sizeof *s->cell, "a layer");
}

/* Where the options ask for it, hands out the last states of all layers, or what x is if it is
 * invalid. */
static void give_states(const stack *s, yk_value *x)
{
    const int count = (int)(s->options.num_layers * s->directions);
    bool good = yk_value_shape(x, NULL) >= 0;
    if (s->options.h_n)
        *s->options.h_n = good ? yk_concat(s->hidden, count, 1) : x;
    if (s->options.c_n)
        *s->options.c_n = good ? yk_concat(s->cell, count, 1) : x;
}

static yk_value *run_layers(yk_value *x, const char *name, const recurrent *kind, int64_t size,
                            const yk_nn_recurrent_options *options)
{
    int64_t dims[YK_MAX_DIMS];
    stack s = {.kind = kind, .size = size};
    yk_graph *graph = yk_value_graph(x);
    yk_scope_push(graph, name);
    yk_status status = YKI_READ_OPTIONS(&s.options, options, yk_nn_recurrent_options,
                                        YK_NN_RECURRENT_OPTIONS_INIT);
    if (yk_value_shape(x, dims) < 0) {
        x = x ? x : yki_no_operand(name ? name : "a layer");
    } else {
        s.directions = s.options.bidirectional ? 2 : 1;
        status = status == YK_OK ? check(&s, x) : status;
        status = status == YK_OK ? allocate(&s, dims[1]) : status;
        if (status == YK_OK && s.options.lengths) {
            mask_steps(&s, dims[1]);
            x = clear_ended(&s, x, dims[1]);
        }
        for (int64_t i = 0; status == YK_OK && i < s.options.num_layers; i++)
            x = run_layer(&s, x, i);
        x = status == YK_OK ? x : yki_emit_error(x, kind->name, status);
    }
    give_states(&s, x);
    yk_scope_pop(graph);
    free(s.outputs);
    free(s.hidden);
    free(s.cell);
    free(s.running);
    free(s.ended);
    return x;
}

yk_value *yk_nn_lstm(yk_value *x, const char *name, int64_t hidden_size,
                     const yk_nn_recurrent_options *options)
{
    return run_layers(x, name, &lstm, hidden_size, options);
}

yk_value *yk_nn_gru(yk_value *x, const char *name, int64_t hidden_size,
                    const yk_nn_recurrent_options *options)
{
    return run_layers(x, name, &gru, hidden_size, options);
}

/* ---- cells ----------------------------------------------------------------------------------- */

static yk_status check_cell_state(const yk_value *x, const char *name, const yk_value *given,
                                  int64_t size)
{
    char text[96];
    if (!given || !given->valid ||
        (given->ndim == 2 && given->dims[0] == x->dims[0] && given->dims[1] == size))
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_SHAPE, "%s has shape %s, expected (N, %lld)", name,
                     yki_shape_text(given, text, sizeof text), (long long)size);
}

static yk_status check_cell(const yk_value *x, int64_t size, const state *s)
{
    char text[96];
    if (x->ndim != 2)
        return yki_error(YK_ERROR_INVALID_SHAPE, "input has shape %s, expected (N, I)",
                         yki_shape_text(x, text, sizeof text));
    if (!yki_in_range(size, 1))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "hidden_size %lld: expected 1 or more",
                         (long long)size);
    YK_TRY(check_cell_state(x, "hidden", s->hidden, size));
    return check_cell_state(x, "cell", s->cell, size);
}

/* x, or an invalid value if x or a state is not what a cell takes. */
static yk_value *cell_input(yk_value *x, const char *name, const recurrent *kind, int64_t size,
                            const state *s)
{
    if (yk_value_shape(x, NULL) < 0)
        return x ? x : yki_no_operand(name ? name : "a layer");
    yk_status status = check_cell(x, size, s);
    return status == YK_OK ? x : yki_emit_error(x, kind->cell_name, status);
}

/* From the states, where NULL means zeros, to the next ones; x: (N, I). */
static void take_step(yk_value *x, const recurrent *kind, int64_t size, state *s)
{
    const weights w = declare_weights(x, kind, "", size);
    yk_value *from_input = yk_linear(x, w.ih, w.bias_ih);
    if (!s->hidden)
        s->hidden = zeros_of(from_input, size);
    if (!s->cell && kind == &lstm)
        s->cell = zeros_of(from_input, size);
    kind->step(s, from_input, yk_linear(s->hidden, w.hh, w.bias_hh));
}

static state run_cell(yk_value *x, const char *name, const recurrent *kind, int64_t size, state s)
{
    yk_graph *graph = yk_value_graph(x);
    yk_scope_push(graph, name);
    x = cell_input(x, name, kind, size, &s);
    if (yk_value_shape(x, NULL) < 0)
        s = (state){x, x};
    else
        take_step(x, kind, size, &s);
    yk_scope_pop(graph);
    return s;
}

yk_value *yk_nn_lstm_cell(yk_value *x, const char *name, int64_t hidden_size, yk_value *hidden,
                          yk_value *cell, yk_value **next)
{
    const state s = run_cell(x, name, &lstm, hidden_size, (state){hidden, cell});
    if (next)
        *next = s.cell;
    return s.hidden;
}

yk_value *yk_nn_gru_cell(yk_value *x, const char *name, int64_t hidden_size, yk_value *hidden)
{
    return run_cell(x, name, &gru, hidden_size, (state){hidden, NULL}).hidden;
}

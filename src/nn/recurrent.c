/*
 * Recurrent layers, as PyTorch's LSTM and GRU, and their cells. A graph has no loops, so an
 * operator takes all steps of a direction of a layer; what the inputs add to the gates is computed
 * for all of them before it.
 */
#include "nn/layers.h"

#include <yoke/functional.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/options.h"
#include "graph/recurrent.h"
#include "tensor/element.h"

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
    yk_value **hidden, **cell; /* (N, 1, size): the last ones of each layer and direction */
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

/* One of the given states, (N, size), or NULL. */
static yk_value *first_state(const stack *s, yk_value *given, int64_t index)
{
    int64_t dims[YK_MAX_DIMS];
    if (!given || yk_value_shape(given, dims) < 0)
        return given;
    return yk_reshape(yk_slice(given, 1, index, 1), 2, (int64_t[]){dims[0], s->size});
}

/* x (N, T, I), with zeros after the ends of sequences: whatever it has there, NaN too, would reach
 * the gradient of the weights. */
static yk_value *clear_ended(const stack *s, yk_value *x, int64_t steps)
{
    const yk_dtype dtype = yk_value_dtype(x);
    yk_tensor numbers = {.dtype = dtype, .ndim = 1, .dims = {steps}};
    numbers.data = yki_calloc((size_t)steps, yk_dtype_size(dtype));
    if (!numbers.data)
        return yki_emit_error(x, s->kind->name, yki_error_memory((size_t)steps, "a layer"));
    for (int64_t t = 0; t < steps; t++)
        yki_element_set(dtype, numbers.data, t, (double)t);
    yk_value *times = yk_constant(yk_value_graph(x), &numbers);
    free(numbers.data);
    yk_value *ended = yk_less_equal(yk_unsqueeze(s->options.lengths, 1), times);
    return yk_masked_fill(x, yk_unsqueeze(ended, 2), 0);
}

/* x (N, T, I) -> (N, T, size) */
static yk_value *run_direction(const stack *s, yk_value *x, int64_t layer, bool reverse)
{
    int64_t dims[YK_MAX_DIMS];
    char suffix[32];
    if (yk_value_shape(x, dims) < 0)
        return x;
    snprintf(suffix, sizeof suffix, "_l%lld%s", (long long)layer, reverse ? "_reverse" : "");
    const int64_t index = layer * s->directions + reverse, one[] = {dims[0], 1, s->size};
    const weights w = declare_weights(x, s->kind, suffix, s->size);
    const yki_recurrent_layer steps = {.from_input = yk_linear(x, w.ih, w.bias_ih),
                                       .weight = w.hh,
                                       .bias = w.bias_hh,
                                       .lengths = s->options.lengths,
                                       .h0 = first_state(s, s->options.h0, index),
                                       .c0 = first_state(s, s->options.c0, index),
                                       .reverse = reverse};
    state last = {NULL, NULL};
    yk_value *y = s->kind == &lstm ? yki_lstm(&steps, &last.hidden, &last.cell)
                                   : yki_gru(&steps, &last.hidden);
    if (s->options.h_n)
        s->hidden[index] = yk_reshape(last.hidden, 3, one);
    if (s->options.c_n)
        s->cell[index] = yk_reshape(last.cell, 3, one);
    return y;
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

static yk_status allocate(stack *s)
{
    size_t states = (size_t)(s->options.num_layers * s->directions);
    s->hidden = yki_calloc(states, sizeof *s->hidden);
    s->cell = yki_calloc(states, sizeof *s->cell);
    return s->hidden && s->cell ? YK_OK : yki_error_memory(2 * states * sizeof *s->cell, "a layer");
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
        status = status == YK_OK ? allocate(&s) : status;
        if (status == YK_OK && s.options.lengths)
            x = clear_ended(&s, x, dims[1]);
        for (int64_t i = 0; status == YK_OK && i < s.options.num_layers; i++)
            x = run_layer(&s, x, i);
        x = status == YK_OK ? x : yki_emit_error(x, kind->name, status);
    }
    give_states(&s, x);
    yk_scope_pop(graph);
    free(s.hidden);
    free(s.cell);
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

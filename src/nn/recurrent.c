/*
 * Recurrent layers, as PyTorch's: LSTM (Hochreiter, Schmidhuber 1997, with the forget gates of Gers
 * et al. 1999) and GRU (Cho et al. 2014). A graph has no loops, so they are unrolled. What the
 * inputs add to the gates is computed for all steps at once.
 */
#include "nn/layers.h"

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
    const char *name; /* in errors */
    int64_t gates;
    /* from_input, from_hidden: (N, gates size) */
    void (*step)(state *s, yk_value *from_input, yk_value *from_hidden, int64_t size);
} recurrent;

static yk_value *gate(yk_value *gates, int64_t index, int64_t size)
{
    return yk_slice(gates, -1, index * size, size);
}

/* Input, forget, cell and output gate. */
static void lstm_step(state *s, yk_value *from_input, yk_value *from_hidden, int64_t size)
{
    yk_value *gates = yk_add(from_input, from_hidden);
    yk_value *added = yk_multiply(yk_sigmoid(gate(gates, 0, size)), yk_tanh(gate(gates, 2, size)));
    s->cell = yk_add(yk_multiply(yk_sigmoid(gate(gates, 1, size)), s->cell), added);
    s->hidden = yk_multiply(yk_sigmoid(gate(gates, 3, size)), yk_tanh(s->cell));
}

/* Reset and update gate, and the new state: h = n + z (h - n). */
static void gru_step(state *s, yk_value *from_input, yk_value *from_hidden, int64_t size)
{
    yk_value *gates = yk_sigmoid(
        yk_add(yk_slice(from_input, -1, 0, 2 * size), yk_slice(from_hidden, -1, 0, 2 * size)));
    yk_value *kept = yk_multiply(gate(gates, 0, size), gate(from_hidden, 2, size));
    yk_value *fresh = yk_tanh(yk_add(gate(from_input, 2, size), kept));
    yk_value *back = yk_add(s->hidden, yk_scale(fresh, -1));
    s->hidden = yk_add(fresh, yk_multiply(gate(gates, 1, size), back));
}

static const recurrent lstm = {"lstm", 4, lstm_step};
static const recurrent gru = {"gru", 3, gru_step};

static yk_value *declare(yk_value *x, const char *what, int64_t layer, int ndim,
                         const int64_t *dims, int64_t size)
{
    char name[48];
    snprintf(name, sizeof name, "%s_l%lld", what, (long long)layer);
    return yk_parameter(yk_value_graph(x), name, yk_value_dtype(x), ndim, dims,
                        YK_INIT_UNIFORM_FAN_IN, size);
}

/* x (N, T, I) -> (N, T, size); outputs has room for the T steps'. */
static yk_value *run_layer(yk_value *x, const recurrent *kind, int64_t layer, int64_t size,
                           yk_value **outputs)
{
    int64_t dims[YK_MAX_DIMS];
    if (yk_value_shape(x, dims) < 0)
        return x;
    const int64_t rows = kind->gates * size, input[] = {rows, dims[2]}, hidden[] = {rows, size};
    yk_value *weight_ih = declare(x, "weight_ih", layer, 2, input, size);
    yk_value *weight_hh = declare(x, "weight_hh", layer, 2, hidden, size);
    yk_value *bias_ih = declare(x, "bias_ih", layer, 1, &rows, size);
    yk_value *bias_hh = declare(x, "bias_hh", layer, 1, &rows, size);
    yk_value *inputs = yk_linear(x, weight_ih, bias_ih);
    state s = {NULL, NULL};
    for (int64_t t = 0; t < dims[1]; t++) {
        yk_value *from_input = yk_reshape(yk_slice(inputs, 1, t, 1), 2, (int64_t[]){dims[0], rows});
        if (t == 0)
            s.hidden = s.cell = yk_scale(gate(from_input, 0, size), 0);
        kind->step(&s, from_input, yk_linear(s.hidden, weight_hh, bias_hh), size);
        outputs[t] = yk_reshape(s.hidden, 3, (int64_t[]){dims[0], 1, size});
    }
    return yk_concat(outputs, (int)dims[1], 1);
}

static yk_status check(const yk_value *x, const recurrent *kind, int64_t size,
                       const yk_nn_recurrent_options *options)
{
    char text[96];
    if (x->ndim != 3)
        return yki_error(YK_ERROR_INVALID_SHAPE, "%s: input has shape %s, expected (N, T, I)",
                         kind->name, yki_shape_text(x, text, sizeof text));
    if (!yki_in_range(size, 1) || !yki_in_range(options->num_layers, 1))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "%s: hidden_size %lld, num_layers %lld: expected 1 or more", kind->name,
                         (long long)size, (long long)options->num_layers);
    return YK_OK;
}

static yk_value *run_layers(yk_value *x, const char *name, const recurrent *kind, int64_t size,
                            const yk_nn_recurrent_options *options)
{
    int64_t dims[YK_MAX_DIMS];
    if (yk_value_shape(x, dims) < 0)
        return x ? x : yki_no_operand(name ? name : "a layer");
    yk_nn_recurrent_options o;
    yk_graph *graph = yk_value_graph(x);
    yk_value **outputs = NULL;
    yk_scope_push(graph, name);
    yk_status status =
        YKI_READ_OPTIONS(&o, options, yk_nn_recurrent_options, YK_NN_RECURRENT_OPTIONS_INIT);
    status = status == YK_OK ? check(x, kind, size, &o) : status;
    if (status == YK_OK && !(outputs = yki_calloc((size_t)dims[1], sizeof *outputs)))
        status = yki_error(YK_ERROR_OUT_OF_MEMORY, "out of memory");
    for (int64_t i = 0; status == YK_OK && i < o.num_layers; i++) {
        x = i > 0 && o.dropout != 0 ? yk_dropout(x, o.dropout) : x;
        x = run_layer(x, kind, i, size, outputs);
    }
    if (status != YK_OK)
        x = yki_emit_error(x, &yki_op_linear);
    free(outputs);
    yk_scope_pop(graph);
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

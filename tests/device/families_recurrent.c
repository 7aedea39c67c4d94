/* See families.h: recurrent layers and their cells. */
#include "families.h"

#include "graph/recurrent.h"

/* x: a state. */
static const conformance_case lstm_cell_cases[] = {
    {.x = {1, 1}},
    {.x = {3, 16}},
    {.x = {5, 40}},
    {.x = {2, 37}},
    {.x = {70, 130}},
    {.x = {2, 21}, .absent = YKI_LSTM_CELL_BACKWARD_DHIDDEN, .ties = true},
    {.x = {2, 48}, .absent = YKI_LSTM_CELL_BACKWARD_DNEXT, .ties = true}};

static yk_value *gates_of(yk_graph *graph, const conformance_case *c, const char *of, int64_t gates,
                          yk_dtype dtype)
{
    return yk_input(graph, of, dtype, 2, (int64_t[]){c->x[0], gates * c->x[1]});
}

static yk_value *build_lstm_cell(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    yk_value *in = gates_of(graph, c, "in", 4, dtype);
    return yk_lstm_cell(in, gates_of(graph, c, "back", 4, dtype), conformance_x(graph, c, dtype),
                        NULL);
}

static const conformance_case gru_cell_cases[] = {
    {.x = {1, 1}}, {.x = {3, 16}}, {.x = {5, 40}}, {.x = {2, 37}}, {.x = {70, 130}}};

static yk_value *build_gru_cell(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    yk_value *in = gates_of(graph, c, "in", 3, dtype);
    return yk_gru_cell(in, gates_of(graph, c, "back", 3, dtype), conformance_x(graph, c, dtype));
}

FAMILY(lstm_cell, build_lstm_cell);
FAMILY(gru_cell, build_gru_cell);

/* ---- all steps ------------------------------------------------------------------------------- */

/* x: samples, steps and the size of a state; classes: the longest sequence, where there are
 * lengths. */
static const conformance_case lstm_cases[] = {
    {.x = {1, 1, 1}},
    {.x = {3, 4, 16}, .states = true},
    {.x = {3, 4, 16}, .states = true, .reverse = true},
    {.x = {5, 3, 40}, .reverse = true},
    {.x = {7, 6, 21}, .states = true, .lengths = true, .classes = 6},
    {.x = {7, 6, 21}, .states = true, .lengths = true, .classes = 6, .reverse = true},
    {.x = {9, 5, 8}, .lengths = true, .classes = 4, .reverse = true},
    {.x = {1, 7, 37}, .lengths = true, .classes = 3},
    {.x = {1, 3, 150}, .spread = 0.2},
    {.x = {33, 3, 70}, .states = true, .spread = 0.3},
    {.x = {2, 5, 130}, .states = true, .reverse = true, .spread = 0.3},
    {.x = {2, 3, 21}, .absent = YKI_LSTM_BACKWARD_DY, .ties = true},
    {.x = {2, 3, 21}, .absent = YKI_LSTM_BACKWARD_DH_N, .ties = true},
    {.x = {2, 3, 21}, .absent = YKI_LSTM_BACKWARD_DC_N, .ties = true},
};

static yki_recurrent_layer layer_of(yk_graph *graph, const conformance_case *c, int64_t gates,
                                    yk_dtype dtype)
{
    const int64_t rows = gates * c->x[2], state[] = {c->x[0], c->x[2]};
    yki_recurrent_layer layer = {.reverse = c->reverse};
    layer.from_input = yk_input(graph, "in", dtype, 3, (int64_t[]){c->x[0], c->x[1], rows});
    layer.weight = conformance_parameter(graph, "weight", dtype, 2, (int64_t[]){rows, c->x[2]});
    layer.bias = conformance_parameter(graph, "bias", dtype, 1, &rows);
    if (c->lengths)
        layer.lengths = yk_buffer(graph, "lengths", dtype, 1, c->x, YK_INIT_ZEROS);
    if (c->states)
        layer.h0 = yk_input(graph, "h0", dtype, 2, state);
    if (c->states && gates == 4)
        layer.c0 = yk_input(graph, "c0", dtype, 2, state);
    return layer;
}

static yk_value *build_lstm(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    const yki_recurrent_layer layer = layer_of(graph, c, 4, dtype);
    yk_value *h_n, *c_n;
    return yki_lstm(&layer, &h_n, &c_n);
}

static const conformance_case gru_cases[] = {
    {.x = {1, 1, 1}},
    {.x = {3, 4, 16}, .states = true},
    {.x = {3, 4, 16}, .states = true, .reverse = true},
    {.x = {5, 3, 40}, .reverse = true},
    {.x = {7, 6, 21}, .states = true, .lengths = true, .classes = 6},
    {.x = {7, 6, 21}, .states = true, .lengths = true, .classes = 6, .reverse = true},
    {.x = {9, 5, 8}, .lengths = true, .classes = 4, .reverse = true},
    {.x = {1, 7, 37}, .lengths = true, .classes = 3},
    {.x = {1, 3, 150}, .spread = 0.2},
    {.x = {33, 3, 70}, .states = true, .spread = 0.3},
    {.x = {2, 5, 130}, .states = true, .reverse = true, .spread = 0.3},
    {.x = {2, 3, 21}, .absent = YKI_GRU_BACKWARD_DY, .ties = true},
    {.x = {2, 3, 21}, .absent = YKI_GRU_BACKWARD_DH_N, .ties = true},
};

static yk_value *build_gru(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    const yki_recurrent_layer layer = layer_of(graph, c, 3, dtype);
    yk_value *h_n;
    return yki_gru(&layer, &h_n);
}

FAMILY(lstm, build_lstm);
FAMILY(gru, build_gru);

/*
 * Tables of cases for the conformance suite (check/conformance.h), which says what is checked. A
 * failure ends the test with the case in words.
 */
#ifndef YK_CONFORMANCE_H
#define YK_CONFORMANCE_H

#include "check/conformance.h"

enum { NO_COLUMNS = -1 };

/* One row of a table. Every family reads the fields that concern it. */
typedef struct conformance_case {
    int64_t x[YK_MAX_DIMS];     /* dims of the first input, 0-terminated */
    int64_t other[YK_MAX_DIMS]; /* likewise of another: broadcast to x, rows of norms */
    int64_t filters;            /* conv2d's and linear's outputs */
    int values;                 /* concat's, if more than 2 */
    int64_t dim;                /* concat, slice, pad, take_along_dim */
    int64_t kernel[2];          /* rows, columns; 0 columns: square */
    int64_t stride, padding, dilation, groups, output_padding;
    /* Of columns, if not those of rows; NO_COLUMNS: 0. */
    int64_t column_stride, column_padding, column_dilation, column_output_padding;
    int64_t classes;           /* of integer inputs; 0: as many as x has columns */
    bool wide;                 /* indices, and labels of cross_entropy, are int64 */
    int64_t heads;             /* attention, matmul, rotary_embedding */
    int64_t kv_heads;          /* attention: num_kv_heads */
    bool transposed[2];        /* matmul */
    bool ceil_mode;            /* pooling */
    bool skips_padding;        /* avg_pool2d: not count_include_pad */
    bool causal;               /* attention */
    bool interleaved;          /* rotary_embedding */
    bool bilinear;             /* interpolate */
    bool align_corners;        /* likewise */
    int64_t mask[YK_MAX_DIMS]; /* attention: dims of attn_mask, 0-terminated */
    bool bias;
    bool plain; /* group_norm: without weight and bias; take_along_dim: shared */
    double alpha, p, smoothing;
    bool sum;              /* losses: reduction */
    bool weighted;         /* cross_entropy: with a weight of each class */
    bool last;             /* cross_entropy: classes are the last dimension of x */
    int64_t ignored;       /* cross_entropy: ignore_index; 0: none */
    yki_fused activation;  /* batch_norm: what is fused ... */
    bool residual, y, dy2; /* ... and how backward is fed */
    bool evaluation;       /* default: training */
    bool states, lengths;  /* lstm, gru: operands that there are */
    bool reverse;          /* likewise */
    int absent;            /* lstm_cell, lstm, gru: the input that backward does not have */
    bool ties;             /* inputs are multiples of 1/2; not differentiable */
    double spread;         /* inputs are from -spread to spread; 0: from -1 to 1 */
    double floor;          /* added to the norm that errors are relative to */
    uint64_t seed;         /* of the inputs' numbers */
} conformance_case;

typedef struct conformance_family {
    /* Appends one node for the case, its float operands in dtype, and returns its output 0. */
    yk_value *(*build)(yk_graph *graph, const conformance_case *c, yk_dtype dtype);
    const conformance_case *cases;
    size_t count;
} conformance_family;

typedef yki_conformance_setting conformance_setting;

/* Every gradient of every case against central differences, in f64 on ref. */
void conformance_gradients(const conformance_family *family);
/* Every node of every case on the device against ref in f64. */
void conformance_device(const conformance_family *family, const conformance_setting *setting);

/* Marks the operators, by their place in yki_operators, that the family's cases run. */
void conformance_mark(const conformance_family *family, bool *seen);

/* For builders: an option of yoke/graph.h for columns. */
static inline int64_t conformance_columns(int64_t columns)
{
    return columns == NO_COLUMNS ? 0 : columns == 0 ? -1 : columns;
}

/* ---- for builders: operands --------------------------------------------------------------- */

/* How many sizes there are before the 0. */
int conformance_rank(const int64_t dims[YK_MAX_DIMS]);
/* The case's first input, named "x". */
yk_value *conformance_x(yk_graph *graph, const conformance_case *c, yk_dtype dtype);
yk_value *conformance_parameter(yk_graph *graph, const char *name, yk_dtype dtype, int ndim,
                                const int64_t *dims);

#endif

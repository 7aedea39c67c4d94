/*
 * The graph: an array of nodes in an order in which they can run, and the values between them.
 * Users build the forward part; compile/ rewrites it and appends backward.
 *
 * Invariants: a node's inputs are produced by earlier nodes; every value has one producer (NULL for
 * inputs, parameters and buffers); only dims[0] may be YK_BATCH. An absent optional input or an
 * unwanted output is NULL. Values and nodes live until the graph is destroyed.
 */
#ifndef YKI_GRAPH_H
#define YKI_GRAPH_H

#include <yoke/graph.h>

#include "base/error.h"
#include "graph/fused.h"

enum { YKI_MAX_IN = 8, YKI_MAX_OUT = 4 };

typedef struct yki_op yki_op;
typedef struct yki_node yki_node;

typedef enum yki_value_kind {
    YKI_ACTIVATION, /* made by a node */
    YKI_INPUT,      /* comes with the batch */
    YKI_PARAMETER,
    YKI_BUFFER,
    YKI_LOSS_GRADIENT /* a scalar that backward starts from */
} yki_value_kind;

struct yk_value {
    yk_graph *graph;
    yki_value_kind kind;
    bool valid; /* false after a building error */
    yk_dtype dtype;
    int ndim;
    int64_t dims[YK_MAX_DIMS];
    yki_node *producer;
    const char *name; /* full name of an input, parameter or buffer; else NULL */
    yk_init init;
    int64_t fan;
    bool frozen;    /* a parameter that is not trained */
    bool fixed;     /* a parameter that is frozen by its layer, for good */
    void *given;    /* the numbers that a buffer starts with; NULL: init says them */
    bool transient; /* a buffer that is not persistent */
    int id;         /* index in the graph's values */
};

/* Whether files of weights hold the value. */
static inline bool yki_value_is_saved(const yk_value *value)
{
    return value->kind == YKI_PARAMETER || (value->kind == YKI_BUFFER && !value->transient);
}

/* A parameter that is never trained. Leaves an invalid value as it is. */
static inline void yki_value_fix(yk_value *parameter)
{
    if (parameter->valid)
        parameter->fixed = parameter->frozen = true;
}

/* All attributes of all operators; each reads its own. */
typedef struct yki_attrs {
    int64_t groups;
    /* Of rows, and of columns: convolutions and pooling. */
    int64_t kernel[2], stride[2], padding[2], dilation[2];
    int64_t output_padding[2]; /* conv_transpose2d */
    bool ceil_mode;            /* max_pool2d, avg_pool2d: see graph/pool.h */
    bool count_include_pad;    /* avg_pool2d */
    int64_t rows, columns;     /* adaptive_avg_pool2d, interpolate: of the result */
    bool bilinear;             /* interpolate: not the nearest pixel; and ... */
    bool align_corners;        /* ... corners keep their places, instead of edges */
    int ndim;                  /* reshape: of the result, whose first size is the input's; */
    int64_t dims[YK_MAX_DIMS]; /* permute: the dimensions of the input in their new order */
    int64_t dim;               /* concat, slice, pad, sum, take_along_dim: the dimension that
                                  changes its size */
    bool shared;               /* take_along_dim: one index is that of all rows */
    int64_t first;             /* slice: where in the input the result begins; pad: the reverse;
                                  rotary_embedding: the position of the first token */
    int64_t count;             /* slice, pad: the size of the result */
    double alpha;              /* scale, and of attention's scores; leaky_relu: its slope below 0;
                                  elu: minus its limit on the left;
                                  add_scalar: what is added; pow: the exponent; clamp: the least;
                                  rotary_embedding: the base; compare: where
                                  sides are equal; masked_fill: what is filled in */
    int64_t heads;             /* attention, matmul, rotary_embedding */
    int64_t kv_heads;          /* attention: of keys and values, a divisor of heads */
    bool transpose_a;          /* matmul: the matrices of a are turned ... */
    bool transpose_b;          /* ... or those of b */
    int ranks;                 /* all_gather_batch: how many there are, and ... */
    int64_t samples;           /* ... what each has */
    bool causal;               /* attention: a query sees no later keys */
    int64_t rotary;            /* rotary_embedding: the columns of a head that are turned ... */
    bool interleaved;          /* ... in pairs of neighbours, instead of one from each half ... */
    bool inverse;              /* ... by the negative angles */
    bool reverse;              /* lstm, gru: from the last step to the first */
    double eps, momentum;      /* batch_norm */
    double p;                  /* dropout, also of attention's shares */
    double label_smoothing;    /* cross_entropy */
    int64_t ignore_index;      /* cross_entropy: the label that does not count */
    bool classes_last;         /* cross_entropy: classes are the last dimension, not the second */
    double beta;               /* smooth_l1_loss; clamp: the most; compare: where a side is NaN;
                                  masked_fill: 1 where false is filled, 0 where true is */
    yk_loss_reduction reduction;
    bool batch_statistics; /* batch_norm: of the batch, even if it is frozen */
    yki_fused activation;  /* batch_norm: of its result */
    bool evaluates;        /* as in evaluation mode, always: yk_eval_push, or set by freeze.c */
    uint64_t salt;         /* with p, and of randn_like: tells a node's draws from another's */
    const void *custom;    /* a program's operator: its attributes */
} yki_attrs;

/* Whether windows are as high as they are wide, and move down as they move across. */
static inline bool yki_is_square(const yki_attrs *a)
{
    return a->kernel[0] == a->kernel[1] && a->stride[0] == a->stride[1] &&
           a->padding[0] == a->padding[1] && a->dilation[0] == a->dilation[1];
}

/* What a value will hold. */
typedef struct yki_shape {
    yk_dtype dtype;
    int ndim;
    int64_t dims[YK_MAX_DIMS];
} yki_shape;

/* ---- operators: what each does to shapes, how it is differentiated, how autocast treats it -- */

typedef enum yki_autocast {
    YKI_AUTOCAST_FOLLOW, /* runs in the dtype of its inputs */
    YKI_AUTOCAST_LOW,    /* runs in 16 bit: convolution, linear */
    YKI_AUTOCAST_FULL    /* runs in 32 bit: losses */
} yki_autocast;

typedef struct yki_op_input {
    const char *name;
    bool is_activation; /* autocast may cast it */
    bool is_optional;
    bool is_constant; /* to the gradient, whatever it is made of */
    bool is_mask;     /* an activation whose dtype follows the others' */
    bool is_widened;  /* an activation that may have 16 bits where the operator computes in f32 */
} yki_op_input;

/* How operands of four dimensions are laid out, see compile/images.c. */
typedef enum yki_layouts {
    YKI_ONE_LAYOUT, /* all alike */
    YKI_OF_IMAGES,  /* as images, (N, C, H, W) */
    YKI_ANY_LAYOUTS /* each in its own way */
} yki_layouts;

/* Made from the list in operators.def; those of programs by custom.c. */
struct yki_op {
    const char *name;
    const struct yki_custom_op *custom; /* NULL for the built-in ones */
    yki_autocast autocast;
    yki_layouts layouts;
    int in_count, out_count;
    int more_results; /* outputs after the first that programs use, so that they have gradients */
    bool one_dtype;   /* of all outputs, under autocast, too */
    yki_op_input in[YKI_MAX_IN];
    /* Output shapes from inputs; on error sets the error line. NULL unless users build it. */
    yk_status (*infer)(const yki_node *node, yki_shape *out);
    /*
     * Appends the nodes of the gradient: dout holds each output's gradient (NULL where none came),
     * needs says which inputs want one, din receives them (NULL where there is none). NULL: the
     * operator has no gradient.
     */
    yk_status (*gradient)(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                          const bool *needs, yk_value **din);
};

struct yki_node {
    const yki_op *op;
    yki_attrs attrs;
    int in_count, out_count;
    yk_value *in[YKI_MAX_IN];
    yk_value *out[YKI_MAX_OUT];
    char *scope;      /* where the user built it, for messages */
    void *attributes; /* of a program's operator: what attrs.custom points to */
};

/* What yk_scope_version has said. */
typedef struct yki_scope_version {
    char *scope; /* "layer1.0.bn1." */
    int version;
} yki_scope_version;

typedef enum yki_graph_state {
    YKI_GRAPH_OPEN,
    YKI_GRAPH_TAKEN, /* its nodes are rewritten for a model, which may have failed */
    YKI_GRAPH_OWNED  /* by a model, and immutable */
} yki_graph_state;

struct yk_graph {
    yki_node **nodes;
    size_t node_count, node_capacity;
    yki_node **owned; /* every node ever made, also those a rewrite dropped */
    size_t owned_count, owned_capacity;
    yk_value **values;
    size_t value_count, value_capacity;
    void *named;              /* a tree, for tsearch, of the values that have names */
    char scope[256];          /* of what is built next: "layer1.0." */
    uint8_t scope_begin[256]; /* by depth: where in scope each push began */
    int scope_depth;
    int reuse_depth; /* of the scope in which names are used again; 0: there is none */
    int eval_depth;  /* pushes of yk_eval_push; > 0: what is built next evaluates */
    yki_scope_version *versions;
    size_t version_count, version_capacity;
    int constants;                     /* that yk_constant has made */
    struct yki_custom_op **custom_ops; /* the programs' operators that it uses */
    size_t custom_op_count, custom_op_capacity;
    yki_graph_state state;
    bool in_gradient; /* a program's gradient rule is building: operators cast, see custom.c */
    yk_status status; /* the sticky error */
    char error[YKI_ERROR_LINE];
};

/* Frees a graph that a model owns; yk_graph_destroy leaves it alone. */
void yki_graph_free(yk_graph *graph);
/* The version of the module of a scope, which has `length` characters with the dot at its end. */
int yki_scope_version_of(const yk_graph *graph, const char *scope, size_t length);
/* Every push has its pop, as names of parameters and modes of layers would be wrong otherwise. */
yk_status yki_scope_check_ended(const yk_graph *graph);
/* Whether a model can be made of this value and its graph; the error calls it `name`. */
yk_status yki_value_check(const yk_value *value, const char *name);

/* Records the first building error; returns an invalid value. */
YKI_PRINTF(3, 4)
yk_value *yki_graph_fail(yk_graph *graph, yk_status status, const char *format, ...);
/* Likewise. Leaves the line, too, for gradient rules pass the status on. */
void yki_graph_out_of_memory(yk_graph *graph);
/* An invalid value of no graph, for whom no input was given. */
yk_value *yki_no_operand(const char *who);
/*
 * Appends a node of a forward operator: checks that inputs are there, valid and of one graph, asks
 * the operator for its output shapes, and returns output 0 (an invalid value on error; never NULL).
 */
yk_value *yki_emit(const yki_op *op, const yki_attrs *attrs, yk_value *const *in);
/* An invalid value: `who`, an operator or a layer, cannot be applied to x, for the reason in this
 * thread's error line, with its status. */
yk_value *yki_emit_error(yk_value *x, const char *who, yk_status status);
/*
 * Appends a node with given output shapes (ndim < 0: output not wanted): what gradient rules use.
 * NULL when memory is out (sticky).
 */
yki_node *yki_append(yk_graph *graph, const yki_op *op, const yki_attrs *attrs, yk_value *const *in,
                     const yki_shape *out);

/* Appends a node that was made before; false when memory is out (sticky). */
bool yki_graph_push(yk_graph *graph, yki_node *node);

/* A value without name or producer; NULL when memory is out (sticky). */
yk_value *yki_value_create(yk_graph *graph, yki_value_kind kind, const yki_shape *shape);
yki_shape yki_shape_of(const yk_value *value);
/* At most 2^40 elements, of a sample where the batch is symbolic: those of a batch still count. */
bool yki_shape_is_countable(const yki_shape *shape);
/* The shape that says "not wanted". */
yki_shape yki_shape_none(void);

/* The error that no parameter's name matches a pattern; it says what names there are. */
yk_status yki_graph_no_parameter(const yk_graph *graph, const char *pattern);

/* "(N, 64, 32, 32)" into text. */
const char *yki_shape_text(const yk_value *value, char *text, size_t size);

#endif

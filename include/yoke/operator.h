/**
 * @file
 * A program's own operators, which work in a graph as the built-in ones do: they are
 * differentiated, run under autocast and distributed training, and have one kernel for each device.
 *
 * An operator is a constant table, yk_operator. yk_operator_apply adds it to a graph, and
 * yk_operator_check tests it in the way in which yoke tests its own operators.
 * examples/own_operator.c is a complete one.
 *
 * Functions of a table report a failure with yk_set_error.
 */
#ifndef YOKE_OPERATOR_H
#define YOKE_OPERATOR_H

#include <yoke/graph.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** Inputs that an operator can have. */
#define YK_OPERATOR_INPUTS  8
/** Outputs that an operator can have. */
#define YK_OPERATOR_OUTPUTS 4

/** How mixed precision treats an operator; see yk_autocast_policy. */
typedef enum yk_autocast {
    YK_AUTOCAST_FOLLOW, /**< it runs in 16 bit if all its activations are, otherwise in float32 */
    YK_AUTOCAST_LOW,    /**< it runs in 16 bit: worthwhile where it multiplies matrices */
    YK_AUTOCAST_FULL    /**< it runs in float32, as losses and sums over many elements should */
} yk_autocast;

/** One input of an operator. */
typedef struct yk_operator_input {
    const char *name;   /**< in errors, such as "input" or "weight" */
    bool is_activation; /**< autocast may cast it, and all activations of a use have one dtype;
                             parameters and labels are none and keep theirs, but what is computed
                             in 16 bit is given to them in float32 */
    bool is_optional;   /**< it may be NULL */
} yk_operator_input;

/** One use of an operator in a graph, as its rules see it. */
typedef struct yk_operator_node {
    const void *attributes;   /**< this use's copy; NULL if the operator has none */
    yk_value *const *inputs;  /**< its inputs; NULL where an optional one is absent */
    yk_value *const *outputs; /**< its outputs; NULL in the shape rule, before there are any */
} yk_operator_node;

/** One call of a kernel. Tensors are row-major; the data of an absent optional input, and of an
 *  output that nothing reads (other than the first), is NULL. */
typedef struct yk_operator_run {
    const void *attributes;   /**< as they were given to yk_operator_apply */
    const yk_tensor *inputs;  /**< the operator's inputs; ndim is -1 for an absent one */
    const yk_tensor *outputs; /**< its outputs; the kernel writes every element */
    void *scratch;            /**< the bytes that the kernel asked for, 64-byte aligned */
    int threads;              /**< that the kernel may use; it decides how, for example by OpenMP */
    bool training;            /**< whether the model is in training mode, and the operator was not
                                   built in a yk_eval_push */
    uint64_t seed;            /**< the model's seed, for random draws ... */
    uint64_t step; /**< ... which should also depend on this, the number of the forward */
} yk_operator_run;

/** How a device computes an operator. Functions may be called by several models at once. */
typedef struct yk_operator_kernel {
    size_t size; /**< sizeof(yk_operator_kernel) */
    /** Computes the outputs. It should not allocate memory: see scratch. A kernel that fails ends
     * the forward or backward. It changes no parameters, but the norms that forward has reached
     * before it have updated their running statistics, as in PyTorch. */
    yk_status (*run)(const yk_operator_run *run);
    /** Whether the kernel can compute with these dtypes and shapes (data is NULL); if not, `ref`
     * does. NULL: with all that the shape rule permits. */
    bool (*supports)(const yk_operator_run *run);
    /** The bytes of scratch memory for these shapes (data is NULL). NULL: none. */
    size_t (*scratch)(const yk_operator_run *run);
    /** The first output may lie in the memory of the first input, if both have the same size. */
    bool in_place;
    /**
     * All operands have one shape, and an element of the outputs depends only on the elements of
     * the inputs at the same place. The kernel is then given vectors (ndim 1) in the device's own
     * order, which may contain further elements between those of the operands: this saves copies.
     */
    bool elementwise;
} yk_operator_kernel;

/**
 * An operator. The table, and what it points to, must outlive every graph that uses it. What is
 * zero or NULL is not there.
 */
typedef struct yk_operator {
    size_t size;      /**< sizeof(yk_operator) */
    const char *name; /**< lower-case letters, digits and _; no built-in operator has it */
    int input_count;  /**< 1 to YK_OPERATOR_INPUTS */
    int output_count; /**< 1 to YK_OPERATOR_OUTPUTS */
    yk_operator_input inputs[YK_OPERATOR_INPUTS]; /**< (input_count) */
    size_t attributes;    /**< bytes of the struct of attributes that yk_operator_apply copies */
    yk_autocast autocast; /**< how mixed precision treats it */
    /**
     * Checks the inputs and the attributes, and writes dtype, ndim and dims of the outputs
     * (output_count); YK_BATCH as the first dimension stands for the number of samples. outputs
     * start as copies of the first input's shape, which is also what NULL means.
     */
    yk_status (*shape)(const yk_operator_node *node, yk_tensor *outputs);
    /**
     * Builds the gradient out of operators: doutputs are the gradients of the outputs (NULL where
     * none came), needs says which inputs want theirs, and dinputs receives them, in the shapes of
     * the inputs. Under autocast values here may have 16 bit: operators cast as their policies say.
     * NULL: there is no gradient, as for an operator that only gradients use.
     */
    yk_status (*gradient)(const yk_operator_node *node, yk_value *const *doutputs,
                          const bool *needs, yk_value **dinputs);
    /** Of a loss: whether it is a sum over the samples rather than a mean, which distributed
     * training must know. NULL: it is a mean. */
    bool (*is_sum)(const void *attributes);
    /** In plain C, for every dtype, best in double with yk_tensor_get and yk_tensor_set: the
     * reference that others are compared with, and the kernel of devices without one. */
    const yk_operator_kernel *ref;
    const yk_operator_kernel *cpu; /**< a fast one, or NULL */
} yk_operator;

/**
 * Adds an operator to the graph of its inputs (op->input_count). attributes (op->attributes bytes)
 * are copied; NULL if it has none. Returns the first output and writes all of them to outputs
 * (op->output_count; may be NULL). Errors are sticky, as for the built-in operators.
 */
yk_value *yk_operator_apply(const yk_operator *op, const void *attributes, yk_value *const *inputs,
                            yk_value **outputs);

/**
 * Builds one case for yk_operator_check: declares inputs (yk_input) and parameters (yk_parameter)
 * of the graph, those of floats in dtype, applies one operator to them, and returns its first
 * output. Every dimension is a number: there is no YK_BATCH.
 */
typedef yk_value *(*yk_operator_build)(yk_graph *graph, yk_dtype dtype, const void *data);

/** What yk_operator_check does. */
typedef struct yk_operator_check_options {
    size_t size;      /**< set by YK_OPERATOR_CHECK_OPTIONS_INIT */
    const void *data; /**< given to the function that builds the case [NULL] */
    double range;     /**< floats are drawn from -range to range [1] */
    int64_t classes;  /**< int32 and int64 inputs, such as labels, are drawn from 0 to classes - 1
                           [10] */
    bool training;    /**< training mode, otherwise evaluation mode [true] */
    bool gradient;    /**< compare the gradient with finite differences [true] */
    bool autocast;    /**< test in bfloat16 and float16 too, unless the operator's policy is
                           YK_AUTOCAST_FULL [true] */
    int threads;      /**< of the cpu device [3] */
    double tolerance; /**< of the relative error of each output, in float32; terms that cancel may
                           have as much error as inputs that are within it, relatively, make
                           [1e-5] */
    bool empty_batch; /**< the first dimension of the inputs counts samples: test a batch without
                           any, too [true] */
} yk_operator_check_options;

/** The defaults of yk_operator_check_options. */
#define YK_OPERATOR_CHECK_OPTIONS_INIT                                                             \
    {                                                                                              \
        sizeof(yk_operator_check_options), NULL, 1, 10, true, true, true, 3, 1e-5, true            \
    }

/**
 * Tests an operator on drawn numbers, as yoke tests its own. The gradient is compared with finite
 * differences in float64 on ref, for each input to which its rule gives one. Then the operator and
 * every operator of its gradient run on every device in float32, float64 and 16 bit, and are
 * compared with ref in float64. They must write every element of their outputs and none of their
 * inputs, give the same bits in place where they may run so, and do without the outputs that
 * nothing reads. Last, the shape rule and the gradient must accept YK_BATCH, and without samples
 * the gradients of parameters must be zero, since a rank of a distributed training may run out of
 * samples before others do. Returns the first failure as an error whose line says what differs.
 * NULL options mean the defaults.
 */
yk_status yk_operator_check(yk_operator_build build, const yk_operator_check_options *options);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

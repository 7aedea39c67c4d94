/*
 * The conformance suite of operators. A case is one operator on one shape; the engine builds it
 * with its own shape and gradient rules, and runs the forward node and every node of its gradient,
 * one by one, on a device and on ref.
 *
 * Each node gets the same operands on both sides, rounded to the dtype under test, so that what
 * differs is one kernel's own error. ref computes in f64; the operators' gradients are themselves
 * held against central differences.
 *
 * Checked besides the values: outputs are written whole (they start as NaN), zero padding of
 * blocked outputs stays zero, inputs stay as they were, kernels that may run in place give the same
 * there, outputs that are not wanted may be absent, running statistics move as ref's do.
 *
 * yoke's tests (tests/device) and programs (yk_operator_check) use it.
 */
#ifndef YKI_CONFORMANCE_H
#define YKI_CONFORMANCE_H

#include "device/device.h"

typedef struct yki_conformance_case {
    const char *label; /* in errors */
    /* Appends one node to the graph, its float operands in dtype, and returns its output 0. */
    yk_value *(*build)(yk_graph *graph, yk_dtype dtype, const void *data);
    /* Changes the node's gradient once it is there; may add inputs, and returns one that is added
     * to dy, or NULL. May be NULL. */
    yk_value *(*adjust)(yk_graph *graph, const void *data);
    const void *data;
    int64_t classes; /* integer inputs are below it */
    bool evaluation; /* default: training */
    bool ties;       /* inputs are multiples of 1/2; not differentiable */
    double spread;   /* inputs are from -spread to spread */
    double floor;    /* added to the norm that errors are relative to */
    uint64_t seed;   /* of the inputs' numbers */
} yki_conformance_case;

/* dtype BF16 or F16: activations in it, parameters and statistics in f32. */
typedef struct yki_conformance_setting {
    const char *device;
    const yki_device_type *type; /* NULL: the library's device of that name */
    yk_dtype dtype;
    int threads;
    bool winograd;
    double tolerance; /* of the relative L2 error of each output; see yki_conformance_device */
} yki_conformance_setting;

/* Every gradient of the case against central differences, in f64 on ref. */
yk_status yki_conformance_gradients(const yki_conformance_case *row);
/*
 * Every node of the case on the device against ref in f64. The error of an output may be the
 * tolerance times its norm and floor, and besides as much as the output changes, on ref, when all
 * inputs change by up to the tolerance, relatively: where terms cancel, or a norm divides by all
 * but nothing, results of inputs that differ by rounding are as far apart. A floor is only for
 * outputs that are zero whatever the inputs are, such as the gradient of a softmax of one value.
 */
yk_status yki_conformance_device(const yki_conformance_case *row,
                                 const yki_conformance_setting *setting);
/*
 * The case with YK_BATCH as the first dimension of its inputs, and run without samples on ref:
 * gradients that do not depend on the batch must be zero. Inputs whose first dimension differs from
 * that of the first one keep theirs.
 */
yk_status yki_conformance_empty(const yki_conformance_case *row);

/*
 * x times 1 + relative sin(phase + log |x| / (2 relative)), the phase drawn from the seed: x as
 * rounding might have left it. Numbers that are near each other move differently, but the function
 * increases everywhere: equal numbers stay equal, and the larger of two stays the larger, so that
 * maxima and masks stay what they were.
 */
double yki_conformance_move(double x, double relative, uint64_t seed);

/* ---- for tests of layouts ------------------------------------------------------------------- */

/* Where element i (row-major) of the operand lies in memory. */
int64_t yki_conformance_place(const yki_device *device, const yki_operand *operand, int64_t i);
/* YK_ERROR_INTERNAL unless the padding channels of a blocked float operand are zeros (an index of
 * max_pool2d has no meaning there). */
yk_status yki_conformance_padding(const yki_device *device, const yki_operand *operand,
                                  const void *memory);

#endif

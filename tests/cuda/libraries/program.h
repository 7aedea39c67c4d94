/* What a plan of the fake cuDNN runs, by plain loops: convolutions, pointwise operations, sums. */
#ifndef YK_FAKE_PROGRAM_H
#define YK_FAKE_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

enum { FAKE_OPERATIONS = 4, FAKE_TENSORS = 3 * FAKE_OPERATIONS };

typedef struct fake_tensor {
    int64_t id, dims[4], strides[4];
    int type;
    bool is_virtual;
} fake_tensor;

typedef enum fake_kind {
    FAKE_FORWARD,         /* a * b -> c */
    FAKE_BACKWARD_DATA,   /* c, b -> a */
    FAKE_BACKWARD_FILTER, /* a, c -> b */
    FAKE_ADD,             /* a + b -> c */
    FAKE_IDENTITY,        /* a -> c */
    FAKE_STATISTICS       /* of each channel of a, the sum -> b, that of squares -> c */
} fake_kind;

typedef struct fake_operation {
    fake_kind kind;
    fake_tensor a, b, c;
    int64_t padding[2], stride[2], dilation[2];
} fake_operation;

/* Plain bytes, all of them defined. */
typedef struct fake_program {
    int engine, count;
    double factor; /* of the results: 1, or NaN for an engine that nobody may run */
    int64_t workspace;
    fake_operation operations[FAKE_OPERATIONS];
} fake_program;

/* The memory of each tensor that is not virtual, by its id. */
void fake_program_run(const fake_program *program, int count, const int64_t *ids,
                      void *const *memory, void *workspace);

/* The tensors that are not virtual. Returns how many there are. */
int fake_program_tensors(const fake_program *program, const fake_tensor *tensors[FAKE_TENSORS]);

#endif

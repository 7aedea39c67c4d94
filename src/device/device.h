/*
 * The contract of a device: a layout for each value, and a table of kernels. The planner asks the
 * table for a kernel that supports an operator on given operands, prepares it once, and runs it
 * every step.
 *
 * Invariants: prepare may allocate, run may not; run is called by one thread at a time; parameters,
 * statistics and everything a user sees are in YKI_PLAIN.
 */
#ifndef YKI_DEVICE_H
#define YKI_DEVICE_H

#include "device/sync.h"
#include "graph/operators.h"

typedef enum yki_layout {
    YKI_PLAIN,  /* row-major */
    YKI_BLOCKED /* (N, C/b, H, W, b): channels in blocks of the device's b, the last zero-padded */
} yki_layout;

/* One input or output as a kernel meets it: a concrete shape. ndim < 0: absent. */
typedef struct yki_operand {
    yk_dtype dtype;
    int ndim;
    int64_t dims[YK_MAX_DIMS];
    yki_layout layout;
} yki_operand;

/* What a kernel is to do. */
typedef struct yki_kernel_desc {
    const yki_op *op;
    const yki_attrs *attrs;
    bool training; /* batch_norm, dropout */
    int in_count, out_count;
    yki_operand in[YKI_MAX_IN];
    yki_operand out[YKI_MAX_OUT];
} yki_kernel_desc;

typedef struct yki_device yki_device;
typedef struct yki_kernel yki_kernel;

/* One run's pointers; absent operands are NULL. in[] of running statistics is written to. */
typedef struct yki_kernel_args {
    void *const *in;
    void *const *out;
    void *scratch;       /* kernel->scratch bytes, 64-byte aligned, contents undefined */
    uint64_t seed, step; /* of dropout */
    /* batch_norm in training takes its statistics over all ranks; NULL: over this run's batch. */
    const yki_sync *sync;
} yki_kernel_args;

typedef struct yki_kernel_impl {
    const yki_op *op;
    int inplace; /* 1 + the input whose memory output 0 may take; 0: none */
    bool (*supports)(const yki_device *device, const yki_kernel_desc *desc);
    yk_status (*prepare)(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel);
    yk_status (*run)(const yki_kernel *kernel, const yki_kernel_args *run);
    void (*destroy)(yki_kernel *kernel); /* NULL: free() */
    /* A parameter packed once a step (kernel->pack_bytes > 0) into the kernel's own layout. */
    yk_status (*pack)(const yki_kernel *kernel, const void *parameter, void *packed);
    /* Whether another kernel of the same parameter reads the same packed bytes. */
    bool (*same_pack)(const yki_kernel *kernel, const yki_kernel *other);
} yki_kernel_impl;

/* The head of every prepared kernel; the concrete struct embeds it first. */
struct yki_kernel {
    const yki_kernel_impl *impl;
    size_t scratch;
    int pack_input;    /* the input that is packed ... */
    size_t pack_bytes; /* ... into so many bytes; 0: none, run gets the parameter itself */
};

typedef struct yki_device_type {
    const char *name;
    yk_status (*create)(yki_device **device, int threads, bool winograd);
    void (*destroy)(yki_device *device);
    /* Before preparing or running on this thread; NULL: nothing to do. */
    void (*enter)(yki_device *device);
    yki_layout (*layout)(const yki_device *device, const yki_operand *operand);
    const yki_kernel_impl *const *kernels; /* NULL at the end; earlier ones are preferred */
} yki_device_type;

struct yki_device {
    const yki_device_type *type;
    int threads;
    int block; /* b of YKI_BLOCKED; 0: the device has no such layout */
    char description[160];
};

/* "cpu" or "ref". */
yk_status yki_device_create(yki_device **device, const char *name, int threads, bool winograd);
void yki_device_destroy(yki_device *device);

/* The kernel for desc, prepared: the device's own, else ref's (which reads YKI_PLAIN alone). A
 * batch of no samples is for no device: see empty.c. batch_norm kernels alone must bear one. */
yk_status yki_kernel_create(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel);
void yki_kernel_destroy(yki_kernel *kernel);

/* Elements with padding, and bytes, that an operand takes in memory. */
int64_t yki_operand_elements(const yki_device *device, const yki_operand *operand);
size_t yki_operand_bytes(const yki_device *device, const yki_operand *operand);
/* Elements of the shape, without padding. */
int64_t yki_operand_count(const yki_operand *operand);

extern const yki_device_type yki_device_ref;
extern const yki_device_type yki_device_cpu;
extern const yki_kernel_impl yki_kernel_empty;

#endif

/*
 * The contract of a device: memory and streams (memory.h), a layout for images, and a table of
 * kernels. The planner looks up a kernel that supports an operator on given operands, prepares it
 * once, and runs it in every step.
 *
 * Invariants: prepare may allocate memory, run may not. One thread at a time calls run. On a host
 * device the work is done when run and pack return. On any other they enter it in the stream that
 * they are given: they read the arrays of arguments before they return, but never the memory that
 * these point to. All values but images (compile/images.c) are in YKI_PLAIN: parameters, statistics
 * and everything that a user sees, too.
 */
#ifndef YKI_DEVICE_H
#define YKI_DEVICE_H

#include "device/choice.h"
#include "device/exchange.h"
#include "device/low_rank.h"
#include "device/memory.h"
#include "device/muon.h"
#include "device/pictures.h"
#include "device/scalars.h"
#include "device/sweep.h"
#include "device/sync.h"
#include "graph/operators.h"

#pragma GCC visibility push(default) /* shared with modules, see device/module.h */

typedef enum yki_layout {
    YKI_PLAIN,        /* row-major */
    YKI_BLOCKED,      /* (N, C/b, H, W, b): channels in blocks of the device's b, the last
                         zero-padded */
    YKI_CHANNELS_LAST /* (N, H, W, C) */
} yki_layout;

/* One input or output of a kernel, with a concrete shape. ndim < 0 if it is absent. */
typedef struct yki_operand {
    yk_dtype dtype;
    int ndim;
    int64_t dims[YK_MAX_DIMS];
    yki_layout layout;
} yki_operand;

/* The work that a kernel is prepared for. */
typedef struct yki_kernel_desc {
    const yki_op *op;
    const yki_attrs *attrs;
    bool training; /* read by batch_norm, dropout and attention */
    int in_count, out_count;
    yki_operand in[YKI_MAX_IN];
    yki_operand out[YKI_MAX_OUT];
} yki_kernel_desc;

typedef struct yki_kernel yki_kernel;

/* The pointers of one run; those of absent operands are NULL. Running statistics are inputs that
 * are written to. */
typedef struct yki_kernel_args {
    void *const *in;
    void *const *out;
    void *scratch;              /* kernel->scratch bytes, contents undefined, at a multiple of
                                   YKI_SCRATCH_ALIGNMENT in a block of the device's memory */
    yki_stream *stream;         /* in which the kernel's work is entered; NULL on a host device */
    const yki_scalars *scalars; /* in the device's memory; read where attrs.p is */
    /* If not NULL, batch_norm in training takes its statistics over all ranks, not just over the
     * batch of this run. */
    const yki_sync *sync;
    const yki_exchange *exchange; /* with the other ranks; NULL: there is no yk_ddp */
} yki_kernel_args;

/* Of inplace, for operators of two sides. */
enum { YKI_EITHER_SIDE = 1 << 0 | 1 << 1 };

typedef struct yki_kernel_impl {
    const yki_op *op;
    /* Its name among the operator's kernels that may be measured against each other; NULL if it is
     * not one of them. */
    const char *name;
    unsigned inplace; /* the inputs whose memory output 0 may take: 1 << i for input i */
    bool (*supports)(const yki_device *device, const yki_kernel_desc *desc);
    /* Whether it is expected to be the fastest where kernels are not measured; NULL: always. */
    bool (*gains)(const yki_device *device, const yki_kernel_desc *desc);
    yk_status (*prepare)(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel);
    yk_status (*run)(const yki_kernel *kernel, const yki_kernel_args *run);
    void (*destroy)(yki_kernel *kernel); /* NULL means free() */
    bool on_host; /* run waits for the device, so that no recording can contain it */
    /* Packs a parameter into the kernel's own layout, once per step, if kernel->pack_bytes > 0. */
    yk_status (*pack)(const yki_kernel *kernel, const void *parameter, void *packed,
                      yki_stream *stream);
    /* Whether another kernel of the same parameter, whose impl has this function too, reads the
     * same packed bytes; NULL: none does. Call yki_kernels_share_pack(). */
    bool (*same_pack)(const yki_kernel *kernel, const yki_kernel *other);
} yki_kernel_impl;

/* The head of every prepared kernel; the concrete struct embeds it first. */
struct yki_kernel {
    const yki_kernel_impl *impl;
    size_t scratch;
    int pack_input;    /* the input that is packed ... */
    size_t pack_bytes; /* ... into this many bytes; if 0, run gets the parameter itself */
    double flop;       /* that its algorithm computes; 0: as many as the operator's definition */
    bool matrix_unit;  /* what matrix_flop_s of yk_device_limits stands for computes them */
    bool sums;         /* of conv2d: run writes the sums that desc asks for; they are absent else */
};

/* How a device is opened. */
typedef struct yki_device_options {
    int index;     /* which of the devices of this type; set by yki_device_create */
    bool any;      /* no index was named: it is this rank's number on its machine, and ranks share
                      devices if there are too few */
    int threads;   /* of a host device's kernels */
    bool winograd; /* whether convolutions may use Winograd's algorithm */
    bool measures; /* a host device chooses kernels by measuring them, see choice.h */
} yki_device_options;

/* What a device can do at most, 0 where that is not known; see yk_device_limits. */
typedef struct yki_limits {
    double flop_s, bytes_s, matrix_flop_s;
} yki_limits;

typedef struct yki_device_type {
    const char *name;
    yk_status (*create)(yki_device **device, const yki_device_options *options);
    void (*destroy)(yki_device *device);
    /* Changes the number of threads before any kernel is prepared; NULL where the host's threads
     * do not compute. */
    void (*set_threads)(yki_device *device, int threads);
    /* Called on a thread before it prepares or runs kernels; may be NULL. */
    void (*enter)(yki_device *device);
    /* In which it keeps an image, of four dimensions. */
    yki_layout (*layout)(const yki_device *device, const yki_operand *image);
    /* Called for every kernel of a plan before the first of them is prepared, and with NULL once
     * all are, or one has failed: what takes long can be done for all of them at once. May be NULL.
     */
    void (*foresee)(yki_device *device, const yki_kernel_desc *desc);
    /* Whether two kernels that have been prepared, and of which neither needs what the other
     * writes, take less time beside each other, in two streams, than in turn. NULL: none do. */
    bool (*beside)(yki_device *device, const yki_kernel *first, const yki_kernel *second);
    int64_t most_elements; /* of a tensor, for its kernels; 0: as many as fit into memory */
    const yki_kernel_impl *const *kernels; /* ends with NULL; earlier ones are preferred */
    /* One pass over many tensors, see sweep.h; may not allocate. */
    yk_status (*sweep)(yki_device *device, const yki_sweep_args *args);
    const yki_muon_ops *muon; /* the updates of matrices by Muon, see muon.h */
    /* Approximates matrices, see low_rank.h; NULL on a host device, where yki_low_rank_run does. */
    yk_status (*low_rank)(yki_device *device, const yki_low_rank_args *args);
    /* Writes the time at which the stream comes to this point to the device's memory, by a clock of
     * its own; see times.h. NULL on a host device. */
    yk_status (*note_time)(yki_device *device, int64_t *nanoseconds, yki_stream *stream);
    /* Makes a batch of pictures, see pictures.h; NULL where the host's threads make batches. */
    yk_status (*pictures)(yki_device *device, const yki_pictures_args *args);
    /* Measures what the device can do; NULL where nothing is known. */
    yk_status (*measure)(yki_device *device, yki_limits *limits);
    const yki_memory_ops *memory;
    const yki_stream_ops *streams; /* NULL: a host device, see memory.h */
    /* The backend that moves its memory between ranks (yoke/backend.h); NULL: there is none. */
    const char *backend;
} yki_device_type;

struct yk_device {
    const yki_device_type *type;
    yki_stream *stream; /* in which models compute; NULL on a host device */
    yki_watcher *watchers;
    yki_choices choices;  /* of kernels */
    const void *hardware; /* equal in all devices that are the same GPU; NULL: no other is */
    int threads;
    int block;     /* b of YKI_BLOCKED, or 0 if the device has no such layout */
    bool walks;    /* records nothing, although its type can */
    char name[32]; /* as it was opened, e.g. "cpu" */
    char description[256];
};

/* Opens a device by its name, "type" or "type:index", e.g. "cpu". */
yk_status yki_device_create(yki_device **device, const char *name,
                            const yki_device_options *options);
void yki_device_destroy(yki_device *device);

/* Prepares a kernel for desc: the device's own or, on a host device, ref's, with copies where an
 * operand is not in YKI_PLAIN; other devices make copies where one is (see plain.c). Those of ref
 * that are entered by the host run on every device. Empty batches never reach a device (see
 * empty.c), except that batch_norm kernels, and those that gather batches, are called with them. */
yk_status yki_kernel_create(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel);
void yki_kernel_destroy(yki_kernel *kernel);
/* Whether two kernels that pack the same parameter read the same packed bytes. */
bool yki_kernels_share_pack(const yki_kernel *a, const yki_kernel *b);

/* Elements with padding, and bytes, that an operand takes in memory. */
int64_t yki_operand_elements(const yki_device *device, const yki_operand *operand);
size_t yki_operand_bytes(const yki_device *device, const yki_operand *operand);
/* Elements of the shape, without padding. */
int64_t yki_operand_count(const yki_operand *operand);

/* Sets the channels of a blocked operand's last block that are none to zero. */
void yki_operand_clear_padding(const yki_device *device, const yki_operand *operand, void *memory);

/* Of host devices. */
extern const yki_memory_ops yki_host_memory;

extern const yki_device_type yki_device_ref;
extern const yki_device_type yki_device_cpu;
extern const yki_device_type yki_device_sim;
extern const yki_kernel_impl yki_kernel_empty;
/* The second for a program's operator on a device that is not the host's. */
extern const yki_kernel_impl yki_kernel_plain, yki_kernel_plain_on_host;
/* On a device that is not the host's, for operands that are not in the device's own layout. */
extern const yki_kernel_impl yki_kernel_relaid;
/* For a program's operator: one of those below, or NULL where it has no kernel (see custom.c). */
const yki_kernel_impl *yki_custom_kernel(const yki_device *device, const yki_kernel_desc *desc);
extern const yki_kernel_impl yki_kernel_custom, yki_kernel_custom_in_place,
    yki_kernel_custom_on_host;

#pragma GCC visibility pop

#endif

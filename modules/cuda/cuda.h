/*
 * The operators of the cuda device as launches of its kernels (kernels/). Which library launches
 * them is behind the launcher: the driver's, or the simulator's of tests/cuda.
 *
 * Images have their channels last (YKI_CHANNELS_LAST); all other tensors are plain.
 */
#ifndef YKI_CUDA_H
#define YKI_CUDA_H

#include "arguments.h"
#include "device/device.h"

typedef struct yki_cuda_grid {
    unsigned x, y, z;
} yki_cuda_grid;

typedef struct yki_cuda_launcher {
    /* The kernel of this name; NULL if there is none. */
    const void *(*find)(const struct yki_cuda_launcher *launcher, const char *name);
    yk_status (*launch)(const struct yki_cuda_launcher *launcher, const void *kernel,
                        yki_cuda_grid grid, const void *args, size_t bytes, yki_stream *stream);
    /* The driver's handle of a stream, for NVIDIA's libraries. */
    void *(*handle_of)(yki_stream *stream);
    /* How long what `work` enters in the device's stream takes, after what `before` enters there.
     * NULL: nothing is measured. */
    yk_status (*measure)(yki_device *device, yk_status (*before)(const void *context),
                         yk_status (*work)(const void *context), const void *context,
                         double *seconds);
} yki_cuda_launcher;

enum { YKI_CUDA_SWEEPS = YKI_SWEEP_HASH + 1 };

/* When kernels run beside each other, see conv/beside.h. */
typedef enum yki_cuda_besides {
    YKI_CUDA_BESIDE_MEASURED, /* where it takes less time; the choice is kept, as plans are */
    YKI_CUDA_BESIDE_NEVER,
    YKI_CUDA_BESIDE_ALWAYS
} yki_cuda_besides;

/* The head of the device. */
typedef struct yki_cuda_device {
    yki_device base;
    const yki_cuda_launcher *launcher;
    struct {
        const void *chunks, *result;
    } sweeps[YKI_CUDA_SWEEPS];              /* kernels, by operation; result may be NULL */
    const void *pictures[2];                /* kernels, for f32 and f64 */
    const void *low_rank[YKI_LOW_RANK_OPS]; /* kernels, by operation */
    const void *clock;                      /* the kernel that notes the time */
    const void *fill;                       /* see yki_cuda_fill_args */
    yki_cuda_mistakes *mistakes;
    bool winograd;             /* see yki_device_options */
    bool flash;                /* attention may keep its scores in registers */
    struct yki_cudnn *cudnn;   /* opened by the first kernel that needs it; see libraries.h */
    struct yki_cublas *cublas; /* likewise */
    bool measures;             /* chooses plans by measuring them, see conv/plan.h */
    bool fuses;                /* convolutions may give sums to batch_norm */
    yki_cuda_besides besides;
    char model[96]; /* of the GPU: plans are kept for it; empty: they are not */
    struct yki_cuda_conv_plan *plans;
    struct yki_cuda_candidates *candidates; /* see conv/candidates.h */
    bool foresees;                          /* plans: some have been foreseen, and ... */
    int plan_lock;                          /* ... other ranks are kept from making them */
    size_t cache_bytes;                     /* to fill, and the GPU's caches hold nothing else */
    size_t score_bytes;                     /* that the scores of attention take at most, except
                                               for those of heads that share keys */
    struct yki_cuda_muon_shape *muons;      /* matrices that Muon updates, see muon.h */
} yki_cuda_device;

/* The kernels that take part in an operator. */
enum { YKI_CUDA_STAGES = 5 };

typedef struct yki_cuda_kernel {
    yki_kernel base;
    yki_cuda_device *device;
    yki_kernel_desc desc;
    yki_attrs attrs;
    const void *stage[YKI_CUDA_STAGES];
} yki_cuda_kernel;

/* All operators; ends with NULL. */
extern const yki_kernel_impl *const yki_cuda_kernels[];

/* ---- head.c ---------------------------------------------------------------------------------- */

/* Finds the kernels that are no operators; once, when the device is created. */
yk_status yki_cuda_head_open(yki_cuda_device *device);
/* A kernel by its name; an error if there is none. */
yk_status yki_cuda_find_of_device(const yki_cuda_device *device, const char *name,
                                  const void **kernel);
/* Frees what has been prepared, and closes NVIDIA's libraries; before the device's context goes. */
void yki_cuda_head_close(yki_cuda_device *device);

/* ---- functions of the device's table, and those that find their kernels ---------------------- */

yk_status yki_cuda_find_sweeps(yki_cuda_device *device);
yk_status yki_cuda_sweep(yki_device *device, const yki_sweep_args *args);
yk_status yki_cuda_find_pictures(yki_cuda_device *device);
yk_status yki_cuda_pictures(yki_device *device, const yki_pictures_args *args);
yk_status yki_cuda_find_low_rank(yki_cuda_device *device);
yk_status yki_cuda_low_rank(yki_device *device, const yki_low_rank_args *args);
yk_status yki_cuda_find_clock(yki_cuda_device *device);
yk_status yki_cuda_note_time(yki_device *device, int64_t *nanoseconds, yki_stream *stream);

/* See yki_device_type. */
void yki_cuda_foresee(yki_device *device, const yki_kernel_desc *desc);

yki_layout yki_cuda_layout(const yki_device *device, const yki_operand *operand);

/* ---- for operators --------------------------------------------------------------------------- */

/* Operands with fewer than 2^31 elements, those of four dimensions in one layout: of an operator of
 * images, in that of the device. */
bool yki_cuda_supports(const yki_device *device, const yki_kernel_desc *desc);
/* As above, but the operands may have different layouts. */
bool yki_cuda_supports_any_layout(const yki_device *device, const yki_kernel_desc *desc);
/* As yki_cuda_supports, in f32 or f64. */
bool yki_cuda_supports_full(const yki_device *device, const yki_kernel_desc *desc);

yk_status yki_cuda_prepare(yki_device *device, const yki_kernel_desc *desc,
                           yki_cuda_kernel **kernel);
/* For a kernel that has more than this head. */
void yki_cuda_kernel_init(yki_cuda_kernel *kernel, yki_device *device, const yki_kernel_desc *desc);
/* "f32", ... in the names of kernels. */
const char *yki_cuda_suffix(yk_dtype dtype);
/* Finds the kernel "name_f32" of a dtype, "name_f32_1" if it takes single elements. */
yk_status yki_cuda_find(yki_cuda_kernel *kernel, int stage, const char *name, yk_dtype dtype,
                        bool vectors);
yk_status yki_cuda_find_exactly(yki_cuda_kernel *kernel, int stage, const char *name);
/* Hands the kernel over if the status is YK_OK, else frees it; returns the status. */
yk_status yki_cuda_prepared(yki_cuda_kernel *made, yk_status status, yki_kernel **kernel);
/* All of that for one kernel: of the first input's dtype, or of a given one. */
yk_status yki_cuda_prepare_one(yki_device *device, const yki_kernel_desc *desc, const char *name,
                               bool vectors, yki_kernel **kernel);
yk_status yki_cuda_prepare_named(yki_device *device, const yki_kernel_desc *desc, const char *name,
                                 yk_dtype dtype, bool vectors, yki_kernel **kernel);

yk_status yki_cuda_launch(const yki_cuda_kernel *kernel, int stage, yki_cuda_grid grid,
                          const void *args, size_t bytes, const yki_kernel_args *run);

/* Numbers of another type, of which one of both has 16 bits. */
yk_status yki_cuda_convert_find(yki_cuda_kernel *kernel, int stage, yk_dtype from, yk_dtype to);
yk_status yki_cuda_convert(const yki_cuda_kernel *kernel, int stage, const void *from, void *to,
                           int64_t count, const yki_kernel_args *run);

/* The pointer of an operand in this run; NULL if it is absent. */
void *yki_cuda_in(const yki_cuda_kernel *kernel, const yki_kernel_args *run, int index);
void *yki_cuda_out(const yki_cuda_kernel *kernel, const yki_kernel_args *run, int index);

/* Whether the device computes in the dtype. */
bool yki_cuda_is_real(yk_dtype dtype);
/* Room in a kernel's scratch memory, aligned for every library; returns where it begins. */
size_t yki_cuda_reserve(yki_cuda_kernel *kernel, size_t bytes);

/* An operand as a matrix: pixels and channels, or what is before the last dimension and it. */
int64_t yki_cuda_rows(const yki_operand *operand);
int32_t yki_cuda_columns_of(const yki_operand *operand);
/* How many elements of the dtype are in 16 bytes. */
int yki_cuda_width(yk_dtype dtype);
/* The dtype's width if it divides count, else 1. */
int yki_cuda_width_for(yk_dtype dtype, int64_t count);

/* ---- grids ----------------------------------------------------------------------------------- */

enum { YKI_CUDA_BLOCKS = 512 }; /* which large GPUs run at once */

int64_t yki_cuda_blocks(int64_t items, int64_t items_of_block);
/* A grid's y and z, which have a limit: the kernel's blocks loop over the rest. */
unsigned yki_cuda_blocks_in_loops(int64_t blocks);
/* One thread for each item. */
yki_cuda_grid yki_cuda_grid_of(int64_t items);
/* How columns are divided for vectors of this width; as many slices as grid.y. The kernel takes so
 * many matrices of this size at once, whose slices fill the GPU together. */
yki_cuda_grid yki_cuda_grid_of_columns(int64_t matrices, int64_t rows, int64_t columns, int width,
                                       yki_cuda_columns *at);
yki_cuda_grid yki_cuda_grid_of_transpose(const yki_cuda_transpose_args *args);
/* Of sums_merge and its like. */
yki_cuda_grid yki_cuda_grid_of_merge(int64_t columns);
/* Bytes of the partial sums. */
size_t yki_cuda_partial_bytes(yki_cuda_grid grid, const yki_cuda_columns *at);

#endif

/*
 * What the kernels of this folder need to know about their operands: which are present, how a 4-d
 * operand is arranged in memory, and how many threads its size justifies.
 */
#ifndef YKI_CPU_GEOMETRY_H
#define YKI_CPU_GEOMETRY_H

#include <omp.h>

#include "base/memory.h"
#include "device/cpu/cpu.h"

static inline bool yki_has_in(const yki_kernel_desc *desc, int i)
{
    return i < desc->in_count && desc->in[i].ndim >= 0;
}

static inline bool yki_has_out(const yki_kernel_desc *desc, int i)
{
    return i < desc->out_count && desc->out[i].ndim >= 0;
}

static inline bool yki_is_float(const yki_operand *operand)
{
    return operand->dtype == YK_F32 || operand->dtype == YK_BF16 || operand->dtype == YK_F16;
}

/* Whether both have the same layout and the same dtype, f32, bf16 or f16. */
static inline bool yki_alike(const yki_operand *a, const yki_operand *b)
{
    return yki_is_float(a) && a->dtype == b->dtype && a->layout == b->layout;
}

/* Memory as (images, blocks, pixels, b). Plain tensors have blocks of one channel. */
typedef struct yki_geometry {
    int64_t images, channels, blocks, rows, columns, pixels, b;
} yki_geometry;

static inline yki_geometry yki_geometry_of(const yki_device *device, const yki_operand *x)
{
    bool flat = x->ndim != 4;
    int64_t b = x->layout == YKI_BLOCKED ? device->block : 1;
    int64_t rows = flat ? 1 : x->dims[2], columns = flat ? 1 : x->dims[3];
    return (yki_geometry){.images = x->dims[0],
                          .channels = x->dims[1],
                          .blocks = (x->dims[1] + b - 1) / b,
                          .rows = rows,
                          .columns = columns,
                          .pixels = rows * columns,
                          .b = b};
}

/* The number of threads for so many elements. */
static inline int yki_team(const yki_device *device, int64_t elements)
{
    int64_t useful = elements / yki_cpu_sizes_of(device)->share + 1;
    return useful < device->threads ? (int)useful : device->threads;
}

/*
 * Whether a kernel writes this result past the caches: it is too large to stay there until it
 * is read, and its lines need not be read before they are written. With blocks of 8, a vector is
 * half a line, and the other half must follow at once.
 */
static inline bool yki_streams(const yki_device *device, const yki_operand *result)
{
    return device->block >= 8 && result->dtype == YK_F32 &&
           yki_operand_bytes(device, result) >= yki_cpu_sizes_of(device)->streamed;
}

/* Whether oneDNN has convolutions for blocked activations. For blocks of 4 channels it has only its
 * reference implementation. */
static inline bool yki_onednn_takes_blocks(const yki_device *device)
{
    return device->block >= 8;
}

/* Whether an activation and its result, or two operands of a gradient, do not stay in a cache until
 * they are read again. */
static inline bool yki_exceed_caches(const yki_device *device, const yki_operand *a,
                                     const yki_operand *b)
{
    return yki_operand_bytes(device, a) + yki_operand_bytes(device, b) >=
           yki_cpu_sizes_of(device)->far;
}

/* What a thread has written past the caches becomes visible to the others. */
static inline void yki_stream_settle(void)
{
#if defined(__x86_64__)
    __builtin_ia32_sfence();
#endif
}

/* So many floats in whole lines of the cache. Each thread's own memory has such a size: if two
 * threads wrote to one line, it would go from core to core. */
static inline int64_t yki_line_floats(int64_t floats)
{
    enum { LINE = YKI_ALIGNMENT / (int)sizeof(float) };
    return (floats + LINE - 1) / LINE * LINE;
}

/*
 * How many of so many parts a thread takes at a time: about 64 Ki elements, so that it reads long
 * runs of memory, but at most its share. A thread whose core is busy with something else then holds
 * up the others for less.
 */
static inline int64_t yki_grain(int64_t parts, int64_t elements_of_part, int team)
{
    int64_t grain = (1 << 16) / (elements_of_part + 1) + 1, share = (parts + team - 1) / team;
    return grain < share ? grain : share > 0 ? share : 1;
}

/*
 * Into how many parts of images the weight gradient of a convolution with narrow groups is divided:
 * each part of each channel block is a unit of work. It depends on the shape alone, as the order of
 * sums does. Enough for many threads to share them evenly, but a part has at least 4096 results.
 */
static inline int64_t yki_sum_parts(int64_t images, int64_t blocks, int64_t pixels)
{
    enum { UNITS = 64, PART_PIXELS = 4096 };
    int64_t parts = (UNITS + blocks - 1) / blocks, most = images * pixels / PART_PIXELS;
    parts = parts < most ? parts : most < 1 ? 1 : most;
    return parts < images ? parts : images;
}

/* The calling thread's part of 0 .. count, inside a parallel region or outside. */
static inline void yki_share(int64_t count, int64_t *begin, int64_t *end)
{
    int64_t thread = omp_get_thread_num(), threads = omp_get_num_threads();
    *begin = count * thread / threads;
    *end = count * (thread + 1) / threads;
}

#endif

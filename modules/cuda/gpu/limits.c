/* What the GPU can do: copies within its memory, and products of large matrices by cuBLASLt. The
 * best of a few counts. What there is no room for stays unknown. */
#include "base/memory.h"
#include "gpu/gpu.h"
#include "libraries.h"

enum { REPEATS = 5, MOST_ROWS = 8192 /* of a product's matrices */ };

/* Some of the GPU's memory; NULL if too little is free. */
typedef struct room {
    yki_device *device;
    void *memory;
    size_t bytes;
} room;

static yk_status open_room(room *r, yki_device *device, size_t least, size_t most)
{
    const size_t unit = 512; /* so that halves are aligned */
    size_t available = yki_device_available(device) / 2 / unit * unit;
    *r = (room){.device = device, .bytes = most < available ? most : available};
    return r->bytes < least ? YK_OK : yki_device_alloc(device, r->bytes, &r->memory);
}

static void close_room(const room *r)
{
    yki_device_free(r->device, r->memory, r->bytes);
}

static yk_status find_best(yki_device *device, yk_status (*work)(const void *context),
                           const void *context, double *seconds)
{
    for (int i = 0; i < REPEATS; i++) {
        double taken;
        YK_TRY(yki_cuda_gpu_measure(device, work, work, context, &taken));
        *seconds = i == 0 || taken < *seconds ? taken : *seconds;
    }
    return YK_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static yk_status copy(const void *context)
{
    const room *r = context;
    size_t bytes = r->bytes / 2;
    return yki_device_copy(r->device, r->memory, (char *)r->memory + bytes, bytes,
                           YKI_WITHIN_DEVICE, yki_device_stream(r->device));
}

/* Each byte is read and written; far more of them than the caches hold. */
static yk_status measure_copies(yki_device *device, double *bytes_s)
{
    size_t caches = yki_cuda_gpu_of(device)->cuda.cache_bytes;
    double seconds;
    room r;
    YK_TRY(open_room(&r, device, 2 * caches, 4 * caches));
    yk_status status = r.memory ? find_best(device, copy, &r, &seconds) : YK_OK;
    if (r.memory && status == YK_OK)
        *bytes_s = (double)r.bytes / seconds;
    close_room(&r);
    return status;
}

/* ---- products -------------------------------------------------------------------------------- */

/* Of square matrices. */
typedef struct square {
    yki_cublas_product product;
    room room;    /* of a, b, c and the workspace */
    size_t bytes; /* of each matrix */
} square;

static yk_status multiply(const void *context)
{
    const square *s = context;
    char *a = s->room.memory;
    const yki_cublas_terms terms = {.a = a, .b = a + s->bytes, .c = a + 2 * s->bytes, .scale = 1};
    return yki_cublas_run(&s->product, &terms, a + 3 * s->bytes,
                          yki_device_stream(s->room.device)->handle);
}

/* Enough rows to keep all multiprocessors busy. */
static yk_status choose_rows(const yki_cuda_gpu *gpu, int64_t *rows)
{
    int count;
    YK_TRY(
        yki_cuda_call(DeviceGetAttribute, &count, YKI_CU_ATTRIBUTE_MULTIPROCESSORS, gpu->number));
    *rows = (int64_t)yki_align(64 * (size_t)count, 128);
    *rows = *rows < MOST_ROWS ? *rows : MOST_ROWS;
    return YK_OK;
}

/* With numbers of which none is zero: a GPU multiplies zeros faster. */
static yk_status fill_and_measure(const square *s, double *seconds)
{
    yki_device *device = s->room.device;
    YK_TRY(yki_device_fill(device, s->room.memory, 0x3c, s->room.bytes, yki_device_stream(device)));
    return find_best(device, multiply, s, seconds);
}

static yk_status measure_square(yki_device *device, square *s, int64_t rows, double *flop_s)
{
    size_t bytes = 3 * s->bytes + s->product.workspace;
    double seconds, side = (double)rows;
    YK_TRY(open_room(&s->room, device, bytes, bytes));
    yk_status status = s->room.memory ? fill_and_measure(s, &seconds) : YK_OK;
    if (s->room.memory && status == YK_OK)
        *flop_s = 2 * side * side * side / seconds;
    close_room(&s->room);
    return status;
}

static yk_status measure_products(yki_device *device, yk_dtype dtype, double *flop_s)
{
    yki_cuda_gpu *gpu = yki_cuda_gpu_of(device);
    const yki_cublas *cublas;
    int64_t rows;
    bool found;
    square s;
    YK_TRY(yki_cuda_need_cublas(&gpu->cuda, &cublas));
    YK_TRY(choose_rows(gpu, &rows));
    const yki_cublas_shape shape = {
        .dtype = dtype, .result = dtype, .rows = rows, .inner = rows, .columns = rows};
    s.bytes = (size_t)(rows * rows) * yk_dtype_size(dtype);
    YK_TRY(yki_cublas_prepare(&s.product, cublas, &shape, &found));
    if (!found)
        return YK_OK;
    yk_status status = measure_square(device, &s, rows, flop_s);
    yki_cublas_product_fini(&s.product);
    return status;
}

yk_status yki_cuda_gpu_limits(yki_device *device, yki_limits *limits)
{
    YK_TRY(measure_copies(device, &limits->bytes_s));
    YK_TRY(measure_products(device, YK_F32, &limits->flop_s));
    return measure_products(device, YK_BF16, &limits->matrix_flop_s);
}

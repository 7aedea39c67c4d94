/*
 * See muon.h. Rows and columns of a tall matrix are not exchanged: with A = X^T X, what is B X for
 * others is X B.
 */
#include "muon.h"

#include <stdlib.h>

#include "base/memory.h"
#include "libraries.h"

static const double linear = 3.4445, cubic = -4.775, quintic = 2.0315;

/* Blocks that sum squares, at most: one of them adds up what they have found. */
enum { BLOCKS = YKI_CUDA_THREADS, ITEMS = 16 * YKI_CUDA_THREADS };

/* All that matrices of one shape need, and where it lies in scratch. */
typedef struct yki_cuda_muon_shape {
    struct yki_cuda_muon_shape *next;
    int64_t rows, columns;
    yki_cublas_product gram, square, turn; /* A, A A, and B X or X B */
    size_t x_at[2], a_at, b_at, partial_at, workspace_at, bytes;
    const void *squares, *begin, *apply; /* kernels */
} yki_cuda_muon_shape;

static bool is_tall(const yki_cuda_muon_shape *shape)
{
    return shape->rows > shape->columns;
}

/* ---- preparing ------------------------------------------------------------------------------- */

static size_t reserve(yki_cuda_muon_shape *shape, size_t bytes)
{
    size_t at = shape->bytes;
    shape->bytes = yki_align(at + bytes, 256);
    return at;
}

static void free_shape(yki_cuda_muon_shape *shape)
{
    yki_cublas_product_fini(&shape->gram);
    yki_cublas_product_fini(&shape->square);
    yki_cublas_product_fini(&shape->turn);
    free(shape);
}

static yk_status find_kernels(yki_cuda_device *device, yki_cuda_muon_shape *shape)
{
    const yki_cuda_launcher *launcher = device->launcher;
    shape->squares = launcher->find(launcher, "muon_squares");
    shape->begin = launcher->find(launcher, "muon_begin");
    shape->apply = launcher->find(launcher, "muon_apply");
    if (shape->squares && shape->begin && shape->apply)
        return YK_OK;
    return yki_error(YK_ERROR_UNSUPPORTED, "device cuda: there are no kernels for Muon");
}

static yk_status prepare_product(yki_cublas_product *product, const yki_cublas *cublas,
                                 yki_cublas_shape shape)
{
    bool found;
    shape.dtype = shape.result = YK_F32;
    YK_TRY(yki_cublas_prepare(product, cublas, &shape, &found));
    return found ? YK_OK : yki_cublas_no_algorithm(&shape);
}

static yk_status prepare_products(yki_cuda_device *device, yki_cuda_muon_shape *s)
{
    const yki_cublas *cublas;
    bool tall = is_tall(s);
    int64_t side = tall ? s->columns : s->rows, other = tall ? s->rows : s->columns;
    yki_cublas_shape gram = {
        .rows = side, .inner = other, .columns = side, .transpose_a = tall, .transpose_b = !tall};
    yki_cublas_shape square = {.rows = side, .inner = side, .columns = side};
    yki_cublas_shape turn = {.rows = s->rows, .inner = side, .columns = s->columns};
    YK_TRY(yki_cuda_need_cublas(device, &cublas));
    YK_TRY(prepare_product(&s->gram, cublas, gram));
    YK_TRY(prepare_product(&s->square, cublas, square));
    return prepare_product(&s->turn, cublas, turn);
}

static void divide_scratch(yki_cuda_muon_shape *s)
{
    int64_t side = is_tall(s) ? s->columns : s->rows;
    const yki_cublas_product *const products[] = {&s->gram, &s->square, &s->turn};
    size_t workspace = 0;
    for (int i = 0; i < 3; i++)
        workspace = products[i]->workspace > workspace ? products[i]->workspace : workspace;
    for (int i = 0; i < 2; i++)
        s->x_at[i] = reserve(s, (size_t)(s->rows * s->columns) * sizeof(float));
    s->a_at = reserve(s, (size_t)(side * side) * sizeof(float));
    s->b_at = reserve(s, (size_t)(side * side) * sizeof(float));
    s->partial_at = reserve(s, BLOCKS * sizeof(double));
    s->workspace_at = reserve(s, workspace);
}

static yki_cuda_muon_shape *find_shape(const yki_cuda_device *device, int64_t rows, int64_t columns)
{
    yki_cuda_muon_shape *shape = device->muons;
    while (shape && (shape->rows != rows || shape->columns != columns))
        shape = shape->next;
    return shape;
}

static yk_status create_shape(yki_cuda_device *device, int64_t rows, int64_t columns)
{
    yki_cuda_muon_shape *shape = yki_calloc(1, sizeof *shape);
    if (!shape)
        return yki_error_memory(sizeof *shape, "muon");
    shape->rows = rows;
    shape->columns = columns;
    yk_status status = find_kernels(device, shape);
    if (status == YK_OK)
        status = prepare_products(device, shape);
    if (status != YK_OK) {
        free_shape(shape);
        return status;
    }
    divide_scratch(shape);
    shape->next = device->muons;
    device->muons = shape;
    return YK_OK;
}

static yk_status prepare(yki_device *device, int64_t rows, int64_t columns, size_t *scratch)
{
    yki_cuda_device *cuda = (yki_cuda_device *)device;
    *scratch = 0;
    if (device->type->enter)
        device->type->enter(device);
    if (!find_shape(cuda, rows, columns))
        YK_TRY(create_shape(cuda, rows, columns));
    *scratch = find_shape(cuda, rows, columns)->bytes;
    return YK_OK;
}

void yki_cuda_muons_free(yki_cuda_device *device)
{
    while (device->muons) {
        yki_cuda_muon_shape *next = device->muons->next;
        free_shape(device->muons);
        device->muons = next;
    }
}

/* ---- the update ------------------------------------------------------------------------------ */

typedef struct update {
    const yki_cuda_device *device;
    const yki_cuda_muon_shape *shape;
    const yki_muon_args *args;
} update;

static void *in_scratch(const update *u, size_t at)
{
    return (char *)u->args->scratch + at;
}

static unsigned blocks_of(const update *u)
{
    int64_t blocks = yki_cuda_blocks(u->args->rows * u->args->columns, ITEMS);
    return (unsigned)(blocks < BLOCKS ? blocks : BLOCKS);
}

/* Of args, `in` and `out` are given. */
static yk_status launch(const update *u, const void *kernel, yki_cuda_muon_args args)
{
    const yki_cuda_launcher *launcher = u->device->launcher;
    args.partial = in_scratch(u, u->shape->partial_at);
    args.coefficients = u->args->coefficients;
    args.count = u->args->rows * u->args->columns;
    args.rows = u->args->rows;
    args.weight_decay = u->args->weight_decay;
    args.blocks = (int32_t)blocks_of(u);
    args.normalize = u->args->normalize;
    return launcher->launch(launcher, kernel, (yki_cuda_grid){blocks_of(u), 1, 1}, &args,
                            sizeof args, u->args->stream);
}

static yk_status multiply(const update *u, const yki_cublas_product *product,
                          const yki_cublas_terms *terms)
{
    return yki_cublas_run(product, terms, in_scratch(u, u->shape->workspace_at),
                          u->device->launcher->handle_of(u->args->stream));
}

/* X becomes *next. */
static yk_status improve(const update *u, const float *x, void *next)
{
    const yki_cuda_muon_shape *s = u->shape;
    float *a = in_scratch(u, s->a_at), *b = in_scratch(u, s->b_at);
    bool tall = is_tall(s);
    YK_TRY(multiply(u, &s->gram, &(yki_cublas_terms){.a = x, .b = x, .c = a, .scale = 1}));
    YK_TRY(
        multiply(u, &s->square,
                 &(yki_cublas_terms){
                     .a = a, .b = a, .c = b, .scale = quintic, .added = a, .added_scale = cubic}));
    return multiply(u, &s->turn,
                    &(yki_cublas_terms){.a = tall ? x : b,
                                        .b = tall ? b : x,
                                        .c = next,
                                        .scale = 1,
                                        .added = x,
                                        .added_scale = linear});
}

static yk_status run_muon(yki_device *device, const yki_muon_args *args)
{
    const yki_cuda_device *cuda = (const yki_cuda_device *)device;
    const yki_cuda_muon_shape *s = find_shape(cuda, args->rows, args->columns);
    const update u = {cuda, s, args};
    if (!s)
        return yki_error(YK_ERROR_INTERNAL, "muon: the shape of a matrix was not prepared");
    float *x = in_scratch(&u, s->x_at[0]), *next = in_scratch(&u, s->x_at[1]);
    YK_TRY(launch(&u, s->squares, (yki_cuda_muon_args){.in = args->update}));
    YK_TRY(launch(&u, s->begin, (yki_cuda_muon_args){.in = args->update, .out = x}));
    for (int step = 0; step < args->steps; step++) {
        YK_TRY(improve(&u, x, next));
        float *kept = x;
        x = next;
        next = kept;
    }
    if (args->normalize)
        YK_TRY(launch(&u, s->squares, (yki_cuda_muon_args){.in = args->value}));
    return launch(&u, s->apply, (yki_cuda_muon_args){.in = x, .out = args->value});
}

const yki_muon_ops yki_cuda_muon = {.prepare = prepare, .update = run_muon};

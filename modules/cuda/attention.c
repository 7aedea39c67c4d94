/*
 * scaled_dot_product_attention: products of all heads at once by cuBLASLt, and between them the
 * softmax of kernels/attention.cu. Heads are first copied apart, and the results back. Scores are
 * in scratch memory, in f32 where the activations have 16 bits.
 */
#include "device/attention.h"

#include <stdlib.h>

#include "base/memory.h"
#include "implementations.h"
#include "libraries.h"

enum { TAKE, GIVE, SOFTMAX };

/* The products: forward's two, and of backward scores again and four more. */
typedef enum attention_product { SCORES, Y, SLOPES = Y, DQ, DK, DV, PRODUCTS } attention_product;

/* The tensors in scratch memory. The gradients of q and v take the rooms of these, once they have
 * been read for the last time. */
typedef enum attention_room {
    Q_HEADS,
    K_HEADS,
    V_HEADS,
    Y_HEADS,
    DK_HEADS,
    ALL_SCORES,
    ALL_SLOPES,
    P,
    DS,
    ROOMS
} attention_room;

typedef struct attention_kernel {
    yki_cuda_kernel cuda;
    yki_attention a;
    yki_cublas_product products[PRODUCTS];
    size_t at[ROOMS], workspace_at;
    size_t size; /* of an element */
} attention_kernel;

static bool supports(const yki_device *device, const yki_kernel_desc *desc)
{
    return yki_cuda_is_real(desc->in[0].dtype) && yki_cuda_supports(device, desc);
}

static void destroy(yki_kernel *kernel)
{
    attention_kernel *k = (attention_kernel *)kernel;
    for (int i = 0; i < PRODUCTS; i++)
        if (k->products[i].cublas)
            yki_cublas_product_fini(&k->products[i]);
    free(k);
}

/* ---- preparation ----------------------------------------------------------------------------- */

static int64_t heads_of(const attention_kernel *k)
{
    return k->a.batch * k->a.heads;
}

static size_t bytes_of_heads(const attention_kernel *k, const yki_attention_part *part)
{
    return (size_t)(heads_of(k) * part->rows * part->width) * k->size;
}

/* A number for each pair of a query and a key. */
static int64_t pairs(const attention_kernel *k)
{
    return heads_of(k) * k->a.q.rows * k->a.k.rows;
}

static void reserve(attention_kernel *k, attention_room room, size_t bytes)
{
    k->at[room] = yki_cuda_reserve(&k->cuda, bytes);
}

/* What forward and backward both need. */
static yk_status prepare_both(attention_kernel *k)
{
    static const char *const takes[] = {"heads_take_2", "heads_take_4", "heads_take_8"};
    static const char *const gives[] = {"heads_give_2", "heads_give_4", "heads_give_8"};
    const int of_size = k->size == 8 ? 2 : k->size == 4;
    const yk_dtype real = yki_accumulate_dtype(k->cuda.desc.in[0].dtype);
    reserve(k, Q_HEADS, bytes_of_heads(k, &k->a.q));
    reserve(k, K_HEADS, bytes_of_heads(k, &k->a.k));
    reserve(k, V_HEADS, bytes_of_heads(k, &k->a.v));
    reserve(k, Y_HEADS, bytes_of_heads(k, &k->a.y));
    reserve(k, ALL_SCORES, (size_t)pairs(k) * yk_dtype_size(real));
    reserve(k, P, (size_t)pairs(k) * k->size);
    YK_TRY(yki_cuda_find_exactly(&k->cuda, TAKE, takes[of_size]));
    return yki_cuda_find_exactly(&k->cuda, GIVE, gives[of_size]);
}

static yk_status prepare_product(attention_kernel *k, attention_product which,
                                 yki_cublas_shape shape)
{
    const yki_cublas *cublas;
    bool found;
    shape.dtype = k->cuda.desc.in[0].dtype;
    shape.batch = heads_of(k);
    YK_TRY(yki_cuda_need_cublas(k->cuda.device, &cublas));
    YK_TRY(yki_cublas_prepare(&k->products[which], cublas, &shape, &found));
    return found ? YK_OK : yki_cublas_no_algorithm(&shape);
}

/* One workspace serves all products. */
static void reserve_workspace(attention_kernel *k)
{
    size_t most = 0;
    for (int i = 0; i < PRODUCTS; i++)
        most = k->products[i].workspace > most ? k->products[i].workspace : most;
    k->workspace_at = yki_cuda_reserve(&k->cuda, most);
}

/* (queries, columns) times the transposed (keys, columns), in f32 at least. */
static yki_cublas_shape against_keys(const attention_kernel *k, int64_t columns)
{
    return (yki_cublas_shape){.result = yki_accumulate_dtype(k->cuda.desc.in[0].dtype),
                              .rows = k->a.q.rows,
                              .inner = columns,
                              .columns = k->a.k.rows,
                              .transpose_b = true};
}

/* (queries, keys) times (keys, columns). */
static yki_cublas_shape over_keys(const attention_kernel *k, int64_t columns)
{
    return (yki_cublas_shape){.result = k->cuda.desc.in[0].dtype,
                              .rows = k->a.q.rows,
                              .inner = k->a.k.rows,
                              .columns = columns};
}

/* The transposed (queries, keys) times (queries, columns). */
static yki_cublas_shape over_queries(const attention_kernel *k, int64_t columns)
{
    return (yki_cublas_shape){.result = k->cuda.desc.in[0].dtype,
                              .rows = k->a.k.rows,
                              .inner = k->a.q.rows,
                              .columns = columns,
                              .transpose_a = true};
}

static yk_status prepare_forward(attention_kernel *k)
{
    YK_TRY(prepare_both(k));
    YK_TRY(prepare_product(k, SCORES, against_keys(k, k->a.q.width)));
    YK_TRY(prepare_product(k, Y, over_keys(k, k->a.v.width)));
    reserve_workspace(k);
    return yki_cuda_find(&k->cuda, SOFTMAX, "attention_softmax", k->cuda.desc.in[0].dtype, true);
}

static yk_status prepare_backward(attention_kernel *k)
{
    const yk_dtype real = yki_accumulate_dtype(k->cuda.desc.in[0].dtype);
    YK_TRY(prepare_both(k));
    reserve(k, DK_HEADS, bytes_of_heads(k, &k->a.k));
    reserve(k, ALL_SLOPES, (size_t)pairs(k) * yk_dtype_size(real));
    reserve(k, DS, (size_t)pairs(k) * k->size);
    YK_TRY(prepare_product(k, SCORES, against_keys(k, k->a.q.width)));
    YK_TRY(prepare_product(k, SLOPES, against_keys(k, k->a.v.width)));
    YK_TRY(prepare_product(k, DQ, over_keys(k, k->a.k.width)));
    YK_TRY(prepare_product(k, DK, over_queries(k, k->a.q.width)));
    YK_TRY(prepare_product(k, DV, over_queries(k, k->a.v.width)));
    reserve_workspace(k);
    return yki_cuda_find(&k->cuda, SOFTMAX, "attention_slopes", k->cuda.desc.in[0].dtype, true);
}

static yk_status prepare(yki_device *device, const yki_kernel_desc *desc,
                         yk_status (*rest)(attention_kernel *k), yki_kernel **kernel)
{
    attention_kernel *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "an attention kernel");
    yki_cuda_kernel_init(&k->cuda, device, desc);
    k->a = yki_attention_of(desc);
    k->size = yk_dtype_size(desc->in[0].dtype);
    yk_status status = rest(k);
    if (status == YK_OK)
        *kernel = &k->cuda.base;
    else
        destroy(&k->cuda.base);
    return status;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void *room_of(const attention_kernel *k, const yki_kernel_args *run, attention_room room)
{
    return (char *)run->scratch + k->at[room];
}

static yk_status move_heads(const attention_kernel *k, const yki_kernel_args *run, int stage,
                            const yki_attention_part *part, const void *in, void *out)
{
    const yki_cuda_heads_args args = {.in = in,
                                      .out = out,
                                      .count = heads_of(k) * part->rows * part->width,
                                      .pitch = part->pitch,
                                      .heads = (int32_t)k->a.heads,
                                      .rows = (int32_t)part->rows,
                                      .width = (int32_t)part->width};
    return yki_cuda_launch(&k->cuda, stage, yki_cuda_grid_of(args.count), &args, sizeof args, run);
}

static yk_status take(const attention_kernel *k, const yki_kernel_args *run,
                      const yki_attention_part *part, const void *rows, attention_room room)
{
    const char *first = (const char *)rows + (size_t)part->first * k->size;
    return move_heads(k, run, TAKE, part, first, room_of(k, run, room));
}

/* Nothing, where the rows are not wanted. */
static yk_status give(const attention_kernel *k, const yki_kernel_args *run, attention_room room,
                      const yki_attention_part *part, void *rows)
{
    if (!rows)
        return YK_OK;
    return move_heads(k, run, GIVE, part, room_of(k, run, room),
                      (char *)rows + (size_t)part->first * k->size);
}

static yk_status multiply(const attention_kernel *k, const yki_kernel_args *run,
                          attention_product which, attention_room a, attention_room b,
                          attention_room c, double scale)
{
    const yki_cublas_terms terms = {
        .a = room_of(k, run, a), .b = room_of(k, run, b), .c = room_of(k, run, c), .scale = scale};
    return yki_cublas_run(&k->products[which], &terms, (char *)run->scratch + k->workspace_at,
                          k->cuda.device->launcher->handle_of(run->stream));
}

static yk_status launch_softmax(const attention_kernel *k, const yki_kernel_args *run,
                                void *log_sums)
{
    const yki_cuda_attention_args args = {.scores = room_of(k, run, ALL_SCORES),
                                          .slopes = room_of(k, run, ALL_SLOPES),
                                          .p = room_of(k, run, P),
                                          .ds = room_of(k, run, DS),
                                          .log_sums = log_sums,
                                          .rows = heads_of(k) * k->a.q.rows,
                                          .queries = (int32_t)k->a.q.rows,
                                          .keys = (int32_t)k->a.k.rows,
                                          .causal = k->a.causal};
    yki_cuda_grid grid = yki_cuda_grid_of(args.rows * 32);
    return yki_cuda_launch(&k->cuda, SOFTMAX, grid, &args, sizeof args, run);
}

static yk_status take_operands(const attention_kernel *k, const yki_kernel_args *run)
{
    YK_TRY(take(k, run, &k->a.q, run->in[k->a.q.operand], Q_HEADS));
    YK_TRY(take(k, run, &k->a.k, run->in[k->a.k.operand], K_HEADS));
    return take(k, run, &k->a.v, run->in[k->a.v.operand], V_HEADS);
}

/* ---- forward --------------------------------------------------------------------------------- */

static yk_status create(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    return prepare(device, desc, prepare_forward, kernel);
}

static yk_status run_forward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const attention_kernel *k = (const attention_kernel *)kernel;
    YK_TRY(take_operands(k, run));
    YK_TRY(multiply(k, run, SCORES, Q_HEADS, K_HEADS, ALL_SCORES, k->a.scale));
    YK_TRY(launch_softmax(k, run, yki_cuda_out(&k->cuda, run, YKI_ATTENTION_LOG_SUMS)));
    YK_TRY(multiply(k, run, Y, P, V_HEADS, Y_HEADS, 1));
    return give(k, run, Y_HEADS, &k->a.y, run->out[YKI_ATTENTION_Y]);
}

const yki_kernel_impl yki_cuda_scaled_dot_product_attention = {
    .op = &yki_op_scaled_dot_product_attention,
    .supports = supports,
    .prepare = create,
    .run = run_forward,
    .destroy = destroy};

/* ---- gradients ------------------------------------------------------------------------------- */

static yk_status create_backward(yki_device *device, const yki_kernel_desc *desc,
                                 yki_kernel **kernel)
{
    return prepare(device, desc, prepare_backward, kernel);
}

static yk_status run_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const attention_kernel *k = (const attention_kernel *)kernel;
    const yki_attention *a = &k->a;
    YK_TRY(take_operands(k, run));
    YK_TRY(take(k, run, &a->y, run->in[YKI_ATTENTION_BACKWARD_DY], Y_HEADS));
    YK_TRY(multiply(k, run, SCORES, Q_HEADS, K_HEADS, ALL_SCORES, a->scale));
    YK_TRY(multiply(k, run, SLOPES, Y_HEADS, V_HEADS, ALL_SLOPES, 1));
    YK_TRY(launch_softmax(k, run, run->in[YKI_ATTENTION_BACKWARD_LOG_SUMS]));
    YK_TRY(multiply(k, run, DV, P, Y_HEADS, V_HEADS, 1));
    YK_TRY(give(k, run, V_HEADS, &a->v, yki_cuda_out(&k->cuda, run, a->v.operand)));
    YK_TRY(multiply(k, run, DK, DS, Q_HEADS, DK_HEADS, a->scale));
    YK_TRY(give(k, run, DK_HEADS, &a->k, yki_cuda_out(&k->cuda, run, a->k.operand)));
    YK_TRY(multiply(k, run, DQ, DS, K_HEADS, Q_HEADS, a->scale));
    return give(k, run, Q_HEADS, &a->q, run->out[a->q.operand]);
}

const yki_kernel_impl yki_cuda_scaled_dot_product_attention_backward = {
    .op = &yki_op_scaled_dot_product_attention_backward,
    .supports = supports,
    .prepare = create_backward,
    .run = run_backward,
    .destroy = destroy};

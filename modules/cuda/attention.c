/*
 * scaled_dot_product_attention: products of several heads at once by cuBLASLt, and between them the
 * softmax of kernels/attention.cu. Heads are first copied apart, and the results back. Scores are
 * in scratch memory, in f32 where the activations have 16 bits. They take at most score_bytes,
 * which limits how many heads are computed at once.
 *
 * Where heads of queries share keys and values, their rows lie one after another once they have
 * been copied: a product takes them as the rows of one head, and so sums over all of them what the
 * gradients of keys and values are.
 */
#include "device/attention.h"

#include <stdio.h>
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
    size_t size;     /* of an element */
    int64_t lanes;   /* elements that a thread moves at once, where heads are copied */
    int64_t at_once; /* heads, of those of all samples: whole groups of those that share keys */
} attention_kernel;

static bool supports(const yki_device *device, const yki_kernel_desc *desc)
{
    const yki_operand *mask = &desc->in[YKI_ATTENTION_MASK];
    const yk_dtype dtype = desc->in[0].dtype;
    return yki_cuda_is_real(dtype) && yki_cuda_supports_any_layout(device, desc) &&
           (mask->ndim < 0 || mask->dtype == yki_accumulate_dtype(dtype));
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

/* The most heads whose scores fit, but not fewer than share keys; a divisor of their number, so
 * that all turns have one size. */
static int64_t heads_at_once(const attention_kernel *k, size_t bytes_of_pair)
{
    const double most = (double)k->cuda.device->score_bytes;
    const double of_head = (double)(k->a.q.rows * k->a.k.rows) * (double)bytes_of_pair;
    const int64_t groups = k->a.batch * k->a.kv_heads;
    int64_t of_turn = groups;
    while (of_turn > 1 && (groups % of_turn || (double)(of_turn * k->a.group) * of_head > most))
        of_turn--;
    return of_turn * k->a.group;
}

static size_t bytes_of_heads(const attention_kernel *k, const yki_attention_part *part)
{
    return (size_t)(k->at_once / part->group * part->rows * part->width) * k->size;
}

/* A number for each pair of a query and a key. */
static int64_t pairs(const attention_kernel *k)
{
    return k->at_once * k->a.q.rows * k->a.k.rows;
}

static void reserve(attention_kernel *k, attention_room room, size_t bytes)
{
    k->at[room] = yki_cuda_reserve(&k->cuda, bytes);
}

/* As many as are in 16 bytes, where all heads begin and end at multiples of these. */
static int64_t lanes_of(const attention_kernel *k)
{
    const yki_attention_part *const parts[] = {&k->a.q, &k->a.k, &k->a.v, &k->a.y};
    const int64_t lanes = 16 / (int64_t)k->size;
    for (int i = 0; i < 4; i++)
        if (parts[i]->first % lanes || parts[i]->pitch % lanes || parts[i]->width % lanes)
            return 1;
    return lanes;
}

static yk_status find_moves(attention_kernel *k)
{
    char name[16];
    const size_t bytes = k->size * (size_t)k->lanes;
    snprintf(name, sizeof name, "heads_take_%zu", bytes);
    YK_TRY(yki_cuda_find_exactly(&k->cuda, TAKE, name));
    snprintf(name, sizeof name, "heads_give_%zu", bytes);
    return yki_cuda_find_exactly(&k->cuda, GIVE, name);
}

/* What forward and backward both need; `matrices` of scores, in f32 and in the size of elements. */
static yk_status prepare_both(attention_kernel *k, size_t matrices)
{
    const yk_dtype real = yki_accumulate_dtype(k->cuda.desc.in[0].dtype);
    k->at_once = heads_at_once(k, matrices * (yk_dtype_size(real) + k->size));
    reserve(k, Q_HEADS, bytes_of_heads(k, &k->a.q));
    reserve(k, K_HEADS, bytes_of_heads(k, &k->a.k));
    reserve(k, V_HEADS, bytes_of_heads(k, &k->a.v));
    reserve(k, Y_HEADS, bytes_of_heads(k, &k->a.y));
    reserve(k, ALL_SCORES, (size_t)pairs(k) * yk_dtype_size(real));
    reserve(k, P, (size_t)pairs(k) * k->size);
    k->lanes = lanes_of(k);
    return find_moves(k);
}

static yk_status prepare_product(attention_kernel *k, attention_product which,
                                 yki_cublas_shape shape)
{
    const yki_cublas *cublas;
    bool found;
    shape.dtype = k->cuda.desc.in[0].dtype;
    shape.batch = k->at_once / k->a.group;
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

/* All queries that one head of keys and values has. */
static int64_t queries_of(const attention_kernel *k)
{
    return k->a.group * k->a.q.rows;
}

/* (queries, columns) times the transposed (keys, columns), in f32 at least. */
static yki_cublas_shape against_keys(const attention_kernel *k, int64_t columns)
{
    return (yki_cublas_shape){.result = yki_accumulate_dtype(k->cuda.desc.in[0].dtype),
                              .rows = queries_of(k),
                              .inner = columns,
                              .columns = k->a.k.rows,
                              .transpose_b = true};
}

/* (queries, keys) times (keys, columns). */
static yki_cublas_shape over_keys(const attention_kernel *k, int64_t columns)
{
    return (yki_cublas_shape){.result = k->cuda.desc.in[0].dtype,
                              .rows = queries_of(k),
                              .inner = k->a.k.rows,
                              .columns = columns};
}

/* The transposed (queries, keys) times (queries, columns). */
static yki_cublas_shape over_queries(const attention_kernel *k, int64_t columns)
{
    return (yki_cublas_shape){.result = k->cuda.desc.in[0].dtype,
                              .rows = k->a.k.rows,
                              .inner = queries_of(k),
                              .columns = columns,
                              .transpose_a = true};
}

static yk_status prepare_forward(attention_kernel *k)
{
    YK_TRY(prepare_both(k, 1));
    YK_TRY(prepare_product(k, SCORES, against_keys(k, k->a.q.width)));
    YK_TRY(prepare_product(k, Y, over_keys(k, k->a.v.width)));
    reserve_workspace(k);
    return yki_cuda_find(&k->cuda, SOFTMAX, "attention_softmax", k->cuda.desc.in[0].dtype, true);
}

static yk_status prepare_backward(attention_kernel *k)
{
    const yk_dtype real = yki_accumulate_dtype(k->cuda.desc.in[0].dtype);
    YK_TRY(prepare_both(k, 2));
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

/* The heads that are computed in one turn: at_once from `first` on. */
typedef struct turn {
    const attention_kernel *k;
    const yki_kernel_args *run;
    int64_t first;
} turn;

static void *room_of(const turn *t, attention_room room)
{
    return (char *)t->run->scratch + t->k->at[room];
}

static yk_status move_heads(const turn *t, int stage, const yki_attention_part *part,
                            const void *in, void *out)
{
    const int64_t heads = t->k->at_once / part->group, width = part->width / t->k->lanes;
    const yki_cuda_heads_args args = {.in = in,
                                      .out = out,
                                      .first = t->first / part->group,
                                      .count = heads * part->rows * width,
                                      .pitch = part->pitch / t->k->lanes,
                                      .heads = (int32_t)(t->k->a.heads / part->group),
                                      .rows = (int32_t)part->rows,
                                      .width = (int32_t)width};
    return yki_cuda_launch(&t->k->cuda, stage, yki_cuda_grid_of(args.count), &args, sizeof args,
                           t->run);
}

static yk_status take(const turn *t, const yki_attention_part *part, const void *rows,
                      attention_room room)
{
    const char *first = (const char *)rows + (size_t)part->first * t->k->size;
    return move_heads(t, TAKE, part, first, room_of(t, room));
}

/* Nothing, where the rows are not wanted. */
static yk_status give(const turn *t, attention_room room, const yki_attention_part *part,
                      void *rows)
{
    if (!rows)
        return YK_OK;
    return move_heads(t, GIVE, part, room_of(t, room),
                      (char *)rows + (size_t)part->first * t->k->size);
}

static yk_status multiply(const turn *t, attention_product which, attention_room a,
                          attention_room b, attention_room c, double scale)
{
    const attention_kernel *k = t->k;
    const yki_cublas_terms terms = {
        .a = room_of(t, a), .b = room_of(t, b), .c = room_of(t, c), .scale = scale};
    return yki_cublas_run(&k->products[which], &terms, (char *)t->run->scratch + k->workspace_at,
                          k->cuda.device->launcher->handle_of(t->run->stream));
}

/* log_sums: of all heads. */
static yk_status launch_softmax(const turn *t, void *log_sums)
{
    const attention_kernel *k = t->k;
    const yki_cuda_attention_args args = {.scores = room_of(t, ALL_SCORES),
                                          .slopes = room_of(t, ALL_SLOPES),
                                          .p = room_of(t, P),
                                          .ds = room_of(t, DS),
                                          .log_sums = log_sums,
                                          .mask = yki_cuda_in(&k->cuda, t->run, YKI_ATTENTION_MASK),
                                          .mask_at = k->a.mask,
                                          .first = t->first * k->a.q.rows,
                                          .rows = k->at_once * k->a.q.rows,
                                          .heads = (int32_t)k->a.heads,
                                          .queries = (int32_t)k->a.q.rows,
                                          .keys = (int32_t)k->a.k.rows,
                                          .causal = k->a.causal,
                                          .dropout = k->a.dropout,
                                          .salt = k->a.salt,
                                          .seed = &t->run->scalars->seed,
                                          .step = &t->run->scalars->step};
    yki_cuda_grid grid = yki_cuda_grid_of(args.rows * 32);
    return yki_cuda_launch(&k->cuda, SOFTMAX, grid, &args, sizeof args, t->run);
}

static yk_status take_operands(const turn *t)
{
    const yki_attention *a = &t->k->a;
    YK_TRY(take(t, &a->q, t->run->in[a->q.operand], Q_HEADS));
    YK_TRY(take(t, &a->k, t->run->in[a->k.operand], K_HEADS));
    return take(t, &a->v, t->run->in[a->v.operand], V_HEADS);
}

static yk_status run_in_turns(const yki_kernel *kernel, const yki_kernel_args *run,
                              yk_status (*run_turn)(const turn *t))
{
    const attention_kernel *k = (const attention_kernel *)kernel;
    for (turn t = {k, run, 0}; t.first < heads_of(k); t.first += k->at_once)
        YK_TRY(run_turn(&t));
    return YK_OK;
}

/* ---- forward --------------------------------------------------------------------------------- */

static yk_status create(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    return prepare(device, desc, prepare_forward, kernel);
}

static yk_status forward(const turn *t)
{
    const attention_kernel *k = t->k;
    YK_TRY(take_operands(t));
    YK_TRY(multiply(t, SCORES, Q_HEADS, K_HEADS, ALL_SCORES, k->a.scale));
    YK_TRY(launch_softmax(t, yki_cuda_out(&k->cuda, t->run, YKI_ATTENTION_LOG_SUMS)));
    YK_TRY(multiply(t, Y, P, V_HEADS, Y_HEADS, 1));
    return give(t, Y_HEADS, &k->a.y, t->run->out[YKI_ATTENTION_Y]);
}

static yk_status run_forward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    return run_in_turns(kernel, run, forward);
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

static yk_status backward(const turn *t)
{
    const yki_cuda_kernel *cuda = &t->k->cuda;
    const yki_attention *a = &t->k->a;
    YK_TRY(take_operands(t));
    YK_TRY(take(t, &a->y, t->run->in[YKI_ATTENTION_BACKWARD_DY], Y_HEADS));
    YK_TRY(multiply(t, SCORES, Q_HEADS, K_HEADS, ALL_SCORES, a->scale));
    YK_TRY(multiply(t, SLOPES, Y_HEADS, V_HEADS, ALL_SLOPES, 1));
    YK_TRY(launch_softmax(t, t->run->in[YKI_ATTENTION_BACKWARD_LOG_SUMS]));
    YK_TRY(multiply(t, DV, P, Y_HEADS, V_HEADS, 1));
    YK_TRY(give(t, V_HEADS, &a->v, yki_cuda_out(cuda, t->run, a->v.operand)));
    YK_TRY(multiply(t, DK, DS, Q_HEADS, DK_HEADS, a->scale));
    YK_TRY(give(t, DK_HEADS, &a->k, yki_cuda_out(cuda, t->run, a->k.operand)));
    YK_TRY(multiply(t, DQ, DS, K_HEADS, Q_HEADS, a->scale));
    return give(t, Q_HEADS, &a->q, t->run->out[a->q.operand]);
}

static yk_status run_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    return run_in_turns(kernel, run, backward);
}

const yki_kernel_impl yki_cuda_scaled_dot_product_attention_backward = {
    .op = &yki_op_scaled_dot_product_attention_backward,
    .supports = supports,
    .prepare = create_backward,
    .run = run_backward,
    .destroy = destroy};

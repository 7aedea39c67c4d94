/*
 * mse_loss, smooth_l1_loss and binary_cross_entropy_with_logits of f32 tensors that share a layout.
 * Pieces of fixed size are summed separately and then added in order, so the sum does not depend on
 * the number of threads. A weight for each channel is first repeated for all elements of a piece.
 */
#include "base/memory.h"
#include "device/cpu/geometry.h"
#include "device/cpu/loops/loops.h"

enum { PIECE = 4096 };

typedef struct pair_loss {
    yki_kernel base;
    const yki_cpu_loops *loops;
    yki_loss_op op;
    int64_t elements, pieces; /* in memory, padding included */
    int64_t weights, repeats; /* weights, and the elements in a row that share one; 0: none */
    double scale;             /* 1, or for a mean 1 / the number of elements without padding */
    float beta;
    int team;
} pair_loss;

typedef struct piece {
    int64_t begin, count;
} piece;

static bool is_scalar_f32(const yki_operand *operand)
{
    return operand->dtype == YK_F32 && operand->ndim == 0;
}

static bool is_forward(const yki_kernel_desc *desc)
{
    return desc->op == &yki_op_mse_loss || desc->op == &yki_op_smooth_l1_loss ||
           desc->op == &yki_op_binary_cross_entropy_with_logits;
}

static yki_loss_op loss_of(const yki_kernel_desc *desc)
{
    if (desc->op == &yki_op_mse_loss || desc->op == &yki_op_mse_loss_backward)
        return YKI_LOSS_MSE;
    return desc->op == &yki_op_smooth_l1_loss || desc->op == &yki_op_smooth_l1_loss_backward
               ? YKI_LOSS_SMOOTH_L1
               : YKI_LOSS_BCE;
}

/* The operand with pos_weight, or NULL. */
static const yki_operand *weights_of(const yki_kernel_desc *desc)
{
    int place = is_forward(desc) ? (int)YKI_BCE_POS_WEIGHT : (int)YKI_BCE_BACKWARD_POS_WEIGHT;
    return loss_of(desc) == YKI_LOSS_BCE && yki_has_in(desc, place) ? &desc->in[place] : NULL;
}

static bool supports(const yki_device *device, const yki_kernel_desc *desc)
{
    const yki_operand *x = &desc->in[0], *target = &desc->in[1], *out = &desc->out[0];
    const yki_operand *weights = weights_of(desc);
    bool fine = x->dtype == YK_F32 && target->dtype == YK_F32 && x->layout == target->layout &&
                (!weights || (weights->dtype == YK_F32 && x->layout == YKI_PLAIN));
    /* Zeros in padding are far from each other's logarithm, but have no difference. */
    if (x->layout == YKI_BLOCKED && loss_of(desc) == YKI_LOSS_BCE)
        fine = fine && x->dims[1] % device->block == 0;
    if (is_forward(desc))
        return fine && is_scalar_f32(out);
    return fine && is_scalar_f32(&desc->in[2]) && out->dtype == YK_F32 && out->layout == x->layout;
}

static yk_status prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    pair_loss *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a kernel of a loss");
    const yki_operand *x = &desc->in[0], *weights = weights_of(desc);
    k->loops = yki_cpu_loops_of(device);
    k->op = loss_of(desc);
    k->elements = yki_operand_elements(device, x);
    k->pieces = (k->elements + PIECE - 1) / PIECE;
    if (weights) {
        k->weights = weights->dims[0];
        k->repeats = 1;
        for (int d = 2; d < x->ndim; d++)
            k->repeats *= x->dims[d];
    }
    bool mean = desc->attrs->reduction == YK_LOSS_MEAN;
    k->scale = mean ? 1 / (double)yki_operand_count(x) : 1;
    k->beta = (float)desc->attrs->beta;
    k->team = yki_team(device, k->op == YKI_LOSS_BCE ? 4 * k->elements : k->elements);
    k->base.scratch = (size_t)k->pieces * sizeof(double);
    *kernel = &k->base;
    return YK_OK;
}

static piece piece_at(const pair_loss *k, int64_t p)
{
    int64_t begin = p * PIECE, left = k->elements - begin;
    return (piece){begin, left < PIECE ? left : PIECE};
}

/* The weight of each element of the piece, or NULL. */
static const float *repeat_weights(const pair_loss *k, const float *weights, piece at, float *room)
{
    if (!weights)
        return NULL;
    int64_t w = at.begin / k->repeats % k->weights, left = k->repeats - at.begin % k->repeats;
    for (int64_t i = 0; i < at.count; i++) {
        room[i] = weights[w];
        if (--left > 0)
            continue;
        left = k->repeats;
        w = w + 1 < k->weights ? w + 1 : 0;
    }
    return room;
}

static yk_status forward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const pair_loss *k = (const pair_loss *)kernel;
    const float *x = run->in[0], *target = run->in[1];
    const float *weights = k->weights > 0 ? run->in[YKI_BCE_POS_WEIGHT] : NULL;
    double *sums = run->scratch, sum = 0;
#pragma omp parallel for num_threads(k->team) if (k->team > 1)
    for (int64_t p = 0; p < k->pieces; p++) {
        float room[PIECE];
        piece at = piece_at(k, p);
        sums[p] = k->loops->loss_sum(k->op, x + at.begin, target + at.begin,
                                     repeat_weights(k, weights, at, room), k->beta, at.count);
    }
    for (int64_t p = 0; p < k->pieces; p++)
        sum += sums[p];
    *(float *)run->out[0] = (float)(sum * k->scale);
    return YK_OK;
}

static yk_status backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const pair_loss *k = (const pair_loss *)kernel;
    const float *x = run->in[0], *target = run->in[1];
    const float *weights = k->weights > 0 ? run->in[YKI_BCE_BACKWARD_POS_WEIGHT] : NULL;
    float factor = (float)((double)*(const float *)run->in[2] * k->scale);
    float *dx = run->out[0];
#pragma omp parallel for num_threads(k->team) if (k->team > 1)
    for (int64_t p = 0; p < k->pieces; p++) {
        float room[PIECE];
        piece at = piece_at(k, p);
        k->loops->loss_slopes(k->op, x + at.begin, target + at.begin,
                              repeat_weights(k, weights, at, room), dx + at.begin, k->beta, factor,
                              at.count);
    }
    return YK_OK;
}

#define IMPL(name, place, function)                                                                \
    const yki_kernel_impl yki_cpu_##name = {.op = &yki_op_##name,                                  \
                                            .inplace = place,                                      \
                                            .supports = supports,                                  \
                                            .prepare = prepare,                                    \
                                            .run = function}
IMPL(mse_loss, 0, forward);
IMPL(mse_loss_backward, 1, backward);
IMPL(smooth_l1_loss, 0, forward);
IMPL(smooth_l1_loss_backward, 1, backward);
IMPL(binary_cross_entropy_with_logits, 0, forward);
IMPL(binary_cross_entropy_with_logits_backward, 1, backward);

/* See functional.h. */
#include <yoke/functional.h>

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "graph/operators.h"

enum { MOST_PADDING = 1024 /* places on a side, each of which is a slice */ };

/* What a function returns if x is invalid: x, so that its error stays, or an invalid value if x is
 * NULL. */
static yk_value *passed_on(yk_value *x, const char *who)
{
    return x ? x : yki_no_operand(who);
}

/* ---- activations ----------------------------------------------------------------------------- */

/* log(1 + x) of x >= 0. What 1 + x rounds away of a small x is added to first order. No gradient
 * passes through this correction. */
static yk_value *log1p_of(yk_value *x)
{
    yk_value *sum = yk_add_scalar(x, 1);
    yk_value *lost = yk_subtract(x, yk_add_scalar(sum, -1));
    return yk_add(yk_log(sum), yk_detach(yk_divide(lost, sum)));
}

yk_value *yk_selu(yk_value *x)
{
    const double alpha = 1.6732632423543772848, scale = 1.0507009873554804934;
    return yk_scale(yk_elu(x, alpha), scale);
}

yk_value *yk_softplus(yk_value *x)
{
    const double linear = 20; /* from here on */
    yk_value *left = log1p_of(yk_exp(yk_clamp(x, -INFINITY, linear)));
    return yk_add(left, yk_relu(yk_add_scalar(x, -linear)));
}

yk_value *yk_logsigmoid(yk_value *x)
{
    return yk_scale(yk_softplus(yk_scale(x, -1)), -1);
}

yk_value *yk_mish(yk_value *x)
{
    return yk_multiply(x, yk_tanh(yk_softplus(x)));
}

yk_value *yk_hardsigmoid(yk_value *x)
{
    return yk_scale(yk_relu6(yk_add_scalar(x, 3)), 1.0 / 6);
}

/* weight (C), as (C, 1, ...) for channels that come second in x. */
static yk_value *of_channels(yk_value *weight, const yk_value *x)
{
    int64_t dims[YK_MAX_DIMS];
    int ndim = yk_value_shape(x, NULL), own = yk_value_shape(weight, dims);
    if (own != 1 || ndim < 3)
        return weight;
    for (int d = 1; d < ndim - 1; d++)
        dims[d] = 1;
    return yk_reshape(weight, ndim - 1, dims);
}

yk_value *yk_prelu(yk_value *x, yk_value *weight)
{
    yk_value *left = yk_multiply(x, of_channels(weight, x));
    return yk_where(yk_greater(x, yk_full_like(x, 0)), x, left);
}

yk_value *yk_glu(yk_value *x, int64_t dim)
{
    int64_t dims[YK_MAX_DIMS], at = dim;
    int ndim = yk_value_shape(x, dims);
    at = yki_from_front(dim, ndim);
    if (ndim < 0)
        return passed_on(x, "glu");
    yk_status status = yki_expect_dim(x, "input", at);
    if (status == YK_OK && dims[at] % 2)
        status = yki_error(YK_ERROR_INVALID_SHAPE,
                           "dimension %lld of input has size %lld, expected an even number",
                           (long long)at, (long long)dims[at]);
    if (status != YK_OK)
        return yki_emit_error(x, "glu", status);
    const int64_t half = dims[at] / 2;
    return yk_multiply(yk_slice(x, at, 0, half), yk_sigmoid(yk_slice(x, at, half, half)));
}

/* ---- shapes ---------------------------------------------------------------------------------- */

yk_value *yk_unsqueeze(yk_value *x, int64_t dim)
{
    int64_t dims[YK_MAX_DIMS], more[YK_MAX_DIMS] = {0};
    int ndim = yk_value_shape(x, dims);
    const int64_t at = dim < 0 ? dim + (ndim + 1) : dim;
    if (ndim < 0)
        return passed_on(x, "unsqueeze");
    if (at < 1 || at > ndim || ndim == YK_MAX_DIMS) {
        char text[96];
        return yki_emit_error(
            x, "unsqueeze",
            yki_error(YK_ERROR_INVALID_ARGUMENT,
                      "input has shape %s, to which dimension %lld cannot be added: expected one "
                      "after the first, of at most %d",
                      yki_shape_text(x, text, sizeof text), (long long)dim, YK_MAX_DIMS));
    }
    for (int d = 0; d <= ndim; d++)
        more[d] = d < at ? dims[d] : d == at ? 1 : dims[d - 1];
    return yk_reshape(x, ndim + 1, more);
}

yk_value *yk_squeeze(yk_value *x, int64_t dim)
{
    int64_t dims[YK_MAX_DIMS];
    int ndim = yk_value_shape(x, dims), kept = 0;
    const int64_t at = yki_from_front(dim, ndim);
    if (ndim < 0)
        return passed_on(x, "squeeze");
    if (at < 1 || at >= ndim || dims[at] != 1) {
        char text[96];
        return yki_emit_error(
            x, "squeeze",
            yki_error(YK_ERROR_INVALID_ARGUMENT,
                      "input has shape %s, expected a size of 1 in dimension %lld, after the first",
                      yki_shape_text(x, text, sizeof text), (long long)dim));
    }
    for (int d = 0; d < ndim; d++)
        if (d != at)
            dims[kept++] = dims[d];
    return yk_reshape(x, kept, dims);
}

yk_value *yk_transpose(yk_value *x, int64_t dim0, int64_t dim1)
{
    int64_t order[YK_MAX_DIMS];
    int ndim = yk_value_shape(x, NULL);
    const int64_t a = yki_from_front(dim0, ndim), b = yki_from_front(dim1, ndim);
    if (ndim < 0)
        return passed_on(x, "transpose");
    yk_status status = yki_expect_dim(x, "input", a);
    status = status == YK_OK ? yki_expect_dim(x, "input", b) : status;
    if (status != YK_OK)
        return yki_emit_error(x, "transpose", status);
    for (int d = 0; d < ndim; d++)
        order[d] = d == a ? b : d == b ? a : d;
    return yk_permute(x, ndim, order);
}

yk_value *yk_select(yk_value *x, int64_t dim, int64_t index)
{
    int64_t dims[YK_MAX_DIMS];
    int ndim = yk_value_shape(x, dims);
    const int64_t at = yki_from_front(dim, ndim);
    if (at >= 0 && at < ndim && index < 0 && dims[at] != YK_BATCH)
        index += dims[at];
    return yk_squeeze(yk_slice(x, at, index, 1), at);
}

yk_value *yk_roll(yk_value *x, int64_t shift, int64_t dim)
{
    int64_t dims[YK_MAX_DIMS];
    int ndim = yk_value_shape(x, dims);
    const int64_t at = yki_from_front(dim, ndim);
    if (ndim < 0)
        return passed_on(x, "roll");
    yk_status status = yki_expect_dim(x, "input", at);
    if (status != YK_OK)
        return yki_emit_error(x, "roll", status);
    const int64_t size = dims[at], moved = (shift % size + size) % size;
    if (moved == 0)
        return x;
    return yk_concat(
        (yk_value *[]){yk_slice(x, at, size - moved, moved), yk_slice(x, at, 0, size - moved)}, 2,
        at);
}

yk_value *yk_stack(yk_value *const *values, int count, int64_t dim)
{
    if (!values || count < 1)
        return yk_concat(values, count, dim); /* which says so */
    yk_value **all = yki_calloc((size_t)count, sizeof *all);
    if (!all)
        return yki_emit_error(values[0], "stack",
                              yki_error_memory((size_t)count * sizeof *all, "stack"));
    for (int i = 0; i < count; i++)
        all[i] = yk_unsqueeze(values[i], dim);
    yk_value *y = yk_concat(all, count, dim);
    free(all);
    return y;
}

static yk_value *refuse_shuffle(yk_value *x, const char *who, const char *what, int64_t factor)
{
    char text[96];
    return yki_emit_error(x, who,
                          yki_error(YK_ERROR_INVALID_SHAPE,
                                    "input has shape %s, expected (N, C, H, W) with %s of %lld",
                                    yki_shape_text(x, text, sizeof text), what, (long long)factor));
}

yk_value *yk_pixel_shuffle(yk_value *x, int64_t upscale_factor)
{
    int64_t dims[YK_MAX_DIMS];
    const int ndim = yk_value_shape(x, dims);
    const int64_t r = upscale_factor;
    if (ndim < 0)
        return passed_on(x, "pixel_shuffle");
    if (ndim != 4 || !yki_in_range(r, 1) || dims[1] % (r * r) != 0)
        return refuse_shuffle(x, "pixel_shuffle", "channels in multiples of the square", r);
    const int64_t channels = dims[1] / (r * r), rows = dims[2], columns = dims[3];
    x = yk_reshape(x, 6, (int64_t[]){dims[0], channels, r, r, rows, columns});
    x = yk_permute(x, 6, (int64_t[]){0, 1, 4, 2, 5, 3});
    return yk_reshape(x, 4, (int64_t[]){dims[0], channels, rows * r, columns * r});
}

yk_value *yk_pixel_unshuffle(yk_value *x, int64_t downscale_factor)
{
    int64_t dims[YK_MAX_DIMS];
    const int ndim = yk_value_shape(x, dims);
    const int64_t r = downscale_factor;
    if (ndim < 0)
        return passed_on(x, "pixel_unshuffle");
    if (ndim != 4 || !yki_in_range(r, 1) || dims[2] % r != 0 || dims[3] % r != 0)
        return refuse_shuffle(x, "pixel_unshuffle", "rows and columns in multiples", r);
    const int64_t rows = dims[2] / r, columns = dims[3] / r;
    x = yk_reshape(x, 6, (int64_t[]){dims[0], dims[1], rows, r, columns, r});
    x = yk_permute(x, 6, (int64_t[]){0, 1, 3, 5, 2, 4});
    return yk_reshape(x, 4, (int64_t[]){dims[0], dims[1] * r * r, rows, columns});
}

/* ---- padding --------------------------------------------------------------------------------- */

/* The place that lies `distance` beyond an end, from 1 on; beyond the first one, if it is before.
 */
static int64_t place_beyond(bool before, int64_t distance, int64_t size, yk_pad_mode mode)
{
    const int64_t end = before ? 0 : size - 1, inwards = before ? 1 : -1;
    if (mode == YK_PAD_REFLECT)
        return end + inwards * distance;
    return mode == YK_PAD_REPLICATE ? end : size - 1 - end - inwards * (distance - 1);
}

static yk_status check_padding(int64_t before, int64_t after, int64_t size, yk_pad_mode mode)
{
    const int64_t wider = before > after ? before : after;
    const int64_t most = mode == YK_PAD_REFLECT    ? size - 1
                         : mode == YK_PAD_CIRCULAR ? size
                                                   : MOST_PADDING;
    if (mode != YK_PAD_REFLECT && mode != YK_PAD_REPLICATE && mode != YK_PAD_CIRCULAR)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "there is no mode %d", (int)mode);
    if (before >= 0 && after >= 0 && wider <= most && wider <= MOST_PADDING)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "padding %lld and %lld of a dimension of size %lld: expected 0 to %lld",
                     (long long)before, (long long)after, (long long)size,
                     (long long)(most < MOST_PADDING ? most : MOST_PADDING));
}

yk_value *yk_pad_with(yk_value *x, int64_t dim, int64_t before, int64_t after, yk_pad_mode mode)
{
    int64_t dims[YK_MAX_DIMS];
    const int ndim = yk_value_shape(x, dims);
    const int64_t at = yki_from_front(dim, ndim);
    if (ndim < 0)
        return passed_on(x, "pad_with");
    yk_status status = yki_expect_dim(x, "input", at);
    if (status == YK_OK)
        status = check_padding(before, after, dims[at], mode);
    const size_t count = status == YK_OK ? (size_t)(before + 1 + after) : 1;
    yk_value **parts = yki_calloc(count, sizeof *parts);
    if (status == YK_OK && !parts)
        status = yki_error_memory(count * sizeof *parts, "pad_with");
    if (status != YK_OK) {
        free(parts);
        return yki_emit_error(x, "pad_with", status);
    }
    for (int64_t i = 0; i < before; i++)
        parts[i] = yk_slice(x, at, place_beyond(true, before - i, dims[at], mode), 1);
    parts[before] = x;
    for (int64_t i = 1; i <= after; i++)
        parts[before + i] = yk_slice(x, at, place_beyond(false, i, dims[at], mode), 1);
    yk_value *y = yk_concat(parts, (int)count, at);
    free(parts);
    return y;
}

yk_value *yk_pad2d_with(yk_value *x, int64_t padding, yk_pad_mode mode)
{
    if (yk_value_shape(x, NULL) >= 0 && yk_value_shape(x, NULL) != 4) {
        char text[96];
        return yki_emit_error(x, "pad2d_with",
                              yki_error(YK_ERROR_INVALID_SHAPE,
                                        "input has shape %s, expected (N, C, H, W)",
                                        yki_shape_text(x, text, sizeof text)));
    }
    return yk_pad_with(yk_pad_with(x, 2, padding, padding, mode), 3, padding, padding, mode);
}

/* ---- norms and similarities ------------------------------------------------------------------ */

/* x, divided by its norm over the dimension, which is at least eps: where it is less, the norm has
 * no gradient. */
static yk_value *normalised(yk_value *x, int64_t dim, double eps)
{
    const int64_t at = yki_from_front(dim, yk_value_shape(x, NULL));
    yk_value *squares = yk_clamp(yk_sum(yk_pow(x, 2), at), eps * eps, INFINITY);
    return yk_divide(x, yk_unsqueeze(yk_sqrt(squares), at));
}

yk_value *yk_normalize(yk_value *x, int64_t dim)
{
    return normalised(x, dim, 1e-12);
}

yk_value *yk_cosine_similarity(yk_value *a, yk_value *b, int64_t dim)
{
    return yk_sum(yk_multiply(normalised(a, dim, 1e-8), normalised(b, dim, 1e-8)), dim);
}

/* Less the largest, whose gradient cancels. */
yk_value *yk_logsumexp(yk_value *x, int64_t dim)
{
    const int64_t at = yki_from_front(dim, yk_value_shape(x, NULL));
    yk_value *largest = yk_detach(yk_amax(x, at));
    yk_value *powers = yk_exp(yk_subtract(x, yk_unsqueeze(largest, at)));
    return yk_add(largest, yk_log(yk_sum(powers, at)));
}

yk_value *yk_pairwise_distance(yk_value *a, yk_value *b)
{
    return yk_sqrt(yk_sum(yk_pow(yk_add_scalar(yk_subtract(a, b), 1e-6), 2), -1));
}

/* ---- losses ---------------------------------------------------------------------------------- */

yk_value *yk_triplet_margin_loss(yk_value *anchor, yk_value *positive, yk_value *negative,
                                 double margin, yk_loss_reduction reduction)
{
    yk_value *nearer = yk_pairwise_distance(anchor, positive);
    yk_value *excess = yk_subtract(nearer, yk_pairwise_distance(anchor, negative));
    return yk_reduce_loss(yk_relu(yk_add_scalar(excess, margin)), reduction);
}

yk_value *yk_cosine_embedding_loss(yk_value *a, yk_value *b, yk_value *target, double margin,
                                   yk_loss_reduction reduction)
{
    yk_value *cosine = yk_cosine_similarity(a, b, -1);
    yk_value *alike = yk_add_scalar(yk_scale(cosine, -1), 1);
    yk_value *apart = yk_relu(yk_add_scalar(cosine, -margin));
    yk_value *is_alike = yk_greater(target, yk_full_like(target, 0));
    return yk_reduce_loss(yk_where(is_alike, alike, apart), reduction);
}

yk_value *yk_margin_ranking_loss(yk_value *a, yk_value *b, yk_value *target, double margin,
                                 yk_loss_reduction reduction)
{
    yk_value *lead = yk_multiply(target, yk_subtract(a, b));
    return yk_reduce_loss(yk_relu(yk_add_scalar(yk_scale(lead, -1), margin)), reduction);
}

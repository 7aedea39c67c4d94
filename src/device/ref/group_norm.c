/*
 * group_norm: y = h weight + bias, h = (x - mean) invstd, with the mean and biased variance of each
 * group of channels of a sample. In row-major order, the elements of a group are neighbours.
 */
#include "device/ref/ref.h"

#include <math.h>

/* How x is divided. */
typedef struct division {
    int64_t samples, groups, channels; /* of a group */
    int64_t pixels, length;            /* of a channel, and elements of a group */
} division;

static division division_of(const yk_tensor *x, const yki_kernel *kernel)
{
    division d = {.samples = x->dims[0], .groups = yki_ref_attrs(kernel)->groups, .pixels = 1};
    d.channels = x->dims[1] / d.groups;
    for (int i = 2; i < x->ndim; i++)
        d.pixels *= x->dims[i];
    d.length = d.channels * d.pixels;
    return d;
}

/* Rounded as the outputs mean and invstd are, from which backward starts. */
static double as_kept(const yk_tensor *x, double value)
{
    return yki_accumulate_dtype(x->dtype) == YK_F64 ? value : (float)value;
}

static double mean_of(const yk_tensor *x, int64_t at, int64_t length)
{
    double sum = 0;
    for (int64_t i = at; i < at + length; i++)
        sum += yki_ref_get(x, i);
    return sum / (double)length;
}

static double variance_of(const yk_tensor *x, int64_t at, int64_t length, double mean)
{
    double squares = 0;
    for (int64_t i = at; i < at + length; i++)
        squares += (yki_ref_get(x, i) - mean) * (yki_ref_get(x, i) - mean);
    return squares / (double)length;
}

/* The element of an absent vector is `otherwise`. */
static double get_or(const yk_tensor *vector, int64_t i, double otherwise)
{
    return vector->data ? yki_ref_get(vector, i) : otherwise;
}

static yk_status ref_group_norm(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor x = yki_ref_in(kernel, run, YKI_GROUP_NORM_X);           /* (N, C, ...) */
    yk_tensor weight = yki_ref_in(kernel, run, YKI_GROUP_NORM_WEIGHT); /* (C) or absent */
    yk_tensor bias = yki_ref_in(kernel, run, YKI_GROUP_NORM_BIAS);     /* (C) or absent */
    yk_tensor y = yki_ref_out(kernel, run, YKI_GROUP_NORM_Y);
    yk_tensor means = yki_ref_out(kernel, run, YKI_GROUP_NORM_MEAN);     /* (N, groups) */
    yk_tensor invstds = yki_ref_out(kernel, run, YKI_GROUP_NORM_INVSTD); /* (N, groups) */
    const division d = division_of(&x, kernel);
    for (int64_t g = 0; g < d.samples * d.groups; g++) {
        const int64_t at = g * d.length, first_channel = g % d.groups * d.channels;
        const double mean = as_kept(&x, mean_of(&x, at, d.length));
        const double variance = variance_of(&x, at, d.length, mean);
        const double invstd = as_kept(&x, 1 / sqrt(variance + yki_ref_attrs(kernel)->eps));
        if (means.data)
            yki_ref_set(&means, g, mean);
        if (invstds.data)
            yki_ref_set(&invstds, g, invstd);
        for (int64_t i = 0; i < d.length; i++) {
            const int64_t channel = first_channel + i / d.pixels;
            const double h = (yki_ref_get(&x, at + i) - mean) * invstd;
            yki_ref_set(&y, at + i, h * get_or(&weight, channel, 1) + get_or(&bias, channel, 0));
        }
    }
    return YK_OK;
}

/* The operands of backward, and a group's constants. */
typedef struct backward {
    division d;
    yk_tensor x, dy, weight;
    int64_t at, first_channel; /* of the group */
    double mean, invstd;
} backward;

static double normalised(const backward *b, int64_t i)
{
    return (yki_ref_get(&b->x, b->at + i) - b->mean) * b->invstd;
}

/* dy weight */
static double incoming(const backward *b, int64_t i)
{
    const double weight = get_or(&b->weight, b->first_channel + i / b->d.pixels, 1);
    return yki_ref_get(&b->dy, b->at + i) * weight;
}

/* With g = dy weight: dx = invstd (g - mean(g) - h mean(g h)). */
static void group_dx(const backward *b, const yk_tensor *dx)
{
    const int64_t length = b->d.length;
    double sum = 0, product = 0;
    for (int64_t i = 0; i < length; i++) {
        sum += incoming(b, i);
        product += incoming(b, i) * normalised(b, i);
    }
    for (int64_t i = 0; i < length; i++) {
        const double means = (sum + normalised(b, i) * product) / (double)length;
        yki_ref_set(dx, b->at + i, b->invstd * (incoming(b, i) - means));
    }
}

static backward group_of(const yki_kernel *kernel, const yki_kernel_args *run, int64_t group)
{
    yk_tensor mean = yki_ref_in(kernel, run, YKI_GROUP_NORM_BACKWARD_MEAN),
              invstd = yki_ref_in(kernel, run, YKI_GROUP_NORM_BACKWARD_INVSTD);
    backward b = {.x = yki_ref_in(kernel, run, YKI_GROUP_NORM_BACKWARD_X),
                  .dy = yki_ref_in(kernel, run, YKI_GROUP_NORM_BACKWARD_DY),
                  .weight = yki_ref_in(kernel, run, YKI_GROUP_NORM_BACKWARD_WEIGHT),
                  .mean = yki_ref_get(&mean, group),
                  .invstd = yki_ref_get(&invstd, group)};
    b.d = division_of(&b.x, kernel);
    b.at = group * b.d.length;
    b.first_channel = group % b.d.groups * b.d.channels;
    return b;
}

/* dweight = sum(dy h) and dbias = sum(dy), over the samples and the pixels of a channel. */
static void channel_sums(const yki_kernel *kernel, const yki_kernel_args *run, int64_t channel,
                         double *dweight, double *dbias)
{
    yk_tensor x = yki_ref_in(kernel, run, YKI_GROUP_NORM_BACKWARD_X);
    const division d = division_of(&x, kernel);
    *dweight = *dbias = 0;
    for (int64_t sample = 0; sample < d.samples; sample++) {
        const backward b = group_of(kernel, run, sample * d.groups + channel / d.channels);
        const int64_t first = channel % d.channels * d.pixels;
        for (int64_t i = first; i < first + d.pixels; i++) {
            *dweight += yki_ref_get(&b.dy, b.at + i) * normalised(&b, i);
            *dbias += yki_ref_get(&b.dy, b.at + i);
        }
    }
}

static yk_status ref_group_norm_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor x = yki_ref_in(kernel, run, YKI_GROUP_NORM_BACKWARD_X);
    yk_tensor dweight = yki_ref_out(kernel, run, YKI_GROUP_NORM_BACKWARD_DWEIGHT); /* (C) */
    yk_tensor dbias = yki_ref_out(kernel, run, YKI_GROUP_NORM_BACKWARD_DBIAS);     /* (C) */
    yk_tensor dx = yki_ref_out(kernel, run, YKI_GROUP_NORM_BACKWARD_DX);
    const division d = division_of(&x, kernel);
    for (int64_t channel = 0; channel < x.dims[1]; channel++) {
        double product, sum;
        channel_sums(kernel, run, channel, &product, &sum);
        if (dweight.data)
            yki_ref_set(&dweight, channel, product);
        if (dbias.data)
            yki_ref_set(&dbias, channel, sum);
    }
    for (int64_t g = 0; dx.data && g < d.samples * d.groups; g++) {
        const backward b = group_of(kernel, run, g);
        group_dx(&b, &dx);
    }
    return YK_OK;
}

YKI_REF_IMPL(group_norm, 0);
YKI_REF_IMPL(group_norm_backward, 0);

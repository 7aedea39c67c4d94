/*
 * Initial values, drawn as PyTorch draws them: a uniform number is the low 24 bits of one MT19937
 * word; normal numbers come from Box and Muller's transform of 16 uniform ones at a time, the
 * first eight of which are radii and the last eight angles (a tail shorter than 16 redraws the last
 * 16 elements); tensors of fewer than 16 elements take 53-bit numbers in pairs instead.
 *
 * Source: ATen/native/cpu/DistributionTemplates.h and ATen/core/DistributionsHelper.h; He et al.,
 * "Delving Deep into Rectifiers" (2015), for the deviations.
 */
#include "tensor/init.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "tensor/box_muller.h"
#include "tensor/element.h"
#include "tensor/orthonormalise.h"

static const double pi = 3.14159265358979323846;

static void put_value(const yk_tensor *tensor, int64_t index, double value)
{
    yki_element_set(tensor->dtype, tensor->data, index, value);
}

/* In [0, 1), a multiple of 2^-24. */
static double draw24(yki_mt19937 *generator)
{
    return (double)(yki_mt19937_next(generator) & 0xffffffu) * 0x1p-24;
}

/* In [0, 1), a multiple of 2^-53. */
static double draw53(yki_mt19937 *generator)
{
    uint64_t high = yki_mt19937_next(generator);
    uint64_t word = high << 32 | yki_mt19937_next(generator);
    return (double)(word & 0x1fffffffffffffu) * 0x1p-53;
}

static void fill_constant(double value, yk_tensor *tensor)
{
    int64_t count = yk_tensor_count(tensor);
    for (int64_t i = 0; i < count; i++)
        put_value(tensor, i, value);
}

/* In [a, b), rounded as the tensor's dtype and a fused multiply-add do it. */
static void fill_uniform(yki_mt19937 *generator, double a, double b, yk_tensor *tensor)
{
    int64_t count = yk_tensor_count(tensor);
    float low = (float)a, width = (float)b - low;
    for (int64_t i = 0; i < count; i++) {
        double share = draw24(generator);
        put_value(tensor, i,
                  tensor->dtype == YK_F64 ? share * (b - a) + a
                                          : (double)fmaf((float)share, width, low));
    }
}

/* 16 uniform numbers become 16 normal ones. */
static void transform_f64(double mean, double deviation, double *u)
{
    for (int i = 0; i < 8; i++) {
        double radius = sqrt(-2 * log(1 - u[i])); /* 1 - u: never log(0) */
        double angle = 2 * pi * u[i + 8];
        u[i] = radius * cos(angle) * deviation + mean;
        u[i + 8] = radius * sin(angle) * deviation + mean;
    }
}

/* The last 16 elements are drawn again when the count is not a multiple of 16. */
static void fill_normal_f32(yki_mt19937 *generator, double mean, double deviation, float *data,
                            int64_t count)
{
    yki_mt19937_uniform24(generator, data, count);
    yki_box_muller_f32(data, count / 16, (float)mean, (float)deviation);
    if (count % 16 == 0)
        return;
    yki_mt19937_uniform24(generator, data + count - 16, 16);
    yki_box_muller_f32(data + count - 16, 1, (float)mean, (float)deviation);
}

/* The same draws in f64. */
static void fill_normal_f64(yki_mt19937 *generator, double mean, double deviation, double *data,
                            int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        data[i] = draw24(generator);
    for (int64_t i = 0; i + 16 <= count; i += 16)
        transform_f64(mean, deviation, data + i);
    if (count % 16 == 0)
        return;
    for (int64_t i = count - 16; i < count; i++)
        data[i] = draw24(generator);
    transform_f64(mean, deviation, data + count - 16);
}

/* Pairs, where the second of a pair is kept for the next element, be it another tensor's. */
static double draw_normal(yki_mt19937 *generator)
{
    if (generator->has_spare) {
        generator->has_spare = false;
        return generator->spare;
    }
    double angle = 2 * pi * draw53(generator);
    double radius = sqrt(-2 * log1p(-draw53(generator)));
    generator->spare = radius * sin(angle);
    generator->has_spare = true;
    return radius * cos(angle);
}

static void fill_normal_small(yki_mt19937 *generator, double mean, double deviation,
                              yk_tensor *tensor)
{
    int64_t count = yk_tensor_count(tensor);
    for (int64_t i = 0; i < count; i++)
        put_value(tensor, i, draw_normal(generator) * deviation + mean);
}

static void fill_normal(yki_mt19937 *generator, double mean, double deviation, yk_tensor *tensor)
{
    int64_t count = yk_tensor_count(tensor);
    if (count < 16)
        fill_normal_small(generator, mean, deviation, tensor);
    else if (tensor->dtype == YK_F64)
        fill_normal_f64(generator, mean, deviation, tensor->data, count);
    else
        fill_normal_f32(generator, mean, deviation, tensor->data, count);
}

/* Numbers outside [a, b] are drawn again, a whole tensor at a time, until there are none. */
static yk_status fill_trunc_normal(yki_mt19937 *generator, const yki_recipe *r, yk_tensor *tensor)
{
    int64_t count = yk_tensor_count(tensor);
    float *numbers = yki_calloc((size_t)count, 2 * sizeof *numbers);
    if (!numbers)
        return yki_error_memory((size_t)count * 2 * sizeof *numbers, "initial values");
    float *again = numbers + count, low = (float)r->a, high = (float)r->b;
    yk_tensor drawn = {.data = numbers, .dtype = YK_F32, .ndim = 1, .dims = {count}};
    fill_normal(generator, r->mean, r->std, &drawn);
    drawn.data = again;
    for (bool outside = true; outside;) {
        outside = false;
        for (int64_t i = 0; i < count && !outside; i++)
            outside = numbers[i] < low || numbers[i] > high;
        if (outside)
            fill_normal(generator, r->mean, r->std, &drawn);
        for (int64_t i = 0; i < count && outside; i++)
            numbers[i] = numbers[i] < low || numbers[i] > high ? again[i] : numbers[i];
    }
    for (int64_t i = 0; i < count; i++)
        put_value(tensor, i, numbers[i]);
    free(numbers);
    return YK_OK;
}

/* Of a weight (O, ...), as a matrix of O rows: the Q of its QR decomposition, where R has a
 * positive diagonal; where it has more columns than rows, the same of its transpose. */
static yk_status fill_orthogonal(yki_mt19937 *generator, double gain, yk_tensor *tensor)
{
    int64_t count = yk_tensor_count(tensor), rows = tensor->dims[0], columns = count / rows;
    double *q = yki_calloc((size_t)count, sizeof *q);
    if (!q)
        return yki_error_memory((size_t)count * sizeof *q, "an orthogonal matrix");
    fill_normal(generator, 0, 1, tensor);
    bool wide = rows < columns;
    for (int64_t i = 0; i < count; i++)
        q[wide ? i : i % columns * rows + i / columns] =
            yki_element_get(tensor->dtype, tensor->data, i);
    yki_orthonormalise(q, wide ? columns : rows, wide ? rows : columns);
    for (int64_t i = 0; i < count; i++)
        put_value(tensor, i, q[wide ? i : i % columns * rows + i / columns] * gain);
    free(q);
    return YK_OK;
}

/* weight (K, C, R, S): filter i becomes 1 at the centre of channel i, for i below K and C, as
 * torch.nn.init.dirac_ does. The filters from C on stay as they are. */
static void fill_dirac(yk_tensor *weight)
{
    int64_t filters = weight->dims[0], channels = weight->dims[1];
    int64_t rows = weight->dims[2], columns = weight->dims[3], area = rows * columns;
    for (int64_t k = 0; k < filters && k < channels; k++)
        for (int64_t i = 0; i < channels * area; i++)
            put_value(weight, k * channels * area + i,
                      i == k * area + rows / 2 * columns + columns / 2);
}

/* Elements that one output of a weight (K, C, R, S) or (O, I) is summed over. */
static int64_t fan_in(const yk_tensor *tensor)
{
    return tensor->ndim > 0 && tensor->dims[0] > 0 ? yk_tensor_count(tensor) / tensor->dims[0] : 1;
}

/* Outputs that one input of it goes into. */
static int64_t fan_out(const yk_tensor *tensor)
{
    return tensor->ndim > 1 && tensor->dims[1] > 0 ? yk_tensor_count(tensor) / tensor->dims[1] : 1;
}

/* The deviation that a weight's shape asks for, by the way that torch.nn.init takes. */
static double scaled_deviation(const yki_recipe *r, const yk_tensor *tensor)
{
    double in = (double)fan_in(tensor), out = (double)fan_out(tensor);
    if (r->scale == YKI_SCALE_XAVIER)
        return r->gain * sqrt(2.0 / (in + out));
    return r->gain / sqrt(r->scale == YKI_SCALE_FAN_IN ? in : out);
}

static yk_status fill(yki_mt19937 *generator, const yki_recipe *r, yk_tensor *tensor)
{
    switch (r->kind) {
    case YKI_CONSTANT:
        fill_constant(r->value, tensor);
        return YK_OK;
    case YKI_UNIFORM:
        fill_uniform(generator, r->a, r->b, tensor);
        return YK_OK;
    case YKI_NORMAL:
        fill_normal(generator, r->mean, r->std, tensor);
        return YK_OK;
    case YKI_TRUNC_NORMAL:
        return fill_trunc_normal(generator, r, tensor);
    case YKI_ORTHOGONAL:
        break;
    }
    return fill_orthogonal(generator, r->gain, tensor);
}

yk_status yki_init_with(yki_mt19937 *generator, const yki_recipe *recipe, yk_tensor *tensor)
{
    yki_recipe r = *recipe;
    if (r.kind != YKI_CONSTANT && tensor->dtype != YK_F32 && tensor->dtype != YK_F64)
        return yki_error(YK_ERROR_UNSUPPORTED,
                         "a random first value needs float32 or float64, not %s",
                         yk_dtype_name(tensor->dtype));
    if (r.scale != YKI_SCALE_NONE) {
        r.std = scaled_deviation(recipe, tensor);
        r.b = sqrt(3) * r.std;
        r.a = -r.b;
    }
    return fill(generator, &r, tensor);
}

/* ---- what layers choose ---------------------------------------------------------------------- */

static yki_recipe constant(double value)
{
    return (yki_recipe){.kind = YKI_CONSTANT, .value = value};
}

static yki_recipe normal(double std)
{
    return (yki_recipe){.kind = YKI_NORMAL, .std = std};
}

static yki_recipe scaled(yki_recipe_kind kind, yki_scale scale, double gain)
{
    return (yki_recipe){.kind = kind, .scale = scale, .gain = gain};
}

static yk_status recipe_of(yk_init init, int64_t fan, yki_recipe *recipe)
{
    switch (init) {
    case YK_INIT_ZEROS:
    case YK_INIT_ZEROS_AFTER_DRAW:
        *recipe = constant(0);
        return YK_OK;
    case YK_INIT_ONES:
        *recipe = constant(1);
        return YK_OK;
    case YK_INIT_LAYER_SCALE:
        *recipe = constant(1e-6);
        return YK_OK;
    case YK_INIT_LOGIT_SCALE:
        *recipe = constant(log(10));
        return YK_OK;
    case YK_INIT_KAIMING_NORMAL_FAN_OUT:
        *recipe = scaled(YKI_NORMAL, YKI_SCALE_FAN_OUT, sqrt(2));
        return YK_OK;
    case YK_INIT_KAIMING_NORMAL_FAN_IN:
        *recipe = scaled(YKI_NORMAL, YKI_SCALE_FAN_IN, sqrt(2));
        return YK_OK;
    case YK_INIT_KAIMING_UNIFORM_FAN_IN:
        *recipe = scaled(YKI_UNIFORM, YKI_SCALE_FAN_IN, sqrt(2));
        return YK_OK;
    case YK_INIT_NORMAL:
        *recipe = normal(0.01);
        return YK_OK;
    case YK_INIT_STANDARD_NORMAL:
        *recipe = normal(1);
        return YK_OK;
    case YK_INIT_NORMAL_FAN_IN:
        *recipe = scaled(YKI_NORMAL, YKI_SCALE_FAN_IN, 1);
        return YK_OK;
    case YK_INIT_NORMAL_0_02:
        *recipe = normal(0.02);
        return YK_OK;
    case YK_INIT_NORMAL_1E_6:
        *recipe = normal(1e-6);
        return YK_OK;
    case YK_INIT_XAVIER_UNIFORM:
        *recipe = scaled(YKI_UNIFORM, YKI_SCALE_XAVIER, 1);
        return YK_OK;
    case YK_INIT_UNIFORM_FAN_OUT:
        *recipe = scaled(YKI_UNIFORM, YKI_SCALE_FAN_OUT, 1 / sqrt(3));
        return YK_OK;
    case YK_INIT_KAIMING_UNIFORM_FAN_OUT:
        *recipe = scaled(YKI_UNIFORM, YKI_SCALE_FAN_OUT, 1);
        return YK_OK;
    case YK_INIT_KAIMING_UNIFORM: /* kaiming_uniform_(a=sqrt(5)), and its roundings */
    case YK_INIT_DIRAC:
        *recipe = scaled(YKI_UNIFORM, YKI_SCALE_FAN_IN, sqrt(2.0 / (1 + sqrt(5) * sqrt(5))));
        return YK_OK;
    case YK_INIT_UNIFORM_FAN_IN:
        if (fan < 1)
            return yki_error(YK_ERROR_INVALID_ARGUMENT,
                             "a bias drawn from +-1 / sqrt(fan) needs fan >= 1, not %lld",
                             (long long)fan);
        double bound = 1 / sqrt((double)fan);
        *recipe = (yki_recipe){.kind = YKI_UNIFORM, .a = -bound, .b = bound};
        return YK_OK;
    }
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "yk_init %d: expected a value from YK_INIT_ZEROS (%d) to "
                     "YK_INIT_KAIMING_UNIFORM_FAN_IN (%d)",
                     (int)init, YK_INIT_ZEROS, YK_INIT_KAIMING_UNIFORM_FAN_IN);
}

yk_status yki_init_tensor(yki_mt19937 *generator, yk_init init, int64_t fan, yk_tensor *tensor)
{
    yki_recipe recipe;
    YK_TRY(recipe_of(init, fan, &recipe));
    if (init == YK_INIT_DIRAC && tensor->ndim != 4)
        return yki_error(
            YK_ERROR_INVALID_SHAPE,
            "YK_INIT_DIRAC is for the weights of convolutions, of 4 dimensions, not %d",
            tensor->ndim);
    YK_TRY(yki_init_with(generator, &recipe, tensor));
    if (init == YK_INIT_DIRAC)
        fill_dirac(tensor);
    return YK_OK;
}

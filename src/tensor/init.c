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
#include <string.h>

#include "tensor/box_muller.h"
#include "tensor/element.h"

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

/* In [-bound, bound), rounded as the tensor's dtype and a fused multiply-add do it. */
static void fill_uniform(yki_mt19937 *generator, double bound, yk_tensor *tensor)
{
    int64_t count = yk_tensor_count(tensor);
    float low = (float)-bound, width = (float)bound - low;
    for (int64_t i = 0; i < count; i++) {
        double share = draw24(generator);
        put_value(tensor, i,
                  tensor->dtype == YK_F64 ? share * 2 * bound - bound
                                          : (double)fmaf((float)share, width, low));
    }
}

/* 16 uniform numbers become 16 normal ones. */
static void transform_f64(double deviation, double *u)
{
    for (int i = 0; i < 8; i++) {
        double radius = sqrt(-2 * log(1 - u[i])); /* 1 - u: never log(0) */
        double angle = 2 * pi * u[i + 8];
        u[i] = radius * cos(angle) * deviation;
        u[i + 8] = radius * sin(angle) * deviation;
    }
}

/* The last 16 elements are drawn again when the count is not a multiple of 16. */
static void fill_normal_f32(yki_mt19937 *generator, double deviation, float *data, int64_t count)
{
    yki_mt19937_uniform24(generator, data, count);
    yki_box_muller_f32(data, count / 16, (float)deviation);
    if (count % 16 == 0)
        return;
    yki_mt19937_uniform24(generator, data + count - 16, 16);
    yki_box_muller_f32(data + count - 16, 1, (float)deviation);
}

/* The same draws in f64. */
static void fill_normal_f64(yki_mt19937 *generator, double deviation, double *data, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        data[i] = draw24(generator);
    for (int64_t i = 0; i + 16 <= count; i += 16)
        transform_f64(deviation, data + i);
    if (count % 16 == 0)
        return;
    for (int64_t i = count - 16; i < count; i++)
        data[i] = draw24(generator);
    transform_f64(deviation, data + count - 16);
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

static void fill_normal_small(yki_mt19937 *generator, double deviation, yk_tensor *tensor)
{
    int64_t count = yk_tensor_count(tensor);
    for (int64_t i = 0; i < count; i++)
        put_value(tensor, i, draw_normal(generator) * deviation);
}

static void fill_normal(yki_mt19937 *generator, double deviation, yk_tensor *tensor)
{
    int64_t count = yk_tensor_count(tensor);
    if (count < 16)
        fill_normal_small(generator, deviation, tensor);
    else if (tensor->dtype == YK_F64)
        fill_normal_f64(generator, deviation, tensor->data, count);
    else
        fill_normal_f32(generator, deviation, tensor->data, count);
}

static void fill_ones(yk_tensor *tensor)
{
    int64_t count = yk_tensor_count(tensor);
    for (int64_t i = 0; i < count; i++)
        put_value(tensor, i, 1);
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

/* 1 / sqrt(fan), by the way that kaiming_uniform_(a=sqrt(5)) takes there, and its roundings. */
static double kaiming_bound(int64_t fan)
{
    double gain = sqrt(2.0 / (1 + sqrt(5) * sqrt(5)));
    return sqrt(3) * (gain / sqrt((double)fan));
}

/* Glorot and Bengio 2010, by the way that xavier_uniform_ takes. */
static double xavier_bound(const yk_tensor *tensor)
{
    return sqrt(3) * sqrt(2.0 / (double)(fan_in(tensor) + fan_out(tensor)));
}

static bool can_be_random(const yk_tensor *tensor)
{
    return tensor->dtype == YK_F32 || tensor->dtype == YK_F64;
}

yk_status yki_init_tensor(yki_mt19937 *generator, yk_init init, int64_t fan, yk_tensor *tensor)
{
    bool zeros = init == YK_INIT_ZEROS || init == YK_INIT_ZEROS_AFTER_DRAW;
    if (!zeros && init != YK_INIT_ONES && !can_be_random(tensor))
        return yki_error(YK_ERROR_UNSUPPORTED,
                         "a random first value needs float32 or float64, not %s",
                         yk_dtype_name(tensor->dtype));
    switch (init) {
    case YK_INIT_ZEROS:
    case YK_INIT_ZEROS_AFTER_DRAW:
        memset(tensor->data, 0, yk_tensor_bytes(tensor));
        return YK_OK;
    case YK_INIT_ONES:
        fill_ones(tensor);
        return YK_OK;
    case YK_INIT_KAIMING_NORMAL_FAN_OUT:
        fill_normal(generator, sqrt(2) / sqrt((double)fan_out(tensor)), tensor);
        return YK_OK;
    case YK_INIT_NORMAL:
        fill_normal(generator, 0.01, tensor);
        return YK_OK;
    case YK_INIT_STANDARD_NORMAL:
        fill_normal(generator, 1, tensor);
        return YK_OK;
    case YK_INIT_NORMAL_FAN_IN:
        fill_normal(generator, 1 / sqrt((double)fan_in(tensor)), tensor);
        return YK_OK;
    case YK_INIT_NORMAL_0_02:
        fill_normal(generator, 0.02, tensor);
        return YK_OK;
    case YK_INIT_NORMAL_1E_6:
        fill_normal(generator, 1e-6, tensor);
        return YK_OK;
    case YK_INIT_XAVIER_UNIFORM:
        fill_uniform(generator, xavier_bound(tensor), tensor);
        return YK_OK;
    case YK_INIT_KAIMING_UNIFORM:
        fill_uniform(generator, kaiming_bound(fan_in(tensor)), tensor);
        return YK_OK;
    case YK_INIT_DIRAC:
        if (tensor->ndim != 4)
            return yki_error(YK_ERROR_INVALID_SHAPE,
                             "YK_INIT_DIRAC is for the weights of convolutions, of 4 dimensions, "
                             "not %d",
                             tensor->ndim);
        fill_uniform(generator, kaiming_bound(fan_in(tensor)), tensor);
        fill_dirac(tensor);
        return YK_OK;
    case YK_INIT_UNIFORM_FAN_IN:
        if (fan < 1)
            return yki_error(YK_ERROR_INVALID_ARGUMENT,
                             "a bias drawn from +-1 / sqrt(fan) needs fan >= 1, not %lld",
                             (long long)fan);
        fill_uniform(generator, 1 / sqrt((double)fan), tensor);
        return YK_OK;
    }
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "yk_init %d: expected a value from YK_INIT_ZEROS (%d) to "
                     "YK_INIT_NORMAL_1E_6 (%d)",
                     (int)init, YK_INIT_ZEROS, YK_INIT_NORMAL_1E_6);
}

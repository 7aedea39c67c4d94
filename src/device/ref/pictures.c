/* Pictures of bytes become what a network reads: see device/pictures.h. */
#include "device/ref/ref.h"

static double number_at(const yki_pictures_args *a, int64_t sample, int channel, int y, int x)
{
    double erased;
    if (yki_picture_is_erased(a, sample, channel, y, x, &erased))
        return a->dtype == YK_F64 ? erased : (float)erased;
    int index = channel * YKI_PICTURE_NUMBERS + yki_picture_byte(a, sample, channel, y, x);
    return yki_element_get(a->dtype, a->numbers, index);
}

/* In the arithmetic of the dtype, as data/transforms/mixing.c. */
static double blend(yk_dtype dtype, double share, double own, double other)
{
    if (dtype == YK_F64)
        return share * own + (1 - share) * other;
    float part = (float)share;
    return part * (float)own + (1 - part) * (float)other;
}

static double element(const yki_pictures_args *a, int64_t sample, int channel, int y, int x)
{
    int64_t before = sample > 0 ? sample - 1 : a->batch;
    double own = number_at(a, sample, channel, y, x);
    if (!a->mix || a->mix->share == 1)
        return own;
    if (a->mix->cut)
        return yki_picture_is_cut(a->mix, y, x) ? number_at(a, before, channel, y, x) : own;
    return blend(a->dtype, a->mix->share, own, number_at(a, before, channel, y, x));
}

yk_status yki_ref_pictures(yki_device *device, const yki_pictures_args *args)
{
    int64_t i = 0;
    (void)device;
    for (int64_t n = 0; n < args->batch; n++)
        for (int c = 0; c < args->channels; c++)
            for (int y = 0; y < args->out_height; y++)
                for (int x = 0; x < args->out_width; x++)
                    yki_element_set(args->dtype, args->out, i++, element(args, n, c, y, x));
    return YK_OK;
}

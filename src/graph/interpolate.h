/*
 * Where the pixels that yk_interpolate() makes lie among those of its input, along one axis. Places
 * are fractions of whole numbers, so that all devices find the same pixels.
 */
#ifndef YKI_INTERPOLATE_H
#define YKI_INTERPOLATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/host_device.h"

/* Output p is at (p scale + shift) / divisor, or at the first or last input if that is outside. */
typedef struct yki_axis {
    int64_t inputs, outputs;
    int64_t scale, shift, divisor;
    bool nearest; /* it is the input there or before; otherwise it is between two inputs */
} yki_axis;

YKI_HOST_DEVICE yki_axis yki_axis_of(bool bilinear, bool align_corners, int64_t inputs,
                                     int64_t outputs)
{
    yki_axis axis = {inputs, outputs, inputs, 0, outputs, true};
    axis.nearest = !bilinear;
    if (bilinear && align_corners) { /* a single output is at the first input */
        axis.scale = inputs > 1 && outputs > 1 ? inputs - 1 : 1;
        axis.divisor = outputs > 1 ? outputs - 1 : 1;
    } else if (bilinear) { /* (p + 1/2) inputs / outputs - 1/2 */
        axis.scale = 2 * inputs;
        axis.shift = inputs - outputs;
        axis.divisor = 2 * outputs;
    }
    return axis;
}

/* Of an output, input `first` has the weight 1 - part / divisor, and the next one the rest. If part
 * is 0, the next one may not exist. */
typedef struct yki_taps {
    int64_t first, part;
} yki_taps;

YKI_HOST_DEVICE yki_taps yki_taps_of(const yki_axis *axis, int64_t output)
{
    const int64_t place = output * axis->scale + axis->shift;
    yki_taps taps = {0, 0};
    if (place <= 0)
        return taps;
    taps.first = place / axis->divisor;
    taps.part = axis->nearest ? 0 : place % axis->divisor;
    if (taps.first >= axis->inputs - 1) {
        taps.first = axis->inputs - 1;
        taps.part = 0;
    }
    return taps;
}

/* How much of an input, times divisor, is in an output: what yki_taps_of says, without divisions,
 * which take long on a GPU. */
YKI_HOST_DEVICE int64_t yki_part_of(const yki_axis *axis, int64_t output, int64_t input)
{
    const int64_t last = (axis->inputs - 1) * axis->divisor;
    int64_t place = output * axis->scale + axis->shift;
    place = place < 0 ? 0 : place > last ? last : place;
    const int64_t beyond = place - input * axis->divisor, distance = beyond < 0 ? -beyond : beyond;
    if (axis->nearest)
        return beyond >= 0 && beyond < axis->divisor ? axis->divisor : 0;
    return distance < axis->divisor ? axis->divisor - distance : 0;
}

/* The first output whose place, times divisor, is beyond this one; at most their number. */
YKI_HOST_DEVICE int64_t yki_first_beyond(const yki_axis *axis, int64_t place)
{
    if (place < axis->shift)
        return 0;
    const int64_t output = (place - axis->shift) / axis->scale + 1;
    return output < axis->outputs ? output : axis->outputs;
}

/* The outputs from the first to before the second are all that have something of an input. */
YKI_HOST_DEVICE int64_t yki_first_output(const yki_axis *axis, int64_t input)
{
    return yki_first_beyond(axis, axis->nearest ? input * axis->divisor - 1
                                                : (input - 1) * axis->divisor);
}

YKI_HOST_DEVICE int64_t yki_end_output(const yki_axis *axis, int64_t input)
{
    if (input == axis->inputs - 1)
        return axis->outputs;
    return yki_first_beyond(axis, (input + 1) * axis->divisor - 1);
}

#endif

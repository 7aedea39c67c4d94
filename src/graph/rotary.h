/*
 * The angles of rotary position embeddings: functions of a token's position and of a pair of
 * columns. They are rounded to float32 where Hugging Face's Llama and torchtune round theirs, in
 * every dtype, so that networks that were trained there see the angles that they know.
 */
#ifndef YKI_ROTARY_H
#define YKI_ROTARY_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/host_device.h"

/* By what a pair of columns turns from one token to the next; dims: the columns that are turned. */
YKI_HOST_DEVICE float yki_rotary_frequency(double base, int64_t pair, int64_t dims)
{
    const float exponent = (float)(2 * pair) / (float)dims;
    return 1 / (float)pow((double)(float)base, (double)exponent);
}

YKI_HOST_DEVICE float yki_rotary_angle(int64_t position, float frequency)
{
    return (float)position * frequency;
}

/* The first column of a pair in its head, and how far from it the second is. */
YKI_HOST_DEVICE int64_t yki_rotary_column(int64_t pair, bool interleaved)
{
    return interleaved ? 2 * pair : pair;
}

YKI_HOST_DEVICE int64_t yki_rotary_distance(int64_t dims, bool interleaved)
{
    return interleaved ? 1 : dims / 2;
}

#endif

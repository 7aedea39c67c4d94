/*
 * Grouped convolutions with few channels in a group, such as ResNeXt's with 4 and 8: oneDNN has no
 * kernel for groups narrower than a vector, only its reference loops. Groups are therefore merged
 * until they are as wide as a vector, with zeros for the weights between channels of different
 * groups. This multiplies 2 to 4 times as much, at the speed of oneDNN's best kernels. 3x3
 * convolutions of stride 1 have kernels of our own without these zeros, see conv_narrow.c.
 * Depthwise convolutions are not merged: oneDNN has kernels for them.
 *
 * Weights are (K, I, taps): filters, input channels of a group, and R * S. Merged they are
 * (K, merged * I, taps), where each filter has the channels of its merged group.
 */
#ifndef YKI_CONV_GROUPS_H
#define YKI_CONV_GROUPS_H

#include "device/device.h"

typedef struct yki_conv_groups {
    int64_t merged; /* groups that become one; 1: they stay as they are */
    int64_t filters, filters_a_group, inputs_a_group, taps;
} yki_conv_groups;

/* How the groups of a convolution with this weight run on the device. */
yki_conv_groups yki_conv_groups_of(const yki_device *device, const yki_operand *weight,
                                   int64_t groups);
/* Elements of the merged weights. */
size_t yki_conv_groups_elements(const yki_conv_groups *groups);
/* Copies weights to their places among the merged ones, and back. The other places of `merged` must
 * hold zeros before, and are ignored. */
void yki_conv_groups_merge(const yki_conv_groups *groups, const float *weights, float *merged);
void yki_conv_groups_extract(const yki_conv_groups *groups, const float *merged, float *weights);

#endif

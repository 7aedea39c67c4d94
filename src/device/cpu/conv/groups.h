/*
 * Convolutions with few channels, in all or in a group, such as ResNeXt's with groups of 4 and 8:
 * oneDNN has no kernels for groups narrower than a vector and few for activations of fewer
 * channels, only its reference loops. Groups are therefore merged until they are as wide as a
 * vector, with zeros for the weights between channels of different groups, and where channels are
 * missing to the last whole vector, oneDNN computes the padding of blocked activations as well,
 * which holds zeros. This multiplies 2 to 4 times as much, at the speed of oneDNN's best kernels.
 * An infinity or a NaN times these zeros is NaN, in all merged groups and in padding channels.
 * Most 3x3 convolutions have kernels of our own without these zeros, see narrow.c.
 * Depthwise convolutions are not merged: oneDNN has kernels for them.
 *
 * Weights are (K, I, taps): filters, input channels of a group, and R * S. Those that oneDNN gets
 * are (groups, filters, inputs, taps) with its own groups, each with all of their channels.
 */
#ifndef YKI_CONV_GROUPS_H
#define YKI_CONV_GROUPS_H

#include "device/device.h"

typedef struct yki_conv_groups {
    int64_t filters, filters_a_group, inputs_a_group, taps; /* as they are */
    int64_t merged;                          /* groups that become one; 1: they stay as they are */
    int64_t groups, all_filters, all_inputs; /* oneDNN's, and the channels of one of them */
} yki_conv_groups;

/* How a convolution runs on the device. */
yki_conv_groups yki_conv_groups_of(const yki_device *device, const yki_operand *x,
                                   const yki_operand *weight, const yki_operand *y, int64_t groups);
/* Whether weights are arranged anew for oneDNN. */
bool yki_conv_groups_differ(const yki_conv_groups *groups);
/* Elements of the weights that oneDNN gets. */
size_t yki_conv_groups_elements(const yki_conv_groups *groups);
/* Copies weights to their places among those that oneDNN gets, and back. The other places must hold
 * zeros before, and are ignored. */
void yki_conv_groups_arrange(const yki_conv_groups *groups, const float *weights, float *arranged);
void yki_conv_groups_extract(const yki_conv_groups *groups, const float *arranged, float *weights);

#endif

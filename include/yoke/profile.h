/**
 * @file
 * Where the time of a step goes, kernel by kernel, and the limits of the device.
 *
 *     yk_model_profile_begin(model);
 *     ... some steps ...
 *     yk_model_profile_end(model);
 *     for (size_t i = 0; i < yk_model_profile_count(model); i++)
 *         show(yk_model_profile_kernel(model, i));
 */
#ifndef YOKE_PROFILE_H
#define YOKE_PROFILE_H

#include <yoke/model.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** One kernel of a profile. Its texts are valid until the model is destroyed. */
typedef struct yk_kernel_profile {
    const char *scope;   /**< where it is in the network, "layer1.0.conv1.", or "" */
    const char *op;      /**< its operator, "conv2d_backward_data" */
    const char *shape;   /**< of its first input and its first output, "128x64x32x32 -> ..." */
    int64_t runs;        /**< since yk_model_profile_begin() */
    double seconds;      /**< of all runs together */
    const double *times; /**< (time_count) the seconds of each of the last 1024 runs, in no
                              particular order; valid until the next forward */
    size_t time_count;   /**< 1024, or all runs if they are fewer */
    double flop;      /**< of one run, as the operator is defined: the multiplications and additions
                           of a convolution or a matrix product; 0 for other operators */
    double computed;  /**< of these, what the kernel's algorithm computes: fewer with Winograd's */
    double bytes;     /**< of the inputs and outputs of one run, each counted once */
    bool matrix_unit; /**< whether a unit for products of matrices computes them, such as AMX or
                           tensor cores, or dot products of bfloat16 that are faster than float32 */
} yk_kernel_profile;

/** Clears the profile and measures kernels until yk_model_profile_end(), at the cost of two
 * readings of the clock per kernel. A device that computes asynchronously, such as a GPU, measures
 * them itself. They are entered one by one then, instead of being replayed from recordings, so that
 * steps can take longer; a kernel's time contains the host's only where the device has to wait for
 * the host. */
yk_status yk_model_profile_begin(yk_model *model);
/** Stops measuring; the profile can still be read. Waits for a device that computes
 *  asynchronously, whose profile is complete only then. */
yk_status yk_model_profile_end(yk_model *model);
/** Number of kernels in the profile, which is that of the last forward's batch size and mode; 0
 *  before the first forward and for NULL. */
size_t yk_model_profile_count(const yk_model *model);
/** The index-th kernel in the order of execution; all zeros past the last one. */
yk_kernel_profile yk_model_profile_kernel(const yk_model *model, size_t index);

/** The limits of a device with a model's threads; 0 where they are not known. */
typedef struct yk_device_limits {
    double flop_s;  /**< multiplications and additions a second in float32: on "cpu" on registers
                         alone, on "cuda" in a product of large matrices */
    double bytes_s; /**< bytes a second that are read and written in memory: on "cpu" by a += b, on
                         "cuda" by a copy */
    double matrix_flop_s; /**< as flop_s, of the unit for products of matrices, in bfloat16, or else
                               of dot products of bfloat16; 0 if there is neither, or if the latter
                               are not faster than float32 */
} yk_device_limits;

/** Measures the limits of the model's device, in about half a second. YK_ERROR_UNSUPPORTED on any
 *  other than "cpu" and "cuda". On "cuda", this needs up to 2 GiB of the GPU's memory; with less,
 *  some limits stay unknown. */
yk_status yk_model_measure_limits(yk_model *model, yk_device_limits *limits);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

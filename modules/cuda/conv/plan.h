/*
 * Which of cuDNN's engines a convolution runs on. On a GPU, the first proposals are measured and
 * the fastest is taken, before the first step, so that all steps have the bits of the same engine;
 * the choice is kept on disk (device/plan_cache.h) for the next run. With YOKE_CUDA_MEASURE=0 the
 * first proposal that works is taken.
 */
#ifndef YKI_CUDA_CONV_PLAN_H
#define YKI_CUDA_CONV_PLAN_H

#include "cuda.h"
#include "device/plan_cache.h"
#include "libraries/cudnn_conv.h"

/* Belongs to the device, whose kernels share it. *plan is NULL, without an error, if no engine may
 * be used for this graph, or if it has sums that a separate pass over y gives in less time. */
yk_status yki_cuda_conv_plan(yki_cuda_device *device, const yki_cudnn *cudnn,
                             const yki_cudnn_conv *conv, const yki_cudnn_plan **plan);
/* The plan will be asked for: what is missing of it is made together with that of others, when the
 * first is asked for. */
void yki_cuda_conv_foresee(yki_cuda_device *device, const yki_cudnn *cudnn,
                           const yki_cudnn_conv *conv);
/* All that were foreseen have been asked for. */
void yki_cuda_conv_foreseen(yki_cuda_device *device);
void yki_cuda_conv_plans_free(yki_cuda_device *device);

/* Where choices of this GPU and this version of cuDNN are kept; those of plans have no suffix. */
void yki_cuda_plan_folder(char folder[YKI_PLAN_PATH], const yki_cuda_device *device,
                          const yki_cudnn *cudnn, const char *suffix);

#endif

/* Which of cuDNN's engines a convolution runs on. */
#ifndef YKI_CUDA_CONV_PLAN_H
#define YKI_CUDA_CONV_PLAN_H

#include "cuda.h"
#include "cudnn_conv.h"

/* False without an error if no engine may be used for this graph. */
yk_status yki_cuda_conv_plan(yki_cuda_device *device, const yki_cudnn *cudnn,
                             const yki_cudnn_conv *conv, yki_cudnn_plan *plan, bool *found);

#endif

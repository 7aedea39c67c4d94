/* Muon's updates of matrices (device/muon.h) by cuBLASLt's products and kernels/muon.cu. */
#ifndef YKI_CUDA_MUON_H
#define YKI_CUDA_MUON_H

#include "cuda.h"

extern const yki_muon_ops yki_cuda_muon;

/* Frees what has been prepared. */
void yki_cuda_muons_free(yki_cuda_device *device);

#endif

/* The fake NCCL's reductions, in the order of ranks; its operations are those of NCCL. */
#ifndef FAKE_NCCL_REDUCE_H
#define FAKE_NCCL_REDUCE_H

#include "device/sim_link.h"

yki_sim_reduce fake_nccl_reduce;

#endif

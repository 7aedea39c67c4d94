/* The device's head, on a GPU as in the simulator: its beginning and its end. */
#include "conv_plan.h"
#include "libraries.h"
#include "muon.h"

yk_status yki_cuda_head_open(yki_cuda_device *device)
{
    YK_TRY(yki_cuda_find_sweeps(device));
    YK_TRY(yki_cuda_find_pictures(device));
    YK_TRY(yki_cuda_find_low_rank(device));
    return yki_cuda_find_clock(device);
}

void yki_cuda_head_close(yki_cuda_device *device)
{
    yki_cuda_conv_plans_free(device);
    yki_cuda_muons_free(device);
    yki_cuda_close_libraries(device);
}

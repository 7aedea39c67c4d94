/* The device's head, on a GPU as in the simulator: its beginning and its end. */
#include "conv/plan.h"
#include "libraries.h"
#include "muon.h"

yk_status yki_cuda_find_of_device(const yki_cuda_device *device, const char *name,
                                  const void **kernel)
{
    *kernel = device->launcher->find(device->launcher, name);
    return *kernel ? YK_OK
                   : yki_error(YK_ERROR_UNSUPPORTED, "device cuda: there is no kernel %s", name);
}

yk_status yki_cuda_head_open(yki_cuda_device *device)
{
    YK_TRY(yki_cuda_find_sweeps(device));
    YK_TRY(yki_cuda_find_pictures(device));
    YK_TRY(yki_cuda_find_low_rank(device));
    YK_TRY(yki_cuda_find_of_device(device, "fill", &device->fill));
    return yki_cuda_find_clock(device);
}

void yki_cuda_head_close(yki_cuda_device *device)
{
    yki_cuda_conv_plans_free(device);
    yki_cuda_muons_free(device);
    yki_cuda_close_libraries(device);
}

/* Batches from pictures of bytes: see kernels/pictures.cu. */
#include "cuda.h"

yk_status yki_cuda_find_pictures(yki_cuda_device *device)
{
    static const char *const names[] = {"pictures_f32", "pictures_f64"};
    for (int i = 0; i < 2; i++)
        YK_TRY(yki_cuda_find_of_device(device, names[i], &device->pictures[i]));
    return YK_OK;
}

yk_status yki_cuda_pictures(yki_device *device, const yki_pictures_args *args)
{
    const yki_cuda_device *cuda = (const yki_cuda_device *)device;
    yki_cuda_grid grid = yki_cuda_grid_of((int64_t)args->out_height * args->out_width);
    if (args->batch == 0)
        return YK_OK;
    grid.y = (unsigned)args->channels;
    grid.z = yki_cuda_blocks_in_loops(args->batch);
    return cuda->launcher->launch(cuda->launcher, cuda->pictures[args->dtype == YK_F64], grid, args,
                                  sizeof *args, args->stream);
}

/* Approximations of matrices: see kernels/low_rank.cu. */
#include <string.h>

#include "cuda.h"

yk_status yki_cuda_find_low_rank(yki_cuda_device *device)
{
    static const char *const names[] = {
        [YKI_LOW_RANK_BEGIN] = "low_rank_begin",
        [YKI_LOW_RANK_ORTHONORMALISE_P] = "low_rank_orthonormalise",
        [YKI_LOW_RANK_ORTHONORMALISE_Q] = "low_rank_orthonormalise",
        [YKI_LOW_RANK_PROJECT] = "low_rank_project",
        [YKI_LOW_RANK_PROJECT_BACK] = "low_rank_project_back",
        [YKI_LOW_RANK_APPROXIMATE] = "low_rank_approximate",
        [YKI_LOW_RANK_END] = "low_rank_end",
    };
    for (int op = 0; op < YKI_LOW_RANK_OPS; op++)
        YK_TRY(yki_cuda_find_of_device(device, names[op], &device->low_rank[op]));
    return YK_OK;
}

static yki_cuda_grid grid_of(const yki_low_rank_args *args)
{
    const yki_low_rank *x = &args->at;
    switch (args->op) {
    case YKI_LOW_RANK_BEGIN:
        return yki_cuda_grid_of(x->rank * x->m);
    case YKI_LOW_RANK_PROJECT: /* a block for each row */
        return (yki_cuda_grid){(unsigned)x->n, 1, 1};
    case YKI_LOW_RANK_PROJECT_BACK:
        return (yki_cuda_grid){(unsigned)yki_cuda_blocks(x->m, YKI_CUDA_LOW_RANK_COLUMNS), 1, 1};
    case YKI_LOW_RANK_APPROXIMATE:
        return yki_cuda_grid_of(x->n * x->m);
    default:
        return (yki_cuda_grid){1, 1, 1};
    }
}

static bool is_of_many(const yki_low_rank_args *args)
{
    return args->op == YKI_LOW_RANK_ORTHONORMALISE_P || args->op == YKI_LOW_RANK_ORTHONORMALISE_Q;
}

static yk_status orthonormalise(const yki_cuda_device *cuda, const yki_low_rank_args *args)
{
    const yki_cuda_launcher *launcher = cuda->launcher;
    for (size_t first = 0; first < args->matrix_count; first += YKI_CUDA_LOW_RANK_MATRICES) {
        size_t left = args->matrix_count - first;
        size_t count = left < YKI_CUDA_LOW_RANK_MATRICES ? left : YKI_CUDA_LOW_RANK_MATRICES;
        yki_cuda_orthonormalise_args given = {.epsilon = args->epsilon,
                                              .is_p = args->op == YKI_LOW_RANK_ORTHONORMALISE_P};
        memcpy(given.at, args->matrices + first, count * sizeof *given.at);
        YK_TRY(launcher->launch(launcher, cuda->low_rank[args->op],
                                (yki_cuda_grid){(unsigned)count, 1, 1}, &given, sizeof given,
                                args->stream));
    }
    return YK_OK;
}

yk_status yki_cuda_low_rank(yki_device *device, const yki_low_rank_args *args)
{
    const yki_cuda_device *cuda = (const yki_cuda_device *)device;
    if (is_of_many(args))
        return orthonormalise(cuda, args);
    return cuda->launcher->launch(cuda->launcher, cuda->low_rank[args->op], grid_of(args), args,
                                  sizeof *args, args->stream);
}

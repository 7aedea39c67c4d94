/* Sweeps: see kernels/sweep.cu. */
#include "cuda.h"

/* The kernel of each operation, and the one that makes its result of what was found by chunk. */
static const struct {
    const char *chunks, *result;
} names[YKI_CUDA_SWEEPS] = {
    [YKI_SWEEP_COPY] = {"sweep_copy", NULL},
    [YKI_SWEEP_SWAP] = {"sweep_swap", NULL},
    [YKI_SWEEP_ADD] = {"sweep_add", NULL},
    [YKI_SWEEP_SCALE] = {"sweep_scale", NULL},
    [YKI_SWEEP_APPROACH] = {"sweep_approach", NULL},
    [YKI_SWEEP_SQUARES] = {"sweep_squares", "sweep_sum"},
    [YKI_SWEEP_CLIP] = {"sweep_clip", NULL},
    [YKI_SWEEP_LIMIT] = {"sweep_limit", NULL},
    [YKI_SWEEP_UNSCALE] = {"sweep_unscale", "sweep_any"},
    [YKI_SWEEP_SGD] = {"sweep_sgd", NULL},
    [YKI_SWEEP_ADAM] = {"sweep_adam", NULL},
    [YKI_SWEEP_NADAM] = {"sweep_nadam", NULL},
    [YKI_SWEEP_ADAMAX] = {"sweep_adamax", NULL},
    [YKI_SWEEP_RMSPROP] = {"sweep_rmsprop", NULL},
    [YKI_SWEEP_ADADELTA] = {"sweep_adadelta", NULL},
    [YKI_SWEEP_NORMS] = {"sweep_norms", "sweep_norms_merge"},
    [YKI_SWEEP_LARS] = {"sweep_lars", NULL},
    [YKI_SWEEP_MOMENTS] = {"sweep_moments", "sweep_norms_merge"},
    [YKI_SWEEP_LAMB] = {"sweep_lamb", NULL},
    [YKI_SWEEP_HASH] = {"sweep_hash", "sweep_hashes"},
};

yk_status yki_cuda_find_sweeps(yki_cuda_device *device)
{
    for (int op = 0; op < YKI_CUDA_SWEEPS; op++) {
        if (names[op].chunks)
            YK_TRY(yki_cuda_find_of_device(device, names[op].chunks, &device->sweeps[op].chunks));
        if (names[op].result)
            YK_TRY(yki_cuda_find_of_device(device, names[op].result, &device->sweeps[op].result));
    }
    return YK_OK;
}

yk_status yki_cuda_sweep(yki_device *device, const yki_sweep_args *args)
{
    yki_cuda_device *cuda = (yki_cuda_device *)device;
    const yki_cuda_launcher *launcher = cuda->launcher;
    yki_cuda_sweep_args given = {.spans = args->spans,
                                 .chunks = args->chunks,
                                 .span_count = (int64_t)args->span_count,
                                 .chunk_count = (int64_t)args->chunk_count,
                                 .coefficients = args->coefficients,
                                 .partial = args->partial,
                                 .result = args->result};
    yki_cuda_grid grid = {(unsigned)args->chunk_count, 1, 1};
    if (args->chunk_count > 0)
        YK_TRY(launcher->launch(launcher, cuda->sweeps[args->op].chunks, grid, &given, sizeof given,
                                args->stream));
    bool by_span = args->op == YKI_SWEEP_HASH || yki_sweep_finds_norms(args->op);
    if (!cuda->sweeps[args->op].result || (by_span && args->span_count == 0))
        return YK_OK;
    grid = by_span ? yki_cuda_grid_of(given.span_count * 32) : (yki_cuda_grid){1, 1, 1};
    return launcher->launch(launcher, cuda->sweeps[args->op].result, grid, &given, sizeof given,
                            args->stream);
}

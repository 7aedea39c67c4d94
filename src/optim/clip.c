/*
 * Clipping of gradients.
 *
 * By the norm of all of them together, after Pascanu, Mikolov and Bengio, "On the difficulty of
 * training recurrent neural networks" (2013): one sweep that reads them, and one that scales them
 * where that is needed, which reads the sum of squares where the first has written it. The sum has
 * the same bits for every number of threads (device/sweep.h), so ranks with the same gradients
 * scale them by the same bits.
 *
 * By value: one sweep.
 */
#include <math.h>
#include <string.h>

#include "base/trace.h"
#include "model/loss_scale.h"
#include "optim/gradients.h"
#include "optim/optimizer.h"

static yk_status check_unscaled(const yk_optimizer *optimizer, const char *call)
{
    if (yki_model_is_scaled(optimizer->model))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "%s: a grad scaler has scaled the gradients: call yk_grad_scaler_unscale "
                         "first",
                         call);
    return YK_OK;
}

static yk_status send_max_norm(yk_optimizer *optimizer, double max_norm, yki_stream *stream)
{
    void *values;
    YK_TRY(yki_block_open(&optimizer->clipping, &values));
    memset(values, 0, optimizer->clipping.bytes);
    ((double *)values)[YKI_CLIP_MAX_NORM] = max_norm;
    return yki_block_send(&optimizer->clipping, stream);
}

static yk_status enter_clipping(void *context)
{
    const yk_optimizer *optimizer = context;
    yki_stream *stream = yki_device_stream(optimizer->device);
    double *coefficients = optimizer->clipping.memory;
    YK_TRY(yki_sweep_run(optimizer->gradients, YKI_SWEEP_SQUARES, NULL,
                         &coefficients[YKI_CLIP_SQUARES], stream));
    return yki_sweep_run(optimizer->gradients, YKI_SWEEP_CLIP, coefficients, NULL, stream);
}

yk_status yk_clip_grad_norm(yk_optimizer *optimizer, double max_norm, double *total_norm)
{
    YKI_NOT_NULL(optimizer);
    if (!(max_norm > 0))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "clip_grad_norm: max_norm must be above 0, not %g", max_norm);
    YK_TRY(check_unscaled(optimizer, "clip_grad_norm"));
    double begin = yki_trace_begin();
    yki_stream *stream = yki_device_stream(optimizer->device);
    double *coefficients = optimizer->clipping.memory;
    yki_gradients_place(optimizer->gradients, optimizer->model);
    YK_TRY(send_max_norm(optimizer, max_norm, stream));
    YK_TRY(yki_tape_run(&optimizer->clip_tape, optimizer->device,
                        yki_sweep_moves(optimizer->gradients), enter_clipping, optimizer));
    YK_TRY(yki_late_take(&optimizer->squares, &coefficients[YKI_CLIP_SQUARES], stream));
    if (total_norm)
        YK_TRY(yki_clip_norm(optimizer, total_norm));
    YKI_TRACE_END(begin, YKI_NO_ARGS, "clip gradients");
    return YK_OK;
}

yk_status yki_clip_norm(yk_optimizer *optimizer, double *norm)
{
    const void *squares;
    YK_TRY(yki_late_read(&optimizer->squares, &squares));
    *norm = sqrt(*(const double *)squares);
    return YK_OK;
}

/* ---- by value -------------------------------------------------------------------------------- */

yk_status yk_clip_grad_value(yk_optimizer *optimizer, double max_value)
{
    YKI_NOT_NULL(optimizer);
    if (!(max_value >= 0))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "clip_grad_value: max_value must be at least 0, not %g", max_value);
    YK_TRY(check_unscaled(optimizer, "clip_grad_value"));
    double begin = yki_trace_begin();
    yki_stream *stream = yki_device_stream(optimizer->device);
    void *values;
    yki_gradients_place(optimizer->gradients, optimizer->model);
    YK_TRY(yki_block_open(&optimizer->clipping, &values));
    memset(values, 0, optimizer->clipping.bytes);
    *(double *)values = max_value;
    YK_TRY(yki_block_send(&optimizer->clipping, stream));
    YK_TRY(yki_sweep_run(optimizer->gradients, YKI_SWEEP_LIMIT, optimizer->clipping.memory, NULL,
                         stream));
    YKI_TRACE_END(begin, YKI_NO_ARGS, "clip gradients");
    return YK_OK;
}

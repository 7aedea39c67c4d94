/*
 * How long exchanges take that a device makes in its streams, behind the host's back. The device
 * notes three points of each backward in its compute stream: the launch of the first bucket, the
 * end of backward's kernels, and the end of the exchanges, which comes after it because the last
 * bucket is launched there. The host reads them when they have become known, one or two backwards
 * later.
 */
#include "base/trace.h"
#include "parallel/ddp.h"

yk_status yki_stream_times_create(yk_ddp *ddp)
{
    return yki_times_create(&ddp->times, yki_model_device(ddp->model));
}

/* A comm hook on the host sees its exchanges, and so does the reducer, which takes their times. */
static bool is_unseen(const yk_ddp *ddp)
{
    return ddp->times.device && (!ddp->hook.run || ddp->hook.enter);
}

yk_status yki_stream_times_note(yk_ddp *ddp, yki_stream_point point)
{
    if (!is_unseen(ddp))
        return YK_OK;
    return yki_times_note(&ddp->times, point, yki_device_stream(ddp->times.device));
}

yk_status yki_stream_times_end(yk_ddp *ddp)
{
    const double *seconds;
    if (!is_unseen(ddp))
        return YK_OK;
    double begin = yki_trace_begin();
    YK_TRY(yki_times_read(&ddp->times, &seconds));
    if (seconds) {
        ddp->known.communication_s = seconds[YKI_STREAM_LANDED];
        ddp->known.exposed_s = seconds[YKI_STREAM_LANDED] - seconds[YKI_STREAM_COMPUTED];
        YKI_TRACE_END(begin,
                      ((yki_trace_args){.key = {"communication_us", "exposed_us"},
                                        .value = {(int64_t)(1e6 * ddp->known.communication_s),
                                                  (int64_t)(1e6 * ddp->known.exposed_s)}}),
                      "an earlier exchange on the device");
    }
    ddp->stats.communication_s = ddp->known.communication_s;
    ddp->stats.exposed_s = ddp->known.exposed_s;
    return yki_times_take(&ddp->times, yki_device_stream(ddp->times.device));
}

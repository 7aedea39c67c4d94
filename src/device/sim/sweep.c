/* The simulated device's sweeps: ref's, with every address of the spans looked up when they run. */
#include <stdlib.h>

#include "base/memory.h"
#include "device/ref/ref.h"
#include "device/sim/sim.h"

static yk_status find_or_null(yki_sim *sim, const void *address, size_t bytes, void **host)
{
    *host = NULL;
    return address ? yki_sim_find(sim, address, bytes, host) : YK_OK;
}

/* The spans as the host sees them; *groups is the number of groups that they name. */
static yk_status find_spans(yki_sim *sim, const yki_sweep_args *args, yki_span *spans,
                            size_t *groups)
{
    void *found;
    YK_TRY(yki_sim_find(sim, args->spans, args->span_count * sizeof *spans, &found));
    *groups = 1;
    for (size_t i = 0; i < args->span_count; i++) {
        yki_span *span = &spans[i];
        *span = ((const yki_span *)found)[i];
        size_t bytes = (size_t)span->count * yk_dtype_size(span->dtype);
        if (*groups <= (size_t)span->group)
            *groups = (size_t)span->group + 1;
        for (int t = 0; t < YKI_SWEEP_TENSORS; t++)
            if (find_or_null(sim, bytes ? span->at[t] : NULL, bytes, &span->at[t]) != YK_OK)
                return yki_error_context(YK_ERROR_INTERNAL, "sweep %d, span %zu, tensor %d",
                                         (int)args->op, i, t);
    }
    return YK_OK;
}

static size_t result_bytes(const yki_sweep_args *args)
{
    bool norms =
        yki_sweep_finds_norms(args->op) || args->op == YKI_SWEEP_LARS || args->op == YKI_SWEEP_LAMB;
    return norms                        ? args->span_count * 2 * sizeof(double)
           : args->op == YKI_SWEEP_HASH ? args->span_count * sizeof(uint64_t)
                                        : sizeof(double);
}

/* Everything but the spans. */
static yk_status find_rest(yki_sim *sim, const yki_sweep_args *args, size_t groups,
                           yki_sweep_args *host)
{
    void *found;
    YK_TRY(yki_sim_find(sim, args->chunks, args->chunk_count * sizeof(yki_sweep_chunk), &found));
    host->chunks = found;
    YK_TRY(
        yki_sim_find(sim, args->partial, args->chunk_count * 2 * sizeof(double), &host->partial));
    YK_TRY(find_or_null(sim, args->coefficients, groups * YKI_SWEEP_COEFFICIENTS * sizeof(double),
                        &found));
    host->coefficients = found;
    return find_or_null(sim, args->result, result_bytes(args), &host->result);
}

static yk_status run_sweep(yki_sim *sim, void *work)
{
    const yki_sweep_args *args = work;
    yki_sweep_args host = *args;
    size_t groups;
    yki_span *spans = yki_calloc(args->span_count, sizeof *spans);
    if (!spans)
        return yki_error_memory(args->span_count * sizeof *spans, "a sweep of the sim device");
    yk_status status = find_spans(sim, args, spans, &groups);
    if (status == YK_OK)
        status = find_rest(sim, args, groups, &host);
    host.spans = spans;
    if (status == YK_OK)
        status = yki_ref_sweep(&sim->base, &host);
    free(spans);
    return status;
}

yk_status yki_sim_sweep(yki_device *device, const yki_sweep_args *args)
{
    static const yki_sim_work kind = {.run = run_sweep, .bytes = sizeof *args};
    yki_sim *sim = (yki_sim *)device;
    yki_sweep_args host;
    YK_TRY(find_rest(sim, args, 1, &host));
    return yki_sim_enter(sim, args->stream, &kind, args);
}

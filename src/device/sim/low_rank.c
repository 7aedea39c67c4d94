/* The simulated device's approximations of matrices: the host's, with every address looked up when
 * they run. */
#include "device/sim/sim.h"

/* Those that are NULL stay so. */
static yk_status find(yki_sim *sim, const void *address, int64_t count, size_t size, void *found)
{
    void *host = NULL;
    if (address)
        YK_TRY(yki_sim_find(sim, address, (size_t)count * size, &host));
    *(void **)found = host;
    return YK_OK;
}

static yk_status run_low_rank(yki_sim *sim, void *work)
{
    const yki_low_rank_args *args = work;
    const yki_low_rank *x = &args->at;
    yki_low_rank_args host = *args;
    YK_TRY(find(sim, x->matrix, x->n * x->m, sizeof(float), &host.at.matrix));
    YK_TRY(find(sim, x->error, x->n * x->m, sizeof(float), &host.at.error));
    YK_TRY(find(sim, x->p, x->rank * x->n, sizeof(float), &host.at.p));
    YK_TRY(find(sim, x->q, x->rank * x->m, sizeof(float), &host.at.q));
    YK_TRY(find(sim, args->key, 1, sizeof *args->key, &host.key));
    YK_TRY(find(sim, args->warm, 1, sizeof *args->warm, &host.warm));
    YK_TRY(find(sim, args->bad, 1, sizeof *args->bad, &host.bad));
    YK_TRY(find(sim, args->count, 1, sizeof *args->count, &host.count));
    host.matrices = &host.at;
    host.matrix_count = 1;
    yki_low_rank_run(&host);
    return YK_OK;
}

yk_status yki_sim_low_rank(yki_device *device, const yki_low_rank_args *args)
{
    static const yki_sim_work kind = {.run = run_low_rank, .bytes = sizeof *args};
    bool many =
        args->op == YKI_LOW_RANK_ORTHONORMALISE_P || args->op == YKI_LOW_RANK_ORTHONORMALISE_Q;
    yki_low_rank_args one = *args;
    if (!many)
        return yki_sim_enter((yki_sim *)device, args->stream, &kind, args);
    for (size_t i = 0; i < args->matrix_count; i++) {
        one.at = args->matrices[i];
        YK_TRY(yki_sim_enter((yki_sim *)device, args->stream, &kind, &one));
    }
    return YK_OK;
}

/* The simulated device's updates by Muon: ref's, with every address looked up when they run. */
#include "device/ref/ref.h"
#include "device/sim/sim.h"

static yk_status run_muon(yki_sim *sim, void *work)
{
    const yki_muon_args *args = work;
    yki_muon_args host = *args;
    size_t bytes = (size_t)(args->rows * args->columns) * sizeof(float);
    size_t scratch;
    void *value, *update, *room, *coefficients;
    YK_TRY(yki_muon_prepare(&sim->base, args->rows, args->columns, &scratch));
    YK_TRY(yki_sim_find(sim, args->value, bytes, &value));
    YK_TRY(yki_sim_find(sim, args->update, bytes, &update));
    YK_TRY(yki_sim_find(sim, args->scratch, scratch, &room));
    YK_TRY(yki_sim_find(sim, args->coefficients, YKI_SWEEP_COEFFICIENTS * sizeof(double),
                        &coefficients));
    host.value = value;
    host.update = update;
    host.scratch = room;
    host.coefficients = coefficients;
    return yki_ref_muon.update(&sim->base, &host);
}

static yk_status update(yki_device *device, const yki_muon_args *args)
{
    static const yki_sim_work kind = {.run = run_muon, .bytes = sizeof *args};
    return yki_sim_enter((yki_sim *)device, args->stream, &kind, args);
}

const yki_muon_ops yki_sim_muon = {.prepare = yki_muon_prepare, .update = update};

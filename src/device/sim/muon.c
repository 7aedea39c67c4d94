/* The simulated device's updates by Muon: ref's, with every address looked up when they run. */
#include "device/ref/ref.h"
#include "device/sim/sim.h"

static yk_status run_muon(yki_sim *sim, void *work)
{
    const yki_muon_args *args = work;
    yki_muon_args host = *args;
    size_t bytes = (size_t)(args->rows * args->columns) * sizeof(float);
    size_t scratch = (size_t)yki_muon_scratch(args->rows, args->columns) * sizeof(float);
    void *value, *update, *room, *coefficients;
    YK_TRY(yki_sim_find(sim, args->value, bytes, &value));
    YK_TRY(yki_sim_find(sim, args->update, bytes, &update));
    YK_TRY(yki_sim_find(sim, args->scratch, scratch, &room));
    YK_TRY(yki_sim_find(sim, args->coefficients, YKI_SWEEP_COEFFICIENTS * sizeof(double),
                        &coefficients));
    host.value = value;
    host.update = update;
    host.scratch = room;
    host.coefficients = coefficients;
    return yki_ref_muon(&sim->base, &host);
}

yk_status yki_sim_muon(yki_device *device, const yki_muon_args *args)
{
    static const yki_sim_work kind = {.run = run_muon, .bytes = sizeof *args};
    return yki_sim_enter((yki_sim *)device, args->stream, &kind, args);
}

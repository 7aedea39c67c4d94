/* When the simulated device does what is entered in a stream. */
#include "base/clock.h"
#include "device/sim/sim.h"

static yk_status run_note(yki_sim *sim, void *work)
{
    void *host;
    YK_TRY(yki_sim_find(sim, *(int64_t *const *)work, sizeof(int64_t), &host));
    *(int64_t *)host = (int64_t)(1e9 * yki_now());
    return YK_OK;
}

yk_status yki_sim_note_time(yki_device *device, int64_t *nanoseconds, yki_stream *stream)
{
    static const yki_sim_work kind = {.run = run_note, .bytes = sizeof nanoseconds};
    return yki_sim_enter((yki_sim *)device, stream, &kind, &nanoseconds);
}

/* A stream of the simulated device that comes to a halt. */
#ifndef YK_TEST_BLOCKED_STREAM_H
#define YK_TEST_BLOCKED_STREAM_H

#include "device/sim/sim.h"

static inline bool yk_test_is_never_ready(yki_sim *sim, void *work)
{
    (void)sim, (void)work;
    return false;
}

static inline yk_status yk_test_run_nothing(yki_sim *sim, void *work)
{
    (void)sim, (void)work;
    return YK_OK;
}

/* What is entered in the stream from now on is never done. */
static inline yk_status yk_test_block_stream(yki_device *device, yki_stream *stream)
{
    static const yki_sim_work kind = {
        .run = yk_test_run_nothing, .ready = yk_test_is_never_ready, .bytes = sizeof(char)};
    return yki_sim_enter((yki_sim *)device, stream, &kind, "");
}

#endif

/* What is asked while a host waits for a device, on the simulated one. */
#include "device/device.h"
#include "device/sim/sim.h"
#include "harness.h"

static int asked, failures;
static bool done;

static bool is_ready(yki_sim *sim, void *work)
{
    (void)sim, (void)work;
    return asked >= 3;
}

static yk_status run(yki_sim *sim, void *work)
{
    (void)sim, (void)work;
    done = true;
    return YK_OK;
}

static yk_status look(void *context)
{
    (void)context;
    return ++asked <= failures ? yki_error(YK_ERROR_INVALID_SHAPE, "report %d", asked) : YK_OK;
}

/* Waits for a work that ends when the watcher, which fails so often, was asked three times. */
static yk_status wait_for_work(int times)
{
    static const yki_sim_work kind = {.run = run, .ready = is_ready, .bytes = sizeof(char)};
    yki_device *device;
    yki_watcher watcher = {.look = look};
    asked = 0;
    failures = times;
    done = false;
    assert_ok(yki_device_create(&device, "sim", &(yki_device_options){.threads = 1}));
    yki_device_add_watcher(device, &watcher);
    yki_stream *stream = yki_device_stream(device);
    assert_ok(yki_sim_enter((yki_sim *)device, stream, &kind, ""));
    yk_status status = yki_stream_wait(device, stream);
    bool was_done = done;
    asked = 3;
    failures = 0;
    yki_device_remove_watcher(device, &watcher);
    assert_ok(yki_stream_wait(device, stream));
    yki_device_destroy(device);
    done = was_done;
    return status;
}

/* It may be about anything that the device has done. The caller frees what the work uses. */
YK_TEST(a_report_that_a_watcher_gets_does_not_end_the_wait)
{
    assert_ok(wait_for_work(0));
    assert_true(done);
    assert_status(YK_ERROR_INVALID_SHAPE, wait_for_work(1));
    assert_contains(yk_last_error(), "report 1");
    assert_true(done);
}

YK_TEST(a_failure_that_lasts_ends_the_wait)
{
    assert_status(YK_ERROR_INVALID_SHAPE, wait_for_work(1000));
    assert_false(done);
}

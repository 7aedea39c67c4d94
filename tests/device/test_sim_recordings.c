/* Recordings on the simulated device: replays, and the rules that they follow. */
#define _GNU_SOURCE
#include "sim_device.h"

/* x = host; on a second stream y = x + x; back on the first z = y + y. */
typedef struct program {
    yki_stream *a, *b;
    yki_event *ready, *landed;
    float *host, *x, *y, *z;
    yki_kernel *kernel;
} program;

static void program_init(program *p, yki_device *device)
{
    void *pinned;
    assert_ok(yki_device_alloc_pinned(device, BYTES, &pinned));
    *p = (program){.a = yki_device_stream(device),
                   .b = new_stream(device),
                   .ready = new_event(device),
                   .landed = new_event(device),
                   .host = pinned,
                   .x = new_tensor(device),
                   .y = new_tensor(device),
                   .z = new_tensor(device),
                   .kernel = new_add(device)};
}

static void program_fini(program *p, yki_device *device)
{
    yki_kernel_destroy(p->kernel);
    yki_event_destroy(device, p->ready);
    yki_event_destroy(device, p->landed);
}

static void enter_program(const program *p, yki_device *device, bool forked, bool joined)
{
    write_all(device, p->x, p->host, p->a);
    assert_ok(yki_event_mark(device, p->ready, p->a));
    assert_ok(yki_event_follow(device, p->ready, p->b));
    assert_ok(add(p->kernel, p->y, p->x, p->x, p->b));
    assert_ok(yki_event_mark(device, p->landed, p->b));
    if (forked) /* more, which nobody follows */
        assert_ok(yki_device_fill(device, p->x, 0, BYTES, p->b));
    if (joined)
        assert_ok(yki_event_follow(device, p->landed, p->a));
    assert_ok(add(p->kernel, p->z, p->y, p->y, p->a));
}

YK_TEST(a_replay_does_what_was_recorded)
{
    for (int seed = 0; seed < SEEDS; seed++) {
        yki_device *device = open_sim(seed);
        yki_recording *recording;
        program p;
        program_init(&p, device);
        assert_true(yki_device_records(device));
        assert_ok(yki_record_begin(device, p.a));
        enter_program(&p, device, false, true);
        assert_ok(yki_record_end(device, p.a, &recording));
        assert_true(read_first(device, p.z) == 0); /* nothing has been done */
        for (int i = 1; i < 4; i++) {
            p.host[0] = (float)i;
            assert_ok(yki_replay(device, recording, p.a));
            assert_true(read_first(device, p.z) == (float)(4 * i));
        }
        yki_recording_destroy(device, recording);
        program_fini(&p, device);
        yki_device_destroy(device);
    }
}

YK_TEST(recordings_have_rules)
{
    yki_device *device = open_sim(1);
    yki_recording *recording;
    program p;
    program_init(&p, device);
    yki_event *outside = new_event(device);
    assert_ok(yki_event_mark(device, outside, p.b));
    assert_status(YK_ERROR_INTERNAL, yki_record_end(device, p.a, &recording));

    assert_ok(yki_record_begin(device, p.a));
    assert_status(YK_ERROR_INTERNAL, yki_record_begin(device, p.a));
    assert_status(YK_ERROR_INTERNAL, yki_event_follow(device, outside, p.a));
    assert_contains(yk_last_error(), "outside the recording");
    assert_status(YK_ERROR_INTERNAL, yki_stream_wait(device, p.a));
    assert_contains(yk_last_error(), "marked in a recording");
    enter_program(&p, device, false, false);
    assert_status(YK_ERROR_INTERNAL, yki_record_end(device, p.a, &recording));
    assert_contains(yk_last_error(), "is not followed");
    assert_null(recording);

    assert_ok(yki_record_begin(device, p.a));
    enter_program(&p, device, true, true);
    assert_status(YK_ERROR_INTERNAL, yki_record_end(device, p.a, &recording));
    assert_status(YK_ERROR_INTERNAL, yki_event_follow(device, p.landed, p.a));

    /* Addresses and kernels are those of the time of recording. */
    assert_ok(yki_record_begin(device, p.a));
    enter_program(&p, device, false, true);
    assert_ok(yki_record_end(device, p.a, &recording));
    yki_device_free(device, p.y, BYTES);
    assert_ok(yki_replay(device, recording, p.a));
    assert_status(YK_ERROR_INTERNAL, yki_stream_wait(device, p.a));
    assert_contains(yk_last_error(), "has been freed");
    yki_recording_destroy(device, recording);
    yki_event_destroy(device, outside);
    program_fini(&p, device);
    yki_device_destroy(device);
}

YK_TEST(host_devices_record_nothing)
{
    yki_device *device;
    assert_ok(yki_device_create(&device, "cpu", &(yki_device_options){.threads = 1}));
    assert_false(yki_device_records(device));
    yki_device_destroy(device);
}

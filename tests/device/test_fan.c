/* Work that has no order among itself, on a host device and in the streams of the simulated one. */
#include "device/device.h"
#include "device/fan.h"
#include "harness.h"

enum { PARTS = 3 * YKI_FAN + 1, BYTES = 64 };

/* Every part copies what was filled before the fan was opened; what comes after it has closed reads
 * all of them. The simulated device runs streams as late and as far out of order as events permit.
 */
static void copies_are_between_what_is_before_and_after(const char *name)
{
    yki_device *device;
    yki_fan fan;
    void *source, *parts, *after;
    uint8_t found[PARTS * BYTES];
    assert_ok(yki_device_create(&device, name, &(yki_device_options){.threads = 1}));
    yki_stream *stream = yki_device_stream(device);
    assert_ok(yki_device_alloc(device, BYTES, &source));
    assert_ok(yki_device_alloc(device, PARTS * BYTES, &parts));
    assert_ok(yki_device_alloc(device, PARTS * BYTES, &after));
    assert_ok(yki_fan_create(&fan, device, YKI_FAN));
    for (int round = 1; round <= 20; round++) {
        assert_ok(yki_device_fill(device, source, round, BYTES, stream));
        assert_ok(yki_fan_open(&fan));
        for (int i = 0; i < PARTS; i++)
            assert_ok(yki_device_copy(device, (char *)parts + i * BYTES, source, BYTES,
                                      YKI_WITHIN_DEVICE, yki_fan_stream(&fan)));
        assert_ok(yki_fan_close(&fan, YK_OK));
        assert_ok(yki_device_copy(device, after, parts, PARTS * BYTES, YKI_WITHIN_DEVICE, stream));
        const yk_tensor tensor = {
            .data = after, .dtype = YK_U8, .ndim = 1, .dims = {PARTS * BYTES}, .device = device};
        if (yki_device_is_host(device))
            memcpy(found, after, sizeof found);
        else
            assert_ok(yk_tensor_read(&tensor, found));
        for (size_t i = 0; i < sizeof found; i++)
            assert_int_equal(found[i], round);
    }
    yki_fan_destroy(&fan);
    yki_device_free(device, after, PARTS * BYTES);
    yki_device_free(device, parts, PARTS * BYTES);
    yki_device_free(device, source, BYTES);
    yki_device_destroy(device);
}

YK_TEST(parts_are_between_what_is_before_and_after)
{
    copies_are_between_what_is_before_and_after("cpu");
    copies_are_between_what_is_before_and_after("sim");
}

/* The parts that were entered are over when the device's stream is, although one is missing. */
YK_TEST(parts_are_joined_where_one_fails)
{
    yki_device *device;
    yki_fan fan;
    void *parts;
    uint8_t found[YKI_FAN];
    assert_ok(yki_device_create(&device, "sim", &(yki_device_options){.threads = 1}));
    assert_ok(yki_device_alloc(device, YKI_FAN, &parts));
    assert_ok(yki_fan_create(&fan, device, YKI_FAN));
    const yk_tensor tensor = {
        .data = parts, .dtype = YK_U8, .ndim = 1, .dims = {YKI_FAN}, .device = device};
    for (int round = 1; round <= 20; round++) {
        assert_ok(yki_fan_open(&fan));
        for (int i = 0; i < YKI_FAN; i++)
            assert_ok(yki_device_fill(device, (char *)parts + i, round, 1, yki_fan_stream(&fan)));
        yk_status status = yki_error(YK_ERROR_NETWORK, "another part");
        assert_status(YK_ERROR_NETWORK, yki_fan_close(&fan, status));
        assert_string_equal(yk_last_error(), "yoke: another part");
        assert_ok(yk_tensor_read(&tensor, found));
        for (int i = 0; i < YKI_FAN; i++)
            assert_int_equal(found[i], round);
    }
    yki_fan_destroy(&fan);
    yki_device_free(device, parts, YKI_FAN);
    yki_device_destroy(device);
}

/* The streams join a recording and leave it before it ends. */
YK_TEST(a_fan_is_recorded)
{
    yki_device *device;
    yki_fan fan;
    yki_recording *recording;
    void *memory;
    uint8_t found[PARTS];
    assert_ok(yki_device_create(&device, "sim", &(yki_device_options){.threads = 1}));
    yki_stream *stream = yki_device_stream(device);
    assert_ok(yki_device_alloc(device, PARTS, &memory));
    assert_ok(yki_fan_create(&fan, device, YKI_FAN));
    assert_ok(yki_record_begin(device, stream));
    assert_ok(yki_fan_open(&fan));
    for (int i = 0; i < PARTS; i++)
        assert_ok(yki_device_fill(device, (char *)memory + i, i + 1, 1, yki_fan_stream(&fan)));
    assert_ok(yki_fan_close(&fan, YK_OK));
    assert_ok(yki_record_end(device, stream, &recording));
    for (int round = 0; round < 3; round++) {
        assert_ok(yki_device_fill(device, memory, 0xff, PARTS, stream));
        assert_ok(yki_replay(device, recording, stream));
        const yk_tensor tensor = {
            .data = memory, .dtype = YK_U8, .ndim = 1, .dims = {PARTS}, .device = device};
        assert_ok(yk_tensor_read(&tensor, found));
        for (int i = 0; i < PARTS; i++)
            assert_int_equal(found[i], i + 1);
    }
    yki_recording_destroy(device, recording);
    yki_fan_destroy(&fan);
    yki_device_free(device, memory, PARTS);
    yki_device_destroy(device);
}

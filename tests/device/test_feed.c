/* Feeds: each step finds its own bytes, and they cross to the device while it computes. */
#define _GNU_SOURCE
#include "device/device.h"
#include "device/feed.h"
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 64, STEPS = 7, SEEDS = 8 };

static yki_device *open_sim(int seed)
{
    yki_device *device;
    char text[16];
    snprintf(text, sizeof text, "%d", seed);
    setenv("YOKE_SIM_SEED", text, 1);
    assert_ok(yki_device_create(&device, "sim", &(yki_device_options){.threads = 1}));
    return device;
}

static void send(yki_feed *feed, yki_stream *copies, int value)
{
    void *room;
    assert_ok(yki_feed_open(feed, &room));
    memset(room, value, BYTES);
    assert_ok(yki_feed_send(feed, BYTES, copies));
}

YK_TEST(each_step_finds_its_own_bytes)
{
    for (int seed = 0; seed < SEEDS; seed++) {
        yki_device *device = open_sim(seed);
        yki_stream *copies;
        yki_feed feed;
        void *found;
        char here[STEPS * BYTES];
        assert_ok(yki_stream_create(device, &copies));
        assert_ok(yki_feed_create(&feed, device, BYTES));
        assert_ok(yki_device_alloc(device, STEPS * BYTES, &found));
        const void *memory = feed.memory;
        for (int step = 0; step < STEPS; step++) {
            send(&feed, copies, step + 1);
            assert_ok(yki_device_copy(device, (char *)found + step * BYTES, feed.memory, BYTES,
                                      YKI_WITHIN_DEVICE, yki_device_stream(device)));
        }
        const yk_tensor all = {
            .data = found, .dtype = YK_U8, .ndim = 1, .dims = {STEPS * BYTES}, .device = device};
        assert_ok(yk_tensor_read(&all, here));
        for (int i = 0; i < STEPS * BYTES; i++)
            assert_int_equal(here[i], i / BYTES + 1);
        assert_ptr_equal(feed.memory, memory);
        yki_device_free(device, found, STEPS * BYTES);
        yki_feed_destroy(&feed);
        yki_stream_destroy(device, copies);
        yki_device_destroy(device);
    }
}

/* The compute stream copies from the host's memory when it comes to it: what it finds there says
 * that bytes have arrived before it has. */
YK_TEST(bytes_arrive_while_the_device_computes)
{
    yki_device *device = open_sim(1);
    yki_stream *copies, *stream = yki_device_stream(device);
    yki_feed feed;
    void *pinned, *there;
    assert_ok(yki_stream_create(device, &copies));
    assert_ok(yki_feed_create(&feed, device, BYTES));
    assert_ok(yki_device_alloc_pinned(device, BYTES, &pinned));
    assert_ok(yki_device_alloc(device, BYTES, &there));
    memset(pinned, 1, BYTES);
    assert_ok(yki_device_copy(device, there, pinned, BYTES, YKI_TO_DEVICE, stream));
    send(&feed, copies, 5);
    assert_ok(yki_event_wait(device, feed.stages.list[0].arrived));
    memset(pinned, 2, BYTES);
    assert_ok(yki_device_copy(device, pinned, there, BYTES, YKI_TO_HOST, stream));
    assert_ok(yki_stream_wait(device, stream));
    assert_int_equal(*(char *)pinned, 2);
    yki_device_free(device, there, BYTES);
    yki_device_free_pinned(device, pinned, BYTES);
    yki_feed_destroy(&feed);
    yki_stream_destroy(device, copies);
    yki_device_destroy(device);
}

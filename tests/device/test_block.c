/* Blocks: what is entered in a stream reads the values that were sent before it. */
#include <string.h>

#include "device/block.h"
#include "device/device.h"
#include "harness.h"

enum { BYTES = 32 };

typedef yk_status send_fn(yki_block *block, yki_stream *stream);

static void send(yki_block *block, send_fn *how, int value)
{
    void *room;
    assert_ok(yki_block_open(block, &room));
    memset(room, value, BYTES);
    assert_ok(how(block, yki_device_stream(block->device)));
}

static void assert_holds(const yki_block *block, int value)
{
    char here[BYTES];
    const yk_tensor all = {
        .data = block->memory, .dtype = YK_U8, .ndim = 1, .dims = {BYTES}, .device = block->device};
    assert_ok(yk_tensor_read(&all, here));
    for (int i = 0; i < BYTES; i++)
        assert_int_equal(here[i], value);
}

/* The device writes 77 into the block before each sending: where it remains, nothing was sent. */
YK_TEST(values_that_the_device_has_are_not_sent_again)
{
    yki_device *device;
    yki_block block;
    assert_ok(yki_device_create(&device, "sim", &(yki_device_options){.threads = 1}));
    assert_ok(yki_block_create(&block, device, BYTES));
    send(&block, yki_block_send_if_new, 1);
    assert_holds(&block, 1);
    for (int value = 1; value < 3 * YKI_BLOCK_SLOTS; value++) {
        assert_ok(yki_device_fill(device, block.memory, 77, BYTES, yki_device_stream(device)));
        send(&block, yki_block_send_if_new, value);
        assert_holds(&block, 77);
        send(&block, yki_block_send, value);
        assert_holds(&block, value);
        send(&block, yki_block_send_if_new, value + 1);
        assert_holds(&block, value + 1);
    }
    yki_block_destroy(&block);
    yki_device_destroy(device);
}

/* The simulated device's memory: out of the host's reach, and mistakes with it are reported. */
#define _GNU_SOURCE
#include "sim_device.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/sweep.h"

/* Whether the process that does this dies of this signal. */
static void assert_dies(void (*body)(yki_device *device), int signal_number)
{
    fflush(NULL);
    pid_t child = yk_test_fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        signal(SIGABRT, SIG_DFL);
        body(open_sim(1));
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), signal_number);
}

static void read_on_host(yki_device *device)
{
    volatile float *memory = new_tensor(device);
    (void)memory[0];
}

static void write_on_host(yki_device *device)
{
    volatile float *memory = new_tensor(device);
    memory[COUNT - 1] = 1;
}

static void read_freed_pinned(yki_device *device)
{
    void *memory;
    assert_ok(yki_device_alloc_pinned(device, BYTES, &memory));
    yki_device_free_pinned(device, memory, BYTES);
    (void)*(volatile float *)memory;
}

static void write_beyond_pinned(yki_device *device)
{
    void *memory;
    assert_ok(yki_device_alloc_pinned(device, BYTES - 4, &memory));
    ((volatile char *)memory)[BYTES - 4] = 1;
    yki_device_free_pinned(device, memory, BYTES - 4);
}

static void free_other_size(yki_device *device)
{
    yki_device_free(device, new_tensor(device), BYTES - 4);
}

YK_TEST(the_host_cannot_touch_device_memory)
{
    assert_dies(read_on_host, SIGSEGV);
    assert_dies(write_on_host, SIGSEGV);
    assert_dies(read_freed_pinned, SIGSEGV);
    assert_dies(write_beyond_pinned, SIGABRT);
    assert_dies(free_other_size, SIGABRT);
}

YK_TEST(memory_is_zeroed_and_aligned)
{
    yki_device *device = open_sim(1);
    for (size_t bytes = 1; bytes < 10000; bytes = bytes * 3 + 1) {
        void *memory;
        unsigned char last = 1;
        assert_ok(yki_device_alloc(device, bytes, &memory));
        assert_int_equal((uintptr_t)memory % 64, 0);
        assert_ok(yki_device_copy(device, &last, (char *)memory + bytes - 1, 1, YKI_TO_HOST,
                                  yki_device_stream(device)));
        assert_ok(yki_stream_wait(device, yki_device_stream(device)));
        assert_int_equal(last, 0);
        yki_device_free(device, memory, bytes);
    }
    yki_device_destroy(device);
}

YK_TEST(addresses_are_checked_where_they_are_given)
{
    yki_device *device = open_sim(1);
    yki_stream *stream = yki_device_stream(device);
    float host[COUNT] = {0}, *x = new_tensor(device), *y = new_tensor(device);
    yki_kernel *kernel = new_add(device);
    assert_status(YK_ERROR_INTERNAL, add(kernel, y, x, host, stream));
    assert_contains(yk_last_error(), "add, input 1");
    assert_status(YK_ERROR_INTERNAL, add(kernel, y + 1, x, x, stream));
    assert_contains(yk_last_error(), "beyond a block of 256 bytes");
    assert_status(YK_ERROR_INTERNAL, add(kernel, y, x, x, NULL));
    assert_status(YK_ERROR_INTERNAL,
                  yki_device_copy(device, host, x, BYTES, YKI_TO_DEVICE, stream));
    assert_status(YK_ERROR_INTERNAL, yki_device_copy(device, x, y, BYTES, YKI_TO_DEVICE, stream));
    assert_contains(yk_last_error(), "is in the device's memory, not in the host's");
    assert_status(YK_ERROR_INTERNAL, yki_device_fill(device, host, 0, BYTES, stream));
    yki_device_free(device, x, BYTES);
    assert_status(YK_ERROR_INTERNAL, yki_device_fill(device, x, 0, BYTES, stream));
    assert_contains(yk_last_error(), "has been freed");
    yki_kernel_destroy(kernel);
    yki_device_destroy(device);
}

static yk_status no_pinned(yki_device *device, size_t bytes, void **memory)
{
    (void)device, (void)memory;
    return yki_error_memory(bytes, "pinned memory");
}

/* The device ends the process where memory is freed that it has not given out like this. */
YK_TEST(a_sweep_without_pinned_memory_is_given_up)
{
    yki_device *device = open_sim(1);
    const yki_device_type *type = device->type;
    yki_memory_ops memory = *type->memory;
    yki_device_type without = *type;
    const yki_span span = {.at = {new_tensor(device)}, .dtype = YK_F32, .count = COUNT};
    yki_sweep *sweep;
    memory.alloc_pinned = no_pinned;
    without.memory = &memory;
    device->type = &without;
    assert_status(YK_ERROR_OUT_OF_MEMORY, yki_sweep_create(&sweep, device, &span, 1));
    assert_null(sweep);
    device->type = type;
    assert_ok(yki_sweep_create(&sweep, device, &span, 1));
    yki_sweep_destroy(sweep);
    yki_device_free(device, span.at[0], BYTES);
    yki_device_destroy(device);
}

/* What was entered must stay valid until it is done. */
YK_TEST(freeing_too_early_is_noticed)
{
    yki_device *device = open_sim(1);
    yki_stream *stream = yki_device_stream(device);
    float *x = new_tensor(device);
    void *pinned;
    assert_ok(yki_device_fill(device, x, 0, BYTES, stream));
    yki_device_free(device, x, BYTES);
    assert_status(YK_ERROR_INTERNAL, yki_stream_wait(device, stream));
    assert_contains(yk_last_error(), "has been freed");

    x = new_tensor(device);
    assert_ok(yki_device_alloc_pinned(device, BYTES, &pinned));
    write_all(device, x, pinned, stream);
    yki_device_free_pinned(device, pinned, BYTES);
    assert_status(YK_ERROR_INTERNAL, yki_stream_wait(device, stream));
    assert_contains(yk_last_error(), "pinned memory");

    yki_kernel *kernel = new_add(device);
    assert_ok(add(kernel, x, x, x, stream));
    yki_kernel_destroy(kernel);
    assert_status(YK_ERROR_INTERNAL, yki_stream_wait(device, stream));
    assert_contains(yk_last_error(), "a kernel of add was destroyed");
    yki_device_destroy(device);
}

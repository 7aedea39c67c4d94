/*
 * The nccl backend on a fake libnccl (tests/nccl/fake) and simulated devices; tests/comm/test_plane
 * and the tests of DDP run on it, too.
 */
#define _GNU_SOURCE
#include "comm/plane.h"
#include "device/device.h"
#include "harness.h"

#include <dlfcn.h>
#include <stdlib.h>

enum { COUNT = 1000 };

typedef struct fixture {
    yk_group *group;
    yki_device *device;
    yki_plane *plane;
    float *data;
} fixture;

static void begin(fixture *f, const char *backend)
{
    *f = (fixture){.plane = NULL};
    void *data;
    assert_ok(yk_group_init(&f->group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT,
                                               o.backend = backend, o.timeout_s = 60)));
    assert_ok(yki_device_create(&f->device, "sim", &(yki_device_options){.threads = 1}));
    assert_ok(yki_device_alloc(f->device, COUNT * sizeof(float), &data));
    f->data = data;
}

static void end(fixture *f)
{
    yki_plane_close(f->plane);
    yki_device_free(f->device, f->data, COUNT * sizeof(float));
    yki_device_destroy(f->device);
    yk_group_destroy(f->group);
}

static yk_status reduce(const fixture *f)
{
    yk_descriptor what = {.operation = YK_OPERATION_ALL_REDUCE, .dtype = YK_F32, .count = COUNT};
    return yki_plane_run(f->plane, &what, f->data, f->data, yki_device_stream(f->device));
}

/* What NCCL finds out by itself, while the host waits for the device. */
YK_TEST_RANKS(an_asynchronous_error_ends_the_wait_on_all_ranks, 3)
{
    fixture f;
    setenv("YOKE_FAKE_NCCL", "fail:1:2", 1);
    begin(&f, "nccl");
    assert_ok(yki_plane_open(&f.plane, f.group, f.device));
    assert_ok(reduce(&f));
    assert_ok(yki_stream_wait(f.device, yki_device_stream(f.device)));
    yk_status status = reduce(&f); /* NCCL may tell at once */
    if (status == YK_OK)
        status = yki_stream_wait(f.device, yki_device_stream(f.device));
    assert_int_equal(status, YK_ERROR_NETWORK);
    assert_contains(yk_last_error(), "rank 1");
    assert_contains(yk_last_error(), "connection closed by remote peer");
    assert_status(YK_ERROR_NETWORK, reduce(&f));
    end(&f);
}

/* Asked for, it is an error; otherwise memory is staged. */
YK_TEST_RANKS(ranks_that_share_a_gpu_are_refused_on_all_ranks, 2)
{
    fixture f;
    setenv("YOKE_FAKE_NCCL", "duplicate", 1);
    begin(&f, "nccl");
    assert_string_equal(yk_group_backend(f.group), "shm");
    for (int i = 0; i < 2; i++) {
        assert_status(YK_ERROR_UNSUPPORTED, yki_plane_open(&f.plane, f.group, f.device));
        assert_null(f.plane);
        assert_contains(yk_last_error(), "several ranks share a GPU, which NCCL 2.28.9 refuses");
    }
    assert_ok(yk_barrier(f.group));
    end(&f);
}

/* Before anybody waits for this rank. */
YK_TEST(without_the_library_the_error_names_the_package)
{
    yk_group *group;
    setenv("YOKE_TEST_NCCL", "/nonexistent/libnccl.so.2", 1);
    assert_status(YK_ERROR_UNSUPPORTED,
                  yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT,
                                                o.backend = "nccl")));
    assert_contains(yk_last_error(), "/nonexistent/libnccl.so.2: cannot open shared object file");
    assert_contains(yk_last_error(), "install NVIDIA's package libnccl2");
}

/* It cannot be the network between hosts. */
YK_TEST(nccl_cannot_be_combined_with_shm)
{
    yk_group *group;
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT,
                                                o.backend = "shm+nccl")));
    assert_contains(yk_last_error(), "shm+nccl");
    assert_contains(yk_last_error(), "moves the memory of devices");
}

YK_TEST_RANKS(a_rank_without_the_library_has_memory_staged_on_all, 2)
{
    fixture f;
    if (rank == 1)
        setenv("YOKE_TEST_NCCL", "/nonexistent/libnccl.so.2", 1);
    begin(&f, NULL);
    yki_device_type nccl_type = *f.device->type, *const other = &nccl_type;
    other->backend = "nccl";
    f.device->type = other;
    assert_ok(yki_plane_open(&f.plane, f.group, f.device));
    assert_null(f.plane);
    end(&f);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void *symbol(const char *name)
{
    void *found = dlsym(dlopen(getenv("YOKE_TEST_NCCL"), RTLD_NOW), name);
    if (!found)
        fail_msg("%s", dlerror());
    return found;
}

/* The ranks exchange memory of the plane, which is NCCL's if it gives some to both. */
static void exchange_own_memory(int rank, bool on_both)
{
    enum { BYTES = COUNT * sizeof(float) };
    fixture f;
    void *memory;
    begin(&f, "nccl");
    assert_ok(yki_plane_open(&f.plane, f.group, f.device));
    const size_t *given = symbol("fake_nccl_bytes");
    if (on_both || rank == 0)
        *(yki_device **)symbol("fake_nccl_device") = f.device;
    assert_ok(yki_plane_alloc(f.plane, BYTES, &memory));
    assert_int_equal(*given, on_both ? BYTES : 0);
    float *kept = f.data, numbers[COUNT];
    f.data = memory;
    assert_ok(yki_device_copy(f.device, numbers, memory, BYTES, YKI_TO_HOST,
                              yki_device_stream(f.device)));
    assert_ok(yki_stream_wait(f.device, yki_device_stream(f.device)));
    assert_true(numbers[0] == 0 && numbers[COUNT - 1] == 0);
    for (int i = 0; i < COUNT; i++)
        numbers[i] = (float)(rank + i);
    assert_ok(yki_device_copy(f.device, memory, numbers, BYTES, YKI_TO_DEVICE,
                              yki_device_stream(f.device)));
    assert_ok(reduce(&f));
    assert_ok(yki_device_copy(f.device, numbers, memory, BYTES, YKI_TO_HOST,
                              yki_device_stream(f.device)));
    assert_ok(yki_stream_wait(f.device, yki_device_stream(f.device)));
    for (int i = 0; i < COUNT; i++)
        assert_true(numbers[i] == (float)(2 * i + 1));
    yki_plane_free(f.plane, memory, BYTES);
    assert_int_equal(*given, 0);
    f.data = kept;
    end(&f);
}

YK_TEST_RANKS(what_is_exchanged_lies_in_memory_of_nccl, 2)
{
    exchange_own_memory(rank, true);
}

YK_TEST_RANKS(memory_of_nccl_on_one_rank_alone_is_not_used, 2)
{
    exchange_own_memory(rank, false);
}

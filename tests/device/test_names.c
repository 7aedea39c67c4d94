/* Names of devices: "type" or "type:index". */
#include "harness.h"

#include <yoke/system.h>

#include "device/device.h"

static void expect_refusal(yk_status status, const char *name, const char *text)
{
    yki_device *device = (yki_device *)&device; /* anything but NULL */
    assert_status(status, yki_device_create(&device, name, &(yki_device_options){.threads = 1}));
    assert_null(device);
    assert_contains(yk_last_error(), text);
}

YK_TEST(a_host_device_is_the_only_one_of_its_type)
{
    const char *const names[] = {"cpu", "ref", "cpu:0"};
    for (int i = 0; i < 3; i++) {
        yki_device *device;
        assert_ok(yki_device_create(&device, names[i], &(yki_device_options){.threads = 1}));
        assert_string_equal(device->name, names[i]);
        yki_device_destroy(device);
    }
    expect_refusal(YK_ERROR_UNSUPPORTED, "cpu:1", "there is one cpu device");
}

YK_TEST(unknown_devices_are_refused_with_those_that_there_are)
{
    expect_refusal(YK_ERROR_UNSUPPORTED, "tpu",
                   "device \"tpu\": expected one of cpu, ref, sim, cuda");
    expect_refusal(YK_ERROR_UNSUPPORTED, "", "device \"\"");
    expect_refusal(YK_ERROR_UNSUPPORTED, "cp", "device \"cp\"");
    expect_refusal(YK_ERROR_INVALID_ARGUMENT, "cpu:", "expected a type, or type:index");
    expect_refusal(YK_ERROR_INVALID_ARGUMENT, "cpu:one", "expected a type, or type:index");
    expect_refusal(YK_ERROR_INVALID_ARGUMENT, "cpu:-1", "expected a type, or type:index");
    expect_refusal(YK_ERROR_INVALID_ARGUMENT, "cpu:99999999999999999999", "expected a type");
}

YK_TEST(threads_can_be_changed_before_the_first_kernel)
{
    yki_device *device;
    assert_ok(yki_device_create(&device, "cpu", &(yki_device_options){.threads = 2}));
    device->type->set_threads(device, 1); /* OMP_THREAD_LIMIT may forbid more */
    assert_int_equal(device->threads, 1);
    assert_contains(device->description, ", 1 thread");
    assert_null(strstr(device->description, "threads"));
    yki_device_destroy(device);
}

YK_TEST(failures_leave_no_count_and_no_description)
{
    int count = 7;
    char text[64] = "what was there before";
    assert_status(YK_ERROR_UNSUPPORTED, yk_device_count("tpu", &count));
    assert_int_equal(count, 0);
    count = 7;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_device_count(NULL, &count));
    assert_int_equal(count, 0);
    assert_status(YK_ERROR_UNSUPPORTED, yk_device_describe("cpu:1", text, sizeof text));
    assert_string_equal(text, "");
    text[0] = 'w';
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_device_describe(NULL, text, sizeof text));
    assert_string_equal(text, "");
}

YK_TEST(the_processors_name_is_cut_to_the_room_that_there_is)
{
    char name[4] = "";
    yk_cpu_name(NULL, 64);
    yk_cpu_name(name, sizeof name);
    assert_int_equal(strlen(name), sizeof name - 1);
}

/* A test that hangs says where, before it is killed. */
#define _GNU_SOURCE
#include "harness.h"

#include <stdlib.h>
#include <unistd.h>

YK_TEST(a_hanging_test_shows_its_threads)
{
    char self[256], output[16384];
    if (getenv("YK_TEST_HANGS")) {
        for (int i = 0; i < 200; i++)
            usleep(10000);
        return;
    }
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(length > 0);
    self[length] = '\0';
    assert_int_equal(yk_test_command(output, sizeof output,
                                     "YK_TEST_HANGS=1 YK_TEST_DEADLINE=11 %s "
                                     "a_hanging_test_shows_its_threads",
                                     self),
                     0);
    assert_contains(output, "about to exceed its deadline");
    assert_contains(output, "comm: test_deadline");
    assert_contains(output, "syscall: ");
}

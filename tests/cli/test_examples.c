/* The example programs, alone and under the launcher. */
#define _GNU_SOURCE
#include "harness.h"

#include <stdlib.h>
#include <string.h>

static char output[32 * 1024];

YK_TEST(train_cifar10_works_alone)
{
    int code = yk_test_command(output, sizeof output,
                               "OMP_NUM_THREADS=1 %s/train_cifar10 synthetic mlp 2 5",
                               getenv("YOKE_EXAMPLES"));
    if (code)
        fail_msg("exit code %d: %s", code, output);
    assert_contains(output, "epoch 1: loss ");
    assert_contains(output, "epoch 2: loss ");
}

YK_TEST(train_cifar10_works_on_two_ranks)
{
    int code =
        yk_test_command(output, sizeof output, "%s run -n 2 -- %s/train_cifar10 synthetic mlp 1 2",
                        getenv("YOKE_PROGRAM"), getenv("YOKE_EXAMPLES"));
    if (code)
        fail_msg("exit code %d: %s", code, output);
    assert_contains(output, "[rank 0] epoch 1: loss ");
    assert_null(strstr(output, "[rank 1]"));
}

YK_TEST(train_cifar10_says_what_is_wrong)
{
    assert_int_equal(yk_test_command(output, sizeof output, "%s/train_cifar10 /no/such/folder",
                                     getenv("YOKE_EXAMPLES")),
                     1);
    assert_contains(output, "/no/such/folder");
}

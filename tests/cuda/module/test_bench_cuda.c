/* `yoke bench step --profile --device cuda` on the fake driver. */
#define _GNU_SOURCE
#include "../../launcher/job.h"

YK_TEST(profile_of_a_gpu_has_times_and_bounds)
{
    static char output[32 * 1024];
    assert_int_equal(yk_test_command(output, sizeof output,
                                     "%s bench step --arch mlp --batch-size 4 --image-size 8 "
                                     "--steps 2 --device cuda --amp bf16 --profile",
                                     test_program()),
                     0);
    assert_contains(output, "Limits of the device, measured: ");
    assert_contains(output, " GFLOP/s in products of bf16, ");
    assert_contains(output, " GB/s of memory.\n");
    assert_contains(output, "  linear_backward_weight 4x192 -> 256x192\n");
    assert_contains(output, "optimizer, communication and all else\n");
}

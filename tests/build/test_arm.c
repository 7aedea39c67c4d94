/* The library compiles for a processor that is not x86, by scripts/check-arm. */
#include <stdlib.h>

#include "harness.h"

YK_TEST(the_library_compiles_for_64_bit_arm)
{
    static char output[8192];
    if (yk_test_command(output, sizeof output, "command -v aarch64-linux-gnu-gcc") != 0)
        skip_because("there is no compiler for Arm (Debian: gcc-aarch64-linux-gnu)");
    if (yk_test_command(output, sizeof output, "'%s/scripts/check-arm'", getenv("YOKE_SOURCE")) !=
        0)
        fail_msg("%s", output);
}

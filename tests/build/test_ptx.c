/* The kernels' PTX in the simulator (tests/cuda/ptx): one file of nvcc's, and what is refused. */
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"

static char output[16384];

static void need(const char *command, const char *what)
{
    if (yk_test_command(output, sizeof output, "%s", command) != 0)
        skip_because("there is no %s", what);
}

YK_TEST(the_ptx_of_rotary_embeddings_passes_their_tests)
{
    need("command -v python3", "python3");
    need("command -v nvcc || command -v /usr/local/cuda/bin/nvcc", "nvcc");
    need("test -x \"$YOKE_BUILD/tests/test_cuda_kernels\"", "test of kernels: it needs g++");
    if (yk_test_command(output, sizeof output,
                        "cd %s && \"$YOKE_SOURCE/tests/cuda/ptx/run\" \"$YOKE_BUILD\" 80 rotary "
                        "'^cuda_kernels\\.rotary_embedding$'",
                        yk_test_directory()) != 0)
        fail_msg("%s", output);
    assert_contains(output, "\n1 passed, 0 skipped, 0 failed\n");
}

/* A kernel of 7 lines; the instruction is in the fifth. */
#define KERNEL(name, instruction)                                                                  \
    ".visible .entry " name "(.param .align 8 .b8 given[8])\n"                                     \
    "{\n"                                                                                          \
    "    .reg .b32 %r<3>; // and nothing else\n"                                                   \
    "    .shared .align 16 .b8 room[16];\n"                                                        \
    "    " instruction ";\n"                                                                       \
    "    ret;\n"                                                                                   \
    "}\n"

static void write_file(const char *name, const char *text)
{
    FILE *file = fopen(yk_test_path(name), "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Runs a command in the test's folder, where S is the source's; returns its exit code. */
static int run(const char *command)
{
    return yk_test_command(output, sizeof output, "cd %s && S=\"$YOKE_SOURCE\" && %s",
                           yk_test_directory(), command);
}

static void is_refused(const char *kernel, const char *message)
{
    write_file("kernel.ptx", kernel);
    assert_int_equal(run("\"$S/tests/cuda/ptx/translate\" kernel.ptx kernel.cc"), 1);
    assert_string_equal(output, message);
}

YK_TEST(what_is_not_known_is_named)
{
    need("command -v python3", "python3");
    is_refused(KERNEL("add", "add.sat.s32 %r1, %r2, 7"),
               "translate: kernel.ptx:5: unknown instruction: add.sat.s32 %r1, %r2, 7\n");
    is_refused(KERNEL("add", "add.s32 %r1, %q2, 7"),
               "translate: kernel.ptx:5: unknown register %q2: add.s32 %r1, %q2, 7\n");
    is_refused(KERNEL("add", "add.s32 %r1, %r2"),
               "translate: kernel.ptx:5: unknown operands: add.s32 %r1, %r2\n");
    is_refused(KERNEL("copy", "ld.param.u32 %r1, [taken]"),
               "translate: kernel.ptx:5: unknown operand taken: ld.param.u32 %r1, [taken]\n");
}

static void launch(const char *kernel, const char *expected)
{
    char command[64];
    snprintf(command, sizeof command, "./launch %s", kernel);
    run(command);
    assert_contains(output, expected);
}

YK_TEST(accesses_that_are_wrong_are_named)
{
    need("command -v python3", "python3");
    need("command -v g++", "g++");
    write_file("kernels.ptx",
               KERNEL("right", "ld.shared.u32 %r1, [room+12]")
                   KERNEL("outside", "ld.shared.u32 %r1, [room+16]")
                       KERNEL("misaligned", "ld.param.v2.u32 {%r1, %r2}, [given+4]"));
    write_file("launch.cc", "#include <stdio.h>\n"
                            "#include \"simulator.h\"\n"
                            "int main(int, char **arguments)\n"
                            "{\n"
                            "    const unsigned grid[3] = {1, 1, 1};\n"
                            "    const uint64_t given = 0;\n"
                            "    const char *error = yk_sim_launch(yk_sim_find(arguments[1]),\n"
                            "                                      grid, &given, 8, 1);\n"
                            "    puts(error ? error : \"no error\");\n"
                            "}\n");
    if (run("\"$S/tests/cuda/ptx/translate\" kernels.ptx kernels.cc && "
            "g++ -std=c++17 -w -fwrapv -I\"$S/tests/cuda/ptx\" -I\"$S/tests/cuda\" "
            "-I\"$S/modules/cuda\" -I\"$S/modules/cuda/kernels\" -I\"$S/src\" -I\"$S/include\" "
            "launch.cc kernels.cc \"$S/tests/cuda/cudasim.cc\" -o launch") != 0)
        fail_msg("%s", output);
    launch("right", "no error\n");
    launch("outside", "kernels.ptx:12: thread ");
    assert_contains(output, " of block (0, 0, 0): an address outside of shared memory\n");
    launch("misaligned", "kernels.ptx:19: thread ");
    assert_contains(output, " of block (0, 0, 0): a misaligned address\n");
}

/* The program on data of any size and number of classes, and on parts of it. */
#define _GNU_SOURCE
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char output[16384];

/* Runs `yoke WORDS` in the test's folder and expects the exit code. */
static void yoke(int code, const char *words)
{
    const char *program = getenv("YOKE_PROGRAM");
    if (!program || access(program, X_OK) != 0)
        skip_because("the program is not built");
    int ended = yk_test_command(output, sizeof output, "cd %s && %s %s", yk_test_directory(),
                                program, words);
    if (ended != code)
        print_message("%s\n", output);
    assert_int_equal(ended, code);
}

YK_TEST(trains_on_images_of_any_size_and_evaluates_them)
{
    yoke(0, "train --data random:1x28x20,3 --arch mlp --threads 1 --max-steps 2 --output run");
    assert_contains(output, "Training mlp on random: 5000 images, 1000 for validation");
    yoke(0, "evaluate run");
    assert_contains(output, "mlp on random: loss ");
    assert_contains(output, "of 1000)");
}

YK_TEST(a_validation_split_is_held_out_of_training_and_evaluated_again)
{
    yoke(0, "train --data synthetic --val-split 0.3 --arch mlp --threads 1 --max-steps 2 "
            "--output run");
    assert_contains(output, "3500 images, 1500 for validation");
    yoke(0, "evaluate run");
    assert_contains(output, "of 1500)");
    yoke(2, "train --val-split 1 --data synthetic");
    assert_contains(output, "--val-split 1");
}

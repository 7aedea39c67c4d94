/* Runs the program on a line of words, in the test's folder. */
#ifndef YK_TEST_YOKE_LINE_H
#define YK_TEST_YOKE_LINE_H

#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char output[16384]; /* of the last line */

/* Runs `yoke WORDS` and expects the exit code. */
static inline void yoke(int code, const char *words)
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

#endif

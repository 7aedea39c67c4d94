/* Runs the program on a line of words, in the test's folder. */
#ifndef YK_TEST_YOKE_LINE_H
#define YK_TEST_YOKE_LINE_H

#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char output[1 << 20]; /* of the last line */

/* Runs `yoke WORDS`; returns its exit code. */
static inline int yoke(const char *words)
{
    const char *program = getenv("YOKE_PROGRAM");
    if (!program || access(program, X_OK) != 0)
        skip_because("the program is not built");
    return yk_test_command(output, sizeof output, "cd %s && %s %s", yk_test_directory(), program,
                           words);
}

/* The same, and expects the exit code. */
static inline void yoke_ends(int code, const char *words)
{
    int ended = yoke(words);
    if (ended != code)
        print_message("%s\n", output);
    assert_int_equal(ended, code);
}

#endif

/* What is said when a start takes long, and what is not said when it does not. */
#define _GNU_SOURCE
#include "cli_output.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train/startup.h"

YK_TEST(a_slow_start_says_what_it_is_doing_once)
{
    cli_startup *startup;
    output_capture capture = output_capture_begin(STDERR_FILENO);
    cli_startup_begin(&startup, "looking around");
    cli_startup_next(startup, "waiting for the other ranks");
    sleep(5);
    cli_startup_end(&startup);
    assert_null(startup);
    assert_string_equal(output_capture_end(&capture), "yoke: still waiting for the other ranks\n");
}

YK_TEST(a_quick_start_says_nothing)
{
    cli_startup *startup;
    output_capture capture = output_capture_begin(STDERR_FILENO);
    cli_startup_begin(&startup, "looking around");
    cli_startup_end(&startup);
    cli_startup_end(&startup);
    assert_string_equal(output_capture_end(&capture), "");
}

/* A job of many ranks says it once. */
YK_TEST(other_ranks_say_nothing)
{
    cli_startup *startup = (cli_startup *)1;
    setenv("RANK", "1", 1);
    setenv("WORLD_SIZE", "2", 1);
    cli_startup_begin(&startup, "looking around");
    assert_null(startup);
    cli_startup_next(startup, "anything");
}

/* --quiet leaves standard output empty, --json fills it with records alone. */
YK_TEST(quiet_and_json_keep_standard_output)
{
    char output[16384];
    const char *train = "%s train --data synthetic --arch mlp --max-steps 2 --output %s/%s %s "
                        "2>/dev/null";
    assert_int_equal(yk_test_command(output, sizeof output, train, getenv("YOKE_PROGRAM"),
                                     yk_test_directory(), "a", "--quiet"),
                     0);
    assert_string_equal(output, "");
    assert_int_equal(yk_test_command(output, sizeof output, train, getenv("YOKE_PROGRAM"),
                                     yk_test_directory(), "b", "--json"),
                     0);
    assert_int_equal(strncmp(output, "{\"type\": \"header\"", 17), 0);
    int records = 0;
    for (const char *line = output; *line; line = strchr(line, '\n') + 1, records++)
        assert_int_equal(line[0], '{');
    assert_int_equal(records, 4); /* a header, two steps and the evaluation */
}

/* What libgomp has read before main() of a command that computes. The loop ends with the run. */
static void assert_spinning(const char *environment, const char *expected)
{
    char output[4096];
    const char *command = "env %s %s train --data synthetic --arch mlp --epochs 1000000 --output "
                          "%s/spin >/dev/null 2>&1 & P=$!; "
                          "until ls %s/spin/*.jsonl >/dev/null 2>&1; do sleep 0.05; kill -0 $P || "
                          "exit 1; done; tr '\\0' '\\n' < /proc/$P/environ | grep "
                          "GOMP_SPINCOUNT; kill -9 $P; rm -r %s/spin";
    const char *folder = yk_test_directory();
    assert_int_equal(yk_test_command(output, sizeof output, command, environment,
                                     getenv("YOKE_PROGRAM"), folder, folder, folder),
                     0);
    assert_string_equal(output, expected);
}

YK_TEST(threads_of_the_program_do_not_spin_for_long)
{
    assert_spinning("-u OMP_WAIT_POLICY -u GOMP_SPINCOUNT", "GOMP_SPINCOUNT=10000\n");
    assert_spinning("-u OMP_WAIT_POLICY GOMP_SPINCOUNT=7", "GOMP_SPINCOUNT=7\n");
    assert_spinning("-u GOMP_SPINCOUNT OMP_WAIT_POLICY=passive", "");
}

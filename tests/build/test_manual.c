/*
 * The manual pages and the completions that the build generates: every page is well formed, knows
 * every option of its command, and bash completes from the same table.
 */
#include <stdlib.h>

#include "harness.h"

static char output[65536];

/* Runs a shell script with MANUAL, the generated folder, and PROGRAM set; it must succeed. */
static void run(const char *script)
{
    int code = yk_test_command(output, sizeof output, "set -e; MANUAL='%s/manual' PROGRAM='%s'; %s",
                               getenv("YOKE_BUILD"), getenv("YOKE_PROGRAM"), script);
    if (code != 0)
        fail_msg("exit code %d: %s", code, output);
}

YK_TEST(every_command_has_a_manual_page)
{
    run("$PROGRAM --help=options | cut -f 1 | while read command; do"
        "  test -s \"$MANUAL/man/yoke-$command.1\";"
        "  grep -q \"yoke.-$command (1)\" \"$MANUAL/man/yoke.1\";"
        "done");
}

YK_TEST(manual_pages_list_every_option)
{
    run("for command in train evaluate run bench data; do"
        "  $PROGRAM $command --help=options | sed 1d | cut -f 2 | sed 's/-/\\\\-/g' |"
        "  while read -r option; do"
        "    grep -qF -- \"\\\\-\\\\-$option\" \"$MANUAL/man/yoke-$command.1\" ||"
        "      { echo \"$command --$option\"; exit 1; };"
        "  done;"
        "done");
}

YK_TEST(manual_pages_are_well_formed)
{
    if (yk_test_command(output, sizeof output, "command -v man") != 0)
        skip_because("man is not installed");
    run("for page in \"$MANUAL\"/man/*.1; do"
        "  warnings=$(MANWIDTH=80 man -l --warnings \"$page\" 2>&1 >/dev/null);"
        "  test -z \"$warnings\" || { echo \"$page: $warnings\"; exit 1; };"
        "done");
}

/* A name that is hyphenated cannot be copied. */
YK_TEST(manual_pages_hyphenate_nothing)
{
    if (yk_test_command(output, sizeof output, "command -v man") != 0)
        skip_because("man is not installed");
    run("for page in \"$MANUAL\"/man/*.1; do"
        "  if LC_ALL=C.UTF-8 MANWIDTH=80 man -l \"$page\" | grep -E '(‐|[a-z]-)$'; then"
        "    echo \"$page\"; exit 1;"
        "  fi;"
        "done");
}

/* Variables that the sources read and the documentation names; but for those that a launcher sets
 * or that are for tests. */
YK_TEST(the_manual_lists_the_variables_of_the_documentation)
{
    run("cd \"$YOKE_SOURCE\"; grep -rhoE '\"YOKE_[A-Z0-9_]+\"' src cli modules | tr -d '\"' | sort "
        "-u |"
        "while read -r name; do"
        "  case $name in YOKE_SIM_SEED | YOKE_STORE_PORT | YOKE_USE_LAUNCHER_STORE | YOKE_TEST_*)"
        "    continue ;; esac;"
        "  grep -qw $name docs/*.md || continue;"
        "  grep -q \"$name[^A-Z0-9_]\" \"$MANUAL/man/yoke.1\" || { echo \"$name\"; exit 1; };"
        "done");
}

/* What bash offers for a command line whose last word is being typed. */
static void expect_completion(const char *words, const char *expected)
{
    int code =
        yk_test_command(output, sizeof output,
                        "bash -c '. \"%s/manual/completions/yoke.bash\"; COMP_WORDS=(%s);"
                        " COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); cd /var/empty 2>/dev/null ||"
                        " cd /; _yoke; echo \"${COMPREPLY[@]}\"'",
                        getenv("YOKE_BUILD"), words);
    assert_int_equal(code, 0);
    assert_contains(output, expected);
}

YK_TEST(bash_completes_commands_options_and_values)
{
    if (yk_test_command(output, sizeof output, "command -v bash") != 0)
        skip_because("bash is not installed");
    expect_completion("yoke tr", "train\n");
    expect_completion("yoke hel", "help\n");
    expect_completion("yoke help tr", "train\n");
    expect_completion("yoke help bench \"\"", "scaling\n");
    expect_completion("yoke help train \"\"", "\n");
    expect_completion("yoke train --batch", "--batch-size\n");
    expect_completion("yoke train --amp \"\"", "off bf16 fp16\n");
    expect_completion("yoke data pre", "preview\n");
    expect_completion("yoke bench scaling --svg", "--svg\n");
    expect_completion("yoke checkpoint sh", "show\n");
    expect_completion("yoke sweep --weight", "--weight-decay\n");
    expect_completion("yoke sweep --amp \"\"", "off bf16 fp16\n");
    expect_completion("yoke train --amp = b", "bf16\n"); /* as bash divides --amp=b */
}

YK_TEST(an_unknown_format_of_help_is_refused)
{
    int code = yk_test_command(output, sizeof output, "'%s' train --help=pdf 2>&1",
                               getenv("YOKE_PROGRAM"));
    assert_int_equal(code, 2);
    assert_contains(output, "expected text, man or options");
}

/*
 * The manual pages and the completions that the build generates: every page is well formed, knows
 * every option of its command, and bash, zsh and fish complete from the same table.
 */
#include <stdlib.h>
#include <string.h>

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
        "  case $name in YOKE_JOB_ID | YOKE_SIM_SEED | YOKE_STORE_PORT | YOKE_USE_LAUNCHER_STORE |"
        "    YOKE_TEST_*)"
        "    continue ;; esac;"
        "  grep -qw $name docs/*.md || continue;"
        "  grep -q \"$name[^A-Z0-9_]\" \"$MANUAL/man/yoke.1\" || { echo \"$name\"; exit 1; };"
        "done");
}

static bool lacks(const char *program)
{
    return yk_test_command(output, sizeof output, "command -v %s", program) != 0;
}

/* What bash offers for a command line whose last word is being typed. */
static void expect_of_bash(const char *words, const char *expected)
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
    if (lacks("bash"))
        skip_because("bash is not installed");
    expect_of_bash("yoke tr", "train\n");
    expect_of_bash("yoke hel", "help\n");
    expect_of_bash("yoke help tr", "train\n");
    expect_of_bash("yoke help bench \"\"", "scaling\n");
    expect_of_bash("yoke help train \"\"", "\n");
    expect_of_bash("yoke train --batch", "--batch-size\n");
    expect_of_bash("yoke train --amp \"\"", "off bf16 fp16\n");
    expect_of_bash("yoke data pre", "preview\n");
    expect_of_bash("yoke bench scaling --svg", "--svg\n");
    expect_of_bash("yoke checkpoint sh", "show\n");
    expect_of_bash("yoke sweep --weight", "--weight-decay\n");
    expect_of_bash("yoke sweep --amp \"\"", "off bf16 fp16\n");
    expect_of_bash("yoke train --amp = b", "bf16\n"); /* as bash divides --amp=b */
}

/* The words that a shell offers at the end of a line, sorted, without their descriptions. The
 * command runs in an empty folder and gets COMPLETIONS and LINE. */
static void expect_offer(const char *command, const char *line, const char *expected)
{
    int code = yk_test_command(output, sizeof output,
                               "mkdir -p '%s/empty' && cd '%s/empty' && export HOME=$PWD "
                               "COMPLETIONS='%s/manual/completions' LINE='%s' LC_ALL=C.UTF-8 && "
                               "offered=$(%s) && echo $(echo \"$offered\" | cut -f 1 | sort -u)",
                               yk_test_directory(), yk_test_directory(), getenv("YOKE_BUILD"), line,
                               command);
    output[strcspn(output, "\n")] = '\0';
    if (code != 0 || strcmp(output, expected) != 0)
        fail_msg("\"%s\": exit code %d, offered \"%s\", expected \"%s\"", line, code, output,
                 expected);
}

static void expect_offers(const char *command)
{
    static const char *const lines[][2] = {
        {"yoke tr", "train"},
        {"yoke hel", "help"},
        {"yoke --ver", "--version"},
        {"yoke help tr", "train"},
        {"yoke help bench ", "scaling"},
        {"yoke help train ", ""},
        {"yoke train --batch", "--batch-size"},
        {"yoke train --amp ", "bf16 fp16 off"},
        {"yoke data pre", "preview"},
        {"yoke data train --batch", ""},
        {"yoke bench --nproc", "--nproc"},
        {"yoke bench ", "all-reduce scaling step"},
        {"yoke bench scaling --svg", "--svg"},
        {"yoke bench step --svg", ""},
        {"yoke checkpoint sh", "show"},
        {"yoke sweep --weight", "--weight-decay"},
        {"yoke sweep --amp ", "bf16 fp16 off"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        expect_offer(command, lines[i][0], lines[i][1]);
}

YK_TEST(zsh_completes_commands_options_and_values)
{
    static const char *const command =
        "zsh -f \"$YOKE_SOURCE/tests/build/complete.zsh\" \"$COMPLETIONS\" \"$LINE\"";
    if (lacks("zsh"))
        skip_because("zsh is not installed");
    run("zsh -n \"$MANUAL/completions/_yoke\"");
    expect_offers(command);
    expect_offer(command, "yoke train --amp=b", "bf16");
}

YK_TEST(fish_completes_commands_options_and_values)
{
    static const char *const command =
        "fish -c 'source $COMPLETIONS/yoke.fish; complete -C \"$LINE\"'";
    if (lacks("fish"))
        skip_because("fish is not installed");
    run("fish -n \"$MANUAL/completions/yoke.fish\"");
    expect_offers(command);
    expect_offer(command, "yoke train --amp=b", "--amp=bf16");
}

YK_TEST(an_unknown_format_of_help_is_refused)
{
    int code = yk_test_command(output, sizeof output, "'%s' train --help=pdf 2>&1",
                               getenv("YOKE_PROGRAM"));
    assert_int_equal(code, 2);
    assert_contains(output, "expected text, man or options");
}

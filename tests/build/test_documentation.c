/* The README's program compiles and trains, the pages' links lead somewhere, the tables are
 * current. */
#include <stdlib.h>

#include "harness.h"

static char output[65536];

/* Runs a shell script with SOURCE, BUILD and WORK set; it must succeed. */
static void run(const char *script)
{
    int code =
        yk_test_command(output, sizeof output, "set -e; SOURCE='%s' BUILD='%s' WORK='%s'; %s",
                        getenv("YOKE_SOURCE"), getenv("YOKE_BUILD"), yk_test_directory(), script);
    if (code != 0)
        fail_msg("exit code %d: %s", code, output);
}

YK_TEST(the_program_of_the_readme_trains_on_two_ranks)
{
    run("cd \"$WORK\" && awk '/^```c$/ {on = 1; next} /^```$/ {on = 0} on' \"$SOURCE/README.md\" > "
        "program.c &&"
        " test -s program.c &&"
        " ${CC:-cc} -std=c11 -Wall -Wextra -Wpedantic -Werror -I\"$SOURCE/include\" program.c -o "
        "program"
        " -L\"$BUILD\" -lyoke -Wl,-rpath,\"$BUILD\" &&"
        " \"$BUILD/yoke\" run --nproc-per-node 2 -- ./program");
    assert_contains(output, "rank 0: loss ");
    assert_contains(output, "rank 1: loss ");
}

/* Every link of the pages in this folder leads to a file, and its fragment to a heading there, as
 * GitHub names headings. Doxygen does not resolve links within a page, so there are none. */
static const char check_links[] =
    "headings() {"
    "  awk '/^```/ {code = !code}"
    "       !code && /^#+ / {sub(/^#+ +/, \"\"); $0 = tolower($0);"
    "                        gsub(/[^a-z0-9 _-]/, \"\"); gsub(/ /, \"-\"); n = seen[$0]++;"
    "                        print n ? $0 \"-\" n : $0}' \"$1\"; };"
    "for page in *.md docs/*.md; do"
    "  grep -oE '\\]\\([^) ]+\\)' \"$page\" | sed 's/^](//; s/)$//' |"
    "  while read -r link; do"
    "    wrong() { echo \"$page: $link: $1\"; exit 1; };"
    "    case $link in http*) continue;; \\#*) wrong 'within a page';; esac;"
    "    target=$(dirname \"$page\")/${link%%#*};"
    "    test -e \"$target\" || wrong 'no such file';"
    "    case $link in *.md\\#*)"
    "      headings \"$target\" | grep -qxF -e \"${link#*#}\" || wrong 'no such heading';; esac;"
    "  done;"
    "done";

YK_TEST(links_between_pages_lead_somewhere)
{
    char script[4096];
    snprintf(script, sizeof script, "cd \"$SOURCE\"; %s", check_links);
    run(script);
}

/* The check finds what it is for. */
YK_TEST(links_that_lead_nowhere_are_found)
{
    static const char *const links[][2] = {
        {"two.md", NULL},
        {"two.md#a-heading-with-code-and-1_0", NULL},
        {"two.md#twice-1", NULL},
        {"three.md", "no such file"},
        {"two.md#twice-2", "no such heading"},
        {"two.md#no-heading", "no such heading"},
        {"#one", "within a page"},
    };
    char script[4096];
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        snprintf(script, sizeof script,
                 "cd '%s'; mkdir -p docs; echo '# One, see [two](%s).' | tee docs/one.md > one.md;"
                 " printf '%%s\\n' '# Two' '## A heading, with `code` and 1_0' '```' '# no heading'"
                 " '```' '## Twice' '## Twice' | tee docs/two.md > two.md; %s",
                 yk_test_directory(), links[i][0], check_links);
        int code = yk_test_command(output, sizeof output, "set -e; %s", script);
        assert_int_equal(code != 0, links[i][1] != NULL);
        if (links[i][1])
            assert_contains(output, links[i][1]);
    }
}

YK_TEST(the_tables_of_benchmarks_are_made_from_the_raw_results)
{
    if (yk_test_command(output, sizeof output, "command -v python3") != 0)
        skip_because("python3 is not installed");
    run("\"$SOURCE/bench/tables\" --check");
}

/* As `make docs` does, where an undocumented symbol is an error. */
YK_TEST(every_public_symbol_is_documented)
{
    if (yk_test_command(output, sizeof output, "command -v doxygen") != 0)
        skip_because("doxygen is not installed");
    run("cd \"$SOURCE\" && { cat docs/site/Doxyfile; echo \"OUTPUT_DIRECTORY = $WORK\"; } |"
        " doxygen -");
}

/* The README's program compiles and trains, the pages' links lead somewhere, the tables are
 * current. */
#include <stdlib.h>
#include <string.h>

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

YK_TEST(links_between_pages_lead_somewhere)
{
    run("cd \"$SOURCE\" && for page in *.md docs/*.md; do"
        "  grep -oE '\\]\\([^) ]+\\)' \"$page\" | sed 's/^](//; s/)$//' |"
        "  while read -r link; do"
        "    case $link in http*|\\#*) continue;; esac;"
        "    test -e \"$(dirname \"$page\")/${link%%#*}\" || { echo \"$page: $link\"; exit 1; };"
        "  done;"
        "done");
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

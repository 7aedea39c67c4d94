/* The programs of the README and of a page compile and train, the pages' pieces of programs
 * compile, their links lead somewhere, the tables are current. */
#include <stdlib.h>
#include <unistd.h>

#include "../data/cifar_files.h"
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

/* Builds the program of a page, and runs it on two ranks in the test's folder. */
static void train_program_of(const char *page)
{
    char script[1024];
    snprintf(script, sizeof script,
             "cd \"$WORK\" && awk '/^```c$/ {on = 1; next} /^```$/ {on = 0} on' \"$SOURCE/%s\" > "
             "program.c &&"
             " test -s program.c &&"
             " ${CC:-cc} -std=c11 -Wall -Wextra -Wpedantic -Werror -I\"$SOURCE/include\" program.c "
             "-o program"
             " -L\"$BUILD\" -lyoke -Wl,-rpath,\"$BUILD\" &&"
             " \"$BUILD/yoke\" run --nproc-per-node 2 -- ./program",
             page);
    run(script);
}

YK_TEST(the_program_of_the_readme_trains_on_two_ranks)
{
    train_program_of("README.md");
    assert_contains(output, "rank 0: loss ");
    assert_contains(output, "rank 1: loss ");
}

YK_TEST(the_program_in_both_languages_trains_on_two_ranks)
{
    const char *data = yk_test_path("data");
    assert_int_equal(mkdir(data, 0755), 0);
    write_cifar(data, false, 8);
    train_program_of("docs/pytorch.md");
    assert_contains(output, "epoch 1: loss ");
    assert_contains(output, "epoch 10: loss ");
    assert_int_equal(access(yk_test_path("model.pth"), R_OK), 0);
}

/* What the pieces of programs take for granted. */
static const char given[] =
    "#include <yoke/yoke.h>\n"
    "#include <yoke/backend.h>\n"
    "enum { MAX_RANKS = 8 };\n"
    "int exchange(void *fabric, const yk_descriptor *mine, yk_descriptor *all);\n"
    "yk_status move(void *fabric, const yk_backend_call *call);\n"
    "double my_schedule(int64_t step);\n"
    "yk_group *world; yk_graph *graph; yk_value *images, *labels; yk_model *model; yk_ddp *ddp;\n"
    "yk_optimizer *optimizer; yk_grad_scaler *scaler; yk_loss_meter *meter;\n"
    "yk_dataset *dataset; yk_loader *loader; yk_loader_options loader_options;\n"
    "const yk_batch *batch; yk_tensor logits; void *pixels; int32_t *classes;\n"
    "int64_t count, step; double mean;\n";

/* A piece with a function stands by itself; statements are put into one. "..." is left out. */
static const char extract_pieces[] =
    "/^```c$/ {on = 1; text = \"#line \" FNR + 1 \" \\\"\" FILENAME \"\\\"\\n\"; own = 0; next}"
    "/^```$/ {if (on) print own ? text : \"static void piece\" ++n \"(void)\\n{\\n\" text \"}\"; "
    "on = 0}"
    "on {own = own || $0 == \"{\"; text = text ($0 == \"...\" ? \"\" : $0) \"\\n\"}";

YK_TEST(pieces_of_programs_compile)
{
    char script[4096];
    snprintf(script, sizeof script,
             "cd \"$SOURCE\"; { printf '%%s' '%s'; awk '%s' docs/*.md; } > \"$WORK/pieces.c\";"
             " grep -c '^#line' \"$WORK/pieces.c\";"
             " ${CC:-cc} -std=c11 -Wall -Wextra -Werror -Wno-unused -fsyntax-only -Iinclude"
             " \"$WORK/pieces.c\"",
             given, extract_pieces);
    run(script);
    assert_true(atoi(output) >= 12);
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

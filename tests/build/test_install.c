/*
 * What `make install` leaves is enough: from a fresh prefix, moved elsewhere, the examples build
 * with pkg-config alone and with find_package(yoke) alone, and the program runs.
 */
#include <stdlib.h>
#include <string.h>

#include "harness.h"

static char output[65536];

/* Runs a shell script with SOURCE, BUILD, PREFIX and WORK set; it must succeed. */
static void run(const char *script)
{
    int code = yk_test_command(
        output, sizeof output, "set -e; SOURCE='%s' BUILD='%s' WORK='%s'; PREFIX=$WORK/moved; %s",
        getenv("YOKE_SOURCE"), getenv("YOKE_BUILD"), yk_test_directory(), script);
    if (code != 0)
        fail_msg("exit code %d: %s", code, output);
}

static void install(void)
{
    run("cmake --install \"$BUILD\" --prefix \"$WORK/prefix\" && mv \"$WORK/prefix\" \"$PREFIX\"");
}

static void require_examples(void)
{
    if (yk_test_command(output, sizeof output, "ls '%s'/examples/*.c", getenv("YOKE_SOURCE")) != 0)
        skip_because("no examples");
}

YK_TEST(install_has_a_running_program)
{
    install();
    run("env -u LD_LIBRARY_PATH \"$PREFIX/bin/yoke\" --version | grep -x 'yoke [0-9.]*'");
    run("ls \"$PREFIX\" | sort | xargs | grep -x 'bin include lib'");
}

YK_TEST(install_serves_pkg_config)
{
    require_examples();
    install();
    run("export PKG_CONFIG_PATH=$PREFIX/lib/pkgconfig LD_LIBRARY_PATH=$PREFIX/lib;"
        "for source in \"$SOURCE\"/examples/*.c; do"
        "  ${CC:-cc} -std=c11 -Wall -Wextra -Werror \"$source\" -o \"$WORK/program\""
        "    $(pkg-config --cflags --libs yoke) -lm;"
        "done");
    run("export PKG_CONFIG_PATH=$PREFIX/lib/pkgconfig;"
        "test \"$(pkg-config --modversion yoke)\" = \"$(\"$PREFIX/bin/yoke\" --version | cut -c "
        "6-)\"");
}

YK_TEST(install_serves_find_package)
{
    require_examples();
    install();
    run("mkdir \"$WORK/consumer\" && cd \"$WORK/consumer\" && cat > CMakeLists.txt <<END\n"
        "cmake_minimum_required(VERSION 3.25)\n"
        "project(consumer C)\n"
        "find_package(yoke 0.1 REQUIRED)\n"
        "file(GLOB sources $SOURCE/examples/*.c)\n"
        "foreach(source \\${sources})\n"
        "  get_filename_component(name \\${source} NAME_WE)\n"
        "  add_executable(\\${name} \\${source})\n"
        "  target_link_libraries(\\${name} yoke::yoke m)\n"
        "endforeach()\n"
        "END\n"
        "cmake -S . -B build -DCMAKE_PREFIX_PATH=\"$PREFIX\" && cmake --build build\n");
}

/* A program against the installed tree that computes: a graph, a model, one training step. */
YK_TEST(install_makes_programs_that_run)
{
    install();
    run("cat > \"$WORK/step.c\" <<'END'\n"
        "#include <yoke/yoke.h>\n"
        "int main(void)\n"
        "{\n"
        "    yk_graph *graph = yk_graph_create();\n"
        "    yk_value *x = yk_input(graph, \"images\", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 8, "
        "8});\n"
        "    yk_value *y = yk_input(graph, \"labels\", YK_I32, 1, (int64_t[]){YK_BATCH});\n"
        "    yk_value *loss = yk_cross_entropy(yk_mlp(x, 10), y, NULL);\n"
        "    yk_model *model;\n"
        "    YK_CHECK(yk_model_create(&model, loss, NULL));\n"
        "    float images[2 * 3 * 8 * 8] = {1};\n"
        "    int32_t labels[2] = {3, 7};\n"
        "    const yk_tensor tensors[] = {{images, YK_F32, 4, {2, 3, 8, 8}}, {labels, YK_I32, 1, "
        "{2}}};\n"
        "    YK_CHECK(yk_model_forward(model, &(yk_batch){.size = 2, .count = 2, .tensors = "
        "tensors,\n"
        "        .names = (const char *const[]){\"images\", \"labels\"}}));\n"
        "    YK_CHECK(yk_model_backward(model));\n"
        "    printf(\"loss %.1f\\n\", yk_model_loss(model));\n"
        "    yk_model_destroy(model);\n"
        "    return 0;\n"
        "}\n"
        "END\n"
        "export PKG_CONFIG_PATH=$PREFIX/lib/pkgconfig LD_LIBRARY_PATH=$PREFIX/lib;"
        "${CC:-cc} -std=c11 -Wall -Wextra -Werror \"$WORK/step.c\" -o \"$WORK/step\""
        " $(pkg-config --cflags --libs yoke) && \"$WORK/step\" | grep '^loss 2'");
}

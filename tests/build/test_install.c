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

YK_TEST(install_has_a_running_program)
{
    install();
    run("env -u LD_LIBRARY_PATH \"$PREFIX/bin/yoke\" --version | grep -x 'yoke [0-9.]*'");
    run("ls \"$PREFIX\" | sort | xargs | grep -x 'bin include lib share'");
    run("test -s \"$PREFIX/share/man/man1/yoke-train.1\" && test -s "
        "\"$PREFIX/share/bash-completion/completions/yoke\"");
}

/* A step of training from an example, which has no other way to the library than the moved tree. */
#define TRAIN_A_LITTLE                                                                             \
    "cd \"$WORK\" && env LD_LIBRARY_PATH=$PREFIX/lib OMP_NUM_THREADS=1"                            \
    " ./ddp --arch mlp --epochs 1 --max-steps 2 | grep 'Validation accuracy'"

YK_TEST(install_serves_pkg_config)
{
    install();
    run("export PKG_CONFIG_PATH=$PREFIX/lib/pkgconfig;"
        "for source in \"$SOURCE\"/examples/*.c; do"
        "  ${CC:-cc} -std=c11 -Wall -Wextra -Werror \"$source\""
        "    -o \"$WORK/$(basename $source .c)\" $(pkg-config --cflags --libs yoke) -lm;"
        "done;" TRAIN_A_LITTLE);
    run("export PKG_CONFIG_PATH=$PREFIX/lib/pkgconfig;"
        "test \"yoke $(pkg-config --modversion yoke)\" = \"$(\"$PREFIX/bin/yoke\" --version)\"");
}

YK_TEST(install_serves_find_package)
{
    install();
    run("mkdir \"$WORK/consumer\" && cd \"$WORK/consumer\" && cat > CMakeLists.txt <<END\n"
        "cmake_minimum_required(VERSION 3.25)\n"
        "project(consumer C)\n"
        "set(CMAKE_RUNTIME_OUTPUT_DIRECTORY $WORK)\n"
        "find_package(yoke 0.1 REQUIRED)\n"
        "file(GLOB sources $SOURCE/examples/*.c)\n"
        "foreach(source \\${sources})\n"
        "  get_filename_component(name \\${source} NAME_WE)\n"
        "  add_executable(\\${name} \\${source})\n"
        "  target_link_libraries(\\${name} yoke::yoke m)\n"
        "endforeach()\n"
        "END\n"
        "cmake -S . -B build -DCMAKE_PREFIX_PATH=\"$PREFIX\" && cmake --build "
        "build;" TRAIN_A_LITTLE);
}

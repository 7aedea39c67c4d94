/*
 * Files that commands write where a user has said: through links, as most programs write, and with
 * names that leave no room for the suffix of a temporary file.
 */
#define _GNU_SOURCE
#include "yoke_line.h"

#include <sys/stat.h>

#include "common/files.h"

static void run(const char *line)
{
    char printed[4096];
    if (yk_test_command(printed, sizeof printed, "cd %s && %s", yk_test_directory(), line) != 0)
        fail_msg("%s: %s", line, printed);
}

static void train(void)
{
    yoke_ends(0, "train --data synthetic --arch mlp --max-steps 1 --batch-size 64 --output r");
}

/* A link "link" by way of another one to target/old, a file, and "new" to target/new, which is
 * missing. */
static void make_links(void)
{
    run("mkdir target && echo old >target/old && ln -s target/old first && ln -s first link && "
        "ln -s \"$PWD/target/new\" new");
}

YK_TEST(results_are_written_through_links)
{
    static const char *const commands[] = {"report r -o", "convert r --to pth", "export r",
                                           "data pack synthetic --split test -o"};
    static const char *const ends[] = {"", "", ".onnx", ""};
    char line[256];
    train();
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        make_links();
        if (*ends[i])
            run("mv link link.onnx && mv new new.onnx");
        snprintf(line, sizeof line, "%s link%s", commands[i], ends[i]);
        yoke_ends(0, line);
        snprintf(line, sizeof line, "%s new%s", commands[i], ends[i]);
        yoke_ends(0, line);
        run("test -L first && test -L link* && test -L new* && cmp target/old target/new && "
            "test $(stat -c %s target/old) -gt 1000 && "
            "test \"$(ls -A target | xargs)\" = 'new old' && rm -r target first link* new*");
    }
    yoke_ends(0, "convert --help");
    assert_contains(output, "symbolic link, the file that it leads to");
}

YK_TEST(pictures_are_written_through_links)
{
    make_links();
    if (yoke("data preview synthetic -o link") != 0 &&
        strstr(output, "pictures are neither read nor written"))
        skip_because("there is no libyoke-image.so");
    run("test -L link && test $(stat -c %s target/old) -gt 1000 && test \"$(ls -A target)\" = old");
}

YK_TEST(links_that_lead_nowhere_are_an_error)
{
    char target[PATH_MAX];
    train();
    run("ln -s round loop && ln -s loop round && ln -s missing/file far && "
        "ln -s loop.onnx loop.onnx");
    yoke_ends(2, "report r -o loop");
    assert_contains(output, "--output loop: cannot be written: Too many levels of symbolic links");
    yoke_ends(2, "export r loop.onnx");
    assert_contains(output, "loop.onnx: cannot be written: Too many levels of symbolic links");
    yoke_ends(2, "report r -o far");
    assert_contains(output, "--output far: cannot be written: No such file or directory");
    yoke_ends(1, "convert r /dev/stdout --to pth"); /* a pipe here */
    assert_contains(output, "yoke: /dev/stdout: is not a file\n");
    /* The kernel names a file that is gone by what its name was. */
    FILE *gone = fopen(yk_test_path("gone"), "w");
    assert_non_null(gone);
    snprintf(target, sizeof target, "/proc/self/fd/%d", fileno(gone));
    run("rm gone");
    char followed[PATH_MAX];
    assert_false(cli_follow_links(followed, target));
    fclose(gone);
}

/* A path of 2600 bytes. */
YK_TEST(tensorboard_has_the_whole_path_of_the_data)
{
    yoke_ends(0, "data pack synthetic --split test -o train.pack");
    run("long=$(printf '%0200d/' 1 2 3 4 5 6 7 8 9 10 11 12 13) && mkdir -p $long && "
        "mv train.pack $long && "
        "$YOKE_PROGRAM train --data $long --val-split 0.5 --arch mlp --max-steps 1 --tensorboard "
        "--output r --quiet && "
        "test $(grep -aoh \"$PWD/[0-9/]*\" r/events* | tail -n 1) = \"$PWD/${long%/}\"");
}

/* Names of 255 bytes, the most that there can be. */
YK_TEST(results_may_have_the_longest_names)
{
    train();
    run("name=$(printf %0250d 7) && for command in 'report r -o' 'export r' 'convert r --to pth' "
        "'data pack synthetic -o'; do end=.data; [ \"$command\" = 'export r' ] && end=.onnx; "
        "$YOKE_PROGRAM $command $name$end || exit; rm $name$end || exit; done; "
        "test \"$(ls -A)\" = r");
}

/* `yoke data`, as a user calls it. */
#define _GNU_SOURCE
#include "cifar_files.h"

#include <stdlib.h>
#include <unistd.h>

static const char *program(void)
{
    const char *path = getenv("YOKE_PROGRAM");
    if (!path || access(path, X_OK) != 0)
        skip_because("the program is not built");
    return path;
}

static void skip_without_pictures(void)
{
    if (!yk_image_formats())
        skip_because("there is no libyoke-image.so");
}

YK_TEST(info_counts_the_images_of_each_class)
{
    char output[4096];
    const char *folder = fresh_folder();
    write_cifar(folder, true, 20);
    assert_int_equal(yk_test_command(output, sizeof output, "%s data info %s", program(), folder),
                     0);
    assert_contains(output, "CIFAR-10, train: 100 images of 3x32x32 in 10 classes");
    assert_contains(output, "9  truck                10\n");
    assert_int_equal(
        yk_test_command(output, sizeof output, "%s data info --split=test synthetic", program()),
        0);
    assert_contains(output, "synthetic, test: 1000 images");
    assert_contains(output, "checkerboard");
}

YK_TEST(preview_writes_a_picture)
{
    char output[4096], path[512];
    const char *folder = fresh_folder();
    snprintf(path, sizeof path, "%s/a.png", folder);
    skip_without_pictures();
    assert_int_equal(yk_test_command(output, sizeof output,
                                     "%s data preview synthetic --split test -c 3 -o %s", program(),
                                     path),
                     0);
    assert_contains(output, path);
    assert_int_equal(access(path, R_OK), 0);
}

/* `yoke data ARGUMENTS` is refused in one line, because it would write to a file of the data. */
static void assert_keeps_data(const char *arguments)
{
    char output[4096];
    assert_int_equal(yk_test_command(output, sizeof output, "cd %s && %s data %s",
                                     yk_test_directory(), program(), arguments),
                     1);
    assert_contains(output, ": is one of the files that the data are read from");
    assert_ptr_equal(strchr(output, '\n'), output + strlen(output) - 1);
}

YK_TEST(results_do_not_replace_the_data)
{
    char output[4096];
    skip_without_pictures();
    int code = yk_test_command(
        output, sizeof output,
        "cd %s && mkdir -p set/a && %s data preview synthetic -c 1 -o set/a/1.png && cp "
        "set/a/1.png 1.png && ln -s set/a/1.png link.png && ln set/a/1.png hard.png",
        yk_test_directory(), program());
    assert_int_equal(code, 0);
    assert_keeps_data("preview set -o set/a/1.png");
    assert_keeps_data("preview set -o set/../set/a/1.png");
    assert_keeps_data("pack set -o link.png");
    assert_keeps_data("pack set -o hard.png");
    assert_int_equal(yk_test_command(output, sizeof output,
                                     "cd %s && cmp 1.png set/a/1.png && ls set/a | wc -l && "
                                     "%s data pack set -o set/a.pack",
                                     yk_test_directory(), program()),
                     0);
    assert_contains(output, "1\nset/a.pack: 1 image\n");
    code = yk_test_command(output, sizeof output,
                           "cd %s && mkdir both && cp -r set both/train && cp -r set both/val",
                           yk_test_directory());
    assert_int_equal(code, 0);
    assert_keeps_data("preview folder:both -o both/val/a/1.png");
    assert_keeps_data("pack folder:both --split val -o both/train/a/1.png");
    assert_keeps_data("pack pack:set/a.pack -o set/a.pack");
}

YK_TEST(wrong_calls_get_one_line_and_code_2)
{
    static const char *const wrong[] = {"",
                                        "frobnicate",
                                        "info --columns 3",
                                        "info --output x.png",
                                        "preview --columns 0",
                                        "preview --split both",
                                        "preview --image-size 64",
                                        "preview --format jpeg",
                                        "pack --quality 80",
                                        "pack --format jpeg --quality 0",
                                        "pack --format files --image-size 32",
                                        "download --skip-damaged",
                                        "preview --augment Flop",
                                        "info --augment cifar",
                                        "download synthetic",
                                        "info a b",
                                        "info /nowhere"};
    char output[4096];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(yk_test_command(output, sizeof output, "%s data %s", program(), wrong[i]),
                         2);
        assert_ptr_equal(strchr(output, '\n'), output + strlen(output) - 1);
    }
    assert_contains(output, "/nowhere: no such folder");
    yk_test_command(output, sizeof output, "%s data info folder:~/nowhere", program());
    assert_contains(output, "there is no ~/nowhere (shells know ~ only where a word begins: write");
    yk_test_command(output, sizeof output, "%s data --help", program());
    assert_null(strstr(output, ":~"));
}

YK_TEST(a_folder_without_images_says_what_was_looked_for)
{
    char output[4096];
    const char *folder = fresh_folder();
    assert_int_equal(yk_test_command(output, sizeof output, "%s data info %s", program(), folder),
                     1);
    assert_contains(output, folder);
    assert_contains(output, "no data that yoke knows: expected CIFAR-10");
}

/* Their names do not tell MNIST from Fashion-MNIST. */
YK_TEST(a_folder_of_idx_files_must_be_named)
{
    static const unsigned char image[17] = {0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 99};
    static const unsigned char label[9] = {0, 0, 8, 1, 0, 0, 0, 1, 5};
    char output[4096], expected[600];
    yk_test_write_file(yk_test_path("train-images-idx3-ubyte"), image, sizeof image);
    yk_test_write_file(yk_test_path("train-labels-idx1-ubyte"), label, sizeof label);
    const char *folder = yk_test_directory();
    assert_int_equal(yk_test_command(output, sizeof output, "%s data info %s", program(), folder),
                     1);
    snprintf(expected, sizeof expected, "say which, with mnist:%s or fashion-mnist:%s\n", folder,
             folder);
    assert_contains(output, expected);
}

YK_TEST(download_offline_says_how_to_go_on)
{
    char output[4096];
    assert_int_equal(yk_test_command(output, sizeof output,
                                     "XDG_CACHE_HOME=%s YOKE_CIFAR10_URL=http://127.0.0.1:%d/x "
                                     "%s data download cifar10",
                                     fresh_folder(), yk_test_free_port(), program()),
                     1);
    assert_contains(output, "--data synthetic");
}

YK_TEST(a_folder_named_cifar10_is_mentioned)
{
    char output[4096];
    const char *folder = fresh_folder();
    assert_int_equal(yk_test_command(output, sizeof output,
                                     "cd %s && mkdir cifar10 && XDG_CACHE_HOME=%s "
                                     "YOKE_CIFAR10_URL=http://127.0.0.1:%d/x %s data info cifar10",
                                     folder, folder, yk_test_free_port(), program()),
                     1);
    assert_contains(output, "to use the folder of that name, write ./cifar10\n");
}

YK_TEST(info_knows_data_by_its_kind)
{
    char output[4096];
    const char *folder = fresh_folder();
    write_cifar(folder, false, 4);
    assert_int_equal(
        yk_test_command(output, sizeof output, "%s data info cifar10:%s", program(), folder), 0);
    assert_contains(output, "CIFAR-10, train: 20 images of 3x32x32 in 10 classes");
    assert_int_equal(
        yk_test_command(output, sizeof output, "%s data info random:1x28x20,3", program()), 0);
    assert_contains(output, "random, train: 5000 images of 1x28x20 in 3 classes");
    assert_contains(output, "grey");
    assert_int_equal(yk_test_command(output, sizeof output, "%s data info random:3x", program()),
                     1);
    assert_contains(output, "random:3x: expected CxHxW or CxHxW,CLASSES");
}

/* "é" has two bytes, and "四" three bytes and two columns. */
YK_TEST(names_of_classes_line_up)
{
    char output[4096];
    const char *folder = fresh_folder(), *source = getenv("YOKE_SOURCE");
    int code = yk_test_command(
        output, sizeof output,
        "cd %s; for c in 'kreis é' 'quadrat 四角' 'a long name of a class'; do mkdir -p \"d/$c\";"
        " cp %s/tests/fuzz/corpus/png/rgb \"d/$c/1.PNG\"; done; %s data info folder:d",
        folder, source ? source : ".", program());
    if (code != 0)
        skip_because("%s", output);
    assert_contains(output, "\n   0  a long name of a class        1\n"
                            "   1  kreis é                       1\n"
                            "   2  quadrat 四角                  1\n");
}

YK_TEST(names_of_classes_are_one_line)
{
    char output[4096];
    const char *folder = fresh_folder(), *source = getenv("YOKE_SOURCE");
    int code = yk_test_command(output, sizeof output,
                               "cd %s; c=\"$(printf 'x\\n\\033[31my')\"; mkdir -p \"d/$c\";"
                               " cp %s/tests/fuzz/corpus/png/rgb \"d/$c/1.png\"; "
                               "%s data info folder:d",
                               folder, source ? source : ".", program());
    if (code != 0)
        skip_because("%s", output);
    assert_contains(output, "\n   0  x??[31my ");
}

YK_TEST(numbers_are_no_pictures)
{
    char output[4096];
    const char *folder = fresh_folder();
    int code = yk_test_command(
        output, sizeof output,
        "cd %s; for a in train_images:f4:'(2, 1, 1, 2)' train_labels:i4:'(2,)'; do IFS=: read -r "
        "name type shape <<E\n$a\nE\nprintf '\\223NUMPY\\001\\000v\\000%%-117s\\n' \"{'descr': "
        "'<$type', 'fortran_order': False, 'shape': $shape, }\" >$name.npy; head -c 16 /dev/zero "
        ">>$name.npy; done; head -c 136 train_labels.npy >l && mv l train_labels.npy;"
        "%s data info npy:.",
        folder, program());
    assert_int_equal(code, 0);
    assert_contains(output, "   0                        2\n");
    assert_null(strstr(output, "mean"));
}

YK_TEST(damaged_images_are_left_out_on_request)
{
    char output[4096];
    const char *folder = fresh_folder(), *source = getenv("YOKE_SOURCE");
    assert_int_equal(
        yk_test_command(output, sizeof output,
                        "cd %s; S=%s/tests/fuzz/corpus; mkdir -p d/a; cp $S/png/rgb "
                        "d/a/1.png; cp $S/jpeg/torn d/a/2.jpg; cp $S/png/rgb d/a/3.png",
                        folder, source ? source : "."),
        0);
    if (yk_test_command(output, sizeof output, "%s data info folder:%s/d --skip-damaged", program(),
                        folder) != 0 &&
        strstr(output, "libyoke-image"))
        skip_because("pictures cannot be decoded");
    assert_contains(output, "a/2.jpg: damaged JPEG");
    assert_contains(output, "2 images of different sizes in 1 class\n");
    assert_contains(output, "1 damaged image was left out");
    assert_int_equal(
        yk_test_command(output, sizeof output, "%s data info folder:%s/d", program(), folder), 1);
    assert_contains(output, " (use --skip-damaged to leave it out)\n");
    assert_int_equal(yk_test_command(output, sizeof output,
                                     "%s data pack folder:%s/d --skip-damaged --format jpeg "
                                     "--quality 80 --image-size 20 -o %s/x.pack",
                                     program(), folder, folder),
                     0);
    assert_contains(output, "x.pack: 2 images\n");
    for (int augmented = 0; augmented < 2; augmented++) {
        int code = yk_test_command(
            output, sizeof output, "%s data preview folder:%s/d --skip-damaged %s -o %s/p.png",
            program(), folder, augmented ? "--augment imagenet --image-size 16" : "", folder);
        if (strstr(output, "pictures are neither read nor written"))
            skip_because("there is no libyoke-image.so");
        assert_int_equal(code, 0);
        assert_contains(output, "2.jpg: damaged JPEG");
    }
    assert_int_equal(yk_test_command(output, sizeof output,
                                     "cd %s && rm d/a/2.jpg d/a/3.png && %s data pack folder:d "
                                     "--format files -o x.pack && %s data info pack:x.pack",
                                     folder, program(), program()),
                     0);
    assert_contains(output, "x.pack: 1 image\n");
    assert_contains(output, "1 image in 1 class\n");
}

/* The image that a loader puts in its place is not shown twice. */
YK_TEST(previews_show_each_image_once)
{
    char output[4096];
    const char *folder = fresh_folder(), *source = getenv("YOKE_SOURCE");
    int code = yk_test_command(
        output, sizeof output,
        "cd %s && S=%s/tests/fuzz/corpus && mkdir -p d/a && cp $S/png/rgb d/a/1.png && "
        "cp $S/jpeg/torn d/a/2.jpg && cp $S/jpeg/rgb_420 d/a/3.jpg && "
        "P='%s data preview folder:d --skip-damaged --augment none --image-size 16 -o' && "
        "$P with.png && rm d/a/2.jpg && $P without.png && cmp with.png without.png",
        folder, source ? source : ".", program());
    if (strstr(output, "libyoke-image") || strstr(output, "pictures are neither read nor written"))
        skip_because("pictures cannot be decoded or written");
    assert_int_equal(code, 0);
}

YK_TEST(a_pack_that_is_stopped_leaves_nothing)
{
    char output[4096];
    const char *folder = fresh_folder();
    int code = yk_test_command(output, sizeof output,
                               "cd %s; %s data pack random:3x512x512 -o x.pack & "
                               "while [ ! -s x.pack.tmp ]; do sleep 0.01; done; kill -TERM $!; "
                               "wait $!; echo code $?, files: $(ls)",
                               folder, program());
    assert_int_equal(code, 0);
    assert_contains(output, "code 143, files:\n");
}

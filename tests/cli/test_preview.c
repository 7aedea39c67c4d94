/* The contact sheet: a PNG that appears whole, or an error that names the file. */
#define _GNU_SOURCE
#include "cli_output.h"

#include <sys/stat.h>
#include <unistd.h>

#include "common/font.h"
#include "data/preview.h"

static yk_dataset *drawn_images(void)
{
    yk_dataset *dataset;
    if (!yk_image_formats())
        skip_because("there is no libyoke-image.so");
    assert_ok(yk_synthetic_create(
        &dataset, YK_SPLIT_TEST,
        YK_WITH(yk_synthetic_options, YK_SYNTHETIC_OPTIONS_INIT, o.count = 25)));
    return dataset;
}

YK_TEST(preview_is_a_png)
{
    char path[256];
    yk_dataset *dataset = drawn_images();
    snprintf(path, sizeof path, "%s/sheet.png", yk_test_directory());
    assert_true(cli_preview_write(dataset, path, 4, NULL, false));
    unsigned char head[24];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(head, 1, sizeof head, file), sizeof head);
    fclose(file);
    assert_memory_equal(head, "\x89PNG\r\n\x1a\n", 8);
    assert_int_equal(head[22] << 8 | head[23], 10 * 70 - 6 + 2 * 14); /* the height: ten rows */
    yk_dataset_destroy(dataset);
}

/* The height of the sheet of so many classes of images of this size. */
static int sheet_height(int64_t classes, int64_t height, int64_t width)
{
    char path[256];
    unsigned char head[24];
    yk_dataset *dataset;
    snprintf(path, sizeof path, "%s/any.png", yk_test_directory());
    assert_ok(yk_random_create(&dataset, YK_SPLIT_TEST,
                               YK_WITH(yk_random_options, YK_RANDOM_OPTIONS_INIT, o.count = 9,
                                       o.channels = 1, o.height = height, o.width = width,
                                       o.classes = classes)));
    assert_true(cli_preview_write(dataset, path, 3, NULL, false));
    yk_dataset_destroy(dataset);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(head, 1, sizeof head, file), sizeof head);
    fclose(file);
    return head[22] << 8 | head[23];
}

YK_TEST(preview_shows_images_of_any_size)
{
    yk_dataset_destroy(drawn_images()); /* skips where pictures cannot be written */
    assert_int_equal(sheet_height(2, 28, 20), 2 * (56 + 6) - 6 + 2 * 14); /* twice their size */
    assert_int_equal(sheet_height(2, 1, 1), 2 * (64 + 6) - 6 + 2 * 14);
    assert_int_equal(sheet_height(2, 300, 700), 2 * (128 + 6) - 6 + 2 * 14); /* smaller */
}

/* As many as ImageNet has: a PNG has at most 65500 rows. */
YK_TEST(preview_shows_a_thousand_classes)
{
    yk_dataset_destroy(drawn_images());
    assert_int_equal(sheet_height(1000, 300, 700), 1000 * (59 + 6) - 6 + 2 * 14);
    assert_int_equal(sheet_height(1000, 20, 32), 1000 * (32 + 6) - 6 + 2 * 14);
    assert_int_equal(sheet_height(1000, 60, 64), 1000 * (59 + 6) - 6 + 2 * 14);
}

/* Whether a list of transforms makes the same sheet as none. */
static bool same_sheet(const yk_dataset *dataset, const char *transforms)
{
    char plain[256], transformed[256], output[64];
    snprintf(plain, sizeof plain, "%s/plain.png", yk_test_directory());
    snprintf(transformed, sizeof transformed, "%s/transformed.png", yk_test_directory());
    assert_true(cli_preview_write(dataset, plain, 3, NULL, false));
    assert_true(cli_preview_write(dataset, transformed, 3, transforms, false));
    return yk_test_command(output, sizeof output, "cmp -s %s %s", plain, transformed) == 0;
}

YK_TEST(preview_shows_images_transformed_but_in_their_own_colours)
{
    yk_dataset *dataset = drawn_images();
    assert_true(same_sheet(dataset, "CenterCrop(32)"));
    assert_true(same_sheet(dataset, "CenterCrop(32),Normalize(cifar10),MixUp(1),CutMix(1)"));
    assert_false(same_sheet(dataset, "RandomHorizontalFlip"));
    assert_false(same_sheet(dataset, "Grayscale(1),Normalize(0.5,0.5)"));
    assert_false(same_sheet(dataset, "RandomResizedCrop(64)"));
    yk_dataset_destroy(dataset);
}

static int count_dots(char character)
{
    int dots = 0;
    for (int y = 0; y < CLI_FONT_HEIGHT; y++)
        for (int x = 0; x < CLI_FONT_WIDTH; x++)
            dots += cli_font_dot(character, x, y);
    return dots;
}

YK_TEST(names_of_folders_can_be_read)
{
    for (const char *at = "abcxyzABCXYZ0123456789-_"; *at; at++)
        assert_true(count_dots(*at) > 2);
    assert_int_equal(count_dots('G'), count_dots('g'));
    assert_int_equal(count_dots(' '), 0);
    for (const char *at = "b\303\244r.\346\227\245"; *at; at++) /* one box for each other one */
        assert_true(!cli_font_begins(*at) || count_dots(*at) > 2);
}

/* In the place of `path` is something that a picture must not replace. */
static void refused(const yk_dataset *dataset, const char *path, const char *words)
{
    output_capture capture = output_capture_begin(STDERR_FILENO);
    bool written = cli_preview_write(dataset, path, 4, NULL, false);
    const char *text = output_capture_end(&capture);
    assert_false(written);
    assert_contains(text, words);
}

YK_TEST(preview_replaces_regular_files_only)
{
    char path[256], target[256], output[512];
    yk_dataset *dataset = drawn_images();
    refused(dataset, "/nowhere/at/all.png", "/nowhere/at/all.png: cannot create: No such file");
    snprintf(path, sizeof path, "%s/pipe.png", yk_test_directory());
    assert_int_equal(mkfifo(path, 0600), 0);
    refused(dataset, path, "pipe.png: is not a file");
    /* A link that somebody has planted beside the file is not followed. */
    snprintf(path, sizeof path, "%s/sheet.png.tmp", yk_test_directory());
    snprintf(target, sizeof target, "%s/precious", yk_test_directory());
    assert_int_equal(yk_test_command(output, sizeof output, "echo kept > %s", target), 0);
    assert_int_equal(symlink(target, path), 0);
    snprintf(path, sizeof path, "%s/sheet.png", yk_test_directory());
    assert_true(cli_preview_write(dataset, path, 4, NULL, false));
    yk_test_command(output, sizeof output, "cat %s; ls %s", target, yk_test_directory());
    assert_string_equal(output, "kept\npipe.png\nprecious\nsheet.png\nsheet.png.tmp\n");
    yk_dataset_destroy(dataset);
}

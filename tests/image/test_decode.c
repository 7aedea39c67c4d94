/* Decoding pictures: parts of them, reduced sizes, damaged and unknown files. Their pixels are
 * compared with Pillow's in tests/parity. */
#define _GNU_SOURCE
#include "harness.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "image/decode.h"

enum { MOST_BYTES = 1 << 16, PATH = 512 };

typedef struct file {
    char path[PATH];
    uint8_t bytes[MOST_BYTES];
    size_t size;
} file;

static yki_decoder *make_decoder(void)
{
    yki_decoder *decoder;
    if (yki_decoder_create(&decoder) != YK_OK)
        skip_because("%s", yk_last_error());
    return decoder;
}

static void read_file(file *f)
{
    FILE *opened = fopen(f->path, "rb");
    assert_non_null(opened);
    f->size = fread(f->bytes, 1, MOST_BYTES, opened);
    fclose(opened);
}

static const char *corpus(void)
{
    static char folder[PATH];
    const char *source = getenv("YOKE_SOURCE");
    snprintf(folder, sizeof folder, "%s/tests/fuzz/corpus", source ? source : ".");
    return folder;
}

/* Calls check for each picture of the fuzz targets' seeds. */
static void for_each_picture(yki_decoder *decoder, void (*check)(yki_decoder *, file *))
{
    static const char *const formats[] = {"jpeg", "png", "webp"};
    static file f;
    for (int i = 0; i < 3; i++) {
        char folder[PATH];
        snprintf(folder, sizeof folder, "%s/%s", corpus(), formats[i]);
        DIR *entries = opendir(folder);
        assert_non_null(entries);
        for (const struct dirent *entry; (entry = readdir(entries));) {
            if (entry->d_name[0] == '.')
                continue;
            snprintf(f.path, PATH, "%s/%s", folder, entry->d_name);
            read_file(&f);
            check(decoder, &f);
        }
        closedir(entries);
    }
}

/* Decodes a region at 1 / reduction; false if the file is refused. */
static bool decode(yki_decoder *decoder, const file *f, const yki_box *region, int reduction,
                   yki_picture *picture, yki_scale *scale)
{
    yki_picture_size size;
    if (yki_decode_open(decoder, f->bytes, f->size, &size) != YK_OK)
        return false;
    int width = region ? region->width : size.width, height = region ? region->height : size.height;
    return yki_decode_read(decoder, region, width / reduction, height / reduction, picture,
                           scale) == YK_OK;
}

static void assert_same_pixels(const yki_picture *a, const yki_picture *b, const char *path,
                               const yki_box *box)
{
    assert_int_equal(a->width, b->width);
    assert_int_equal(a->height, b->height);
    for (int y = 0; y < a->height; y++)
        if (memcmp(yki_picture_row(a, y), yki_picture_row(b, y), 3 * (size_t)a->width) != 0)
            fail_msg("%s: row %d of the region %d,%d %dx%d differs", path, y, box->left, box->top,
                     box->width, box->height);
}

/* ---- parts and sizes ------------------------------------------------------------------------- */

static yki_picture copy_of(const yki_picture *picture)
{
    yki_picture copy = {0};
    assert_ok(yki_picture_reserve(&copy, picture->width, picture->height, 3));
    for (int y = 0; y < copy.height; y++)
        memcpy(yki_picture_row(&copy, y), yki_picture_row(picture, y), 3 * (size_t)copy.width);
    return copy;
}

static void compare_parts(yki_decoder *decoder, file *f)
{
    yki_picture whole, part;
    yki_scale scale;
    if (!decode(decoder, f, NULL, 1, &whole, &scale))
        return;
    yki_picture copy = copy_of(&whole);
    for (int i = 0; i < 60; i++) {
        yki_box box = {i * 7 % copy.width, i * 5 % copy.height, 0, 0};
        box.width = 1 + i * 11 % (copy.width - box.left);
        box.height = 1 + i * 13 % (copy.height - box.top);
        assert_true(decode(decoder, f, &box, 1, &part, &scale));
        yki_picture expected = yki_picture_part(&copy, box);
        assert_same_pixels(&expected, &part, f->path, &box);
        assert_true(scale.reduction == 1 && scale.left == 0 && scale.top == 0 &&
                    scale.width == box.width && scale.height == box.height);
    }
    yki_picture_free(&copy);
}

YK_TEST(a_part_has_the_pixels_of_the_whole)
{
    yki_decoder *decoder = make_decoder();
    for_each_picture(decoder, compare_parts);
    yki_decoder_destroy(decoder);
}

static void compare_reduced_parts(yki_decoder *decoder, file *f)
{
    yki_picture whole, part;
    yki_scale scale;
    if (!strstr(f->path, "/jpeg/"))
        return;
    for (int reduction = 2; reduction <= 8; reduction *= 2) {
        if (!decode(decoder, f, NULL, reduction, &whole, &scale) || scale.reduction != reduction)
            continue;
        yki_picture copy = copy_of(&whole);
        for (int i = 0; i < 20; i++) {
            yki_box box = {i % copy.width, i / 2 % copy.height, 0, 0};
            box.width = copy.width - box.left, box.height = copy.height - box.top;
            yki_box full = {box.left * reduction, box.top * reduction,
                            (box.width - 1) * reduction + 1, (box.height - 1) * reduction + 1};
            assert_true(decode(decoder, f, &full, reduction, &part, &scale));
            if (scale.reduction != reduction)
                continue;
            yki_picture expected = yki_picture_part(&copy, box);
            assert_same_pixels(&expected, &part, f->path, &box);
        }
        yki_picture_free(&copy);
    }
}

YK_TEST(a_reduced_part_has_the_pixels_of_the_reduced_whole)
{
    yki_decoder *decoder = make_decoder();
    for_each_picture(decoder, compare_reduced_parts);
    yki_decoder_destroy(decoder);
}

YK_TEST(a_reduced_picture_is_as_large_as_needed)
{
    static file f;
    yki_picture picture;
    yki_picture_size size;
    yki_scale scale;
    yki_decoder *decoder = make_decoder();
    snprintf(f.path, PATH, "%s/jpeg/rgb_420", corpus()); /* 45 x 35 */
    read_file(&f);
    yki_box box = {9, 3, 34, 31};
    const struct {
        int needed, reduction;
    } cases[] = {{31, 1}, {16, 1}, {15, 2}, {8, 2}, {7, 4}, {4, 4}, {3, 8}, {0, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_ok(yki_decode_open(decoder, f.bytes, f.size, &size));
        assert_int_equal(size.width, 45);
        assert_int_equal(size.height, 35);
        assert_ok(
            yki_decode_read(decoder, &box, cases[i].needed, cases[i].needed, &picture, &scale));
        assert_int_equal(scale.reduction, cases[i].reduction);
        assert_true(scale.left >= 0 && scale.left + scale.width <= picture.width);
        assert_true(scale.top >= 0 && scale.top + scale.height <= picture.height);
        assert_true(scale.width == 34.0 / scale.reduction);
    }
    yki_decoder_destroy(decoder);
}

/* ---- damaged files --------------------------------------------------------------------------- */

static void assert_read_or_refused(yki_decoder *decoder, const file *f)
{
    yki_picture picture;
    yki_scale scale;
    yki_picture_size size;
    yk_status status = yki_decode_open(decoder, f->bytes, f->size, &size);
    if (status == YK_OK && (int64_t)size.width * size.height < 1 << 22)
        status = yki_decode_read(decoder, NULL, 1 << 16, 1 << 16, &picture, &scale);
    assert_true(status == YK_OK || status == YK_ERROR_FORMAT);
    if (status != YK_OK)
        assert_true(strlen(yk_last_error()) > 10 && !strchr(yk_last_error(), '\n'));
}

/* 200 of each: cut short, or with a few bytes changed. */
static void damage(yki_decoder *decoder, file *f)
{
    static file damaged;
    uint32_t random = 1;
    for (int i = 0; i < 200; i++) {
        damaged = *f;
        if (i % 4 == 0)
            damaged.size = f->size * (size_t)i / 200;
        for (int k = 0; k < i % 4; k++) {
            random = random * 1664525 + 1013904223;
            damaged.bytes[(random >> 8) % f->size] ^= (uint8_t)(1 + (random >> 25));
        }
        assert_read_or_refused(decoder, &damaged);
    }
}

YK_TEST(damaged_pictures_are_read_or_refused)
{
    yki_decoder *decoder = make_decoder();
    for_each_picture(decoder, damage);
    yki_decoder_destroy(decoder);
}

static void assert_refused(yki_decoder *decoder, const char *name, size_t size, const char *why)
{
    static file f;
    yki_picture picture;
    yki_picture_size shape;
    yki_scale scale;
    snprintf(f.path, PATH, "%s/%s", corpus(), name);
    read_file(&f);
    yk_status status = yki_decode_open(decoder, f.bytes, size ? size : f.size, &shape);
    if (status == YK_OK)
        status = yki_decode_read(decoder, NULL, shape.width, shape.height, &picture, &scale);
    assert_int_equal(status, YK_ERROR_FORMAT);
    assert_contains(yk_last_error(), why);
}

YK_TEST(a_torn_picture_is_refused)
{
    yki_decoder *decoder = make_decoder();
    assert_refused(decoder, "jpeg/torn", 0, "damaged JPEG: ");
    assert_refused(decoder, "jpeg/progressive_420", 1000, "damaged JPEG: ");
    assert_refused(decoder, "png/torn", 0, "damaged PNG: the file ends before the picture does");
    assert_refused(decoder, "webp/torn", 0, "damaged WebP: the file ends before the picture does");
    yki_decoder_destroy(decoder);
}

YK_TEST(a_picture_larger_than_its_file_allows_is_refused)
{
    yki_decoder *decoder = make_decoder();
    assert_refused(decoder, "png/bomb", 0, "a picture of 60000 x 60000 pixels");
    assert_refused(decoder, "webp/animated", 0, "an animated WebP");
    yki_decoder_destroy(decoder);
}

YK_TEST(other_formats_are_named)
{
    yki_picture_size size;
    yki_decoder *decoder = make_decoder();
    const struct {
        const char *bytes, *why;
    } cases[] = {{"GIF89a...", "a GIF; JPEG, PNG and WebP are read"},
                 {"BM6...", "a BMP"},
                 {"<html>", "an HTML page"},
                 {"abcdef", "not a picture: it begins with 61 62 63 64"},
                 {"", "empty"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_status(YK_ERROR_FORMAT, yki_decode_open(decoder, (const uint8_t *)cases[i].bytes,
                                                       strlen(cases[i].bytes), &size));
        assert_contains(yk_last_error(), cases[i].why);
    }
    yki_decoder_destroy(decoder);
}

YK_TEST(a_missing_module_names_its_packages)
{
    yki_decoder *decoder;
    unsetenv("YOKE_MODULES");
    assert_status(YK_ERROR_UNSUPPORTED, yki_decoder_create(&decoder));
    assert_null(decoder);
    assert_contains(yk_last_error(), "libyoke-image.so");
    assert_contains(yk_last_error(), "libwebp-dev");
}

/* Decoded pictures have exactly the pixels that Pillow's convert("RGB") gives. */
#define _GNU_SOURCE
#include "harness.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "image/decode.h"
#include "pytorch.h"

enum { MOST_BYTES = 1 << 20 };

static size_t read_file(uint8_t *bytes, const char *name, const char *ending)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s%s", yk_test_directory(), name, ending);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, MOST_BYTES, file);
    fclose(file);
    return size;
}

static void compare(yki_decoder *decoder, const char *name)
{
    static uint8_t bytes[MOST_BYTES], expected[MOST_BYTES];
    yki_picture_size size;
    yki_picture picture;
    yki_scale scale;
    int32_t sides[2];
    read_file(expected, name, ".rgb");
    memcpy(sides, expected, sizeof sides);
    assert_ok(yki_decode_open(decoder, bytes, read_file(bytes, name, ""), &size));
    assert_int_equal(size.width, sides[0]);
    assert_int_equal(size.height, sides[1]);
    assert_ok(yki_decode_read(decoder, NULL, size.width, size.height, &picture, &scale));
    size_t row = 3 * (size_t)size.width;
    for (int y = 0; y < size.height; y++)
        if (memcmp(yki_picture_row(&picture, y), expected + sizeof sides + (size_t)y * row, row))
            fail_msg("%s: row %d differs from Pillow's", name, y);
}

YK_TEST(pictures_are_decoded_as_in_pillow)
{
    const char *source = getenv("YOKE_SOURCE");
    yki_decoder *decoder;
    int count = 0;
    if (yki_decoder_create(&decoder) != YK_OK)
        skip_because("%s", yk_last_error());
    pytorch_judges("pictures.py", "%s/tests/fuzz/corpus %s", source ? source : ".",
                   yk_test_directory());
    DIR *entries = opendir(yk_test_directory());
    assert_non_null(entries);
    for (const struct dirent *entry; (entry = readdir(entries));) {
        if (entry->d_name[0] == '.' || strstr(entry->d_name, ".rgb"))
            continue;
        compare(decoder, entry->d_name);
        count++;
    }
    closedir(entries);
    assert_true(count > 30);
    yki_decoder_destroy(decoder);
}

/* PNG files in memory: they have the pixels that they were given. */
#include "harness.h"

#include "image/decode.h"

enum { WIDTH = 7, HEIGHT = 5 };

YK_TEST(a_png_has_its_pixels)
{
    uint8_t rgb[3 * WIDTH * HEIGHT];
    yk_png png;
    yki_decoder *decoder;
    yki_picture_size size;
    yki_picture picture;
    yki_scale scale;
    if (!yk_image_formats())
        skip_because("there is no libyoke-image.so");
    for (int i = 0; i < (int)sizeof rgb; i++)
        rgb[i] = (uint8_t)(37 * i + i * i);
    assert_ok(yk_png_encode(&png, rgb, WIDTH, HEIGHT));
    assert_int_equal(png.width, WIDTH);
    assert_int_equal(png.height, HEIGHT);
    assert_ok(yki_decoder_create(&decoder));
    assert_ok(yki_decode_open(decoder, png.bytes, png.size, &size));
    assert_ok(yki_decode_read(decoder, NULL, WIDTH, HEIGHT, &picture, &scale));
    assert_int_equal(picture.width, WIDTH);
    assert_int_equal(picture.height, HEIGHT);
    for (int y = 0; y < HEIGHT; y++)
        assert_memory_equal(yki_picture_row(&picture, y), rgb + 3 * WIDTH * y, 3 * WIDTH);
    yki_decoder_destroy(decoder);
    yk_png_free(&png);
    assert_null(png.bytes);
    yk_png_free(&png);
    yk_png_free(NULL);
}

YK_TEST(wrong_pictures_are_refused)
{
    static const uint8_t rgb[3];
    yk_png png = {.width = 1};
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_png_encode(NULL, rgb, 1, 1));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_png_encode(&png, NULL, 1, 1));
    assert_int_equal(png.width, 0);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_png_encode(&png, rgb, 0, 1));
    assert_contains(yk_last_error(), "a picture of 0 x 1 pixels, expected 1 x 1 or more");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_png_encode(&png, rgb, 1, -1));
    if (!yk_image_formats())
        skip_because("there is no libyoke-image.so");
    assert_status(YK_ERROR_UNSUPPORTED, yk_png_encode(&png, rgb, 1, 65501));
    assert_contains(yk_last_error(), "1 x 65501 pixels");
}

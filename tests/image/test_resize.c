/* Resizing: every width of vectors gives the same bits, and a window is a part of the whole. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include "image/geometry.h"
#include "image/resize.h"

static yki_picture make_picture(int width, int height, int channels)
{
    yki_picture picture = {0};
    assert_ok(yki_picture_reserve(&picture, width, height, channels));
    for (size_t i = 0; i < picture.stride * (size_t)height; i++)
        picture.pixels[i] = (uint8_t)(i * 2654435761u >> 24);
    return picture;
}

static yki_resize_job whole(const yki_picture *in, int width, int height)
{
    return (yki_resize_job){.width = in->width,
                            .height = in->height,
                            .full_width = width,
                            .full_height = height,
                            .window = {0, 0, width, height},
                            .interpolation = YK_INTERPOLATION_BILINEAR};
}

YK_TEST(vectors_give_the_bits_of_plain_code)
{
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("avx2"))
        skip_because("no AVX2 here");
    yki_resizer resizer = {0};
    yki_picture in = make_picture(131, 67, 3), out = {0};
    uint8_t plain[3 * 300 + 1], vectors[3 * 300 + 1];
    for (int width = 1; width < 300; width += 7) {
        yki_resize_job job = whole(&in, width, 1 + width / 3);
        assert_ok(yki_resize(&resizer, &in, &job, &out)); /* leaves its weights */
        yki_resize_row_generic(&resizer.x, width, 3, in.pixels, plain);
        yki_resize_row_avx2(&resizer.x, width, 3, in.pixels, vectors);
        assert_memory_equal(plain, vectors, 3 * (size_t)width);
        const uint8_t *from = yki_picture_row(&in, resizer.y.first[width / 3]);
        yki_resize_column_generic(&resizer.y, width / 3, from, in.stride, in.stride, plain);
        yki_resize_column_avx2(&resizer.y, width / 3, from, in.stride, in.stride, vectors);
        assert_memory_equal(plain, vectors, in.stride);
    }
    yki_resizer_free(&resizer);
    yki_picture_free(&in);
    yki_picture_free(&out);
#else
    skip_because("this processor is not x86");
#endif
}

YK_TEST(a_window_is_a_part_of_the_whole)
{
    yki_resizer resizer = {0};
    yki_picture in = make_picture(97, 61, 3), full = {0}, part = {0}, cut = {0};
    for (int i = 0; i < 3; i++) {
        yki_resize_job job = whole(&in, 48, 77);
        job.interpolation = (yk_interpolation)i;
        assert_ok(yki_resize(&resizer, &in, &job, &full));
        job.window = (yki_box){9, 31, 30, 40};
        assert_ok(yki_resize(&resizer, &in, &job, &part));
        assert_ok(yki_crop(&full, job.window, &cut));
        assert_int_equal(part.stride, cut.stride);
        assert_memory_equal(part.pixels, cut.pixels, part.stride * 40);
    }
    yki_resizer_free(&resizer);
    yki_picture_free(&in);
    yki_picture_free(&full);
    yki_picture_free(&part);
    yki_picture_free(&cut);
}

YK_TEST(the_same_size_changes_nothing)
{
    yki_resizer resizer = {0};
    yki_picture in = make_picture(53, 29, 3), out = {0};
    for (int i = 0; i < 3; i++) {
        yki_resize_job job = whole(&in, 53, 29);
        job.interpolation = (yk_interpolation)i;
        assert_ok(yki_resize(&resizer, &in, &job, &out));
        assert_memory_equal(in.pixels, out.pixels, in.stride * 29);
    }
    yki_resizer_free(&resizer);
    yki_picture_free(&in);
    yki_picture_free(&out);
}

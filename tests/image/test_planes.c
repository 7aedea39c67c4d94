/* Pixels and planes: both layouts of pictures; vectors give what plain code gives, for every
 * length. */
#include "harness.h"

#include <string.h>

#include "image/geometry.h"
#include "image/planes.h"

enum { MOST = 100 };

YK_TEST(pictures_of_any_channels_have_two_layouts)
{
    enum { CHANNELS = 5, HEIGHT = 3, WIDTH = 7, PLANE = HEIGHT * WIDTH };
    uint8_t planes[CHANNELS * PLANE], again[CHANNELS * PLANE];
    for (size_t i = 0; i < sizeof planes; i++)
        planes[i] = (uint8_t)(i * 37);
    for (int channels = 1; channels <= CHANNELS; channels++) {
        yki_picture picture = {0}, turned = {0};
        yki_planes source = yki_planes_of(planes, (yki_picture_size){WIDTH, HEIGHT, channels});
        assert_ok(yki_picture_interleave(&picture, &source));
        assert_ok(yki_flip(&picture, true, true, &turned));
        for (int c = 0; c < channels; c++)
            for (int p = 0; p < PLANE; p++) {
                assert_int_equal(picture.pixels[p * channels + c], planes[c * PLANE + p]);
                assert_int_equal(turned.pixels[(PLANE - 1 - p) * channels + c],
                                 planes[c * PLANE + p]);
            }
        yki_picture_to_planes(&picture, again);
        assert_memory_equal(again, planes, (size_t)channels * PLANE);
        yki_picture_free(&picture);
        yki_picture_free(&turned);
    }
}

YK_TEST(rows_are_split_and_joined)
{
    uint8_t row[3 * MOST], joined[3 * MOST + 1], memory[3][MOST + 1];
    for (size_t count = 0; count <= MOST; count++) {
        uint8_t *const planes[] = {memory[0], memory[1], memory[2]};
        for (size_t i = 0; i < 3 * count; i++)
            row[i] = (uint8_t)(i * 37 + count);
        memset(memory, 7, sizeof memory);
        memset(joined, 7, sizeof joined);
        yki_planes_split(row, count, planes);
        for (size_t c = 0; c < 3; c++) {
            for (size_t i = 0; i < count; i++)
                assert_int_equal(memory[c][i], row[3 * i + c]);
            assert_int_equal(memory[c][count], 7);
        }
        yki_planes_join((const uint8_t *const *)planes, count, joined);
        assert_memory_equal(joined, row, 3 * count);
        assert_int_equal(joined[3 * count], 7);
    }
}

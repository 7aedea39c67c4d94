/* Images of a batch as pictures: how numbers become brightness. */
#include "harness.h"

#include <math.h>

#include "common/batch_picture.h"

/* A grey image (1, 1, 1, 4), drawn into rgb (4, 3). */
static void draw(uint8_t rgb[12], const float values[4])
{
    cli_batch_range range;
    const yk_tensor images = {
        .data = (void *)(uintptr_t)values, .dtype = YK_F32, .ndim = 4, .dims = {1, 1, 1, 4}};
    assert_true(cli_batch_range_find(&range, &images));
    cli_batch_picture_draw(rgb, 4, 0, 0, &images, 0, &range);
}

YK_TEST(numbers_fill_the_range_of_brightness)
{
    static const uint8_t expected[] = {0, 0, 0, 64, 64, 64, 128, 128, 128, 255, 255, 255};
    uint8_t rgb[12];
    draw(rgb, (float[]){-1, -0.5f, 0, 1});
    assert_memory_equal(rgb, expected, sizeof rgb);
}

/* One pixel that is not finite leaves the others as they are. */
YK_TEST(numbers_that_are_not_finite_take_no_part_in_the_range)
{
    static const uint8_t expected[] = {0, 0, 0, 255, 255, 255, 255, 255, 255, 0, 0, 0};
    uint8_t rgb[12];
    draw(rgb, (float[]){-1, 1, INFINITY, NAN});
    assert_memory_equal(rgb, expected, sizeof rgb);
    draw(rgb, (float[]){NAN, NAN, -INFINITY, INFINITY});
    assert_int_equal(rgb[0], 0);
}

YK_TEST(an_image_of_one_number_is_black)
{
    uint8_t rgb[12];
    draw(rgb, (float[]){3, 3, 3, 3});
    for (int i = 0; i < 12; i++)
        assert_int_equal(rgb[i], 0);
}

/* The transforms against an independent, pixel by pixel form of them. */
#include "harness.h"

#include <math.h>
#include <string.h>

#include "data/transform.h"

enum { SIDE = 32, PIXELS = 3 * SIDE * SIDE };

static const int64_t dims[3] = {3, SIDE, SIDE};
static uint8_t scratch[2 * PIXELS];

static void make_image(uint8_t *pixels)
{
    for (int i = 0; i < PIXELS; i++)
        pixels[i] = (uint8_t)(1 + i % 251); /* never 0, which is what padding gives */
}

/* out(y, x) = in(y + top, mirrored x + left), 0 beyond. */
static double reference(const uint8_t *pixels, int c, int y, int x, int top, int left, bool flip)
{
    int from_y = y + top, from_x = (flip ? SIDE - 1 - x : x) + left;
    bool inside = from_y >= 0 && from_y < SIDE && from_x >= 0 && from_x < SIDE;
    return inside ? pixels[(c * SIDE + from_y) * SIDE + from_x] : 0;
}

static bool equals(const uint8_t *pixels, const double *out, int top, int left, bool flip)
{
    for (int c = 0; c < 3; c++)
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++)
                if (fabs(255 * out[(c * SIDE + y) * SIDE + x] -
                         reference(pixels, c, y, x, top, left, flip)) > 1e-9)
                    return false;
    return true;
}

/* Every output is one of the 9 x 9 x 2 that there can be, all of which come, about equally often.
 */
YK_TEST(crop_and_flip_draw_all_offsets_evenly)
{
    uint8_t pixels[PIXELS];
    double out[PIXELS];
    int times[9][9][2] = {0};
    enum { DRAWS = 4000 };
    make_image(pixels);
    yki_transform_plan plan;
    yk_transform transform = YK_TRANSFORM_INIT;
    transform.crop_padding = 4;
    transform.flip = true;
    assert_ok(yki_transform_prepare(&plan, &transform, dims));
    for (int draw = 0; draw < DRAWS; draw++) {
        yki_transform_apply(&plan, pixels, 1, 2, draw, scratch, YK_F64, out);
        int found = 0;
        for (int i = 0; i < 9 * 9 * 2; i++)
            if (equals(pixels, out, i / 18 - 4, i / 2 % 9 - 4, i % 2)) {
                times[i / 18][i / 2 % 9][i % 2]++;
                found++;
            }
        assert_int_equal(found, 1);
    }
    double expected = DRAWS / 162.0, chi2 = 0;
    for (int i = 0; i < 162; i++) {
        double gap = times[i / 18][i / 2 % 9][i % 2] - expected;
        chi2 += gap * gap / expected;
    }
    assert_true(chi2 < 240); /* 161 degrees of freedom: one in 20,000 lies above */
}

YK_TEST(normalises_as_torchvision_does)
{
    uint8_t pixels[PIXELS];
    float out[PIXELS];
    double precise[PIXELS];
    make_image(pixels);
    yki_transform_plan plan;
    assert_ok(yki_transform_prepare(&plan, &yk_cifar10_normalize, dims));
    yki_transform_apply(&plan, pixels, 0, 0, 0, scratch, YK_F32, out);
    yki_transform_apply(&plan, pixels, 0, 0, 0, scratch, YK_F64, precise);
    static const float mean[] = {0.4914f, 0.4822f, 0.4465f}, std[] = {0.2023f, 0.1994f, 0.2010f};
    for (int i = 0; i < PIXELS; i++) {
        float scaled = (float)pixels[i] / 255.0f, centred = scaled - mean[i / 1024];
        assert_true(out[i] == centred / std[i / 1024]);
        assert_true(fabs(precise[i] - out[i]) < 1e-6);
    }
}

YK_TEST(zero_std_means_one_and_bad_padding_is_refused)
{
    yki_transform_plan plan;
    assert_ok(yki_transform_prepare(
        &plan, YK_WITH(yk_transform, YK_TRANSFORM_INIT, o.crop_padding = 32), dims));
    assert_true(plan.f32[2][255] == 1.0f && plan.f64[0][51] == 0.2);
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yki_transform_prepare(
                      &plan, YK_WITH(yk_transform, YK_TRANSFORM_INIT, o.crop_padding = -1), dims));
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yki_transform_prepare(
                      &plan, YK_WITH(yk_transform, YK_TRANSFORM_INIT, o.crop_padding = 33), dims));
}

YK_TEST(padding_as_wide_as_the_image_stays_inside)
{
    uint8_t pixels[PIXELS];
    double out[PIXELS];
    make_image(pixels);
    yki_transform_plan plan;
    assert_ok(yki_transform_prepare(
        &plan, YK_WITH(yk_transform, YK_TRANSFORM_INIT, o.crop_padding = 32, o.flip = true), dims));
    for (int draw = 0; draw < 20000; draw++)
        yki_transform_apply(&plan, pixels, 9, 0, draw, scratch, YK_F64, out);
}

YK_TEST(promise_29_augmentation_depends_on_seed_epoch_and_index)
{
    uint8_t pixels[PIXELS];
    float first[PIXELS], again[PIXELS];
    int differ[3] = {0};
    make_image(pixels);
    yki_transform_plan plan;
    assert_ok(yki_transform_prepare(&plan, &yk_cifar10_augment, dims));
    for (int i = 0; i < 100; i++) {
        yki_transform_apply(&plan, pixels, 5, 6, i, scratch, YK_F32, first);
        yki_transform_apply(&plan, pixels, 5, 6, i, scratch, YK_F32, again);
        assert_memory_equal(first, again, sizeof first);
        yki_transform_apply(&plan, pixels, 4, 6, i, scratch, YK_F32, again);
        differ[0] += memcmp(first, again, sizeof first) != 0;
        yki_transform_apply(&plan, pixels, 5, 7, i, scratch, YK_F32, again);
        differ[1] += memcmp(first, again, sizeof first) != 0;
        yki_transform_apply(&plan, pixels, 5, 6, i + 1, scratch, YK_F32, again);
        differ[2] += memcmp(first, again, sizeof first) != 0;
    }
    for (int i = 0; i < 3; i++)
        assert_true(differ[i] > 90);
}

/* What is only noted down gives the pixels of what is done at once; the boxes that are drawn. */
#include "harness.h"

#include <math.h>
#include <string.h>

#include "data/transforms/picture_steps.h"

static uint64_t dice;

static int between(int least, int most)
{
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    return least + (int)((dice >> 33) % (uint64_t)(most - least + 1));
}

static yki_picture make_picture(int width, int height, int channels)
{
    yki_picture picture = {0};
    assert_ok(yki_picture_reserve(&picture, width, height, channels));
    for (size_t i = 0; i < picture.stride * (size_t)height; i++)
        picture.pixels[i] = (uint8_t)(i * 2654435761u >> 24);
    return picture;
}

/* The picture as planes, in memory that the caller frees. */
static yki_planes make_planes(const yki_picture *picture)
{
    size_t bytes = picture->stride * (size_t)picture->height;
    uint8_t *pixels = malloc(bytes);
    assert_non_null(pixels);
    yki_picture_to_planes(picture, pixels);
    return yki_planes_of(pixels,
                         (yki_picture_size){picture->width, picture->height, picture->channels});
}

/* One random crop (now and then beyond the picture), resize or flip. */
static void change(yki_frame *lazy, yki_frame *eager)
{
    int width = yki_frame_width(lazy), height = yki_frame_height(lazy), kind = between(0, 2);
    yki_picture *pixels;
    if (kind == 0) {
        int outside = between(0, 3) == 0 ? 5 : 0;
        yki_box box = {between(-outside, width / 2), between(-outside, height / 2), 0, 0};
        box.width = between(1, width - box.left + outside);
        box.height = between(1, height - box.top + outside);
        assert_ok(yki_frame_crop(lazy, box));
        assert_ok(yki_frame_crop(eager, box));
    } else if (kind == 1) {
        int to_width = between(1, 60), to_height = between(1, 60);
        yk_interpolation how = (yk_interpolation)between(0, 2);
        assert_ok(yki_frame_resize(lazy, to_width, to_height, how));
        assert_ok(yki_frame_resize(eager, to_width, to_height, how));
    } else {
        bool mirrored = between(0, 1), upside_down = between(0, 1);
        yki_frame_flip(lazy, mirrored, upside_down);
        yki_frame_flip(eager, mirrored, upside_down);
    }
    assert_ok(yki_frame_pixels(eager, &pixels));
    assert_int_equal(yki_frame_width(lazy), pixels->width);
    assert_int_equal(yki_frame_height(lazy), pixels->height);
}

YK_TEST(steps_that_are_noted_down_give_the_same_pixels)
{
    yki_frame_memory memories[2] = {{.pictures = {{0}}}, {.pictures = {{0}}}};
    for (int round = 0; round < 500; round++) {
        yki_picture source = make_picture(between(1, 50), between(1, 50), between(0, 1) ? 3 : 1);
        yki_planes planes = make_planes(&source);
        yki_frame lazy = yki_frame_of_planes(&memories[0], &planes);
        yki_frame eager = yki_frame_of_planes(&memories[1], &planes);
        yki_picture *a, *b;
        if (round % 2)
            assert_ok(yki_frame_pixels(&lazy, &a)); /* from which it goes on */
        for (int i = between(1, 6); i > 0; i--)
            change(&lazy, &eager);
        assert_ok(yki_frame_pixels(&lazy, &a));
        assert_ok(yki_frame_pixels(&eager, &b));
        assert_int_equal(a->width, b->width);
        assert_int_equal(a->height, b->height);
        for (int y = 0; y < a->height; y++)
            assert_memory_equal(yki_picture_row(a, y), yki_picture_row(b, y),
                                (size_t)(a->width * a->channels));
        yki_picture_free(&source);
        free((void *)(uintptr_t)planes.pixels);
    }
    yki_frame_memory_free(&memories[0]);
    yki_frame_memory_free(&memories[1]);
}

/* Crops and flips alone leave planes as they are; whatever makes pixels does not. */
YK_TEST(planes_stay_planes_until_a_step_needs_pixels)
{
    yki_frame_memory memory = {.pictures = {{0}}};
    yki_picture source = make_picture(20, 10, 3), *pixels;
    yki_planes planes = make_planes(&source), part;
    yki_frame frame = yki_frame_of_planes(&memory, &planes);
    assert_ok(yki_frame_crop(&frame, (yki_box){2, 1, 16, 8}));
    yki_frame_flip(&frame, true, false);
    assert_ok(yki_frame_crop(&frame, (yki_box){1, 0, 5, 4}));
    assert_true(yki_frame_is_planar(&frame, &part));
    assert_int_equal(part.width, 5);
    assert_int_equal(part.height, 4);
    assert_ptr_equal(part.pixels, planes.pixels + 20 + 2 + 16 - 1 - 5);
    assert_ok(yki_frame_resize(&frame, 7, 7, YK_INTERPOLATION_BILINEAR));
    assert_false(yki_frame_is_planar(&frame, &part));
    frame = yki_frame_of_planes(&memory, &planes);
    assert_ok(yki_frame_pixels(&frame, &pixels));
    assert_false(yki_frame_is_planar(&frame, &part));
    yki_picture_free(&source);
    free((void *)(uintptr_t)planes.pixels);
    yki_frame_memory_free(&memory);
}

/* The means that torchvision's RandomResizedCrop.get_params gives over many draws. */
YK_TEST(random_resized_crops_are_drawn_as_torchvision_does)
{
    yk_transform_step step = yk_transform_step_of(YK_TRANSFORM_RANDOM_RESIZED_CROP);
    enum { DRAWS = 20000, WIDTH = 500, HEIGHT = 375 };
    double area = 0, ratio = 0, left = 0, top = 0;
    for (int i = 0; i < DRAWS; i++) {
        yki_draws draws = yki_draws_of(yki_mix64((uint64_t)i), 0);
        yki_box box = yki_random_resized_crop_box(&step.random_resized_crop, &draws, WIDTH, HEIGHT);
        assert_true(box.left >= 0 && box.top >= 0 && box.width >= 1 && box.height >= 1);
        assert_true(box.left + box.width <= WIDTH && box.top + box.height <= HEIGHT);
        area += (double)box.width * box.height / (WIDTH * HEIGHT) / DRAWS;
        ratio += log((double)box.width / box.height) / DRAWS;
        left += (double)box.left / (WIDTH - box.width + 1) / DRAWS;
        top += (double)box.top / (HEIGHT - box.height + 1) / DRAWS;
    }
    assert_true(fabs(area - 0.435) < 0.01); /* below 0.54, because large crops fit less often */
    assert_true(fabs(ratio - 0.030) < 0.01);
    assert_true(fabs(left - 0.5) < 0.02 && fabs(top - 0.5) < 0.02);
}

YK_TEST(pictures_that_no_crop_fits_are_cut_in_the_middle)
{
    yk_transform_step step = yk_transform_step_of(YK_TRANSFORM_RANDOM_RESIZED_CROP);
    yki_draws draws = yki_draws_of(1, 0);
    yki_box box = yki_random_resized_crop_box(&step.random_resized_crop, &draws, 3000, 3);
    assert_int_equal(box.width, 4);
    assert_int_equal(box.height, 3);
    assert_int_equal(box.left, 1498);
}

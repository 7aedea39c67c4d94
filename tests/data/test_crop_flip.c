/* The augmentation in one pass against an independent, pixel by pixel form of it, and against the
 * steps one by one. */
#include "harness.h"

#include <math.h>
#include <string.h>

#include "base/random.h"
#include "data/transforms/pipeline.h"
#include "data/transforms/tensor_steps.h"

enum { SIDE = 32, PIXELS = 3 * SIDE * SIDE };

static uint8_t scratch[2 * PIXELS + 1];

/* A plan with its tables. */
typedef struct prepared {
    yki_crop_flip plan;
    yki_byte_tables tables;
} prepared;

static prepared prepare(int padding, bool flip, const char *normalize)
{
    prepared p = {.plan = {3, SIDE, SIDE, padding, flip, false}};
    yk_transforms *list;
    assert_ok(yk_transforms_parse(&list, normalize));
    const yk_transform_step *step = yk_transforms_step(list, 0);
    yki_byte_tables_fill(&p.tables, step ? &step->normalize : NULL);
    yk_transforms_destroy(list);
    return p;
}

static void apply(const prepared *p, const uint8_t *pixels, uint64_t seed, int64_t epoch,
                  int64_t index, yk_dtype dtype, void *out)
{
    uint64_t word = yki_hash3(seed, (uint64_t)epoch, (uint64_t)index);
    yki_crop_flip_apply(&p->plan, &p->tables, pixels, word, scratch, dtype, out);
}

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

/* Every output is one of 9 x 9 x 2, all of which come about equally often. */
YK_TEST(crop_and_flip_draw_all_offsets_evenly)
{
    uint8_t pixels[PIXELS];
    double out[PIXELS];
    int times[9][9][2] = {0};
    enum { DRAWS = 4000 };
    make_image(pixels);
    prepared p = prepare(4, true, "");
    for (int draw = 0; draw < DRAWS; draw++) {
        apply(&p, pixels, 1, 2, draw, YK_F64, out);
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
        int count = times[i / 18][i / 2 % 9][i % 2];
        double gap = count - expected;
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
    prepared p = prepare(0, false, "Normalize(cifar10)");
    apply(&p, pixels, 0, 0, 0, YK_F32, out);
    apply(&p, pixels, 0, 0, 0, YK_F64, precise);
    static const float mean[] = {0.4914f, 0.4822f, 0.4465f}, std[] = {0.2023f, 0.1994f, 0.2010f};
    for (int i = 0; i < PIXELS; i++) {
        float scaled = (float)pixels[i] / 255.0f, centred = scaled - mean[i / 1024];
        assert_true(out[i] == centred / std[i / 1024]);
        assert_true(fabs(precise[i] - out[i]) < 1e-6);
    }
}

YK_TEST(without_normalize_bytes_become_0_to_1)
{
    prepared p = prepare(0, false, "");
    assert_true(p.tables.f32[2][255] == 1.0f && p.tables.f64[0][51] == 0.2);
}

/* A crop may then lie beside the image altogether. */
YK_TEST(padding_as_wide_as_the_image_stays_inside)
{
    uint8_t pixels[PIXELS];
    double out[PIXELS + 1];
    int empty = 0;
    make_image(pixels);
    prepared p = prepare(32, true, "");
    out[PIXELS] = scratch[2 * PIXELS] = 77;
    for (int draw = 0; draw < 20000; draw++) {
        bool any = false;
        apply(&p, pixels, 9, 0, draw, YK_F64, out);
        for (int i = 0; i < PIXELS && !any; i++)
            any = out[i] != 0;
        empty += !any;
    }
    assert_in_range(empty, 1, 20000 / 2);
    assert_true(out[PIXELS] == 77 && scratch[2 * PIXELS] == 77);
}

YK_TEST(promise_29_augmentation_depends_on_seed_epoch_and_index)
{
    uint8_t pixels[PIXELS];
    float first[PIXELS], again[PIXELS];
    int differ[3] = {0};
    make_image(pixels);
    prepared p = prepare(4, true, "Normalize(cifar10)");
    for (int i = 0; i < 100; i++) {
        apply(&p, pixels, 5, 6, i, YK_F32, first);
        apply(&p, pixels, 5, 6, i, YK_F32, again);
        assert_memory_equal(first, again, sizeof first);
        apply(&p, pixels, 4, 6, i, YK_F32, again);
        differ[0] += memcmp(first, again, sizeof first) != 0;
        apply(&p, pixels, 5, 7, i, YK_F32, again);
        differ[1] += memcmp(first, again, sizeof first) != 0;
        apply(&p, pixels, 5, 6, i + 1, YK_F32, again);
        differ[2] += memcmp(first, again, sizeof first) != 0;
    }
    for (int i = 0; i < 3; i++)
        assert_true(differ[i] > 90);
}

/* The same list with and without the short cut. */
YK_TEST(one_pass_is_what_the_steps_are_one_by_one)
{
    uint8_t pixels[PIXELS];
    float direct[PIXELS], stepwise[PIXELS];
    const char *texts[] = {YK_CIFAR10_AUGMENT, "RandomHorizontalFlip,Normalize(0.5,0.25)",
                           "RandomCrop(32,padding=7)", YK_CIFAR10_NORMALIZE,
                           ("RandomCrop(32,padding=31,padding_mode=reflect),"
                            "AlternatingHorizontalFlip,Normalize(0.5,0.25)")};
    yk_field field = {"images", YK_FIELD_IMAGE, YK_U8, 3, {3, SIDE, SIDE}};
    make_image(pixels);
    yk_field_buffer buffer = {pixels, sizeof pixels, {3, SIDE, SIDE}, NULL};
    for (int t = 0; t < 5; t++) {
        yk_transforms *list;
        yki_pipeline pipeline = {.dims = {0}};
        yki_pipeline_memory memory = {.room = {0}};
        assert_ok(yk_transforms_parse(&list, texts[t]));
        assert_ok(yki_pipeline_prepare(&pipeline, &field, list, YK_F32));
        assert_true(pipeline.direct);
        for (int i = 0; i < 200; i++) {
            yki_pipeline_draw draw = {1, 2, i};
            pipeline.direct = true;
            assert_ok(yki_pipeline_run(&pipeline, &memory, NULL, &buffer, draw, direct));
            pipeline.direct = false;
            assert_ok(yki_pipeline_run(&pipeline, &memory, NULL, &buffer, draw, stepwise));
            assert_memory_equal(direct, stepwise, sizeof direct);
        }
        yki_pipeline_destroy(&pipeline);
        yki_pipeline_memory_free(&memory);
        yk_transforms_destroy(list);
    }
}

/* One picture through a list, by the short cut, as f64 from 0 to 255. */
static void run_list(const char *text, const uint8_t *pixels, yki_pipeline_draw draw, double *out)
{
    yk_transforms *list;
    yki_pipeline pipeline = {.dims = {0}};
    yki_pipeline_memory memory = {.room = {0}};
    yk_field field = {"images", YK_FIELD_IMAGE, YK_U8, 3, {3, SIDE, SIDE}};
    yk_field_buffer buffer = {(void *)(uintptr_t)pixels, PIXELS, {3, SIDE, SIDE}, NULL};
    assert_ok(yk_transforms_parse(&list, text));
    assert_ok(yki_pipeline_prepare(&pipeline, &field, list, YK_F64));
    assert_ok(yki_pipeline_run(&pipeline, &memory, NULL, &buffer, draw, out));
    for (int i = 0; i < PIXELS; i++)
        out[i] = rint(255 * out[i]);
    yki_pipeline_destroy(&pipeline);
    yki_pipeline_memory_free(&memory);
    yk_transforms_destroy(list);
}

/* The place that numpy.pad(mode="reflect") repeats. */
static int mirrored(int at)
{
    return at < 0 ? -at : at > SIDE - 1 ? 2 * (SIDE - 1) - at : at;
}

static bool is_reflected_crop(const uint8_t *pixels, const double *out, int top, int left)
{
    for (int c = 0; c < 3; c++)
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++)
                if (out[(c * SIDE + y) * SIDE + x] !=
                    pixels[(c * SIDE + mirrored(y + top)) * SIDE + mirrored(x + left)])
                    return false;
    return true;
}

YK_TEST(reflected_crops_mirror_the_picture_at_its_edges)
{
    uint8_t pixels[PIXELS];
    double out[PIXELS];
    int times[5][5] = {0};
    make_image(pixels);
    for (int draw = 0; draw < 500; draw++) {
        int found = 0;
        run_list("RandomCrop(32,padding=2,padding_mode=reflect)", pixels,
                 (yki_pipeline_draw){3, 1, draw}, out);
        for (int i = 0; i < 25; i++)
            if (is_reflected_crop(pixels, out, i / 5 - 2, i % 5 - 2)) {
                times[i / 5][i % 5]++;
                found++;
            }
        assert_int_equal(found, 1);
    }
    for (int i = 0; i < 25; i++)
        assert_true(times[i / 5][i % 5] > 5);
}

YK_TEST(a_padding_that_cannot_be_reflected_is_refused)
{
    yk_transforms *list;
    int64_t out[3];
    assert_ok(yk_transforms_parse(&list, "RandomCrop(32,padding=32,padding_mode=reflect)"));
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_transforms_output_size(list, (int64_t[]){3, 32, 40}, out));
    assert_non_null(strstr(yk_last_error(), "needs pictures of more than 32 pixels a side"));
    yk_transforms_destroy(list);
}

/* Half of the pictures are mirrored in epoch 0; two epochs in a row show both sides of each. */
YK_TEST(alternating_flips_show_both_sides_in_turn)
{
    uint8_t pixels[PIXELS];
    double out[PIXELS];
    int at_first = 0;
    enum { DRAWS = 200 };
    make_image(pixels);
    for (int index = 0; index < DRAWS; index++) {
        bool flipped[4];
        for (int epoch = 0; epoch < 4; epoch++) {
            run_list("AlternatingHorizontalFlip", pixels, (yki_pipeline_draw){1, epoch, index},
                     out);
            flipped[epoch] = out[0] == pixels[SIDE - 1];
            assert_true(flipped[epoch] || out[0] == pixels[0]);
        }
        at_first += flipped[0];
        assert_true(flipped[1] != flipped[0] && flipped[2] == flipped[0] &&
                    flipped[3] == flipped[1]);
    }
    assert_true(at_first > DRAWS / 3 && at_first < DRAWS * 2 / 3);
}

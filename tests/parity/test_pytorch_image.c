/*
 * What is done to pictures, against Pillow and torchvision: each byte must be theirs. image.py
 * judges. A case in the file is a line, "NAME WIDTH HEIGHT CHANNELS OUT_WIDTH OUT_HEIGHT
 * OUT_CHANNELS NUMBERS...", the picture's bytes, and those of the result.
 */
#include "harness.h"
#include "pytorch.h"

#include <math.h>

#include "image/color.h"
#include "image/geometry.h"
#include "image/resize.h"

static FILE *file;
static uint64_t dice;
static yki_resizer resizer;

static int between(int least, int most)
{
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    return least + (int)((dice >> 33) % (uint64_t)(most - least + 1));
}

static double uniform(double least, double most)
{
    return least + (most - least) * between(0, 1 << 20) / (1 << 20);
}

/* Waves of colours with noise; every third picture is noise alone. */
static yki_picture make_picture(int width, int height, int channels)
{
    yki_picture picture = {0};
    assert_ok(yki_picture_reserve(&picture, width, height, channels));
    double noise = between(0, 2) ? uniform(0, 40) : 400, wave = uniform(0.02, 0.3);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            for (int c = 0; c < channels; c++) {
                double value = 128 + 110 * sin(wave * (x * (c + 1) - y)) + uniform(-noise, noise);
                *(yki_picture_row(&picture, y) + x * channels + c) =
                    (uint8_t)(value < 0     ? 0
                              : value > 255 ? 255
                                            : value);
            }
    return picture;
}

static yki_picture any_picture(void)
{
    return make_picture(between(1, 90), between(1, 70), between(0, 4) ? 3 : 1);
}

static void write_pixels(const yki_picture *picture)
{
    for (int y = 0; y < picture->height; y++)
        fwrite(yki_picture_row(picture, y), (size_t)picture->channels, (size_t)picture->width,
               file);
}

static void write_case(const char *name, const yki_picture *in, const yki_picture *out, int count,
                       const double *numbers)
{
    fprintf(file, "%s %d %d %d %d %d %d", name, in->width, in->height, in->channels, out->width,
            out->height, out->channels);
    for (int i = 0; i < count; i++)
        fprintf(file, " %.17g", numbers[i]);
    fputc('\n', file);
    write_pixels(in);
    write_pixels(out);
}

static yki_picture copy_of(const yki_picture *picture)
{
    yki_picture copy = {0};
    assert_ok(yki_crop(picture, (yki_box){0, 0, picture->width, picture->height}, &copy));
    return copy;
}

/* ---- resizing ------------------------------------------------------------------------------- */

static void resize_case(const yki_picture *in, yki_resize_job job)
{
    yki_picture out = {0};
    assert_ok(yki_resize(&resizer, in, &job, &out));
    double numbers[] = {job.left,        job.top,        job.width,
                        job.height,      job.full_width, job.full_height,
                        job.window.left, job.window.top, job.interpolation};
    write_case("resize", in, &out, 9, numbers);
    yki_picture_free(&out);
}

static void resize_cases(void)
{
    for (int i = 0; i < 400; i++) {
        yki_picture in = i == 0 ? make_picture(500, 375, 3) : any_picture();
        int width = i == 0 ? 341 : between(1, 100), height = i == 0 ? 256 : between(1, 100);
        yki_resize_job job = {.width = in.width,
                              .height = in.height,
                              .full_width = between(0, 9) ? width : in.width,
                              .full_height = between(0, 9) ? height : in.height,
                              .interpolation = (yk_interpolation)between(0, 2)};
        job.window = (yki_box){0, 0, job.full_width, job.full_height};
        if (i % 4 == 1) { /* a part of the source, between its pixels */
            job.left = between(0, in.width * 20) / 64.0; /* Pillow's boxes are floats */
            job.top = between(0, in.height * 20) / 64.0;
            job.width = between(in.width * 32, in.width * 64) / 64.0 - job.left;
            job.height = between(in.height * 32, in.height * 64) / 64.0 - job.top;
        }
        if (i % 4 == 2) { /* a part of the result */
            job.window.left = between(0, job.full_width - 1);
            job.window.top = between(0, job.full_height - 1);
            job.window.width = between(1, job.full_width - job.window.left);
            job.window.height = between(1, job.full_height - job.window.top);
        }
        resize_case(&in, job);
        yki_picture_free(&in);
    }
}

/* ---- geometry ------------------------------------------------------------------------------- */

static void geometry_cases(void)
{
    for (int i = 0; i < 200; i++) {
        yki_picture in = any_picture(), out = {0};
        yki_box box = {between(-30, 90), between(-30, 70), between(1, 60), between(1, 60)};
        assert_ok(yki_crop(&in, box, &out));
        write_case("crop", &in, &out, 4, (double[]){box.left, box.top, box.width, box.height});
        bool mirrored = between(0, 1), upside_down = between(0, 1);
        assert_ok(yki_flip(&in, mirrored, upside_down, &out));
        write_case("flip", &in, &out, 2, (double[]){mirrored, upside_down});
        double degrees = uniform(-30, 30);
        assert_ok(yki_rotate(&in, degrees, &out));
        write_case("rotate", &in, &out, 1, &degrees);
        double shear = uniform(-0.3, 0.3), m[] = {1, shear, 0, 0, 1, 0};
        assert_ok(yki_affine(&in, m, &out));
        write_case("affine", &in, &out, 6, m);
        double move[] = {1, 0, between(-20, 20), 0, 1, between(-20, 20)};
        assert_ok(yki_affine(&in, move, &out));
        write_case("affine", &in, &out, 6, move);
        yki_picture_free(&in);
        yki_picture_free(&out);
    }
}

/* ---- colours -------------------------------------------------------------------------------- */

typedef enum color_step {
    BRIGHTNESS,
    CONTRAST,
    SATURATION,
    HUE,
    SHARPNESS,
    GREY,
    ONE_CHANNEL,
    POSTERIZE,
    SOLARIZE,
    AUTOCONTRAST,
    EQUALIZE,
    COLOR_STEPS
} color_step;

static const char *const color_names[] = {"brightness", "contrast",     "saturation",  "hue",
                                          "sharpness",  "grey",         "one_channel", "posterize",
                                          "solarize",   "autocontrast", "equalize"};

static void run_color_step(color_step step, yki_picture *picture, double number)
{
    yki_picture scratch = {0};
    switch (step) {
    case BRIGHTNESS:
        yki_adjust_brightness(picture, (float)number);
        break;
    case CONTRAST:
        yki_adjust_contrast(picture, (float)number);
        break;
    case SATURATION:
        yki_adjust_saturation(picture, (float)number);
        break;
    case HUE:
        yki_adjust_hue(picture, number);
        break;
    case SHARPNESS:
        assert_ok(yki_adjust_sharpness(picture, (float)number, &scratch));
        break;
    case GREY:
        yki_make_grey(picture);
        break;
    case ONE_CHANNEL:
        yki_to_one_channel(picture);
        break;
    case POSTERIZE:
        yki_posterize(picture, (int)number);
        break;
    case SOLARIZE:
        yki_solarize(picture, number);
        break;
    case AUTOCONTRAST:
        yki_autocontrast(picture);
        break;
    case EQUALIZE:
        yki_equalize(picture);
        break;
    case COLOR_STEPS:
        break;
    }
    yki_picture_free(&scratch);
}

static double color_number(color_step step)
{
    if (step == HUE)
        return uniform(-0.5, 0.5);
    if (step == POSTERIZE)
        return between(4, 8);
    return step == SOLARIZE ? uniform(0, 256) : uniform(0, 2.2);
}

static void color_cases(void)
{
    for (int i = 0; i < 40 * COLOR_STEPS; i++) {
        color_step step = (color_step)(i % COLOR_STEPS);
        yki_picture in = i < 3 * COLOR_STEPS ? make_picture(200, 200, 3) : any_picture();
        yki_picture out = copy_of(&in);
        double number = color_number(step);
        run_color_step(step, &out, number);
        write_case(color_names[step], &in, &out, 1, &number);
        yki_picture_free(&in);
        yki_picture_free(&out);
    }
}

/* --------------------------------------------------------------------------------------------- */

YK_TEST(pictures_are_changed_as_pillow_does)
{
    char path[160];
    snprintf(path, sizeof path, "%s/cases", yk_test_directory());
    file = fopen(path, "wb");
    assert_non_null(file);
    resize_cases();
    geometry_cases();
    color_cases();
    assert_int_equal(fclose(file), 0);
    yki_resizer_free(&resizer);
    pytorch_judges("image.py", "%s", path);
}

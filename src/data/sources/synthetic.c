/*
 * The synthetic data set: image i shows shape i mod 10 in colours, size, place and angle of its
 * own, lit from one side, before a background that shades from one colour to another and holds a
 * blurred spot, under noise. Every draw is a function of (seed, split, index), so that an image
 * does not depend on how many are made. It is painted when it is first read, and then kept.
 */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <yoke/data.h>

#include "base/memory.h"
#include "base/options.h"
#include "base/random.h"
#include "data/sources/shapes.h"

enum { SIDE = 32, PLANE = SIDE * SIDE, IMAGE_BYTES = 3 * PLANE, CLASSES = 10 };
enum { DEFAULT_TRAIN = 5000, DEFAULT_TEST = 1000, MAX_COUNT = 10000000 };

/* ---- drawing numbers ------------------------------------------------------------------------ */

typedef struct dice {
    uint64_t key, drawn;
} dice;

/* Uniform in [low, high). */
static float between(dice *draws, float low, float high)
{
    uint64_t bits = yki_mix64(draws->key + draws->drawn++);
    return low + (high - low) * (float)(bits >> 40) * 0x1p-24f;
}

/* Normal with deviation 1, nearly: four 16-bit uniforms of one draw, summed. */
static float noise(dice *draws)
{
    uint64_t bits = yki_mix64(draws->key + draws->drawn++);
    uint32_t sum =
        (uint32_t)((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48));
    return ((float)sum * 0x1p-16f - 2.0f) * 1.7320508f;
}

/* ---- the scene ------------------------------------------------------------------------------ */

typedef struct colour {
    float c[3]; /* 0..1 */
} colour;

typedef struct scene {
    const yki_shape *shape;
    float cos, sin, centre_x, centre_y, size; /* of a figure its radius, of a texture its period */
    colour front, back_from, back_to, spot;
    float light_x, light_y; /* brightness gained a pixel */
    float spot_x, spot_y, spot_radius;
    float noise; /* deviation, of 255 */
} scene;

/* A colour of any hue by HSV's hexagon, within bounds of saturation and value. */
static colour draw_colour(dice *draws, float saturation, float value)
{
    float hue = between(draws, 0, 6);
    colour drawn;
    for (int i = 0; i < 3; i++) {
        float h = hue + (float)(2 * i);
        h = h >= 6 ? h - 6 : h;
        float ramp = fabsf(h - 3) - 1;
        ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
        drawn.c[i] = value * (1 - saturation * (1 - ramp));
    }
    return drawn;
}

static float distance2(const colour *a, const colour *b)
{
    float sum = 0;
    for (int i = 0; i < 3; i++)
        sum += (a->c[i] - b->c[i]) * (a->c[i] - b->c[i]);
    return sum;
}

static void draw_colours(scene *drawn, dice *draws)
{
    const float least = 0.40f * 0.40f; /* so that the figure can be told from its background */
    drawn->back_from = draw_colour(draws, between(draws, 0.1f, 0.6f), between(draws, 0.15f, 0.95f));
    drawn->back_to = draw_colour(draws, between(draws, 0.1f, 0.6f), between(draws, 0.15f, 0.95f));
    for (int i = 0; i < 3; i++) /* two colours too far apart would hide any figure somewhere */
        drawn->back_to.c[i] = 0.65f * drawn->back_from.c[i] + 0.35f * drawn->back_to.c[i];
    drawn->spot = draw_colour(draws, between(draws, 0.2f, 0.8f), between(draws, 0.3f, 1));
    for (int tries = 0; tries < 32; tries++) {
        drawn->front = draw_colour(draws, between(draws, 0.35f, 1), between(draws, 0.3f, 1));
        if (distance2(&drawn->front, &drawn->back_from) > least &&
            distance2(&drawn->front, &drawn->back_to) > least)
            break;
    }
}

/* A direction without sine and cosine, whose last bits differ between C libraries. */
static void draw_angle(scene *drawn, dice *draws)
{
    float x, y, norm;
    do {
        x = between(draws, -1, 1);
        y = between(draws, -1, 1);
        norm = x * x + y * y;
    } while (norm > 1 || norm < 0.01f);
    norm = sqrtf(norm);
    drawn->cos = x / norm;
    drawn->sin = y / norm;
}

static scene draw_scene(dice *draws, const yki_shape *shape)
{
    scene drawn = {.shape = shape};
    draw_colours(&drawn, draws);
    draw_angle(&drawn, draws);
    drawn.centre_x = between(draws, 11, 21);
    drawn.centre_y = between(draws, 11, 21);
    drawn.size = shape->texture ? between(draws, 7, 13) : between(draws, 6.5f, 13);
    drawn.light_x = between(draws, -0.014f, 0.014f);
    drawn.light_y = between(draws, -0.014f, 0.014f);
    drawn.spot_x = between(draws, 0, 32);
    drawn.spot_y = between(draws, 0, 32);
    drawn.spot_radius = between(draws, 2, 8);
    drawn.noise = between(draws, 3, 20);
    return drawn;
}

/* ---- painting ------------------------------------------------------------------------------- */

/* How much of the pixel around (x, y) the shape covers, 0..1: its distance, one pixel wide. */
static float coverage(const scene *drawn, float x, float y)
{
    float dx = (x - drawn->centre_x) / drawn->size, dy = (y - drawn->centre_y) / drawn->size;
    float d = drawn->shape->distance(drawn->cos * dx + drawn->sin * dy,
                                     -drawn->sin * dx + drawn->cos * dy);
    float covered = 0.5f - d * drawn->size;
    return covered < 0 ? 0 : covered > 1 ? 1 : covered;
}

/* A soft spot: 1 at its centre, falling to 0 at twice its radius. */
static float spot(const scene *drawn, float x, float y)
{
    float dx = x - drawn->spot_x, dy = y - drawn->spot_y;
    float fall = 1 - (dx * dx + dy * dy) / (4 * drawn->spot_radius * drawn->spot_radius);
    return fall > 0 ? 0.6f * fall * fall : 0;
}

static uint8_t to_byte(float value)
{
    return value <= 0 ? 0 : value >= 255 ? 255 : (uint8_t)(value + 0.5f);
}

/* pixels (3, 32, 32) */
static void paint(const scene *drawn, dice *draws, uint8_t *pixels)
{
    for (int row = 0; row < SIDE; row++)
        for (int column = 0; column < SIDE; column++) {
            float x = (float)column + 0.5f, y = (float)row + 0.5f;
            float front = coverage(drawn, x, y), blurred = spot(drawn, x, y);
            float shade = (x + y) / (2 * SIDE);
            float light = 1 + drawn->light_x * (x - 16) + drawn->light_y * (y - 16);
            for (int c = 0; c < 3; c++) {
                float value =
                    drawn->back_from.c[c] + shade * (drawn->back_to.c[c] - drawn->back_from.c[c]);
                value += blurred * (drawn->spot.c[c] - value);
                value += front * (drawn->front.c[c] - value);
                value = 255 * light * value + drawn->noise * noise(draws);
                pixels[c * PLANE + row * SIDE + column] = to_byte(value);
            }
        }
}

/* ---- the data set --------------------------------------------------------------------------- */

enum { NOT_PAINTED, BEING_PAINTED, PAINTED };

typedef struct synthetic {
    uint64_t seed;
    yk_split split;
    uint8_t *pixels; /* (count, 3, 32, 32), from yki_map */
    size_t bytes;
    atomic_uchar *states; /* (count) NOT_PAINTED, BEING_PAINTED or PAINTED */
} synthetic;

static void paint_image(const synthetic *set, int64_t index, uint8_t *pixels)
{
    dice draws = {.key = yki_hash3(set->seed, (uint64_t)set->split, (uint64_t)index)};
    scene drawn = draw_scene(&draws, &yki_shapes[index % CLASSES]);
    paint(&drawn, &draws, pixels);
}

/* The image as it is kept, which the first thread to read it paints; NULL while that does. */
static const uint8_t *find_painting(const synthetic *set, int64_t index)
{
    uint8_t *pixels = set->pixels + index * IMAGE_BYTES;
    atomic_uchar *state = &set->states[index];
    unsigned char before = NOT_PAINTED;
    if (atomic_compare_exchange_strong(state, &before, BEING_PAINTED)) {
        paint_image(set, index, pixels);
        atomic_store(state, PAINTED);
        return pixels;
    }
    return before == PAINTED ? pixels : NULL;
}

/* Nobody waits for another thread to paint: in a forked child that thread does not exist. */
static yk_status read_painting(void *data, void *worker, int64_t index, yk_field_buffer *buffers)
{
    const synthetic *set = data;
    const uint8_t *kept = find_painting(set, index);
    (void)worker;
    *(int32_t *)buffers[1].data = (int32_t)(index % CLASSES);
    if (kept) {
        yk_field_buffer_lend(&buffers[0], kept, IMAGE_BYTES);
        return YK_OK;
    }
    uint8_t *own = yk_field_buffer_reserve(&buffers[0], IMAGE_BYTES);
    if (!own)
        return YK_ERROR_OUT_OF_MEMORY;
    paint_image(set, index, own);
    return YK_OK;
}

static void close_synthetic(void *data)
{
    synthetic *set = data;
    yki_unmap(set->pixels, set->bytes);
    free(set->states);
    free(set);
}

static yk_status paint_data_set(yk_dataset **dataset, int64_t count, uint64_t seed, yk_split split)
{
    static const yk_field fields[] = {
        {"images", YK_FIELD_IMAGE, YK_U8, 3, {3, SIDE, SIDE}},
        {"labels", YK_FIELD_TENSOR, YK_I32, 0, {0}},
    };
    yk_dataset_ops ops = YK_DATASET_OPS_INIT;
    ops.name = "synthetic";
    ops.count = count;
    ops.field_count = 2;
    ops.fields = fields;
    ops.classes = CLASSES;
    ops.class_names = yki_shape_names;
    ops.read = read_painting;
    ops.close = close_synthetic;
    synthetic *set = yki_calloc(1, sizeof *set);
    if (!set)
        return yki_error_memory(sizeof *set, "synthetic images");
    set->seed = seed;
    set->split = split;
    set->bytes = (size_t)count * IMAGE_BYTES;
    set->pixels = yki_map(set->bytes);
    set->states = yki_calloc((size_t)count, sizeof *set->states);
    yk_status status = set->pixels && set->states
                           ? yk_dataset_create(dataset, &ops, set)
                           : yki_error_memory(set->bytes, "synthetic images");
    if (status != YK_OK)
        close_synthetic(set);
    return status;
}

yk_status yk_synthetic_create(yk_dataset **dataset, yk_split split,
                              const yk_synthetic_options *options)
{
    YKI_NOT_NULL(dataset);
    *dataset = NULL;
    yk_synthetic_options o;
    YK_TRY(YKI_READ_OPTIONS(&o, options, yk_synthetic_options, YK_SYNTHETIC_OPTIONS_INIT));
    int64_t count = o.count;
    if (count == YK_SYNTHETIC_COUNT_AUTO)
        count = split == YK_SPLIT_TRAIN ? DEFAULT_TRAIN : DEFAULT_TEST;
    if (count < 0 || count > MAX_COUNT)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "synthetic: %lld images: expected 0 to %d or YK_SYNTHETIC_COUNT_AUTO",
                         (long long)count, MAX_COUNT);
    return paint_data_set(dataset, count, o.seed, split);
}

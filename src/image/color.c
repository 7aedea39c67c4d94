/* See color.h. Most of these functions are a table from byte to byte for each channel. */
#include "image/color.h"

#include <assert.h>
#include <math.h>
#include <string.h>

typedef uint8_t byte_table[256];

/* ---- tables --------------------------------------------------------------------------------- */

/* tables: one for each channel. */
static void look_up(yki_picture *picture, byte_table *tables)
{
    for (int y = 0; y < picture->height; y++) {
        uint8_t *row = yki_picture_row(picture, y);
        if (picture->channels == 1) {
            for (int x = 0; x < picture->width; x++)
                row[x] = tables[0][row[x]];
            continue;
        }
        for (int x = 0; x < picture->width; x++, row += 3) {
            row[0] = tables[0][row[0]];
            row[1] = tables[1][row[1]];
            row[2] = tables[2][row[2]];
        }
    }
}

static void look_up_all(yki_picture *picture, const byte_table table)
{
    byte_table tables[3];
    for (int c = 0; c < 3; c++)
        memcpy(tables[c], table, sizeof tables[c]);
    look_up(picture, tables);
}

/* How often each byte occurs in each channel. */
static void count_bytes(const yki_picture *picture, int64_t counts[3][256])
{
    memset(counts, 0, 3 * sizeof counts[0]);
    for (int y = 0; y < picture->height; y++) {
        const uint8_t *row = yki_picture_row(picture, y);
        for (int x = 0; x < picture->width; x++)
            for (int c = 0; c < picture->channels; c++)
                counts[c][*row++]++;
    }
}

/* ---- blending ------------------------------------------------------------------------------- */

/* Image.blend(): a + factor (b - a), truncated; factors beyond [0, 1] saturate. */
static inline uint8_t blend(int a, int b, float factor)
{
    float mixed = (float)a + factor * (float)(b - a);
    return (uint8_t)(mixed <= 0 ? 0 : mixed >= 255 ? 255 : mixed);
}

/* ITU-R 601-2 luma in 16-bit fixed point, as Image.convert("L"). */
static inline uint8_t grey_of(const uint8_t *rgb)
{
    return (uint8_t)((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16);
}

static void blend_with(yki_picture *picture, int other, float factor)
{
    byte_table table;
    for (int i = 0; i < 256; i++)
        table[i] = blend(other, i, factor);
    look_up_all(picture, table);
}

void yki_adjust_brightness(yki_picture *picture, float factor)
{
    blend_with(picture, 0, factor);
}

static int mean_grey(const yki_picture *picture)
{
    int64_t sum = 0;
    for (int y = 0; y < picture->height; y++) {
        const uint8_t *row = yki_picture_row(picture, y);
        for (int x = 0; x < picture->width; x++, row += picture->channels)
            sum += picture->channels == 1 ? *row : grey_of(row);
    }
    return (int)((double)sum / ((double)picture->width * picture->height) + 0.5);
}

void yki_adjust_contrast(yki_picture *picture, float factor)
{
    blend_with(picture, mean_grey(picture), factor);
}

void yki_adjust_saturation(yki_picture *picture, float factor)
{
    if (picture->channels == 1)
        return;
    for (int y = 0; y < picture->height; y++) {
        uint8_t *pixel = yki_picture_row(picture, y);
        for (int x = 0; x < picture->width; x++, pixel += 3) {
            int grey = grey_of(pixel);
            for (int c = 0; c < 3; c++)
                pixel[c] = blend(grey, pixel[c], factor);
        }
    }
}

/* ImageFilter.SMOOTH: the weights are 1, and 5 in the middle, of 13. Borders stay as they are. */
static void smooth(const yki_picture *in, yki_picture *out)
{
    size_t bytes = (size_t)in->width * (size_t)in->channels, step = (size_t)in->channels;
    for (int y = 0; y < in->height; y++) {
        const uint8_t *row = yki_picture_row(in, y);
        uint8_t *to = yki_picture_row(out, y);
        memcpy(to, row, bytes);
        if (y == 0 || y == in->height - 1)
            continue;
        const uint8_t *above = row - in->stride, *below = row + in->stride;
        for (size_t x = step; x + step < bytes; x++) {
            int sum = above[x - step] + above[x] + above[x + step] + row[x - step] + 5 * row[x] +
                      row[x + step] + below[x - step] + below[x] + below[x + step];
            to[x] = (uint8_t)((2 * sum + 13) / 26);
        }
    }
}

yk_status yki_adjust_sharpness(yki_picture *picture, float factor, yki_picture *scratch)
{
    YK_TRY(yki_picture_reserve(scratch, picture->width, picture->height, picture->channels));
    smooth(picture, scratch);
    for (int y = 0; y < picture->height; y++) {
        uint8_t *row = yki_picture_row(picture, y);
        const uint8_t *smoothed = yki_picture_row(scratch, y);
        for (size_t x = 0; x < scratch->stride; x++)
            row[x] = blend(smoothed[x], row[x], factor);
    }
    return YK_OK;
}

/* ---- hue ------------------------------------------------------------------------------------ */

static inline uint8_t clip(int value)
{
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* The steps in float and double are those of Pillow's Convert.c. */
static void rgb_to_hsv(const uint8_t *rgb, uint8_t *hsv)
{
    int r = rgb[0], g = rgb[1], b = rgb[2];
    int most = r > g ? r : g, least = r < g ? r : g;
    most = most > b ? most : b;
    least = least < b ? least : b;
    hsv[0] = hsv[1] = 0;
    hsv[2] = (uint8_t)most;
    if (most == least)
        return;
    float range = (float)(most - least), s = range / (float)most, h;
    float rc = (float)(most - r) / range, gc = (float)(most - g) / range;
    float bc = (float)(most - b) / range;
    if (r == most)
        h = bc - gc;
    else if (g == most)
        h = (float)(2.0 + rc - bc);
    else
        h = (float)(4.0 + gc - rc);
    h = (float)fmod(h / 6.0 + 1.0, 1.0);
    hsv[0] = clip((int)(h * 255.0));
    hsv[1] = clip((int)(s * 255.0));
}

static void hsv_to_rgb(const uint8_t *hsv, uint8_t *rgb)
{
    uint8_t v = hsv[2];
    if (hsv[1] == 0) {
        rgb[0] = rgb[1] = rgb[2] = v;
        return;
    }
    int i = (int)floor((float)hsv[0] * 6.0 / 255.0);
    float f = (float)((float)hsv[0] * 6.0 / 255.0 - (float)i), fs = (float)((float)hsv[1] / 255.0);
    uint8_t p = clip((int)round((float)v * (1.0 - fs)));
    uint8_t q = clip((int)round((float)v * (1.0 - fs * f)));
    uint8_t t = clip((int)round((float)v * (1.0 - fs * (1.0 - f))));
    const uint8_t sectors[6][3] = {{v, t, p}, {q, v, p}, {p, v, t},
                                   {p, q, v}, {t, p, v}, {v, p, q}};
    memcpy(rgb, sectors[i % 6], 3);
}

void yki_adjust_hue(yki_picture *picture, double factor)
{
    if (picture->channels == 1)
        return;
    uint8_t turn = (uint8_t)(int)(factor * 255);
    for (int y = 0; y < picture->height; y++) {
        uint8_t *pixel = yki_picture_row(picture, y);
        for (int x = 0; x < picture->width; x++, pixel += 3) {
            uint8_t hsv[3];
            rgb_to_hsv(pixel, hsv);
            hsv[0] = (uint8_t)(hsv[0] + turn);
            hsv_to_rgb(hsv, pixel);
        }
    }
}

/* ---- grey ----------------------------------------------------------------------------------- */

void yki_make_grey(yki_picture *picture)
{
    if (picture->channels == 1)
        return;
    for (int y = 0; y < picture->height; y++) {
        uint8_t *pixel = yki_picture_row(picture, y);
        for (int x = 0; x < picture->width; x++, pixel += 3)
            pixel[0] = pixel[1] = pixel[2] = grey_of(pixel);
    }
}

void yki_to_one_channel(yki_picture *picture)
{
    if (picture->channels == 1)
        return;
    for (int y = 0; y < picture->height; y++) {
        uint8_t *row = yki_picture_row(picture, y);
        for (int x = 0; x < picture->width; x++)
            row[x] = grey_of(row + (size_t)x * 3);
    }
    picture->channels = 1;
}

/* ---- ImageOps ------------------------------------------------------------------------------- */

void yki_posterize(yki_picture *picture, int bits)
{
    assert(bits >= 0 && bits <= 8);
    byte_table table;
    for (int i = 0; i < 256; i++)
        table[i] = (uint8_t)(i & ~((1 << (8 - bits)) - 1));
    look_up_all(picture, table);
}

void yki_solarize(yki_picture *picture, double threshold)
{
    byte_table table;
    for (int i = 0; i < 256; i++)
        table[i] = (uint8_t)(i < threshold ? i : 255 - i);
    look_up_all(picture, table);
}

void yki_autocontrast(yki_picture *picture)
{
    int64_t counts[3][256];
    byte_table tables[3];
    count_bytes(picture, counts);
    for (int c = 0; c < picture->channels; c++) {
        int low = 0, high = 255;
        while (low < 255 && !counts[c][low])
            low++;
        while (high > 0 && !counts[c][high])
            high--;
        double scale = high > low ? 255.0 / (high - low) : 1,
               offset = high > low ? -low * scale : 0;
        for (int i = 0; i < 256; i++) {
            double value = i * scale + offset;
            tables[c][i] = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
        }
    }
    look_up(picture, tables);
}

/* The bytes of a channel spread evenly; unchanged where there are too few different ones. */
static void equalize_table(const int64_t counts[256], byte_table table)
{
    int64_t total = 0, last = 0;
    for (int i = 0; i < 256; i++) {
        total += counts[i];
        last = counts[i] ? counts[i] : last;
    }
    int64_t step = (total - last) / 255, sum = step / 2;
    for (int i = 0; i < 256; i++) {
        int64_t value = step ? sum / step : i;
        table[i] = (uint8_t)(value > 255 ? 255 : value);
        sum += counts[i];
    }
}

void yki_equalize(yki_picture *picture)
{
    int64_t counts[3][256];
    byte_table tables[3];
    count_bytes(picture, counts);
    for (int c = 0; c < picture->channels; c++)
        equalize_table(counts[c], tables[c]);
    look_up(picture, tables);
}

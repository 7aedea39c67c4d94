/* See amxsim.h. */
#include "amxsim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <oneapi/dnnl/dnnl.h>

#include "device/cpu/x86/amx.h"

enum { TILES = 8, ROWS = 16, ROW = 64 /* bytes */, LANES = ROW / 4 };

typedef struct tile {
    int rows;
    _Alignas(64) char at[ROWS][ROW];
} tile;

/* The operand of LDTILECFG. */
typedef struct shapes {
    uint8_t palette, start, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} shapes;

static _Thread_local tile tiles[TILES];

bool yki_amx_is_usable(void)
{
    return dnnl_get_effective_cpu_isa() >= dnnl_cpu_isa_avx512_core;
}

static void check(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "amxsim: %s\n", what);
    abort();
}

static tile *configured(int number)
{
    check(number >= 0 && number < TILES && tiles[number].rows > 0, "a tile is not configured");
    return &tiles[number];
}

void amxsim_configure(const void *operand)
{
    shapes given;
    memcpy(&given, operand, sizeof given);
    check(given.palette == 1 && given.start == 0, "there is no such palette");
    memset(tiles, 0, sizeof tiles);
    for (int i = 0; i < TILES; i++) {
        check(given.rows[i] <= ROWS, "a tile has too many rows");
        check(given.row_bytes[i] == ROW, "only whole rows are simulated");
        tiles[i].rows = given.rows[i];
    }
}

void amxsim_release(void)
{
    memset(tiles, 0, sizeof tiles);
}

void amxsim_zero(int number)
{
    tile *t = configured(number);
    memset(t->at, 0, sizeof t->at);
}

void amxsim_load(int number, const void *from, ptrdiff_t row_step)
{
    tile *t = configured(number);
    memset(t->at, 0, sizeof t->at);
    for (int i = 0; i < t->rows; i++)
        memcpy(t->at[i], (const char *)from + i * row_step, ROW);
}

void amxsim_store(int number, void *to, ptrdiff_t row_step)
{
    const tile *t = configured(number);
    for (int i = 0; i < t->rows; i++)
        memcpy((char *)to + i * row_step, t->at[i], ROW);
}

static float bf16_at(const char *pair, int which)
{
    uint16_t half;
    memcpy(&half, pair + 2 * which, sizeof half);
    uint32_t bits = (uint32_t)half << 16;
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* As the instruction does, the first and the second numbers of pairs are summed apart. */
static void add_row(float *sums, const char *left, const tile *right)
{
    float first[LANES] = {0}, second[LANES] = {0};
    for (int k = 0; k < LANES; k++) {
        const float a = bf16_at(left + 4 * k, 0), b = bf16_at(left + 4 * k, 1);
        for (int n = 0; n < LANES; n++) {
            first[n] += a * bf16_at(right->at[k] + 4 * n, 0);
            second[n] += b * bf16_at(right->at[k] + 4 * n, 1);
        }
    }
    for (int n = 0; n < LANES; n++)
        sums[n] += first[n] + second[n];
}

void amxsim_multiply(int sums, int left, int right)
{
    tile *c = configured(sums);
    const tile *a = configured(left), *b = configured(right);
    check(sums != left && sums != right && left != right, "a tile has two roles");
    check(c->rows == a->rows, "sums have other rows than the left factor");
    check(b->rows == LANES, "the right factor has other rows than the left one has pairs");
    for (int m = 0; m < c->rows; m++)
        add_row((float *)(void *)c->at[m], a->at[m], b);
}

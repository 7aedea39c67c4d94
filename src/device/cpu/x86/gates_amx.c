/*
 * Steps of recurrent layers in bf16, whose products are made of tiles of AMX. CMake compiles this
 * for AMX; other processors run it only in tests, with simulated tiles (tests/amx).
 *
 * Packed columns are tiles where they lie: 16 rows of a vector of pairs, `vectors` vectors apart.
 */
#include "device/cpu/loops/loops.h"

#define YKI_WIDTH 16
#include "device/cpu/loops/vector.h"

#include "device/cpu/x86/amx_tile.h"

enum { TILE_PAIRS = 16 };

/* Tiles 0 to 3 are sums, 4 is the left factor, and 5 the right one. Numbers of tiles are written
 * out, as they are parts of names to the assembler. */
#define FOR_EACH_VECTOR(statement)                                                                 \
    do {                                                                                           \
        statement(0);                                                                              \
        if (vectors > 1) {                                                                         \
            statement(1);                                                                          \
        }                                                                                          \
        if (vectors > 2) {                                                                         \
            statement(2);                                                                          \
        }                                                                                          \
        if (vectors > 3) {                                                                         \
            statement(3);                                                                          \
        }                                                                                          \
    } while (0)

static void gate_multiply(const yki_gate_product *p, int rows, int vectors)
{
    const uint8_t r = (uint8_t)rows;
    const ptrdiff_t pitch = p->pitch * (ptrdiff_t)sizeof(float), row = vectors * YKI_TILE_ROW;
    const char *a = p->a, *b = p->b;
    yki_tiles_configure((uint8_t[8]){r, r, r, r, r, TILE_PAIRS, TILE_PAIRS, TILE_PAIRS});
    yki_tiles_fence();
#define CLEAR(v) _tile_zero(v)
    FOR_EACH_VECTOR(CLEAR);
    for (int64_t k = 0; k < p->inner; k += TILE_PAIRS) {
        _tile_loadd(4, a + k * (int64_t)sizeof(float), pitch);
#define MULTIPLY(v)                                                                                \
    _tile_loadd(5, b + k * row + v * YKI_TILE_ROW, row);                                           \
    _tile_dpbf16ps(v, 4, 5)
        FOR_EACH_VECTOR(MULTIPLY);
    }
#define STORE(v) _tile_stored(v, p->c + v * YKI_WIDTH, row)
    FOR_EACH_VECTOR(STORE);
    _tile_release();
    yki_tiles_fence();
}

#define GATE_ROWS(vectors) 16
#include "device/cpu/loops/gate_math.h"
#include "device/cpu/loops/recurrent_layer.h"

const yki_gate_loops yki_gate_loops_amx = GATE_LOOPS;

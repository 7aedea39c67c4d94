/* Rows of pixels and of planes: vectors give what plain code gives, for every length. */
#include "harness.h"

#include <string.h>

#include "image/planes.h"

enum { MOST = 100 };

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

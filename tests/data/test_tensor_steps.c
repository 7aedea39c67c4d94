/* From bytes to numbers: vectors give the numbers of the tables, in every orientation. */
#include "harness.h"

#include <string.h>

#include "data/tensor_steps.h"

YK_TEST(computed_numbers_are_those_of_the_tables)
{
    static yki_byte_tables tables;
    uint8_t bytes[256 + 5];
    float numbers[256 + 6];
    uint32_t random = 1;
    int computed = 0;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)i;
    for (int draw = 0; draw < 200; draw++) {
        yk_transform_normalize numbers_of = {{0}, {0}};
        for (int c = 0; c < 3; c++) {
            random = random * 1664525 + 1013904223;
            numbers_of.mean[c] = (random >> 8) / 16777216.0;
            numbers_of.std[c] = ((random & 255) + 1) / 300.0;
        }
        yki_byte_tables_fill(&tables, draw ? &numbers_of : NULL);
        for (int c = 0; c < 3; c++) {
            size_t count = sizeof bytes - (size_t)draw % 6;
            computed += tables.computed[c];
            numbers[count] = -1;
            yki_bytes_to_f32(&tables, c, bytes, count, numbers);
            for (size_t i = 0; i < count; i++)
                assert_memory_equal(&numbers[i], &tables.f32[c][bytes[i]], sizeof *numbers);
            assert_true(numbers[count] == -1);
        }
    }
    assert_true(computed == 0 || computed > 500); /* without vectors; nearly always */
}

/* Pictures of one and of three channels, wider than what is taken apart at once. */
YK_TEST(pictures_are_turned_on_the_way)
{
    enum { WIDTH = 701, HEIGHT = 3 };
    static uint8_t pixels[WIDTH * HEIGHT * 3];
    static float f32[WIDTH * HEIGHT * 3];
    static double f64[WIDTH * HEIGHT * 3];
    static yki_byte_tables tables;
    yki_byte_tables_fill(&tables, NULL);
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * i / 3);
    for (int turn = 0; turn < 8; turn++) {
        bool mirrored = turn & 1, upside_down = turn & 2;
        int channels = turn & 4 ? 1 : 3;
        yki_picture picture = {pixels, WIDTH, HEIGHT, channels, (size_t)(WIDTH * channels), 0};
        yki_to_tensor(&tables, &picture, mirrored, upside_down, YK_F32, f32);
        yki_to_tensor(&tables, &picture, mirrored, upside_down, YK_F64, f64);
        for (int c = 0, at = 0; c < channels; c++)
            for (int y = 0; y < HEIGHT; y++)
                for (int x = 0; x < WIDTH; x++, at++) {
                    int from_y = upside_down ? HEIGHT - 1 - y : y;
                    int from_x = mirrored ? WIDTH - 1 - x : x;
                    int byte = pixels[(from_y * WIDTH + from_x) * channels + c];
                    assert_true(f32[at] == (float)byte / 255.0f);
                    assert_true(f64[at] == byte / 255.0);
                }
    }
}

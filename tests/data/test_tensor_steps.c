/* From bytes to numbers: vectors give the numbers of the tables, in every orientation. */
#include "harness.h"

#include "data/transforms/tensor_steps.h"

/* The bytes of one channel, with each of the vectors that this processor has. */
static void check_vectors(yki_byte_tables *tables, int c, const uint8_t *bytes, size_t count)
{
    float numbers[256 + 6];
    const float *table = tables->f32[c];
    yki_byte_vectors widest = tables->vectors[c];
    for (int i = 0; i <= 2 * (int)widest + 1; i++) {
        bool mirrored = i & 1;
        tables->vectors[c] = (yki_byte_vectors)(i / 2);
        numbers[count] = -1;
        yki_bytes_to_f32(tables, c, bytes, count, mirrored, numbers);
        for (size_t at = 0; at < count; at++)
            assert_memory_equal(&numbers[at], &table[bytes[mirrored ? count - 1 - at : at]],
                                sizeof *numbers);
        assert_true(numbers[count] == -1);
    }
}

YK_TEST(computed_numbers_are_those_of_the_tables)
{
    static yki_byte_tables tables;
    uint8_t bytes[256 + 5];
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
            computed += tables.vectors[c] != YKI_BYTE_VECTORS_NONE;
            check_vectors(&tables, c, bytes, sizeof bytes - (size_t)draw % 20);
        }
    }
    assert_true(computed == 0 || computed > 500); /* without vectors; nearly always */
}

/* Pictures of one, three and five channels, wider than what is taken apart at once. */
YK_TEST(pictures_are_turned_on_the_way)
{
    enum { WIDTH = 701, HEIGHT = 3 };
    static uint8_t pixels[WIDTH * HEIGHT * 5];
    static float f32[WIDTH * HEIGHT * 5];
    static double f64[WIDTH * HEIGHT * 5];
    static yki_byte_tables tables;
    yki_byte_tables_fill(&tables, NULL);
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * i / 3);
    for (int turn = 0; turn < 12; turn++) {
        bool mirrored = turn & 1, upside_down = turn & 2;
        int channels = 1 + turn / 4 * 2;
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

/* A part of planes gives what its pixels, interleaved, give. */
YK_TEST(planes_are_turned_as_pictures_are)
{
    enum { WIDTH = 75, HEIGHT = 9 };
    static uint8_t pixels[5 * WIDTH * HEIGHT];
    static float f32[2][5 * WIDTH * HEIGHT];
    static yki_byte_tables tables;
    yki_picture picture = {0};
    yki_byte_tables_fill(&tables, NULL);
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * i / 3);
    for (int turn = 0; turn < 12; turn++) {
        bool mirrored = turn & 1, upside_down = turn & 2;
        yki_planes whole =
            yki_planes_of(pixels, (yki_picture_size){WIDTH, HEIGHT, 1 + turn / 4 * 2});
        yki_planes part = yki_planes_part(&whole, (yki_box){3, 2, WIDTH - 5, HEIGHT - 4});
        assert_ok(yki_picture_interleave(&picture, &part));
        yki_planes_to_tensor(&tables, &part, mirrored, upside_down, YK_F32, f32[0]);
        yki_to_tensor(&tables, &picture, mirrored, upside_down, YK_F32, f32[1]);
        assert_memory_equal(f32[0], f32[1],
                            sizeof(float) * (size_t)(part.channels * part.width * part.height));
    }
    yki_picture_free(&picture);
}

/* Muon's update of a matrix by the kernels of the cuda device, and what stands in for cuBLASLt,
 * against ref. */
#include "muon_update.h"

#include <math.h>

#include "sim_device.h"

/* One element, wide and tall matrices, and more elements than a block begins with. */
static const int64_t shapes[][2] = {{1, 1}, {5, 18}, {33, 7}, {64, 64}, {40, 270}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

YK_TEST(updates_are_those_of_ref)
{
    for (int s = 0; s < SHAPES; s++)
        for (int normalize = 0; normalize < 2; normalize++) {
            int64_t rows = shapes[s][0], columns = shapes[s][1];
            const muon_matrix matrix = {.rows = rows, .columns = columns, .normalize = normalize};
            float *cuda = muon_updated(&sim_device_type, 1, matrix);
            float *ref = muon_updated(&yki_device_ref, 1, matrix);
            for (int64_t i = 0; i < rows * columns; i++)
                if (!(fabsf(cuda[i] - ref[i]) < 1e-5f))
                    fail_msg("(%d, %d): element %d is %g, not %g", (int)rows, (int)columns, (int)i,
                             (double)cuda[i], (double)ref[i]);
            free(cuda);
            free(ref);
        }
}

YK_TEST(updates_repeat_their_bits)
{
    const muon_matrix matrix = {.rows = 40, .columns = 270, .normalize = true};
    float *first = muon_updated(&sim_device_type, 1, matrix);
    for (uint64_t seed = 20; seed < 23; seed++) {
        sim_device_seed(seed);
        float *again = muon_updated(&sim_device_type, 1, matrix);
        assert_memory_equal(again, first, 40 * 270 * sizeof *first);
        free(again);
    }
    free(first);
}

YK_TEST(a_step_that_is_left_out_changes_nothing)
{
    const muon_matrix matrix = {.rows = 5, .columns = 18, .normalize = true, .left_out = true};
    float *value = muon_updated(&sim_device_type, 1, matrix);
    for (int i = 0; i < 5 * 18; i++)
        assert_true(value[i] == draw_value(i));
    free(value);
}

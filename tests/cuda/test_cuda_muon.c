/* Muon's update of a matrix by the kernels of the cuda device, and what stands in for cuBLASLt,
 * against ref. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "harness.h"
#include "sim_device.h"

static float draw(int64_t i)
{
    return (float)((double)(yki_mix64((uint64_t)i) >> 11) * 0x1p-52 - 1);
}

/* The value after the update of a random matrix. */
static float *updated(const yki_device_type *type, int64_t rows, int64_t columns, bool normalize,
                      double skip)
{
    const double coefficients[YKI_SWEEP_COEFFICIENTS] = {
        [YKI_MUON_LR] = 0.25, [YKI_SWEEP_SKIP] = skip};
    yki_device *device;
    size_t count = (size_t)(rows * columns), bytes;
    float *value = malloc(count * sizeof *value), *update = malloc(count * sizeof *update);
    assert_ok(type->create(&device, &(yki_device_options){.threads = 1}));
    assert_ok(type->muon->prepare(device, rows, columns, &bytes));
    void *scratch = malloc(bytes);
    memset(scratch, 0xff, bytes);
    for (size_t i = 0; i < count; i++) {
        value[i] = draw((int64_t)i);
        update[i] = draw(1000000 + (int64_t)i);
    }
    yki_muon_args args = {.value = value,
                          .update = update,
                          .scratch = scratch,
                          .rows = rows,
                          .columns = columns,
                          .coefficients = coefficients,
                          .weight_decay = 0.4,
                          .steps = 3,
                          .normalize = normalize};
    assert_ok(type->muon->update(device, &args));
    type->destroy(device);
    free(update);
    free(scratch);
    return value;
}

/* One element, wide and tall matrices, and more elements than a block begins with. */
static const int64_t shapes[][2] = {{1, 1}, {5, 18}, {33, 7}, {64, 64}, {40, 270}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

YK_TEST(updates_are_those_of_ref)
{
    for (int s = 0; s < SHAPES; s++)
        for (int normalize = 0; normalize < 2; normalize++) {
            int64_t rows = shapes[s][0], columns = shapes[s][1];
            float *cuda = updated(&sim_device_type, rows, columns, normalize, 0);
            float *ref = updated(&yki_device_ref, rows, columns, normalize, 0);
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
    float *first = updated(&sim_device_type, 40, 270, true, 0);
    for (uint64_t seed = 20; seed < 23; seed++) {
        sim_device_seed(seed);
        float *again = updated(&sim_device_type, 40, 270, true, 0);
        assert_memory_equal(again, first, 40 * 270 * sizeof *first);
        free(again);
    }
    free(first);
}

YK_TEST(a_step_that_is_left_out_changes_nothing)
{
    float *value = updated(&sim_device_type, 5, 18, true, 1);
    for (int i = 0; i < 5 * 18; i++)
        assert_true(value[i] == draw(i));
    free(value);
}

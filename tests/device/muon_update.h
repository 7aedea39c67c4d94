/* One update of Muon on a random matrix, for the tests of the devices that make such updates. */
#ifndef YK_TEST_MUON_UPDATE_H
#define YK_TEST_MUON_UPDATE_H

#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "device/device.h"

/* The elements of the value and of its update are draw_value(i) and draw_update(i). */
static inline float draw_value(int64_t i)
{
    return (float)((double)(yki_mix64((uint64_t)i) >> 11) * 0x1p-52 - 1);
}

static inline float draw_update(int64_t i)
{
    return draw_value(1000000 + i);
}

#define MUON_LR           0.25
#define MUON_WEIGHT_DECAY 0.4

enum { MUON_STEPS = 3 };

typedef struct muon_matrix {
    int64_t rows, columns;
    bool normalize;
    bool left_out; /* the device leaves the step out */
} muon_matrix;

/* The value (rows, columns) after an update in scratch memory that holds no numbers; a device of
 * this type makes it in host memory. To be freed. */
static inline float *muon_updated(const yki_device_type *type, int threads, muon_matrix matrix)
{
    const double coefficients[YKI_SWEEP_COEFFICIENTS] = {
        [YKI_MUON_LR] = MUON_LR, [YKI_SWEEP_SKIP] = matrix.left_out};
    yki_device *device;
    size_t count = (size_t)(matrix.rows * matrix.columns), bytes;
    float *value = malloc(count * sizeof *value), *update = malloc(count * sizeof *update);
    assert_ok(type->create(&device, &(yki_device_options){.threads = threads, .winograd = true}));
    assert_ok(type->muon->prepare(device, matrix.rows, matrix.columns, &bytes));
    void *scratch = aligned_alloc(64, yki_align(bytes, 64)); /* as a device allocates */
    memset(scratch, 0xff, bytes);
    for (size_t i = 0; i < count; i++) {
        value[i] = draw_value((int64_t)i);
        update[i] = draw_update((int64_t)i);
    }
    yki_muon_args args = {.value = value,
                          .update = update,
                          .scratch = scratch,
                          .rows = matrix.rows,
                          .columns = matrix.columns,
                          .coefficients = coefficients,
                          .weight_decay = MUON_WEIGHT_DECAY,
                          .steps = MUON_STEPS,
                          .normalize = matrix.normalize};
    assert_ok(type->muon->update(device, &args));
    type->destroy(device);
    free(update);
    free(scratch);
    return value;
}

#endif

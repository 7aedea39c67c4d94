/* Sweeps by the kernels of the cuda device against those of ref: the same bits, but for sums. */
#include <math.h>
#include <stdlib.h>

#include "base/random.h"
#include "harness.h"
#include "sim_device.h"

/* Odd sizes, more than a chunk, nothing at all, and tensors that vectors do not fit. */
static const struct {
    int64_t count;
    yk_dtype dtype;
    int offset, group; /* offset: elements from an address that is a multiple of 16 bytes */
} shapes[] = {
    {1, YK_F32, 0, 0},     {7, YK_F32, 0, 1},    {20001, YK_F32, 0, 0}, {300, YK_F32, 1, 1},
    {16384, YK_F32, 0, 1}, {0, YK_F32, 0, 0},    {1, YK_F64, 0, 0},     {17000, YK_F64, 0, 1},
    {33, YK_F64, 1, 0},    {4096, YK_F64, 0, 1},
};
enum { SPANS = sizeof shapes / sizeof *shapes };

static const double coefficients[2][YKI_SWEEP_COEFFICIENTS] = {
    {0.1, 0.9, 0.75, 0.5, 0.01, 1, 0.25, 0},
    {0.3, 0.7, 0.625, 0.375, 0.03, 0, 0.5, 0},
};

typedef struct machine {
    yki_device *device;
    yki_span spans[SPANS];
    void *memory[SPANS][YKI_SWEEP_TENSORS];
    yki_sweep *sweep;
} machine;

/* Exactly as many bytes as there are, so that a sanitizer sees what lies outside. */
static void fill(machine *m, int span, int tensor)
{
    size_t size = yk_dtype_size(shapes[span].dtype), offset = (size_t)shapes[span].offset * size;
    char *memory = malloc(offset + (size_t)shapes[span].count * size + 1);
    assert_non_null(memory);
    for (int64_t i = 0; i < shapes[span].count; i++) {
        uint64_t draw = yki_hash3((uint64_t)span, (uint64_t)tensor, (uint64_t)i);
        double number = (double)(draw >> 11) * 0x1p-52 - (tensor == 3 ? 0 : 1);
        if (shapes[span].dtype == YK_F64)
            ((double *)(void *)(memory + offset))[i] = number;
        else
            ((float *)(void *)(memory + offset))[i] = (float)number;
    }
    m->memory[span][tensor] = memory;
    m->spans[span].at[tensor] = memory + offset;
}

/* Makes a tensor at least the squares of tensor 4. */
static void set_squares(machine *m, int span, int tensor)
{
    void *squares = m->spans[span].at[tensor];
    for (int64_t i = 0; i < shapes[span].count; i++)
        if (shapes[span].dtype == YK_F64)
            ((double *)squares)[i] = fabs(((double *)squares)[i]) + 1.5;
        else
            ((float *)squares)[i] = fabsf(((float *)squares)[i]) + 1.5F;
}

static void start(machine *m, const yki_device_type *type)
{
    static const yki_device_options options = {.threads = 1};
    assert_ok(type->create(&m->device, &options));
    for (int i = 0; i < SPANS; i++) {
        m->spans[i] = (yki_span){
            .count = shapes[i].count, .dtype = shapes[i].dtype, .group = shapes[i].group};
        for (int t = 0; t < YKI_SWEEP_TENSORS; t++)
            fill(m, i, t);
    }
    assert_ok(yki_sweep_create(&m->sweep, m->device, m->spans, SPANS));
}

static void stop(machine *m)
{
    yki_sweep_destroy(m->sweep);
    for (int i = 0; i < SPANS; i++)
        for (int t = 0; t < YKI_SWEEP_TENSORS; t++)
            free(m->memory[i][t]);
    m->device->type->destroy(m->device);
}

static void start_both(machine *cuda, machine *ref)
{
    start(cuda, &sim_device_type);
    start(ref, &yki_device_ref);
}

/* Fails unless both hold the same bits; ends both. */
static void compare_and_stop(machine *cuda, machine *ref)
{
    for (int i = 0; i < SPANS; i++)
        for (int t = 0; t < YKI_SWEEP_TENSORS; t++)
            if (memcmp(cuda->spans[i].at[t], ref->spans[i].at[t],
                       (size_t)shapes[i].count * yk_dtype_size(shapes[i].dtype)) != 0)
                fail_msg("span %d: tensor %d differs", i, t);
    stop(cuda);
    stop(ref);
}

static void run(machine *m, yki_sweep_op op, const void *given, void *result)
{
    assert_ok(yki_sweep_run(m->sweep, op, given, result, NULL));
}

YK_TEST(element_by_element)
{
    static const yki_sweep_op ops[] = {
        YKI_SWEEP_COPY,  YKI_SWEEP_SWAP, YKI_SWEEP_ADD,  YKI_SWEEP_SCALE, YKI_SWEEP_APPROACH,
        YKI_SWEEP_LIMIT, YKI_SWEEP_SGD,  YKI_SWEEP_ADAM, YKI_SWEEP_NADAM, YKI_SWEEP_ADAMAX};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        machine cuda, ref;
        start_both(&cuda, &ref);
        run(&cuda, ops[i], coefficients, NULL);
        run(&ref, ops[i], coefficients, NULL);
        compare_and_stop(&cuda, &ref);
    }
}

/* Nothing changes in the group that the device has found to be left out. */
YK_TEST(updates_are_left_out_by_groups)
{
    static const yki_sweep_op ops[] = {YKI_SWEEP_COPY,   YKI_SWEEP_SWAP,    YKI_SWEEP_APPROACH,
                                       YKI_SWEEP_SGD,    YKI_SWEEP_ADAM,    YKI_SWEEP_NADAM,
                                       YKI_SWEEP_ADAMAX, YKI_SWEEP_RMSPROP, YKI_SWEEP_ADADELTA};
    double given[2][YKI_SWEEP_COEFFICIENTS];
    memcpy(given, coefficients, sizeof given);
    given[0][YKI_SWEEP_SKIP] = 1;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        machine cuda, ref;
        start_both(&cuda, &ref);
        run(&cuda, ops[i], given, NULL);
        run(&ref, ops[i], given, NULL);
        compare_and_stop(&cuda, &ref);
        given[1][YKI_SWEEP_SKIP] = 1; /* of both: as if nothing had run */
        start_both(&cuda, &ref);
        run(&cuda, ops[i], given, NULL);
        compare_and_stop(&cuda, &ref);
        given[1][YKI_SWEEP_SKIP] = 0;
    }
}

YK_TEST(sgd_without_momentum)
{
    machine cuda, ref;
    start_both(&cuda, &ref);
    for (size_t i = 0; i < SPANS; i++) {
        yki_sweep_move(cuda.sweep, i, 2, NULL);
        yki_sweep_move(ref.sweep, i, 2, NULL);
    }
    run(&cuda, YKI_SWEEP_SGD, coefficients, NULL);
    run(&ref, YKI_SWEEP_SGD, coefficients, NULL);
    compare_and_stop(&cuda, &ref);
}

YK_TEST(adam_without_the_largest_squares)
{
    machine cuda, ref;
    start_both(&cuda, &ref);
    for (size_t i = 0; i < SPANS; i++) {
        yki_sweep_move(cuda.sweep, i, 4, NULL);
        yki_sweep_move(ref.sweep, i, 4, NULL);
    }
    run(&cuda, YKI_SWEEP_ADAM, coefficients, NULL);
    run(&ref, YKI_SWEEP_ADAM, coefficients, NULL);
    compare_and_stop(&cuda, &ref);
}

/* Squares are at least those of the mean, as those of gradients are. */
YK_TEST(rmsprop_with_and_without_momentum_and_mean)
{
    const double given[2][YKI_SWEEP_COEFFICIENTS] = {{0.1, 0.97, 1e-3, 0.02, 0.8, 0.03},
                                                     {0.3, 1, 1e-2, 0, 0.5, 1}};
    for (int form = 0; form < 4; form++) {
        machine cuda, ref;
        start_both(&cuda, &ref);
        for (size_t i = 0; i < SPANS; i++)
            for (int m = 0; m < 2; m++) {
                machine *of = m ? &ref : &cuda;
                set_squares(of, (int)i, 2);
                for (int t = 0; t < 2; t++)
                    if (!(form >> t & 1))
                        yki_sweep_move(of->sweep, i, 3 + t, NULL);
            }
        run(&cuda, YKI_SWEEP_RMSPROP, given, NULL);
        run(&ref, YKI_SWEEP_RMSPROP, given, NULL);
        compare_and_stop(&cuda, &ref);
    }
}

YK_TEST(adadelta)
{
    const double given[2][YKI_SWEEP_COEFFICIENTS] = {{0.5, 0.9, 1e-3, 0.02, 0, 0.1},
                                                     {1, 0.8, 1e-2, 0, 0, 0.2}};
    machine cuda, ref;
    start_both(&cuda, &ref);
    for (int i = 0; i < SPANS; i++)
        for (int m = 0; m < 2; m++)
            for (int t = 2; t < 4; t++)
                set_squares(m ? &ref : &cuda, i, t);
    run(&cuda, YKI_SWEEP_ADADELTA, given, NULL);
    run(&ref, YKI_SWEEP_ADADELTA, given, NULL);
    compare_and_stop(&cuda, &ref);
}

YK_TEST(squares_and_clip)
{
    machine cuda, ref;
    double sums[3];
    start_both(&cuda, &ref);
    run(&cuda, YKI_SWEEP_SQUARES, NULL, &sums[0]);
    sim_device_seed(77); /* another order of threads and blocks: the same bits */
    run(&cuda, YKI_SWEEP_SQUARES, NULL, &sums[1]);
    run(&ref, YKI_SWEEP_SQUARES, NULL, &sums[2]);
    assert_memory_equal(&sums[0], &sums[1], sizeof *sums);
    assert_true(fabs(sums[0] - sums[2]) <= 1e-13 * sums[2]);
    double clip[2][YKI_SWEEP_COEFFICIENTS] = {
        {[YKI_CLIP_SQUARES] = sums[2], [YKI_CLIP_MAX_NORM] = 1e9}};
    run(&cuda, YKI_SWEEP_CLIP, clip, NULL);
    run(&ref, YKI_SWEEP_CLIP, clip, NULL);
    clip[0][YKI_CLIP_MAX_NORM] = 0.5;
    run(&cuda, YKI_SWEEP_CLIP, clip, NULL);
    run(&ref, YKI_SWEEP_CLIP, clip, NULL);
    compare_and_stop(&cuda, &ref);
}

/* Finds an infinity or a NaN in any span, and none where there is none. */
YK_TEST(unscale)
{
    for (int span = -1; span < SPANS; span++) {
        machine cuda, ref;
        double found[2] = {-1, -1}, bad = span % 2 ? INFINITY : NAN;
        start_both(&cuda, &ref);
        bool planted = span >= 0 && shapes[span].count > 0;
        for (int i = 0; i < 2 && planted; i++) {
            void *at = (i ? &ref : &cuda)->spans[span].at[0];
            if (shapes[span].dtype == YK_F64)
                ((double *)at)[shapes[span].count - 1] = bad;
            else
                ((float *)at)[shapes[span].count - 1] = (float)bad;
        }
        run(&cuda, YKI_SWEEP_UNSCALE, coefficients, &found[0]);
        run(&ref, YKI_SWEEP_UNSCALE, coefficients, &found[1]);
        assert_true(found[0] == (planted ? 1 : 0) && found[1] == found[0]);
        compare_and_stop(&cuda, &ref);
    }
}

YK_TEST(hash)
{
    machine cuda, ref;
    uint64_t hashes[2][SPANS];
    start_both(&cuda, &ref);
    run(&cuda, YKI_SWEEP_HASH, NULL, hashes[0]);
    run(&ref, YKI_SWEEP_HASH, NULL, hashes[1]);
    assert_memory_equal(hashes[0], hashes[1], sizeof hashes[0]);
    compare_and_stop(&cuda, &ref);
}

YK_TEST(nothing_to_sweep)
{
    static const yki_device_options options = {.threads = 1};
    yki_device *device;
    yki_sweep *sweep;
    double sum = -1;
    assert_ok(sim_device_type.create(&device, &options));
    assert_ok(yki_sweep_create(&sweep, device, NULL, 0));
    assert_ok(yki_sweep_run(sweep, YKI_SWEEP_SQUARES, NULL, &sum, NULL));
    assert_true(sum == 0);
    assert_ok(yki_sweep_run(sweep, YKI_SWEEP_HASH, NULL, NULL, NULL));
    yki_sweep_destroy(sweep);
    device->type->destroy(device);
}

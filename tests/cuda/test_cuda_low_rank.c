/* Approximations of matrices by the kernels of the cuda device, against the host's. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "harness.h"
#include "sim_device.h"

/* One element, fewer rows or columns than a block has threads and more, and more columns of factors
 * than a pass over the matrix works on. */
static const int64_t shapes[][3] = {{1, 1, 1}, {5, 18, 2}, {300, 7, 4}, {20, 290, 8}, {33, 70, 19}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

typedef struct problem {
    yki_low_rank at;
    uint64_t key;
    uint8_t warm;
    double bad;
    int64_t count;
} problem;

/* Exactly as many elements as there are, so that a sanitizer sees what lies outside. */
static float *draw(uint64_t which, int64_t count)
{
    float *values = malloc((size_t)count * sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < count; i++)
        values[i] = (float)((double)(yki_hash3(which, 7, (uint64_t)i) >> 11) * 0x1p-52 - 1);
    return values;
}

static problem make(int shape, bool feedback)
{
    int64_t n = shapes[shape][0], m = shapes[shape][1], rank = shapes[shape][2];
    return (problem){.at = {.matrix = draw(1, n * m),
                            .error = feedback ? draw(2, n * m) : NULL,
                            .p = draw(3, rank * n),
                            .q = draw(4, rank * m),
                            .n = n,
                            .m = m,
                            .rank = rank},
                     .key = 99,
                     .count = 5};
}

static void free_problem(problem *of)
{
    free(of->at.matrix);
    free(of->at.error);
    free(of->at.p);
    free(of->at.q);
}

static yki_low_rank_args args_of(problem *of, yki_low_rank_op op)
{
    return (yki_low_rank_args){.op = op,
                               .at = of->at,
                               .matrices = &of->at,
                               .matrix_count = 1,
                               .epsilon = 1e-8,
                               .share = 0.5f,
                               .number = 3,
                               .key = &of->key,
                               .warm = &of->warm,
                               .bad = &of->bad,
                               .count = &of->count};
}

static void run_on_cuda(problem *of, yki_low_rank_op op)
{
    static yki_device *device;
    if (!device)
        assert_ok(sim_device_type.create(&device, &(yki_device_options){.threads = 1}));
    yki_low_rank_args args = args_of(of, op);
    assert_ok(sim_device_type.low_rank(device, &args));
}

static void run_on_both(problem *cuda, problem *host, yki_low_rank_op op)
{
    yki_low_rank_args args = args_of(host, op);
    run_on_cuda(cuda, op);
    yki_low_rank_run(&args);
}

static void assert_close(const float *found, const float *expected, int64_t count, float tolerance,
                         const char *what)
{
    for (int64_t i = 0; found && i < count; i++)
        if (!(fabsf(found[i] - expected[i]) <= tolerance))
            fail_msg("%s[%d] is %g, not %g", what, (int)i, (double)found[i], (double)expected[i]);
}

static void assert_same(const problem *cuda, const problem *host, float tolerance)
{
    const yki_low_rank *a = &cuda->at, *b = &host->at;
    assert_close(a->matrix, b->matrix, a->n * a->m, tolerance, "M");
    assert_close(a->error, b->error, a->n * a->m, tolerance, "error");
    assert_close(a->p, b->p, a->rank * a->n, tolerance, "P");
    assert_close(a->q, b->q, a->rank * a->m, tolerance, "Q");
    assert_int_equal(cuda->warm, host->warm);
    assert_int_equal(cuda->count, host->count);
}

/* From the same numbers, so that errors do not add up over the passes. */
YK_TEST(each_pass_is_that_of_the_host)
{
    static const float tolerance[YKI_LOW_RANK_OPS] = {
        [YKI_LOW_RANK_ORTHONORMALISE_P] = 2e-4f,
        [YKI_LOW_RANK_ORTHONORMALISE_Q] = 2e-4f,
        [YKI_LOW_RANK_PROJECT] = 1e-4f,
        [YKI_LOW_RANK_PROJECT_BACK] = 1e-4f,
    };
    for (int shape = 0; shape < SHAPES; shape++)
        for (int op = 0; op < YKI_LOW_RANK_OPS; op++)
            for (int feedback = 0; feedback < 2; feedback++) {
                problem cuda = make(shape, feedback), host = make(shape, feedback);
                run_on_both(&cuda, &host, (yki_low_rank_op)op);
                assert_same(&cuda, &host, tolerance[op]);
                free_problem(&cuda);
                free_problem(&host);
            }
}

/* More than a kernel takes, of all shapes. */
YK_TEST(factors_of_many_matrices_are_orthonormalised_together)
{
    enum { MATRICES = 2 * YKI_CUDA_LOW_RANK_MATRICES + 3 };
    for (int op = YKI_LOW_RANK_ORTHONORMALISE_P; op <= YKI_LOW_RANK_ORTHONORMALISE_Q; op++) {
        problem cuda[MATRICES], host[MATRICES];
        yki_low_rank matrices[MATRICES];
        yki_device *device;
        assert_ok(sim_device_type.create(&device, &(yki_device_options){.threads = 1}));
        for (int i = 0; i < MATRICES; i++) {
            cuda[i] = make(i % SHAPES, false);
            host[i] = make(i % SHAPES, false);
            matrices[i] = cuda[i].at;
            run_on_cuda(&host[i], (yki_low_rank_op)op);
        }
        yki_low_rank_args args = args_of(&cuda[0], (yki_low_rank_op)op);
        args.matrices = matrices;
        args.matrix_count = MATRICES;
        uint64_t before = sim_device_launches();
        assert_ok(sim_device_type.low_rank(device, &args));
        assert_int_equal(sim_device_launches() - before, 3);
        for (int i = 0; i < MATRICES; i++) {
            assert_same(&cuda[i], &host[i], 0);
            free_problem(&cuda[i]);
            free_problem(&host[i]);
        }
        sim_device_type.destroy(device);
    }
}

/* The draws of a step, and what an earlier one has left. */
YK_TEST(factors_are_drawn_unless_they_are_warm)
{
    for (int warm = 0; warm < 2; warm++)
        for (int always = 0; always < 2; always++) {
            problem it = make(1, false), untouched = make(1, false);
            it.warm = (uint8_t)warm;
            yki_low_rank_args args = args_of(&it, YKI_LOW_RANK_BEGIN);
            args.always_draws = always;
            yki_device *device;
            assert_ok(sim_device_type.create(&device, &(yki_device_options){.threads = 1}));
            assert_ok(sim_device_type.low_rank(device, &args));
            bool drawn = !warm || always;
            for (int i = 0; i < 18 * 2; i++)
                assert_true(it.at.q[i] ==
                            (drawn ? yki_low_rank_draw(99, 3, (uint64_t)i) : untouched.at.q[i]));
            sim_device_type.destroy(device);
            free_problem(&it);
            free_problem(&untouched);
        }
}

YK_TEST(a_spoilt_step_leaves_no_trace)
{
    problem it = make(2, true);
    it.bad = 1;
    it.warm = 1;
    run_on_cuda(&it, YKI_LOW_RANK_APPROXIMATE);
    run_on_cuda(&it, YKI_LOW_RANK_END);
    for (int i = 0; i < 300 * 7; i++)
        assert_true(isnan(it.at.matrix[i]) && it.at.error[i] == 0);
    assert_int_equal(it.warm, 0);
    assert_int_equal(it.count, 5);
    free_problem(&it);
}

static const yki_low_rank_op step[] = {YKI_LOW_RANK_BEGIN,        YKI_LOW_RANK_ORTHONORMALISE_Q,
                                       YKI_LOW_RANK_PROJECT,      YKI_LOW_RANK_ORTHONORMALISE_P,
                                       YKI_LOW_RANK_PROJECT_BACK, YKI_LOW_RANK_APPROXIMATE,
                                       YKI_LOW_RANK_END};

/* Whatever the order of threads. */
YK_TEST(steps_repeat_their_bits)
{
    problem first = make(4, true);
    for (uint64_t seed = 20; seed < 23; seed++) {
        problem again = make(4, true);
        sim_device_seed(seed);
        for (size_t i = 0; i < sizeof step / sizeof *step; i++) {
            run_on_cuda(&again, step[i]);
            if (seed == 20)
                run_on_cuda(&first, step[i]);
        }
        assert_same(&again, &first, 0);
        assert_int_equal(again.warm, 1);
        free_problem(&again);
    }
    free_problem(&first);
}

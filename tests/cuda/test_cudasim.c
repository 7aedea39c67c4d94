/* The simulator itself: correct kernels run in any order, and faulty ones are found (faulty.cu). */
#include <math.h>

#include "arguments.h"
#include "harness.h"
#include "simulator.h"

typedef struct faulty_args {
    const double *x;
    double *out;
    int fault;
} faulty_args;

enum { SEEDS = 40 };
static double x[YKI_CUDA_THREADS], total;

static void fill(void)
{
    total = 0;
    for (int i = 0; i < YKI_CUDA_THREADS; i++)
        total += x[i] = i % 17;
}

static const char *launch(const char *kernel, int fault, uint64_t seed, double *out)
{
    const unsigned one[3] = {1, 1, 1};
    faulty_args args = {.x = x, .fault = fault};
    args.out = out;
    assert_non_null(yk_sim_find(kernel));
    return yk_sim_launch(yk_sim_find(kernel), one, &args, sizeof args, seed);
}

YK_TEST(removed_barrier_gives_wrong_sums)
{
    int wrong = 0;
    fill();
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        double right = -1, faulty = -1;
        assert_null(launch("faulty_total", 0, seed, &right));
        assert_true(right == total);
        assert_null(launch("faulty_total", 1, seed, &faulty));
        wrong += faulty != total;
    }
    assert_true(wrong > SEEDS / 2);
}

YK_TEST(divergent_barriers_are_errors)
{
    double out = 0;
    assert_null(launch("faulty_barrier", 0, 1, &out));
    const char *error = launch("faulty_barrier", 1, 1, &out);
    assert_non_null(error);
    assert_contains(error, "another thread has left the kernel");
    error = launch("faulty_barrier", 2, 1, &out);
    assert_non_null(error);
    assert_contains(error, "another thread waits at another place");
    assert_contains(error, "faulty.cu");
}

YK_TEST(divergent_exchanges_are_errors)
{
    double out = 0;
    assert_null(launch("faulty_shuffle", 0, 1, &out));
    assert_true(out == 32);
    const char *error = launch("faulty_shuffle", 1, 1, &out);
    assert_non_null(error);
    assert_contains(error, "other threads wait elsewhere");
    assert_null(launch("faulty_shuffle", 0, 1, &out)); /* after an error, all is as before */
}

YK_TEST(tensor_cores_multiply_matrices_that_are_aligned)
{
    double out = -1;
    assert_null(launch("faulty_matrix", 0, 1, &out));
    assert_true(out == 0);
    const char *error = launch("faulty_matrix", 1, 1, &out);
    assert_non_null(error);
    assert_contains(error, "does not begin at a multiple of 16 bytes");
}

YK_TEST(shared_memory_begins_as_nan)
{
    double out = 0;
    fill();
    assert_null(launch("faulty_unwritten", 0, 1, &out));
    assert_true(out == total);
    assert_null(launch("faulty_unwritten", 1, 1, &out));
    assert_true(isnan(out));
}

YK_TEST(orders_differ_and_repeat)
{
    double first[SEEDS], again;
    int different = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        first[seed] = again = -1;
        assert_null(launch("faulty_first", 0, seed, &first[seed]));
        assert_null(launch("faulty_first", 0, seed, &again));
        assert_true(again == first[seed]);
        different += first[seed] != first[0];
    }
    assert_true(different > SEEDS / 2);
}

YK_TEST(launches_that_a_gpu_refuses_are_errors)
{
    const unsigned one[3] = {1, 1, 1}, none[3] = {0, 1, 1};
    const unsigned wide[3] = {1u << 31, 1, 1}, high[3] = {1, 65536, 1}, deep[3] = {1, 1, 65536};
    faulty_args args = {x, &total, 0};
    const yk_sim_kernel *kernel = yk_sim_find("faulty_total");
    assert_non_null(yk_sim_launch(kernel, one, &args, sizeof args - 8, 1));
    assert_non_null(yk_sim_launch(kernel, none, &args, sizeof args, 1));
    assert_non_null(yk_sim_launch(kernel, wide, &args, sizeof args, 1));
    assert_non_null(yk_sim_launch(kernel, high, &args, sizeof args, 1));
    assert_non_null(yk_sim_launch(kernel, deep, &args, sizeof args, 1));
    assert_null(yk_sim_find("no_such_kernel"));
}

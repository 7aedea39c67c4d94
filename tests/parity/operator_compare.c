/* See operator_compare.h. */
#define _GNU_SOURCE
#include "operator_compare.h"

#include "harness.h"
#include "pytorch.h"

enum { CASES = 200, DIRECT = false, WINOGRAD = true };

/* Runs all cases on the device and writes them to the file. */
static void run_cases(const char *device_name, bool winograd, uint64_t seed, operator_build build,
                      const char *path)
{
    static operator_case cases[CASES];
    FILE *stream = fopen(path, "wb");
    assert_non_null(stream);
    yki_pth_writer *file;
    assert_ok(yki_pth_writer_create(&file, fileno(stream), path));
    yki_pickle_writer *pickle = yki_pth_pickle(file);
    yki_pickle_list(pickle);
    yki_pickle_mark(pickle);
    for (int i = 0; i < CASES; i++) {
        yki_device *device;
        assert_ok(yki_device_create(&device, device_name,
                                    &(yki_device_options){.threads = 1, .winograd = winograd}));
        if (device->type->enter)
            device->type->enter(device);
        operator_case_init(&cases[i], seed * CASES + (uint64_t)i, build);
        operator_case_run(&cases[i], device);
        operator_case_write(&cases[i], file);
        yki_device_destroy(device);
    }
    yki_pickle_appends(pickle);
    assert_ok(yki_pth_writer_finish(file));
    assert_int_equal(fclose(stream), 0);
    for (int i = 0; i < CASES; i++)
        operator_case_fini(&cases[i]);
}

void operator_compare_within(const char *operator, double tolerance, uint64_t seed,
                             operator_build build)
{
    char ref[128], cpu[128];
    snprintf(ref, sizeof ref, "%s/ref.pth", yk_test_directory());
    snprintf(cpu, sizeof cpu, "%s/cpu.pth", yk_test_directory());
    run_cases("ref", DIRECT, seed, build, ref);
    run_cases("cpu", DIRECT, seed, build, cpu);
    pytorch_judges("operators.py", "%s %g ref %s cpu %s", operator, tolerance, ref, cpu);
}

void operator_compare(const char *operator, uint64_t seed, operator_build build)
{
    operator_compare_within(operator, 1e-5, seed, build);
}

void operator_compare_winograd(uint64_t seed, operator_build build)
{
    char path[128];
    snprintf(path, sizeof path, "%s/winograd.pth", yk_test_directory());
    run_cases("cpu", WINOGRAD, seed, build, path);
    pytorch_judges("operators.py", "conv2d 1e-3 cpu-winograd %s", path);
}

/* ---- operands ------------------------------------------------------------------------------- */

yk_value *operator_input(operator_case *c, const char *name, int ndim, const int64_t *dims)
{
    return yk_input(c->graph, name, YK_F32, ndim, dims);
}

yk_value *operator_parameter(operator_case *c, const char *name, int ndim, const int64_t *dims)
{
    return yk_parameter(c->graph, name, YK_F32, ndim, dims, YK_INIT_ZEROS, 0);
}

yk_value *operator_image(operator_case *c, int64_t least_side)
{
    operator_dice *dice = &c->dice;
    int64_t dims[] = {operator_between(dice, 1, 5), operator_between(dice, 1, 50),
                      operator_between(dice, least_side, 14),
                      operator_between(dice, least_side, 14)};
    return operator_input(c, "x", 4, dims);
}

yk_value *operator_image_or_features(operator_case *c)
{
    if (!operator_once_in(&c->dice, 3))
        return operator_image(c, 1);
    return operator_input(
        c, "x", 2,
        (int64_t[]){operator_between(&c->dice, 2, 40), operator_between(&c->dice, 1, 70)});
}

yk_value *operator_above(operator_case *c)
{
    operator_dice *dice = &c->dice;
    int64_t dims[] = {operator_between(dice, 1, 5), operator_between(dice, 1, 50),
                      operator_between(dice, 1, 14), operator_between(dice, 1, 14)};
    return operator_input(c, "above", 4, dims);
}

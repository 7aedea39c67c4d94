/* `yoke bench step`: its line, the table of --profile, and the same as JSON. */
#define _GNU_SOURCE
#include "../launcher/job.h"
#include "json_file.h"

#include <math.h>

#include "bench/profile.h"

static char output[32 * 1024];

static int bench(const char *options)
{
    return yk_test_command(output, sizeof output,
                           "cd %s && %s bench step --arch mlp --batch-size 16 --image-size 8 "
                           "--threads 1 --steps 3 %s",
                           yk_test_directory(), test_program(), options);
}

YK_TEST(step_writes_its_result_as_json)
{
    assert_int_equal(bench("--json step.json"), 0);
    assert_contains(output, "mlp, f32, batch 16 = 1 x 16");
    cJSON *json = read_json("step.json");
    assert_true(number(json, "images_per_s") > 0 && number(json, "step_ms") > 0);
    assert_int_equal((int)number(json, "batch_size"), 16);
    assert_null(cJSON_GetObjectItemCaseSensitive(json, "kernels"));
    cJSON_Delete(json);
}

/* Waiting for ranks and exposed communication apart, and the latter next to what memory allows. */
YK_TEST(step_of_two_ranks_shows_the_bound_of_its_communication)
{
    assert_int_equal(bench("--nproc 2 --json step.json"), 0);
    assert_contains(output, ", waiting for ranks ");
    assert_contains(output, ", exposed communication ");
    assert_contains(output, "takes the memory of this machine at least ");
    cJSON *json = read_json("step.json");
    double exposed = number(json, "exposed_ms");
    assert_true(exposed >= 0 && exposed < number(json, "step_ms"));
    assert_true(number(json, "waiting_ms") >= 0);
    assert_true(number(json, "gradient_bytes") > 0 && number(json, "communication_bound_ms") > 0);
    cJSON_Delete(json);
}

YK_TEST(profile_shows_where_a_step_goes)
{
    assert_int_equal(bench("--profile --json step.json"), 0);
    assert_contains(output, "Limits of 1 thread, measured: ");
    assert_contains(output, "  linear_backward_weight 16x");
    assert_contains(output, "optimizer, communication and all else\n");
    cJSON *json = read_json("step.json"), *kernel;
    const cJSON *limits = cJSON_GetObjectItemCaseSensitive(json, "limits");
    double flop_s = number(limits, "flop_s"), bytes_s = number(limits, "bytes_s"), sum = 0;
    assert_true(flop_s > 0 && bytes_s > 0);
    cJSON_ArrayForEach(kernel, cJSON_GetObjectItemCaseSensitive(json, "kernels"))
    {
        bool matrix_unit = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(kernel, "matrix_unit"));
        double peak = matrix_unit ? number(limits, "matrix_flop_s") : flop_s;
        double compute = number(kernel, "computed_flop") / peak;
        double memory = number(kernel, "bytes") / bytes_s;
        double bound = compute > memory ? compute : memory;
        assert_true(fabs(1e3 * bound - number(kernel, "bound_ms")) <= 2e-3 * bound * 1e3);
        sum += number(kernel, "ms");
    }
    assert_true(sum > 0 && sum <= number(json, "mean_ms"));
    cJSON_Delete(json);
}

/* The bound of a row is that of its algorithm: one row for each, whatever else they share. */
YK_TEST(a_row_of_the_profile_is_of_one_algorithm)
{
    yk_kernel_profile rows[3];
    const yk_kernel_profile direct = {.op = "conv2d",
                                      .shape = "1x64x8x8 -> 1x64x8x8",
                                      .runs = 2,
                                      .seconds = 0.5,
                                      .flop = 9,
                                      .computed = 9,
                                      .bytes = 7};
    yk_kernel_profile winograd = direct;
    winograd.computed = 4;
    size_t count = cli_profile_add(rows, 0, &direct);
    count = cli_profile_add(rows, count, &winograd);
    assert_int_equal(cli_profile_add(rows, count, &direct), 2);
    assert_int_equal(rows[0].runs, 4);
    assert_true(rows[0].seconds == 1);
    assert_int_equal(rows[1].runs, 2);
    assert_true(rows[1].computed == 4);
}

YK_TEST(profile_without_limits_has_no_bounds)
{
    assert_int_equal(bench("--profile --json step.json --device ref"), 0);
    assert_contains(output, "there are no bounds");
    cJSON *json = read_json("step.json");
    assert_true(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(json, "limits")));
    const cJSON *kernels = cJSON_GetObjectItemCaseSensitive(json, "kernels");
    const cJSON *first = cJSON_GetArrayItem(kernels, 0);
    assert_true(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(first, "bound_ms")));
    cJSON_Delete(json);
}

YK_TEST(profile_of_an_asynchronous_device_is_refused)
{
    assert_int_equal(bench("--profile --device sim"), 1);
    assert_contains(output, "computes asynchronously");
}

YK_TEST(a_file_that_cannot_be_written_is_refused_first)
{
    assert_int_equal(bench("--json /nowhere/step.json"), 2);
    assert_contains(output, "/nowhere");
}

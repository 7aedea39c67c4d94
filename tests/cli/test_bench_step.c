/* `yoke bench step`: its line, the table of --profile, and the same as JSON. */
#define _GNU_SOURCE
#include "../launcher/job.h"
#include "json_file.h"

#include <math.h>
#include <unistd.h>

#include "bench/profile.h"
#include "common/median.h"

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
    assert_true(sum > 0 && sum <= number(json, "trimmed_ms"));
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

/* ---- runs that something else holds up ------------------------------------------------------- */

enum { STALL_US = 200000, PROFILED = 8, STALLED = 2 };

/* Does nothing, but takes long in one run. */
static yk_status pass_or_stall(const yk_operator_run *run)
{
    static int runs;
    if (++runs == STALLED)
        usleep(STALL_US);
    memcpy(run->outputs[0].data, run->inputs[0].data, yk_tensor_bytes(&run->inputs[0]));
    return YK_OK;
}

static yk_model *stalling_model(void)
{
    static const yk_operator_kernel kernel = {.size = sizeof kernel, .run = pass_or_stall};
    static const yk_operator stalls = {.size = sizeof stalls,
                                       .name = "stalls",
                                       .input_count = 1,
                                       .output_count = 1,
                                       .inputs = {{.name = "input", .is_activation = true}},
                                       .ref = &kernel};
    yk_model *model;
    yk_value *x = yk_input(yk_graph_create(), "x", YK_F32, 2, (int64_t[]){YK_BATCH, 8});
    x = yk_operator_apply(&stalls, NULL, &x, NULL);
    assert_ok(yk_model_create(&model, NULL,
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.logits = x)));
    return model;
}

static void forward(yk_model *model)
{
    static float values[16];
    static const char *const names[] = {"x"};
    const yk_tensor tensor = {.data = values, .dtype = YK_F32, .ndim = 2, .dims = {2, 8}};
    assert_ok(yk_model_forward(
        model, &(yk_batch){.size = 2, .count = 1, .names = names, .tensors = &tensor}));
}

static cJSON *profile_as_json(const cli_step_result *result)
{
    char path[256];
    snprintf(path, sizeof path, "%s/step.json", yk_test_directory());
    assert_true(cli_step_write_json(result, path));
    return read_json("step.json");
}

YK_TEST(a_run_that_was_held_up_does_not_count)
{
    yk_model *model = stalling_model();
    assert_ok(yk_model_profile_begin(model));
    for (int i = 0; i < PROFILED; i++)
        forward(model);
    assert_ok(yk_model_profile_end(model));
    cJSON *json = profile_as_json(&(cli_step_result){.arch = "net",
                                                     .amp = "off",
                                                     .steps = PROFILED,
                                                     .step_ms = 1,
                                                     .model = model,
                                                     .profiled = true});
    const cJSON *kernels = cJSON_GetObjectItemCaseSensitive(json, "kernels");
    double ms = number(cJSON_GetArrayItem(kernels, 0), "ms");
    assert_true(ms > 0 && ms < 1e-3 * STALL_US / PROFILED);
    cJSON_Delete(json);
    yk_model_destroy(model);
}

/* Whatever is held up when. */
YK_TEST(parts_add_up_to_at_most_the_whole)
{
    double a[] = {1, 9, 1, 1, 1}, b[] = {2, 2, 2, 7, 8}, whole[] = {3, 11, 3, 8, 9};
    assert_true(cli_take_trimmed_mean(a, 5) == 1);
    assert_true(cli_take_trimmed_mean(b, 5) == 13 / 4.0);
    assert_true(cli_take_trimmed_mean(whole, 5) == 23 / 4.0);
    assert_true(isnan(cli_take_trimmed_mean(whole, 0)));
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

YK_TEST(profile_of_an_asynchronous_device_has_its_times)
{
    static const char *const lines[] = {"--profile --device sim --json step.json",
                                        "--profile --device sim --json step.json --nproc 2"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(bench(lines[i]), 0);
        assert_contains(output, "there are no bounds");
        assert_contains(output, "  linear_backward_weight ");
        cJSON *json = read_json("step.json");
        const cJSON *kernel, *kernels = cJSON_GetObjectItemCaseSensitive(json, "kernels");
        assert_true(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(json, "limits")));
        assert_true(cJSON_GetArraySize(kernels) > 5);
        cJSON_ArrayForEach(kernel, kernels) assert_true(number(kernel, "ms") > 0);
        cJSON_Delete(json);
    }
}

/* Memory bounds what does not multiply, whatever is known of arithmetic. */
YK_TEST(a_bound_needs_the_limits_that_count)
{
    yk_model *model;
    yk_value *x = yk_input(yk_graph_create(), "x", YK_F32, 2, (int64_t[]){YK_BATCH, 8});
    x = yk_relu(yk_nn_linear(x, "fc", 4));
    assert_ok(yk_model_create(&model, NULL,
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.logits = x)));
    assert_ok(yk_model_profile_begin(model));
    forward(model);
    assert_ok(yk_model_profile_end(model));
    const cli_step_result result = {.arch = "net",
                                    .amp = "off",
                                    .steps = 1,
                                    .step_ms = 1,
                                    .model = model,
                                    .profiled = true,
                                    .limits = {.bytes_s = 1e9}};
    cJSON *json = profile_as_json(&result), *kernel;
    cJSON_ArrayForEach(kernel, cJSON_GetObjectItemCaseSensitive(json, "kernels"))
    {
        bool multiplies = number(kernel, "flop") > 0;
        const cJSON *bound = cJSON_GetObjectItemCaseSensitive(kernel, "bound_ms");
        assert_int_equal(multiplies, cJSON_IsNull(bound));
    }
    cJSON_Delete(json);
    yk_model_destroy(model);
}

YK_TEST(a_file_that_cannot_be_written_is_refused_first)
{
    assert_int_equal(bench("--json /nowhere/step.json"), 2);
    assert_contains(output, "/nowhere");
}

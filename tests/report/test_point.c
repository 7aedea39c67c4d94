/* Numbers keep their point in a program that has set a locale with a decimal comma for itself. */
#define _GNU_SOURCE
#include "mlp.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include <yoke/transforms.h>

#include "base/environment.h"
#include "device/plan_cache.h"

/* Makes the locale, as few machines have one installed; skips where even that cannot be had. */
static void set_decimal_comma(void)
{
    char output[4096];
    int code = yk_test_command(output, sizeof output, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8",
                               yk_test_directory());
    setenv("LOCPATH", yk_test_directory(), 1);
    if (code != 0 || !setlocale(LC_ALL, "de_DE.UTF-8"))
        skip_because("no German locale (package locales): %s", output);
    snprintf(output, sizeof output, "%.1f", 0.5);
    assert_string_equal(output, "0,5");
}

static cJSON *read_json(const char *name)
{
    char text[65536];
    yk_test_read_file(text, sizeof text, yk_test_path(name));
    cJSON *json = strchr(text, ',') ? cJSON_Parse(text) : NULL;
    if (!json)
        fail_msg("no JSON: \"%.500s\"", text);
    return json;
}

YK_TEST(point_in_metrics)
{
    set_decimal_comma();
    yk_metrics *metrics;
    assert_ok(yk_metrics_open(&metrics, yk_test_path("metrics.jsonl")));
    assert_ok(yk_metrics_step(metrics, &(yk_step_record){.epoch = 1, .step = 1, .loss = 0.5}));
    yk_metrics_close(metrics);
    setlocale(LC_ALL, "C");
    cJSON *record = read_json("metrics.jsonl");
    assert_true(cJSON_GetObjectItem(record, "loss")->valuedouble == 0.5);
    cJSON_Delete(record);
}

YK_TEST(point_in_a_timeline)
{
    set_decimal_comma();
    yk_trace *trace;
    assert_ok(yk_trace_open(&trace, yk_test_path("trace.json"), NULL, NULL));
    yk_trace_step_begin(trace, 1);
    yk_trace_step_end(trace);
    assert_ok(yk_trace_close(trace));
    setlocale(LC_ALL, "C");
    cJSON_Delete(read_json("trace.json"));
}

YK_TEST(point_in_the_environment)
{
    set_decimal_comma();
    double value = 0;
    bool found;
    setenv("YOKE_TIMEOUT", "0.5", 1);
    assert_ok(yki_env_double("YOKE_TIMEOUT", 0, 10, &value, &found));
    assert_true(found && value == 0.5);
    char text[8];
    snprintf(text, sizeof text, "%.1f", value);
    assert_string_equal(text, "0,5"); /* the program's own numbers are left alone */
}

static void find_lr(void *context, const char *name, const char *value)
{
    if (strcmp(name, "optimizer.param_groups[0].lr") == 0)
        snprintf(context, 16, "%s", value);
}

YK_TEST(point_in_checkpoints)
{
    set_decimal_comma();
    yk_model *model = test_mlp();
    yk_optimizer *sgd;
    assert_ok(yk_sgd_create(&sgd, model, YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.5)));
    yk_training_state place = {.arch = "mlp", .epoch = 1, .step = 1};
    assert_ok(yk_checkpoint_dir_save(yk_test_path("run"), model, sgd, &place, YK_KEEP_ALL));
    char path[512], lr[16] = "";
    assert_ok(yk_checkpoint_dir_latest(yk_test_path("run"), path, sizeof path));
    assert_contains(path, "checkpoint-1.pth");
    yk_tensor_file *file;
    assert_ok(yk_tensor_file_open(&file, path));
    yk_tensor_file_items(file, find_lr, lr);
    assert_string_equal(lr, "0.5");
    yk_tensor_file_close(file);
    yk_optimizer_destroy(sgd);
    yk_model_destroy(model);
    setlocale(LC_ALL, "C");
    cJSON_Delete(read_json("run/manifest.json"));
}

YK_TEST(point_in_transforms)
{
    set_decimal_comma();
    yk_transforms *list;
    assert_ok(yk_transforms_parse(&list, "Normalize(mean=0.5,std=0.25)"));
    assert_true(yk_transforms_step(list, 0)->normalize.mean[0] == 0.5);
    assert_string_equal(yk_transforms_text(list), "Normalize(0.5,std=0.25)");
    yk_transforms_destroy(list);
}

/* Programs of all locales share them. */
YK_TEST(point_in_plans)
{
    set_decimal_comma();
    double microseconds;
    yki_plan_cache_write(yk_test_directory(), "problem", 2.5, "plan");
    setlocale(LC_ALL, "C");
    char *plan = yki_plan_cache_read(yk_test_directory(), "problem", &microseconds);
    assert_non_null(plan);
    assert_string_equal(plan, "plan");
    assert_true(microseconds == 2.5);
    free(plan);
}

/* The file for Prometheus: its text, and that it is always whole. */
#define _GNU_SOURCE
#include "harness.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *file_path(void)
{
    return yk_test_path("sub/x.prom");
}

static const char *file_text(void)
{
    static char text[1 << 18];
    return yk_test_read_file(text, sizeof text, file_path());
}

static const yk_header_record header = {
    .arch = "mlp", .data = "a\\b", .ranks = 2, .batch_size = 64};

/* Every line is a comment or a sample with its labels and its value. */
static void check_lines(const char *text)
{
    char name[64], value[64];
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        assert_non_null(strchr(line, '\n'));
        if (strncmp(line, "# HELP yoke_", 12) == 0 || strncmp(line, "# TYPE yoke_", 12) == 0)
            continue;
        assert_int_equal(sscanf(line, "%63[a-z_]{run=%*[^\n}]} %63s", name, value), 2);
        char *end;
        strtod(value, &end);
        assert_int_equal(*end, '\0');
    }
}

YK_TEST(prometheus_file_has_every_value)
{
    yk_prometheus *prometheus;
    assert_ok(yk_prometheus_open(&prometheus, file_path(), "runs/\"a\"\n", &header));
    assert_contains(file_text(), "yoke_ranks{run=\"runs/\\\"a\\\"\\n\"} 2\n");
    assert_ok(yk_prometheus_step(
        prometheus,
        &(yk_step_record){.epoch = 1, .step = 7, .loss = 0.5, .scale = 2, .skipped = true}));
    assert_ok(yk_prometheus_epoch(
        prometheus, &(yk_epoch_record){.epoch = 1, .val_loss = -INFINITY, .val_accuracy = 0.25}));
    yk_prometheus_close(prometheus);
    const char *text = file_text();
    check_lines(text);
    assert_contains(text, "arch=\"mlp\",data=\"a\\\\b\",version=\"");
    assert_contains(text, "# TYPE yoke_steps_total counter\nyoke_steps_total{");
    assert_contains(text, "} 7\n");
    assert_contains(text, "yoke_validation_loss{run=\"runs/\\\"a\\\"\\n\"} -Inf\n");
    assert_contains(text, "yoke_validation_accuracy{run=\"runs/\\\"a\\\"\\n\"} 0.25\n");
    assert_contains(text, "yoke_step_seconds{run=\"runs/\\\"a\\\"\\n\",part=\"data\"} 0\n");
    assert_contains(text, "yoke_skipped_steps_total{run=\"runs/\\\"a\\\"\\n\"} 1\n");
}

/* Each sample has the label, and the file stays whole. */
YK_TEST(a_run_may_have_a_long_name)
{
    static char run[4096];
    yk_prometheus *prometheus;
    memset(run, 'r', sizeof run - 1);
    assert_ok(yk_prometheus_open(&prometheus, file_path(), run, &header));
    assert_ok(yk_prometheus_step(prometheus, &(yk_step_record){.epoch = 1, .step = 7}));
    assert_ok(yk_prometheus_epoch(prometheus, &(yk_epoch_record){.epoch = 1}));
    yk_prometheus_close(prometheus);
    const char *text = file_text();
    check_lines(text);
    assert_contains(text, run);
    assert_contains(text, "\nyoke_updated_timestamp_seconds{");
}

/* Prometheus refuses a whole file for a label that is not UTF-8. */
YK_TEST(labels_are_utf8)
{
    const yk_header_record odd = {.arch = "mlp", .data = "/\xff/\xc3\xa9"};
    yk_prometheus *prometheus;
    assert_ok(yk_prometheus_open(&prometheus, file_path(), "a\xe4\"", &odd));
    yk_prometheus_close(prometheus);
    assert_contains(file_text(), "yoke_run_info{run=\"a\\\\xe4\\\"\",arch=\"mlp\","
                                 "data=\"/\\\\xff/\xc3\xa9\",version=");
}

YK_TEST(an_epoch_that_a_run_ends_within_is_not_completed)
{
    yk_prometheus *prometheus;
    assert_ok(yk_prometheus_open(&prometheus, file_path(), "a", &header));
    assert_ok(yk_prometheus_epoch(prometheus, &(yk_epoch_record){.epoch = 2}));
    assert_contains(file_text(), "yoke_epochs_completed{run=\"a\"} 2\n");
    assert_ok(yk_prometheus_epoch(prometheus, &(yk_epoch_record){.epoch = 3, .is_partial = true}));
    assert_contains(file_text(), "yoke_epochs_completed{run=\"a\"} 2\n");
    yk_prometheus_close(prometheus);
}

/* A run is not worth less because its monitoring is gone. */
YK_TEST(prometheus_file_that_goes_away_does_not_end_the_run)
{
    char command[512];
    yk_prometheus *prometheus = (yk_prometheus *)1;
    assert_status(YK_ERROR_IO, yk_prometheus_open(&prometheus, "/dev/null", "a", &header));
    assert_null(prometheus);
    assert_ok(yk_prometheus_open(&prometheus, file_path(), "a", &header));
    snprintf(command, sizeof command, "rm -r %s/sub", yk_test_directory());
    assert_int_equal(system(command), 0);
    assert_ok(yk_prometheus_epoch(prometheus, &(yk_epoch_record){.epoch = 1}));
    assert_ok(yk_prometheus_step(prometheus, &(yk_step_record){.step = 1}));
    yk_prometheus_close(prometheus);
    assert_int_not_equal(access(file_path(), F_OK), 0);
}

/* How often a text occurs in a file. */
static int count_in(const char *path, const char *text)
{
    static char all[1 << 14];
    int count = 0;
    for (const char *at = yk_test_read_file(all, sizeof all, path); (at = strstr(at, text)); at++)
        count++;
    return count;
}

/* In a run of weeks, a file that can be written again may get lost once more. */
YK_TEST(each_time_the_file_cannot_be_written_is_told_once)
{
    char command[512], log[256];
    yk_prometheus *prometheus;
    snprintf(log, sizeof log, "%s/log", yk_test_directory());
    snprintf(command, sizeof command, "rm -r %s/sub", yk_test_directory());
    assert_ok(yk_prometheus_open(&prometheus, file_path(), "a", &header));
    int fd = open(log, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600), kept = dup(STDERR_FILENO);
    assert_int_equal(dup2(fd, STDERR_FILENO), STDERR_FILENO);
    for (int time = 1; time <= 2; time++) {
        int code = system(command);
        for (int64_t epoch = 1; epoch <= 3; epoch++)
            yk_prometheus_epoch(prometheus, &(yk_epoch_record){.epoch = epoch});
        mkdir(yk_test_path("sub"), 0777);
        yk_prometheus_epoch(prometheus, &(yk_epoch_record){.epoch = 4});
        assert_int_equal(code, 0);
        assert_int_equal(count_in(log, "the run continues"), time);
    }
    dup2(kept, STDERR_FILENO);
    close(kept);
    close(fd);
    yk_prometheus_close(prometheus);
}

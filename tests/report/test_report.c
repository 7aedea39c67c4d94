/* metrics.jsonl: always valid JSON; torn lines and records after the resumed step are removed. */
#define _GNU_SOURCE
#include "disk.h"
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/json.h"

static const char *metrics_path(void)
{
    return yk_test_path("metrics.jsonl");
}

static void write_steps(int64_t first, int64_t last)
{
    yk_metrics *metrics;
    assert_ok(yk_metrics_open(&metrics, metrics_path()));
    for (int64_t step = first; step <= last; step++)
        assert_ok(
            yk_metrics_step(metrics, &(yk_step_record){.epoch = 1, .step = step, .loss = 0.5}));
    yk_metrics_close(metrics);
}

/* Every line must parse; returns how many there are and the last step. */
static int count_records(double *last_step)
{
    FILE *file = fopen(metrics_path(), "r");
    assert_non_null(file);
    char *line = NULL;
    size_t size = 0;
    int count = 0;
    while (getline(&line, &size, file) > 0) {
        cJSON *record = yki_json_parse(line);
        assert_non_null(record);
        *last_step = cJSON_GetObjectItem(record, "step")->valuedouble;
        cJSON_Delete(record);
        count++;
    }
    free(line);
    fclose(file);
    return count;
}

YK_TEST(report_metrics_append)
{
    double last;
    remove(metrics_path());
    write_steps(1, 3);
    write_steps(4, 5);
    assert_int_equal(count_records(&last), 5);
    assert_true(last == 5);
}

YK_TEST(report_metrics_cut_a_torn_line)
{
    double last;
    remove(metrics_path());
    write_steps(1, 2);
    FILE *file = fopen(metrics_path(), "a");
    fputs("{\"epoch\": 1, \"st", file);
    fclose(file);
    write_steps(3, 3);
    assert_int_equal(count_records(&last), 3);
    assert_true(last == 3);
}

YK_TEST(report_metrics_rewind)
{
    double last;
    remove(metrics_path());
    write_steps(1, 9);
    yk_metrics *metrics;
    assert_ok(yk_metrics_open(&metrics, metrics_path()));
    assert_ok(yk_metrics_rewind(metrics, 4, true));
    assert_ok(yk_metrics_step(metrics, &(yk_step_record){.epoch = 1, .step = 5}));
    yk_metrics_close(metrics);
    assert_int_equal(count_records(&last), 5);
    assert_true(last == 5);
}

/* The file of a run that has lasted for weeks is only read at its end: a line that would take ages
 * to read comes before. */
YK_TEST(report_metrics_rewind_reads_only_the_end)
{
    const off_t long_line = (off_t)1 << 40;
    struct stat before, after;
    remove(metrics_path());
    write_steps(1, 1);
    FILE *file = fopen(metrics_path(), "r+");
    assert_non_null(file);
    if (ftruncate(fileno(file), long_line) != 0)
        skip_because("no sparse files here");
    assert_int_equal(fseeko(file, 0, SEEK_END), 0);
    fputs("\n", file);
    fclose(file);
    write_steps(2, 4);
    assert_int_equal(stat(metrics_path(), &before), 0);
    write_steps(5, 9);
    yk_metrics *metrics;
    assert_ok(yk_metrics_open(&metrics, metrics_path()));
    assert_ok(yk_metrics_rewind(metrics, 4, true));
    yk_metrics_close(metrics);
    assert_int_equal(stat(metrics_path(), &after), 0);
    assert_int_equal(after.st_size, before.st_size);
}

YK_TEST(report_metrics_rewind_past_what_is_no_record)
{
    double last;
    remove(metrics_path());
    write_steps(1, 3);
    FILE *file = fopen(metrics_path(), "a");
    fputs("{\"note\": \"of step 3\", \"step\": null}\n", file);
    fclose(file);
    write_steps(4, 5);
    yk_metrics *metrics;
    assert_ok(yk_metrics_open(&metrics, metrics_path()));
    assert_ok(yk_metrics_epoch(metrics, &(yk_epoch_record){.step = 5}));
    assert_ok(yk_metrics_header(metrics, &(yk_header_record){.step = 5}));
    assert_ok(yk_metrics_rewind(metrics, 5, true));
    assert_int_equal(count_records(&last), 8);
    assert_ok(yk_metrics_rewind(metrics, 5, false)); /* the evaluation is due again */
    assert_int_equal(count_records(&last), 6);
    assert_ok(yk_metrics_rewind(metrics, 3, true));
    assert_int_equal(count_records(&last), 4);
    assert_ok(yk_metrics_rewind(metrics, 0, false));
    yk_metrics_close(metrics);
    assert_int_equal(count_records(&last), 0);
}

/* Steps that a float, or nine digits, do not tell apart. */
YK_TEST(report_metrics_keep_all_digits_of_a_step)
{
    const int64_t first = 123456789012;
    double last;
    remove(metrics_path());
    write_steps(first, first + 9);
    count_records(&last);
    assert_true(last == (double)(first + 9));
    yk_metrics *metrics;
    assert_ok(yk_metrics_open(&metrics, metrics_path()));
    assert_ok(yk_metrics_rewind(metrics, first + 4, true));
    yk_metrics_close(metrics);
    assert_int_equal(count_records(&last), 5);
}

/* A folder in the file's place opens, and cannot be read: no line may go because of that. */
YK_TEST(report_metrics_rewind_the_file_that_is_open)
{
    double last;
    char aside[160];
    yk_metrics *metrics;
    remove(metrics_path());
    write_steps(1, 9);
    assert_ok(yk_metrics_open(&metrics, metrics_path()));
    snprintf(aside, sizeof aside, "%s.aside", metrics_path());
    assert_int_equal(rename(metrics_path(), aside), 0);
    write_steps(1, 2); /* another file, of the same name */
    assert_ok(yk_metrics_rewind(metrics, 4, true));
    yk_metrics_close(metrics);
    assert_int_equal(count_records(&last), 2);
    assert_int_equal(rename(aside, metrics_path()), 0);
    assert_int_equal(count_records(&last), 4);
}

YK_TEST(report_metrics_write_nan_as_null)
{
    double last;
    remove(metrics_path());
    yk_metrics *metrics;
    assert_ok(yk_metrics_open(&metrics, metrics_path()));
    assert_ok(yk_metrics_step(metrics, &(yk_step_record){.step = 1, .loss = NAN}));
    assert_ok(yk_metrics_epoch(
        metrics, &(yk_epoch_record){.step = 1, .train_loss = INFINITY, .val_accuracy = 0.25}));
    yk_metrics_close(metrics);
    assert_int_equal(count_records(&last), 2);
}

/* Record `index` of the file at path, parsed; NULL where there is none. */
static cJSON *read_record(const char *path, int index)
{
    char *line = NULL;
    size_t size = 0;
    cJSON *record = NULL;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (getline(&line, &size, file) > 0 && index-- >= 0)
        if (index < 0)
            record = yki_json_parse(line);
    free(line);
    fclose(file);
    return record;
}

static void assert_text(const cJSON *record, const char *name, const char *text)
{
    cJSON *member = cJSON_GetObjectItemCaseSensitive(record, name);
    if (!cJSON_IsString(member))
        fail_msg("no text \"%s\"", name);
    assert_string_equal(yki_json_bytes(member), text);
}

static void assert_number(const cJSON *record, const char *name, double number)
{
    const cJSON *member = cJSON_GetObjectItemCaseSensitive(record, name);
    if (!cJSON_IsNumber(member))
        fail_msg("no number \"%s\"", name);
    assert_true(member->valuedouble == number);
}

/* "2026-03-01T12:00:00.250Z" */
static void assert_time(const cJSON *record)
{
    const cJSON *time = cJSON_GetObjectItemCaseSensitive(record, "time");
    int year, month, day, hour, minute, length = 0;
    double second;
    assert_true(cJSON_IsString(time));
    assert_int_equal(sscanf(time->valuestring, "%4d-%2d-%2dT%2d:%2d:%6lfZ%n", &year, &month, &day,
                            &hour, &minute, &second, &length),
                     6);
    assert_int_equal(length, 24);
    assert_true(year >= 2024 && second < 61);
}

YK_TEST(report_metrics_begin_with_a_header_and_name_their_types)
{
    static const char *const types[] = {"header", "step", "epoch", "header"};
    const yk_header_record header = {.arch = "mlp",
                                     .data = "synthetic",
                                     .options = "--lr=0.1\n--data=/tmp/\xff\"",
                                     .ranks = 4,
                                     .threads = 2,
                                     .batch_size = 128,
                                     .seed = UINT64_MAX,
                                     .step = 0};
    yk_metrics *metrics;
    assert_ok(yk_metrics_open(&metrics, metrics_path()));
    assert_ok(yk_metrics_header(metrics, &header));
    assert_ok(yk_metrics_step(metrics, &(yk_step_record){.epoch = 1, .step = 1}));
    assert_ok(yk_metrics_epoch(metrics, &(yk_epoch_record){.epoch = 1, .step = 1}));
    assert_ok(yk_metrics_header(metrics, &(yk_header_record){.step = 1})); /* resumed */
    yk_metrics_close(metrics);
    for (int i = 0; i < 4; i++) {
        cJSON *record = read_record(metrics_path(), i);
        assert_text(record, "type", types[i]);
        assert_time(record);
        if (i == 0) {
            assert_number(record, "format", 1);
            assert_text(record, "yoke", yk_version());
            assert_text(record, "arch", "mlp");
            assert_text(record, "data", "synthetic");
            assert_text(record, "options", header.options);
            assert_number(record, "ranks", 4);
            assert_number(record, "threads", 2);
            assert_number(record, "batch_size", 128);
            assert_number(record, "seed", 18446744073709551615.0);
        }
        if (i == 3)
            assert_false(cJSON_HasObjectItem(record, "arch"));
        assert_number(record, "step", i > 0);
        cJSON_Delete(record);
    }
}

/* ---- a file that is moved away while the run writes it --------------------------------------- */

static void assert_types(const char *path, const char *first, const char *second)
{
    cJSON *records[3] = {read_record(path, 0), read_record(path, 1), read_record(path, 2)};
    assert_text(records[0], "type", first);
    assert_text(records[1], "type", second);
    assert_null(records[2]);
    cJSON_Delete(records[0]);
    cJSON_Delete(records[1]);
}

YK_TEST(report_metrics_continue_after_their_folder_was_renamed_or_removed)
{
    char folder[128], path[160], moved[160], moved_path[192];
    yk_metrics *metrics;
    snprintf(folder, sizeof folder, "%s/run", yk_test_directory());
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    snprintf(moved, sizeof moved, "%s/moved", yk_test_directory());
    snprintf(moved_path, sizeof moved_path, "%s/metrics.jsonl", moved);
    assert_int_equal(mkdir(folder, 0777), 0);
    assert_ok(yk_metrics_open(&metrics, path));
    assert_ok(yk_metrics_header(metrics, &(yk_header_record){.arch = "mlp"}));
    assert_ok(yk_metrics_step(metrics, &(yk_step_record){.step = 1}));
    assert_int_equal(rename(folder, moved), 0);
    assert_ok(yk_metrics_step(metrics, &(yk_step_record){.step = 2}));
    assert_types(moved_path, "header", "step"); /* what was there stays */
    assert_types(path, "header", "step");

    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
    assert_ok(yk_metrics_epoch(metrics, &(yk_epoch_record){.step = 2}));
    assert_types(path, "header", "epoch");
    yk_metrics_close(metrics);
}

YK_TEST(report_metrics_create_their_folder)
{
    char path[160];
    yk_metrics *metrics;
    snprintf(path, sizeof path, "%s/runs/a/metrics.jsonl", yk_test_directory());
    assert_ok(yk_metrics_open(&metrics, path));
    assert_ok(yk_metrics_step(metrics, &(yk_step_record){.step = 1}));
    assert_ok(yk_metrics_epoch(metrics, &(yk_epoch_record){.step = 1}));
    assert_types(path, "step", "epoch");
    yk_metrics_close(metrics);
}

/* A run can only resume where its records can be written; otherwise the error names the file. */
YK_TEST(report_metrics_end_where_no_new_file_can_be_written)
{
    char aside[160];
    yk_metrics *metrics, *other;
    snprintf(aside, sizeof aside, "%s.aside", metrics_path());
    assert_ok(yk_metrics_open(&metrics, metrics_path()));
    assert_int_equal(rename(metrics_path(), aside), 0);
    assert_ok(yk_metrics_open(&other, metrics_path()));
    assert_status(YK_ERROR_IO, yk_metrics_step(metrics, &(yk_step_record){.step = 1}));
    assert_contains(yk_last_error(), "metrics.jsonl: another process is writing it");
    yk_metrics_close(other);
    assert_ok(yk_metrics_step(metrics, &(yk_step_record){.step = 1})); /* now it can */
    assert_int_equal(unlink(metrics_path()), 0);
    assert_int_equal(mkdir(metrics_path(), 0777), 0);
    assert_status(YK_ERROR_IO, yk_metrics_step(metrics, &(yk_step_record){.step = 2}));
    assert_contains(yk_last_error(), "metrics.jsonl: cannot open: Is a directory");
    yk_metrics_close(metrics);
}

YK_TEST(report_metrics_say_where_they_cannot_write)
{
    yk_metrics *metrics;
    assert_status(YK_ERROR_IO, yk_metrics_open(&metrics, "/dev/null/run/metrics.jsonl"));
    assert_null(metrics);
    assert_contains(yk_last_error(), "/dev/null/run");
}

/* A write that a limit cuts short: the reason is the limit's, not a guess. */
YK_TEST(report_metrics_say_why_they_cannot_write)
{
    yk_metrics *metrics;
    assert_ok(yk_metrics_open(&metrics, metrics_path()));
    assert_ok(yk_metrics_step(metrics, &(yk_step_record){.step = 1}));
    yk_test_limit_files(metrics_path(), 20);
    yk_status status = yk_metrics_step(metrics, &(yk_step_record){.step = 2});
    yk_test_limit_files(NULL, 0);
    assert_status(YK_ERROR_IO, status);
    assert_contains(yk_last_error(), "metrics.jsonl: cannot write: File too large");
    yk_metrics_close(metrics);
}

/* Two jobs that were given one output folder would mix their lines, and rewind each other's. */
YK_TEST(report_metrics_have_one_writer)
{
    yk_metrics *metrics, *second;
    assert_ok(yk_metrics_open(&metrics, metrics_path()));
    assert_status(YK_ERROR_IO, yk_metrics_open(&second, metrics_path()));
    assert_contains(yk_last_error(), "metrics.jsonl: another process is writing it");
    yk_metrics_close(metrics);
    assert_ok(yk_metrics_open(&second, metrics_path()));
    yk_metrics_close(second);
}

/* The attempt before may still be writing; its end is waited for, but not for ever. */
YK_TEST(report_metrics_can_wait_for_their_writer)
{
    yk_metrics *metrics;
    const char *path = metrics_path(); /* another in another process */
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t writer = yk_test_fork();
    if (writer == 0) {
        yk_status status = yk_metrics_open(&metrics, path);
        if (write(ready[1], "", 1) == 1)
            usleep(300000);
        _exit(status != YK_OK);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_status(YK_ERROR_IO, yk_metrics_open_within(&metrics, path, 0.01));
    assert_null(metrics);
    assert_ok(yk_metrics_open_within(&metrics, path, 60));
    assert_ok(yk_metrics_step(metrics, &(yk_step_record){.step = 1}));
    yk_metrics_close(metrics);
    int status;
    assert_int_equal(waitpid(writer, &status, 0), writer);
    assert_int_equal(status, 0);
    close(ready[0]);
    close(ready[1]);
}

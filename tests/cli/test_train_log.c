/* `yoke train --log-every N`: several steps in one record of metrics.jsonl. */
#define _GNU_SOURCE
#include "train_job.h"

#include <math.h>

/* 10 steps an epoch, of which the last is smaller. */
#define DATA "--epochs 2 --batch-size 520 "

static yk_metrics_history *history_of(const char *name)
{
    yk_metrics_history *history;
    assert_ok(yk_metrics_read(&history, path_of(name, "metrics.jsonl")));
    return history;
}

/* The steps after which there are records, as text. */
static const char *steps_of(const char *name)
{
    static char text[512];
    yk_metrics_history *h = history_of(name);
    size_t at = 0;
    int64_t last = 0;
    for (size_t i = 0; i < h->step_count; i++) {
        assert_int_equal(h->steps[i].step - h->steps[i].steps, last);
        last = h->steps[i].step;
        at +=
            (size_t)snprintf(text + at, sizeof text - at, "%s%lld", i ? " " : "", (long long)last);
    }
    yk_metrics_history_destroy(h);
    return text;
}

static double seconds_of(const yk_step_record *r)
{
    return r->data_s + r->compute_s + r->waiting_s + r->exposed_comm_s;
}

/* Single steps of the same run say what a record of several must say. */
static void assert_tells_of(const yk_step_record *record, const yk_metrics_history *single)
{
    double loss = 0, samples = 0, norm = 0;
    for (int64_t step = record->step - record->steps; step < record->step; step++) {
        const yk_step_record *one = &single->steps[step];
        double of_step = round(one->images_per_s * seconds_of(one));
        loss += one->loss * of_step;
        samples += of_step;
        norm += one->grad_norm;
    }
    const yk_step_record *last = &single->steps[record->step - 1];
    assert_float_equal(record->loss, loss / samples, 1e-6);
    assert_float_equal(record->grad_norm, norm / (double)record->steps, 1e-6);
    assert_float_equal(record->images_per_s * seconds_of(record), samples, 1e-3 * samples);
    assert_float_equal(record->lr, last->lr, 0);
    assert_int_equal(record->epoch, last->epoch);
}

YK_TEST(a_record_of_several_steps_has_their_means)
{
    static const char options[] = DATA "--clip-grad-norm 1 --schedule cosine --schedule-unit step ";
    char command[256];
    assert_int_equal(train("single", options), 0);
    snprintf(command, sizeof command, "%s --log-every 4", options);
    assert_int_equal(train("several", command), 0);
    assert_same_file("single", "several", "model.pth");
    assert_string_equal(steps_of("several"), "4 8 10 12 16 20");
    yk_metrics_history *single = history_of("single"), *several = history_of("several");
    assert_int_equal(several->epoch_count, 2);
    for (size_t i = 0; i < several->step_count; i++)
        assert_tells_of(&several->steps[i], single);
    yk_metrics_history_destroy(single);
    yk_metrics_history_destroy(several);
}

YK_TEST(no_record_reaches_across_a_checkpoint_or_the_end)
{
    assert_int_equal(train("a", DATA "--log-every 4 --save-every 6 --max-steps 15"), 0);
    assert_string_equal(steps_of("a"), "4 6 8 10 12 15");
}

/* The checkpoint remembers the option, and loses no step. */
YK_TEST(a_resumed_run_records_every_step_once)
{
    assert_int_equal(train("a", DATA "--log-every 4 --max-steps 7"), 0);
    assert_int_equal(train("a", DATA "--resume auto --max-steps 20"), 0);
    assert_string_equal(steps_of("a"), "4 7 8 10 12 16 20");
}

YK_TEST(tools_count_steps_not_records)
{
    char arguments[512];
    assert_int_equal(train("a", DATA "--log-every 100"), 0);
    assert_int_equal(train("b", DATA), 0);
    snprintf(arguments, sizeof arguments, "compare %1$s/a %1$s/b", yk_test_directory());
    test_job_start(&job, arguments);
    assert_int_equal(test_job_wait(&job, 60), 0);
    assert_contains(unwrapped(), "steps 20 20 ");
}

/* Lost lines are reported once, but not to a user who has closed stdout. */
YK_TEST(output_that_is_lost_is_said_once)
{
    const char *words = "cannot write to stdout: No space left on device; the run continues";
    assert_int_equal(train("text", "--max-steps 3 2>&1 >/dev/full"), 0);
    assert_contains(job.output, words);
    assert_null(strstr(strstr(job.output, words) + 1, words));
    assert_int_equal(train("json", "--max-steps 3 --json 2>&1 >/dev/full"), 0);
    assert_string_equal(job.output, "yoke: records cannot be printed: No space left on device; "
                                    "the run continues, and lines are lost\n");
    assert_int_equal(train("left", "--max-steps 3 --json 2>&1 >&-"), 0);
    assert_string_equal(job.output, "");
}

/* `yoke sweep`: every combination, in its own folder, with a table; a failed run is no end. */
#define _GNU_SOURCE
#include "harness.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

static char output[1 << 16];

#define QUICK "--data synthetic --arch mlp --max-steps 2 --batch-size 64 "

static int sweep(const char *arguments)
{
    return yk_test_command(output, sizeof output, "cd %s && %s sweep %s", yk_test_directory(),
                           getenv("YOKE_PROGRAM"), arguments);
}

static int exists(const char *path)
{
    char whole[512];
    snprintf(whole, sizeof whole, "%s/%s", yk_test_directory(), path);
    return access(whole, F_OK) == 0;
}

YK_TEST(sweep_trains_with_every_combination)
{
    assert_int_equal(sweep(QUICK "--lr 0.01,0.03 --momentum=0,0.9 -o s -j 2"), 0);
    assert_contains(output, "Sweep of 4 runs, 2 at a time, in s\n");
    assert_contains(output, "[4/4] lr-");
    assert_contains(output, "momentum  accuracy  val loss  train loss");
    assert_true(exists("s/lr-0.01_momentum-0/metrics.jsonl"));
    assert_true(exists("s/lr-0.03_momentum-0.9/metrics.jsonl"));
    assert_true(exists("s/lr-0.03_momentum-0.9.log"));
}

YK_TEST(sweep_takes_letters_with_their_values)
{
    assert_int_equal(sweep(QUICK "--lr 0.01,0.03 -os -j2"), 0);
    assert_contains(output, "Sweep of 2 runs, 2 at a time, in s\n");
    assert_true(exists("s/lr-0.01/metrics.jsonl"));
    /* As many ranks as there are cores: one run at a time. */
    assert_int_equal(sweep(QUICK "--lr 0.01,0.03 -o two -nauto"), 0);
    assert_contains(output, "Sweep of 2 runs, 1 at a time, in two\n");
}

YK_TEST(sweep_reads_names_as_train_does)
{
    assert_int_equal(sweep(QUICK "--lr 0.01,0.03 --no_winograd --batch_size=32 -o s -j 2"), 0);
    assert_contains(output, "Sweep of 2 runs, 2 at a time, in s\n");
    assert_int_equal(sweep("--lr 0.01,0.03 -"), 2);
    assert_contains(output, "yoke sweep: unknown option '-'");
}

YK_TEST(sweep_continues_after_a_failed_run)
{
    assert_int_equal(sweep(QUICK "--nesterov --momentum 0.9,0,0.5 --lr 0.01 -o s -j 1"), 1);
    assert_contains(output, "[2/3] momentum-0: failed after ");
    assert_contains(output, " (exit code 2): yoke train: --nesterov ");
    assert_contains(output, "[3/3] momentum-0.5: done");
    const char *table = strstr(output, "accuracy");
    assert_non_null(table);
    assert_contains(table, "failed\n");
    assert_true(strstr(table, "failed") > strstr(table, "done")); /* the best runs come first */
}

YK_TEST(sweep_refuses_what_it_cannot_do)
{
    assert_int_equal(sweep("--lr 0.1"), 2);
    assert_contains(output, "yoke sweep: no option has several values");
    assert_int_equal(sweep("--no-such 1,2"), 2);
    assert_contains(output, "yoke sweep: unknown option '--no-such'");
    assert_int_equal(sweep("--lr"), 2);
    assert_contains(output, "yoke sweep: --lr: missing value");
    assert_int_equal(sweep("--milestones 1,2"), 2); /* a list by itself */
    assert_contains(output, "no option has several values");
    /* Before any run is started. */
    assert_int_equal(sweep("--lr 0.1,0.2 --trace t.json -o s"), 2);
    assert_contains(output, "yoke sweep: --trace: all runs would write the same file");
    assert_int_equal(sweep("--lr 0.1,0.2 --metrics-file=m.prom -o s"), 2);
    assert_contains(output, "yoke sweep: --metrics-file: all runs would write the same file");
    for (int joined = 0; joined < 2; joined++) {
        assert_int_equal(sweep(joined ? "--lr 0.1,0.2 --recipe=list" : "--recipe list"), 2);
        assert_contains(output, "yoke sweep: --recipe list trains nothing: `yoke train --recipe");
    }
    assert_int_equal(sweep("--lr 0.1,fast -o s"), 2);
    assert_contains(output, "yoke sweep: --lr fast: expected a number from 0");
    assert_int_equal(sweep("--lr 0.1, -o s"), 2);
    assert_contains(output, "yoke sweep: --lr: its value is empty");
    assert_int_equal(sweep("--optimizer sgd,adamm -o s"), 2);
    assert_contains(output,
                    "yoke sweep: --optimizer adamm: did you mean adam? expected one of "
                    "sgd|adam|adamw|nadam|radam|adamax|adagrad|adadelta|rmsprop|lars|lamb|muon");
    assert_int_equal(sweep("--lr 0.1,0.2 --epochs ten -o s"), 2);
    assert_contains(output, "yoke sweep: --epochs ten: expected a number from 0.001");
    assert_int_equal(sweep("--lr 0.1,0.2,0.1 -o s"), 2); /* would share a folder */
    assert_contains(output, "yoke sweep: --lr has the value 0.1 twice");
    assert_int_equal(sweep("--lr 0.1,0.2 --lr 0.3,0.4 -o s"), 2);
    assert_contains(output, "yoke sweep: --lr has two lists of values: join them");
    assert_int_equal(sweep("--lr 0.1,0.2 --lr 0.3 -o s"), 2);
    assert_contains(output, "yoke sweep: --lr has a list of values and a single one: give one");
    assert_int_equal(sweep("--lr 0.1,0.2 --no-nesterov=true -o s"), 2);
    assert_contains(output, "yoke sweep: --no-nesterov takes no value");
    assert_int_equal(sweep("--lr $(printf 0.%0150d 1),1 --momentum $(printf 0.%0150d 1),0 -o s"),
                     2);
    assert_contains(output, "a run's name would have more than 240 bytes");
    assert_false(exists("s"));
}

/* As `yoke train` does, and whatever is in the way is said once, before any run. */
YK_TEST(sweep_makes_the_folder_that_it_is_given)
{
    assert_int_equal(sweep(QUICK "--lr 0.01,0.03 -o runs/deep/s"), 0);
    assert_true(exists("runs/deep/s/lr-0.03/metrics.jsonl"));
    yk_test_write_file(yk_test_path("file"), "", 0);
    assert_int_equal(sweep(QUICK "--lr 0.01,0.03 -o file"), 2);
    assert_string_equal(output, "yoke sweep: --output file: cannot create files there: Not a "
                                "directory (see yoke sweep --help)\n");
    assert_int_equal(sweep(QUICK "--lr 0.01,0.03 -o file/s"), 1);
    assert_string_equal(output, "yoke: cannot create the folder file/s: Not a directory\n");
}

YK_TEST(sweep_says_which_log_it_cannot_write)
{
    assert_int_equal(mkdir(yk_test_path("lr-0.01.log"), 0777), 0);
    assert_int_equal(sweep(QUICK "--lr 0.01,0.03 -o ."), 1);
    assert_contains(output, "yoke: ./lr-0.01.log: cannot create: Is a directory\n");
}

/* Of runs that have been killed, what they have recorded is shown. */
YK_TEST(sweep_names_the_signal_that_ended_a_run)
{
    int code = yk_test_command(
        output, sizeof output,
        "cd %s; %s sweep --data synthetic --arch mlp --epochs 1000 --lr 0.01,0.02,0.03 -o s -j 3 & "
        "for run in 0.01:KILL 0.02:ABRT 0.03:TERM; do "
        "until grep -q '\"type\": \"epoch\"' s/lr-${run%%:*}/metrics.jsonl 2>/dev/null; do "
        "sleep 0.1; done; kill -${run#*:} $(pgrep -P $! -f s/lr-${run%%:*}$); done; wait $!",
        yk_test_directory(), getenv("YOKE_PROGRAM"));
    assert_int_equal(code, 1);
    assert_contains(output, "lr-0.01: failed (SIGKILL) after ");
    assert_contains(output, " (exit code 137)");
    assert_contains(output, "lr-0.03: stopped after ");
    const char *table = strstr(output, "accuracy");
    assert_non_null(table);
    assert_contains(table, "  failed (SIGKILL)\n");
    assert_contains(table, "  failed (SIGABRT)\n");
    assert_contains(table, "  stopped\n");
    assert_null(strstr(table, "-  failed"));
}

YK_TEST(sweep_shows_no_results_of_an_earlier_sweep)
{
    assert_int_equal(sweep(QUICK "--lr 0.01,0.03 -o s"), 0);
    assert_int_equal(sweep(QUICK "--lr 0.01,0.03 -o s"), 1);
    assert_contains(output, "already contains the checkpoint");
    const char *table = strstr(output, "accuracy");
    assert_non_null(table);
    assert_contains(table, "0.01         -         -           -     -  failed\n");
    assert_contains(table, "0.03         -         -           -     -  failed\n");
    assert_int_equal(sweep(QUICK "--resume auto --lr 0.01,0.03 -o s"), 0); /* nothing is to do */
    assert_contains(output, "%");
}

/* In memory that ends where they do, as AddressSanitizer sees. */
YK_TEST(sweep_reads_short_words_to_their_end)
{
    static const char *const words[] = {"", "-", "--", "-b", "-o"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char *word = strdup(words[i]), *argv[] = {(char *)"sweep", word, NULL};
        assert_int_equal(cli_cmd_sweep("yoke sweep", 2, argv), 2);
        free(word);
    }
}

/* ^C ends every run, those that have not begun included. */
YK_TEST(sweep_ends_with_all_its_runs)
{
    int code = yk_test_command(
        output, sizeof output,
        "cd %s && { timeout -s INT 3 %s sweep --data synthetic --arch mlp --epochs 1000 "
        "--lr 0.01,0.02,0.03 -o ends -j 2; code=$?; }; sleep 0.2; "
        "pgrep -f -- '[-]-output ends/lr' && exit 99; "
        "exit $code",
        yk_test_directory(), getenv("YOKE_PROGRAM"));
    assert_int_equal(code, 124); /* timeout's own */
    assert_contains(output, "not started\n");
    assert_contains(output, "stopped\n");
}

/* As from timeout(1), which signals its child and then its process group. */
YK_TEST(sweep_takes_signals_that_come_together_for_one_request)
{
    int code = yk_test_command(
        output, sizeof output,
        "cd %s; %s sweep --data synthetic --arch mlp --epochs 1000 --lr 0.01,0.02 -o s -j 2 & "
        "for run in 0.01 0.02; do "
        "until grep -q '\"type\": \"epoch\"' s/lr-$run/metrics.jsonl 2>/dev/null; do "
        "sleep 0.1; done; done; kill -TERM $!; sleep 0.02; kill -TERM $!; wait $!",
        yk_test_directory(), getenv("YOKE_PROGRAM"));
    assert_int_equal(code, 128 + SIGTERM);
    assert_contains(output, "lr-0.01: stopped after ");
    assert_contains(output, "lr-0.02: stopped after ");
    assert_null(strstr(output, "(exit code 137)"));
}

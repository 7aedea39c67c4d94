/* Trainings whose disk is full: they say so, and what was complete before stays. */
#define _GNU_SOURCE
#include "../cli/going_on.h"
#include "disk.h"

#include <sys/stat.h>

enum { DISK = 64 << 20, PAGES = 256 * 4096 };

#define OPTIONS "--data synthetic --arch mlp --lr 0.02 --threads 1 --batch-size 120 "

/* Starts a training in the folder `name` of the disk. */
static void start(const char *name, const char *options)
{
    char command[1024];
    snprintf(command, sizeof command, "train " OPTIONS "--output %s/disk/%s %s",
             yk_test_directory(), name, options);
    test_job_start(&job, command);
}

/* Waits for a run's first checkpoint. */
static void await_checkpoint(const char *run)
{
    char path[256];
    snprintf(path, sizeof path, "%s", path_of(run, "manifest.json"));
    for (double deadline = yk_test_now() + 30; access(path, R_OK); usleep(2000))
        if (yk_test_now() > deadline)
            fail_msg("no checkpoint: %s", test_job_output(&job));
}

static void expect_failure(const char *words)
{
    int code = test_job_wait(&job, 60);
    if (code != 1)
        fail_msg("exit code %d: %s", code, job.output);
    assert_contains(job.output, words);
    assert_contains(job.output, "No space left on device");
    test_job_gone(&job, 5);
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

static size_t size_of(const char *run, const char *file)
{
    struct stat info;
    assert_int_equal(stat(path_of(run, file), &info), 0);
    return (size_t)info.st_size;
}

/*
 * A save that fails ends the run. Once there is room, it resumes from the checkpoint before.
 *
 * The disk has room for one save, and for half of the next. It is not filled while the run saves: a
 * save that had its room by then would end well and delete older files, so that the next one fitted
 * as well.
 */
static void fill_before_a_save(const char *options)
{
    char all[256];
    yk_test_disk(DISK);
    snprintf(all, sizeof all, "--epochs 2 --save-every 5 --nproc 2 %s", options);
    assert_int_equal(train("whole", "--batch-size 120 --epochs 2 --nproc 2"), 0);
    size_t checkpoint = size_of("whole", "checkpoint-2.pth");
    yk_test_fill_disk_except(size_of("whole", "model.pth") + checkpoint + checkpoint / 2);
    start("run", all);
    expect_failure("/disk/run/");
    assert_contains(job.output, "rank 0");
    assert_int_equal(access(path_of("disk/run", "checkpoint-step-5.pth"), F_OK), 0);
    assert_int_not_equal(access(path_of("disk/run", "checkpoint-step-10.pth"), F_OK), 0);
    yk_test_free_disk();
    assert_int_equal(go_on("disk/run", ""), 0);
    assert_same_file("whole", "disk/run", "model.pth");
    assert_same_metrics("whole", "disk/run");
}

YK_TEST(a_full_disk_keeps_the_checkpoint_that_is_complete)
{
    fill_before_a_save("");
}

YK_TEST(a_full_disk_is_noticed_by_a_save_in_the_background)
{
    fill_before_a_save("--save-async");
}

/* The disk has room for a save, and for the next one without its model.pth. */
YK_TEST(a_full_disk_keeps_a_checkpoint_whose_weights_do_not_fit_beside_it)
{
    yk_test_disk(DISK);
    assert_int_equal(train("whole", "--batch-size 120 --epochs 2 --nproc 2"), 0);
    size_t checkpoint = size_of("whole", "checkpoint-2.pth"), model = size_of("whole", "model.pth");
    yk_test_fill_disk_except(2 * checkpoint + model + model / 2);
    start("run", "--epochs 2 --save-every 5 --nproc 2 --keep 1");
    expect_failure("rank 0: checkpoint-step-10.pth is saved, but without model.pth: ");
    assert_contains(job.output, "/disk/run/model.pth");
    assert_int_equal(access(path_of("disk/run", "checkpoint-step-5.pth"), F_OK), 0);
    assert_int_equal(access(path_of("disk/run", "checkpoint-step-10.pth"), F_OK), 0);
    yk_test_free_disk();
    assert_int_equal(go_on("disk/run", ""), 0);
    assert_contains(job.output, "checkpoint-step-10.pth");
    assert_same_file("whole", "disk/run", "model.pth");
    assert_same_metrics("whole", "disk/run");
    assert_int_not_equal(access(path_of("disk/run", "checkpoint-step-5.pth"), F_OK), 0);
}

/* The run that resumes has no step left to take. */
YK_TEST(weights_that_did_not_fit_on_a_full_disk_are_written_when_there_is_room)
{
    yk_test_disk(DISK);
    assert_int_equal(train("whole", "--batch-size 120 --epochs 2 --nproc 2"), 0);
    yk_test_fill_disk_except(size_of("whole", "checkpoint-2.pth") +
                             size_of("whole", "model.pth") / 2);
    start("run", "--epochs 2 --save-every 100000 --max-steps 4 --nproc 2");
    expect_failure("rank 0: checkpoint-step-4.pth is saved, but without model.pth: ");
    yk_test_free_disk();
    assert_int_equal(go_on("disk/run", "--max-steps 4"), 0);
    assert_int_equal(train("short", "--batch-size 120 --epochs 2 --max-steps 4 --nproc 2"), 0);
    assert_same_file("short", "disk/run", "model.pth");
}

YK_TEST(a_full_disk_from_the_beginning_leaves_nothing)
{
    yk_test_disk(DISK);
    yk_test_fill_disk();
    start("run", "--epochs 1");
    expect_failure("/disk/run");
    assert_int_not_equal(access(path_of("disk/run", "manifest.json"), F_OK), 0);
}

/* ---- reports --------------------------------------------------------------------------------- */

YK_TEST(a_full_disk_keeps_the_report_that_is_complete)
{
    char words[512];
    yk_test_disk(DISK);
    start("run", "--max-steps 2");
    assert_job_ends(&job, 60, 0);
    snprintf(words, sizeof words, "report %s/disk/run", yk_test_directory());
    test_job_start(&job, words);
    assert_job_ends(&job, 60, 0);
    size_t size = size_of("disk/run", "report.html");
    yk_test_fill_disk();
    test_job_start(&job, words);
    expect_failure("/disk/run/report.html: cannot write: ");
    assert_int_equal(size_of("disk/run", "report.html"), size);
    assert_int_not_equal(access(path_of("disk/run", "report.html.tmp"), F_OK), 0);
}

/* The file that is written after each step finds no room. */
static void fill_during(const char *options, const char *file)
{
    char all[256];
    yk_test_disk(DISK);
    snprintf(all, sizeof all, "--epochs 100000 --save-every 40 %s", options);
    start("run", all);
    await_checkpoint("disk/run");
    yk_test_fill_disk();
    expect_failure(file);
    yk_test_free_disk();
    assert_int_equal(go_on("disk/run", "--max-steps 1"), 0);
}

YK_TEST(a_full_disk_is_named_with_the_file_that_did_not_fit)
{
    fill_during("", "/disk/run/");
}

YK_TEST(a_run_continues_without_the_file_of_prometheus)
{
    char command[1024];
    yk_test_disk(DISK);
    snprintf(command, sizeof command,
             "train " OPTIONS "--epochs 100000 --output %s/run --metrics-file %s/disk/run.prom",
             yk_test_directory(), yk_test_directory());
    test_job_start(&job, command);
    test_job_await(&job, "  output ");
    yk_test_fill_disk();
    test_job_await(&job, "/disk/run.prom: ");
    test_job_await(&job, "No space left on device");
    kill(job.pid, SIGTERM);
    test_job_wait(&job, 60);
    test_job_gone(&job, 5);
}

YK_TEST(a_full_disk_is_named_with_the_event_file)
{
    fill_during("--tensorboard", "/disk/run");
}

/* ---- logs ------------------------------------------------------------------------------------ */

/* A rank that prints long lines, and a dot for each of them into the file dots, until the file end
 * is there. */
static void start_printing(const char *options, const char *output)
{
    char command[1024];
    snprintf(
        command, sizeof command,
        "%s run -n 1 --log-dir %s/disk/logs %s sh -c 'cd %s; while [ ! -e end ]; do "
        "printf \"%%200s\\n\" line; printf . >>dots; sleep 0.01; done; echo the end; exit 7' %s",
        test_program(), yk_test_directory(), options, yk_test_directory(), output);
    test_job_start_command(&job, command);
}

/* Waits until it has printed more lines than there was room for in the last page of a file. */
static void await_lines(void)
{
    char dots[4096];
    struct stat info;
    snprintf(dots, sizeof dots, "%s/dots", yk_test_directory());
    off_t before = stat(dots, &info) == 0 ? info.st_size : 0;
    for (double deadline = yk_test_now() + 30;; usleep(2000)) {
        if (stat(dots, &info) == 0 && info.st_size > before + 40)
            return;
        if (yk_test_now() > deadline)
            fail_msg("no more lines: %s", test_job_output(&job));
    }
}

static void end_printing(void)
{
    char output[64];
    yk_test_command(output, sizeof output, "touch %s/end", yk_test_directory());
    assert_job_ends(&job, 20, 7);
}

YK_TEST(a_job_continues_without_logs_that_do_not_fit)
{
    char output[4096];
    yk_test_disk(PAGES);
    start_printing("--tee 3", "");
    await_lines();
    yk_test_fill_disk();
    await_lines();
    end_printing();
    assert_contains(job.output,
                    "yoke run: cannot write the log of rank 0: No space left on device; "
                    "the job continues, and lines are lost\n");
    assert_contains(job.output, "[rank 0] the end\n");
    yk_test_command(output, sizeof output, "find %s/disk -name error.json", yk_test_directory());
    assert_string_equal(output, ""); /* half of it would be of no use */
}

YK_TEST(a_job_continues_without_filtered_lines_that_do_not_fit)
{
    yk_test_disk(PAGES);
    start_printing("--duplicate-stdout-filters line", "");
    await_lines();
    yk_test_fill_disk();
    await_lines();
    end_printing();
    assert_contains(job.output, "yoke run: cannot write the file of filtered lines: No space left "
                                "on device; the job continues, and lines are lost\n");
    assert_contains(job.output, "[rank 0] the end\n");
}

/* What did not fit is lost, and the rest is not; lines stay whole. */
YK_TEST(a_job_logs_again_once_its_disk_has_room)
{
    static const char *const files[] = {"stdout.log", "filtered_stdout.log"};
    static char output[1 << 16];
    yk_test_disk(PAGES);
    start_printing("--tee 3 --duplicate-stdout-filters line,end", "");
    await_lines();
    yk_test_fill_disk();
    await_lines();
    yk_test_free_disk();
    await_lines();
    end_printing();
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        yk_test_command(output, sizeof output,
                        "file=$(find %s/disk/logs -name %s) && tail -n 1 $file && "
                        "grep -E 'l.*l|\\[.*\\[' $file",
                        yk_test_directory(), files[i]);
        assert_contains(output, "the end\n"); /* and no line goes on after what was torn */
        assert_int_equal(count(output, "\n"), 1);
    }
}

/* What did not fit is lost, and the rest is not. */
YK_TEST(a_job_prints_again_once_its_output_has_room)
{
    char redirection[128], output[4096];
    yk_test_disk(PAGES);
    snprintf(redirection, sizeof redirection, ">%s/disk/out 2>&1", yk_test_directory());
    start_printing("--tee 3", redirection);
    await_lines();
    yk_test_fill_disk();
    await_lines();
    yk_test_free_disk();
    end_printing();
    yk_test_command(output, sizeof output, "tail -n 3 %s/disk/out", yk_test_directory());
    assert_contains(output, "[rank 0] the end\n");
    assert_contains(output, "exited with code 7");
}

/* ---- the flight recorder --------------------------------------------------------------------- */

/* Waits until a file has not grown for a second. */
static void await_rest(const char *path)
{
    struct stat info = {.st_size = 0};
    off_t size = -1;
    for (double end = yk_test_now() + 30; size != info.st_size && yk_test_now() < end;) {
        size = info.st_size;
        usleep(1000000);
        assert_int_equal(stat(path, &info), 0);
    }
    assert_int_equal(size, info.st_size);
}

/* Waits until a run has recorded a step. */
static void await_steps(const char *run)
{
    static char text[1 << 16];
    char path[256];
    snprintf(path, sizeof path, "%s", path_of(run, "metrics.jsonl"));
    for (double deadline = yk_test_now() + 30;; usleep(2000)) {
        if (access(path, R_OK) == 0 &&
            strstr(yk_test_read_file(text, sizeof text, path), "\"type\": \"step\""))
            return;
        if (yk_test_now() > deadline)
            fail_msg("no step: %s", test_job_output(&job));
    }
}

YK_TEST(a_flight_recorder_that_does_not_fit_says_so)
{
    yk_test_disk(DISK);
    start("run", "--epochs 100000 --nproc 2 --save-every 100000");
    await_steps("disk/run");
    pid_t victim = test_job_rank_pid(&job, 1);
    kill(victim, SIGSTOP); /* rank 0 waits for it and writes nothing */
    await_rest(path_of("disk/run", "metrics.jsonl"));
    yk_test_fill_disk();
    kill(victim, SIGKILL);
    assert_int_not_equal(test_job_wait(&job, 30), 0);
    assert_contains(job.output, "(its last calls cannot be written: ");
    assert_contains(job.output, "/disk/run/flight-recorder-0.json: No space left on device)");
    assert_int_not_equal(access(path_of("disk/run", "flight-recorder-0.json"), F_OK), 0);
}

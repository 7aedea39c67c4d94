/* `yoke train` and `yoke evaluate` as a user runs them: small networks on drawn images. */
#define _GNU_SOURCE
#include "train_job.h"

#include <limits.h>
#include <math.h>
#include <pty.h>

static char said[8192]; /* by what a shell has run */

YK_TEST(a_run_leaves_metrics_and_a_checkpoint_an_epoch)
{
    assert_int_equal(train("a", "--epochs 2 --batch-size 250"), 0);
    assert_contains(job.output, "Training mlp on synthetic");
    assert_contains(job.output, "Done after step 40: validation accuracy ");
    static const char *const step[] = {
        "\"epoch\":",        "\"step\":",      "\"loss\":",
        "\"lr\":",           "\"data_s\":",    "\"compute_s\":",
        "\"images_per_s\":", "\"waiting_s\":", "\"exposed_comm_s\":"};
    static const char *const epoch[] = {
        "\"train_loss\":", "\"val_loss\":", "\"val_accuracy\":", "\"epoch_s\":"};
    const char *metrics = metrics_of("a");
    for (size_t i = 0; i < sizeof step / sizeof *step; i++)
        assert_true(count(metrics, step[i]) >= 40);
    for (size_t i = 0; i < sizeof epoch / sizeof *epoch; i++)
        assert_int_equal(count(metrics, epoch[i]), 2);
    assert_int_equal(strncmp(metrics, "{\"type\": \"header\", ", 19), 0);
    assert_int_equal(count(metrics, "\"type\": \"header\""), 1);
    assert_int_equal(count(metrics, "\"type\": \"step\""), 40);
    assert_int_equal(count(metrics, "\"type\": \"epoch\""), 2);
    assert_contains(metrics, "\"arch\": \"mlp\", \"data\": \"synthetic\"");
    assert_int_equal(access(path_of("a", "manifest.json"), R_OK), 0);
}

YK_TEST(it_learns)
{
    assert_int_equal(train("a", "--epochs 4 --batch-size 100 --nproc 2"), 0);
    assert_true(last_value("a", "train_loss") < 2.15); /* ln 10 = 2.30 is guessing */
    assert_true(last_value("a", "val_accuracy") > 0.15);
}

YK_TEST(promise_23_the_start_says_what_will_be_done_and_why)
{
    assert_int_equal(train("a", "--max-steps 1 --nproc 2"), 0);
    static const char *const words[] = {
        "128 images a step = 2 ranks x 64 (default)",
        "learning rate 0.02 (--lr, not scaled)",
        "2 (shm), 1 thread each (--threads)",
        "parameters  ",
        "one machine with 2 ranks; rank and size from the environment",
        " MiB, 1.0 KiB, in the order of backward",
        "device      cpu"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        assert_contains(job.output, words[i]);
    assert_int_equal(count(job.output, "Training mlp"), 1);
}

/* As large clusters may set it for other programs. */
YK_TEST(more_threads_in_the_environment_than_a_model_has_are_left_alone)
{
    char command[512];
    setenv("OMP_NUM_THREADS", "1025", 1);
    snprintf(command, sizeof command, "train --data synthetic --arch mlp --max-steps 1 --output %s",
             yk_test_path("a"));
    test_job_start(&job, command);
    assert_int_equal(test_job_wait(&job, 100), 0);
    assert_contains(unwrapped(), " each (cores / local ranks) ");
}

YK_TEST(ranks_of_one_global_batch_train_alike)
{
    assert_int_equal(train("one", "--epochs 1 --batch-size 120"), 0);
    assert_int_equal(train("two", "--epochs 1 --batch-size 120 --nproc 2"), 0);
    assert_true(fabs(last_value("one", "val_loss") - last_value("two", "val_loss")) < 2e-3);
    assert_true(fabs(last_value("one", "train_loss") - last_value("two", "train_loss")) < 2e-3);
}

YK_TEST(steps_asked_for_end_with_an_evaluation_and_a_checkpoint)
{
    assert_int_equal(train("a", "--max-steps 3"), 0);
    assert_int_equal(count(metrics_of("a"), "\"val_accuracy\":"), 1);
    assert_int_equal((int)last_value("a", "step"), 3);
    assert_contains(job.output, "Done after step 3: validation accuracy");
}

YK_TEST(promise_19_evaluation_counts_every_sample_once)
{
    char command[512], first[256] = "";
    assert_int_equal(train("a", "--max-steps 8"), 0);
    for (int ranks = 1; ranks <= 3; ranks++) {
        snprintf(command, sizeof command,
                 "evaluate --data synthetic --batch-size 96 --nproc %d %s/a", ranks,
                 yk_test_directory());
        test_job_start(&job, command);
        assert_int_equal(test_job_wait(&job, 60), 0);
        const char *counts = strstr(job.output, " of 1000)");
        assert_non_null(counts);
        while (*counts != '(')
            counts--;
        if (ranks == 1)
            snprintf(first, sizeof first, "%.200s", counts);
        assert_string_equal(counts, first); /* "(412 of 1000)" */
    }
}

YK_TEST(a_run_goes_on_where_it_ended)
{
    assert_int_equal(train("whole", "--epochs 2 --batch-size 250"), 0);
    assert_int_equal(train("parts", "--epochs 1 --batch-size 250"), 0);
    assert_int_equal(train("parts", "--epochs 2 --resume auto"), 0);
    assert_contains(job.output, "250 images a step (from the checkpoint)");
    assert_contains(job.output, "after step 20");
    assert_int_equal(count(metrics_of("parts"), "\"val_loss\":"), 2);
    assert_true(last_value("whole", "val_loss") == last_value("parts", "val_loss"));
}

YK_TEST(a_run_goes_on_within_an_epoch)
{
    assert_int_equal(train("whole", "--epochs 1 --batch-size 250"), 0);
    assert_int_equal(train("parts", "--epochs 1 --batch-size 250 --max-steps 7"), 0);
    assert_int_equal(train("parts", "--epochs 1 --resume auto"), 0);
    assert_true(last_value("whole", "val_loss") == last_value("parts", "val_loss"));
}

YK_TEST(resume_auto_begins_when_there_is_nothing_yet)
{
    assert_int_equal(train("a", "--max-steps 1 --resume auto"), 0);
    assert_contains(job.output, "Done after step 1");
}

YK_TEST(a_run_is_not_overwritten_by_another)
{
    assert_int_equal(train("a", "--max-steps 1"), 0);
    assert_int_not_equal(train("a", "--max-steps 1 --nproc 2"), 0);
    assert_contains(job.output, "already contains the checkpoint");
}

YK_TEST(a_timeline_without_steps_is_said_to_be_empty)
{
    char options[512];
    snprintf(options, sizeof options, "--max-steps 3 --trace %s/t.json --trace-steps 4:9",
             yk_test_directory());
    assert_int_equal(train("a", options), 0);
    assert_contains(job.output, "t.json: empty, as this run had none of the steps 4:9\n");
    options[strlen(options) - 3] = '3';
    assert_int_equal(train("b", options), 0);
    assert_contains(job.output, "t.json: open it in ");
    snprintf(options, sizeof options, "--max-steps 3 --trace %s/t.json --trace-steps 2:%lld",
             yk_test_directory(), LLONG_MAX); /* to the end */
    assert_int_equal(train("c", options), 0);
    assert_contains(job.output, "t.json: open it in ");
}

/* It would be refused elsewhere; the output folder does not exist yet. */
YK_TEST(files_of_a_run_may_lie_in_new_folders_of_its_output)
{
    char options[512];
    snprintf(options, sizeof options,
             "--max-steps 1 --trace %s/a/b/t.json --metrics-file %s/a/c/m.prom",
             yk_test_directory(), yk_test_directory());
    assert_int_equal(train("a", options), 0);
    assert_int_equal(access(path_of("a", "b/t.json"), F_OK), 0);
    assert_int_equal(access(path_of("a", "c/m.prom"), F_OK), 0);
}

/* Where none was named. A script may start several in the same second. */
YK_TEST(every_run_has_a_folder_of_its_own)
{
    int code = yk_test_command(said, sizeof said,
                               "cd %s && for run in 1 2 3; do %s train --data synthetic --arch mlp "
                               "--max-steps 1 --threads 1 & done; wait; ls runs | wc -l",
                               yk_test_directory(), test_program());
    assert_int_equal(code, 0);
    assert_contains(said, "\n3\n");
}

YK_TEST(a_run_that_resumes_from_a_file_has_the_networks_name)
{
    assert_int_equal(train("a", "--max-steps 1"), 0);
    int code = yk_test_command(said, sizeof said,
                               "cd %s && %s train --resume a/checkpoint-step-1.pth --max-steps 2 "
                               "--quiet && ls runs",
                               yk_test_directory(), test_program());
    assert_int_equal(code, 0);
    assert_int_equal(strncmp(said, "mlp-", 4), 0);
}

YK_TEST(a_checkpoint_of_another_network_is_refused)
{
    assert_int_equal(train("a", "--max-steps 1"), 0);
    char options[512];
    snprintf(options, sizeof options, "--arch resnet18-cifar --resume %s",
             path_of("a", "checkpoint-step-1.pth"));
    if (access(path_of("a", "checkpoint-step-1.pth"), R_OK))
        snprintf(options, sizeof options, "--arch resnet18-cifar --resume auto");
    assert_int_equal(train("a", options), 1);
    assert_contains(job.output, "holds weights of mlp, not of the resnet18-cifar of --arch");
}

YK_TEST(missing_data_is_one_line)
{
    test_job_start(&job, "train --data /no/such/folder --output /tmp/no-output-is-made");
    assert_int_equal(test_job_wait(&job, 60), 2);
    assert_contains(job.output, "/no/such/folder");
    assert_int_equal(count(job.output, "\n"), 1);
    assert_int_not_equal(rmdir("/tmp/no-output-is-made"), 0);
}

/* Trains into FOLDER/a in a shell, with this text before and after the command. */
static int train_by_shell(const char *before, const char *behind)
{
    return yk_test_command(said, sizeof said,
                           "%s %s train --data synthetic --arch mlp --lr 0.02 --threads 1 "
                           "--output %s/a %s",
                           before, test_program(), yk_test_directory(), behind);
}

/* A full disk, here a limit on a file's size: what is not written is not lost in silence. */
YK_TEST(metrics_that_cannot_be_written_end_the_run)
{
    assert_int_equal(train_by_shell("trap '' XFSZ; ulimit -f 8; exec", ""), 1);
    assert_contains(said, "metrics.jsonl: cannot write");
    assert_null(strstr(said, "train loss")); /* within the first epoch */
}

/* The signal that comes with such a limit does not end us before we can say so. */
YK_TEST(a_checkpoint_that_cannot_be_written_is_an_error)
{
    assert_int_equal(train_by_shell("ulimit -f 4000; exec", "--max-steps 1"), 1);
    assert_contains(said, "checkpoint-step-1.pth: cannot write the archive: File too large");
}

/* What is read along ends where the reader likes: a run lives by its files. */
YK_TEST(a_reader_that_leaves_does_not_stop_the_run)
{
    train_by_shell("", "--max-steps 3 2>&1 | true");
    assert_int_equal(access(path_of("a", "checkpoint-step-3.pth"), R_OK), 0);
}

/* ---- ends before the end -------------------------------------------------------------------- */

YK_TEST(a_termination_saves_a_checkpoint_to_go_on_from)
{
    test_job_train(&job, "--nproc 2");
    kill(job.pid, SIGTERM);
    assert_int_equal(test_job_wait(&job, 20), 143);
    assert_contains(job.output, "Stopped after step ");
    test_job_gone(&job, 2);
    int step = atoi(strstr(job.output, "Stopped after step ") + strlen("Stopped after step "));
    char expected[64];
    snprintf(expected, sizeof expected, "after step %d\n", step);
    char command[512];
    snprintf(command, sizeof command,
             "train --data synthetic --threads 1 --max-steps 1 --resume auto --output %s/trained",
             yk_test_directory());
    test_job_start(&job, command);
    assert_int_equal(test_job_wait(&job, 60), 0);
    assert_contains(job.output, expected);
}

YK_TEST(an_interrupt_of_a_single_process_does_so_too)
{
    test_job_train(&job, "");
    kill(job.pid, SIGINT);
    assert_int_equal(test_job_wait(&job, 20), 130);
    assert_contains(job.output, "Stopped after step ");
}

/* ---- on a terminal -------------------------------------------------------------------------- */

YK_TEST(the_progress_line_is_redrawn_on_a_terminal)
{
    int terminal;
    char command[512];
    static char text[256 * 1024];
    snprintf(command, sizeof command,
             "exec %s train --data synthetic --arch mlp --threads 1 --epochs 2 --nproc 2 "
             "--output %s/tty",
             test_program(), yk_test_directory());
    pid_t pid = forkpty(&terminal, NULL, NULL, &(struct winsize){.ws_row = 24, .ws_col = 100});
    assert_true(pid >= 0);
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    size_t size = 0;
    for (ssize_t got;
         size < sizeof text - 1 && (got = read(terminal, text + size, sizeof text - 1 - size)) > 0;)
        size += (size_t)got;
    int status;
    waitpid(pid, &status, 0);
    close(terminal);
    assert_int_equal(status, 0);
    assert_contains(text, "\r\033[K");
    assert_contains(text, "\nDone after step "); /* on its own line */
    assert_null(strstr(text, "[rank 0]"));
}

/* Each of three ranks finds it. Of which rank the line is, and which of them is the first to end,
 * is chance. */
YK_TEST(a_mistake_of_all_ranks_is_printed_once)
{
    static const char mistake[] = "--classes 5: synthetic has 10 classes";
    assert_int_equal(train("a", "--nproc 3 --batch-size 30 --classes 5"), 1);
    const char *end = strstr(job.output, "yoke train: its last lines on stderr:");
    assert_non_null(end);
    const char *at = strstr(job.output, mistake);
    assert_true(at && at < end);
    at = strstr(at + 1, mistake); /* repeated for the rank that ended first */
    assert_true(at && at > end);
    assert_null(strstr(at + 1, mistake));
}

/* All ranks stop together, before the weights are lost; the last checkpoint is still there. */
YK_TEST(a_loss_that_is_no_number_stops_the_run)
{
    for (int ranks = 1; ranks <= 2; ranks++) {
        char options[128], name[8];
        snprintf(name, sizeof name, "%d", ranks);
        snprintf(options, sizeof options, "--lr 1e6 --save-every 1 --nproc %d", ranks);
        assert_int_equal(train(name, options), 1);
        assert_contains(job.output, "the loss is nan; stopped before the weights were updated. Try "
                                    "a learning rate below 1e+06");
        /* One rank says so; the launcher may repeat its line at the end. */
        assert_contains(job.output, ranks == 1 ? "yoke: step " : "yoke: rank 0: step ");
        assert_int_equal(count(job.output, "yoke: rank 1: step "), 0);
        assert_in_range(count(job.output, "the loss is"), 1, ranks);
        /* Both ranks end at the same time; the launcher names the one whose loss it was. */
        if (ranks == 2)
            assert_contains(job.output, "yoke train: rank 0 (pid ");
        assert_int_equal(access(path_of(name, "checkpoint-step-1.pth"), R_OK), 0);
    }
}

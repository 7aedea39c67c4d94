/* `yoke train` in a Slurm job that is stopped, requeued and started again; a fake scontrol. */
#define _GNU_SOURCE
#include "fake_scontrol.h"
#include "going_on.h"

#include <fcntl.h>
#include <sys/file.h>
#include <time.h>

#define OPTIONS                                                                                    \
    "--data synthetic --arch mlp --threads 1 --batch-size 120 --lr 0.02 --epochs 2 --save-every 7"

enum { REQUEUED = 120 }; /* docs/launcher.md */

/* Starts the training, without --resume, and sends the launcher a signal after so long. */
static int train_in_job(const char *options, int number, int after_ms)
{
    char command[1024];
    snprintf(command, sizeof command, "train --output %s/parts " OPTIONS " %s", yk_test_directory(),
             options);
    test_job_start(&job, command);
    if (number) {
        test_job_await(&job, "  output ");
        usleep((unsigned)after_ms * 1000);
        kill(job.pid, number);
    }
    int code = test_job_wait(&job, 60);
    test_job_gone(&job, 5);
    return code;
}

YK_TEST(promise_15_a_requeued_job_resumes_by_itself_to_the_bit)
{
    static const int signals[] = {SIGUSR1, SIGUSR2, SIGTERM};
    int requeued = 0;
    assert_int_equal(train("whole", OPTIONS " --nproc 2"), 0);
    fake_scontrol_start(FAKE_JOB);
    for (int i = 0; i < 3; i++) {
        int code = train_in_job("--nproc 2", signals[i], i == 0 ? 20 : random_between(20, 300));
        bool late = code == 128 + signals[i] && strstr(job.output, "Done after step");
        if (code != 0 && code != REQUEUED && !late)
            fail_msg("exit code %d: \"%s\"", code, job.output);
        requeued += code == REQUEUED;
        if (code == REQUEUED) {
            assert_contains(job.output, "The Slurm job is back in the queue");
            assert_null(strstr(job.output, "as if"));
        }
        setenv("SLURM_RESTART_COUNT", "1", 1);
    }
    assert_true(requeued > 0);
    assert_int_equal(count(fake_scontrol_log(), "requeue 77\n"), requeued);
    assert_int_equal(train_in_job("--nproc 2", 0, 0), 0);
    assert_same_file("whole", "parts", "checkpoint-2.pth");
    assert_same_metrics("whole", "parts");
}

YK_TEST(what_is_not_to_run_again_is_not_requeued)
{
    fake_scontrol_start(FAKE_JOB);
    assert_int_equal(train_in_job("--epochs 100000", SIGINT, 50), 128 + SIGINT);
    assert_int_equal(train_in_job("--epochs 100000 --resume auto --no-requeue", SIGUSR2, 50),
                     128 + SIGUSR2);
    assert_string_equal(fake_scontrol_log(), "");
    fake_scontrol_says("JobState=COMPLETING Reason=None Requeue=1 BatchFlag=1"); /* scancel */
    assert_int_equal(train_in_job("--epochs 100000 --resume auto", SIGTERM, 50), 128 + SIGTERM);
    assert_string_equal(fake_scontrol_log(), "show job --oneliner 77\n");
}

YK_TEST(a_run_without_the_time_for_a_step_is_not_requeued_again)
{
    char end[32];
    fake_scontrol_start(FAKE_JOB);
    snprintf(end, sizeof end, "%lld", (long long)time(NULL) + 3600);
    setenv("SLURM_JOB_END_TIME", end, 1);
    assert_int_equal(train_in_job("--stop-margin 4000", 0, 0), REQUEUED);
    assert_contains(job.output, "Stopped after step 0, before Slurm ends the job");
    setenv("SLURM_RESTART_COUNT", "1", 1);
    assert_int_equal(train_in_job("--stop-margin 4000", 0, 0), 128 + SIGTERM);
    assert_int_equal(count(fake_scontrol_log(), "requeue 77\n"), 1);
}

YK_TEST(a_checkpoint_is_safe_where_requeueing_fails)
{
    fake_scontrol_start(FAKE_JOB);
    fake_scontrol_write("refusal", "Job is held\n");
    assert_int_equal(train_in_job("--epochs 100000", SIGUSR1, 50), 128 + SIGUSR1);
    assert_contains(job.output, "scontrol requeue 77: Job is held");
    assert_contains(job.output, "Stopped after step ");
}

/* ---- restarts by a launcher ----------------------------------------------------------------- */

YK_TEST(a_restart_resumes_by_itself)
{
    setenv("TORCHELASTIC_RESTART_COUNT", "1", 1);
    assert_int_equal(train_in_job("--max-steps 3", 0, 0), 0);
    assert_contains(job.output, "restarted, but there is no checkpoint in ");
    assert_contains(job.output, ": starting from the beginning");
    assert_int_equal(train_in_job("--max-steps 5", 0, 0), 0);
    assert_contains(job.output, "after step 3");
    assert_contains(job.output, "Done after step 5");
    unsetenv("TORCHELASTIC_RESTART_COUNT");
    assert_int_equal(train_in_job("--max-steps 6", 0, 0), 2);
    assert_contains(job.output, "already contains the checkpoint");
}

/* The second attempt would take the checkpoints of the other run for its own. */
YK_TEST(a_refused_output_folder_is_not_used_by_a_restart)
{
    char command[1024];
    assert_int_equal(train_in_job("--max-steps 3", 0, 0), 0);
    snprintf(command, sizeof command,
             "run -n 2 --max-restarts 2 %s train --output %s/parts " OPTIONS " --max-steps 5",
             getenv("YOKE_PROGRAM"), yk_test_directory());
    test_job_start(&job, command);
    assert_int_equal(test_job_wait(&job, 60), 2);
    assert_contains(job.output, "already contains the checkpoint");
    assert_null(strstr(job.output, "Training"));
    test_job_gone(&job, 5);
}

/* Starts the training as an attempt of a job of torchrun's, whose agent draws `agent`. */
static int train_under_torchrun(int attempt, const char *agent, const char *options)
{
    char text[256];
    snprintf(text, sizeof text, "%d", attempt);
    setenv("TORCHELASTIC_RESTART_COUNT", text, 1);
    setenv("TORCHELASTIC_RUN_ID", "none", 1);
    snprintf(text, sizeof text, "/tmp/torchelastic_a/none_%s/attempt_%d/0/error.json", agent,
             attempt);
    setenv("TORCHELASTIC_ERROR_FILE", text, 1);
    return train_in_job(options, 0, 0);
}

/* torchrun starts the ranks again whatever the exit code of the first attempt. */
YK_TEST(a_restart_does_not_continue_the_run_of_another_job)
{
    assert_int_equal(train_under_torchrun(0, "first", "--max-steps 3"), 0);
    assert_int_equal(train_under_torchrun(1, "first", "--max-steps 4"), 0);
    assert_contains(job.output, "after step 3");
    for (int attempt = 0; attempt < 2; attempt++) {
        assert_int_equal(train_under_torchrun(attempt, "second", "--max-steps 5"), 2);
        assert_contains(job.output, "checkpoint-step-4.pth");
        assert_null(strstr(job.output, "Training"));
    }
    assert_contains(job.output,
                    ", which this job is not known to have saved; continue that run with");
    assert_int_equal(train_under_torchrun(1, "second", "--max-steps 5 --resume auto"), 0);
    assert_contains(job.output, "after step 4");
}

/* `yoke run` with the training as its program, which a shell starts. */
static int train_under_yoke_run(const char *before, int steps)
{
    char command[1024];
    snprintf(command, sizeof command,
             "run -n 1 --max-restarts 1 -- sh -c '%s exec %s train --output %s/parts " OPTIONS
             " --max-steps %d'",
             before, getenv("YOKE_PROGRAM"), yk_test_directory(), steps);
    test_job_start(&job, command);
    int code = test_job_wait(&job, 60);
    test_job_gone(&job, 5);
    return code;
}

/* The first attempt of the second job ends before it sees the folder. */
YK_TEST(a_restart_of_the_launcher_does_not_continue_the_run_of_another_job)
{
    assert_int_equal(train_under_yoke_run("", 3), 0);
    assert_int_equal(train_under_yoke_run("[ $TORCHELASTIC_RESTART_COUNT = 1 ] &&", 5), 2);
    assert_contains(job.output,
                    ", which this job is not known to have saved; continue that run with");
}

YK_TEST(a_job_of_slurm_does_not_continue_the_run_of_another_one)
{
    setenv("SLURM_JOB_ID", "76", 1);
    assert_int_equal(train_in_job("--max-steps 3", 0, 0), 0);
    setenv("SLURM_RESTART_COUNT", "1", 1);
    assert_int_equal(train_in_job("--max-steps 4", 0, 0), 0);
    setenv("SLURM_JOB_ID", "77", 1);
    assert_int_equal(train_in_job("--max-steps 5", 0, 0), 2);
    assert_contains(job.output,
                    ", which this job is not known to have saved; continue that run with");
}

/* As earlier versions have left it, or somebody who has deleted the manifest. */
YK_TEST(a_restart_may_be_told_to_continue_what_no_job_has_signed)
{
    setenv("SLURM_JOB_ID", "77", 1);
    assert_int_equal(train_in_job("--max-steps 3", 0, 0), 0);
    assert_int_equal(unlink(path_of("parts", "manifest.json")), 0);
    setenv("SLURM_RESTART_COUNT", "1", 1);
    assert_int_equal(train_in_job("--max-steps 4", 0, 0), 2);
    assert_contains(job.output, ", which this job is not known to have saved; continue that run "
                                "with --resume auto, or choose another --output");
    assert_int_equal(train_in_job("--max-steps 4 --resume auto", 0, 0), 0);
    assert_contains(job.output, "after step 3");
}

/* The first attempt has ended before it saved anything. */
YK_TEST(a_restart_goes_back_where_the_first_attempt_has_not)
{
    char options[512];
    assert_int_equal(train_under_torchrun(0, "first", "--max-steps 4 --save-every 2"), 0);
    snprintf(options, sizeof options, "--max-steps 5 --resume %s",
             path_of("parts", "checkpoint-step-2.pth"));
    assert_int_equal(train_under_torchrun(1, "second", options), 0);
    assert_contains(job.output, "after step 2");
}

/* As where the attempt before runs on, on a host that is cut off from the others. */
YK_TEST(a_restart_waits_for_the_attempt_before_and_takes_its_last_checkpoint)
{
    char command[1024], newer[256];
    assert_int_equal(train_in_job("--max-steps 3", 0, 0), 0);
    assert_int_equal(train("other", OPTIONS " --max-steps 5"), 0);
    int writer = open(path_of("parts", "metrics.jsonl"), O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(writer, LOCK_EX), 0);
    setenv("TORCHELASTIC_RESTART_COUNT", "1", 1);
    snprintf(command, sizeof command, "train --output %s/parts " OPTIONS " --max-steps 6",
             yk_test_directory());
    test_job_start(&job, command);
    test_job_await(&job, "metrics.jsonl: another process is writing it; waiting up to 100 s");
    snprintf(newer, sizeof newer, "%s", path_of("other", "checkpoint-step-5.pth"));
    assert_int_equal(rename(newer, path_of("parts", "checkpoint-step-5.pth")), 0);
    snprintf(newer, sizeof newer, "%s", path_of("other", "manifest.json"));
    assert_int_equal(rename(newer, path_of("parts", "manifest.json")), 0);
    close(writer);
    assert_int_equal(test_job_wait(&job, 60), 0);
    assert_contains(job.output, "after step 5");
    assert_contains(job.output, "Done after step 6");
}

/* A run that began with weights or with the checkpoint of another run. */
YK_TEST(a_restart_goes_on_from_its_own_checkpoint_rather_than_from_where_it_began)
{
    char options[512];
    assert_int_equal(train("other", OPTIONS " --max-steps 2"), 0);
    snprintf(options, sizeof options, "--max-steps 4 --resume %s",
             path_of("other", "checkpoint-step-2.pth"));
    assert_int_equal(train_in_job(options, 0, 0), 0);
    setenv("TORCHELASTIC_RESTART_COUNT", "2", 1);
    snprintf(options, sizeof options, "--max-steps 5 --resume %s",
             path_of("other", "checkpoint-step-2.pth"));
    assert_int_equal(train_in_job(options, 0, 0), 0);
    assert_contains(job.output, "after step 4");
    snprintf(options, sizeof options, "--max-steps 6 --checkpoint %s",
             path_of("other", "model.pth"));
    assert_int_equal(train_in_job(options, 0, 0), 0);
    assert_contains(job.output, "after step 5");
    assert_contains(job.output, "Done after step 6");
}

YK_TEST(a_restart_without_an_output_folder_says_so)
{
    char command[512];
    setenv("TORCHELASTIC_RESTART_COUNT", "1", 1);
    snprintf(command, sizeof command, "sh -c 'cd %s && exec %s train " OPTIONS " --max-steps 1'",
             yk_test_directory(), test_program());
    test_job_start_command(&job, command);
    assert_int_equal(test_job_wait(&job, 60), 0);
    assert_contains(job.output, "restarted, but without --output there is no folder");
}

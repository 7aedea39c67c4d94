/* A training that is stopped and resumed ends with the same bits as one that was never stopped. */
#define _GNU_SOURCE
#include "going_on.h"
#include "mlp.h"

#include <fcntl.h>
#include <math.h>
#include <sys/file.h>
#include <sys/stat.h>

#define DATA "--data synthetic --arch mlp --threads 1 --batch-size 120 "

/* ---- the same bits --------------------------------------------------------------------------- */

/* A few signals in turn at any time, in training, evaluation or a save; then on to the end. */
static void stop_and_go(const char *options, int ranks, const char *last)
{
    static const int signals[] = {SIGTERM, SIGUSR1, SIGINT};
    enum { STOPS = 4 };
    char command[512], nproc[32];
    snprintf(nproc, sizeof nproc, "--nproc %d", ranks);
    snprintf(command, sizeof command, "%s%s --output %s/whole %s", DATA, nproc, yk_test_directory(),
             options);
    assert_int_equal(train("whole", command), 0);
    snprintf(command, sizeof command, "%s%s %s", DATA, nproc, options);
    int stops = 0;
    for (int i = 0; i < STOPS; i++) {
        int number = signals[i % 3], to = ranks == 1 ? LAUNCHER : i % (ranks + 1) - 1;
        int after_ms = i ? random_between(50, 400) : 20; /* the first before a fast run is over */
        int code = train_and_signal("parts", command, number, to, after_ms);
        if (code != 0 && code != 128 + number)
            fail_msg("exit code %d: \"%s\"", code, job.output);
        stops += code != 0;
        snprintf(command, sizeof command, "%s", nproc); /* the rest is in the checkpoint */
    }
    assert_true(stops > 0);
    assert_int_equal(go_on("parts", nproc), 0);
    assert_same_file("whole", "parts", last); /* weights, buffers, optimizer, position */
    assert_same_file("whole", "parts", "model.pth");
    assert_same_metrics("whole", "parts");
}

YK_TEST(promise_15_stopped_anywhere_on_one_rank)
{
    stop_and_go("--lr 0.02 --epochs 2", 1, "checkpoint-2.pth");
}

YK_TEST(promise_15_stopped_anywhere_on_two_ranks)
{
    stop_and_go("--lr 0.02 --epochs 2 --save-every 10", 2, "checkpoint-2.pth");
}

/* Its files stay locked until the kernel has ended all of its threads. */
YK_TEST(a_run_that_was_just_killed_can_be_resumed_at_once)
{
    char command[512];
    assert_int_equal(train("parts", DATA "--lr 0.02 --max-steps 3"), 0);
    int writer = open(path_of("parts", "metrics.jsonl"), O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(writer, LOCK_EX), 0);
    snprintf(command, sizeof command, "train --output %s/parts --resume auto --max-steps 5",
             yk_test_directory());
    test_job_start(&job, command);
    test_job_await(&job, "metrics.jsonl: another process is writing it; waiting up to 2 s");
    close(writer);
    assert_job_ends(&job, 60, 0);
    assert_contains(job.output, "Done after step 5");
}

/* There oneDNN computes with the stack pointer in its own buffer: no signal may land on it. */
YK_TEST(promise_15_stopped_anywhere_with_avx2)
{
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    stop_and_go("--lr 0.02 --epochs 3", 1, "checkpoint-3.pth");
}

YK_TEST(promise_15_stopped_anywhere_with_powersgd)
{
    stop_and_go("--lr 0.02 --epochs 2 --comm-hook powersgd --powersgd-start 7", 2,
                "checkpoint-2.pth");
}

YK_TEST(promise_15_stopped_anywhere_with_adam)
{
    stop_and_go("--lr 0.001 --optimizer adamw --epochs 2 --accumulate 2", 1, "checkpoint-2.pth");
}

YK_TEST(promise_15_stopped_anywhere_in_bf16)
{
    if (!yk_cpu_has_bf16())
        skip_because("this processor has no bf16");
    stop_and_go("--lr 0.02 --epochs 2 --amp bf16", 2, "checkpoint-2.pth");
}

/* Schedule, clipping, averages, parameter groups and fp16's loss scale are all resumed. */
YK_TEST(promise_15_a_whole_recipe_goes_on)
{
    static const char *const options =
        DATA "--epochs 2 --optimizer adamw --lr 0.002 --amp fp16 --schedule cosine "
             "--schedule-unit step --warmup-steps 9 --clip-grad-norm 0.5 --ema 0.9 "
             "--label-smoothing 0.1 --no-decay-norms";
    assert_int_equal(train("whole", options), 0);
    assert_int_equal(train_and_signal("parts", options, SIGUSR1, LAUNCHER, 60) & 128, 128);
    assert_int_equal(go_on("parts", ""), 0);
    assert_same_file("whole", "parts", "model.pth");
    assert_same_metrics("whole", "parts");
}

YK_TEST(a_damaged_checkpoint_is_skipped_with_one_warning)
{
    assert_int_equal(train("a", DATA "--max-steps 20 --save-every 10"), 0);
    assert_int_equal(truncate(path_of("a", "checkpoint-step-20.pth"), 1000), 0);
    assert_int_equal(go_on("a", ""), 0);
    assert_contains(job.output, "after step 10");
    assert_int_equal(count(job.output, "skipping a damaged checkpoint"), 1);
}

/* ---- unread output --------------------------------------------------------------------------- */

YK_TEST(promise_13_a_reader_that_pauses_does_not_keep_a_stopped_run)
{
    char arguments[512];
    const char *path = yk_test_path("unread");
    assert_int_equal(mkfifo(path, 0600), 0);
    int reader = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    while (write(reader, "", 1) == 1) /* until it is full */
        continue;
    snprintf(arguments, sizeof arguments,
             "train --data synthetic --arch mlp --threads 1 --epochs 100000 --json --output %s/a "
             ">%s",
             yk_test_directory(), path);
    test_job_start(&job, arguments);
    for (double deadline = yk_test_now() + 20;
         access(path_of("a", "metrics.jsonl"), R_OK) && yk_test_now() < deadline;)
        usleep(2000);
    usleep(500 * 1000); /* until its first line waits for room */
    kill(job.pid, SIGTERM);
    assert_job_ends(&job, 20, 128 + SIGTERM);
    assert_int_equal(access(path_of("a", "manifest.json"), R_OK), 0);
    assert_int_equal(go_on("a", "--max-steps 1"), 0);
    close(reader);
}

/* ---- virtual ranks --------------------------------------------------------------------------- */

YK_TEST(promise_20_virtual_ranks_train_the_same_bits_on_any_ranks)
{
    static const char *const ranks[] = {"--virtual-ranks 4", "--virtual-ranks 4 --nproc 2",
                                        "--virtual-ranks 4 --nproc 4", "--nproc 4"};
    static const char *const said[] = {"4 each in turn", "4 virtual ranks, 2 each in turn",
                                       "buckets     2: ", "buckets     2: "};
    for (int i = 0; i < 4; i++) {
        char options[160], name[] = {(char)('a' + i), '\0'};
        snprintf(options, sizeof options, DATA "--epochs 1 --lr-scale none %s", ranks[i]);
        assert_int_equal(train(name, options), 0);
        assert_contains(job.output, said[i]);
        assert_same_file("a", name, "model.pth");
        assert_same_metrics("a", name); /* with the evaluation's */
    }
}

YK_TEST(promise_20_virtual_ranks_go_on_on_other_ranks)
{
    assert_int_equal(train("whole", DATA "--epochs 1 --virtual-ranks 4"), 0);
    assert_int_equal(train("parts", DATA "--epochs 1 --virtual-ranks 4 --nproc 2 --max-steps 30 "
                                         "--save-every 10"),
                     0);
    assert_int_equal(unlink(path_of("parts", "checkpoint-step-30.pth")), 0);
    assert_int_equal(go_on("parts", "--nproc 4 --max-steps 30"), 0);
    assert_contains(job.output, "after step 20");
    assert_int_equal(unlink(path_of("parts", "checkpoint-step-30.pth")), 0);
    assert_int_equal(go_on("parts", ""), 0);
    assert_contains(job.output, "after step 20");
    assert_same_file("whole", "parts", "model.pth");
    assert_same_metrics("whole", "parts");
    assert_int_equal(go_on("parts", "--epochs 2 --threads 2"), 1);
    assert_contains(job.output, "was made with 1 thread per rank; ");
    assert_contains(job.output, "--threads cannot change");
}

YK_TEST(virtual_ranks_and_what_does_not_go_with_them)
{
    static const struct {
        const char *options, *words;
    } wrong[] = {
        {"--virtual-ranks 3 --nproc 2", "--virtual-ranks 3 cannot be shared equally by 2 ranks"},
        {"--virtual-ranks 4 --accumulate 2", "cannot be combined with --accumulate"},
        {"--virtual-ranks 4 --sync-bn", "--virtual-ranks cannot be combined with --sync-bn"},
        {"--virtual-ranks 4 --comm-hook bf16", "cannot be combined with --comm-hook"},
        {"--virtual-ranks 4 --batch-size 126", "cannot be shared equally by 4 virtual ranks"},
        {"--virtual-ranks 4 --parallel dp", "cannot be combined with --parallel dp"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(train("a", wrong[i].options), 2);
        assert_contains(job.output, wrong[i].words);
        assert_int_equal(count(job.output, "\n"), 1);
    }
}

/* ---- saving every so many steps -------------------------------------------------------------- */

YK_TEST(checkpoints_come_every_so_many_steps_and_the_newest_stay)
{
    assert_int_equal(train("a", DATA "--max-steps 35 --save-every 10 --keep 2"), 0);
    assert_int_not_equal(access(path_of("a", "checkpoint-step-20.pth"), R_OK), 0);
    assert_int_equal(access(path_of("a", "checkpoint-step-30.pth"), R_OK), 0);
    assert_int_equal(access(path_of("a", "checkpoint-step-35.pth"), R_OK), 0);
}

/* Else a run of --keep 0 would lose what it was told to keep as soon as it is gone on with. */
YK_TEST(what_is_saved_and_kept_stays_so_when_a_run_goes_on)
{
    assert_int_equal(train("a", DATA "--epochs 1 --max-steps 35 --save-every 10 --keep 0"), 0);
    assert_int_equal(go_on("a", ""), 0);
    for (int step = 10; step <= 40; step += 10) {
        char file[64];
        snprintf(file, sizeof file, "checkpoint-step-%d.pth", step);
        assert_int_equal(access(path_of("a", file), R_OK), 0);
    }
    assert_int_equal(go_on("a", "--epochs 2 --keep 1"), 0);
    assert_int_not_equal(access(path_of("a", "checkpoint-step-40.pth"), R_OK), 0);
}

YK_TEST(a_run_keeps_its_options_unless_others_are_given)
{
    assert_int_equal(train("a", DATA "--optimizer adam --lr 0.003 --seed 5 --max-steps 3"), 0);
    char command[256];
    snprintf(command, sizeof command, "train --resume auto --max-steps 5 --threads 1 --output %s/a",
             yk_test_directory());
    test_job_start(&job, command);
    assert_int_equal(test_job_wait(&job, 60), 0);
    assert_contains(job.output, "Training mlp on synthetic");
    assert_contains(job.output, "adam, learning rate 0.003 (from the checkpoint");
    assert_contains(job.output, "effective 120 images a step (from the checkpoint)");
    assert_contains(job.output, "seed        5 (from the checkpoint)");
    snprintf(command, sizeof command,
             "train --resume auto --max-steps 6 --lr 0.001 --threads 2 --output %s/a",
             yk_test_directory());
    test_job_start(&job, command);
    assert_int_equal(test_job_wait(&job, 60), 0);
    assert_contains(job.output, "learning rate 0.001 (--lr");
    assert_contains(job.output, "2 kernel threads a rank instead of 1");
}

/* A checkpoint of an mlp that says this of itself, in the output folder `name`. */
static void plant(const char *name, yk_training_state made)
{
    yk_model *model = test_mlp();
    yk_optimizer *sgd;
    assert_ok(yk_sgd_create(
        &sgd, model, YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1, o.momentum = 0.9)));
    assert_ok(yk_checkpoint_dir_save(path_of(name, ""), model, sgd, &made, YK_KEEP_ALL));
    yk_optimizer_destroy(sgd);
    yk_model_destroy(model);
}

/* Stopped between the last step of the second epoch and its evaluation. */
YK_TEST(what_is_saved_before_the_next_step_has_the_rate_of_the_last_one)
{
    plant("a", (yk_training_state){.arch = "mlp",
                                   .epoch = 2,
                                   .step = 84,
                                   .batch_size = 120,
                                   .world_size = 1,
                                   .threads = 1,
                                   .val_accuracy = -1,
                                   .program = "data=synthetic\narch=mlp\nbatch-size=120\n"
                                              "epochs=2\nlr=0.1\nschedule=step\n"
                                              "step-size=1\n"});
    assert_int_equal(go_on("a", ""), 0);
    assert_contains(job.output, "epoch 2/2  train loss");
    char command[256];
    snprintf(command, sizeof command, "checkpoint show --json %s/a", yk_test_directory());
    test_job_start(&job, command);
    assert_int_equal(test_job_wait(&job, 60), 0);
    assert_contains(job.output, "\"optimizer.param_groups[0].lr\": \"0.01\"");
    assert_contains(job.output, "\"optimizer.param_groups[0].initial_lr\": \"0.1\"");
    assert_contains(job.output, "\"yoke.lr\": \"0.01\"");
}

static void plant_after_ten_batches(int64_t epoch, int64_t step)
{
    plant("a",
          (yk_training_state){.arch = "mlp",
                              .epoch = epoch,
                              .step = step,
                              .epoch_batch = 10,
                              .batch_size = 120,
                              .world_size = 1,
                              .threads = 1,
                              .val_accuracy = -1,
                              .program = "data=synthetic\narch=mlp\nbatch-size=120\nepochs=2\n"});
}

/* Stopped after the last of --max-steps, but before its evaluation. */
YK_TEST(an_evaluation_that_is_owed_is_made_up_for_within_an_epoch_too)
{
    plant_after_ten_batches(0, 10);
    assert_int_equal(go_on("a", "--max-steps 10"), 0);
    assert_contains(job.output, "Done after step 10: validation accuracy");
    assert_contains(metrics_of("a"), "\"val_accuracy\"");
    assert_int_equal(go_on("a", "--max-steps 10"), 0);
    assert_null(strstr(job.output, "train loss")); /* but once */
}

YK_TEST(a_run_that_has_more_than_is_asked_for_has_nothing_to_do)
{
    plant_after_ten_batches(1, 52);
    assert_int_equal(go_on("a", "--epochs 1"), 0);
    assert_contains(job.output, "/a has 1 epoch and 52 steps already\n");
}

/* Nobody's checkpoint says where files go. */
YK_TEST(a_checkpoint_cannot_give_options_that_are_not_its_own)
{
    plant("a", (yk_training_state){
                   .arch = "mlp", .batch_size = 120, .program = "lr=0.5\noutput=elsewhere\n"});
    assert_int_equal(train("a", "--resume auto"), 1);
    assert_contains(job.output, "--output cannot be set by a checkpoint");
}

YK_TEST(a_checkpoint_that_no_run_has_left_is_refused)
{
    const struct {
        yk_training_state state;
        const char *words;
    } wrong[] = {
        {{.arch = "mlp", .batch_size = 0},
         "is not valid: it claims batches of 0 and 0 threads per rank"},
        {{.arch = "mlp", .batch_size = INT64_MAX}, "is not valid: it claims batches of"},
        {{.arch = "mlp", .batch_size = 120, .threads = 1 << 30},
         "is not valid: it claims batches of"},
        {{.arch = "mlp", .batch_size = 120, .epoch_batch = 43}, "which has only 42 here"},
        {{.arch = "mlp", .batch_size = 120, .epoch_batch = INT64_MAX}, "which has only 42 here"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char name[] = {(char)('a' + i), '\0'}, command[256];
        plant(name, wrong[i].state);
        snprintf(command, sizeof command, "train --data synthetic --resume auto --output %s/%s",
                 yk_test_directory(), name);
        test_job_start(&job, command);
        assert_int_equal(test_job_wait(&job, 60), 1);
        assert_contains(job.output, wrong[i].words);
        assert_int_equal(count(job.output, "\n"), 1);
    }
}

/* What a bad disk has taken is not overwritten: the rest of the run may be worth something. */
YK_TEST(a_run_without_a_complete_checkpoint_is_not_begun_anew)
{
    assert_int_equal(train("a", "--max-steps 2"), 0);
    assert_int_equal(truncate(path_of("a", "checkpoint-step-2.pth"), 100), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(train("a", i ? "--resume auto" : ""), 1);
        assert_contains(job.output, "/a: no complete checkpoint among 1\n");
        assert_int_equal(count(metrics_of("a"), "\"loss\":"), 2);
    }
}

/* ---- another number of ranks ----------------------------------------------------------------- */

/* The position is one of the epoch's order, not of a rank's: steps and their losses line up. */
YK_TEST(promise_17_an_epoch_goes_on_on_other_ranks)
{
    static const int from[] = {1, 2, 3, 4}, to[] = {2, 3, 2, 1};
    assert_int_equal(train("whole", DATA "--epochs 1"), 0);
    double loss = last_value("whole", "train_loss"), val_loss = last_value("whole", "val_loss");
    for (int i = 0; i < 4; i++) {
        char options[160], name[] = {(char)('a' + i), '\0'};
        snprintf(options, sizeof options, DATA "--epochs 1 --nproc %d --max-steps 17", from[i]);
        assert_int_equal(train(name, options), 0);
        snprintf(options, sizeof options, "--nproc %d --resume auto", to[i]);
        assert_int_equal(train(name, options), 0);
        assert_contains(job.output, "Done after step 42: ");
        assert_true(fabs(last_value(name, "train_loss") - loss) < 2e-3);
        assert_true(fabs(last_value(name, "val_loss") - val_loss) < 5e-3);
    }
}

YK_TEST(promise_17_what_cannot_go_on_is_refused)
{
    static const struct {
        const char *options, *words;
    } wrong[] = {
        {"--nproc 7", "batch of 120 is not divisible by 7 ranks x 1 micro-batch\n"},
        {"--accumulate 7", "batch of 120 is not divisible by 1 rank x 7 micro-batches\n"},
        {"--batch-size 60", "the batch size cannot change before the next epoch"},
        {"--seed 3", "the seed cannot change before the next epoch"},
    };
    assert_int_equal(train("a", DATA "--max-steps 3"), 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char options[128];
        snprintf(options, sizeof options, "--max-steps 9 --resume auto %s", wrong[i].options);
        assert_int_equal(train("a", options), 1);
        assert_contains(job.output, wrong[i].words);
        assert_true(count(job.output, wrong[i].words) <=
                    2); /* a launcher says it again at the end */
        if (strstr(job.output, "the first to fail"))
            assert_contains(job.output, "yoke train: rank 0 (pid ");
    }
    assert_int_equal(train("a", "--max-steps 9 --resume auto"), 0);
}

/* ---- what a resumed run knows by itself ------------------------------------------------------ */

YK_TEST(a_resumed_run_has_as_many_ranks_as_it_had)
{
    assert_int_equal(train("a", DATA "--nproc 2 --max-steps 2"), 0);
    assert_int_equal(go_on("a", "--max-steps 3"), 0);
    assert_contains(job.output, "ranks       2 (shm)");
    assert_null(strstr(job.output, " instead of "));
    assert_int_equal(go_on("a", "--max-steps 4 --nproc 1"), 0);
    assert_contains(job.output, "on 1 rank (--nproc) instead of 2");
    char command[512];
    snprintf(command, sizeof command, "run -n 2 %s train --resume auto --max-steps 5 --output %s/a",
             test_program(), yk_test_directory());
    test_job_start(&job, command);
    assert_int_equal(test_job_wait(&job, 60), 0);
    assert_contains(job.output, "on 2 ranks (set by the launcher) instead of 1");
}

YK_TEST(a_mistyped_output_is_said_to_start_a_new_run)
{
    assert_int_equal(train("nowhere", "--max-steps 1 --resume auto"), 0);
    assert_contains(job.output, "No checkpoint in ");
    assert_contains(job.output, "/nowhere: starting a new run\n");
    assert_int_equal(go_on("nowhere", "--max-steps 2"), 0);
    assert_null(strstr(job.output, "No checkpoint in"));
}

/* Standard output alone, where errors and warnings are not. */
YK_TEST(with_json_nothing_but_records_is_printed)
{
    char said[8192], options[512];
    assert_int_equal(train("other", "--max-steps 1"), 0);
    snprintf(options, sizeof options, "--checkpoint %s --classes 12",
             path_of("other", "model.pth"));
    for (int i = 0; i < 3; i++) { /* a new run, a restarted one, and one with a new last layer */
        setenv("TORCHELASTIC_RESTART_COUNT", i == 1 ? "1" : "0", 1);
        int code = yk_test_command(said, sizeof said,
                                   "cd %s && %s train " DATA "--json --max-steps 1 %s --output %d "
                                   "2>warnings",
                                   yk_test_directory(), test_program(),
                                   i == 2 ? options : "--resume auto", i);
        assert_int_equal(code, 0);
        for (char *line, *rest = said; (line = strsep(&rest, "\n")) && rest;)
            assert_int_equal(*line, '{');
    }
}

static int train_with_a_peak(const char *name, const char *options)
{
    char command[512];
    snprintf(command, sizeof command,
             "train " DATA "--schedule onecycle --max-lr 0.03 --epochs 1 --output %s/%s %s",
             yk_test_directory(), name, options);
    test_job_start(&job, command);
    return test_job_wait(&job, 100);
}

/* The peak of one-cycle is part of the schedule, so the rates of a resumed run depend on it. */
YK_TEST(a_resumed_run_keeps_the_peak_of_its_schedule)
{
    assert_int_equal(train_with_a_peak("parts", "--max-steps 20"), 0);
    assert_int_equal(go_on("parts", ""), 0);
    assert_contains(job.output, "with its peak at 0.03");
    assert_int_equal(train_with_a_peak("whole", ""), 0);
    assert_same_file("whole", "parts", "checkpoint-1.pth");
    assert_int_equal(go_on("parts", "--epochs 2 --lr 0.1"), 1);
    assert_contains(unwrapped(), "--lr: this run has the peak of its --schedule onecycle from "
                                 "--max-lr: give --max-lr instead");
    assert_int_equal(go_on("parts", "--epochs 2 --max-lr 0.1"), 0);
    assert_contains(job.output, "with its peak at 0.1");
}

YK_TEST(a_resumed_run_can_turn_switches_on_and_off)
{
    assert_int_equal(train("a", DATA "--nproc 2 --sync-bn --no-winograd --max-steps 2"), 0);
    assert_contains(job.output, "(--sync-bn)");
    assert_int_equal(go_on("a", "--max-steps 3"), 0);
    assert_contains(job.output, "(--sync-bn)");
    assert_int_equal(go_on("a", "--no-sync-bn --winograd --max-steps 4"), 0);
    assert_null(strstr(job.output, "(--sync-bn)"));
    assert_int_equal(go_on("a", "--max-steps 5"), 0);
    assert_null(strstr(job.output, "(--sync-bn)"));
}

YK_TEST(a_resumed_run_can_turn_nesterov_momentum_on_and_off)
{
    assert_int_equal(train("a", DATA "--nesterov --max-steps 2"), 0);
    assert_int_equal(go_on("a", "--no-nesterov --dampening 0.1 --max-steps 3"), 0);
    assert_contains(unwrapped(), ", momentum 0.9 dampened by 0.1");
    assert_int_equal(go_on("a", "--nesterov --dampening 0 --max-steps 4"), 0);
    assert_contains(unwrapped(), ", Nesterov momentum 0.9,");
}

/* The schedule has left another momentum behind. */
YK_TEST(a_resumed_run_without_one_cycle_has_its_own_momentum)
{
    assert_int_equal(train("a", DATA "--schedule onecycle --lr 0.01 --max-steps 10"), 0);
    assert_int_equal(go_on("a", "--schedule constant --max-steps 11"), 0);
    assert_contains(unwrapped(), ", momentum 0.9,");
}

/* The folder has the checkpoint that the last line speaks of. */
YK_TEST(a_run_that_resumes_from_another_folder_leaves_a_checkpoint)
{
    assert_int_equal(train("a", DATA "--max-steps 3"), 0);
    char options[512];
    snprintf(options, sizeof options, "--resume %s/a/checkpoint-step-3.pth --max-steps 3",
             yk_test_directory());
    assert_int_equal(train("b", options), 0);
    assert_int_equal(go_on("b", "--max-steps 4"), 0);
    assert_contains(job.output, "Done after step 4");
}

/* Else the records and checkpoints of one run would be replaced by those of the other. */
YK_TEST(a_checkpoint_of_one_run_does_not_go_on_in_the_folder_of_another)
{
    char options[512];
    assert_int_equal(train("a", DATA "--max-steps 2"), 0);
    assert_int_equal(train("b", DATA "--max-steps 3"), 0);
    snprintf(options, sizeof options, "--resume %s --max-steps 4",
             path_of("a", "checkpoint-step-2.pth"));
    assert_int_equal(train("b", options), 2);
    assert_contains(job.output, "already contains the checkpoint");
    assert_int_equal(count(metrics_of("b"), "\"loss\":"), 3);
}

YK_TEST(a_run_can_go_back_to_a_checkpoint_of_its_own)
{
    char options[512];
    assert_int_equal(train("a", DATA "--save-every 2 --max-steps 5"), 0);
    snprintf(options, sizeof options, "--resume %s/./a/checkpoint-step-2.pth --max-steps 4",
             yk_test_directory());
    assert_int_equal(train("a", options), 0);
    assert_contains(job.output, "after step 2");
    assert_int_equal(count(metrics_of("a"), "\"loss\":"), 4);
}

/* Neither from a newer one that the run went back from, nor from the beginning in a new folder.
 * Both runs end at once, since their losses are not finite. */
YK_TEST(a_run_that_ends_at_once_goes_on_from_the_checkpoint_that_it_was_given)
{
    char options[512];
    assert_int_equal(train("a", DATA "--save-every 2 --max-steps 5"), 0);
    snprintf(options, sizeof options, "--resume %s --lr 1e6 --save-every 0",
             path_of("a", "checkpoint-step-2.pth"));
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "a" : "b";
        assert_int_equal(train(name, options), 1);
        assert_int_equal(go_on(name, "--lr 0.02 --max-steps 3"), 0);
        assert_contains(unwrapped(), ", after step 2 ");
    }
    assert_int_equal(count(metrics_of("a"), "\"loss\":"), 3);
}

/* The evaluation that the first run did not come to is due before the first step. */
YK_TEST(an_average_that_is_new_is_not_evaluated)
{
    assert_int_equal(train("a", DATA "--save-every 2 --max-steps 5"), 0);
    char options[512];
    snprintf(options, sizeof options, "--resume %s/a/checkpoint-step-4.pth --ema 0.9 --max-steps 4",
             yk_test_directory());
    assert_int_equal(train("b", options), 0);
    assert_int_equal(go_on("b", "--max-steps 5"), 0);
    assert_contains(unwrapped(), "averaged weights: loss ");
}

/* That of the first group, as the newest checkpoint has it. */
static void assert_first_decay(const char *name, const char *value)
{
    char said[16384], expected[80];
    snprintf(expected, sizeof expected, "\"optimizer.param_groups[0].weight_decay\": \"%s\"",
             value);
    assert_int_equal(yk_test_command(said, sizeof said, "%s checkpoint show --json %s/%s",
                                     test_program(), yk_test_directory(), name),
                     0);
    assert_contains(said, expected);
}

/* W / lr, which the checkpoint has stored, becomes W. */
YK_TEST(a_resumed_run_can_untie_decay_from_the_rate)
{
    assert_int_equal(train("a", DATA "--lr 0.05 --independent-decay --lr-group fc1.bias=0.1 "
                                     "--max-steps 1"),
                     0);
    assert_first_decay("a", "0.01");
    assert_int_equal(go_on("a", "--max-steps 2"), 0);
    assert_contains(job.output, ", independent weight decay 0.0005");
    assert_first_decay("a", "0.01");
    assert_int_equal(go_on("a", "--no-independent-decay --max-steps 3"), 0);
    assert_contains(job.output, ", weight decay 0.0005\n");
    assert_first_decay("a", "0.0005");
}

YK_TEST(options_that_a_resumed_optimizer_cannot_take_are_named)
{
    assert_int_equal(train("a", DATA "--max-steps 2"), 0);
    assert_int_equal(go_on("a", "--momentum 0"), 1);
    assert_contains(job.output, "yoke: --momentum 0: ");
    assert_contains(job.output, "was trained with momentum 0.9, which a resumed run can change");
    assert_int_equal(go_on("a", "--no-decay-norms"), 1);
    assert_contains(job.output, "yoke: --no-decay-norms: ");
    assert_int_equal(train("c", DATA "--no-decay-norms --max-steps 2"), 0);
    assert_int_equal(go_on("c", "--decay-norms"), 1);
    assert_contains(job.output, "yoke: --decay-norms: ");
    assert_int_equal(go_on("a", "--momentum 0.5 --max-steps 3"), 0);
    assert_int_equal(train("b", DATA "--momentum 0 --max-steps 2"), 0);
    assert_int_equal(go_on("b", "--momentum 0.9"), 1);
    assert_contains(job.output, "was trained without momentum");
    assert_int_equal(go_on("b", "--max-steps 3"), 0);
}

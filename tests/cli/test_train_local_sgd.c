/* `yoke train --sync-every`: what it refuses, and that it saves and stops where ranks are equal. */
#define _GNU_SOURCE
#include "train_job.h"

#include <math.h>

#define LOCAL                                                                                      \
    "--nproc 2 --batch-size 240 --sync-every 4 --outer-lr 0.7 --outer-momentum 0.9 "               \
    "--outer-nesterov --ema 0.9 "

/* An epoch of 21 steps is 5 rounds of 4 steps, and one of 1. */
YK_TEST(promise_15_local_sgd_goes_on_to_the_bit)
{
    assert_int_equal(train("whole", LOCAL "--epochs 2"), 0);
    assert_contains(unwrapped(), "averages every 4 steps, of weights, statistics and optimizer");
    assert_contains(unwrapped(), "outer SGD with learning rate 0.7, Nesterov momentum 0.9");
    assert_int_equal(train("parts", LOCAL "--epochs 1"), 0);
    assert_int_equal(train("parts", "--epochs 2 --resume auto"), 0);
    assert_contains(unwrapped(), "averages every 4 steps");
    assert_same_file("whole", "parts", "model.pth");
    assert_true(last_value("whole", "ema_val_loss") == last_value("parts", "ema_val_loss"));
}

/* An average every four steps takes training about as far as one of gradients in each step. */
YK_TEST(local_sgd_trains_as_ddp_does)
{
    assert_int_equal(train("ddp", "--epochs 2 --nproc 2 --batch-size 240"), 0);
    assert_int_equal(train("local", "--epochs 2 --nproc 2 --batch-size 240 --sync-every 4"), 0);
    assert_true(fabs(last_value("local", "val_loss") - last_value("ddp", "val_loss")) < 0.05);
    assert_true(last_value("local", "val_loss") != last_value("ddp", "val_loss"));
}

/* One host's ranks average gradients in every step, and their average changes nothing. */
YK_TEST(hosts_that_average_gradients_train_as_ddp_does)
{
    assert_int_equal(train("ddp", "--epochs 1 --nproc 2 --batch-size 240"), 0);
    assert_int_equal(train("local", "--epochs 1 --nproc 2 --batch-size 240 --sync-every 4 "
                                    "--sync-between hosts"),
                     0);
    assert_contains(unwrapped(), "gradients averaged in every step by the 2 ranks of this host");
    assert_same_file("ddp", "local", "model.pth");
}

YK_TEST(a_checkpoint_that_is_due_waits_for_the_average)
{
    assert_int_equal(train("a", LOCAL "--max-steps 14 --save-every 3 --keep 10"), 0);
    static const int saved[] = {4, 8, 12, 14};
    for (int step = 1, next = 0; step <= 14; step++) {
        char file[64];
        snprintf(file, sizeof file, "checkpoint-step-%d.pth", step);
        bool expected = step == saved[next];
        next += expected;
        if ((access(path_of("a", file), F_OK) == 0) != expected)
            fail_msg("%s: %s", file, expected ? "is missing" : "is not expected");
    }
}

/* Wherever the signal comes, the run ends as one does that was to end with that average. */
YK_TEST(promise_13_a_signal_stops_after_the_average)
{
    char options[256], command[1024];
    snprintf(command, sizeof command,
             "train --data synthetic --arch mlp --lr 0.02 --threads 1 --output %s/stopped " LOCAL
             "--epochs 100000",
             yk_test_directory());
    test_job_start(&job, command);
    test_job_await(&job, "epoch 2/");
    kill(job.pid, SIGTERM);
    assert_job_ends(&job, 30, 128 + SIGTERM);
    long long step = (long long)last_value("stopped", "step");
    assert_true(step % 21 % 4 == 0);
    snprintf(options, sizeof options, LOCAL "--max-steps %lld --epochs 100000", step);
    assert_int_equal(train("whole", options), 0);
    assert_same_file("whole", "stopped", "model.pth");
}

YK_TEST(what_needs_every_step_of_all_ranks_is_refused)
{
    static const char *const wrong[][2] = {
        {"--sync-every 4 --zero", "--zero cannot be combined with --sync-every"},
        {"--sync-every 4 --sync-bn", "--sync-bn cannot be"},
        {"--sync-every 4 --comm-hook bf16", "--comm-hook cannot be"},
        {"--sync-every 4 --bucket-cap-mb 5", "--bucket-cap-mb cannot be"},
        {"--sync-every 4 --virtual-ranks 4", "--virtual-ranks cannot be"},
        {"--sync-every 4 --check-divergence 4", "--check-divergence cannot be"},
        {"--sync-every 4 --parallel dp", "--parallel dp cannot be"},
        {"--sync-every 4 --lookahead 0.5", "--lookahead cannot be"},
        {"--sync-every 4 --amp fp16", "--amp fp16 cannot be"},
        {"--sync-between hosts", "--sync-between requires --sync-every"},
        {"--outer-lr 0.5", "--outer-lr, --outer-momentum and --outer-nesterov require"},
        {"--outer-nesterov", "--outer-lr, --outer-momentum and --outer-nesterov require"},
        {"--sync-every 4 --outer-nesterov", "--outer-nesterov requires --outer-momentum"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(train("a", wrong[i][0]), 2);
        assert_contains(job.output, wrong[i][1]);
    }
}

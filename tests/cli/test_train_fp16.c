/* `yoke train --amp fp16`: it learns, alone and on two ranks, and the scale goes with the run. */
#define _GNU_SOURCE
#include "train_job.h"

YK_TEST(fp16_learns)
{
    assert_int_equal(train("a", "--amp fp16 --epochs 4 --batch-size 100"), 0);
    assert_contains(job.output, "activations in fp16, weights and their gradients in f32");
    assert_true(last_value("a", "train_loss") < 2.15); /* ln 10 = 2.30 is guessing */
    assert_true(last_value("a", "val_accuracy") > 0.15);
    const char *metrics = metrics_of("a");
    assert_int_equal(count(metrics, "\"scale\": 65536"), 200); /* of each step */
    assert_int_equal(count(metrics, "\"skipped\": 0"), 200);
}

YK_TEST(fp16_learns_on_two_ranks)
{
    assert_int_equal(train("a", "--amp fp16 --epochs 4 --batch-size 100 --nproc 2"), 0);
    assert_true(last_value("a", "train_loss") < 2.15);
    assert_true(last_value("a", "val_accuracy") > 0.15);
}

/* A convolutional network, its norms synchronised, its gradients accumulated. */
YK_TEST(fp16_goes_with_sync_bn_and_accumulation)
{
    assert_int_equal(train("a", "--amp fp16 --arch resnet18 --sync-bn --accumulate 2 "
                                "--max-steps 2 --batch-size 32 --nproc 2"),
                     0);
    assert_int_equal(count(metrics_of("a"), "\"scale\""), 2);
}

YK_TEST(the_scale_is_saved_and_restored)
{
    assert_int_equal(train("whole", "--amp fp16 --epochs 2 --batch-size 250"), 0);
    assert_int_equal(train("parts", "--amp fp16 --epochs 1 --batch-size 250"), 0);
    assert_int_equal(train("parts", "--amp fp16 --epochs 2 --resume auto"), 0);
    assert_true(last_value("whole", "val_loss") == last_value("parts", "val_loss"));
    yk_training_state whole, parts;
    char path[512];
    snprintf(path, sizeof path, "%s", path_of("whole", "checkpoint-2.pth"));
    assert_ok(yk_checkpoint_read_state(path, &whole));
    snprintf(path, sizeof path, "%s", path_of("parts", "checkpoint-2.pth"));
    assert_ok(yk_checkpoint_read_state(path, &parts));
    assert_true(whole.scaler.scale == 65536 && parts.scaler.scale == 65536);
    assert_int_equal(whole.scaler.growth_tracker, 40);
    assert_int_equal(parts.scaler.growth_tracker, 40);
}

YK_TEST(the_scale_grows_as_asked_for)
{
    assert_int_equal(train("a", "--amp fp16 --epochs 1 --max-steps 10 --batch-size 100 "
                                "--init-scale 1024 --growth-interval 4"),
                     0);
    assert_int_equal(count(metrics_of("a"), "\"scale\": 1024"), 4);
    assert_int_equal(count(metrics_of("a"), "\"scale\": 2048"), 4);
    assert_int_equal(train("a", "--resume auto --max-steps 13 --growth-interval 3"), 0);
    assert_int_equal(count(metrics_of("a"), "\"scale\": 4096"), 3); /* 2 steps before, 1 after */
    assert_int_equal(count(metrics_of("a"), "\"scale\": 8192"), 2);
}

/* The first step loses the weights; fewer are left than the trainer skips in a row. */
YK_TEST(a_short_run_that_loses_its_weights_is_an_error)
{
    assert_int_equal(train("a", "--amp fp16 --lr 1000 --epochs 1"), 1);
    assert_contains(job.output, "the loss has not been finite in");
    assert_null(strstr(job.output, "Done"));
}

/* With more steps, the scale falls to one at which they are taken. */
YK_TEST(a_short_run_that_was_only_skipping_steps_says_so)
{
    assert_int_equal(train("a", "--amp fp16 --init-scale 1e30 --max-steps 3 --nproc 2"), 0);
    assert_int_equal(count(unwrapped(),
                           "all 3 steps were skipped, and the weights are those of "
                           "the start: gradients times the loss scale were not finite"),
                     1);
    assert_contains(unwrapped(), "now to 1.25e+29; train for more steps");
    assert_contains(job.output, "Done after step 3");
    assert_int_equal(count(metrics_of("a"), "\"skipped\": 1"), 3);
    assert_int_equal(train("b", "--amp fp16 --init-scale 1e6 --max-steps 20"), 0);
    assert_null(strstr(unwrapped(), "skipped"));
}

YK_TEST(a_scale_without_fp16_is_refused)
{
    assert_int_equal(train("a", "--init-scale 1024"), 2);
    assert_contains(job.output, "--init-scale and --growth-interval require --amp fp16, not off");
}

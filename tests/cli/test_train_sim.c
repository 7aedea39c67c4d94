/*
 * `yoke train --device sim`: the same bits as on ref, whose kernels it runs, or something above the
 * device does not wait, does not order its work, or replays what has changed since it was recorded.
 */
#define _GNU_SOURCE
#include "train_job.h"

#include <stdlib.h>

/* All values of a key in metrics.jsonl, in order. */
static size_t values_of(const char *name, const char *key, double *values, size_t room)
{
    char quoted[64];
    size_t count = 0;
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    for (const char *at = metrics_of(name); (at = strstr(at, quoted)); at += strlen(quoted)) {
        assert_true(count < room);
        values[count++] = strtod(at + strlen(quoted), NULL);
    }
    return count;
}

/* Every step is told once, in order, with what was found in it. */
static void assert_same_metrics(const char *name, const char *expected)
{
    static const char *const keys[] = {"step",  "loss",    "lr",         "grad_norm",
                                       "scale", "skipped", "train_loss", "val_loss"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        double here[64], there[64];
        size_t count = values_of(name, keys[i], here, 64);
        assert_int_equal(count, values_of(expected, keys[i], there, 64));
        assert_memory_equal(here, there, count * sizeof *here);
    }
}

/* Few images are left for validation, which takes these devices longer than the steps. */
static int train_some(const char *name, const char *options)
{
    char line[512];
    snprintf(line, sizeof line, "%s --val-split 0.02", options);
    return train(name, line);
}

/* Both with these options; the simulated device in an order drawn from the seed. */
static void train_both(const char *seed, const char *options)
{
    char line[512];
    setenv("YOKE_SIM_SEED", seed, 1);
    snprintf(line, sizeof line, "%s --device ref", options);
    assert_int_equal(train_some("ref", line), 0);
    snprintf(line, sizeof line, "%s --device sim", options);
    assert_int_equal(train_some("sim", line), 0);
    assert_same_metrics("sim", "ref");
    assert_same_file("sim", "ref", "model.pth");
}

/* Trains "sim"'s steps in two parts. */
static void resume(const char *options, const char *first, const char *all)
{
    char line[512];
    snprintf(line, sizeof line, "%s --max-steps %s --device sim", options, first);
    assert_int_equal(train_some("parts", line), 0);
    snprintf(line, sizeof line, "%s --max-steps %s --device sim --resume auto", options, all);
    assert_int_equal(train_some("parts", line), 0);
    assert_same_file("parts", "sim", "model.pth");
}

YK_TEST(two_ranks_train_as_on_ref)
{
    train_both("1", "--max-steps 5 --batch-size 16 --nproc 2 --accumulate 2 --optimizer adam "
                    "--clip-grad-norm 1 --ema 0.9");
    assert_contains(unwrapped(), "exchange sim, in the device's streams");
}

YK_TEST(four_ranks_with_zero_and_sync_bn_train_as_on_ref)
{
    train_both("2", "--max-steps 5 --batch-size 16 --nproc 4 --zero --sync-bn --clip-grad-norm 1");
}

YK_TEST(gradients_in_bf16_train_as_on_ref)
{
    train_both("3", "--max-steps 5 --batch-size 16 --nproc 2 --comm-hook bf16");
}

YK_TEST(powersgd_trains_as_on_ref_and_resumes)
{
    train_both("4", "--max-steps 5 --batch-size 16 --nproc 2 --comm-hook powersgd "
                    "--powersgd-start 2");
    resume("--batch-size 16 --nproc 2 --comm-hook powersgd --powersgd-start 2", "3", "5");
}

YK_TEST(local_sgd_trains_as_on_ref_and_resumes)
{
    train_both("9", "--max-steps 6 --batch-size 16 --nproc 2 --sync-every 2 --outer-momentum 0.3 "
                    "--ema 0.9");
    resume("--batch-size 16 --nproc 2 --sync-every 2 --outer-momentum 0.3 --ema 0.9", "4", "6");
}

YK_TEST(virtual_ranks_train_as_on_ref)
{
    train_both("5", "--max-steps 5 --batch-size 16 --nproc 2 --virtual-ranks 4");
}

YK_TEST(replicas_train_as_on_ref)
{
    train_both("6", "--max-steps 5 --batch-size 16 --parallel dp --devices cpu:0,cpu:1");
}

YK_TEST(fp16_trains_as_on_ref_and_resumes)
{
    train_both("7", "--max-steps 5 --batch-size 8 --amp fp16 --init-scale 1e6 --clip-grad-norm 1");
    resume("--batch-size 8 --amp fp16 --init-scale 1e6 --clip-grad-norm 1", "2", "5");
}

YK_TEST(fp16_on_two_ranks_trains_as_on_ref_and_resumes)
{
    train_both("8", "--max-steps 5 --batch-size 8 --amp fp16 --init-scale 1e6 --nproc 2 --zero");
    resume("--batch-size 8 --amp fp16 --init-scale 1e6 --nproc 2 --zero", "3", "5");
}

/* The device keeps the pictures in all other trainings here, and in the second half of "parts". */
YK_TEST(pictures_that_cross_train_as_on_ref_and_resume)
{
    train_both("9", "--max-steps 5 --batch-size 16 --nproc 2 --device-cache 0 --cutmix 1 "
                    "--random-erasing 0.5");
    assert_int_equal(train_some("parts", "--max-steps 3 --batch-size 16 --nproc 2 --device-cache 0 "
                                         "--cutmix 1 --random-erasing 0.5 --device sim"),
                     0);
    assert_int_equal(train_some("parts", "--max-steps 5 --batch-size 16 --nproc 2 --cutmix 1 "
                                         "--random-erasing 0.5 --device sim --resume auto"),
                     0);
    assert_same_file("parts", "sim", "model.pth");
}

/* The views are made on the host. */
YK_TEST(views_of_pictures_of_the_device_are_evaluated_as_on_ref)
{
    train_both("10", "--max-steps 2 --batch-size 64 --tta mirror");
}

/* The ranks agree on it in the device's stream, or through the host. */
YK_TEST(a_loss_that_is_not_finite_stops_both_ranks)
{
    const char *const lists[] = {"--nproc 2", "--nproc 2 --virtual-ranks 4"};
    for (int i = 0; i < 2; i++) {
        char line[256];
        snprintf(line, sizeof line, "--max-steps 5 --batch-size 16 --lr 1e6 --device sim %s",
                 lists[i]);
        assert_int_not_equal(train("nan", line), 0);
        assert_contains(unwrapped(), "the loss is nan; stopped before the weights");
    }
}

/* `yoke train --device sim`: the same bits as on ref, whose kernels it runs, or something above the
 * device does not wait, or does not order its work. */
#define _GNU_SOURCE
#include "train_job.h"

static const char *const keys[] = {"step", "train_loss", "val_loss"};

static void assert_same_metrics(const char *name, const char *expected)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        assert_true(last_value(name, keys[i]) == last_value(expected, keys[i]));
}

/* Both with these options. */
static void train_both(const char *options)
{
    char line[512];
    snprintf(line, sizeof line, "%s --device ref", options);
    assert_int_equal(train("ref", line), 0);
    snprintf(line, sizeof line, "%s --device sim", options);
    assert_int_equal(train("sim", line), 0);
    assert_same_metrics("sim", "ref");
}

YK_TEST(two_ranks_train_as_on_ref)
{
    train_both("--max-steps 3 --batch-size 16 --nproc 2 --accumulate 2 --optimizer adam "
               "--clip-grad-norm 1 --ema 0.9");
}

YK_TEST(fp16_trains_as_on_ref_and_resumes)
{
    train_both("--max-steps 4 --batch-size 8 --amp fp16");
    assert_int_equal(train("half", "--max-steps 2 --batch-size 8 --amp fp16 --device sim"), 0);
    assert_int_equal(
        train("half", "--max-steps 4 --batch-size 8 --amp fp16 --device sim --resume auto"), 0);
    assert_same_metrics("half", "sim");
}

/* The distributed side of `yoke train`: accumulation, checks, hooks, sharding. */
#define _GNU_SOURCE
#include "train_job.h"

#include <math.h>

/* ---- ranks that somebody else has started --------------------------------------------------- */

static int train_with(const char *of_rank0, const char *of_rank1)
{
    char command[1024];
    snprintf(command, sizeof command,
             "run -n 2 sh -c 'test $RANK = 0 && set -- %s || set -- %s; exec %s train --data "
             "synthetic --arch mlp --lr 0.02 --threads 1 --max-steps 1 --output %s/a \"$@\"'",
             of_rank0, of_rank1, test_program(), yk_test_directory());
    test_job_start(&job, command);
    return test_job_wait(&job, 60);
}

/* Each would train something else, and their mean would be neither. */
YK_TEST(ranks_that_were_given_different_options_are_refused)
{
    assert_int_equal(train_with("--seed 1", "--seed 2"), 1);
    assert_contains(job.output, "rank 1 was given --seed=2, rank 0 was not: all ranks need");
    assert_int_equal(train_with("--batch-size 64", ""), 1);
    assert_contains(job.output, "rank 0 was given --batch-size=64, rank 1 was not: all ranks need");
    assert_int_equal(train_with("--seed 1 --ema 0.9", "--ema 0.9 --seed 1"), 0);
}

/* ---- accumulation --------------------------------------------------------------------------- */

/* 5,000 images in steps of 240: the last step has 200 of them, in short micro-batches. */
/* The ranks are told their number, and do not count their own cores. */
YK_TEST(there_is_a_rank_for_each_core_where_that_is_wanted)
{
    char options[64], ranks[32];
    int cores = yk_threads_default(1);
    snprintf(options, sizeof options, "--nproc auto --batch-size %d --max-steps 1", 8 * cores);
    snprintf(ranks, sizeof ranks, "%d ranks x 8", cores);
    assert_int_equal(train("auto", options), 0);
    if (cores > 1)
        assert_contains(job.output, ranks);
}

YK_TEST(accumulation_trains_as_the_whole_batch_does)
{
    assert_int_equal(train("whole", "--epochs 1 --batch-size 240"), 0);
    double loss = last_value("whole", "train_loss"), val_loss = last_value("whole", "val_loss");
    static const char *const others[] = {"--accumulate 4", "--accumulate 3 --nproc 2"};
    for (int i = 0; i < 2; i++) {
        char options[128], name[] = {(char)('a' + i), '\0'};
        snprintf(options, sizeof options, "--epochs 1 --batch-size 240 %s", others[i]);
        assert_int_equal(train(name, options), 0);
        assert_contains(job.output, "1 epoch of 21 steps\n");
        assert_contains(job.output, "Done after step 21: ");
        assert_int_equal((int)last_value(name, "step"), 21);
        assert_true(fabs(last_value(name, "train_loss") - loss) < 2e-3);
        assert_true(fabs(last_value(name, "val_loss") - val_loss) < 2e-3);
    }
}

YK_TEST(promise_23_the_start_says_what_is_accumulated)
{
    assert_int_equal(train("a", "--max-steps 1 --nproc 2 --batch-size 96 --accumulate 3"), 0);
    assert_contains(unwrapped(),
                    "effective 96 images a step = 2 ranks x 16 x 3 accumulated (--batch-size)");
    assert_int_equal(train("b", "--batch-size 96 --accumulate 7"), 2);
    assert_contains(job.output, "--batch-size 96 cannot be shared equally by 1 rank x 7 "
                                "micro-batches; 91 or 98 can");
}

YK_TEST(promise_15_an_accumulating_run_goes_on_within_an_epoch)
{
    assert_int_equal(train("whole", "--epochs 1 --batch-size 240 --accumulate 4"), 0);
    assert_int_equal(train("parts", "--epochs 1 --batch-size 240 --accumulate 4 --max-steps 7"), 0);
    assert_int_equal(train("parts", "--epochs 1 --accumulate 4 --resume auto"), 0);
    assert_true(last_value("whole", "val_loss") == last_value("parts", "val_loss"));
    assert_true(last_value("whole", "loss") == last_value("parts", "loss"));
}

/* ---- divergence ------------------------------------------------------------------------------ */

YK_TEST(checking_for_divergence_changes_no_bit)
{
    assert_int_equal(train("a", "--max-steps 9 --nproc 2"), 0);
    assert_int_equal(train("b", "--max-steps 9 --nproc 2 --check-divergence 2"), 0);
    assert_true(last_value("a", "val_loss") == last_value("b", "val_loss"));
}

/* ---- SyncBatchNorm --------------------------------------------------------------------------- */

YK_TEST(the_start_says_how_batch_norm_sees_the_batch)
{
    assert_int_equal(train("a", "--max-steps 2 --nproc 2 --sync-bn"), 0);
    assert_contains(job.output, "batch norm  over the joint batch of all ranks (--sync-bn)");
}

/* ---- buckets --------------------------------------------------------------------------------- */

static int buckets_of(const char *name, const char *options)
{
    int buckets = 0;
    assert_int_equal(train(name, options), 0);
    const char *line = strstr(job.output, "  buckets     ");
    assert_non_null(line);
    assert_int_equal(sscanf(line, " buckets %d:", &buckets), 1);
    return buckets;
}

/* A cap does not change what is summed; it is kept in the checkpoint. */
YK_TEST(the_cap_of_buckets_decides_their_number)
{
    int usual = buckets_of("a", "--max-steps 1 --nproc 2");
    double loss = last_value("a", "val_loss");
    int each = buckets_of("b", "--max-steps 1 --nproc 2 --bucket-cap-mb 0");
    assert_true(each > usual);
    assert_true(last_value("b", "val_loss") == loss);
    assert_int_equal(buckets_of("b", "--max-steps 2 --resume auto"), each);
    assert_int_equal(buckets_of("b", "--max-steps 3 --resume auto --bucket-cap-mb 25"), usual);
}

YK_TEST(wrong_caps_of_buckets_are_refused)
{
    static const char *const wrong[] = {"-1", "nan", "inf", "25MB", "1e9", "''"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char options[64];
        snprintf(options, sizeof options, "--bucket-cap-mb %s", wrong[i]);
        assert_int_equal(train("a", options), 2);
        assert_contains(job.output, "--bucket-cap-mb");
    }
}

/* ---- comm hooks ------------------------------------------------------------------------------ */

YK_TEST(comm_hooks_train_alike)
{
    assert_int_equal(train("none", "--epochs 1 --nproc 2 --check-divergence 10"), 0);
    double loss = last_value("none", "train_loss");
    static const char *const hooks[] = {"bf16", "fp16", "powersgd --powersgd-start 5"};
    for (int i = 0; i < 3; i++) {
        char options[160], name[] = {(char)('a' + i), '\0'};
        snprintf(options, sizeof options,
                 "--epochs 1 --nproc 2 --check-divergence 10 --comm-hook %s", hooks[i]);
        assert_int_equal(train(name, options), 0);
        assert_contains(job.output,
                        i < 2 ? "gradients travel in " : "PowerSGD of rank 1 after step 5");
        double bound = i < 2 ? 2e-3 : 0.2;
        assert_true(fabs(last_value(name, "train_loss") - loss) < bound);
        assert_true(last_value(name, "train_loss") != loss);
    }
}

YK_TEST(options_of_hooks_that_are_off_are_refused)
{
    assert_int_equal(train("a", "--comm-hook bf16 --powersgd-rank 2"), 2);
    assert_contains(job.output, "--comm-hook powersgd, not bf16");
    assert_int_equal(train("a", "--comm-hook zip"), 2);
    assert_int_equal(train("a", "--resume auto --powersgd-rank 2"), 1); /* nothing to resume */
    assert_contains(job.output, "--comm-hook powersgd, not none");
    assert_int_equal(train("a", "--max-steps 1"), 0);
    assert_int_equal(train("a", "--max-steps 2 --resume auto --powersgd-start 2"), 1);
    assert_contains(job.output, "--comm-hook powersgd, not none");
    assert_int_equal(train("a", "--max-steps 2 --resume auto --init-scale 2"), 1);
    assert_contains(job.output, "require --amp fp16, not off");
}

/* ---- DataParallel ---------------------------------------------------------------------------- */

YK_TEST(data_parallel_trains_as_one_device_does)
{
    assert_int_equal(train("one", "--epochs 1 --batch-size 125"), 0);
    assert_int_equal(train("two", "--epochs 1 --batch-size 125 --parallel dp --accumulate 5"), 0);
    assert_contains(job.output, "1 thread each (--parallel dp)");
    assert_true(fabs(last_value("one", "train_loss") - last_value("two", "train_loss")) < 2e-3);
    assert_true(fabs(last_value("one", "val_loss") - last_value("two", "val_loss")) < 2e-3);
}

YK_TEST(data_parallel_and_ranks_are_told_apart)
{
    static const struct {
        const char *options, *words;
    } wrong[] = {
        {"--parallel dp --nproc 2", "--parallel dp runs in one process, but there are 2 ranks"},
        {"--devices cpu:0,cpu:1", "--devices requires --parallel dp"},
        {"--parallel dp --sync-bn", "--sync-bn cannot be combined with --parallel dp"},
        {"--parallel dp --zero", "--zero cannot be combined with --parallel dp"},
        {"--parallel dp --comm-hook bf16", "--comm-hook cannot be combined with"},
        {"--parallel dp --bucket-cap-mb 5", "--bucket-cap-mb cannot be combined with"},
        {"--parallel dp --check-divergence 2", "--check-divergence cannot be combined with"},
        {"--parallel dp --devices gpu:0", "--devices: device \"gpu:0\": expected cpu:K"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(train("a", wrong[i].options), 2);
        assert_contains(job.output, wrong[i].words);
    }
}

/* ---- ZeRO ------------------------------------------------------------------------------------ */

YK_TEST(promise_15_zero_changes_no_bit_and_goes_on_either_way)
{
    enum { SIZE = 160 };
    char options[SIZE];
    const char *adamw = "--nproc 2 --optimizer adamw --lr 0.001";
    static const char *const runs[][2] = {{"a", " --zero"}, {"b", ""}};
    snprintf(options, SIZE, "--epochs 2 %s", adamw);
    assert_int_equal(train("plain", options), 0);
    for (int i = 0; i < 2; i++) {
        snprintf(options, SIZE, "--epochs 1 %s%s", adamw, runs[i][1]);
        assert_int_equal(train(runs[i][0], options), 0);
        snprintf(options, SIZE, "--epochs 2 %s --resume auto%s", adamw, runs[1 - i][1]);
        assert_int_equal(train(runs[i][0], options), 0);
        assert_true(last_value(runs[i][0], "val_loss") == last_value("plain", "val_loss"));
        assert_true(last_value(runs[i][0], "loss") == last_value("plain", "loss"));
    }
}

YK_TEST(the_memory_plan_shows_what_zero_keeps)
{
    assert_int_equal(train("a", "--max-steps 1 --nproc 2 --memory-plan --zero"), 0);
    assert_contains(unwrapped(), "optimizer state 3.0: 1 of 2 ranks' parts (--zero)");
}

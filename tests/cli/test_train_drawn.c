/*
 * Trainings with options that are drawn: any of them go together, and one that ends in the middle
 * of an epoch and is resumed has the bits of one that did not end there. Resuming takes the options
 * from the checkpoint.
 */
#define _GNU_SOURCE
#include "going_on.h"

enum { RUNS = 4, CHOICES = 6 };

/* One of each row is drawn. */
static const char *const options[][CHOICES] = {
    {"--arch mlp", "--arch mlp", "--arch resnet9", "--arch resnet9", "--arch airbench94",
     "--arch mlp --device sim"},
    {"--optimizer sgd --nesterov", "--optimizer rmsprop --centered",
     "--optimizer adamw --amsgrad --no-decay-norms", "--optimizer lars --no-decay-norms",
     "--optimizer lamb --no-decay-norms", "--optimizer sgd --independent-decay"},
    {"--amp off", "--amp off", "--amp off", "--amp bf16", "--amp bf16",
     "--amp fp16 --init-scale 1024"},
    {"--schedule constant --warmup-epochs 1", "--schedule warmrestarts --t-0 1 --t-mult 2",
     "--schedule multistep --milestones 2,5 --schedule-unit step",
     "--schedule cosine --schedule-unit step --warmup-steps 3", "--schedule onecycle",
     "--schedule polynomial --power 0.9 --schedule-unit step"},
    {"", "--mixup 0.2", "--cutmix 0.5", "--random-erasing 0.5", "--color-jitter 0.3",
     "--label-smoothing 0.1"},
    {"", "--ema 0.9", "--ema 0.9", "--lookahead 0.5 --lookahead-steps 2",
     "--lookahead 0.5 --lookahead-steps 3 --ema 0.9", "--recompute"},
    {"", "--clip-grad-norm 1", "--accumulate 2", "--loss-reduction sum", "--freeze '*.bias'",
     "--lr-group '*.bias=0.01'"},
    {"--nproc 1", "--nproc 2", "--nproc 2 --zero",
     "--nproc 2 --comm-hook powersgd --powersgd-start 2",
     "--nproc 2 --comm-hook bf16 --bucket-cap-mb 0", "--nproc 3 --sync-bn"},
    {"", "--save-every 2", "--save-async", "--workers 2", "--drop-last", "--log-every 3"},
};

enum { ROWS = sizeof options / sizeof *options };

/* From 0 to below - 1, by the run and by what is drawn (splitmix64). */
static int draw(int run, int what, int below)
{
    uint64_t word = (uint64_t)(run * 256 + what + 1) * 0x9e3779b97f4a7c15u;
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9u;
    word = (word ^ word >> 27) * 0x94d049bb133111ebu;
    return (int)((word ^ word >> 31) % (uint64_t)below);
}

static void draw_options(int run, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "--val-split 0.01 --batch-size 12 --seed %d", run);
    for (int row = 0; row < ROWS; row++)
        used += (size_t)snprintf(text + used, size - used, " %s",
                                 options[row][draw(run, row, CHOICES)]);
    assert_true(used < size);
}

static void must_end(int code)
{
    if (code != 0)
        fail_msg("exit code %d: \"%s\"", code, job.output);
}

static void end_and_resume(int run)
{
    char words[700], command[800], whole[32], parts[32];
    const int steps = 4 + draw(run, ROWS, 5), first = 1 + draw(run, ROWS + 1, steps - 1);
    snprintf(whole, sizeof whole, "whole-%d", run);
    snprintf(parts, sizeof parts, "parts-%d", run);
    draw_options(run, words, sizeof words);
    print_message("run %d: %d steps, then %d; %s\n", run, first, steps - first, words);
    snprintf(command, sizeof command, "%s --max-steps %d", words, steps);
    must_end(train(whole, command));
    snprintf(command, sizeof command, "%s --max-steps %d", words, first);
    must_end(train(parts, command));
    snprintf(command, sizeof command, "--max-steps %d", steps);
    must_end(go_on(parts, command)); /* the other options are in the checkpoint */
    assert_same_file(whole, parts, "model.pth");
    snprintf(command, sizeof command, "checkpoint-step-%d.pth", steps);
    assert_same_file(whole, parts, command); /* averages, optimizer, position */
}

YK_TEST(promise_15_trainings_with_drawn_options_are_resumed_to_the_same_bits)
{
    for (int run = 0; run < RUNS; run++)
        end_and_resume(run);
}

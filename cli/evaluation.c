/*
 * Evaluation over all ranks: each sample counts once, whatever their number. The ranks' shares may
 * differ by a batch, so they agree on the rounds first and meet in each, to stop together.
 */
#include "setup.h"

#include <stdlib.h>
#include <string.h>

static const yk_tensor *find_tensor(const yk_batch *batch, const char *name)
{
    for (int i = 0; i < batch->count; i++)
        if (strcmp(batch->names[i], name) == 0)
            return &batch->tensors[i];
    return NULL;
}

/* logits (N, C), labels (N): how many rows have their largest logit at their label. */
static int64_t count_correct(const yk_tensor *logits, const int32_t *labels)
{
    int64_t correct = 0, classes = logits->dims[1];
    const float *row = logits->data;
    for (int64_t i = 0; i < logits->dims[0]; i++, row += classes) {
        int64_t best = 0;
        for (int64_t c = 1; c < classes; c++)
            if (row[c] > row[best])
                best = c;
        correct += best == labels[i];
    }
    return correct;
}

/* The statistics that are saved are rank 0's: they are the ones to be evaluated, on every rank. */
static bool share_buffers(yk_model *model, yk_group *world)
{
    for (size_t i = 0; i < yk_model_buffer_count(model); i++) {
        yk_tensor value = yk_model_buffer(model, i).value;
        if (!cli_ok(yk_broadcast(world, value.data, (size_t)yk_tensor_count(&value), value.dtype, 0,
                                 NULL)))
            return false;
    }
    yk_model_parameters_changed(model);
    return true;
}

enum { SUMS = 3 }; /* loss, correct answers, samples */

static bool evaluate_batch(double sums[SUMS], yk_model *model, const yk_batch *batch)
{
    yk_tensor logits;
    if (!cli_ok(yk_model_forward(model, batch)) || !cli_ok(yk_model_output(model, &logits)))
        return false;
    sums[0] += yk_model_loss(model) * (double)batch->size;
    sums[1] += (double)count_correct(&logits, find_tensor(batch, "labels")->data);
    sums[2] += (double)batch->size;
    return true;
}

/* sums: (shares, SUMS) of this rank's, and behind them room for those of all ranks. */
static bool evaluate_rounds(cli_evaluation *result, double *sums, yk_model *model,
                            yk_loader *loader, yk_group *world, int (*stop)(void))
{
    int shares = yk_loader_shares(loader);
    int64_t rounds = yk_loader_batches(loader), mine = rounds;
    if (!cli_ok(yk_all_reduce(world, &rounds, 1, YK_I64, YK_REDUCE_MAX, NULL)))
        return false;
    for (int64_t round = 0; round < rounds; round++) {
        const yk_batch *batch = round < mine ? yk_loader_next(loader) : NULL;
        if (round < mine && !batch)
            return cli_ok(yk_loader_status(loader)) && cli_complain("the data ended early");
        if (batch && !evaluate_batch(sums + round % shares * SUMS, model, batch))
            return false;
        int32_t stopping = stop ? stop() : 0;
        if (!cli_ok(yk_all_reduce(world, &stopping, 1, YK_I32, YK_REDUCE_MAX, NULL)))
            return false;
        if (stopping) {
            result->stopped = true;
            return true;
        }
    }
    yk_loader_next(loader); /* NULL: takes the end of the epoch, for the next evaluation */
    if (!cli_sum_shares(world, sums, shares, SUMS, sums + shares * SUMS))
        return false;
    result->count = (int64_t)sums[2];
    result->correct = (int64_t)sums[1];
    result->loss = sums[2] > 0 ? sums[0] / sums[2] : 0;
    result->accuracy = sums[2] > 0 ? sums[1] / sums[2] : 0;
    return true;
}

bool cli_evaluate(cli_evaluation *result, yk_model *model, yk_loader *loader, yk_group *world,
                  int (*stop)(void))
{
    *result = (cli_evaluation){0};
    if (!share_buffers(model, world))
        return false;
    size_t shares = (size_t)yk_loader_shares(loader), ranks = (size_t)yk_group_size(world);
    double *sums = calloc(shares * (ranks + 1) * SUMS, sizeof *sums);
    if (!sums)
        return cli_complain("out of memory");
    yk_model_eval(model);
    bool fine = evaluate_rounds(result, sums, model, loader, world, stop);
    yk_model_train(model);
    free(sums);
    return fine;
}

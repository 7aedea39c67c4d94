/* Evaluation over all ranks: each sample counts once, whatever their number. */
#include <math.h>
#include <stdlib.h>

#include <yoke/train.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/options.h"
#include "comm/group_internal.h"
#include "device/memory.h"
#include "model/model_hooks.h"
#include "model/outcome.h"
#include "parallel/verify_model.h"
#include "train/answers.h"
#include "train/rounds.h"
#include "train/sums.h"
#include "train/tta.h"

yk_status yk_model_broadcast_buffers(yk_model *model, yk_group *group)
{
    YKI_NOT_NULL(model);
    if (!group)
        return YK_OK;
    for (size_t i = 0; i < yk_model_buffer_count(model); i++) {
        const yk_tensor value = yk_model_buffer(model, i).value;
        YK_TRY(yki_broadcast_tensor(&value, group, 0));
    }
    yk_model_parameters_changed(model);
    return YK_OK;
}

/* What is summed up over all labels that count, or over samples if only the loss is measured. */
enum { LOSS, CORRECT, LABELS, IN_TOP, CORRECT_AUGMENTED, SUMS };

/* A batch that has been entered in the device, and is scored once the next one has been. */
typedef struct kept_batch {
    yki_outcome outcome;
    yk_tensor labels; /* a copy */
    size_t room;      /* bytes of it */
    double *sums;     /* what its scores are added to; NULL: there is no batch */
} kept_batch;

typedef struct evaluation_run {
    yk_model *model;
    yk_loader *loader;
    yk_evaluate_options options;
    double *sums;      /* (virtual_ranks, SUMS) of this rank, then room for those of all ranks */
    int virtual_ranks; /* that take turns on this rank */
    int64_t classes;   /* 0 before the first batch */
    bool classifies;   /* otherwise only the loss is measured */
    yki_label_rules rules;
    bool lags; /* batches are kept, because the device computes asynchronously */
    kept_batch kept[2];
    int next; /* the one to use next */
    yki_tta tta;
} evaluation_run;

/* Counts the correct answers with test-time augmentation, after the batch's own forward. */
static yk_status add_augmented(evaluation_run *run, double sums[SUMS], const yk_batch *batch)
{
    yk_tensor logits;
    yki_answers answers;
    if (run->tta.kind == YK_TTA_NONE)
        return YK_OK;
    YK_TRY(yki_tta_run(&run->tta, run->model, batch, &logits));
    YK_TRY(yki_answers_create(&answers, &logits, yk_batch_find(batch, "labels"), run->rules));
    sums[CORRECT_AUGMENTED] += (double)yki_answers_count(&answers, NULL).correct;
    return YK_OK;
}

static yk_status add_scores(evaluation_run *run, double sums[SUMS], const yk_tensor *logits,
                            const yk_tensor *labels, double loss)
{
    yki_answers answers;
    YK_TRY(yki_answers_create(&answers, logits, labels, run->rules));
    YK_TRY(yki_answers_check(&answers));
    yki_answer_counts counts = yki_answers_count(&answers, run->options.confusion);
    run->classes = answers.classes;
    if (counts.labels > 0) /* the loss of none is not a number */
        sums[LOSS] += loss * (double)counts.labels;
    sums[CORRECT] += (double)counts.correct;
    sums[LABELS] += (double)counts.labels;
    sums[IN_TOP] += (double)counts.top;
    sums[CORRECT_AUGMENTED] += run->tta.kind == YK_TTA_NONE ? (double)counts.correct : 0;
    return YK_OK;
}

static yk_status score_kept(evaluation_run *run, kept_batch *kept)
{
    double loss, *sums = kept->sums;
    yk_tensor logits;
    kept->sums = NULL;
    if (!sums)
        return YK_OK;
    YK_TRY(yki_outcome_read(&kept->outcome, &loss, &logits));
    return add_scores(run, sums, &logits, &kept->labels, loss);
}

static yk_status copy_labels(kept_batch *kept, const yk_tensor *labels)
{
    size_t bytes = yk_tensor_bytes(labels);
    void *data = kept->labels.data;
    if (bytes > kept->room) {
        free(data);
        data = yki_calloc(1, bytes);
        kept->room = data ? bytes : 0;
    }
    kept->labels = *labels;
    kept->labels.device = NULL;
    kept->labels.data = data;
    return data || bytes == 0 ? yk_tensor_read(labels, data)
                              : yki_error_memory(bytes, "the labels of an evaluation");
}

/* Keeps the batch whose forward has just been entered, and scores the one before it. */
static yk_status keep_batch(evaluation_run *run, double sums[SUMS], const yk_batch *batch)
{
    kept_batch *kept = &run->kept[run->next];
    const yk_tensor *labels = yk_batch_find(batch, "labels");
    run->next = 1 - run->next;
    if (!kept->outcome.device)
        YK_TRY(yki_outcome_create(&kept->outcome, run->model));
    YK_TRY(yki_outcome_take(&kept->outcome, run->model));
    YK_TRY(yki_answers_create(&(yki_answers){0}, &kept->outcome.shape, labels, run->rules));
    YK_TRY(copy_labels(kept, labels));
    kept->sums = sums;
    return score_kept(run, &run->kept[run->next]);
}

static void free_kept(evaluation_run *run)
{
    for (int i = 0; i < 2; i++) {
        yki_outcome_destroy(&run->kept[i].outcome);
        free(run->kept[i].labels.data);
    }
}

static yk_status evaluate_batch(evaluation_run *run, double sums[SUMS], const yk_batch *batch)
{
    yk_tensor logits;
    yk_model *model = run->model;
    YK_TRY(yk_model_forward(model, batch));
    if (!run->classifies) {
        sums[LOSS] += yk_model_loss(model) * (double)batch->size;
        sums[LABELS] += (double)batch->size;
        return YK_OK;
    }
    if (run->lags)
        return keep_batch(run, sums, batch);
    YK_TRY(yk_model_output(model, &logits));
    YK_TRY(add_scores(run, sums, &logits, yk_batch_find(batch, "labels"), yk_model_loss(model)));
    return add_augmented(run, sums, batch);
}

static yk_status run_round(void *context, int64_t round, const yk_batch *batch)
{
    evaluation_run *run = context;
    return batch ? evaluate_batch(run, run->sums + round % run->virtual_ranks * SUMS, batch)
                 : YK_OK;
}

/* A rank without batches learns from the others how many classes there are. */
static yk_status join_confusion(const evaluation_run *run)
{
    if (!run->options.confusion || !run->options.group)
        return YK_OK;
    int64_t classes = run->classes;
    YK_TRY(yki_max_over_ranks_i64(run->options.group, &classes));
    return yk_all_reduce(run->options.group, run->options.confusion, (size_t)(classes * classes),
                         YK_I64, YK_REDUCE_SUM, NULL);
}

static double mean_of(const double sums[SUMS], int index)
{
    return sums[LABELS] > 0 ? sums[index] / sums[LABELS] : 0;
}

static void fill_result(yk_evaluation *result, const double sums[SUMS])
{
    result->correct = (int64_t)sums[CORRECT];
    result->count = (int64_t)sums[LABELS];
    result->loss = mean_of(sums, LOSS);
    result->accuracy = mean_of(sums, CORRECT);
    result->tta_accuracy = mean_of(sums, CORRECT_AUGMENTED);
    result->top5 = mean_of(sums, IN_TOP);
}

static yk_status run_evaluation(evaluation_run *run, yk_evaluation *result)
{
    yk_group *group = run->options.group;
    double *sums = run->sums;
    const yki_rounds rounds = {.loader = run->loader,
                               .group = group,
                               .should_stop = run->options.should_stop,
                               .on_batch = run->options.on_batch,
                               .context = run->options.context};
    YK_TRY(yki_rounds_run(&rounds, run_round, run, &result->stopped));
    if (result->stopped)
        return YK_OK;
    YK_TRY(score_kept(run, &run->kept[1 - run->next]));
    YK_TRY(yki_sum_over_ranks(group, sums, run->virtual_ranks, SUMS,
                              sums + run->virtual_ranks * SUMS));
    YK_TRY(join_confusion(run));
    fill_result(result, sums);
    if (!run->classifies)
        result->accuracy = result->tta_accuracy = result->top5 = NAN;
    return YK_OK;
}

static yk_status check_classifier(const evaluation_run *run)
{
    const yk_evaluate_options *o = &run->options;
    if (!run->classifies && (o->confusion || o->tta != YK_TTA_NONE))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "yk_evaluate: %s is for classifiers, whose loss reads an input \"labels\"",
                         o->confusion ? "confusion" : "tta");
    return YK_OK;
}

static yk_status evaluate(yk_evaluation *result, yk_model *model, yk_loader *loader,
                          const yk_evaluate_options *options)
{
    evaluation_run run = {.model = model,
                          .loader = loader,
                          .options = *options,
                          .virtual_ranks = yk_loader_virtual_ranks(loader)};
    YK_TRY(yki_tta_check("yk_evaluate", run.options.tta, run.options.tta_confidence));
    run.classifies = yki_model_classifies(model);
    run.rules = yki_model_label_rules(model);
    YK_TRY(check_classifier(&run));
    run.tta = (yki_tta){.kind = run.options.tta, .confidence = run.options.tta_confidence};
    YK_TRY(yk_model_broadcast_buffers(model, run.options.group));
    size_t rows = (size_t)run.virtual_ranks * ((size_t)yki_ranks_of(run.options.group) + 1);
    run.sums = yki_calloc(rows * SUMS, sizeof *run.sums);
    if (!run.sums)
        return yki_error_memory(rows * SUMS * sizeof *run.sums, "an evaluation");
    run.lags = run.classifies && run.tta.kind == YK_TTA_NONE &&
               !yki_device_is_host(yki_model_device(model)) && !yki_model_is_replicated(model);
    yk_model_eval(model);
    yk_status status = run_evaluation(&run, result);
    yk_model_train(model);
    yki_tta_free(&run.tta);
    free_kept(&run);
    free(run.sums);
    return status;
}

yk_status yk_evaluate(yk_evaluation *result, yk_model *model, yk_loader *loader,
                      const yk_evaluate_options *options)
{
    yk_evaluate_options read;
    if (result)
        *result = (yk_evaluation){0};
    YK_TRY(YKI_READ_OPTIONS(&read, options, yk_evaluate_options, YK_EVALUATE_OPTIONS_INIT));
    yki_joint joint = yki_joint_begin(read.group);
    yk_status status = YKI_CHECK_NOT_NULL(result);
    if (status == YK_OK)
        status = YKI_CHECK_NOT_NULL(model);
    if (status == YK_OK)
        status = YKI_CHECK_NOT_NULL(loader);
    if (status == YK_OK)
        status = evaluate(result, model, loader, &read);
    return yki_joint_end(&joint, status);
}

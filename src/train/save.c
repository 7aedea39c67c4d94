/* Checkpoints of a trainer, and resuming from them. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/log.h"
#include "base/text.h"
#include "checkpoint/checkpoint_dir.h"
#include "checkpoint/manifest.h"
#include "comm/group_internal.h"
#include "data/loader.h"
#include "train/sums.h"
#include "train/trainer.h"

/* The state for files, in which the end of an epoch is the beginning of the next one: only on_step
 * sees the former. */
static yk_training_state state_between_steps(const yk_trainer *t)
{
    yk_training_state state = t->state;
    if (state.epoch_batch == t->steps_per_epoch) {
        state.epoch++;
        state.epoch_batch = 0;
    }
    return state;
}

/* ---- saving ---------------------------------------------------------------------------------- */

/* Brings what is spread over the ranks to rank 0, which saves it. */
static yk_status collect_state(yk_trainer *t)
{
    const yk_trainer_options *o = &t->options;
    t->state.scaler = yk_grad_scaler_get_state(o->scaler);
    if (o->zero)
        YK_TRY(yk_zero_consolidate(o->zero));
    if (o->ddp)
        YK_TRY(yk_ddp_consolidate_comm_hook(o->ddp, &t->state.comm_hook));
    return YK_OK;
}

yk_status yki_trainer_look(yk_trainer *t)
{
    if (t->has_looked || !t->options.output)
        return YK_OK;
    YK_TRY(yki_folder_look(&t->view, t->options.output, t->options.group));
    YK_TRY(t->view.denied);
    t->has_looked = true;
    if (t->view.keepers > 0 && t->rank == 0)
        YKI_WARN("%s is not shared by all hosts: %d other %s, one for each folder of that "
                 "name, will keep copies of the checkpoints",
                 t->options.output, t->view.keepers, yki_plural(t->view.keepers, "rank", "ranks"));
    return YK_OK;
}

/* Rank 0 has written a checkpoint. */
static yk_status follow_up(yk_trainer *t)
{
    const yk_trainer_callbacks *callbacks = &t->options.callbacks;
    YK_TRY(yki_trainer_look(t));
    YK_TRY(yki_folder_copy(&t->view, t->options.output, t->options.keep, t->options.group));
    return callbacks->on_save ? callbacks->on_save(callbacks->context, t) : YK_OK;
}

/* Ranks wait here for rank 0, so that none leaves before the file is safe. Where rank 0 could not
 * save it, all of them say why. */
static yk_status meet(const yk_trainer *t, yk_status saved)
{
    yk_group *group = t->options.group;
    if (saved != YK_OK)
        return yki_group_refuse(group, saved);
    yk_status status = group ? yk_barrier(group) : YK_OK;
    if (status == YK_ERROR_TIMEOUT)
        return yki_error_context(status, "while rank 0 saved a checkpoint in %s",
                                 t->options.output);
    return status;
}

static yk_status finish_save(yk_trainer *t, yk_status saved)
{
    YK_TRY(meet(t, saved));
    return follow_up(t);
}

static yk_status save_now(yk_trainer *t)
{
    double begin = yki_now();
    const yk_training_state state = state_between_steps(t);
    if (t->rank == 0 && t->stopped && t->options.group)
        yki_group_announce_save(t->options.group);
    yk_status saved = YK_OK;
    if (t->rank == 0)
        saved = yk_checkpoint_dir_save(t->options.output, t->model, t->optimizer, &state,
                                       t->options.keep);
    t->save_s = yki_now() - begin;
    return finish_save(t, saved);
}

static yk_status begin_save(yk_trainer *t)
{
    const yk_training_state state = state_between_steps(t);
    yk_status begun = YK_OK;
    if (t->rank == 0)
        begun = yk_checkpoint_saver_save(t->saver, t->model, t->optimizer, &state);
    YK_TRY(meet(t, begun));
    t->saving = true;
    t->saving_s = yki_now();
    return YK_OK;
}

/* On all ranks, since no rank could wait for rank 0's checkpoint of its own weights. */
static yk_status check_equal(const yk_trainer *t)
{
    if (yki_ranks_are_equal(t))
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "cannot save after step %lld: ranks have different weights until their next "
                     "average; yk_local_sgd_sync averages them now",
                     (long long)t->state.step);
}

yk_status yki_trainer_save(yk_trainer *t, bool final)
{
    YK_TRY(check_equal(t));
    YK_TRY(yk_trainer_wait(t));
    YK_TRY(collect_state(t));
    YK_TRY(t->options.save_async && !final ? begin_save(t) : save_now(t));
    t->saved_step = t->state.step;
    t->owes_save = false;
    return YK_OK;
}

yk_status yk_trainer_save(yk_trainer *trainer)
{
    YKI_NOT_NULL(trainer);
    if (!trainer->options.output)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "yk_trainer_save: the trainer has no output folder");
    return yki_trainer_save(trainer, false);
}

yk_status yk_trainer_wait(yk_trainer *trainer)
{
    YKI_NOT_NULL(trainer);
    yk_trainer *t = trainer;
    if (!t->saving)
        return YK_OK;
    yk_status saved = t->rank == 0 ? yk_checkpoint_saver_wait(t->saver) : YK_OK;
    t->saving = false;
    return finish_save(t, saved);
}

yk_status yki_trainer_check_saved(const yk_trainer *t, double *saved)
{
    *saved = 0;
    if (!t->saving || t->rank > 0 || yk_checkpoint_saver_busy(t->saver))
        return YK_OK;
    *saved = 1;
    yk_status status = yk_checkpoint_saver_wait(t->saver);
    return status == YK_OK ? YK_OK : yki_group_refuse(t->options.group, status);
}

yk_status yki_trainer_saved(yk_trainer *t)
{
    t->saving = false;
    t->save_s = yki_now() - t->saving_s;
    return follow_up(t);
}

/* ---- resuming -------------------------------------------------------------------------------- */

/* Earlier versions saved a name's first bytes. */
static bool is_same_dataset(const yk_trainer *t, const yk_training_state *saved)
{
    const char *name = yk_dataset_name(yki_loader_dataset(t->loader));
    return saved->dataset_size == t->state.dataset_size &&
           (strcmp(saved->dataset, t->state.dataset) == 0 ||
            strncmp(saved->dataset, name, sizeof saved->dataset - 1) == 0);
}

/* Within an epoch its order is that of one data set, batch size and seed. */
static yk_status check_position(const yk_trainer *t, const char *path,
                                const yk_training_state *saved)
{
    const yk_training_state *now = &t->state;
    if (saved->epoch_batch == 0)
        return YK_OK;
    if (saved->dataset_size > 0 && !is_same_dataset(t, saved))
        return yki_error(YK_ERROR_MISMATCH,
                         "%s was saved within an epoch over the %lld images of %s; the training "
                         "data is now %s, %lld images: it cannot change before the next epoch",
                         path, (long long)saved->dataset_size, saved->dataset, now->dataset,
                         (long long)now->dataset_size);
    if (saved->batch_size != now->batch_size)
        return yki_error(YK_ERROR_MISMATCH,
                         "%s was saved within an epoch of batches of %lld: the batch size cannot "
                         "change before the next epoch",
                         path, (long long)saved->batch_size);
    if (saved->seed != now->seed)
        return yki_error(YK_ERROR_MISMATCH,
                         "%s was saved within an epoch in the order of seed %llu: the seed cannot "
                         "change before the next epoch",
                         path, (unsigned long long)saved->seed);
    if (saved->epoch_batch > t->steps_per_epoch)
        return yki_error(YK_ERROR_MISMATCH,
                         "%s was saved after step %lld of an epoch, which has only %lld here", path,
                         (long long)saved->epoch_batch, (long long)t->steps_per_epoch);
    return YK_OK;
}

/* Without state in the file, or with that of other options, the comm hook starts afresh. */
static yk_status load_comm_hook(yk_trainer *t, const char *path)
{
    if (!t->options.ddp)
        return YK_OK;
    yk_status status = yk_checkpoint_load_comm_hook(path, t->options.ddp);
    t->resumed.comm_hook_restarted = status == YK_ERROR_NOT_FOUND || status == YK_ERROR_MISMATCH;
    return t->resumed.comm_hook_restarted ? YK_OK : status;
}

/* The schedule of the options wins; a difference from the checkpoint's is said. */
static void adopt_schedule(yk_trainer *t, const char *path)
{
    const yk_training_state *saved = &t->resumed.saved;
    char was[YK_SCHEDULE_TEXT], is[YK_SCHEDULE_TEXT];
    double lr = yk_optimizer_lr(t->optimizer);
    if (!saved->has_schedule)
        return;
    if (!t->options.schedule)
        t->schedule = saved->schedule;
    t->resumed.schedule_changed = !yki_schedule_equal(&saved->schedule, &t->schedule);
    if (t->resumed.schedule_changed && t->rank == 0)
        YKI_WARN("%s was saved with the learning-rate schedule %s; training continues with %s",
                 path, yk_schedule_describe(&saved->schedule, lr, was, sizeof was),
                 yk_schedule_describe(&t->schedule, lr, is, sizeof is));
}

/* Until the next step the rate is the last one's, as in a run that was never stopped. */
static yk_status restore_rate(yk_trainer *t)
{
    const yk_training_state *state = &t->state;
    int64_t last =
        t->schedule.per_step ? state->step - 1 : state->epoch - (state->epoch_batch == 0);
    t->state.lr = yk_optimizer_lr(t->optimizer);
    return state->step == 0 || last < 0 ? YK_OK : yki_trainer_set_rate(t, last);
}

yk_status yk_trainer_resume(yk_trainer *trainer, const char *path)
{
    YKI_NOT_NULL(trainer);
    YKI_NOT_NULL(path);
    yk_trainer *t = trainer;
    const yk_trainer_callbacks *callbacks = &t->options.callbacks;
    yk_training_state saved;
    if (t->state.step > 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "yk_trainer_resume: call it once, before the first step");
    YK_TRY(yk_checkpoint_read_state(path, &saved));
    YK_TRY(check_position(t, path, &saved));
    YK_TRY(yk_checkpoint_load(path, t->model, t->optimizer, &t->state));
    t->state = state_between_steps(t); /* a program's own file may be of the end of an epoch */
    t->resumed.saved = t->state;
    t->is_resumed = true;
    YK_TRY(load_comm_hook(t, path));
    if (t->options.scaler)
        YK_TRY(yk_grad_scaler_set_state(t->options.scaler, &t->state.scaler));
    if (callbacks->on_resume)
        YK_TRY(callbacks->on_resume(callbacks->context, t));
    adopt_schedule(t, path);
    yki_trainer_describe(t);
    YK_TRY(restore_rate(t));
    return yk_loader_seek(t->loader, t->state.epoch, t->state.epoch_batch * t->batches_per_step);
}

/* Rank 0's path, as this rank names the folder. */
static yk_status localize(const yk_trainer *t, char path[PATH_MAX])
{
    char file[YKI_MANIFEST_NAME];
    const char *slash = strrchr(path, '/');
    if (!slash)
        return YK_OK;
    snprintf(file, sizeof file, "%s", slash + 1);
    return yki_join_path(path, t->options.output, file);
}

/* Rank 0 looks, so that all ranks resume from the same file; "" where there is none. *saved:
 * whether its save has come to its end. */
static yk_status find_latest(const yk_trainer *t, char path[PATH_MAX], bool *saved)
{
    yk_status status = YK_OK;
    path[0] = '\0';
    *saved = false;
    if (t->rank == 0 && access(t->options.output, F_OK) == 0)
        status = yk_checkpoint_dir_latest(t->options.output, path, PATH_MAX);
    if (status == YK_ERROR_NOT_FOUND)
        status = YK_OK;
    else if (status == YK_OK && path[0])
        *saved = yki_dir_is_saved(t->options.output, path);
    if (!t->options.group)
        return status;
    char line[YKI_ERROR_LINE];
    int32_t told[] = {(int32_t)status, *saved};
    yki_error_copy(line, sizeof line);
    YK_TRY(yk_broadcast(t->options.group, told, 2, YK_I32, 0, NULL));
    YK_TRY(yk_broadcast(t->options.group, path, PATH_MAX, YK_U8, 0, NULL));
    YK_TRY(localize(t, path));
    *saved = told[1];
    if (told[0] == YK_OK)
        return YK_OK;
    return t->rank == 0
               ? yki_error_set_line(status, line)
               : yki_error((yk_status)told[0], "%s: rank 0 found no checkpoint to resume from",
                           t->options.output);
}

yk_status yk_trainer_resume_latest(yk_trainer *trainer, bool *resumed)
{
    bool saved;
    char path[PATH_MAX];
    yk_trainer *t = trainer;
    if (resumed)
        *resumed = false;
    YKI_NOT_NULL(trainer);
    if (!t->options.output)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "yk_trainer_resume_latest: the trainer has no output folder");
    YK_TRY(yk_checkpoint_dir_share(t->options.output, t->options.group));
    YK_TRY(find_latest(t, path, &saved));
    if (!path[0])
        return YK_OK;
    YK_TRY(yk_trainer_resume(t, path));
    if (saved)
        t->saved_step = t->state.step;
    if (resumed)
        *resumed = true;
    return YK_OK;
}

const yk_resume_report *yk_trainer_resumed(const yk_trainer *t)
{
    return t && t->is_resumed ? &t->resumed : NULL;
}

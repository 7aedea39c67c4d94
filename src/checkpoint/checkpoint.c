/*
 * Checkpoints: a dict of a few parts, each written and read by a file of its own. Loading first
 * reads and checks all of them and only then touches model and optimizer.
 */
#include "checkpoint/checkpoint.h"

#include "checkpoint/state/choices_state.h"
#include "checkpoint/state/comm_hook_state.h"
#include "checkpoint/state/ema_state.h"
#include "checkpoint/state/optimizer_state.h"
#include "checkpoint/state/scaler_state.h"
#include "checkpoint/state/state_dict.h"
#include "checkpoint/state/training_state.h"
#include "checkpoint/tensor_file/pth.h"
#include "checkpoint/tensor_file/tensor_file.h"
#include "io/zip.h"
#include "model/choices.h"
#include "model/model_hooks.h"
#include "optim/average.h"
#include "optim/optimizer.h"

#include <stdlib.h>

/* Model and optimizer both identify parameters by number, so they must belong together. */
static yk_status check_optimizer(const yk_model *model, const yk_optimizer *optimizer)
{
    if (optimizer && yki_optimizer_model(optimizer) != model)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "checkpoint: the optimizer belongs to another model");
    return YK_OK;
}

/* ---- saving --------------------------------------------------------------------------------- */

/* PyTorch's average is a copy of the weights until its first update. */
static yk_status write_ema(yki_pth_writer *writer, const yk_model *model, yk_ema *ema)
{
    if (yk_ema_updates(ema) == 0)
        YK_TRY(yki_average_copy(ema));
    return yki_ema_state_write(writer, YKI_EMA_KEY, model, ema);
}

static yk_status write_parts(yki_pth_writer *writer, const yk_model *model,
                             const yk_optimizer *optimizer, const yk_training_state *state)
{
    yki_pickle_writer *pickle = yki_pth_pickle(writer);
    yki_pickle_dict(pickle);
    yki_pickle_mark(pickle);
    yki_pickle_text(pickle, "model");
    YK_TRY(yki_state_dict_write(writer, model));
    if (optimizer) {
        yki_pickle_text(pickle, "optimizer");
        YK_TRY(yki_optimizer_state_write(writer, optimizer, yk_model_parameter_count(model)));
    }
    if (optimizer && yk_optimizer_ema(optimizer))
        YK_TRY(write_ema(writer, model, yk_optimizer_ema(optimizer)));
    yk_ema *slow = optimizer ? yki_optimizer_slow_weights(optimizer) : NULL;
    if (slow)
        YK_TRY(yki_ema_state_write(writer, YKI_LOOKAHEAD_KEY, model, slow));
    yk_ema *momentum = optimizer ? yki_optimizer_outer_momentum(optimizer) : NULL;
    if (momentum)
        YK_TRY(yki_ema_state_write(writer, YKI_OUTER_MOMENTUM_KEY, model, momentum));
    if (state && state->scaler.enabled) {
        yki_pickle_text(pickle, "scaler");
        yki_scaler_state_write(pickle, &state->scaler);
    }
    if (state && state->comm_hook) {
        yki_pickle_text(pickle, "comm_hook");
        YK_TRY(yki_comm_hook_state_write(writer, state->comm_hook));
    }
    if (state) {
        yki_pickle_text(pickle, "yoke");
        yki_training_state_write(pickle, state, model, optimizer);
    }
    yki_pickle_setitems(pickle);
    return YK_OK;
}

/* Ends the preparation of a file: either it is ready to be written, or nothing of it is left. */
static yk_status complete_file(yk_status status, yki_pth_file *file, const yk_model *model)
{
    if (status == YK_OK)
        status = yki_pth_info(file->writer, yk_model_get_info(model));
    if (status != YK_OK)
        yki_pth_file_abandon(file);
    return status;
}

static yk_status open_file(yki_pth_file *file, const char *path)
{
    *file = (yki_pth_file){.writer = NULL};
    YK_TRY(yki_atomic_open(&file->file, path));
    yk_status status = yki_pth_writer_create(&file->writer, file->file.fd, path);
    if (status != YK_OK)
        yki_atomic_abandon(&file->file);
    return status;
}

yk_status yki_checkpoint_prepare(yki_pth_file *file, const char *path, const yk_model *model,
                                 const yk_optimizer *optimizer, const yk_training_state *state)
{
    YK_TRY(check_optimizer(model, optimizer));
    YK_TRY(yki_model_check_whole(model));
    if (state)
        YK_TRY(yki_training_state_check(state));
    YK_TRY(open_file(file, path));
    return complete_file(write_parts(file->writer, model, optimizer, state), file, model);
}

yk_status yki_weights_prepare(yki_pth_file *file, const char *path, const yk_model *model)
{
    YK_TRY(yki_model_check_whole(model));
    YK_TRY(open_file(file, path));
    return complete_file(yki_state_dict_write(file->writer, model), file, model);
}

yk_status yki_pth_file_write(yki_pth_file *file)
{
    yk_status status = yki_pth_writer_finish(file->writer);
    file->writer = NULL;
    if (status != YK_OK)
        yki_pth_file_abandon(file);
    return status;
}

void yki_pth_file_abandon(yki_pth_file *file)
{
    yki_pth_writer_discard(file->writer);
    file->writer = NULL;
    yki_atomic_abandon(&file->file);
}

static yk_status write_and_commit(yki_pth_file *file)
{
    YK_TRY(yki_pth_file_write(file));
    return yki_atomic_commit(&file->file);
}

static yk_status save_safetensors(const yk_model *model, const char *path)
{
    yki_atomic_file file;
    YK_TRY(yki_model_check_whole(model));
    YK_TRY(yki_atomic_open(&file, path));
    yk_status status = yki_state_dict_write_safetensors(file.fd, path, model);
    if (status == YK_OK)
        return yki_atomic_commit(&file);
    yki_atomic_abandon(&file);
    return status;
}

yk_status yk_model_save(const yk_model *model, const char *path)
{
    yki_pth_file file;
    YKI_NOT_NULL(model);
    YKI_NOT_NULL(path);
    if (yki_tensor_format_of(path) == YKI_SAFETENSORS)
        return save_safetensors(model, path);
    YK_TRY(yki_weights_prepare(&file, path, model));
    return write_and_commit(&file);
}

yk_status yk_checkpoint_save(const char *path, const yk_model *model, const yk_optimizer *optimizer,
                             const yk_training_state *state)
{
    yki_pth_file file;
    YKI_NOT_NULL(path);
    YKI_NOT_NULL(model);
    YK_TRY(yki_checkpoint_prepare(&file, path, model, optimizer, state));
    return write_and_commit(&file);
}

/* ---- loading -------------------------------------------------------------------------------- */

/* What a file's training state says about the model. */
typedef struct model_state {
    int64_t forwards;
    yki_choices kernels;
} model_state;

/* model may be NULL. */
static yk_status read_training_state(const yk_tensor_file *file, yk_training_state *state,
                                     model_state *model)
{
    const yki_pth *pth = yki_tensor_file_pth(file);
    const yki_pickle_value *value = pth ? yki_pickle_get(yki_pth_root(pth), "yoke") : NULL;
    if (!value)
        return yki_error(YK_ERROR_NOT_FOUND,
                         "%s: has no training state: it was saved without one, or by another "
                         "program",
                         yki_tensor_file_path(file));
    yk_grad_scaler_state scaler;
    if (model) {
        YK_TRY(yki_training_state_forwards(pth, value, &model->forwards));
        YK_TRY(yki_choices_state_read(pth, value, &model->kernels));
    }
    YK_TRY(yki_scaler_state_read(pth, yki_pickle_get(yki_pth_root(pth), "scaler"), &scaler));
    YK_TRY(yki_training_state_read(pth, value, state));
    state->scaler = scaler;
    return YK_OK;
}

/* Takes the file's exact number of steps, also for parameters of which it has the same as a
 * float32, which beyond 2^24 is rounded. */
static void take_steps(yki_optimizer_state *state, int64_t steps)
{
    state->steps = steps;
    for (size_t i = 0; i < state->parameters; i++)
        if ((float)state->ages[i].steps == (float)steps)
            state->ages[i].steps = steps;
}

static yk_status read_optimizer(yki_optimizer_state *state, const yk_tensor_file *file,
                                const yk_optimizer *optimizer, size_t parameters)
{
    yki_pth *pth = yki_tensor_file_pth(file);
    const yki_pickle_value *root = pth ? yki_pth_root(pth) : NULL;
    const yki_pickle_value *value = yki_pickle_get(root, "optimizer");
    int64_t steps;
    if (!value)
        value = yki_pickle_get(root, "optimizer_state_dict");
    if (!value)
        return yki_error(YK_ERROR_NOT_FOUND, "%s: has no optimizer state",
                         yki_tensor_file_path(file));
    YK_TRY(yki_training_state_steps(pth, yki_pickle_get(root, "yoke"), optimizer, &steps));
    YK_TRY(yki_optimizer_state_read(state, pth, value, optimizer, parameters));
    if (steps >= 0)
        take_steps(state, steps);
    return YK_OK;
}

/* Everything that a file holds, read and checked, before any of it is applied. */
typedef struct contents {
    yki_state_dict dict;
    yki_optimizer_state optimizer;
    yki_ema_state ema, slow, momentum; /* without tensors where the file has none */
    yk_training_state training;
    model_state model;
} contents;

/* The state of an average that the file may lack, and that the optimizer may not have (NULL). */
static yk_status read_average(yki_ema_state *state, yk_tensor_file *file, const char *key,
                              const yk_model *model, const yk_ema *average)
{
    yk_status status = average ? yki_ema_state_read(state, file, key, model) : YK_OK;
    return status == YK_ERROR_NOT_FOUND ? YK_OK : status;
}

static yk_status read_contents(contents *c, yk_tensor_file *file, const yk_model *model,
                               const yk_optimizer *optimizer, bool training)
{
    YK_TRY(yki_state_dict_read(&c->dict, file, model));
    if (optimizer)
        YK_TRY(read_optimizer(&c->optimizer, file, optimizer, yk_model_parameter_count(model)));
    if (training)
        YK_TRY(read_training_state(file, &c->training, &c->model));
    if (!optimizer)
        return YK_OK;
    YK_TRY(read_average(&c->ema, file, YKI_EMA_KEY, model, yk_optimizer_ema(optimizer)));
    YK_TRY(read_average(&c->slow, file, YKI_LOOKAHEAD_KEY, model,
                        yki_optimizer_slow_weights(optimizer)));
    return read_average(&c->momentum, file, YKI_OUTER_MOMENTUM_KEY, model,
                        yki_optimizer_outer_momentum(optimizer));
}

/* The averages beside the weights. Those that the file lacks start anew. */
static yk_status apply_averages(const contents *c, const yk_model *model, yk_optimizer *optimizer)
{
    yk_ema *slow = yki_optimizer_slow_weights(optimizer);
    yk_ema *momentum = yki_optimizer_outer_momentum(optimizer);
    if (yk_optimizer_ema(optimizer))
        YK_TRY(yki_ema_state_apply(&c->ema, model, yk_optimizer_ema(optimizer)));
    if (slow)
        YK_TRY(c->slow.weights.count > 0 ? yki_ema_state_apply(&c->slow, model, slow)
                                         : yki_average_copy(slow));
    if (!momentum)
        return YK_OK;
    return c->momentum.weights.count > 0 ? yki_ema_state_apply(&c->momentum, model, momentum)
                                         : yki_average_clear(momentum);
}

/* The optimizer goes first: its hyperparameters are the only thing that may still be refused. */
static yk_status apply_contents(const contents *c, yk_tensor_file *file, yk_model *model,
                                yk_optimizer *optimizer)
{
    if (optimizer)
        YK_TRY(yki_optimizer_state_apply(&c->optimizer, yki_tensor_file_pth(file), optimizer));
    YK_TRY(yki_state_dict_apply(&c->dict, model));
    return optimizer ? apply_averages(c, model, optimizer) : YK_OK;
}

static yk_status load_file(yk_tensor_file *file, yk_model *model, yk_optimizer *optimizer,
                           yk_training_state *state)
{
    contents c = {.dict = {0}};
    yk_status status = read_contents(&c, file, model, optimizer, state != NULL);
    if (status != YK_OK)
        goto out;
    status = apply_contents(&c, file, model, optimizer);
    if (status == YK_OK)
        status = yki_model_adopt_choices(model, &c.model.kernels);
    if (status != YK_OK || !state)
        goto out;
    *state = c.training;
    yk_model_set_forwards(model, c.model.forwards);
out:
    yki_optimizer_state_fini(&c.optimizer);
    yki_ema_state_fini(&c.ema);
    yki_ema_state_fini(&c.slow);
    yki_ema_state_fini(&c.momentum);
    yki_choices_fini(&c.model.kernels);
    yki_state_dict_fini(&c.dict);
    return status;
}

/* Weights and average are in each other's place otherwise. */
static yk_status check_not_swapped(const yk_optimizer *optimizer)
{
    const yk_ema *ema = yk_optimizer_ema(optimizer);
    if (!ema || !yki_ema_is_swapped(ema))
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "cannot load a checkpoint while averaged weights are swapped in: call "
                     "yk_ema_swap first");
}

yk_status yk_checkpoint_load(const char *path, yk_model *model, yk_optimizer *optimizer,
                             yk_training_state *state)
{
    yk_tensor_file *file;
    YKI_NOT_NULL(path);
    YKI_NOT_NULL(model);
    YK_TRY(check_optimizer(model, optimizer));
    YK_TRY(check_not_swapped(optimizer));
    YK_TRY(yk_tensor_file_open(&file, path));
    yk_status status = load_file(file, model, optimizer, state);
    yk_tensor_file_close(file);
    return status;
}

yk_status yk_model_load(yk_model *model, const char *path)
{
    YKI_NOT_NULL(model);
    YKI_NOT_NULL(path);
    return yk_checkpoint_load(path, model, NULL, NULL);
}

static yk_status load_ema(yk_tensor_file *file, yk_model *model)
{
    yki_ema_state ema;
    YK_TRY(yki_ema_state_read(&ema, file, YKI_EMA_KEY, model));
    yk_status status = yki_state_dict_apply(&ema.weights, model);
    yki_ema_state_fini(&ema);
    return status;
}

yk_status yk_model_load_ema(yk_model *model, const char *path)
{
    yk_tensor_file *file;
    YKI_NOT_NULL(model);
    YKI_NOT_NULL(path);
    YK_TRY(yk_tensor_file_open(&file, path));
    yk_status status = load_ema(file, model);
    yk_tensor_file_close(file);
    return status;
}

static yk_status load_comm_hook(yk_tensor_file *file, yk_ddp *ddp)
{
    yki_pth *pth = yki_tensor_file_pth(file);
    const yki_pickle_value *value = pth ? yki_pickle_get(yki_pth_root(pth), "comm_hook") : NULL;
    if (!value)
        return yki_error(YK_ERROR_NOT_FOUND, "%s: has no comm hook's state",
                         yki_tensor_file_path(file));
    return yki_comm_hook_state_read(pth, value, ddp);
}

yk_status yk_checkpoint_load_comm_hook(const char *path, yk_ddp *ddp)
{
    yk_tensor_file *file;
    YKI_NOT_NULL(path);
    YKI_NOT_NULL(ddp);
    YK_TRY(yk_tensor_file_open(&file, path));
    yk_status status = load_comm_hook(file, ddp);
    yk_tensor_file_close(file);
    return status;
}

yk_status yk_checkpoint_read_state(const char *path, yk_training_state *state)
{
    yk_tensor_file *file;
    YKI_NOT_NULL(path);
    YKI_NOT_NULL(state);
    YK_TRY(yk_tensor_file_open(&file, path));
    yk_status status = read_training_state(file, state, NULL);
    yk_tensor_file_close(file);
    return status;
}

/* ---- verifying ------------------------------------------------------------------------------ */

static yk_status read_all_members(yki_zip *zip)
{
    for (size_t i = 0; i < yki_zip_count(zip); i++) {
        void *data;
        size_t size;
        YK_TRY(yki_zip_read(zip, i, &data, &size));
        free(data);
    }
    return YK_OK;
}

yk_status yki_checkpoint_verify(const char *path, yk_training_state *state)
{
    yki_zip *zip;
    YK_TRY(yk_checkpoint_read_state(path, state));
    YK_TRY(yki_zip_open(&zip, path));
    yk_status status = read_all_members(zip);
    yki_zip_close(zip);
    return status;
}

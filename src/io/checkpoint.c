/*
 * Checkpoints: a dict of three parts, each written and read by a file of its own. Loading first
 * reads and checks all of them and only then touches model and optimizer.
 */
#include "io/checkpoint.h"

#include "io/atomic_file.h"
#include "io/optimizer_state.h"
#include "io/pth.h"
#include "io/state_dict.h"
#include "io/tensor_file.h"
#include "io/training_state.h"
#include "io/zip.h"

#include <stdlib.h>

/* ---- saving --------------------------------------------------------------------------------- */

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
    if (state) {
        yki_pickle_text(pickle, "yoke");
        yki_training_state_write(pickle, state, model, optimizer);
    }
    yki_pickle_setitems(pickle);
    return YK_OK;
}

yk_status yki_checkpoint_write(int fd, const char *path, const yk_model *model,
                               const yk_optimizer *optimizer, const yk_training_state *state)
{
    yki_pth_writer *writer;
    YK_TRY(yki_pth_writer_create(&writer, fd, path));
    yk_status status = write_parts(writer, model, optimizer, state);
    if (status == YK_OK)
        return yki_pth_writer_finish(writer);
    yki_pth_writer_discard(writer);
    return status;
}

static yk_status write_state_dict(int fd, const char *path, const yk_model *model)
{
    yki_pth_writer *writer;
    if (yki_tensor_format_of(path) == YKI_SAFETENSORS)
        return yki_state_dict_write_safetensors(fd, path, model);
    YK_TRY(yki_pth_writer_create(&writer, fd, path));
    yk_status status = yki_state_dict_write(writer, model);
    if (status == YK_OK)
        return yki_pth_writer_finish(writer);
    yki_pth_writer_discard(writer);
    return status;
}

static yk_status commit_if(yk_status status, yki_atomic_file *file)
{
    if (status == YK_OK)
        return yki_atomic_commit(file);
    yki_atomic_abandon(file);
    return status;
}

yk_status yk_model_save(const yk_model *model, const char *path)
{
    yki_atomic_file file;
    YK_TRY(yki_atomic_open(&file, path));
    return commit_if(write_state_dict(file.fd, path, model), &file);
}

yk_status yk_checkpoint_save(const char *path, const yk_model *model, const yk_optimizer *optimizer,
                             const yk_training_state *state)
{
    yki_atomic_file file;
    YK_TRY(yki_atomic_open(&file, path));
    return commit_if(yki_checkpoint_write(file.fd, path, model, optimizer, state), &file);
}

/* ---- loading -------------------------------------------------------------------------------- */

/* forwards may be NULL. */
static yk_status read_training_state(const yk_tensor_file *file, yk_training_state *state,
                                     int64_t *forwards)
{
    const yki_pth *pth = yki_tensor_file_pth(file);
    const yki_pickle_value *value = pth ? yki_pickle_get(yki_pth_root(pth), "yoke") : NULL;
    if (!value)
        return yki_error(YK_NOT_FOUND, "%s: has no training state: it was not saved by yoke",
                         yki_tensor_file_path(file));
    if (forwards)
        YK_TRY(yki_training_state_forwards(pth, value, forwards));
    return yki_training_state_read(pth, value, state);
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
        return yki_error(YK_NOT_FOUND, "%s: has no optimizer state", yki_tensor_file_path(file));
    YK_TRY(yki_training_state_steps(pth, yki_pickle_get(root, "yoke"), optimizer, &steps));
    YK_TRY(yki_optimizer_state_read(state, pth, value, optimizer, parameters));
    if (steps >= 0)
        state->steps = steps;
    return YK_OK;
}

/* The optimizer goes first: its hyperparameters are the only thing that may still be refused. */
static yk_status load(yk_tensor_file *file, yk_model *model, yk_optimizer *optimizer,
                      yk_training_state *state)
{
    yki_state_dict dict = {0};
    yki_optimizer_state optimizer_state = {0};
    yk_training_state training = {0};
    int64_t forwards = 0;
    yk_status status = yki_state_dict_read(&dict, file, model);
    if (status == YK_OK && optimizer)
        status = read_optimizer(&optimizer_state, file, optimizer, yk_model_parameter_count(model));
    if (status == YK_OK && state)
        status = read_training_state(file, &training, &forwards);
    if (status == YK_OK && optimizer)
        status = yki_optimizer_state_apply(&optimizer_state, yki_tensor_file_pth(file), optimizer);
    if (status == YK_OK) {
        yki_state_dict_apply(&dict, model);
        if (state) {
            *state = training;
            yk_model_set_forwards(model, forwards);
        }
    }
    yki_optimizer_state_fini(&optimizer_state);
    yki_state_dict_fini(&dict);
    return status;
}

yk_status yk_checkpoint_load(const char *path, yk_model *model, yk_optimizer *optimizer,
                             yk_training_state *state)
{
    yk_tensor_file *file;
    YK_TRY(yk_tensor_file_open(&file, path));
    yk_status status = load(file, model, optimizer, state);
    yk_tensor_file_close(file);
    return status;
}

yk_status yk_model_load(yk_model *model, const char *path)
{
    return yk_checkpoint_load(path, model, NULL, NULL);
}

yk_status yk_checkpoint_read_state(const char *path, yk_training_state *state)
{
    yk_tensor_file *file;
    YK_TRY(yk_tensor_file_open(&file, path));
    yk_status status = read_training_state(file, state, NULL);
    yk_tensor_file_close(file);
    return status;
}

/* ---- verifying ------------------------------------------------------------------------------ */

static yk_status read_members(yki_zip *zip)
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
    yk_status status = read_members(zip);
    yki_zip_close(zip);
    return status;
}

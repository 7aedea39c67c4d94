/* See files.h. The model has a parameter, statistics and a counter: every kind that a file has. */
#define _GNU_SOURCE
#include "files.h"

#include <stdio.h>
#include <unistd.h>

#include <yoke/yoke.h>

#include "fuzz.h"

typedef struct target {
    yk_model *model;
    yk_optimizer *sgd, *adam, *nadam, *radam, *adamax, *adagrad, *adadelta, *rmsprop;
    yk_ddp *ddp; /* over a model of its own, with PowerSGD, which has a state to load */
} target;

static yk_model *make_model(void)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 1, 1, 1});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_model *model;
    x = yk_nn_linear(yk_flatten(yk_nn_batch_norm(x, "bn")), "fc", 2);
    yk_model_options options = YK_MODEL_OPTIONS_INIT;
    options.device = "ref";
    YK_CHECK(yk_model_create(&model, yk_cross_entropy(x, labels, NULL), &options));
    return model;
}

static yk_ddp *make_ddp(void)
{
    yk_group *group;
    yk_ddp *ddp;
    yk_group_options alone = YK_GROUP_OPTIONS_INIT;
    yk_powersgd_options all = YK_POWERSGD_OPTIONS_INIT;
    alone.rank = 0;
    alone.world_size = 1;
    all.min_compression_rate = 1e-9;
    YK_CHECK(yk_group_init(&group, &alone));
    YK_CHECK(yk_ddp_create(&ddp, make_model(), group, NULL));
    YK_CHECK(yk_ddp_register_powersgd_hook(ddp, &all));
    return ddp;
}

static const target *the_target(void)
{
    static target made;
    if (made.model)
        return &made;
    made.model = make_model();
    yk_sgd_options sgd = YK_SGD_OPTIONS_INIT;
    sgd.momentum = 0.9;
    YK_CHECK(yk_sgd_create(&made.sgd, made.model, &sgd));
    yk_adam_options adam = YK_ADAM_OPTIONS_INIT;
    adam.amsgrad = true; /* files may be without */
    YK_CHECK(yk_adam_create(&made.adam, made.model, &adam));
    YK_CHECK(yk_nadam_create(&made.nadam, made.model, NULL));
    YK_CHECK(yk_radam_create(&made.radam, made.model, NULL));
    YK_CHECK(yk_adamax_create(&made.adamax, made.model, NULL));
    yk_adagrad_options adagrad = YK_ADAGRAD_OPTIONS_INIT;
    adagrad.initial_accumulator_value = 0.1;
    YK_CHECK(yk_adagrad_create(&made.adagrad, made.model, &adagrad));
    YK_CHECK(yk_adadelta_create(&made.adadelta, made.model, NULL));
    yk_rmsprop_options rmsprop = YK_RMSPROP_OPTIONS_INIT;
    rmsprop.centered = true; /* the first and the third of its slots */
    YK_CHECK(yk_rmsprop_create(&made.rmsprop, made.model, &rmsprop));
    made.ddp = make_ddp();
    return &made;
}

static void ignore(void *context, const char *name, const char *value)
{
    (void)context;
    (void)name;
    (void)value;
}

static void look(const char *path)
{
    const yk_model_info *info;
    yk_tensor_file *file;
    yk_tensor_entry entry;
    double norm;
    yk_status status = yk_tensor_file_open(&file, path);
    fuzz_check(status);
    if (status != YK_OK)
        return;
    for (size_t i = 0; i < yk_tensor_file_count(file) && i < 100; i++) {
        status = yk_tensor_file_entry(file, i, &entry);
        fuzz_check(status);
        if (status == YK_OK)
            fuzz_check(yk_tensor_file_norm(file, i, &norm));
    }
    yk_tensor_file_items(file, ignore, NULL);
    fuzz_check(yk_tensor_file_info(file, &info));
    yk_tensor_file_close(file);
}

void fuzz_tensor_file(const char *path, size_t size)
{
    char out[64];
    const target *into = the_target();
    yk_training_state state;
    snprintf(out, sizeof out, "/dev/shm/yoke-fuzz-%d", (int)getpid()); /* where syncing is free */
    fuzz_begin(size);
    look(path);
    fuzz_check(yk_checkpoint_load(path, into->model, into->sgd, &state));
    fuzz_check(yk_checkpoint_load(path, into->model, into->adam, NULL));
    fuzz_check(yk_checkpoint_load(path, into->model, into->nadam, NULL));
    fuzz_check(yk_checkpoint_load(path, into->model, into->radam, NULL));
    fuzz_check(yk_checkpoint_load(path, into->model, into->adamax, NULL));
    fuzz_check(yk_checkpoint_load(path, into->model, into->adagrad, NULL));
    fuzz_check(yk_checkpoint_load(path, into->model, into->adadelta, NULL));
    fuzz_check(yk_checkpoint_load(path, into->model, into->rmsprop, NULL));
    fuzz_check(yk_checkpoint_read_state(path, &state));
    fuzz_check(yk_checkpoint_load_comm_hook(path, into->ddp));
    yk_convert_options options = YK_CONVERT_OPTIONS_INIT;
    options.format = "safetensors";
    options.dtype = "bf16";
    fuzz_check(yk_tensor_file_convert(path, out, &options));
    unlink(out);
    fuzz_end();
}

/*
 * Your own network and your own training loop: layers built from operators, DDP, a learning-rate
 * schedule, evaluation, and checkpoints. Stop it at any step with Ctrl-C, SIGTERM or --max-steps.
 * The same command (with more --max-steps) resumes it and ends with the same bits as a run that was
 * never stopped. trainer.c leaves all this to a yk_trainer.
 *
 *     ./own_network --output run                       one process, drawn images
 *     yoke run -n 2 -- ./own_network --data cifar10:DIR    two processes, CIFAR-10 in DIR
 */
#define _POSIX_C_SOURCE 200809L
#include <sys/stat.h>
#include <unistd.h>

#include "common.h"

typedef struct run {
    yk_group *world;
    yk_model *model;
    yk_optimizer *optimizer;
    yk_loader *training, *validation;
    yk_training_state state; /* what a checkpoint stores beside weights and optimizer */
    int64_t epochs, max_steps;
    const char *output;
} run;

/* ---- the network ---------------------------------------------------------------------------- */

/* A layer of your own: a convolution with a bias. x (N, C, H, W) -> (N, channels, H, W) */
static yk_value *conv(yk_value *x, const char *name, int64_t channels)
{
    int64_t dims[YK_MAX_DIMS];
    yk_graph *graph = yk_value_graph(x);
    if (yk_value_shape(x, dims) != 4)
        return x; /* an earlier mistake: yk_model_create reports it */
    yk_scope_push(graph, name);
    yk_value *weight =
        yk_parameter(graph, "weight", YK_F32, 4, (int64_t[]){channels, dims[1], 3, 3},
                     YK_INIT_KAIMING_UNIFORM, 0);
    yk_value *bias =
        yk_parameter(graph, "bias", YK_F32, 1, &channels, YK_INIT_UNIFORM_FAN_IN, dims[1] * 3 * 3);
    yk_conv2d_options options = YK_CONV2D_OPTIONS_INIT;
    options.padding = 1;
    x = yk_conv2d(x, weight, bias, &options);
    yk_scope_pop(graph);
    return x;
}

/* A residual block of your own: its parameters are called NAME.conv1.weight and so on. */
static yk_value *block(yk_value *x, const char *name, int64_t channels)
{
    yk_scope_push(yk_value_graph(x), name);
    yk_value *y = yk_gelu(yk_nn_batch_norm(conv(x, "conv1", channels), "norm1"));
    y = yk_nn_batch_norm(conv(y, "conv2", channels), "norm2");
    yk_scope_pop(yk_value_graph(x));
    return yk_gelu(yk_add(x, y));
}

static yk_model *create_model(int64_t classes, const char *device)
{
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 32, 32});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *x = yk_gelu(yk_max_pool2d(conv(images, "stem", 16), 2, 2, 0)); /* (N, 16, 16, 16) */
    x = yk_max_pool2d(block(x, "block1", 16), 2, 2, 0);                      /* (N, 16, 8, 8) */
    x = block(yk_gelu(conv(x, "widen", 32)), "block2", 32);                  /* (N, 32, 8, 8) */
    x = yk_dropout(yk_flatten(yk_global_avg_pool2d(x)), 0.1);                /* (N, 32) */

    yk_model *model;
    yk_model_options options = YK_MODEL_OPTIONS_INIT;
    options.device = device;
    options.logits = yk_nn_linear(x, "head", classes);
    YK_CHECK(yk_model_create(&model, yk_cross_entropy(options.logits, labels, NULL), &options));
    return model;
}

/* ---- data ----------------------------------------------------------------------------------- */

/* Each rank gets its own part of every epoch; batches of 100 are divided among the ranks. */
static yk_loader *open_loader(const yk_dataset *dataset, yk_split split, yk_group *world,
                              yk_model *model)
{
    yk_loader *loader;
    yk_loader_options options = YK_LOADER_OPTIONS_INIT;
    options.group = world;
    options.batch_size = 100 / yk_group_size(world);
    options.shuffle = split == YK_SPLIT_TRAIN;
    options.exact = !options.shuffle; /* each sample once, so that the accuracy is exact */
    options.transforms =
        transforms_for(dataset, options.shuffle ? YK_CIFAR10_AUGMENT : YK_CIFAR10_NORMALIZE);
    options.model = model; /* a GPU receives pictures as bytes */
    YK_CHECK(yk_loader_create(&loader, dataset, &options));
    return loader;
}

/* ---- checkpoints ---------------------------------------------------------------------------- */

/* Before training, which would be lost if nothing could be written. */
static void make_output(const run *r)
{
    char path[4096];
    if (yk_group_rank(r->world) != 0)
        return;
    snprintf(path, sizeof path, "%s/.", r->output);
    int error = 0;
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        error = mkdir(path, 0777) && errno != EEXIST ? errno : 0;
        *slash = '/';
    }
    if (access(path, W_OK) == 0)
        return;
    fprintf(stderr, "%s: %s\n", r->output, strerror(error ? error : errno));
    exit(1);
}

static void save(run *r)
{
    if (yk_group_rank(r->world) == 0)
        YK_CHECK(yk_checkpoint_dir_save(r->output, r->model, r->optimizer, &r->state, 3));
    YK_CHECK(yk_barrier(r->world)); /* no rank leaves before the file is safe */
}

/* Weights, optimizer, schedule and position come from the newest checkpoint, if there is one. */
static void resume(run *r)
{
    char path[4096];
    int64_t batch_size = r->state.batch_size;
    yk_status status = yk_checkpoint_dir_latest(r->output, path, sizeof path);
    if (status == YK_ERROR_NOT_FOUND)
        return;
    YK_CHECK(status);
    YK_CHECK(yk_checkpoint_load(path, r->model, r->optimizer, &r->state));
    if (r->state.epoch_batch > 0 && r->state.batch_size != batch_size) {
        fprintf(stderr, "%s was saved within an epoch of batches of %lld, not of %lld\n", path,
                (long long)r->state.batch_size, (long long)batch_size);
        exit(1);
    }
    YK_CHECK(yk_loader_seek(r->training, r->state.epoch, r->state.epoch_batch));
}

/* ---- training ------------------------------------------------------------------------------- */

/* The ranks agree: a signal may have reached only one of them. */
static bool should_stop(const run *r)
{
    double stopping;
    YK_CHECK(yk_mean_over_ranks(&stopping, r->world, yk_stop_signal() != 0, 1));
    return stopping > 0 || r->state.step >= r->max_steps;
}

static void train_step(run *r, const yk_batch *batch)
{
    yk_training_state *state = &r->state;
    double loss;
    YK_CHECK(yk_schedule_apply(&state->schedule, r->optimizer, state->step));
    YK_CHECK(yk_model_forward(r->model, batch));
    YK_CHECK(yk_model_backward(r->model)); /* averages the gradients over the ranks */
    YK_CHECK(yk_optimizer_step(r->optimizer));
    state->lr = yk_optimizer_lr(r->optimizer);
    state->epoch_batch++;
    if (++state->step % 10 != 0)
        return;
    YK_CHECK(yk_mean_over_ranks(&loss, r->world, yk_model_loss(r->model), (double)batch->size));
    if (yk_group_rank(r->world) == 0)
        printf("Step %lld: loss %.4f, lr %.5f\n", (long long)state->step, loss, state->lr);
}

static void end_epoch(run *r)
{
    yk_evaluation result;
    yk_evaluate_options options = YK_EVALUATE_OPTIONS_INIT;
    options.group = r->world;
    YK_CHECK(yk_evaluate(&result, r->model, r->validation, &options));
    r->state.val_accuracy = result.accuracy;
    r->state.epoch++;
    r->state.epoch_batch = 0;
    if (yk_group_rank(r->world) == 0)
        printf("Epoch [%lld/%lld]: validation loss %.4f, accuracy %.2f %%\n",
               (long long)r->state.epoch, (long long)r->epochs, result.loss, 100 * result.accuracy);
}

static void train(run *r)
{
    bool stopped = should_stop(r);
    while (r->state.epoch < r->epochs && !stopped) {
        for (const yk_batch *batch; !stopped && (batch = yk_loader_next(r->training));) {
            train_step(r, batch);
            stopped = should_stop(r);
        }
        YK_CHECK(yk_loader_status(r->training));
        if (!stopped)
            end_epoch(r);
        save(r);
    }
    if (stopped && yk_group_rank(r->world) == 0)
        printf("Stopped after step %lld; the same command%s continues\n", (long long)r->state.step,
               r->state.step >= r->max_steps ? " with more --max-steps" : "");
}

/* ---- the program ---------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    const char *data = "synthetic", *device = "cpu";
    run r = {.epochs = 3, .max_steps = YK_NEVER, .output = "run-own-network"};
    const flag flags[] = {FLAG_DATA(&data),
                          FLAG_DEVICE(&device),
                          {"epochs", "N", "passes over the data [3]", .number = &r.epochs},
                          {"max-steps", "N", "stop after N optimizer steps in all [no limit]",
                           .number = &r.max_steps},
                          {"output", "FOLDER",
                           "where checkpoints are written and resumed from [run-own-network]",
                           .text = &r.output}};
    setvbuf(stdout, NULL, _IOLBF, 0); /* each line at once, also into a pipe */
    parse_flags(argc, argv, flags, sizeof flags / sizeof *flags);
    YK_CHECK(yk_stop_prepare());
    YK_CHECK(yk_group_init(&r.world, NULL)); /* alone, a group of one */
    YK_CHECK(yk_stop_on_signals());
    make_output(&r);

    yk_dataset *training = open_data(data, YK_SPLIT_TRAIN);
    yk_dataset *validation = open_data(data, YK_SPLIT_TEST);
    r.model = create_model(yk_dataset_classes(training), device);
    yk_ddp *ddp;
    YK_CHECK(yk_ddp_create(&ddp, r.model, r.world, NULL));
    yk_adam_options adam = YK_ADAM_OPTIONS_INIT;
    adam.lr = 0.002;
    YK_CHECK(yk_adam_create(&r.optimizer, r.model, &adam));
    r.training = open_loader(training, YK_SPLIT_TRAIN, r.world, r.model);
    r.validation = open_loader(validation, YK_SPLIT_TEST, r.world, r.model);
    r.state.world_size = yk_group_size(r.world);
    r.state.batch_size = 100 / r.state.world_size * r.state.world_size;
    r.state.val_accuracy = -1; /* not evaluated yet */
    r.state.has_schedule = true;
    r.state.schedule = (yk_schedule)YK_SCHEDULE_INIT;
    r.state.schedule.kind = YK_SCHEDULE_COSINE;
    r.state.schedule.per_step = true;
    r.state.schedule.t_max = r.epochs * yk_loader_batches(r.training);

    resume(&r);
    train(&r);

    yk_loader_destroy(r.validation);
    yk_loader_destroy(r.training);
    yk_dataset_destroy(validation);
    yk_dataset_destroy(training);
    yk_optimizer_destroy(r.optimizer);
    yk_ddp_destroy(ddp);
    yk_model_destroy(r.model);
    yk_group_destroy(r.world);
    return 0;
}

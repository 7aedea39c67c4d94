/*
 * Your own data set: forty lines give it the sampler, the sharding over ranks, worker threads that
 * prepare batches ahead, and resuming bit for bit. A sample has two inputs and a label: "vector", a
 * direction (x, y), and "scan", a 12x12 picture of a bar. The label says whether the bar lies along
 * the direction, which neither input tells alone.
 *
 *     ./own_data --output run                     one process
 *     yoke run -n 2 -- ./own_data --output run    two processes; again: resumes
 */
#define _GNU_SOURCE
#include "common.h"

#include <math.h>

/* ---- the data set --------------------------------------------------------------------------- */

enum { SIDE = 12, TRAINING = 8000, VALIDATION = 2000 };

/* What all workers read: here only which samples are drawn. */
typedef struct bars {
    uint64_t first; /* training and validation draw different ones */
} bars;

/* Uniform in [0, 1), from the number of the sample alone: an index must always give the same bytes.
 * Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014. */
static double draw(uint64_t sample, uint64_t number)
{
    uint64_t z = (sample * 4 + number) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) / 9007199254740992.0;
}

static yk_status read_bar(void *data, void *worker, int64_t index, yk_field_buffer *buffers)
{
    const bars *set = data;
    uint64_t sample = set->first + (uint64_t)index;
    float *vector = buffers[0].data, *scan = buffers[1].data; /* places in the batch */
    double direction = 2 * M_PI * draw(sample, 0), bar = M_PI * draw(sample, 1);
    (void)worker; /* there is no open_worker: drawing needs no state */
    vector[0] = (float)cos(direction);
    vector[1] = (float)sin(direction);
    for (int i = 0; i < SIDE * SIDE; i++) { /* bright where the pixel is near the bar */
        int row = i / SIDE, column = i % SIDE;
        double x = column - (SIDE - 1) / 2.0, y = (SIDE - 1) / 2.0 - row;
        scan[i] = fabs(x * sin(bar) - y * cos(bar)) < 1 ? 1 : 0;
    }
    *(int32_t *)buffers[2].data = fabs(cos(direction - bar)) > M_SQRT1_2;
    return YK_OK; /* report a failure with yk_set_error(YK_ERROR_IO, "what is wrong") */
}

static yk_dataset *create_bars(bars *set, int64_t count)
{
    static const yk_field fields[] = {{"vector", YK_FIELD_TENSOR, YK_F32, 1, {2}},
                                      {"scan", YK_FIELD_TENSOR, YK_F32, 3, {1, SIDE, SIDE}},
                                      {"labels", YK_FIELD_TENSOR, YK_I32, 0, {0}}};
    yk_dataset_ops ops = YK_DATASET_OPS_INIT;
    yk_dataset *dataset;
    ops.name = "bars";
    ops.count = count;
    ops.field_count = 3;
    ops.fields = fields;
    ops.classes = 2;
    ops.class_names = (const char *const[]){"across", "along"};
    ops.read = read_bar;
    YK_CHECK(yk_dataset_create(&dataset, &ops, set)); /* set outlives it: there is no ops.close */
    return dataset;
}

/* ---- training on it ------------------------------------------------------------------------- */

/* The fields arrive as the model's inputs of the same names. */
static yk_model *create_model(const char *device)
{
    yk_graph *graph = yk_graph_create();
    yk_value *vector = yk_input(graph, "vector", YK_F32, 2, (int64_t[]){YK_BATCH, 2});
    yk_value *scan = yk_input(graph, "scan", YK_F32, 4, (int64_t[]){YK_BATCH, 1, SIDE, SIDE});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *x = yk_nn_linear(yk_flatten(scan), "scan", 64);
    x = yk_relu(yk_add(x, yk_nn_linear(vector, "vector", 64)));
    x = yk_relu(yk_nn_linear(x, "hidden", 64));

    yk_model *model;
    yk_model_options options = YK_MODEL_OPTIONS_INIT;
    options.device = device;
    options.logits = yk_nn_linear(x, "head", 2);
    YK_CHECK(yk_model_create(&model, yk_cross_entropy(options.logits, labels, NULL), &options));
    return model;
}

/* Each rank gets its own part of every epoch; batches of 100 are divided among the ranks. */
static yk_loader *create_loader(yk_dataset *dataset, yk_group *world, bool training)
{
    yk_loader *loader;
    yk_loader_options options = YK_LOADER_OPTIONS_INIT;
    options.group = world;
    options.batch_size = 100 / yk_group_size(world);
    options.shuffle = training;
    options.exact = !training; /* each sample once, so that the accuracy is exact */
    options.workers = 2;
    YK_CHECK(yk_loader_create(&loader, dataset, &options));
    yk_dataset_destroy(dataset); /* the loader keeps it alive */
    return loader;
}

static yk_status print_epoch(void *context, yk_trainer *trainer, const yk_epoch_record *record)
{
    (void)trainer;
    if (yk_group_rank(context) == 0)
        printf("Epoch %lld: training loss %.4f, validation accuracy %.2f %%\n",
               (long long)record->epoch, record->train_loss, 100 * record->val_accuracy);
    return YK_OK;
}

int main(int argc, char **argv)
{
    int64_t epochs = 5, max_steps = YK_NEVER;
    const char *output = "run-own-data", *device = "cpu";
    const flag flags[] = {
        {"epochs", "N", "passes over the data [5]", .number = &epochs},
        {"max-steps", "N", "stop after N optimizer steps in all [no limit]", .number = &max_steps},
        {"output", "FOLDER", "where checkpoints are written and resumed from [run-own-data]",
         .text = &output},
        FLAG_DEVICE(&device)};
    parse_flags(argc, argv, flags, sizeof flags / sizeof *flags);
    bars training = {.first = 0}, validation = {.first = TRAINING};
    yk_group *world;
    YK_CHECK(yk_stop_prepare());
    YK_CHECK(yk_group_init(&world, NULL)); /* alone, a group of one */

    yk_model *model = create_model(device);
    yk_ddp *ddp;
    YK_CHECK(yk_ddp_create(&ddp, model, world, NULL));
    yk_optimizer *optimizer;
    yk_adam_options adam = YK_ADAM_OPTIONS_INIT;
    adam.lr = 0.003;
    YK_CHECK(yk_adam_create(&optimizer, model, &adam));

    yk_loader *loader = create_loader(create_bars(&training, TRAINING), world, true);
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.validation = create_loader(create_bars(&validation, VALIDATION), world, false);
    options.group = world;
    options.ddp = ddp;
    options.epochs = epochs;
    options.max_steps = max_steps;
    options.output = output;
    options.callbacks = (yk_trainer_callbacks){.context = world, .on_epoch = print_epoch};
    yk_trainer *trainer;
    YK_CHECK(yk_trainer_create(&trainer, model, optimizer, loader, &options));
    YK_CHECK(yk_trainer_resume_latest(trainer, NULL));
    YK_CHECK(yk_trainer_fit(trainer));

    yk_trainer_destroy(trainer);
    yk_loader_destroy(options.validation);
    yk_loader_destroy(loader);
    yk_optimizer_destroy(optimizer);
    yk_ddp_destroy(ddp);
    yk_model_destroy(model);
    yk_group_destroy(world);
    return 0;
}

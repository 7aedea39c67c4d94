/*
 * A complete training program: ResNet-18 learns CIFAR-10, on one process or on several. It uses the
 * public header alone. What makes it distributed is marked with (DDP); nothing else knows of it.
 *
 *     ./train_cifar10 FOLDER                          one process, CIFAR-10 in FOLDER
 *     yoke run -n 4 ./train_cifar10 FOLDER            four processes that act as one
 *     yoke run -n 2 ./train_cifar10 synthetic mlp 1   drawn images, a small network, one epoch
 *
 * Arguments: data (a folder, or "synthetic"), network (resnet18), epochs (10), steps an epoch at
 * most (0: all of them).
 */
#include <stdbool.h>
#include <string.h>

#include <yoke/yoke.h>

enum { GLOBAL_BATCH = 128 };

typedef struct settings {
    const char *data, *arch;
    int epochs, max_steps;
} settings;

/* ---- data ----------------------------------------------------------------------------------- */

static yk_dataset *open_data(const char *data, yk_split split)
{
    yk_dataset *dataset;
    if (strcmp(data, "synthetic") == 0)
        YK_CHECK(yk_synthetic_create(&dataset, split, NULL));
    else
        YK_CHECK(yk_cifar10_open(&dataset, data, split));
    return dataset;
}

/* (DDP) The loader gives each rank its own share of every epoch: as DistributedSampler does. */
static yk_loader *open_loader(const yk_dataset *dataset, yk_group *world, bool training)
{
    yk_loader *loader;
    yk_loader_options options = {
        .group = world,
        .batch_size = GLOBAL_BATCH / yk_group_size(world),
        .shuffle = training,
        .exact = !training, /* no sample twice, so that the accuracy is exact */
        .transform = training ? yk_cifar10_augment : yk_cifar10_normalize,
    };
    YK_CHECK(yk_loader_create(&loader, dataset, &options));
    return loader;
}

/* ---- model ---------------------------------------------------------------------------------- */

/* A graph is built once, from the inputs to the loss; the model differentiates and runs it. */
static yk_model *create_model(const char *arch)
{
    yk_arch_fn network = yk_arch_find(arch);
    if (!network) {
        fprintf(stderr, "there is no network %s\n", arch);
        exit(2);
    }
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 32, 32});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *logits = network(images, 10);
    yk_value *loss = yk_cross_entropy(logits, labels, NULL);

    yk_model *model;
    YK_CHECK(yk_model_create(&model, loss, &(yk_model_options){.seed = 0, .logits = logits}));
    return model;
}

/* ---- one epoch ------------------------------------------------------------------------------ */

/* Returns the mean loss of this rank's batches. */
static double train_epoch(yk_model *model, yk_optimizer *optimizer, yk_loader *loader,
                          int max_steps)
{
    double loss = 0;
    int steps = 0;
    for (const yk_batch *batch; (batch = yk_loader_next(loader));) {
        if (max_steps && steps == max_steps)
            continue; /* to the end of the epoch, unused */
        YK_CHECK(yk_model_forward(model, batch));
        YK_CHECK(yk_model_backward(model)); /* (DDP) averages the gradients over the ranks */
        YK_CHECK(yk_optimizer_step(optimizer));
        loss += yk_model_loss(model);
        steps++;
    }
    YK_CHECK(yk_loader_status(loader));
    return steps ? loss / steps : 0;
}

/* How many of the batch's images get their largest logit at their label. */
static int64_t count_correct(yk_model *model, const yk_batch *batch)
{
    yk_tensor logits; /* (N, 10) */
    YK_CHECK(yk_model_output(model, &logits));
    const float *row = logits.data;
    const int32_t *labels = batch->tensors[1].data; /* the loader gives "images", "labels" */
    int64_t correct = 0;
    for (int64_t i = 0; i < batch->size; i++, row += 10) {
        int best = 0;
        for (int c = 1; c < 10; c++)
            if (row[c] > row[best])
                best = c;
        correct += best == labels[i];
    }
    return correct;
}

static double accuracy(yk_model *model, yk_loader *loader, yk_group *world)
{
    int64_t counts[2] = {0, 0}; /* correct, all */
    yk_model_eval(model);
    for (const yk_batch *batch; (batch = yk_loader_next(loader));) {
        YK_CHECK(yk_model_forward(model, batch));
        counts[0] += count_correct(model, batch);
        counts[1] += batch->size;
    }
    YK_CHECK(yk_loader_status(loader));
    yk_model_train(model);
    YK_CHECK(yk_all_reduce(world, counts, 2, YK_I64, YK_SUM, NULL)); /* (DDP) over all ranks */
    return (double)counts[0] / (double)counts[1];
}

/* ---- the program ---------------------------------------------------------------------------- */

static settings read_arguments(int argc, char **argv)
{
    return (settings){.data = argc > 1 ? argv[1] : "synthetic",
                      .arch = argc > 2 ? argv[2] : "resnet18",
                      .epochs = argc > 3 ? atoi(argv[3]) : 10,
                      .max_steps = argc > 4 ? atoi(argv[4]) : 0};
}

int main(int argc, char **argv)
{
    settings set = read_arguments(argc, argv);

    yk_group *world; /* (DDP) joins the ranks that a launcher has started; alone, a group of one */
    YK_CHECK(yk_group_init(&world, NULL));
    bool leads = yk_group_rank(world) == 0;

    yk_dataset *train_set = open_data(set.data, YK_TRAIN), *test_set = open_data(set.data, YK_TEST);
    yk_loader *train = open_loader(train_set, world, true);
    yk_loader *test = open_loader(test_set, world, false);

    yk_model *model = create_model(set.arch);
    yk_ddp *ddp; /* (DDP) from here on backward averages over ranks, and all start alike */
    YK_CHECK(yk_ddp_create(&ddp, model, world, NULL));
    yk_optimizer *optimizer;
    YK_CHECK(yk_sgd_create(&optimizer, model,
                           &(yk_sgd_options){.lr = 0.05, .momentum = 0.9, .weight_decay = 5e-4}));

    for (int epoch = 1; epoch <= set.epochs; epoch++) {
        double loss = train_epoch(model, optimizer, train, set.max_steps);
        double correct = accuracy(model, test, world);
        if (leads) {
            printf("epoch %d: loss %.4f, validation accuracy %.2f %%\n", epoch, loss,
                   100 * correct);
            fflush(stdout);
        }
    }

    yk_optimizer_destroy(optimizer);
    yk_ddp_destroy(ddp);
    yk_model_destroy(model);
    yk_loader_destroy(test);
    yk_loader_destroy(train);
    yk_dataset_destroy(test_set);
    yk_dataset_destroy(train_set);
    yk_group_destroy(world);
    return 0;
}

/*
 * Distributed data parallelism: ResNet-50 learns CIFAR-10 on as many processes as a launcher has
 * started, which act as one. It reads side by side with php.cn's "PyTorch parallel training
 * DistributedDataParallel complete code example" and has its functions main and train, its flags
 * and its log lines. The lines that make the program distributed are marked (DDP).
 *
 *     ./ddp                                                one process, drawn images
 *     yoke run -n 4 -- ./ddp --data cifar10:DIR            four processes, CIFAR-10 in DIR
 *     yoke run -n 2 -- ./ddp --arch mlp --epochs 1         takes seconds
 *
 * --batch-size counts the images of all processes, as in the original. --data, --arch and
 * --max-steps are additions. RANK and WORLD_SIZE come from the launcher, not from Slurm.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdbool.h>
#include <sys/stat.h>

#include "common.h"

typedef struct arguments {
    int64_t batch_size, epochs, max_steps; /* max_steps: of an epoch */
    const char *checkpoint, *data, *device;
    yk_arch_fn arch;
} arguments;

/* ---- data ----------------------------------------------------------------------------------- */

/* (DDP) The loader is also the DistributedSampler: each rank gets its own share of every epoch. */
static yk_loader *open_loader(const yk_dataset *dataset, yk_model *model, yk_group *world,
                              int64_t batch_size, bool training)
{
    yk_loader *loader;
    yk_loader_options options = YK_LOADER_OPTIONS_INIT;
    options.group = world;
    options.batch_size = batch_size;
    options.shuffle = training;
    options.exact = !training; /* no sample twice, so that the accuracy is exact */
    options.transforms =
        transforms_for(dataset, training ? YK_CIFAR10_AUGMENT : YK_CIFAR10_NORMALIZE);
    options.model = model; /* a GPU receives pictures as bytes */
    YK_CHECK(yk_loader_create(&loader, dataset, &options));
    return loader;
}

/* ---- the model ------------------------------------------------------------------------------ */

/* A graph is built once, from the inputs to the loss; the model differentiates and runs it. */
static yk_model *create_model(yk_arch_fn arch, int64_t classes, const char *device)
{
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 32, 32});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *outputs = arch(images, classes);
    yk_value *criterion = yk_cross_entropy(outputs, labels, NULL);

    yk_model *model;
    yk_model_options options = YK_MODEL_OPTIONS_INIT;
    options.device = device;
    options.logits = outputs;
    YK_CHECK(yk_model_create(&model, criterion, &options));
    return model;
}

/* (DDP) Each rank evaluates its own part of the data; all get the accuracy over the whole of it. */
static double accuracy(yk_model *model, yk_loader *loader, yk_group *world)
{
    yk_evaluation result;
    yk_evaluate_options options = YK_EVALUATE_OPTIONS_INIT;
    options.group = world;
    YK_CHECK(yk_evaluate(&result, model, loader, &options));
    return result.accuracy;
}

/* ---- training ------------------------------------------------------------------------------- */

static void train_epoch(yk_model *model, yk_optimizer *optimizer, yk_loader *loader,
                        const arguments *args, int64_t epoch, bool leads)
{
    int64_t batches = yk_loader_batches(loader);
    int64_t total_step = args->max_steps < batches ? args->max_steps : batches;
    yk_loss_meter *loss; /* of the steps since the last line; does not wait for the device */
    YK_CHECK(yk_loss_meter_create(&loss, model));
    double start_dataload = now();
    for (int64_t i = 0; i < total_step; i++) {
        const yk_batch *batch = yk_loader_next(loader);
        if (!batch)
            break;
        double stop_dataload = now(), start_training = stop_dataload;
        YK_CHECK(yk_model_forward(model, batch));
        YK_CHECK(yk_model_backward(model)); /* (DDP) averages the gradients over the ranks */
        YK_CHECK(yk_optimizer_step(optimizer));
        YK_CHECK(yk_loss_meter_update(loss, 1));
        double stop_training = now();
        if ((i + 1) % 10 == 0 && leads) {
            double mean;
            YK_CHECK(yk_loss_meter_compute(&mean, loss));
            printf("Epoch [%lld/%lld], Step [%lld/%lld], Loss: %.4f, Time data load: %.3fms, "
                   "Time training: %.3fms\n",
                   (long long)epoch + 1, (long long)args->epochs, (long long)i + 1,
                   (long long)total_step, mean, (stop_dataload - start_dataload) * 1000,
                   (stop_training - start_training) * 1000);
        }
        start_dataload = now();
    }
    yk_loss_meter_destroy(loss);
    YK_CHECK(yk_loader_status(loader));
    YK_CHECK(yk_loader_seek(loader, epoch + 1, 0)); /* also when max_steps has ended it early */
}

static void save_checkpoint(const yk_model *model, int size, int64_t epoch)
{
    char path[128];
    if (mkdir("./checkpoint", 0777) && errno != EEXIST) {
        perror("./checkpoint");
        exit(1);
    }
    snprintf(path, sizeof path, "./checkpoint/%dGPU_%lldepoch.checkpoint", size,
             (long long)epoch + 1);
    YK_CHECK(yk_model_save(model, path));
}

static void train(const arguments *args, yk_group *world)
{
    int rank = yk_group_rank(world), size = yk_group_size(world);
    bool leads = rank == 0;
    if (args->batch_size < size) {
        if (leads)
            fprintf(stderr, "--batch-size %lld is less than one image for each of %d processes\n",
                    (long long)args->batch_size, size);
        exit(2);
    }
    if (leads)
        printf(">>> Training on %d processes\n", size);

    yk_dataset *train_dataset = open_data(args->data, YK_SPLIT_TRAIN);
    yk_dataset *test_dataset = open_data(args->data, YK_SPLIT_TEST);
    yk_model *model = create_model(args->arch, yk_dataset_classes(train_dataset), args->device);
    if (args->checkpoint)
        YK_CHECK(yk_model_load(model, args->checkpoint));
    yk_ddp *ddp_model; /* (DDP) from here on backward averages over ranks, and all start alike */
    YK_CHECK(yk_ddp_create(&ddp_model, model, world, NULL));
    yk_optimizer *optimizer;
    yk_sgd_options sgd = YK_SGD_OPTIONS_INIT;
    sgd.lr = 1e-4;
    YK_CHECK(yk_sgd_create(&optimizer, model, &sgd));

    int64_t batch_size_per_rank = args->batch_size / size; /* (DDP) */
    yk_loader *train_loader = open_loader(train_dataset, model, world, batch_size_per_rank, true);
    yk_loader *test_loader = open_loader(test_dataset, model, world, batch_size_per_rank, false);

    double start = now();
    for (int64_t epoch = 0; epoch < args->epochs; epoch++) {
        train_epoch(model, optimizer, train_loader, args, epoch, leads);
        double correct = accuracy(model, test_loader, world);
        if (leads) {
            printf("Epoch [%lld/%lld], Validation accuracy: %.2f %%\n", (long long)epoch + 1,
                   (long long)args->epochs, 100 * correct);
            save_checkpoint(model, size, epoch);
        }
    }
    if (leads)
        printf(">>> Training complete in: %.3f s\n", now() - start);

    yk_loader_destroy(test_loader);
    yk_loader_destroy(train_loader);
    yk_dataset_destroy(test_dataset);
    yk_dataset_destroy(train_dataset);
    yk_optimizer_destroy(optimizer);
    yk_ddp_destroy(ddp_model);
    yk_model_destroy(model);
}

/* ---- the program ---------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    arguments args = {.batch_size = 128,
                      .epochs = 2,
                      .max_steps = YK_NEVER,
                      .data = "synthetic",
                      .device = "cpu",
                      .arch = yk_resnet50};
    const flag flags[] = {
        FLAG_DATA(&args.data),
        FLAG_ARCH(&args.arch),
        {"epochs", "N", "passes over the data [2]", .number = &args.epochs, .letter = 'e'},
        {"batch-size", "N", "images per step over all processes [128]", .number = &args.batch_size,
         .letter = 'b'},
        FLAG_MAX_STEPS(&args.max_steps),
        FLAG_DEVICE(&args.device),
        {"checkpoint", "FILE", "load the weights in FILE first", .text = &args.checkpoint,
         .letter = 'c'}};
    setvbuf(stdout, NULL, _IOLBF, 0); /* each line at once, also into a pipe */
    parse_flags(argc, argv, flags, sizeof flags / sizeof *flags);
    yk_group *world; /* (DDP) init_process_group; alone, a group of one */
    YK_CHECK(yk_group_init(&world, NULL));
    train(&args, world);
    yk_group_destroy(world);
    return 0;
}

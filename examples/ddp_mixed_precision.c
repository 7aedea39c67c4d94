/*
 * Distributed data parallelism with mixed precision and SyncBatchNorm: the steps 1 to 3, the good
 * practices and the mixed-precision section of AI Summer's "How distributed training works in
 * Pytorch" (Adaloglou, 2022), as one program. What differs from single_device.c is marked: (DDP),
 * (SyncBN), (AMP).
 *
 *     yoke run -n 4 -- ./ddp_mixed_precision [FOLDER|synthetic] [ARCH] [MAX_STEPS]
 *
 * As in the tutorial every rank takes batches of 256, so that four ranks make a quarter of the
 * updates. fp16 runs on every processor; where there is no arithmetic for it, it is stored in 16
 * bits and computed in 32, which is right but no faster.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include <yoke/yoke.h>

static const char PATH[] = "./cifar_net.pth";

typedef struct settings {
    const char *data;
    yk_arch_fn arch;
    int64_t max_steps; /* 0: the whole epoch */
} settings;

/* (DDP) One rank prints and writes files. */
static bool is_main_process(const yk_group *world)
{
    return yk_group_rank(world) == 0;
}

static double now(void)
{
    struct timespec clock;
    clock_gettime(CLOCK_MONOTONIC, &clock);
    return (double)clock.tv_sec + 1e-9 * (double)clock.tv_nsec;
}

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

/* (DDP) A loader with a group is DistributedSampler too, and sets the epoch by itself. A crop of 32
 * without padding, as the original has it, is no crop. */
static void create_data_loader_cifar10(yk_loader **trainloader, yk_loader **testloader,
                                       const yk_dataset *trainset, const yk_dataset *testset,
                                       yk_group *world)
{
    yk_transform transform = {.flip = true, .mean = {0.5, 0.5, 0.5}, .std = {0.5, 0.5, 0.5}};
    int64_t batch_size = 256;
    yk_loader_options training = YK_LOADER_OPTIONS_INIT;
    training.group = world;
    training.batch_size = batch_size;
    training.shuffle = true;
    training.transform = transform;
    training.workers = 2;
    yk_loader_options testing = YK_LOADER_OPTIONS_INIT;
    testing.group = world;
    testing.batch_size = batch_size;
    testing.exact = true;
    testing.transform = transform;
    testing.workers = 2;
    YK_CHECK(yk_loader_create(trainloader, trainset, &training));
    YK_CHECK(yk_loader_create(testloader, testset, &testing));
}

/* ---- the network ---------------------------------------------------------------------------- */

/* A graph is built once, from the inputs to the loss; the model differentiates and runs it. */
static yk_model *create_net(yk_arch_fn arch)
{
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 32, 32});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *outputs = arch(images, 10);
    yk_value *criterion = yk_cross_entropy(outputs, labels, NULL);

    yk_model *net;
    yk_model_options options = YK_MODEL_OPTIONS_INIT;
    options.logits = outputs;
    options.amp = YK_AMP_FP16; /* (AMP) autocast */
    YK_CHECK(yk_model_create(&net, criterion, &options));
    return net;
}

/* ---- training and testing ------------------------------------------------------------------- */

static void train(yk_model *net, yk_loader *trainloader, int64_t max_steps, bool prints)
{
    if (prints)
        printf("Start training...\n");
    yk_optimizer *optimizer;
    yk_sgd_options sgd = YK_SGD_OPTIONS_INIT;
    sgd.lr = 0.001;
    sgd.momentum = 0.9;
    YK_CHECK(yk_sgd_create(&optimizer, net, &sgd));
    yk_grad_scaler *fp16_scaler; /* (AMP) */
    YK_CHECK(yk_grad_scaler_create(&fp16_scaler, net, NULL));

    const int epochs = 1;
    for (int epoch = 0; epoch < epochs; epoch++) {
        double running_loss = 0;
        int64_t steps = 0;
        for (const yk_batch *batch; (batch = yk_loader_next(trainloader));) {
            YK_CHECK(yk_model_forward(net, batch));
            YK_CHECK(yk_model_backward(net)); /* (AMP) scaled, (DDP) averaged over the ranks */
            YK_CHECK(yk_grad_scaler_step(fp16_scaler, optimizer)); /* (AMP) */
            YK_CHECK(yk_grad_scaler_update(fp16_scaler));          /* (AMP) */
            running_loss += yk_model_loss(net);
            if (++steps == max_steps)
                break;
        }
        YK_CHECK(yk_loader_status(trainloader));
        if (prints)
            printf("[Epoch %d/%d] loss: %.3f\n", epoch + 1, epochs, running_loss / (double)steps);
    }
    if (prints)
        printf("Finished Training\n");
    yk_grad_scaler_destroy(fp16_scaler);
    yk_optimizer_destroy(optimizer);
}

/* How many of the batch's images get their largest output at their label. */
static int64_t count_correct(yk_model *net, const yk_batch *batch)
{
    yk_tensor outputs; /* (N, 10) */
    YK_CHECK(yk_model_output(net, &outputs));
    const float *row = outputs.data;
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

static void test(yk_model *net, const char *path, yk_loader *testloader, yk_group *world)
{
    int64_t counts[2] = {0, 0}; /* correct, all */
    YK_CHECK(yk_model_load(net, path));
    yk_model_eval(net);
    for (const yk_batch *batch; (batch = yk_loader_next(testloader));) {
        YK_CHECK(yk_model_forward(net, batch));
        counts[0] += count_correct(net, batch);
        counts[1] += batch->size;
    }
    YK_CHECK(yk_loader_status(testloader));
    YK_CHECK(
        yk_all_reduce(world, counts, 2, YK_I64, YK_REDUCE_SUM, NULL)); /* (DDP) over all ranks */
    if (is_main_process(world))
        printf("Accuracy of the network on the %lld test images: %.0f %%\n", (long long)counts[1],
               100.0 * (double)counts[0] / (double)counts[1]);
}

/* ---- the program ---------------------------------------------------------------------------- */

static int64_t parse_steps(const char *text)
{
    char *end;
    errno = 0;
    long long steps = strtoll(text, &end, 10);
    if (errno || end == text || *end || steps < 0) {
        fprintf(stderr, "MAX_STEPS %s: expected a whole number from 0\n", text);
        exit(2);
    }
    return steps;
}

static settings parse_args(int argc, char **argv)
{
    if (argc > 4 || (argc > 1 && argv[1][0] == '-')) {
        fprintf(stderr, "usage: %s [FOLDER|synthetic] [ARCH] [MAX_STEPS]\n", argv[0]);
        exit(2);
    }
    const char *arch = argc > 2 ? argv[2] : "resnet50";
    settings set = {.data = argc > 1 ? argv[1] : "synthetic",
                    .arch = yk_arch_find(arch),
                    .max_steps = argc > 3 ? parse_steps(argv[3]) : 0};
    if (!set.arch) {
        fprintf(stderr, "there is no network %s\n", arch);
        exit(2);
    }
    return set;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0); /* each line at once, also into a pipe */
    settings set = parse_args(argc, argv);
    double start = now();
    yk_group *world; /* (DDP) init_distributed: the launcher gives RANK and WORLD_SIZE */
    YK_CHECK(yk_group_init(&world, NULL));
    YK_CHECK(yk_barrier(world));

    yk_loader *trainloader, *testloader;
    yk_dataset *trainset = open_data(set.data, YK_SPLIT_TRAIN),
               *testset = open_data(set.data, YK_SPLIT_TEST);
    create_data_loader_cifar10(&trainloader, &testloader, trainset, testset, world);
    yk_model *net = create_net(set.arch);
    YK_CHECK(yk_sync_batch_norm_convert(net, world)); /* (SyncBN) */
    yk_ddp *ddp;                                      /* (DDP) */
    YK_CHECK(yk_ddp_create(&ddp, net, world, NULL));

    double start_train = now();
    train(net, trainloader, set.max_steps, is_main_process(world));
    double end_train = now();

    if (is_main_process(world)) /* (DDP) save_on_master */
        YK_CHECK(yk_model_save(net, PATH));
    YK_CHECK(yk_barrier(world)); /* (DDP) the others read it */
    test(net, PATH, testloader, world);
    if (is_main_process(world))
        printf("Total elapsed time: %.2f seconds, Train 1 epoch %.2f seconds\n", now() - start,
               end_train - start_train);

    yk_ddp_destroy(ddp);
    yk_model_destroy(net);
    yk_loader_destroy(testloader);
    yk_loader_destroy(trainloader);
    yk_dataset_destroy(testset);
    yk_dataset_destroy(trainset);
    yk_group_destroy(world);
    return 0;
}

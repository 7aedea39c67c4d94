/*
 * DataParallel: one process trains on several devices, here parts of its cores. It reads beside the
 * section "torch.nn.DataParallel: no pain, no gain" of AI Summer's "How distributed training works
 * in Pytorch" (Adaloglou, 2022). What differs from single_device.c is marked (DP).
 *
 *     ./data_parallel [FOLDER|synthetic] [ARCH] [MAX_STEPS] [DEVICES]
 *
 * DEVICES is "cpu:0,cpu:1" (the default) or e.g. "cpu:0-3,cpu:4-7". As in the tutorial the batch
 * grows with the devices, and as there DDP (ddp.c) is the faster way: DataParallel copies all
 * parameters to every device at each step.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <string.h>
#include <time.h>

#include <yoke/yoke.h>

static const char PATH[] = "./cifar_net.pth";

typedef struct settings {
    const char *data;
    yk_arch_fn arch;
    int64_t max_steps;   /* 0: the whole epoch */
    const char *devices; /* (DP) */
    int device_count;    /* (DP) */
} settings;

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

/* A crop of 32 without padding, as the original has it, is no crop. */
static void create_data_loader_cifar10(yk_loader **trainloader, yk_loader **testloader,
                                       const yk_dataset *trainset, const yk_dataset *testset,
                                       int device_count)
{
    yk_transform transform = {.flip = true, .mean = {0.5, 0.5, 0.5}, .std = {0.5, 0.5, 0.5}};
    int64_t batch_size = 256 * device_count; /* (DP) each device gets 256 */
    yk_loader_options training = YK_LOADER_OPTIONS_INIT;
    training.batch_size = batch_size;
    training.shuffle = true;
    training.transform = transform;
    training.workers = 2;
    yk_loader_options testing = YK_LOADER_OPTIONS_INIT;
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
    YK_CHECK(yk_model_create(&net, criterion, &options));
    return net;
}

/* ---- training and testing ------------------------------------------------------------------- */

static void train(yk_model *net, yk_loader *trainloader, int64_t max_steps)
{
    printf("Start training...\n");
    yk_optimizer *optimizer;
    yk_sgd_options sgd = YK_SGD_OPTIONS_INIT;
    sgd.lr = 0.001;
    sgd.momentum = 0.9;
    YK_CHECK(yk_sgd_create(&optimizer, net, &sgd));

    const int epochs = 1;
    for (int epoch = 0; epoch < epochs; epoch++) {
        double running_loss = 0;
        int64_t steps = 0;
        for (const yk_batch *batch; (batch = yk_loader_next(trainloader));) {
            YK_CHECK(yk_model_forward(net, batch));
            YK_CHECK(yk_model_backward(net)); /* sets gradients anew: there is no zero_grad */
            YK_CHECK(yk_optimizer_step(optimizer));
            running_loss += yk_model_loss(net);
            if (++steps == max_steps)
                break;
        }
        YK_CHECK(yk_loader_status(trainloader));
        printf("[Epoch %d/%d] loss: %.3f\n", epoch + 1, epochs, running_loss / (double)steps);
    }
    printf("Finished Training\n");
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

static void test(yk_model *net, const char *path, yk_loader *testloader)
{
    int64_t correct = 0, total = 0;
    YK_CHECK(yk_model_load(net, path));
    yk_model_eval(net);
    for (const yk_batch *batch; (batch = yk_loader_next(testloader));) {
        YK_CHECK(yk_model_forward(net, batch));
        correct += count_correct(net, batch);
        total += batch->size;
    }
    YK_CHECK(yk_loader_status(testloader));
    printf("Accuracy of the network on the %lld test images: %.0f %%\n", (long long)total,
           100.0 * (double)correct / (double)total);
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
    if (argc > 5 || (argc > 1 && argv[1][0] == '-')) {
        fprintf(stderr, "usage: %s [FOLDER|synthetic] [ARCH] [MAX_STEPS] [DEVICES]\n", argv[0]);
        exit(2);
    }
    const char *arch = argc > 2 ? argv[2] : "resnet50";
    settings set = {.data = argc > 1 ? argv[1] : "synthetic",
                    .arch = yk_arch_find(arch),
                    .max_steps = argc > 3 ? parse_steps(argv[3]) : 0,
                    .devices = argc > 4 ? argv[4] : "cpu:0,cpu:1"};
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
    YK_CHECK(yk_data_parallel_check(set.devices, &set.device_count)); /* (DP) */
    double start = now();
    yk_loader *trainloader, *testloader;
    yk_dataset *trainset = open_data(set.data, YK_SPLIT_TRAIN),
               *testset = open_data(set.data, YK_SPLIT_TEST);
    create_data_loader_cifar10(&trainloader, &testloader, trainset, testset, set.device_count);
    yk_model *net = create_net(set.arch);

    yk_data_parallel *dp; /* (DP) from here on forward and backward run on all devices */
    printf("Let's use %d devices!\n", set.device_count);
    yk_data_parallel_options options = YK_DATA_PARALLEL_OPTIONS_INIT;
    options.devices = set.devices;
    YK_CHECK(yk_data_parallel_create(&dp, net, &options));

    double start_train = now();
    train(net, trainloader, set.max_steps);
    double end_train = now();

    YK_CHECK(yk_model_save(net, PATH)); /* torch.load opens it */
    test(net, PATH, testloader);
    printf("Total elapsed time: %.2f seconds, Train 1 epoch %.2f seconds\n", now() - start,
           end_train - start_train);

    yk_data_parallel_destroy(dp); /* (DP) */
    yk_model_destroy(net);
    yk_loader_destroy(testloader);
    yk_loader_destroy(trainloader);
    yk_dataset_destroy(testset);
    yk_dataset_destroy(trainset);
    return 0;
}

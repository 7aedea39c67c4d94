/*
 * One device: ResNet-50 learns CIFAR-10 for one epoch. It reads side by side with train_1gpu.py of
 * AI Summer's "How distributed training works in Pytorch" (Adaloglou, 2022): it has that program's
 * functions create_data_loader_cifar10, train, test and main, and prints its lines.
 *
 *     ./single_device                             drawn images
 *     ./single_device --data cifar10:DIR          CIFAR-10 in DIR; folder:DIR: your pictures
 *     ./single_device --arch mlp --max-steps 10   takes seconds
 */
#define _POSIX_C_SOURCE 200809L

#include "common.h"

static const char PATH[] = "./cifar_net.pth";

typedef struct settings {
    const char *data;
    yk_arch_fn arch;
    int64_t max_steps;
    const char *device;
} settings;

/* ---- data ----------------------------------------------------------------------------------- */

/* The original's crop of 32 without padding does nothing and is left out. */
static void create_data_loader_cifar10(yk_loader **trainloader, yk_loader **testloader,
                                       const yk_dataset *trainset, const yk_dataset *testset,
                                       yk_model *net)
{
    const char *transform = transforms_for(trainset, "RandomHorizontalFlip,Normalize(0.5,0.5)");
    int64_t batch_size = 256;
    yk_loader_options training = YK_LOADER_OPTIONS_INIT;
    training.batch_size = batch_size;
    training.shuffle = true;
    training.transforms = transform;
    training.workers = 2;
    training.model = net; /* a GPU receives pictures as bytes */
    yk_loader_options testing = YK_LOADER_OPTIONS_INIT;
    testing.batch_size = batch_size;
    testing.exact = true;
    testing.transforms = transform;
    testing.workers = 2;
    testing.model = net;
    YK_CHECK(yk_loader_create(trainloader, trainset, &training));
    YK_CHECK(yk_loader_create(testloader, testset, &testing));
}

/* ---- the network ---------------------------------------------------------------------------- */

/* A graph is built once, from the inputs to the loss; the model differentiates and runs it. */
static yk_model *create_net(yk_arch_fn arch, int64_t classes, const char *device)
{
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 32, 32});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *outputs = arch(images, classes);
    yk_value *criterion = yk_cross_entropy(outputs, labels, NULL);

    yk_model *net;
    yk_model_options options = YK_MODEL_OPTIONS_INIT;
    options.device = device;
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

    yk_loss_meter *running_loss; /* does not wait for the device, as loss.detach() in PyTorch */
    YK_CHECK(yk_loss_meter_create(&running_loss, net));

    const int epochs = 1;
    for (int epoch = 0; epoch < epochs; epoch++) {
        double loss;
        int64_t steps = 0;
        for (const yk_batch *batch; (batch = yk_loader_next(trainloader));) {
            YK_CHECK(yk_model_forward(net, batch));
            YK_CHECK(yk_model_backward(net)); /* overwrites gradients: no zero_grad is needed */
            YK_CHECK(yk_optimizer_step(optimizer));
            YK_CHECK(yk_loss_meter_update(running_loss, 1));
            if (++steps == max_steps)
                break;
        }
        YK_CHECK(yk_loader_status(trainloader));
        YK_CHECK(yk_loss_meter_compute(&loss, running_loss));
        printf("[Epoch %d/%d] loss: %.3f\n", epoch + 1, epochs, loss);
    }
    printf("Finished Training\n");
    yk_loss_meter_destroy(running_loss);
    yk_optimizer_destroy(optimizer);
}

static void test(yk_model *net, const char *path, yk_loader *testloader)
{
    yk_evaluation result;
    YK_CHECK(yk_model_load(net, path));
    YK_CHECK(yk_evaluate(&result, net, testloader, NULL));
    printf("Accuracy of the network on the %lld test images: %.0f %%\n", (long long)result.count,
           100 * result.accuracy);
}

/* ---- the program ---------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    settings set = {
        .data = "synthetic", .arch = yk_resnet50, .max_steps = YK_NEVER, .device = "cpu"};
    const flag flags[] = {FLAG_DATA(&set.data), FLAG_ARCH(&set.arch),
                          FLAG_MAX_STEPS(&set.max_steps), FLAG_DEVICE(&set.device)};
    setvbuf(stdout, NULL, _IOLBF, 0); /* each line at once, also into a pipe */
    parse_flags(argc, argv, flags, sizeof flags / sizeof *flags);
    double start = now();
    yk_loader *trainloader, *testloader;
    yk_dataset *trainset = open_data(set.data, YK_SPLIT_TRAIN),
               *testset = open_data(set.data, YK_SPLIT_TEST);
    yk_model *net = create_net(set.arch, yk_dataset_classes(trainset), set.device);
    create_data_loader_cifar10(&trainloader, &testloader, trainset, testset, net);

    double start_train = now();
    train(net, trainloader, set.max_steps);
    double end_train = now();

    YK_CHECK(yk_model_save(net, PATH)); /* torch.load opens it */
    test(net, PATH, testloader);
    printf("Total elapsed time: %.2f seconds, Train 1 epoch %.2f seconds\n", now() - start,
           end_train - start_train);

    yk_model_destroy(net);
    yk_loader_destroy(testloader);
    yk_loader_destroy(trainloader);
    yk_dataset_destroy(testset);
    yk_dataset_destroy(trainset);
    return 0;
}

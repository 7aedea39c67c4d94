/*
 * ResNet-18 on CIFAR-10, started by hand on each machine or by a platform. It reads side by side
 * with main.py of ModelArts' "Creating a Multiple-Node Multi-Card Distributed Training Job
 * (DistributedDataParallel)": it has the same functions in the same order and the same network,
 * whose checkpoints load into that program's ResNet(Block).
 *
 *     ./resnet18_cifar10 --init_method tcp://127.0.0.1:29500 --rank 0 --world_size 2 &
 *     ./resnet18_cifar10 --init_method tcp://127.0.0.1:29500 --rank 1 --world_size 2
 *
 * By design its flags are the original's, so that a platform can start either program; they differ
 * from those of the other examples (no --help, underscores, unknown flags are ignored). --data_url
 * is a folder that holds cifar-10-batches-py. --custom_data true trains on random images instead,
 * on which accuracy cannot exceed 0.4 to 0.6. Two added flags make it quick to try: --width of the
 * first layer (64) and --samples of the random data (5000). --device, also added, says where the
 * model computes (cpu), whatever --enable_gpu says. The sampler and the batches are made by hand to
 * show what a loader does.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <yoke/yoke.h>

enum { BATCH = 128, IMAGE = 3 * 32 * 32, CLASSES = 10 };

typedef struct arguments {
    bool enable_gpu, custom_data;
    double lr;
    int64_t epochs, rank, world_size, width, samples;
    const char *init_method, *data_url, *output_dir, *device;
} arguments;

static double now(void)
{
    struct timespec clock;
    clock_gettime(CLOCK_MONOTONIC, &clock);
    return (double)clock.tv_sec + 1e-9 * (double)clock.tv_nsec;
}

static void *allocate(size_t bytes)
{
    void *memory = malloc(bytes);
    if (!memory) {
        fprintf(stderr, "out of memory: %zu bytes\n", bytes);
        exit(1);
    }
    return memory;
}

/* ---- data ----------------------------------------------------------------------------------- */

/* A TensorDataset: CIFAR-10, or random images with two labels. */
typedef struct tensor_dataset {
    int64_t count;
    yk_dataset *cifar; /* or NULL, and then images and labels */
    yk_reader *reader; /* of cifar */
    float *images;     /* (count, 3, 32, 32) */
    int32_t *labels;   /* (count) */
} tensor_dataset;

/* Uniform in (0, 1): Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014. */
static double draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return ((double)((z ^ z >> 31) >> 11) + 0.5) / 9007199254740992.0;
}

/* randn images; half of the labels 1, half 0, shuffled. */
static tensor_dataset random_dataset(int64_t count, uint64_t seed)
{
    tensor_dataset set = {.count = count,
                          .images = allocate((size_t)count * IMAGE * sizeof *set.images),
                          .labels = allocate((size_t)count * sizeof *set.labels)};
    for (int64_t i = 0; i < count * IMAGE; i++) {
        double sum = -6; /* of twelve uniform numbers: as good as normal, and needs no libm */
        for (int k = 0; k < 12; k++)
            sum += draw(&seed);
        set.images[i] = (float)sum;
    }
    for (int64_t i = 0; i < count; i++)
        set.labels[i] = i < count / 2;
    for (int64_t i = count - 1; i > 0; i--) {
        int64_t other = (int64_t)(draw(&seed) * (double)(i + 1));
        int32_t label = set.labels[i];
        set.labels[i] = set.labels[other];
        set.labels[other] = label;
    }
    return set;
}

static tensor_dataset get_data(const arguments *args, yk_split split)
{
    if (args->custom_data)
        return split == YK_SPLIT_TRAIN ? random_dataset(args->samples, 2021)
                                       : random_dataset(args->samples / 5, 2022);
    tensor_dataset set = {.count = 0};
    YK_CHECK(yk_cifar10_open(&set.cifar, args->data_url, split));
    YK_CHECK(yk_reader_create(&set.reader, set.cifar));
    set.count = yk_dataset_size(set.cifar);
    return set;
}

static void free_data(tensor_dataset *set)
{
    yk_reader_destroy(set->reader);
    yk_dataset_destroy(set->cifar);
    free(set->images);
    free(set->labels);
}

/* One rank's DataLoader: the indices of an epoch, and the batch made of some of them. */
typedef struct data_loader {
    const tensor_dataset *set;
    yk_sampler_options sampler;
    int64_t *indices;
    int64_t batches;
    float *images;   /* (BATCH, 3, 32, 32) */
    int32_t *labels; /* (BATCH) */
    yk_tensor tensors[2];
    yk_batch batch;
} data_loader;

/* Both samplers share the data: for validation each sample counts once over all ranks. */
static void create_loader(data_loader *loader, const tensor_dataset *set, const arguments *args,
                          bool training)
{
    *loader = (data_loader){.set = set, .sampler = YK_SAMPLER_OPTIONS_INIT};
    loader->sampler.samples = set->count;
    loader->sampler.world_size = (int)args->world_size;
    loader->sampler.rank = (int)args->rank;
    loader->sampler.shuffle = training;
    loader->sampler.exact = !training;
    int64_t count = yk_sampler_count(&loader->sampler);
    loader->batches = training ? count / BATCH : (count + BATCH - 1) / BATCH; /* drop_last=True */
    loader->indices = allocate((size_t)count * sizeof *loader->indices);
    loader->images = allocate(sizeof(float[BATCH][IMAGE]));
    loader->labels = allocate(sizeof(int32_t[BATCH]));
}

static void destroy_loader(data_loader *loader)
{
    free(loader->indices);
    free(loader->images);
    free(loader->labels);
}

/* tr_sampler.set_epoch(epoch). */
static void set_epoch(data_loader *loader, int64_t epoch)
{
    YK_CHECK(yk_sampler_indices(&loader->sampler, epoch, loader->indices));
}

static void read_sample(const tensor_dataset *set, int64_t index, float *image, int32_t *label)
{
    if (!set->cifar) {
        memcpy(image, set->images + index * IMAGE, sizeof(float[IMAGE]));
        *label = set->labels[index];
        return;
    }
    const yk_tensor *fields; /* CIFAR-10's: images and labels */
    YK_CHECK(yk_reader_read(set->reader, index, &fields));
    const uint8_t *pixels = fields[0].data;
    *label = *(const int32_t *)fields[1].data;
    for (int i = 0; i < IMAGE; i++)
        image[i] = (float)pixels[i] / 255;
}

static const yk_batch *get_batch(data_loader *loader, int64_t step)
{
    static const char *const names[] = {"images", "labels"};
    int64_t first = step * BATCH, left = yk_sampler_count(&loader->sampler) - first;
    int64_t size = left < BATCH ? left : BATCH;
    for (int64_t i = 0; i < size; i++)
        read_sample(loader->set, loader->indices[first + i], loader->images + i * IMAGE,
                    &loader->labels[i]);
    loader->tensors[0] =
        (yk_tensor){.data = loader->images, .dtype = YK_F32, .ndim = 4, .dims = {size, 3, 32, 32}};
    loader->tensors[1] =
        (yk_tensor){.data = loader->labels, .dtype = YK_I32, .ndim = 1, .dims = {size}};
    loader->batch =
        (yk_batch){.size = size, .count = 2, .names = names, .tensors = loader->tensors};
    return &loader->batch;
}

/* ---- the network ---------------------------------------------------------------------------- */

/* nn.Conv2d(..., bias=False) with its own initialisation, then nn.BatchNorm2d. */
static yk_value *conv_norm(yk_value *x, const char *conv, const char *norm, int64_t out_channels,
                           int64_t kernel, int64_t stride)
{
    int64_t dims[YK_MAX_DIMS];
    yk_graph *graph = yk_value_graph(x);
    if (yk_value_shape(x, dims) != 4)
        return x; /* an earlier mistake, which yk_model_create will tell */
    yk_scope_push(graph, conv);
    yk_value *weight =
        yk_parameter(graph, "weight", YK_F32, 4, (int64_t[]){out_channels, dims[1], kernel, kernel},
                     YK_INIT_KAIMING_UNIFORM, 0);
    yk_conv2d_options conv2d = YK_CONV2D_OPTIONS_INIT;
    conv2d.stride = stride;
    conv2d.padding = kernel / 2;
    x = yk_conv2d(x, weight, NULL, &conv2d);
    yk_scope_pop(graph);
    return yk_nn_batch_norm(x, norm);
}

static yk_value *block(yk_value *x, int64_t in_channels, int64_t out_channels, int64_t stride)
{
    yk_graph *graph = yk_value_graph(x);
    yk_scope_push(graph, "residual_function");
    yk_value *out = yk_relu(conv_norm(x, "0", "1", out_channels, 3, stride));
    out = conv_norm(out, "3", "4", out_channels, 3, 1);
    yk_scope_pop(graph);
    if (stride != 1 || in_channels != out_channels) {
        yk_scope_push(graph, "shortcut");
        x = conv_norm(x, "0", "1", out_channels, 1, stride);
        yk_scope_pop(graph);
    }
    return yk_relu(yk_add(out, x));
}

static yk_value *make_layer(yk_value *x, const char *name, int64_t in_channels,
                            int64_t out_channels, int64_t stride)
{
    yk_graph *graph = yk_value_graph(x);
    yk_scope_push(graph, name);
    yk_scope_push(graph, "0");
    x = block(x, in_channels, out_channels, stride);
    yk_scope_pop(graph);
    yk_scope_push(graph, "1");
    x = block(x, out_channels, out_channels, 1);
    yk_scope_pop(graph);
    yk_scope_pop(graph);
    return x;
}

/* (N, 3, 32, 32) -> (N, 10) */
static yk_value *resnet(yk_value *x, int64_t width)
{
    yk_graph *graph = yk_value_graph(x);
    yk_scope_push(graph, "conv1");
    x = yk_relu(conv_norm(x, "0", "1", width, 3, 1));
    yk_scope_pop(graph);
    x = make_layer(x, "conv2", width, width, 1);
    x = make_layer(x, "conv3", width, 2 * width, 2);
    x = make_layer(x, "conv4", 2 * width, 4 * width, 2);
    x = make_layer(x, "conv5", 4 * width, 8 * width, 2);
    return yk_nn_linear(yk_flatten(yk_global_avg_pool2d(x)), "dense_layer", CLASSES);
}

static yk_model *create_model(int64_t width, uint64_t seed, const char *device)
{
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 32, 32});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *out = resnet(images, width);
    yk_value *loss = yk_cross_entropy(out, labels, NULL);
    yk_model *model;
    yk_model_options options = YK_MODEL_OPTIONS_INIT;
    options.seed = seed;
    options.device = device;
    options.logits = out;
    YK_CHECK(yk_model_create(&model, loss, &options));
    return model;
}

/* ---- training and validation ---------------------------------------------------------------- */

static void train(yk_model *model, yk_optimizer *optimizer, data_loader *loader,
                  const arguments *args, int64_t epoch)
{
    int64_t steps = loader->batches;
    double train_loss, data_s = 0, start = now();
    yk_loss_meter *losses; /* does not wait for the device */
    YK_CHECK(yk_loss_meter_create(&losses, model));
    set_epoch(loader, epoch); /* else every epoch would come in the same order */
    for (int64_t step = 0; step < steps; step++) {
        double loading = now();
        const yk_batch *batch = get_batch(loader, step);
        data_s += now() - loading;
        YK_CHECK(yk_model_forward(model, batch));
        YK_CHECK(yk_model_backward(model)); /* averages the gradients over the ranks */
        YK_CHECK(yk_optimizer_step(optimizer));
        YK_CHECK(yk_loss_meter_update(losses, 1));
    }
    YK_CHECK(yk_loss_meter_compute(&train_loss, losses));
    yk_loss_meter_destroy(losses);
    if (args->rank == 0)
        printf("train | epoch: %lld | loss: %.4f | data loading: %.3f s | training: %.3f s\n",
               (long long)epoch, train_loss, data_s, now() - start - data_s);
}

/* Where every rank of the original validates on everything, they share the work here. */
static void validate(yk_model *model, data_loader *loader, yk_group *world, int64_t epoch)
{
    int64_t correct;
    double sums[3] = {0};                               /* loss, correct, all */
    YK_CHECK(yk_model_broadcast_buffers(model, world)); /* rank 0's, which are saved */
    yk_model_eval(model);
    set_epoch(loader, 0);
    for (int64_t step = 0; step < loader->batches; step++) {
        const yk_batch *batch = get_batch(loader, step);
        YK_CHECK(yk_model_forward(model, batch));
        sums[0] += yk_model_loss(model) * (double)batch->size;
        YK_CHECK(yk_count_correct(&correct, model, batch));
        sums[1] += (double)correct;
        sums[2] += (double)batch->size;
    }
    yk_model_train(model);
    YK_CHECK(yk_all_reduce(world, sums, 3, YK_F64, YK_REDUCE_SUM, NULL));
    if (yk_group_rank(world) == 0)
        printf("val | epoch: %lld | loss: %.4f | accuracy: %.4f\n\n", (long long)epoch,
               sums[0] / sums[2], sums[1] / sums[2]);
}

/* Before training, which would be lost if nothing could be written. */
static void make_output_dir(const char *output_dir)
{
    char inside[4096];
    snprintf(inside, sizeof inside, "%s/.", output_dir);
    if ((mkdir(output_dir, 0777) && errno != EEXIST) || access(inside, W_OK)) {
        perror(output_dir);
        exit(1);
    }
}

static void save(const yk_model *model, const char *output_dir, int64_t epoch)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/epoch_%lld.pth", output_dir, (long long)epoch);
    YK_CHECK(yk_model_save(model, path));
}

/* ---- the program ---------------------------------------------------------------------------- */

static void refuse(const char *flag, const char *value, const char *expected)
{
    fprintf(stderr, "--%s%s%s: expected %s\n", flag, *value ? " " : "", value, expected);
    exit(2);
}

static int64_t parse_integer(const char *flag, const char *text, int64_t least)
{
    char *end, expected[64];
    long long value = strtoll(text, &end, 10);
    snprintf(expected, sizeof expected, "a whole number from %lld to %d", (long long)least,
             INT32_MAX);
    if (end == text || *end || value < least || value > INT32_MAX)
        refuse(flag, text, expected);
    return value;
}

static double parse_real(const char *flag, const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value > 0 && value < 1e6))
        refuse(flag, text, "a number above 0");
    return value;
}

static bool parse_truth(const char *flag, const char *text)
{
    bool truth = strcmp(text, "true") == 0;
    if (!truth && strcmp(text, "false") != 0)
        refuse(flag, text, "true or false");
    return truth;
}

/* Where the value of a flag goes: to one of these. */
typedef struct destination {
    const char *flag;
    int64_t *integer, least;
    double *real;
    bool *truth;
    const char **text;
} destination;

/* False for a flag that this program does not know. value: NULL where there is none. */
static bool take_argument(arguments *args, const char *flag, const char *value)
{
    const destination known[] = {
        {"enable_gpu", .truth = &args->enable_gpu},
        {"lr", .real = &args->lr},
        {"epochs", .integer = &args->epochs, .least = 1},
        {"init_method", .text = &args->init_method},
        {"rank", .integer = &args->rank},
        {"world_size", .integer = &args->world_size, .least = 1},
        {"custom_data", .truth = &args->custom_data},
        {"data_url", .text = &args->data_url},
        {"output_dir", .text = &args->output_dir},
        {"device", .text = &args->device},
        {"width", .integer = &args->width, .least = 1},
        {"samples", .integer = &args->samples, .least = 1},
    };
    const destination *to = known, *end = known + sizeof known / sizeof *known;
    while (to < end && strcmp(to->flag, flag) != 0)
        to++;
    if (to == end)
        return false;
    if (!value)
        refuse(flag, "", "a value");
    else if (to->integer)
        *to->integer = parse_integer(flag, value, to->least);
    else if (to->real)
        *to->real = parse_real(flag, value);
    else if (to->truth)
        *to->truth = parse_truth(flag, value);
    else
        *to->text = value;
    return true;
}

/* --flag value and --flag=value. */
static arguments parse_args(int argc, char **argv)
{
    arguments args = {.lr = 0.01,
                      .epochs = 100,
                      .world_size = 1,
                      .width = 64,
                      .samples = 5000,
                      .init_method = "env://",
                      .data_url = "input_dir",
                      .output_dir = "output_dir",
                      .device = "cpu"};
    for (int i = 1; i < argc; i++) {
        char flag[32];
        if (strncmp(argv[i], "--", 2) != 0)
            continue;
        const char *equals = strchr(argv[i], '=');
        const char *next = i + 1 < argc && strncmp(argv[i + 1], "--", 2) != 0 ? argv[i + 1] : NULL;
        size_t length = equals ? (size_t)(equals - argv[i]) - 2 : strlen(argv[i]) - 2;
        snprintf(flag, sizeof flag, "%.*s", (int)length, argv[i] + 2);
        if (take_argument(&args, flag, equals ? equals + 1 : next) && !equals)
            i++;
    }
    if (args.rank >= args.world_size) {
        fprintf(stderr, "--rank %lld: expected a rank below --world_size %lld\n",
                (long long)args.rank, (long long)args.world_size);
        exit(2);
    }
    return args;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0); /* each line at once, also into a pipe */
    arguments args = parse_args(argc, argv);
    if (args.enable_gpu && strcmp(args.device, "cpu") == 0 && args.rank == 0)
        fprintf(stderr,
                "--enable_gpu true: it is --device that chooses, here the CPU; --device cuda "
                "trains on a GPU\n");
    if (args.custom_data && args.rank == 0)
        fprintf(stderr, "you are training on custom random dataset, validation accuracy may range "
                        "from 0.4 to 0.6.\n");

    /* Settings for distributed training: initialise the process group. */
    yk_group *world;
    yk_group_options joining = YK_GROUP_OPTIONS_INIT;
    joining.init_method = args.init_method;
    joining.rank = (int)args.rank;
    joining.world_size = (int)args.world_size;
    YK_CHECK(yk_group_init(&world, &joining));

    tensor_dataset tr_set = get_data(&args, YK_SPLIT_TRAIN),
                   val_set = get_data(&args, YK_SPLIT_TEST);
    data_loader tr_loader, val_loader; /* with the sampler for data distribution */
    create_loader(&tr_loader, &tr_set, &args, true);
    create_loader(&val_loader, &val_set, &args, false);
    if (tr_loader.batches == 0) {
        fprintf(stderr, "%lld images are less than a batch of %d for each of %lld processes\n",
                (long long)tr_set.count, BATCH, (long long)args.world_size);
        exit(2);
    }

    double lr = args.lr * (double)args.world_size;
    yk_model *model = create_model(args.width, 2024, args.device);

    /* Settings for distributed training: build a DistributedDataParallel model. */
    yk_ddp *ddp;
    YK_CHECK(yk_ddp_create(&ddp, model, world, NULL));

    yk_optimizer *optimizer;
    yk_adam_options adam = YK_ADAM_OPTIONS_INIT;
    adam.lr = lr;
    YK_CHECK(yk_adam_create(&optimizer, model, &adam));

    if (args.rank == 0)
        make_output_dir(args.output_dir);
    for (int64_t epoch = 1; epoch <= args.epochs; epoch++) {
        train(model, optimizer, &tr_loader, &args, epoch);
        validate(model, &val_loader, world, epoch);
        if (args.rank == 0)
            save(model, args.output_dir, epoch);
    }

    yk_optimizer_destroy(optimizer);
    yk_ddp_destroy(ddp);
    yk_model_destroy(model);
    destroy_loader(&val_loader);
    destroy_loader(&tr_loader);
    free_data(&val_set);
    free_data(&tr_set);
    yk_group_destroy(world);
    return 0;
}

/*
 * 50 steps on 2 ranks against PyTorch's DistributedDataParallel over gloo: the same first weights
 * and order of samples, and the batches as our loader has augmented them. ddp.py trains likewise,
 * compares the loss curves, and says how far PyTorch's are from themselves.
 * YOKE_PARITY_PLOT=FILE.svg asks for a picture of them.
 */
#define _GNU_SOURCE
#include "checkpoint/tensor_file/pth.h"
#include "harness.h"
#include "pytorch.h"

#include <stdlib.h>
#include <string.h>

enum { STEPS = 50, BATCH = 16, IMAGES = 960, WORLD = 2 }; /* the second epoch begins at step 30 */

typedef struct step {
    yk_tensor images, labels, indices;
    double loss;
} step;

/* One for all ranks, made by their parent. */
static const char *shared_directory(void)
{
    if (!getenv("YOKE_PARITY_DIRECTORY"))
        setenv("YOKE_PARITY_DIRECTORY", yk_test_directory(), 1);
    return getenv("YOKE_PARITY_DIRECTORY");
}

static const char *file_path(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", shared_directory(), name);
    return path;
}

/* ---- the network: a small ResNet, which ddp.py builds too ------------------------------------ */

static yk_value *conv_norm(yk_value *x, const char *conv, const char *norm, int64_t channels,
                           int64_t kernel, int64_t stride)
{
    yk_conv2d_options options = YK_CONV2D_OPTIONS_INIT;
    options.stride = stride;
    options.padding = kernel / 2;
    return yk_nn_batch_norm(yk_nn_conv2d(x, conv, channels, kernel, &options), norm);
}

static yk_value *block(yk_value *x, const char *name, int64_t channels, int64_t stride)
{
    yk_graph *graph = yk_value_graph(x);
    yk_scope_push(graph, name);
    yk_value *y = yk_relu(conv_norm(x, "conv1", "bn1", channels, 3, stride));
    y = conv_norm(y, "conv2", "bn2", channels, 3, 1);
    if (stride > 1) {
        yk_scope_push(graph, "downsample");
        x = conv_norm(x, "0", "1", channels, 1, stride);
        yk_scope_pop(graph);
    }
    yk_scope_pop(graph);
    return yk_relu(yk_add(y, x));
}

static yk_model *create_model(void)
{
    yk_graph *graph = yk_graph_create();
    int64_t dims[] = {YK_BATCH, 3, 32, 32};
    yk_value *images = yk_input(graph, "images", YK_F32, 4, dims);
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, dims);
    yk_value *x = yk_relu(conv_norm(images, "conv1", "bn1", 16, 3, 2));
    x = block(x, "layer1", 16, 1);
    x = block(x, "layer2", 32, 2);
    x = block(x, "layer3", 64, 2);
    yk_value *logits = yk_nn_linear(yk_flatten(yk_global_avg_pool2d(x)), "fc", 10);
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_cross_entropy(logits, labels, NULL),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.seed = 1,
                                      o.threads = 1, o.winograd = false)));
    return model;
}

/* ---- one rank's training --------------------------------------------------------------------- */

static yk_tensor copy(yk_tensor tensor)
{
    const void *data = tensor.data;
    tensor.data = malloc(yk_tensor_bytes(&tensor));
    assert_non_null(tensor.data);
    memcpy(tensor.data, data, yk_tensor_bytes(&tensor));
    return tensor;
}

static void train(yk_model *model, yk_loader *loader, step *steps)
{
    yk_optimizer *optimizer;
    assert_ok(yk_sgd_create(&optimizer, model,
                            YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.02,
                                    o.momentum = 0.9, o.weight_decay = 5e-4)));
    for (int i = 0; i < STEPS; i++) {
        const yk_batch *batch = yk_loader_next(loader);
        if (!batch)
            batch = yk_loader_next(loader); /* of the next epoch */
        assert_non_null(batch);
        assert_int_equal(batch->size, BATCH);
        steps[i].images = copy(batch->tensors[0]);
        steps[i].labels = copy(batch->tensors[1]);
        steps[i].indices = copy((yk_tensor){.data = (void *)(uintptr_t)batch->indices,
                                            .dtype = YK_I64,
                                            .ndim = 1,
                                            .dims = {BATCH}});
        assert_ok(yk_model_forward(model, batch));
        assert_ok(yk_model_backward(model));
        steps[i].loss = yk_model_loss(model);
        assert_ok(yk_optimizer_step(optimizer));
    }
    yk_optimizer_destroy(optimizer);
}

static void write_tensor(yki_pth_writer *file, const char *name, const yk_tensor *tensor)
{
    yki_pickle_text(yki_pth_pickle(file), name);
    assert_ok(yki_pth_tensor(file, tensor));
}

/* [{"images", "labels", "indices", "loss"}] */
static void write_steps(const step *steps, const char *path)
{
    FILE *stream = fopen(path, "wb");
    assert_non_null(stream);
    yki_pth_writer *file;
    assert_ok(yki_pth_writer_create(&file, fileno(stream), path));
    yki_pickle_writer *pickle = yki_pth_pickle(file);
    yki_pickle_list(pickle);
    yki_pickle_mark(pickle);
    for (int i = 0; i < STEPS; i++) {
        yki_pickle_dict(pickle);
        yki_pickle_mark(pickle);
        write_tensor(file, "images", &steps[i].images);
        write_tensor(file, "labels", &steps[i].labels);
        write_tensor(file, "indices", &steps[i].indices);
        yki_pickle_text(pickle, "loss");
        yki_pickle_float(pickle, steps[i].loss);
        yki_pickle_setitems(pickle);
    }
    yki_pickle_appends(pickle);
    assert_ok(yki_pth_writer_finish(file));
    assert_int_equal(fclose(stream), 0);
}

static void train_rank(int rank, int world)
{
    yk_group *group;
    yk_dataset *dataset;
    yk_loader *loader;
    yk_ddp *ddp;
    step steps[STEPS];
    char name[32];
    (void)world;
    yk_model *model = create_model();
    assert_ok(yk_group_init(&group, NULL));
    assert_ok(yk_synthetic_create(
        &dataset, YK_SPLIT_TRAIN,
        YK_WITH(yk_synthetic_options, YK_SYNTHETIC_OPTIONS_INIT, o.count = IMAGES)));
    assert_ok(yk_loader_create(&loader, dataset,
                               YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT, o.group = group,
                                       o.batch_size = BATCH, o.shuffle = true,
                                       o.transforms = YK_CIFAR10_AUGMENT, o.seed = 3)));
    assert_ok(yk_ddp_create(&ddp, model, group, NULL));
    if (rank == 0)
        assert_ok(yk_model_save(model, file_path("weights.pth")));
    train(model, loader, steps);
    snprintf(name, sizeof name, "rank%d.pth", rank);
    write_steps(steps, file_path(name));

    for (int i = 0; i < STEPS; i++) {
        free(steps[i].images.data);
        free(steps[i].labels.data);
        free(steps[i].indices.data);
    }
    yk_ddp_destroy(ddp);
    yk_model_destroy(model);
    yk_loader_destroy(loader);
    yk_dataset_destroy(dataset);
    yk_group_destroy(group);
}

YK_TEST(loss_curves_of_ddp_are_pytorchs)
{
    const char *plot = getenv("YOKE_PARITY_PLOT");
    shared_directory();
    yk_test_ranks(WORLD, train_rank);
    pytorch_judges("ddp.py", "%s %s", shared_directory(), plot ? plot : "");
}

/* What a trainer is made of: a linear model on synthetic images, SGD with momentum, two loaders. */
#ifndef YOKE_TESTS_TRAINER_PARTS_H
#define YOKE_TESTS_TRAINER_PARTS_H

#include "same.h"

typedef struct parts {
    yk_dataset *dataset, *test_set;
    yk_loader *loader, *validation;
    yk_model *model;
    yk_optimizer *optimizer;
    yk_trainer *trainer;
} parts;

static inline yk_model *create_model(void)
{
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 32, 32});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *logits = yk_nn_linear(yk_flatten(images), "fc", 10);
    yk_model_options options = YK_MODEL_OPTIONS_INIT;
    options.device = yk_test_device("cpu");
    options.logits = logits;
    options.threads = 1;
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_cross_entropy(logits, labels, NULL), &options));
    return model;
}

static inline yk_dataset *create_dataset(yk_split split, int64_t count)
{
    yk_dataset *dataset;
    assert_ok(yk_synthetic_create(
        &dataset, split,
        YK_WITH(yk_synthetic_options, YK_SYNTHETIC_OPTIONS_INIT, o.count = count)));
    return dataset;
}

static inline yk_loader *create_loader(const yk_dataset *dataset, yk_group *group, bool training)
{
    yk_loader *loader;
    yk_loader_options options = YK_LOADER_OPTIONS_INIT;
    options.group = group;
    options.batch_size = 20;
    options.shuffle = training;
    options.exact = !training;
    options.transforms = YK_CIFAR10_NORMALIZE;
    assert_ok(yk_loader_create(&loader, dataset, &options));
    return loader;
}

/* Takes over the data set. */
static inline parts create_parts_over(const yk_trainer_options *options, yk_dataset *dataset)
{
    parts p = {
        .dataset = dataset, .test_set = create_dataset(YK_SPLIT_TEST, 50), .model = create_model()};
    yk_trainer_options with = *options;
    p.loader = create_loader(p.dataset, options->group, true);
    p.validation = with.validation = create_loader(p.test_set, options->group, false);
    assert_ok(
        yk_sgd_create(&p.optimizer, p.model,
                      YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.01, o.momentum = 0.9)));
    assert_ok(yk_trainer_create(&p.trainer, p.model, p.optimizer, p.loader, &with));
    return p;
}

typedef yk_status read_fn(void *data, void *worker, int64_t index, yk_field_buffer *buffers);

/* On 200 images in 10 classes that the function reads, as data of this name. */
static inline parts create_parts_reading(const yk_trainer_options *options, const char *name,
                                         read_fn *read, void *data)
{
    static const yk_field fields[] = {{"images", YK_FIELD_IMAGE, YK_U8, 3, {3, 32, 32}},
                                      {"labels", YK_FIELD_TENSOR, YK_I32, 0, {0}}};
    yk_dataset *dataset;
    yk_dataset_ops ops = YK_DATASET_OPS_INIT;
    ops.name = name;
    ops.count = 200;
    ops.field_count = 2;
    ops.fields = fields;
    ops.classes = 10;
    ops.read = read;
    assert_ok(yk_dataset_create(&dataset, &ops, data));
    return create_parts_over(options, dataset);
}

/* 10 steps an epoch on one rank, for 200 images. */
static inline parts create_parts(const yk_trainer_options *options, int64_t images)
{
    return create_parts_over(options, create_dataset(YK_SPLIT_TRAIN, images));
}

static inline void destroy_parts(parts p)
{
    yk_trainer_destroy(p.trainer);
    yk_optimizer_destroy(p.optimizer);
    yk_model_destroy(p.model);
    yk_loader_destroy(p.validation);
    yk_loader_destroy(p.loader);
    yk_dataset_destroy(p.test_set);
    yk_dataset_destroy(p.dataset);
}

static inline void assert_same_weights(const parts *a, const parts *b)
{
    assert_same_values(a->model, b->model);
}

static inline const char *output_folder(void)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/run", yk_test_directory());
    return path;
}

#endif

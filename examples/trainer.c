/*
 * The shortest complete training program: a yk_trainer evaluates, saves, stops on signals and
 * resumes from the newest checkpoint, on one process or on as many as a launcher has started.
 *
 *     ./trainer                      one process, drawn images; again: resumes
 *     yoke run -n 2 -- ./trainer     two processes
 */
#define _POSIX_C_SOURCE 200809L
#include "common.h"

static yk_loader *open_loader(const yk_dataset *dataset, yk_split split, yk_group *world,
                              yk_model *model)
{
    yk_loader *loader;
    yk_loader_options options = YK_LOADER_OPTIONS_INIT;
    options.group = world;
    options.batch_size = 100 / yk_group_size(world);
    options.shuffle = split == YK_SPLIT_TRAIN;
    options.exact = !options.shuffle; /* each sample once, so that the accuracy is exact */
    options.transforms = transforms_for(dataset, YK_CIFAR10_NORMALIZE);
    options.model = model; /* a GPU receives pictures as bytes */
    YK_CHECK(yk_loader_create(&loader, dataset, &options));
    return loader;
}

int main(int argc, char **argv)
{
    const char *data = "synthetic", *device = "cpu";
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.epochs = 3;
    options.output = "run-trainer";
    const flag flags[] = {FLAG_DATA(&data),
                          {"epochs", "N", "passes over the data [3]", .number = &options.epochs},
                          FLAG_DEVICE(&device)};
    parse_flags(argc, argv, flags, sizeof flags / sizeof *flags);

    yk_group *world;
    yk_model *model;
    yk_ddp *ddp;
    yk_optimizer *optimizer;
    yk_trainer *trainer;
    YK_CHECK(yk_stop_prepare());
    YK_CHECK(yk_group_init(&world, NULL));
    yk_dataset *training = open_data(data, YK_SPLIT_TRAIN);
    yk_dataset *validation = open_data(data, YK_SPLIT_TEST);
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 32, 32});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_model_options modelling = YK_MODEL_OPTIONS_INIT;
    modelling.device = device;
    modelling.logits = yk_mlp(images, yk_dataset_classes(training));
    YK_CHECK(yk_model_create(&model, yk_cross_entropy(modelling.logits, labels, NULL), &modelling));
    YK_CHECK(yk_ddp_create(&ddp, model, world, NULL));
    YK_CHECK(yk_adam_create(&optimizer, model, NULL));

    yk_loader *loader = open_loader(training, YK_SPLIT_TRAIN, world, model);
    options.group = world;
    options.ddp = ddp;
    options.validation = open_loader(validation, YK_SPLIT_TEST, world, model);
    options.stop_on_signals = true;
    YK_CHECK(yk_trainer_create(&trainer, model, optimizer, loader, &options));
    YK_CHECK(yk_trainer_resume_latest(trainer, NULL));
    YK_CHECK(yk_trainer_fit(trainer));
    const yk_training_state at = *yk_trainer_state(trainer);
    if (yk_group_rank(world) == 0)
        printf("After step %d: validation accuracy %.2f %%\n", (int)at.step, 100 * at.val_accuracy);

    yk_trainer_destroy(trainer);
    yk_optimizer_destroy(optimizer);
    yk_ddp_destroy(ddp);
    yk_model_destroy(model);
    yk_loader_destroy(options.validation);
    yk_loader_destroy(loader);
    yk_dataset_destroy(validation);
    yk_dataset_destroy(training);
    yk_group_destroy(world);
}

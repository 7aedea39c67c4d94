/*
 * The shortest complete training program: a yk_trainer evaluates, saves, stops on signals and
 * resumes from the newest checkpoint, on one process or on as many as a launcher has started.
 *
 *     ./trainer                      one process; again: resumes
 *     yoke run -n 2 -- ./trainer     two processes
 *
 * It takes no options; checkpoints go to the folder "run".
 */
#include <yoke/yoke.h>

static yk_loader *open_loader(const yk_dataset *dataset, yk_group *world, bool training)
{
    yk_loader *loader;
    yk_loader_options options = YK_LOADER_OPTIONS_INIT;
    options.group = world;
    options.batch_size = 100 / yk_group_size(world);
    options.shuffle = training;
    options.exact = !training; /* each sample once, so that the accuracy is exact */
    options.transform = yk_cifar10_normalize;
    YK_CHECK(yk_loader_create(&loader, dataset, &options));
    return loader;
}

int main(void)
{
    yk_group *world;
    yk_dataset *train_set, *test_set;
    yk_model *model;
    yk_ddp *ddp;
    yk_optimizer *optimizer;
    yk_trainer *trainer;
    YK_CHECK(yk_stop_prepare());
    YK_CHECK(yk_group_init(&world, NULL));
    YK_CHECK(yk_synthetic_create(&train_set, YK_SPLIT_TRAIN, NULL));
    YK_CHECK(yk_synthetic_create(&test_set, YK_SPLIT_TEST, NULL));
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 32, 32});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_model_options modelling = YK_MODEL_OPTIONS_INIT;
    modelling.logits = yk_mlp(images, 10);
    YK_CHECK(yk_model_create(&model, yk_cross_entropy(modelling.logits, labels, NULL), &modelling));
    YK_CHECK(yk_ddp_create(&ddp, model, world, NULL));
    YK_CHECK(yk_adam_create(&optimizer, model, NULL));

    yk_loader *loader = open_loader(train_set, world, true);
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.group = world;
    options.ddp = ddp;
    options.validation = open_loader(test_set, world, false);
    options.epochs = 3;
    options.stop_on_signals = true;
    options.output = "run";
    YK_CHECK(yk_trainer_create(&trainer, model, optimizer, loader, &options));
    YK_CHECK(yk_trainer_resume_latest(trainer, NULL));
    YK_CHECK(yk_trainer_fit(trainer));
    const yk_training_state *state = yk_trainer_state(trainer);
    if (yk_group_rank(world) == 0)
        printf("After step %lld: validation accuracy %.2f %%\n", (long long)state->step,
               100 * state->val_accuracy);

    yk_trainer_destroy(trainer);
    yk_optimizer_destroy(optimizer);
    yk_ddp_destroy(ddp);
    yk_model_destroy(model);
    yk_loader_destroy(options.validation);
    yk_loader_destroy(loader);
    yk_dataset_destroy(test_set);
    yk_dataset_destroy(train_set);
    yk_group_destroy(world);
    return 0;
}

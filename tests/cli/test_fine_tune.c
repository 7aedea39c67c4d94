/* Fine-tuning as a user does it: another head, frozen parts, parts with their own rates. */
#define _GNU_SOURCE
#include "mlp.h"
#include "train_job.h"

#include "harness.h"

/* Weights of the mlp for so many classes, as a file. */
static const char *weights_for(int64_t classes, uint64_t seed)
{
    static char path[256];
    yk_model *model;
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 32, 32});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *loss = yk_cross_entropy(yk_mlp(images, classes), labels, NULL);
    assert_ok(yk_model_create(&model, loss,
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.seed = seed)));
    snprintf(path, sizeof path, "%s/%d.pth", yk_test_directory(), (int)classes);
    assert_ok(yk_model_save(model, path));
    yk_model_destroy(model);
    return path;
}

static const char *with_weights(const char *path, const char *options)
{
    static char text[512];
    snprintf(text, sizeof text, "--max-steps 2 --checkpoint %s %s", path, options);
    return text;
}

YK_TEST(a_head_for_other_classes_is_replaced)
{
    assert_int_equal(train("a", with_weights(weights_for(7, 1), "")), 0);
    assert_contains(unwrapped(), "Loaded 2 tensors from ");
    assert_contains(unwrapped(), "the last layer starts from new weights: differently shaped "
                                 "fc2.weight: (7, 256) in the file but (10, 256) in the model");
    assert_int_equal(train("b", with_weights(weights_for(10, 1), "")), 0);
    assert_null(strstr(job.output, "the last layer starts"));
    assert_int_equal(train("c", with_weights(path_of("b", ""), "")), 0); /* the run's newest */
}

YK_TEST(other_differences_are_refused)
{
    assert_int_equal(train("a", with_weights(weights_for(10, 1), "--arch resnet9")), 1);
    assert_contains(job.output, "holds weights of mlp, not of resnet9: name it with --arch mlp");
}

/* Whether the first layer of a run's checkpoint is that of the file. */
static bool first_layer_is(const char *run, const char *file)
{
    yk_tensor_file *one, *other;
    double a, b;
    char path[256];
    snprintf(path, sizeof path, "%s", path_of(run, "model.pth"));
    assert_ok(yk_tensor_file_open(&one, path));
    assert_ok(yk_tensor_file_open(&other, file));
    assert_ok(yk_tensor_file_norm(one, 0, &a));
    assert_ok(yk_tensor_file_norm(other, 0, &b));
    yk_tensor_file_close(one);
    yk_tensor_file_close(other);
    return a == b;
}

YK_TEST(frozen_layers_stay_as_they_are)
{
    const char *file = weights_for(10, 1);
    assert_int_equal(train("a", with_weights(file, "--freeze '*,!fc2.*' --nproc 2")), 0);
    assert_contains(unwrapped(), "frozen 786688 in 2 tensors (--freeze *,!fc2.*)");
    assert_true(first_layer_is("a", file));
    assert_int_equal(train("b", with_weights(file, "--nproc 2")), 0);
    assert_false(first_layer_is("b", file));
    assert_int_equal(train("a", "--max-steps 3 --resume auto"), 0);
    assert_contains(unwrapped(), "frozen 786688 in 2 tensors");
    assert_true(first_layer_is("a", file));
}

YK_TEST(patterns_must_match_and_leave_something)
{
    assert_int_equal(train("a", "--max-steps 1 --nproc 2 --freeze 'head.*'"), 2);
    assert_contains(unwrapped(), "yoke train: --freeze head.*: no parameter has a name like "
                                 "\"head.*\"; there are fc1.*, fc2.*");
    assert_null(strstr(job.output, "rank"));
    assert_int_equal(train("b", "--max-steps 1 --freeze '*'"), 1);
    assert_contains(unwrapped(), "--freeze * leaves no parameter to train");
}

/* Whatever the images, which are not known yet when patterns are looked at. */
YK_TEST(names_of_all_networks_are_known)
{
    const char *name;
    for (size_t i = 0; (name = yk_arch_name(i)); i++) {
        char options[256];
        snprintf(options, sizeof options, "--arch %s --max-steps 1 --freeze 'none.*'", name);
        assert_int_equal(train(name, options), 2);
        assert_contains(unwrapped(), "no parameter has a name like \"none.*\"; there are ");
        assert_null(strstr(job.output, "there are none"));
    }
}

YK_TEST(groups_have_their_own_rates)
{
    const char *file = weights_for(10, 1);
    assert_int_equal(train("a", with_weights(file, "--lr-group 'fc1.*=0' --weight-decay 0")), 0);
    assert_true(first_layer_is("a", file));
    assert_int_equal(train("a", "--max-steps 3 --resume auto"), 0);
    assert_true(first_layer_is("a", file));
    assert_int_equal(train("b", with_weights(file, "--lr-group 'fc1.*=0.1,fc2.bias=1'")), 0);
    assert_false(first_layer_is("b", file));
}

YK_TEST(groups_are_checked)
{
    assert_int_equal(train("a", "--lr-group fc1"), 2);
    assert_contains(job.output, "--lr-group: expected PATTERN=RATE[:EPOCHS],...");
    assert_int_equal(train("a", "--lr-group 'fc1.*=fast'"), 2);
    assert_int_equal(train("a", "--max-steps 1 --lr-group 'fc1.*=1,head.*=0.1'"), 2);
    assert_contains(unwrapped(), "--lr-group fc1.*=1,head.*=0.1: no parameter has a name like "
                                 "\"head.*\"; there are fc1.*, fc2.*");
    assert_int_equal(train("a", "--max-steps 1 --lr-group 'fc2.weights=0.1'"), 2);
    assert_contains(unwrapped(), "there are fc2.weight, fc2.bias");
    assert_int_equal(train("a", "--max-steps 1 --lr-group 'fc2.*=0.1,fc2.bias=0.2'"), 1);
    assert_contains(unwrapped(), "--lr-group fc2.bias: the patterns before it");
    assert_int_equal(train("a", "--max-steps 1 --lr-group 'fc2.*=0.1,fc2.*=0.2'"), 1);
    assert_contains(unwrapped(), "--lr-group fc2.*: the patterns before it");
    assert_int_equal(train("a", "--max-steps 1 --lr-group '*=0.1'"), 1);
    assert_contains(unwrapped(), "--lr-group *=0.1: the patterns leave no parameter to --lr");
    assert_int_equal(train("a", "--max-steps 1 --freeze 'fc1.*' --lr-group 'fc1.*=0.1'"), 1);
    assert_contains(unwrapped(), "--lr-group fc1.*: all that it matches is frozen");
}

/* The hyperparameters of the optimizer's groups in a run's checkpoint, as `yoke checkpoint show`
 * prints them: name=value ... for each group. */
static const char *groups_of(const char *run, const char *file)
{
    static char text[4096];
    assert_int_equal(yk_test_command(text, sizeof text,
                                     "%s checkpoint show %s | grep -E "
                                     "'param_groups.*(\\.lr|weight_decay|params|initial_lr)' | "
                                     "sed 's/.*param_groups//' | tr -s ' \n' ' '",
                                     test_program(), path_of(run, file)),
                     0);
    return text;
}

YK_TEST(groups_with_and_without_weight_decay)
{
    const char *options = "--lr-group 'fc2.*=0.01,fc1.bias=0.003' --no-decay-norms "
                          "--weight-decay 0.1 --max-steps 1";
    assert_int_equal(train("a", options), 0);
    assert_contains(unwrapped(), "weight decay 0.1, not on norms and biases");
    assert_contains(unwrapped(), "rates fc2.*=0.01,fc1.bias=0.003 (--lr-group)");
    const char *groups = groups_of("a", "checkpoint-step-1.pth");
    assert_contains(groups, "[0].lr 0.02 ");
    assert_contains(groups, "[0].weight_decay 0.1 ");
    assert_contains(groups, "[1].lr 0.01 "); /* fc2.weight */
    assert_contains(groups, "[1].weight_decay 0.1 ");
    assert_contains(groups, "[2].lr 0.01 "); /* fc2.bias */
    assert_contains(groups, "[2].weight_decay 0 ");
    assert_contains(groups, "[3].lr 0.003 "); /* fc1.bias */
    assert_contains(groups, "[3].weight_decay 0 ");
    assert_null(strstr(groups, "[4]"));
    assert_int_equal(train("a", "--max-steps 2 --weight-decay 0.2 --resume auto "
                                "--lr-group 'fc2.*=0.05,fc1.bias=0.003'"),
                     0);
    groups = groups_of("a", "checkpoint-step-2.pth");
    assert_contains(groups, "[1].lr 0.05 ");
    assert_contains(groups, "[1].weight_decay 0.2 ");
    assert_contains(groups, "[2].weight_decay 0 ");
    assert_int_equal(train("a", "--max-steps 3 --resume auto --lr-group 'fc1.*=0.05'"), 1);
    assert_contains(unwrapped(), "a resumed run can change rates, but not patterns");
}

YK_TEST(groups_have_their_own_peaks)
{
    char command[512];
    snprintf(command, sizeof command,
             "train --data synthetic --arch mlp --threads 1 --output %s/a --schedule onecycle "
             "--max-lr 0.1 --div-factor 4 --max-steps 1 --lr-group 'fc1.*=0.02'",
             yk_test_directory());
    test_job_start(&job, command);
    assert_int_equal(test_job_wait(&job, 100), 0);
    assert_contains(unwrapped(), "learning rate 0.1 (--max-lr, not scaled)");
    const char *groups = groups_of("a", "checkpoint-step-1.pth");
    assert_contains(groups, "[0].lr 0.025 ");
    assert_contains(groups, "[1].lr 0.005 ");
}

/* Few images are left for validation, which would take most of the time. */
#define MUON "--data synthetic --val-split 0.02 --arch airbench94 --batch-size 32 --optimizer muon "

static int train_airbench(const char *options)
{
    char command[512];
    snprintf(command, sizeof command, "train --output %s/a %s", yk_test_directory(), options);
    test_job_start(&job, command);
    return test_job_wait(&job, 100);
}

YK_TEST(the_filters_of_muon_have_their_own_peak)
{
    assert_int_equal(train_airbench(MUON "--schedule onecycle --max-lr 0.1 --div-factor 4 "
                                         "--muon-lr 0.02 --max-steps 1"),
                     0);
    const char *groups = groups_of("a", "checkpoint-step-1.pth");
    assert_contains(groups, "[0].lr 0.025 ");
    assert_contains(groups, "[1].lr 0.005 ");
}

YK_TEST(independent_decay_follows_the_peak)
{
    assert_int_equal(train_airbench("--data synthetic --arch mlp --schedule onecycle --max-lr 0.02 "
                                    "--independent-decay --weight-decay 1e-3 --max-steps 1"),
                     0);
    assert_contains(unwrapped(),
                    ", independent weight decay 0.001 (the fraction of a weight that a "
                    "step removes at the peak of the schedule)");
    assert_contains(groups_of("a", "checkpoint-step-1.pth"), "[0].weight_decay 0.05 ");
}

YK_TEST(filters_decay_again_once_they_are_not_normalised)
{
    assert_int_equal(train_airbench(MUON "--muon-normalize --max-steps 1"), 0);
    assert_contains(groups_of("a", "checkpoint-step-1.pth"), "[1].weight_decay 0 ");
    assert_int_equal(train_airbench("--resume auto --no-muon-normalize --max-steps 2"), 0);
    assert_contains(groups_of("a", "checkpoint-step-2.pth"), "[1].weight_decay 0.0005 ");
    assert_int_equal(train_airbench("--resume auto --muon-normalize --max-steps 3"), 0);
    assert_contains(groups_of("a", "checkpoint-step-3.pth"), "[1].weight_decay 0 ");
}

/* ---- --classes ------------------------------------------------------------------------------- */

YK_TEST(a_network_may_have_more_classes_than_the_data)
{
    char said[8192];
    assert_int_equal(train("a", with_weights(weights_for(10, 1), "--classes 12")), 0);
    assert_contains(unwrapped(), "the last layer starts from new weights: differently shaped "
                                 "fc2.weight: (10, 256) in the file but (12, 256) in the model");
    assert_int_equal(yk_test_command(said, sizeof said, "%s evaluate --per-class --confusion %s/a",
                                     test_program(), yk_test_directory()),
                     0);
    assert_contains(said, "of 1000), top-5 ");
    assert_contains(said, "dots ");
    assert_int_equal(yk_test_command(said, sizeof said, "%s checkpoint show %s", test_program(),
                                     path_of("a", "model.pth")),
                     0);
    assert_contains(said, "(12, 256)");
    assert_int_equal(train("a", "--max-steps 3 --resume auto"), 0);
}

YK_TEST(a_network_needs_the_classes_of_the_data)
{
    assert_int_equal(train("a", "--max-steps 1 --classes 9"), 1);
    assert_contains(unwrapped(), "--classes 9: synthetic has 10 classes, and the network needs at "
                                 "least as many");
    assert_int_equal(train("b", "--max-steps 1 --classes 11 --mixup 0.2"), 0);
}

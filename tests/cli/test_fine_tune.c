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
                                 "fc2.weight (7, 256) is (10, 256) in the model");
    assert_int_equal(train("b", with_weights(weights_for(10, 1), "")), 0);
    assert_null(strstr(job.output, "the last layer starts"));
}

YK_TEST(other_differences_are_refused)
{
    assert_int_equal(train("a", with_weights(weights_for(10, 1), "--arch resnet9")), 1);
    assert_contains(job.output, "does not fit the model: missing prep.conv.weight");
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
    assert_int_equal(train("a", "--max-steps 1 --freeze 'head.*'"), 1);
    assert_contains(job.output, "no parameter has a name like \"head.*\"");
    assert_int_equal(train("b", "--max-steps 1 --freeze '*'"), 1);
    assert_contains(unwrapped(), "--freeze * leaves no parameter to train");
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
    assert_contains(job.output, "--lr-group: expected PATTERN=RATE,...");
    assert_int_equal(train("a", "--lr-group 'fc1.*=fast'"), 2);
    assert_int_equal(train("a", "--lr-group 'fc1.*=0.1' --no-decay-norms"), 2);
    assert_contains(unwrapped(), "cannot be combined with --no-decay-norms");
    assert_int_equal(train("a", "--max-steps 1 --lr-group 'head.*=0.1'"), 1);
    assert_contains(job.output, "a parameter group needs some of the first group's parameters");
}

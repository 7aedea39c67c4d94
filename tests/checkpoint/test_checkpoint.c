/* Checkpoints there and back, what is refused, and that a refusal changes nothing. */
#define _GNU_SOURCE
#include "harness.h"
#include "same.h"
#include "small_model.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const yk_training_state sample = {.arch = "resnet18-cifar",
                                         .epoch = 3,
                                         .step = 1173,
                                         .epoch_batch = 17,
                                         .batch_size = 128,
                                         .world_size = 2,
                                         .seed = 0xfedcba9876543210u,
                                         .lr = 0.1,
                                         .val_accuracy = 0.625,
                                         .threads = 3,
                                         .virtual_ranks = 4,
                                         .epoch_loss = 0x1.23456789abcdep+9,
                                         .epoch_samples = 2176,
                                         .program = "lr=0.1\ndata=x y\nnesterov=true\nautocast=\n",
                                         .dataset = "digits",
                                         .dataset_size = 1797,
                                         .has_schedule = true,
                                         .schedule = {.kind = YK_SCHEDULE_MULTISTEP,
                                                      .per_step = true,
                                                      .warmup = 3,
                                                      .warmup_factor = 0.5,
                                                      .gamma = 0.25,
                                                      .milestones = {4, 9},
                                                      .milestone_count = 2,
                                                      .max_lr = YK_LR_INITIAL,
                                                      .pct_start = 0.4,
                                                      .div_factor = 25,
                                                      .cycle_momentum = true}};

static void assert_sample(const yk_training_state *state)
{
    assert_string_equal(state->arch, sample.arch);
    assert_int_equal(state->epoch, sample.epoch);
    assert_int_equal(state->step, sample.step);
    assert_int_equal(state->epoch_batch, sample.epoch_batch);
    assert_int_equal(state->batch_size, sample.batch_size);
    assert_int_equal(state->world_size, sample.world_size);
    assert_true(state->seed == sample.seed);
    assert_true(state->lr == sample.lr);
    assert_true(state->val_accuracy == sample.val_accuracy);
    assert_int_equal(state->threads, sample.threads);
    assert_int_equal(state->virtual_ranks, sample.virtual_ranks);
    assert_true(state->epoch_loss == sample.epoch_loss);
    assert_true(state->epoch_samples == sample.epoch_samples);
    assert_string_equal(state->program, sample.program);
    assert_string_equal(state->dataset, sample.dataset);
    assert_int_equal(state->dataset_size, sample.dataset_size);
    assert_true(state->has_schedule);
    assert_memory_equal(&state->schedule, &sample.schedule, sizeof sample.schedule);
}

YK_TEST(sgd_there_and_back)
{
    yk_model *model = make_model(1, 10), *other = make_model(2, 10);
    yk_optimizer *optimizer = make_sgd(model), *fresh;
    yk_training_state training = {.epoch = -1};
    train(model, optimizer, 3);
    assert_ok(yk_sgd_create(
        &fresh, other, YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 7, o.momentum = 0.5)));
    assert_ok(yk_checkpoint_save(yk_test_path("a.pth"), model, optimizer, &sample));
    assert_ok(yk_checkpoint_load(yk_test_path("a.pth"), other, fresh, &training));
    assert_same_values(model, other);
    assert_same_optimizer(optimizer, fresh);
    assert_sample(&training);
    training = (yk_training_state){0};
    assert_ok(yk_checkpoint_read_state(yk_test_path("a.pth"), &training));
    assert_sample(&training);
    /* The same again is the same file, byte for byte. */
    char output[256];
    assert_ok(yk_checkpoint_save(yk_test_path("b.pth"), other, fresh, &training));
    assert_int_equal(yk_test_command(output, sizeof output, "cmp %s/a.pth %s/b.pth",
                                     yk_test_directory(), yk_test_directory()),
                     0);
    yk_optimizer_destroy(optimizer);
    yk_optimizer_destroy(fresh);
    yk_model_destroy(model);
    yk_model_destroy(other);
}

YK_TEST(before_the_first_step)
{
    yk_model *model = make_model(1, 10);
    yk_optimizer *optimizer = make_sgd(model), *used = make_sgd(model);
    assert_ok(yk_checkpoint_save(yk_test_path("a.pth"), model, optimizer, &sample));
    train(model, used, 2);
    assert_ok(yk_checkpoint_load(yk_test_path("a.pth"), model, used, NULL));
    assert_same_optimizer(optimizer, used);
    yk_optimizer_destroy(optimizer);
    yk_optimizer_destroy(used);
    yk_model_destroy(model);
}

YK_TEST(a_state_dict_alone)
{
    yk_model *model = make_model(1, 10), *other = make_model(2, 10);
    yk_optimizer *optimizer = make_sgd(other);
    yk_training_state training;
    assert_ok(yk_model_save(model, yk_test_path("a.pth")));
    assert_ok(yk_model_load(other, yk_test_path("a.pth")));
    assert_same_values(model, other);
    assert_status(YK_ERROR_NOT_FOUND, yk_checkpoint_read_state(yk_test_path("a.pth"), &training));
    assert_status(YK_ERROR_NOT_FOUND,
                  yk_checkpoint_load(yk_test_path("a.pth"), other, optimizer, NULL));
    assert_contains(yk_last_error(), "no optimizer state");
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
    yk_model_destroy(other);
}

YK_TEST(another_shape_is_named_and_nothing_changes)
{
    yk_model *model = make_model(1, 10), *other = make_model(2, 7), *copy = make_model(2, 7);
    assert_ok(yk_model_save(model, yk_test_path("a.pth")));
    assert_status(YK_ERROR_MISMATCH, yk_model_load(other, yk_test_path("a.pth")));
    assert_contains(yk_last_error(), "a.pth");
    assert_contains(yk_last_error(), "fc.weight: (10, 4) in the file but (7, 4) in the model");
    assert_contains(yk_last_error(), "fc.bias: (10) in the file but (7) in the model");
    assert_same_values(other, copy);
    yk_model_destroy(model);
    yk_model_destroy(other);
    yk_model_destroy(copy);
}

YK_TEST(missing_and_unexpected_names_are_listed)
{
    yk_model *model = make_model(1, 10);
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 8, 8});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_model *mlp;
    assert_ok(yk_model_create(&mlp, yk_cross_entropy(yk_mlp(x, 10), labels, NULL),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = "ref")));
    assert_ok(yk_model_save(model, yk_test_path("a.pth")));
    assert_status(YK_ERROR_MISMATCH, yk_model_load(mlp, yk_test_path("a.pth")));
    assert_contains(yk_last_error(), "missing fc1.weight, fc1.bias, fc2.weight and 1 more");
    assert_contains(yk_last_error(), "unexpected conv1.weight, bn1.weight, bn1.bias and ");
    yk_model_destroy(mlp);
    yk_model_destroy(model);
}

/* A disk that fills up: the old file stays, the temporary one goes, the error says why. */
YK_TEST(a_failed_save_leaves_the_old_file)
{
    yk_model *model = make_model(1, 10), *other = make_model(2, 10);
    struct rlimit limit;
    assert_ok(yk_model_save(model, yk_test_path("a.pth")));
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &limit);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = 1024;
    setrlimit(RLIMIT_FSIZE, &limit);
    yk_status status = yk_model_save(other, yk_test_path("a.pth"));
    limit.rlim_cur = before;
    setrlimit(RLIMIT_FSIZE, &limit);
    assert_int_equal(status, YK_ERROR_IO);
    assert_contains(yk_last_error(), "File too large");
    assert_int_not_equal(access(yk_test_path("a.pth.tmp"), F_OK), 0);
    assert_ok(yk_model_load(other, yk_test_path("a.pth")));
    assert_same_values(model, other);
    yk_model_destroy(model);
    yk_model_destroy(other);
}

YK_TEST(errors_of_paths)
{
    yk_model *model = make_model(1, 10);
    assert_status(YK_ERROR_NOT_FOUND, yk_model_save(model, yk_test_path("no/such/folder.pth")));
    assert_contains(yk_last_error(), "no/such/folder.pth.tmp");
    assert_status(YK_ERROR_NOT_FOUND, yk_model_load(model, yk_test_path("absent.pth")));
    assert_contains(yk_last_error(), "absent.pth");
    yk_model_destroy(model);
}

/* ---- going on -------------------------------------------------------------------------------- */

static yk_model *make_dropout_model(uint64_t seed)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 8, 8});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    x = yk_relu(yk_nn_batch_norm(yk_nn_conv2d(x, "conv1", 4, 3, NULL), "bn1"));
    x = yk_nn_linear(yk_dropout(yk_flatten(x), 0.4), "fc", 5);
    yk_model *model;
    assert_ok(yk_model_create(
        &model, yk_cross_entropy(x, labels, NULL),
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.seed = seed, o.threads = 1)));
    return model;
}

/* Forward and backward of a step. */
static void run_passes(yk_model *model, int step)
{
    static float images[4 * 3 * 8 * 8];
    static int32_t labels[4];
    static const char *const names[] = {"images", "labels"};
    for (int i = 0; i < 4 * 3 * 8 * 8; i++)
        images[i] = (float)((i * 37 + step * 101) % 97) / 97;
    for (int i = 0; i < 4; i++)
        labels[i] = (i + step) % 5;
    yk_tensor tensors[] = {{.data = images, .dtype = YK_F32, .ndim = 4, .dims = {4, 3, 8, 8}},
                           {.data = labels, .dtype = YK_I32, .ndim = 1, .dims = {4}}};
    yk_batch batch = {.size = 4, .count = 2, .names = names, .tensors = tensors};
    assert_ok(yk_model_forward(model, &batch));
    assert_ok(yk_model_backward(model));
}

static void run_steps(yk_model *model, yk_optimizer *optimizer, int first, int last)
{
    for (int step = first; step < last; step++) {
        run_passes(model, step);
        assert_ok(yk_optimizer_step(optimizer));
    }
}

/* Weights, running statistics, momentum, and dropout's next draws. */
YK_TEST(promise_15_dropout_and_batch_norm_go_on)
{
    enum { STEPS = 9 };
    yk_model *whole = make_dropout_model(1);
    yk_optimizer *whole_optimizer = make_sgd(whole);
    run_steps(whole, whole_optimizer, 0, STEPS);
    for (int stop = 1; stop < STEPS; stop += 3) {
        yk_training_state training;
        yk_model *first = make_dropout_model(1), *second = make_dropout_model(1);
        yk_optimizer *first_optimizer = make_sgd(first), *second_optimizer = make_sgd(second);
        run_steps(first, first_optimizer, 0, stop);
        assert_ok(yk_checkpoint_save(yk_test_path("a.pth"), first, first_optimizer, &sample));
        assert_ok(yk_checkpoint_load(yk_test_path("a.pth"), second, second_optimizer, &training));
        run_steps(second, second_optimizer, stop, STEPS);
        assert_same_values(whole, second);
        assert_same_optimizer(whole_optimizer, second_optimizer);
        yk_optimizer_destroy(first_optimizer);
        yk_optimizer_destroy(second_optimizer);
        yk_model_destroy(first);
        yk_model_destroy(second);
    }
    yk_optimizer_destroy(whole_optimizer);
    yk_model_destroy(whole);
}

/* They are those of the weights that the loaded ones have replaced. */
YK_TEST(loading_forgets_the_gradients)
{
    yk_model *model = make_dropout_model(1), *fresh = make_dropout_model(1);
    yk_optimizer *optimizer = make_sgd(model), *other = make_sgd(fresh);
    yk_training_state training;
    assert_ok(yk_checkpoint_save(yk_test_path("a.pth"), model, optimizer, &sample));
    run_steps(model, optimizer, 0, 1);
    run_passes(model, 1);
    assert_ok(yk_checkpoint_load(yk_test_path("a.pth"), model, optimizer, &training));
    run_steps(model, optimizer, 0, 1);
    run_steps(fresh, other, 0, 1);
    assert_same_values(model, fresh);
    yk_optimizer_destroy(optimizer);
    yk_optimizer_destroy(other);
    yk_model_destroy(model);
    yk_model_destroy(fresh);
}

YK_TEST(an_optimizer_of_another_model_is_refused)
{
    yk_model *model = make_model(1, 3), *other = make_model(2, 3);
    yk_optimizer *optimizer = make_sgd(model);
    const char *path = yk_test_path("mine.pth");
    assert_ok(yk_checkpoint_save(path, model, optimizer, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_checkpoint_save(yk_test_path("mixed.pth"), other, optimizer, NULL));
    assert_contains(yk_last_error(), "the optimizer belongs to another model");
    assert_int_equal(access(yk_test_path("mixed.pth"), F_OK), -1);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_checkpoint_load(path, other, optimizer, NULL));
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(other);
    yk_model_destroy(model);
}

YK_TEST(a_state_that_could_not_be_read_again_is_not_written)
{
    yk_model *model = make_model(1, 3);
    const char *path = yk_test_path("state.pth");
    yk_training_state training = sample;
    memset(training.arch, 'a', sizeof training.arch);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_checkpoint_save(path, model, NULL, &training));
    assert_contains(yk_last_error(), "arch must be shorter than 32 bytes");
    training = sample;
    training.epoch = -1;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_checkpoint_save(path, model, NULL, &training));
    assert_contains(yk_last_error(), "epoch is -1");
    assert_int_equal(access(path, F_OK), -1);
    assert_ok(yk_checkpoint_save(path, model, NULL, &sample));
    assert_ok(yk_checkpoint_read_state(path, &training));
    yk_model_destroy(model);
}

/* Whether the file, whose members are stored, holds these bytes. */
static bool file_holds(const char *path, const char *text)
{
    static char bytes[1 << 16];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    return memmem(bytes, size, text, strlen(text)) != NULL;
}

YK_TEST(bytes_that_are_not_utf8_come_back_and_are_python_s_surrogates_in_the_file)
{
    yk_model *model = make_model(1, 3);
    const char *path = yk_test_path("bytes.pth");
    yk_training_state found, training = sample;
    strcpy(training.arch, "caf\xe9");
    strcpy(training.dataset, "\u00e9\xff\xed\xb2\x80\x80");
    strcpy(training.program, "data=/caf\xe9/\u00e9\nlast\xf0=\xe2\x82\n");
    assert_ok(yk_checkpoint_save(path, model, NULL, &training));
    assert_ok(yk_checkpoint_read_state(path, &found));
    assert_string_equal(found.arch, training.arch);
    assert_string_equal(found.dataset, training.dataset);
    assert_string_equal(found.program, training.program);
    assert_true(file_holds(path, "/caf\xed\xb3\xa9/\u00e9"));
    assert_false(file_holds(path, "caf\xe9"));
    memset(training.dataset, 0xff, sizeof training.dataset - 1);
    assert_ok(yk_checkpoint_save(path, model, NULL, &training));
    assert_ok(yk_checkpoint_read_state(path, &found));
    assert_string_equal(found.dataset, training.dataset);
    yk_model_destroy(model);
}

/* Checkpoints that a yoke of file format 1 has written, in which networks had other names. */
static void assert_arch_was(const char *was, const char *is)
{
    char path[PATH_MAX];
    yk_training_state found;
    snprintf(path, sizeof path, "%s/tests/checkpoint/earlier/%s.pth", getenv("YOKE_SOURCE"), was);
    assert_ok(yk_checkpoint_read_state(path, &found));
    assert_string_equal(found.arch, is);
    assert_int_equal(found.epoch, 3);
    yk_tensor_file *file;
    const yk_model_info *info;
    assert_ok(yk_tensor_file_open(&file, path));
    assert_ok(yk_tensor_file_info(file, &info));
    assert_string_equal(info->arch, is);
    yk_tensor_file_close(file);
}

YK_TEST(checkpoints_of_format_1_keep_their_network)
{
    assert_arch_was("resnet18", "resnet18-cifar");
    assert_arch_was("resnet18-imagenet", "resnet18");
}

YK_TEST(renamed_networks_stay_when_saved_again)
{
    yk_model *model = make_model(1, 3);
    yk_training_state found;
    const char *path = yk_test_path("again.pth");
    assert_ok(yk_checkpoint_save(path, model, NULL, &(yk_training_state){.arch = "resnet18"}));
    assert_ok(yk_checkpoint_read_state(path, &found));
    assert_string_equal(found.arch, "resnet18");
    yk_model_destroy(model);
}

/* ---- files that fit in part ------------------------------------------------------------------ */

static float first_of(const yk_model *model, const char *name)
{
    for (size_t i = 0; i < yk_model_parameter_count(model); i++)
        if (strcmp(yk_model_parameter(model, i).name, name) == 0)
            return ((const float *)yk_model_parameter(model, i).value.data)[0];
    fail_msg("no parameter %s", name);
    return 0;
}

YK_TEST(a_head_for_other_classes_keeps_its_first_values)
{
    yk_model *from = make_model(1, 3), *to = make_model(2, 5);
    yk_load_report report;
    const char *path = yk_test_path("three.pth");
    assert_ok(yk_model_save(from, path));
    float head = first_of(to, "fc.weight"), body = first_of(to, "conv1.weight");
    assert_status(YK_ERROR_MISMATCH, yk_model_load_with(to, path, NULL, &report));
    assert_contains(yk_last_error(), "fc.weight: (3, 4) in the file but (5, 4) in the model");
    assert_true(first_of(to, "conv1.weight") == body);
    assert_ok(yk_model_load_with(
        to, path, YK_WITH(yk_load_options, YK_LOAD_OPTIONS_INIT, o.allow_reshaped = "fc.*"),
        &report));
    assert_status(YK_ERROR_MISMATCH,
                  yk_model_load_with(
                      to, path,
                      YK_WITH(yk_load_options, YK_LOAD_OPTIONS_INIT, o.allow_reshaped = "*.weight"),
                      NULL));
    assert_contains(yk_last_error(), "differently shaped fc.bias: (3) in the file but (5)");
    assert_int_equal(report.loaded, 12); /* two convolutions, two norms of five tensors */
    assert_int_equal(report.reshaped, 2);
    assert_int_equal(report.missing + report.unexpected, 0);
    assert_contains(report.text,
                    "differently shaped fc.weight: (3, 4) in the file but (5, 4) in the model");
    assert_true(first_of(to, "fc.weight") == head);
    assert_true(first_of(to, "conv1.weight") == first_of(from, "conv1.weight"));
    yk_model_destroy(from);
    yk_model_destroy(to);
}

YK_TEST(a_pattern_selects_what_is_loaded)
{
    yk_model *from = make_model(1, 3), *to = make_model(2, 3);
    yk_load_report report;
    const char *path = yk_test_path("all.pth");
    assert_ok(yk_model_save(from, path));
    float conv1 = first_of(to, "conv1.weight");
    assert_ok(yk_model_load_with(
        to, path, YK_WITH(yk_load_options, YK_LOAD_OPTIONS_INIT, o.include = "layer1.*"), &report));
    assert_int_equal(report.loaded, 6);
    assert_string_equal(report.text, "");
    assert_true(first_of(to, "conv1.weight") == conv1);
    assert_true(first_of(to, "layer1.conv2.weight") == first_of(from, "layer1.conv2.weight"));
    assert_status(
        YK_ERROR_MISMATCH,
        yk_model_load_with(to, path,
                           YK_WITH(yk_load_options, YK_LOAD_OPTIONS_INIT, o.include = "layer9.*"),
                           NULL));
    assert_contains(yk_last_error(), "no tensor has a name that was asked for");
    yk_model_destroy(from);
    yk_model_destroy(to);
}

YK_TEST(what_is_missing_or_unexpected_may_be_allowed)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, 4});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *logits = yk_nn_linear(yk_nn_linear(x, "neck", 4), "fc", 3);
    yk_model *from = make_model(1, 3), *to;
    yk_load_report report;
    const char *path = yk_test_path("other.pth");
    assert_ok(yk_model_create(&to, yk_cross_entropy(logits, labels, NULL), NULL));
    assert_ok(yk_model_save(from, path));
    assert_status(
        YK_ERROR_MISMATCH,
        yk_model_load_with(to, path,
                           YK_WITH(yk_load_options, YK_LOAD_OPTIONS_INIT, o.allow_missing = true),
                           NULL));
    assert_contains(yk_last_error(), "unexpected conv1.weight");
    assert_ok(yk_model_load_with(to, path,
                                 YK_WITH(yk_load_options, YK_LOAD_OPTIONS_INIT,
                                         o.allow_missing = true, o.allow_unexpected = true),
                                 &report));
    assert_int_equal(report.loaded, 2);
    assert_int_equal(report.missing, 2);
    assert_int_equal(report.unexpected, 12);
    assert_contains(report.text, "missing neck.weight, neck.bias; unexpected conv1.weight");
    assert_true(first_of(to, "fc.weight") == first_of(from, "fc.weight"));
    yk_model_destroy(from);
    yk_model_destroy(to);
}

/* The grad scaler's state in a checkpoint: there and back, absent, and not as it should be. */
#define _GNU_SOURCE
#include "harness.h"

#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/state/scaler_state.h"
#include "checkpoint/state/training_state.h"
#include "checkpoint/tensor_file/pth.h"

static const yk_grad_scaler_state odd = {true, 1234.5, 3, 0.25, 7, 5};

static yk_model *make_model(void)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "images", YK_F32, 2, (int64_t[]){YK_BATCH, 3});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_cross_entropy(yk_nn_linear(x, "fc", 2), labels, NULL),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = "ref")));
    return model;
}

static bool is_odd(const yk_grad_scaler_state *s)
{
    return s->scale == odd.scale && s->growth_factor == odd.growth_factor &&
           s->backoff_factor == odd.backoff_factor && s->growth_interval == odd.growth_interval &&
           s->growth_tracker == odd.growth_tracker;
}

YK_TEST(a_scaler_is_saved_and_found_again)
{
    yk_model *model = make_model();
    yk_training_state training = {.arch = "mlp", .scaler = odd}, found;
    assert_ok(yk_checkpoint_save(yk_test_path("a.pth"), model, NULL, &training));
    assert_ok(yk_checkpoint_read_state(yk_test_path("a.pth"), &found));
    assert_true(is_odd(&found.scaler));
    memset(&found, 0, sizeof found);
    assert_ok(yk_checkpoint_load(yk_test_path("a.pth"), model, NULL, &found));
    assert_true(is_odd(&found.scaler));

    yk_grad_scaler *scaler;
    assert_ok(yk_grad_scaler_create(&scaler, model, NULL));
    assert_ok(yk_grad_scaler_set_state(scaler, &found.scaler));
    yk_grad_scaler_state adopted = yk_grad_scaler_get_state(scaler);
    assert_true(is_odd(&adopted));
    yk_grad_scaler_destroy(scaler);
    yk_model_destroy(model);
}

YK_TEST(a_checkpoint_without_one_leaves_a_scaler_as_it_is)
{
    yk_model *model = make_model();
    yk_training_state training = {.arch = "mlp"}, found;
    yk_grad_scaler *scaler;
    assert_ok(yk_checkpoint_save(yk_test_path("a.pth"), model, NULL, &training));
    memset(&found, 0x55, sizeof found);
    assert_ok(yk_checkpoint_read_state(yk_test_path("a.pth"), &found));
    assert_false(found.scaler.enabled);
    assert_ok(yk_grad_scaler_create(&scaler, model, NULL));
    assert_ok(yk_grad_scaler_set_state(scaler, &found.scaler));
    assert_true(yk_grad_scaler_scale(scaler) == 65536);
    yk_grad_scaler_destroy(scaler);
    yk_model_destroy(model);
}

YK_TEST(impossible_states_are_refused)
{
    static const yk_grad_scaler_state wrong[] = {
        {true, 0, 2, 0.5, 2000, 0},     {true, -1, 2, 0.5, 2000, 0},
        {true, NAN, 2, 0.5, 2000, 0},   {true, INFINITY, 2, 0.5, 2000, 0},
        {true, 65536, 1, 0.5, 2000, 0}, {true, 65536, 2, 1, 2000, 0},
        {true, 65536, 2, 0.5, 0, 0},    {true, 65536, NAN, 0.5, 2000, 0},
        {true, 65536, 2, 0.5, 2000, -1}};
    yk_model *model = make_model();
    yk_grad_scaler *scaler;
    assert_ok(yk_grad_scaler_create(&scaler, model, NULL));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_status(YK_ERROR_INVALID_ARGUMENT, yk_grad_scaler_set_state(scaler, &wrong[i]));
    assert_true(yk_grad_scaler_scale(scaler) == 65536);
    yk_grad_scaler_destroy(scaler);
    yk_model_destroy(model);
}

/* A checkpoint whose "scaler" is {key: 2}, or empty. */
static void write_with(const yk_model *model, const char *key)
{
    yki_pth_writer *writer;
    int fd = open(yk_test_path("a.pth"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    assert_true(fd >= 0);
    assert_ok(yki_pth_writer_create(&writer, fd, yk_test_path("a.pth")));
    yki_pickle_writer *pickle = yki_pth_pickle(writer);
    yki_pickle_dict(pickle);
    yki_pickle_mark(pickle);
    yki_pickle_text(pickle, "scaler");
    yki_pickle_dict(pickle);
    yki_pickle_mark(pickle);
    if (key) {
        yki_pickle_text(pickle, key);
        yki_pickle_int(pickle, 2);
    }
    yki_pickle_setitems(pickle);
    yki_pickle_text(pickle, "yoke");
    yki_training_state_write(pickle, &(yk_training_state){.arch = "mlp"}, model, NULL);
    yki_pickle_setitems(pickle);
    assert_ok(yki_pth_writer_finish(writer));
    close(fd);
}

YK_TEST(what_is_no_scaler_is_refused_by_name)
{
    yk_model *model = make_model();
    yk_training_state training;
    write_with(model, NULL); /* PyTorch's, disabled */
    assert_ok(yk_checkpoint_read_state(yk_test_path("a.pth"), &training));
    assert_false(training.scaler.enabled);
    write_with(model,
               "scale"); /* an integer, as of GradScaler(init_scale=2) before its first step */
    assert_int_not_equal(yk_checkpoint_read_state(yk_test_path("a.pth"), &training), YK_OK);
    assert_contains(yk_last_error(), "the number \"growth_factor\" in \"scaler\"");
    write_with(model, "factor");
    assert_int_not_equal(yk_checkpoint_read_state(yk_test_path("a.pth"), &training), YK_OK);
    assert_contains(yk_last_error(), "the number \"scale\" in \"scaler\"");
    yk_model_destroy(model);
}

/* NULL where a file, a model or a path is required: an error that names it, never a crash. */
#include <string.h>

#include "harness.h"

static yk_model *make_model(void)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, 4});
    yk_value *y = yk_input(graph, "y", YK_F32, 2, (int64_t[]){YK_BATCH, 3});
    yk_model *model;
    assert_ok(
        yk_model_create(&model, yk_mse_loss(yk_nn_linear(x, "fc", 3), y, YK_LOSS_MEAN), NULL));
    return model;
}

static void assert_invalid(yk_status status, const char *words)
{
    assert_status(YK_ERROR_INVALID_ARGUMENT, status);
    assert_contains(yk_last_error(), words);
}

YK_TEST(checkpoints_without_a_model_or_a_path_are_refused)
{
    yk_model *model = make_model();
    yk_training_state training;
    assert_invalid(yk_model_save(NULL, yk_test_path("a.pth")), "model is NULL");
    assert_invalid(yk_model_save(model, NULL), "path is NULL");
    assert_invalid(yk_model_load(NULL, yk_test_path("a.pth")), "model is NULL");
    assert_invalid(yk_model_load(model, NULL), "path is NULL");
    assert_invalid(yk_model_save(model, ""), "the file to write has an empty name");
    assert_invalid(yk_model_load(model, ""), "the file to read has an empty name");
    assert_invalid(yk_model_load_ema(NULL, yk_test_path("a.pth")), "model is NULL");
    assert_invalid(yk_model_load_ema(model, NULL), "path is NULL");
    assert_invalid(yk_checkpoint_save(NULL, model, NULL, NULL), "path is NULL");
    assert_invalid(yk_checkpoint_save(yk_test_path("a.pth"), NULL, NULL, NULL), "model is NULL");
    assert_invalid(yk_checkpoint_load(NULL, model, NULL, NULL), "path is NULL");
    assert_invalid(yk_checkpoint_load(yk_test_path("a.pth"), NULL, NULL, NULL), "model is NULL");
    assert_invalid(yk_checkpoint_load_comm_hook(yk_test_path("a.pth"), NULL), "ddp is NULL");
    assert_invalid(yk_checkpoint_load_comm_hook(NULL, NULL), "path is NULL");
    assert_invalid(yk_checkpoint_read_state(NULL, &training), "path is NULL");
    assert_invalid(yk_checkpoint_read_state(yk_test_path("a.pth"), NULL), "state is NULL");
    yk_model_destroy(model);
}

YK_TEST(folders_of_checkpoints_refuse_null_and_odd_numbers)
{
    yk_model *model = make_model();
    yk_training_state training = {.epoch = 1};
    char path[256] = "before";
    assert_invalid(yk_checkpoint_dir_save(NULL, model, NULL, &training, 1), "dir is NULL");
    assert_invalid(yk_checkpoint_dir_save(yk_test_path("d"), NULL, NULL, &training, 1),
                   "model is NULL");
    assert_invalid(yk_checkpoint_dir_save(yk_test_path("d"), model, NULL, NULL, 1),
                   "training state");
    assert_invalid(yk_checkpoint_dir_save(yk_test_path("d"), model, NULL, &training, 0),
                   "YK_KEEP_ALL");
    assert_invalid(yk_checkpoint_dir_save(yk_test_path("d"), model, NULL, &training, -2),
                   "YK_KEEP_ALL");
    assert_invalid(yk_checkpoint_dir_latest(NULL, path, sizeof path), "dir is NULL");
    assert_string_equal(path, "");
    assert_invalid(yk_checkpoint_dir_latest(yk_test_path("d"), NULL, 0), "path is NULL");
    assert_ok(yk_checkpoint_dir_save(yk_test_path("d"), model, NULL, &training, YK_KEEP_ALL));
    memset(path, 'x', sizeof path);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_checkpoint_dir_latest(yk_test_path("d"), path, 8));
    assert_string_equal(path, "");
    yk_model_destroy(model);
}

static void never(void *context, const char *name, const char *value)
{
    (void)context;
    fail_msg("%s: %s", name, value);
}

YK_TEST(files_of_tensors_that_are_null_hold_nothing)
{
    yk_tensor_file *file = (yk_tensor_file *)1;
    yk_tensor_entry entry;
    double norm = 1;
    char text[32];
    assert_invalid(yk_tensor_file_open(NULL, "a.pth"), "file is NULL");
    assert_invalid(yk_tensor_file_open(&file, NULL), "path is NULL");
    assert_null(file);
    assert_null(yk_tensor_file_format(NULL));
    assert_int_equal(yk_tensor_file_count(NULL), 0);
    assert_invalid(yk_tensor_file_entry(NULL, 0, &entry), "file is NULL");
    assert_invalid(yk_tensor_file_entry(NULL, 0, NULL), "entry is NULL");
    assert_invalid(yk_tensor_file_norm(NULL, 0, &norm), "file is NULL");
    assert_true(norm == 0);
    assert_invalid(yk_tensor_file_norm(NULL, 0, NULL), "norm is NULL");
    yk_tensor_file_items(NULL, never, NULL);
    assert_null(yk_tensor_entry_shape(NULL, text, sizeof text));
    assert_null(yk_tensor_entry_shape(&entry, NULL, sizeof text));
    assert_invalid(yk_tensor_file_convert(NULL, "b.pth", NULL), "from is NULL");
    assert_invalid(yk_tensor_file_convert("a.pth", NULL, NULL), "to is NULL");
}

YK_TEST(the_shape_of_an_entry_is_text)
{
    char text[32], small[6];
    yk_tensor_entry entry = {.ndim = 3, .dims = {64, 3, 7}};
    assert_string_equal(yk_tensor_entry_shape(&entry, text, sizeof text), "(64, 3, 7)");
    assert_string_equal(yk_tensor_entry_shape(&entry, small, sizeof small), "(64, ");
    assert_string_equal(yk_tensor_entry_shape(&(yk_tensor_entry){0}, text, sizeof text), "()");
}

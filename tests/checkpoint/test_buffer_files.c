/* Files of models with buffers of given numbers: they hold the persistent ones alone. */
#include "given.h"

/* What the other model starts with. */
static const given others = {{7, 8, 9}, {4, 5, 6}, {1, 1, 2}};
static const char *const formats[] = {"model.pth", "model.safetensors"};

/* Its mask is its own still. */
static void assert_loaded(const yk_model *model)
{
    given expected = given_numbers;
    memcpy(expected.mask, others.mask, sizeof expected.mask);
    assert_given(model, &expected);
}

static void assert_names(const char *path)
{
    static const char *const names[] = {"fc.weight", "fc.bias", "table", "weight", "index"};
    yk_tensor_file *file;
    assert_ok(yk_tensor_file_open(&file, path));
    assert_int_equal(yk_tensor_file_count(file), 5);
    for (size_t i = 0; i < 5; i++) {
        yk_tensor_entry entry;
        bool known = false;
        assert_ok(yk_tensor_file_entry(file, i, &entry));
        for (size_t n = 0; n < 5; n++)
            known |= strcmp(entry.name, names[n]) == 0;
        assert_true(known);
    }
    yk_tensor_file_close(file);
}

YK_TEST(files_hold_persistent_buffers_alone)
{
    for (int f = 0; f < 2; f++) {
        const char *path = yk_test_path(formats[f]);
        yk_model *model = given_model("cpu", &given_numbers, 1),
                 *other = given_model("sim", &others, 2);
        yk_load_report report;
        assert_ok(yk_model_save(model, path));
        assert_names(path);
        assert_ok(yk_model_load_with(other, path, NULL, &report));
        assert_loaded(other);
        assert_int_equal(report.loaded, 5);
        assert_int_equal(report.missing + report.unexpected + report.reshaped, 0);
        yk_model_destroy(model);
        yk_model_destroy(other);
    }
}

/* A module's buffers follow its parameters, whatever constants were made before. */
YK_TEST(files_have_pytorchs_order)
{
    static const char *const names[] = {"0.weight", "0.bias", "0.mask", "1.weight", "1.bias"};
    const yk_tensor mask = given_tensor(given_numbers.mask, YK_F32, GIVEN_WIDTH);
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, GIVEN_WIDTH});
    x = yk_nn_linear(yk_add(x, yk_constant(graph, &mask)), "0", GIVEN_WIDTH);
    yk_scope_push(graph, "0");
    x = yk_add(x, yk_register_buffer(graph, "mask", &mask, true));
    yk_scope_pop(graph);
    x = yk_nn_linear(x, "1", GIVEN_WIDTH);
    yk_model *model;
    yk_tensor_file *file;
    assert_ok(yk_model_create(&model, yk_reduce_loss(x, YK_LOSS_SUM), NULL));
    assert_ok(yk_model_save(model, yk_test_path("model.pth")));
    assert_ok(yk_tensor_file_open(&file, yk_test_path("model.pth")));
    for (size_t i = 0; i < 5; i++) {
        yk_tensor_entry entry;
        assert_ok(yk_tensor_file_entry(file, i, &entry));
        assert_string_equal(entry.name, names[i]);
    }
    yk_tensor_file_close(file);
    yk_model_destroy(model);
}

static yk_model *one_buffer(const given *numbers, bool persistent)
{
    const yk_tensor mask = given_tensor(numbers->mask, YK_F32, GIVEN_WIDTH);
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, GIVEN_WIDTH});
    x = yk_add(yk_nn_linear(x, "fc", GIVEN_WIDTH),
               yk_register_buffer(graph, "mask", &mask, persistent));
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_reduce_loss(x, YK_LOSS_SUM), NULL));
    return model;
}

/* As load_state_dict() with strict. */
YK_TEST(a_file_and_its_model_agree_on_what_is_persistent)
{
    for (int f = 0; f < 2; f++) {
        const char *path = yk_test_path(formats[f]);
        for (int persistent = 0; persistent < 2; persistent++) {
            yk_model *model = one_buffer(&given_numbers, persistent),
                     *other = one_buffer(&others, !persistent);
            assert_ok(yk_model_save(model, path));
            assert_status(YK_ERROR_MISMATCH, yk_model_load(other, path));
            assert_contains(yk_last_error(), persistent ? "unexpected mask" : "missing mask");
            yk_tensor mask = yk_model_buffer(other, 0).value;
            assert_memory_equal(mask.data, others.mask, sizeof others.mask);
            yk_model_destroy(model);
            yk_model_destroy(other);
        }
    }
}

static void start(const given *numbers, uint64_t seed, yk_model **model, yk_optimizer **optimizer,
                  yk_ema **ema)
{
    *model = given_model("cpu", numbers, seed);
    assert_ok(
        yk_sgd_create(optimizer, *model,
                      YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1, o.momentum = 0.9)));
    assert_ok(yk_ema_create(ema, *optimizer,
                            YK_WITH(yk_ema_options, YK_EMA_OPTIONS_INIT, o.use_buffers = true)));
}

static void train(yk_model *model, yk_optimizer *optimizer, yk_ema *ema)
{
    for (int i = 0; i < 3; i++) {
        given_step(model, 4);
        assert_ok(yk_optimizer_step(optimizer));
        assert_ok(yk_ema_update(ema));
    }
}

YK_TEST(a_checkpoint_continues_with_the_same_bits)
{
    yk_model *model, *resumed;
    yk_optimizer *optimizer, *other;
    yk_ema *ema, *average;
    const char *path = yk_test_path("checkpoint.pth");
    given same_mask = others; /* which the program gives, as it did before */
    memcpy(same_mask.mask, given_numbers.mask, sizeof same_mask.mask);
    start(&given_numbers, 1, &model, &optimizer, &ema);
    start(&same_mask, 2, &resumed, &other, &average);
    train(model, optimizer, ema);
    assert_ok(yk_checkpoint_save(path, model, optimizer, NULL));
    assert_ok(yk_checkpoint_load(path, resumed, other, NULL));
    assert_given(resumed, &given_numbers);
    train(model, optimizer, ema);
    train(resumed, other, average);
    for (size_t i = 0; i < yk_model_parameter_count(model) + yk_model_buffer_count(model); i++) {
        yk_tensor a = yk_ema_value(ema, i), b = yk_ema_value(average, i);
        assert_memory_equal(a.data, b.data, yk_tensor_bytes(&a));
    }
    assert_ok(yk_model_load_ema(resumed, path)); /* alone, as weights */
    assert_given(resumed, &given_numbers);
    yk_ema_destroy(ema);
    yk_ema_destroy(average);
    yk_optimizer_destroy(optimizer);
    yk_optimizer_destroy(other);
    yk_model_destroy(model);
    yk_model_destroy(resumed);
}

YK_TEST(a_graph_expects_its_persistent_buffers)
{
    const char *path = yk_test_path("model.pth");
    for (int persistent = 0; persistent < 2; persistent++) {
        yk_model *model = one_buffer(&given_numbers, false);
        yk_tensor_file *file;
        const yk_tensor mask = given_tensor(others.mask, YK_F32, GIVEN_WIDTH);
        yk_graph *graph = yk_graph_create();
        assert_ok(yk_model_save(model, path));
        assert_ok(yk_tensor_file_open(&file, path));
        yk_nn_linear(yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, GIVEN_WIDTH}), "fc",
                     GIVEN_WIDTH);
        yk_register_buffer(graph, "mask", &mask, persistent);
        assert_int_equal(yk_tensor_file_check_graph(file, graph),
                         persistent ? YK_ERROR_MISMATCH : YK_OK);
        yk_graph_destroy(graph);
        yk_tensor_file_close(file);
        yk_model_destroy(model);
    }
}

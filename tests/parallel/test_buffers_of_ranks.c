/* Buffers of given numbers where several ranks or devices train. */
#define _GNU_SOURCE
#include "given.h"

static yk_group *join(void)
{
    yk_group *group;
    assert_ok(yk_group_init(&group, NULL));
    return group;
}

static yk_optimizer *make_sgd(yk_model *model)
{
    yk_optimizer *optimizer;
    assert_ok(
        yk_sgd_create(&optimizer, model, YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1)));
    return optimizer;
}

/* Numbers that differ from rank to rank. */
static given numbers_of(int rank)
{
    given numbers = given_numbers;
    numbers.mask[2] += (float)rank;
    numbers.weight[0] += (float)rank;
    numbers.index[1] += rank;
    return numbers;
}

YK_TEST_RANKS(ddp_gives_every_rank_those_of_rank_0, 3)
{
    (void)world;
    const given mine = numbers_of(rank);
    yk_group *group = join();
    yk_ddp *ddp;
    yk_model *model = given_model(yk_test_device("cpu"), &mine, 1);
    assert_ok(yk_ddp_create(&ddp, model, group, NULL));
    assert_given(model, &given_numbers);
    yk_optimizer *optimizer = make_sgd(model);
    for (int i = 0; i < 3; i++) {
        given_step(model, 2 + rank);
        assert_ok(yk_optimizer_step(optimizer));
        assert_ok(yk_ddp_check_divergence(ddp));
    }
    assert_given(model, &given_numbers);
    for (size_t i = 0; i < yk_model_buffer_count(model); i++) {
        yk_tensor value = yk_model_buffer(model, i).value;
        given own;
        assert_ok(yk_tensor_read(&value, &own));
        ((char *)&own)[5] ^= (char)(rank == 1);
        assert_ok(yk_tensor_write(&value, &own));
        assert_status(YK_ERROR_MISMATCH, yk_ddp_check_divergence(ddp));
        assert_contains(yk_last_error(), yk_model_buffer(model, i).name);
        assert_contains(yk_last_error(), "of rank 1 differs");
        ((char *)&own)[5] ^= (char)(rank == 1);
        assert_ok(yk_tensor_write(&value, &own));
    }
    given_step(model, 2);
    yk_optimizer_destroy(optimizer);
    yk_ddp_destroy(ddp);
    yk_model_destroy(model);
    yk_group_destroy(group);
}

/* Three elements each: most are no whole number of words. */
YK_TEST_RANKS(ddp_compares_buffers_of_every_dtype, 2)
{
    (void)world;
    yk_group *group = join();
    yk_ddp *ddp;
    yk_model *model;
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, GIVEN_WIDTH});
    for (int dtype = 0; dtype < YK_DTYPE_COUNT; dtype++) {
        char bytes[3 * 8];
        memset(bytes, 1 + rank, sizeof bytes);
        const yk_tensor tensor = given_tensor(bytes, (yk_dtype)dtype, 3);
        yk_register_buffer(graph, yk_dtype_name((yk_dtype)dtype), &tensor, dtype % 2);
    }
    assert_ok(yk_model_create(
        &model, yk_reduce_loss(yk_nn_linear(x, "fc", 1), YK_LOSS_SUM),
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = yk_test_device("cpu"))));
    assert_ok(yk_ddp_create(&ddp, model, group, NULL));
    given_step(model, 2);
    assert_ok(yk_ddp_check_divergence(ddp));
    for (int dtype = 0; dtype < YK_DTYPE_COUNT; dtype++) {
        char found[3 * 8], expected[3 * 8];
        yk_tensor value = yk_model_buffer(model, (size_t)dtype).value;
        const size_t bytes = yk_tensor_bytes(&value);
        memset(expected, 1, sizeof expected);
        assert_ok(yk_tensor_read(&value, found));
        assert_memory_equal(found, expected, bytes);
        found[bytes - 1] = (char)(1 + rank);
        assert_ok(yk_tensor_write(&value, found));
        assert_status(YK_ERROR_MISMATCH, yk_ddp_check_divergence(ddp));
        assert_contains(yk_last_error(), yk_model_buffer(model, (size_t)dtype).name);
        assert_ok(yk_tensor_write(&value, expected));
    }
    yk_ddp_destroy(ddp);
    yk_model_destroy(model);
    yk_group_destroy(group);
}

/* A mean of three equal numbers need not be that number, and one of infinities may be NaN. */
YK_TEST_RANKS(local_sgd_leaves_them_as_they_are, 3)
{
    (void)world;
    yk_group *group = join();
    yk_model *model = given_model(yk_test_device("cpu"), &given_numbers, 1);
    yk_optimizer *optimizer = make_sgd(model);
    yk_local_sgd *local;
    yk_local_sgd_options options = YK_LOCAL_SGD_OPTIONS_INIT;
    options.sync_every = 2;
    assert_ok(yk_local_sgd_create(&local, optimizer, group, &options));
    for (int i = 0; i < 4; i++) {
        given_step(model, 1 + rank);
        assert_ok(yk_optimizer_step(optimizer));
        assert_given(model, &given_numbers);
    }
    yk_local_sgd_destroy(local);
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
    yk_group_destroy(group);
}

static void compare_replicas(const char *devices, const char *first)
{
    yk_model *model = given_model(first, &given_numbers, 1),
             *alone = given_model("cpu", &given_numbers, 1);
    yk_data_parallel *parallel;
    assert_ok(yk_data_parallel_create(
        &parallel, model,
        YK_WITH(yk_data_parallel_options, YK_DATA_PARALLEL_OPTIONS_INIT, o.devices = devices)));
    for (int i = 0; i < 2; i++) {
        given_step(model, 7);
        given_step(alone, 7);
        assert_float_equal(yk_model_loss(model), yk_model_loss(alone), 1e-5);
    }
    assert_given(model, &given_numbers);
    yk_data_parallel_destroy(parallel);
    yk_model_destroy(model);
    yk_model_destroy(alone);
}

YK_TEST(replicas_have_those_of_their_model)
{
    unsetenv("YK_TEST_DEVICE");
    compare_replicas("cpu:0,cpu:1", "cpu");
    compare_replicas("sim:0,sim:1", "sim:0");
}

/* Models that differ between ranks are refused when DDP is made, by every rank in equal words. */
#include "harness.h"

#include "small_network.h"

/* The ways in which one rank's model can differ from the others'. */
typedef struct variant {
    yk_dtype dtype;
    int64_t channels;
    const char *name;
    bool bias, buffer;
} variant;

static const variant common = {.dtype = YK_F32, .channels = 4, .name = "conv"};

static yk_model *make_variant(const variant *v)
{
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", v->dtype, 4, (int64_t[]){YK_BATCH, 3, SIDE, SIDE});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *x = yk_nn_conv2d(images, v->name, v->channels, 3, NULL);
    yk_value *logits = yk_flatten(yk_global_avg_pool2d(x));
    if (v->bias)
        logits = yk_nn_linear(logits, "fc", v->channels);
    if (v->buffer)
        yk_buffer(graph, "extra", YK_I64, 0, NULL, YK_INIT_ZEROS);
    yk_model *model;
    assert_ok(yk_model_create(
        &model, yk_cross_entropy(logits, labels, NULL),
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = yk_test_device("ref"))));
    return model;
}

/* The last rank's model is `other`; all ranks must refuse, with these parts in the line, and the
 * group must keep working. */
static void check_refusal(int rank, int world, const variant *other, const char *ours,
                          const char *theirs)
{
    char last[32];
    snprintf(last, sizeof last, "rank %d", world - 1);
    yk_group *group;
    yk_model *model = make_variant(rank == world - 1 ? other : &common);
    yk_ddp *ddp = (yk_ddp *)&group; /* must be cleared */
    assert_ok(yk_group_init(&group, NULL));
    assert_status(YK_ERROR_MISMATCH, yk_ddp_create(&ddp, model, group, NULL));
    assert_null(ddp);
    assert_contains(yk_last_error(), ours);
    assert_contains(yk_last_error(), theirs);
    assert_contains(yk_last_error(), "rank 0");
    assert_contains(yk_last_error(), last);
    assert_ok(yk_barrier(group));
    yk_model_destroy(model);
    yk_group_destroy(group);
}

static void other_shape(int rank, int world)
{
    variant other = common;
    other.channels = 5;
    check_refusal(rank, world, &other, "conv.weight float32 (4, 3, 3, 3)",
                  "conv.weight float32 (5, 3, 3, 3)");
}

YK_TEST(promise_07_other_shape_on_two_ranks)
{
    yk_test_ranks(2, other_shape);
}

YK_TEST(promise_07_other_shape_on_three_ranks)
{
    yk_test_ranks(3, other_shape);
}

YK_TEST_RANKS(promise_07_other_dtype, 3)
{
    variant other = common;
    other.dtype = YK_F64;
    check_refusal(rank, world, &other, "conv.weight float32 (4, 3, 3, 3)",
                  "conv.weight float64 (4, 3, 3, 3)");
}

YK_TEST_RANKS(promise_07_other_name, 2)
{
    variant other = common;
    other.name = "stem";
    check_refusal(rank, world, &other, "conv.weight float32 (4, 3, 3, 3)",
                  "stem.weight float32 (4, 3, 3, 3)");
}

YK_TEST_RANKS(promise_07_more_parameters, 2)
{
    variant other = common;
    other.bias = true;
    check_refusal(rank, world, &other, "nothing further", "fc.weight float32 (4, 4)");
}

YK_TEST_RANKS(promise_07_more_buffers, 2)
{
    variant other = common;
    other.buffer = true;
    check_refusal(rank, world, &other, "nothing further", "extra int64 ()");
}

/* A model with a buffer whose name is as long as names can be. */
static yk_model *make_long_name(int64_t rows, int64_t columns)
{
    enum { SCOPES = 4 };
    char name[62];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, 3});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *loss = yk_cross_entropy(yk_nn_linear(x, "fc", 2), labels, NULL);
    for (int i = 0; i < SCOPES; i++)
        yk_scope_push(graph, name);
    yk_buffer(graph, name, YK_F32, 2, (int64_t[]){rows, columns}, YK_INIT_ZEROS);
    for (int i = 0; i < SCOPES; i++)
        yk_scope_pop(graph);
    yk_model *model;
    assert_ok(yk_model_create(
        &model, loss,
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = yk_test_device("ref"))));
    return model;
}

YK_TEST_RANKS(shapes_after_long_names_are_compared, 2)
{
    yk_group *group;
    yk_ddp *ddp;
    yk_model *model = make_long_name(rank ? 3 : 2, rank ? 2 : 3);
    assert_ok(yk_group_init(&group, NULL));
    assert_status(YK_ERROR_MISMATCH, yk_ddp_create(&ddp, model, group, NULL));
    assert_contains(yk_last_error(), "float32 (2, 3), rank 1 has n");
    yk_model_destroy(model);
    yk_group_destroy(group);
}

/* ---- equal models ---------------------------------------------------------------------------- */

/* Different seeds and buffers on every rank: afterwards all hold what rank 0 held. */
YK_TEST_RANKS(every_rank_starts_as_rank_0, 3)
{
    network net = {.device = "ref", .dtype = YK_F64, .norm = true, .seed = 3};
    yk_model *expected = make_model(&net);
    shift_buffers(expected, 1);
    net.seed += (uint64_t)rank;
    yk_model *model = make_model(&net);
    shift_buffers(model, 1 + rank);

    yk_group *group;
    yk_ddp *ddp;
    assert_ok(yk_group_init(&group, NULL));
    assert_ok(yk_ddp_create(&ddp, model, group, NULL));
    assert_same_parameters(model, expected, 0);
    assert_same_buffers(model, expected, 0);
    yk_ddp_destroy(ddp);
    yk_group_destroy(group);
    yk_model_destroy(model);
    yk_model_destroy(expected);
}

/* One rank goes on without a yk_ddp. */
YK_TEST_RANKS(all_ranks_call_ddp_create, 2)
{
    yk_group *group;
    yk_ddp *ddp;
    yk_model *model = make_variant(&common);
    assert_ok(yk_group_init(&group, NULL));
    if (rank == world - 1) {
        assert_status(YK_ERROR_MISMATCH, yk_barrier(group));
    } else {
        assert_status(YK_ERROR_MISMATCH, yk_ddp_create(&ddp, model, group, NULL));
        assert_contains(yk_last_error(), "rank 0: yk_ddp_create, which all ranks call: ");
        assert_contains(yk_last_error(), "rank 1 called barrier");
    }
    yk_model_destroy(model);
    yk_group_destroy(group);
}

/* Parameters that the loss does not depend on: refused by name, or left alone on request. */
#include "harness.h"

#include "small_network.h"

enum { IN = 3, OUT = 4 };

/* y = branch a or b of x, and a loss; both branches are declared, and `loose` is used by none. */
static yk_model *branch_model(bool use_a, bool use_b, bool loose)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F64, 2, (int64_t[]){YK_BATCH, IN});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    if (loose)
        yk_parameter(graph, "loose", YK_F64, 1, (int64_t[]){7}, YK_INIT_ONES, 0);
    yk_value *a = yk_nn_linear(x, "a", OUT), *b = yk_nn_linear(x, "b", OUT);
    yk_value *y = use_a && use_b ? yk_add(a, b) : use_a ? a : b;
    yk_value *loss = yk_cross_entropy(y, labels, NULL);
    yk_model *model;
    assert_ok(yk_model_create(&model, loss,
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT,
                                      o.device = yk_test_device("ref"), o.seed = 2)));
    return model;
}

static void branch_step(yk_model *model, int rank)
{
    static const char *const names[] = {"x", "labels"};
    double x[2 * IN];
    int32_t labels[2] = {rank % OUT, 3};
    for (int i = 0; i < 2 * IN; i++)
        x[i] = 0.3 * i - 0.5 * rank;
    yk_tensor tensors[] = {{.data = x, .dtype = YK_F64, .ndim = 2, .dims = {2, IN}},
                           {.data = labels, .dtype = YK_I32, .ndim = 1, .dims = {2}}};
    yk_batch batch = {.size = 2, .count = 2, .names = names, .tensors = tensors};
    step(model, &batch);
}

static double largest(const yk_tensor *tensor)
{
    double found = 0;
    yk_tensor host = yk_test_on_host(*tensor);
    for (int64_t i = 0; i < yk_tensor_count(tensor); i++)
        found = fmax(found, fabs(element(&host, i)));
    return found;
}

/* ---- refused --------------------------------------------------------------------------------- */

static void refused(int rank, int world)
{
    (void)world;
    yk_group *group;
    yk_ddp *ddp;
    assert_ok(yk_group_init(&group, NULL));
    yk_model *loose = branch_model(true, true, true), *half = branch_model(true, rank != 1, false);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_ddp_create(&ddp, loose, group, NULL));
    assert_contains(yk_last_error(), "the loss of no rank depends on loose");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_ddp_create(&ddp, half, group, NULL));
    assert_contains(yk_last_error(), "the loss of rank 1 does not depend on b.weight");
    yk_model_destroy(loose);
    yk_model_destroy(half);
    yk_group_destroy(group);
}

YK_TEST(an_unused_parameter_is_refused_by_name)
{
    yk_test_ranks(3, refused);
}

/* ---- allowed --------------------------------------------------------------------------------- */

static const yk_ddp_options allowed = {.size = sizeof allowed,
                                       .find_unused_parameters = true,
                                       .bucket_cap_mb = 1e-6,
                                       .first_bucket_mb = 1e-6,
                                       .broadcast_buffers = true};

/* What nobody uses stays as it is: no gradient, no decay, no momentum. */
YK_TEST_RANKS(what_no_rank_uses_is_left_alone, 2)
{
    yk_group *group;
    yk_ddp *ddp;
    yk_optimizer *sgd;
    assert_ok(yk_group_init(&group, NULL));
    yk_model *model = branch_model(true, false, true);
    assert_ok(yk_ddp_create(&ddp, model, group, &allowed));
    assert_int_equal(yk_ddp_bucket_count(ddp), 2); /* a.weight and a.bias */
    yk_sgd_options options = YK_SGD_OPTIONS_INIT;
    options.lr = 0.1;
    options.momentum = 0.9;
    options.weight_decay = 0.5;
    assert_ok(yk_sgd_create(&sgd, model, &options));
    yk_tensor before = find(model, "b.weight").value;
    double b_before = largest(&before);
    for (int i = 0; i < 3; i++) {
        branch_step(model, rank);
        assert_ok(yk_optimizer_step(sgd));
    }
    yk_parameter_view loose = find(model, "loose"), b = find(model, "b.weight");
    yk_tensor values = yk_test_on_host(loose.value);
    for (int i = 0; i < 7; i++)
        assert_true(((double *)values.data)[i] == 1);
    assert_true(largest(&b.value) == b_before);
    assert_true(largest(&loose.grad) == 0);
    assert_ok(yk_ddp_check_divergence(ddp));
    yk_optimizer_destroy(sgd);
    yk_ddp_destroy(ddp);
    yk_model_destroy(model);
    yk_group_destroy(group);
}

/* An optimizer that is older than the DDP, as in PyTorch, updates what only other ranks use, too.
 */
YK_TEST_RANKS(an_older_optimizer_updates_what_other_ranks_use, 2)
{
    yk_group *group;
    yk_ddp *ddp;
    yk_optimizer *sgd;
    assert_ok(yk_group_init(&group, NULL));
    yk_model *model = branch_model(true, rank == 0, true);
    assert_ok(yk_sgd_create(
        &sgd, model, YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1, o.momentum = 0.9)));
    assert_ok(yk_ddp_create(&ddp, model, group, &allowed));
    yk_tensor b = find(model, "b.weight").value;
    const double before = largest(&b);
    for (int i = 0; i < 3; i++) {
        branch_step(model, rank);
        assert_ok(yk_optimizer_step(sgd));
        assert_ok(yk_ddp_check_divergence(ddp));
    }
    assert_true(largest(&b) != before);
    yk_optimizer_destroy(sgd);
    yk_ddp_destroy(ddp);
    yk_model_destroy(model);
    yk_group_destroy(group);
}

/* Rank 0 trains branch a, rank 1 branch b: each gets half the gradient of its only user. */
YK_TEST_RANKS(to_what_some_ranks_use_the_others_add_zeros, 2)
{
    yk_group *group;
    yk_ddp *ddp;
    yk_optimizer *sgd;
    assert_ok(yk_group_init(&group, NULL));
    yk_model *model = branch_model(rank == 0, rank == 1, true);
    assert_ok(yk_ddp_create(&ddp, model, group, &allowed));
    assert_ok(yk_sgd_create(
        &sgd, model, YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1, o.momentum = 0.9)));
    yk_model *alone[2] = {branch_model(true, false, true), branch_model(false, true, true)};
    for (int user = 0; user < 2; user++)
        branch_step(alone[user], user);
    branch_step(model, rank);
    for (int user = 0; user < 2; user++) {
        const char *name = user ? "b.weight" : "a.weight";
        yk_tensor expected = yk_test_on_host(find(alone[user], name).grad),
                  found = find(model, name).grad;
        for (int64_t i = 0; i < yk_tensor_count(&expected); i++)
            ((double *)expected.data)[i] /= 2;
        assert_near(name, &found, &expected, 1e-14);
        assert_true(largest(&found) > 0);
        yk_model_destroy(alone[user]);
    }
    for (int i = 0; i < 3; i++) {
        assert_ok(yk_optimizer_step(sgd));
        assert_ok(yk_ddp_check_divergence(ddp));
        branch_step(model, rank);
    }
    yk_optimizer_destroy(sgd);
    yk_ddp_destroy(ddp);
    yk_model_destroy(model);
    yk_group_destroy(group);
}

/* A scaler that is older than DDP unscales what only the other rank uses, too. */
YK_TEST_RANKS(gradients_of_what_another_rank_uses_are_unscaled, 2)
{
    yk_group *group;
    yk_grad_scaler *scaler;
    yk_ddp *ddp;
    yk_optimizer *sgd;
    assert_ok(yk_group_init(&group, NULL));
    yk_model *model = branch_model(rank == 0, rank == 1, true);
    assert_ok(yk_grad_scaler_create(&scaler, model, NULL));
    assert_ok(yk_ddp_create(&ddp, model, group, &allowed));
    assert_ok(yk_sgd_create(&sgd, model, NULL));
    for (int i = 0; i < 2; i++) {
        branch_step(model, rank);
        assert_ok(yk_grad_scaler_step(scaler, sgd));
        assert_ok(yk_grad_scaler_update(scaler));
        assert_ok(yk_ddp_check_divergence(ddp));
    }
    yk_optimizer_destroy(sgd);
    yk_grad_scaler_destroy(scaler);
    yk_ddp_destroy(ddp);
    yk_model_destroy(model);
    yk_group_destroy(group);
}

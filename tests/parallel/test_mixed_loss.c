/*
 * A loss of means and sums over samples, mean + 0.1 (sum + mean): in every way of distributing it,
 * its means weigh by samples and its sums do not. Both are cross entropy and a loss that is made of
 * operators. What comes out is compared with two models of one
 * process that see the whole batch, one whose loss is the mean and one whose loss is the sum.
 */
#include <yoke/data_parallel.h>

#include "small_network.h"

static const network mixed = {
    .device = "ref", .dtype = YK_F64, .seed = 7, .own = true, .mixed = true};
static const network mean_only = {.device = "ref", .dtype = YK_F64, .seed = 7, .own = true};
static const network sum_only = {
    .device = "ref", .dtype = YK_F64, .seed = 7, .own = true, .sum = true};

typedef struct side {
    yk_group *group;
    yk_ddp *ddp;
    yk_model *model, *mean, *sum;
    int rank, ranks;
    samples own, joint;
} side;

static void create_models(side *s)
{
    s->model = make_model(&mixed);
    s->mean = make_model(&mean_only);
    s->sum = make_model(&sum_only);
}

static void begin(side *s, const yk_ddp_options *options)
{
    *s = (side){0};
    create_models(s);
    assert_ok(yk_group_init(&s->group, NULL));
    s->rank = yk_group_rank(s->group);
    s->ranks = yk_group_size(s->group);
    assert_ok(yk_ddp_create(&s->ddp, s->model, s->group, options));
}

static void end(side *s)
{
    yk_ddp_destroy(s->ddp);
    yk_model_destroy(s->model);
    yk_model_destroy(s->mean);
    yk_model_destroy(s->sum);
    yk_group_destroy(s->group);
}

/* The joint batch, on both models of one process. */
static void step_joint(side *s, int64_t first, int64_t count)
{
    step(s->mean, take_samples(&s->joint, YK_F64, first, count));
    step(s->sum, take_samples(&s->joint, YK_F64, first, count));
}

/* gradient = means * (1.1 mean's) + sums * (0.1 sum's) */
static void assert_gradients(const side *s, double means, double sums)
{
    for (size_t p = 0; p < yk_model_parameter_count(s->model); p++) {
        yk_parameter_view found = yk_model_parameter(s->model, p);
        const double *mean = yk_test_on_host(yk_model_parameter(s->mean, p).grad).data;
        const double *sum = yk_test_on_host(yk_model_parameter(s->sum, p).grad).data;
        int64_t count = yk_tensor_count(&found.grad);
        double *expected = malloc((size_t)count * sizeof *expected);
        assert_non_null(expected);
        for (int64_t i = 0; i < count; i++)
            expected[i] = 1.1 * means * mean[i] + 0.1 * sums * sum[i];
        yk_tensor tensor = found.grad;
        tensor.data = expected;
        tensor.device = NULL;
        assert_near(found.name, &found.grad, &tensor, 1e-12);
        free(expected);
    }
}

/* ---- one process ----------------------------------------------------------------------------- */

YK_TEST(the_loss_of_one_process_is_as_written)
{
    side s = {0};
    create_models(&s);
    step(s.model, take_samples(&s.own, YK_F64, 0, 5));
    step_joint(&s, 0, 5);
    assert_gradients(&s, 1, 1);
    assert_float_equal(yk_model_loss(s.model),
                       1.1 * yk_model_loss(s.mean) + 0.1 * yk_model_loss(s.sum), 1e-12);
    end(&s);
}

YK_TEST(gradients_of_one_process_add_up)
{
    side s = {0};
    create_models(&s);
    for (int i = 0; i < 2; i++) {
        step(s.model, take_samples(&s.own, YK_F64, 5 * i, 3 + i));
        step_joint(&s, 5 * i, 3 + i);
    }
    assert_gradients(&s, 1, 1);
    end(&s);
}

/* A running mean would shrink the sums: refused, and the gradients that are there are kept. */
YK_TEST(a_running_mean_of_it_is_refused)
{
    side s = {0};
    create_models(&s);
    yk_model_set_accumulation(s.model, YK_ACCUMULATION_MEAN);
    step(s.model, take_samples(&s.own, YK_F64, 0, 5));
    step_joint(&s, 0, 5);
    assert_ok(yk_model_forward(s.model, take_samples(&s.own, YK_F64, 5, 3)));
    assert_status(YK_ERROR_UNSUPPORTED, yk_model_backward(s.model));
    assert_contains(yk_last_error(), "use YK_ACCUMULATION_SUM");
    assert_gradients(&s, 1, 1);
    end(&s);
}

/* ---- ranks ----------------------------------------------------------------------------------- */

/* Sums are, as in PyTorch, the mean of the ranks' sums. */
YK_TEST_RANKS(uneven_ranks_weigh_each_term_by_its_kind, 3)
{
    static const int64_t counts[] = {5, 1, 3};
    side s;
    begin(&s, NULL);
    yk_model_set_accumulation(s.model, YK_ACCUMULATION_MEAN); /* of a single backward: the same */
    for (int i = 0; i < 2; i++) {
        int64_t before = s.rank == 0 ? 0 : s.rank == 1 ? 5 : 6;
        step(s.model, take_samples(&s.own, YK_F64, 9 * i + before, counts[s.rank]));
        step_joint(&s, 9 * i, 9);
        assert_gradients(&s, 1, 1.0 / s.ranks);
        yk_model_zero_grad(s.model);
        yk_model_zero_grad(s.mean);
        yk_model_zero_grad(s.sum);
    }
    end(&s);
}

YK_TEST_RANKS(uneven_ranks_accumulate_each_term_by_its_kind, 2)
{
    side s;
    begin(&s, NULL);
    for (int i = 0; i < 3; i++) {
        int64_t count = s.rank == 0 ? 1 : 4;
        step(s.model, take_samples(&s.own, YK_F64, 5 * i + s.rank, count));
        step_joint(&s, 5 * i, 5);
    }
    assert_gradients(&s, 1, 1.0 / s.ranks);
    end(&s);
}

/* Rank 1 has one batch fewer. */
static void join_uneven(bool effective)
{
    side s;
    begin(&s, NULL);
    assert_ok(yk_ddp_join_begin(s.ddp, YK_WITH(yk_join_options, YK_JOIN_OPTIONS_INIT,
                                               o.divide_by_effective_world_size = effective)));
    step(s.model, take_samples(&s.own, YK_F64, 3 * s.rank, 3));
    step_joint(&s, 0, 6);
    assert_gradients(&s, 1, 0.5);
    yk_model_zero_grad(s.model);
    yk_model_zero_grad(s.mean);
    yk_model_zero_grad(s.sum);
    if (s.rank == 0) {
        step(s.model, take_samples(&s.own, YK_F64, 6, 4));
        step_joint(&s, 6, 4);
        assert_gradients(&s, effective ? 1 : 0.5, effective ? 1 : 0.5);
    }
    assert_ok(yk_ddp_join_end(s.ddp));
    end(&s);
}

YK_TEST_RANKS(join_divides_every_term_by_all_ranks, 2)
{
    join_uneven(false);
}

YK_TEST_RANKS(join_divides_every_term_by_ranks_with_data, 2)
{
    join_uneven(true);
}

/* As DDP on four ranks, on one and on two. */
static void train_virtual(void)
{
    enum { VIRTUAL = 4, EACH = 2 };
    side s;
    begin(&s, YK_WITH(yk_ddp_options, YK_DDP_OPTIONS_INIT, o.virtual_ranks = VIRTUAL));
    yk_model_set_accumulation(s.model, YK_ACCUMULATION_MEAN);
    int own = VIRTUAL / s.ranks;
    for (int i = 0; i < own; i++)
        step(s.model, take_samples(&s.own, YK_F64, (s.rank * own + i) * EACH, EACH));
    step_joint(&s, 0, VIRTUAL * EACH);
    assert_gradients(&s, 1, 1.0 / VIRTUAL);
    end(&s);
}

YK_TEST(virtual_ranks_of_one_process_weigh_each_term)
{
    train_virtual();
}

YK_TEST_RANKS(virtual_ranks_of_two_weigh_each_term, 2)
{
    train_virtual();
}

/* ---- devices --------------------------------------------------------------------------------- */

YK_TEST(data_parallel_gives_the_whole_batchs_loss_and_gradient)
{
    side s = {0};
    yk_data_parallel *dp;
    create_models(&s);
    assert_ok(yk_data_parallel_create(&dp, s.model, NULL));
    step(s.model, take_samples(&s.own, YK_F64, 0, 5)); /* 3 and 2 */
    step_joint(&s, 0, 5);
    assert_gradients(&s, 1, 1);
    assert_float_equal(yk_model_loss(s.model),
                       1.1 * yk_model_loss(s.mean) + 0.1 * yk_model_loss(s.sum), 1e-12);
    yk_data_parallel_destroy(dp);
    end(&s);
}

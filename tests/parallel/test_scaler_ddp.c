/*
 * fp16's grad scaler on several ranks: what one finds, all find, and their models stay one.
 */
#include "harness.h"

#include <math.h>
#include <string.h>

#include "small_network.h"

enum { STEPS = 8, SAMPLES = 4 };

/* The number that rank 0 has, on every rank. */
static bool same_everywhere(yk_group *world, double value)
{
    double first = value;
    assert_ok(yk_broadcast(world, &first, 1, YK_F64, 0, NULL));
    return value == first;
}

static void assert_one_model(yk_group *world, const yk_model *model)
{
    for (size_t p = 0; p < yk_model_parameter_count(model); p++) {
        yk_tensor value = yk_test_on_host(yk_model_parameter(model, p).value);
        for (int64_t i = 0; i < yk_tensor_count(&value); i++)
            assert_true(same_everywhere(world, element(&value, i)));
    }
}

static double first_element(const yk_model *model)
{
    yk_tensor value = yk_test_on_host(yk_model_parameter(model, 0).value);
    return element(&value, 0);
}

static void spoil(yk_tensor grad)
{
    yk_tensor host = yk_test_on_host(grad);
    ((float *)host.data)[0] = NAN;
    yk_test_write_back(grad, host);
}

/* Steps 2 and 5 find an infinity on one rank: where on_input says, in its images, from where the
 * all-reduce spreads it; else in its own copy of the averaged gradients, which nobody else sees. */
static void train_with_infinities(yk_group *world, bool on_input)
{
    static samples own;
    int rank = yk_group_rank(world), size = yk_group_size(world);
    yk_model *model = make_model(&(network){.device = "cpu", .dtype = YK_F32, .seed = 3});
    yk_ddp *ddp;
    yk_grad_scaler *scaler;
    yk_optimizer *optimizer;
    assert_ok(yk_ddp_create(&ddp, model, world, NULL));
    assert_ok(yk_grad_scaler_create(&scaler, model, NULL));
    assert_ok(
        yk_sgd_create(&optimizer, model, YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1)));
    for (int s = 0; s < STEPS; s++) {
        bool bad = s == 2 || s == 5, mine = bad && rank == size - 1;
        const yk_batch *batch =
            take_samples(&own, YK_F32, (int64_t)(s * size + rank) * SAMPLES, SAMPLES);
        if (mine && on_input)
            own.f32[7] = INFINITY;
        double before = first_element(model);
        step(model, batch);
        if (mine && !on_input)
            spoil(yk_model_parameter(model, 1).grad);
        assert_ok(yk_grad_scaler_step(scaler, optimizer));
        assert_ok(yk_grad_scaler_update(scaler));
        assert_int_equal(yk_grad_scaler_found_inf(scaler), bad);
        assert_int_equal(before == first_element(model), bad);
        assert_one_model(world, model);
    }
    assert_true(yk_grad_scaler_scale(scaler) == 65536.0 / 4);
    assert_int_equal(yk_optimizer_steps(optimizer), STEPS - 2);
    yk_optimizer_destroy(optimizer);
    yk_grad_scaler_destroy(scaler);
    yk_ddp_destroy(ddp);
    yk_model_destroy(model);
}

static void infinities_body(int rank, int world_size)
{
    (void)rank, (void)world_size;
    yk_group *world;
    assert_ok(yk_group_init(&world, NULL));
    train_with_infinities(world, false);
    train_with_infinities(world, true);
    yk_group_destroy(world);
}

YK_TEST(promise_24_an_infinite_gradient_on_one_rank_skips_the_step_on_all)
{
    yk_test_ranks(2, infinities_body);
}

YK_TEST(promise_24_an_infinite_gradient_on_one_of_three_ranks_skips_the_step_on_all)
{
    yk_test_ranks(3, infinities_body);
}

/* Accumulation and no_sync: unscaled once before the step, they give what f32 alone gives. */
static void accumulation_body(int rank, int world_size)
{
    static samples own;
    yk_group *world;
    yk_ddp *ddp[2];
    yk_model *model[2];
    assert_ok(yk_group_init(&world, NULL));
    for (int i = 0; i < 2; i++) {
        model[i] = make_model(&(network){.device = "ref", .dtype = YK_F32, .seed = 3});
        assert_ok(yk_ddp_create(&ddp[i], model[i], world, NULL));
    }
    yk_grad_scaler *scaler;
    assert_ok(yk_grad_scaler_create(&scaler, model[0], NULL));
    for (int s = 0; s < 2; s++) {
        for (int micro = 0; micro < 3; micro++)
            for (int i = 0; i < 2; i++) {
                int64_t first = (s * 3 + micro) * world_size + rank;
                yk_ddp_set_no_sync(ddp[i], micro < 2);
                step(model[i], take_samples(&own, YK_F32, first * SAMPLES, SAMPLES));
            }
        assert_ok(yk_grad_scaler_unscale(scaler));
        assert_ok(yk_grad_scaler_update(scaler));
        assert_same_gradients(model[0], model[1], 0);
        yk_model_zero_grad(model[0]);
        yk_model_zero_grad(model[1]);
    }
    yk_grad_scaler_destroy(scaler);
    for (int i = 0; i < 2; i++) {
        yk_ddp_destroy(ddp[i]);
        yk_model_destroy(model[i]);
    }
    yk_group_destroy(world);
}

YK_TEST(accumulated_gradients_are_unscaled_once)
{
    yk_test_ranks(2, accumulation_body);
}

/* Optimizers, clipping, averages and the scaler on a device whose memory the host cannot touch and
 * which works later: the same bits as on ref, which has the same arithmetic. */
#include <math.h>

#include "harness.h"
#include "model/model_hooks.h"
#include "optim/optimizer.h"
#include "same.h"

enum { IN = 300, OUT = 70, PARAMETERS = 2, STEPS = 8 };

static const size_t counts[PARAMETERS] = {IN * OUT, OUT};

typedef enum kind {
    SGD,
    ADAM,
    AMSGRAD,
    NADAM,
    RADAM,
    ADAMAX,
    LARS,
    LAMB,
    ADAGRAD,
    ADADELTA,
    RMSPROP
} kind;

typedef struct run {
    yk_model *model;
    yk_optimizer *optimizer;
    yk_ema *ema;
    yk_grad_scaler *scaler;
    double norm[STEPS];
    bool asks; /* after each step what was found in it, for which it waits */
    bool found_inf[STEPS];
} run;

static yk_model *make_model(const char *device)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "images", YK_F32, 2, (int64_t[]){YK_BATCH, IN});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *loss = yk_cross_entropy(yk_nn_linear(x, "fc", OUT), labels, NULL);
    yk_model *model;
    assert_ok(yk_model_create(&model, loss,
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device)));
    return model;
}

/* The scaled gradient of a step; of the fourth, one element is infinite. */
static void set_gradients(const run *r, int step)
{
    static float values[IN * OUT];
    for (size_t p = 0; p < PARAMETERS; p++) {
        yk_tensor grad = yk_model_parameter(r->model, p).grad;
        for (size_t i = 0; i < counts[p]; i++)
            values[i] = 65536 * (float)((i * 37 + (size_t)step * 11) % 101) / 100 - 30000;
        if (step == 3)
            values[counts[p] / 2] = (float)INFINITY;
        assert_ok(yk_tensor_write(&grad, values));
    }
}

static bool has_momentum(kind of)
{
    return of == SGD || of == LARS || of == RMSPROP;
}

static yk_status create(kind of, yk_optimizer **optimizer, yk_model *model)
{
    if (of == ADAM)
        return yk_adam_create(optimizer, model, NULL);
    if (of == AMSGRAD)
        return yk_adam_create(
            optimizer, model,
            YK_WITH(yk_adam_options, YK_ADAM_OPTIONS_INIT, o.beta2 = 0.5, o.amsgrad = true));
    if (of == NADAM)
        return yk_nadam_create(optimizer, model, NULL);
    if (of == RADAM) /* rectified from its third step on */
        return yk_radam_create(optimizer, model,
                               YK_WITH(yk_radam_options, YK_RADAM_OPTIONS_INIT, o.beta2 = 0.8,
                                       o.decoupled_weight_decay = true));
    if (of == ADAMAX)
        return yk_adamax_create(optimizer, model, NULL);
    if (of == LARS)
        return yk_lars_create(optimizer, model, NULL);
    if (of == LAMB)
        return yk_lamb_create(optimizer, model, NULL);
    if (of == ADAGRAD)
        return yk_adagrad_create(optimizer, model,
                                 YK_WITH(yk_adagrad_options, YK_ADAGRAD_OPTIONS_INIT,
                                         o.lr_decay = 0.1, o.initial_accumulator_value = 0.1));
    if (of == ADADELTA)
        return yk_adadelta_create(optimizer, model, NULL);
    if (of == RMSPROP)
        return yk_rmsprop_create(optimizer, model,
                                 YK_WITH(yk_rmsprop_options, YK_RMSPROP_OPTIONS_INIT,
                                         o.momentum = 0.9, o.centered = true));
    return yk_sgd_create(optimizer, model,
                         YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1, o.momentum = 0.9,
                                 o.weight_decay = 0.01));
}

/* Another rate in each step; from the middle on, the second group has a momentum of its own. */
static void change_settings(const run *r, kind of, int step)
{
    yk_optimizer_set_lr(r->optimizer, 0.1 / (step + 1));
    if (has_momentum(of) && step == STEPS / 2)
        assert_ok(yk_optimizer_set_group_hyperparameter(r->optimizer, 1, "momentum", 0.5));
}

static void train(run *r, const char *device, kind of, bool asks)
{
    size_t group;
    *r = (run){.model = make_model(device), .asks = asks};
    assert_ok(create(of, &r->optimizer, r->model));
    assert_ok(yk_optimizer_add_param_group(r->optimizer, yk_filter_norms_and_biases, NULL, &group));
    assert_ok(yk_optimizer_set_group_hyperparameter(r->optimizer, group, "weight_decay", 0));
    if (has_momentum(of))
        assert_ok(yk_optimizer_set_group_hyperparameter(r->optimizer, group, "momentum", 0));
    assert_ok(yk_ema_create(&r->ema, r->optimizer,
                            YK_WITH(yk_ema_options, YK_EMA_OPTIONS_INIT, o.decay = 0.9)));
    assert_ok(yk_grad_scaler_create(&r->scaler, r->model, NULL));
    for (int step = 0; step < STEPS; step++) {
        set_gradients(r, step);
        change_settings(r, of, step);
        assert_ok(yk_grad_scaler_unscale(r->scaler));
        if (asks)
            r->found_inf[step] = yk_grad_scaler_found_inf(r->scaler);
        assert_ok(yk_clip_grad_norm(r->optimizer, step % 2 ? 1 : 1e6,
                                    asks && step < STEPS - 1 ? &r->norm[step] : NULL));
        assert_ok(yk_grad_scaler_step(r->scaler, r->optimizer));
        assert_ok(yk_grad_scaler_update(r->scaler));
        assert_ok(yk_ema_update(r->ema));
    }
    assert_ok(yk_ema_swap(r->ema));
}

static void end(run *r)
{
    yk_grad_scaler_destroy(r->scaler);
    yk_ema_destroy(r->ema);
    yk_optimizer_destroy(r->optimizer);
    yk_model_destroy(r->model);
}

static void compare(const run *a, const run *b, size_t slots)
{
    if (b->asks)
        assert_memory_equal(a->norm, b->norm, sizeof a->norm);
    assert_int_equal(yk_optimizer_steps(a->optimizer), STEPS - 1);
    assert_int_equal(yk_optimizer_steps(b->optimizer), STEPS - 1);
    assert_true(yk_grad_scaler_scale(a->scaler) == yk_grad_scaler_scale(b->scaler));
    for (int step = 0; b->asks && step < STEPS; step++) {
        assert_int_equal(a->found_inf[step], step == 3);
        assert_int_equal(b->found_inf[step], step == 3);
    }
    for (size_t p = 0; p < PARAMETERS; p++) {
        assert_same_tensor("a weight", yk_model_parameter(a->model, p).value,
                           yk_model_parameter(b->model, p).value);
        assert_same_tensor("an average", yk_ema_value(a->ema, p), yk_ema_value(b->ema, p));
        for (size_t slot = 0; slot < slots; slot++) {
            const char *name;
            yk_tensor one, other;
            bool has = yk_optimizer_state(a->optimizer, p, slot, &name, &one);
            assert_int_equal(has, yk_optimizer_state(b->optimizer, p, slot, &name, &other));
            if (has)
                assert_same_tensor(name, one, other);
        }
    }
}

static void check(kind of, bool asks)
{
    run ref, sim;
    train(&ref, "ref", of, true);
    train(&sim, "sim", of, asks);
    assert_non_null(yk_model_parameter(sim.model, 0).value.device);
    assert_int_equal(sim.optimizer->update_tape.state, YKI_TAPE_RECORDED);
    assert_int_equal(sim.optimizer->clip_tape.state, YKI_TAPE_RECORDED);
    bool has_three = of == RMSPROP || of == AMSGRAD, has_one = has_momentum(of) || of == ADAGRAD;
    compare(&ref, &sim, has_three ? 3 : has_one ? 1 : 2);
    end(&ref);
    end(&sim);
}

YK_TEST(sgd_has_the_same_bits_on_a_device_of_its_own_memory)
{
    check(SGD, true);
    check(SGD, false);
}

YK_TEST(adam_has_the_same_bits_on_a_device_of_its_own_memory)
{
    check(ADAM, true);
    check(ADAM, false);
}

YK_TEST(amsgrad_has_the_same_bits_on_a_device_of_its_own_memory)
{
    check(AMSGRAD, true);
    check(AMSGRAD, false);
}

YK_TEST(relatives_of_adam_have_the_same_bits_on_a_device_of_its_own_memory)
{
    for (kind of = NADAM; of <= ADAMAX; of++) {
        check(of, true);
        check(of, false);
    }
}

YK_TEST(adagrad_has_the_same_bits_on_a_device_of_its_own_memory)
{
    check(ADAGRAD, true);
    check(ADAGRAD, false);
}

YK_TEST(adadelta_has_the_same_bits_on_a_device_of_its_own_memory)
{
    check(ADADELTA, true);
    check(ADADELTA, false);
}

YK_TEST(rmsprop_has_the_same_bits_on_a_device_of_its_own_memory)
{
    check(RMSPROP, true);
    check(RMSPROP, false);
}

YK_TEST(lars_and_lamb_have_the_same_bits_on_a_device_of_its_own_memory)
{
    for (kind of = LARS; of <= LAMB; of++) {
        check(of, true);
        check(of, false);
    }
}

/* The device copies from the host's memory when it comes to it: what it finds there says whether
 * the host has waited since the copy was entered. */
YK_TEST(a_step_with_a_scaler_does_not_wait_for_the_device)
{
    run r = {.model = make_model("sim")};
    yki_device *device = yki_model_device(r.model);
    yki_stream *stream = yki_device_stream(device);
    void *pinned, *there;
    assert_ok(yk_adam_create(&r.optimizer, r.model, NULL));
    assert_ok(yk_grad_scaler_create(&r.scaler, r.model, NULL));
    assert_ok(yki_device_alloc_pinned(device, sizeof(int), &pinned));
    assert_ok(yki_device_alloc(device, sizeof(int), &there));
    set_gradients(&r, 3);
    *(int *)pinned = 1;
    assert_ok(yki_device_copy(device, there, pinned, sizeof(int), YKI_TO_DEVICE, stream));
    assert_ok(yk_grad_scaler_unscale(r.scaler));
    assert_ok(yk_clip_grad_norm(r.optimizer, 1, NULL));
    assert_ok(yk_grad_scaler_step(r.scaler, r.optimizer));
    assert_ok(yk_grad_scaler_update(r.scaler));
    *(int *)pinned = 2;
    assert_int_equal(yk_optimizer_steps(r.optimizer), 0);
    assert_true(yk_grad_scaler_found_inf(r.scaler));
    assert_ok(yki_device_copy(device, pinned, there, sizeof(int), YKI_TO_HOST, stream));
    assert_ok(yki_stream_wait(device, stream));
    assert_int_equal(*(int *)pinned, 2);
    yki_device_free(device, there, sizeof(int));
    yki_device_free_pinned(device, pinned, sizeof(int));
    end(&r);
}

/* Whichever of the two is destroyed first. */
YK_TEST(a_step_may_be_undecided_when_its_objects_are_destroyed)
{
    for (int order = 0; order < 2; order++) {
        run r = {.model = make_model("sim")};
        assert_ok(yk_adam_create(&r.optimizer, r.model, NULL));
        assert_ok(yk_grad_scaler_create(&r.scaler, r.model, NULL));
        set_gradients(&r, 3);
        assert_ok(yk_grad_scaler_step(r.scaler, r.optimizer));
        if (order == 0) {
            yk_grad_scaler_destroy(r.scaler);
            assert_int_equal(yk_optimizer_steps(r.optimizer), 0);
            yk_optimizer_destroy(r.optimizer);
        } else {
            yk_optimizer_destroy(r.optimizer);
            assert_true(yk_grad_scaler_found_inf(r.scaler));
            yk_grad_scaler_destroy(r.scaler);
        }
        yk_model_destroy(r.model);
    }
}

static yk_status leave_out(void *optimizer)
{
    yki_optimizer_end_step(optimizer, false);
    return YK_OK;
}

/* The second optimizer also has a step in the middle that is left out. */
YK_TEST(a_step_that_is_left_out_leaves_nadams_product)
{
    const double skip = 1;
    run runs[2];
    for (int r = 0; r < 2; r++) {
        runs[r] = (run){.model = make_model("ref")};
        assert_ok(create(NADAM, &runs[r].optimizer, runs[r].model));
        for (int step = 0; step < 3; step++) {
            set_gradients(&runs[r], step);
            if (r == 1 && step == 1)
                assert_ok(yki_optimizer_step_unless(runs[r].optimizer, &skip, leave_out,
                                                    runs[r].optimizer));
            set_gradients(&runs[r], step);
            assert_ok(yk_optimizer_step(runs[r].optimizer));
        }
        assert_int_equal(yk_optimizer_steps(runs[r].optimizer), 3);
    }
    assert_true(yki_optimizer_age(runs[0].optimizer, 0).product ==
                yki_optimizer_age(runs[1].optimizer, 0).product);
    for (size_t p = 0; p < PARAMETERS; p++)
        assert_same_tensor("a weight", yk_model_parameter(runs[0].model, p).value,
                           yk_model_parameter(runs[1].model, p).value);
    for (int r = 0; r < 2; r++) {
        yk_optimizer_destroy(runs[r].optimizer);
        yk_model_destroy(runs[r].model);
    }
}

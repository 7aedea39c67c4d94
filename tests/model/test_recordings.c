/*
 * Models whose passes are recorded: from the third on, nothing but replays. Whatever differs from
 * step to step has to reach them in the device's memory, or the bits are not those of ref.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/trace.h"
#include "harness.h"
#include "model/model.h"
#include "nets.h"
#include "same.h"

enum { SIDES = 2, STEPS = 6, SEEDS = 3 };

static const char *const devices[SIDES] = {"sim", "ref"};

static const char *const sim_seeds[SEEDS] = {"1", "7", "19"};

typedef struct pair {
    yk_model *models[SIDES];
    yk_optimizer *optimizers[SIDES];
} pair;

static void begin(pair *p, const test_net *net)
{
    for (int side = 0; side < SIDES; side++) {
        p->models[side] = net_model(net, devices[side], YK_F32, 1);
        assert_ok(yk_sgd_create(
            &p->optimizers[side], p->models[side],
            YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.05, o.momentum = 0.9)));
    }
}

static void end(pair *p)
{
    for (int side = 0; side < SIDES; side++) {
        yk_optimizer_destroy(p->optimizers[side]);
        yk_model_destroy(p->models[side]);
    }
}

/* Forward and backward of both on the same samples, which a device copies. */
static void pass(pair *p, int64_t size, uint64_t seed)
{
    double losses[SIDES];
    for (int side = 0; side < SIDES; side++) {
        net_batch b;
        net_batch_init(&b, YK_F32, size, seed);
        assert_ok(yk_model_forward(p->models[side], &b.batch));
        memset(b.labels, 0, side == 0 ? (size_t)size * sizeof *b.labels : 0);
        assert_ok(yk_model_backward(p->models[side]));
        net_batch_fini(&b);
        losses[side] = yk_model_loss(p->models[side]);
    }
    assert_false(isnan(losses[0]));
    assert_true(losses[0] == losses[1]);
}

static void evaluate(pair *p, int64_t size, uint64_t seed)
{
    net_batch b;
    yk_tensor outputs[SIDES];
    net_batch_init(&b, YK_F32, size, seed);
    for (int side = 0; side < SIDES; side++) {
        yk_model_eval(p->models[side]);
        assert_ok(yk_model_forward(p->models[side], &b.batch));
        assert_ok(yk_model_output(p->models[side], &outputs[side]));
        yk_model_train(p->models[side]);
    }
    assert_memory_equal(outputs[0].data, outputs[1].data, yk_tensor_bytes(&outputs[1]));
    net_batch_fini(&b);
}

static void update(pair *p, double lr)
{
    for (int side = 0; side < SIDES; side++) {
        yk_optimizer_set_lr(p->optimizers[side], lr);
        assert_ok(yk_optimizer_step(p->optimizers[side]));
    }
    assert_same_values(p->models[0], p->models[1]);
    assert_same_grads(p->models[0], p->models[1]);
}

static yki_program *program_of(const pair *p, size_t index)
{
    assert_true(index < p->models[0]->executor.plans.count);
    return p->models[0]->executor.plans.list[index];
}

/* Dropout's draws, the rate, the samples: each step has its own. */
YK_TEST(every_net_trains_as_on_ref)
{
    for (int n = 0; n < net_count; n++) {
        pair p;
        setenv("YOKE_SIM_SEED", sim_seeds[n % SEEDS], 1);
        begin(&p, &nets[n]);
        for (int step = 0; step < STEPS; step++) {
            pass(&p, 3, (uint64_t)step);
            update(&p, 0.05 / (step + 1));
        }
        assert_int_equal(program_of(&p, 0)->forward.state, YKI_TAPE_RECORDED);
        assert_int_equal(program_of(&p, 0)->backward[0][0].state, YKI_TAPE_RECORDED);
        end(&p);
    }
}

/* Timed steps are entered one by one, with the same bits, between those that are replayed. */
YK_TEST(recordings_are_kept_while_steps_are_timed)
{
    for (int n = 0; n < net_count; n++) {
        const yki_tape_item *recorded = NULL;
        pair p;
        begin(&p, &nets[n]);
        for (int step = 0; step < STEPS + 1; step++) {
            if (step == 3) {
                recorded = program_of(&p, 0)->forward.items;
                assert_ok(yk_model_profile_begin(p.models[0]));
            }
            if (step == 5)
                assert_ok(yk_model_profile_end(p.models[0]));
            pass(&p, 3, (uint64_t)step);
            update(&p, 0.05 / (step + 1));
        }
        assert_non_null(recorded);
        assert_ptr_equal(program_of(&p, 0)->forward.items, recorded);
        assert_int_equal(yk_model_profile_kernel(p.models[0], 0).runs, 2);
        end(&p);
    }
}

/* The gradient that backward starts from, and the weight of what is there, change every time. */
YK_TEST(accumulation_trains_as_on_ref)
{
    static const yk_accumulation modes[] = {YK_ACCUMULATION_SUM, YK_ACCUMULATION_MEAN};
    for (int m = 0; m < 2; m++) {
        pair p;
        begin(&p, net_find("residual"));
        for (int side = 0; side < SIDES; side++)
            yk_model_set_accumulation(p.models[side], modes[m]);
        for (int step = 0; step < STEPS; step++) {
            for (int part = 0; part < 3; part++)
                pass(&p, 2, (uint64_t)(3 * step + part));
            update(&p, 0.05);
        }
        assert_int_equal(program_of(&p, 0)->backward[1][0].state, YKI_TAPE_RECORDED);
        end(&p);
    }
}

/* A larger batch moves the arena and the inputs; smaller ones have plans of their own. */
YK_TEST(batches_may_have_any_size)
{
    static const int64_t sizes[] = {2, 2, 2, 5, 2, 5, 2, 5, 7, 2, 2, 5, 2, 5, 7, 7};
    pair p;
    begin(&p, net_find("residual"));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        pass(&p, sizes[i], i);
        update(&p, 0.05);
    }
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(program_of(&p, i)->forward.state, YKI_TAPE_RECORDED);
    end(&p);
}

/* Evaluations pack weights that have changed since, and only then. */
YK_TEST(evaluation_and_training_take_turns)
{
    pair p;
    begin(&p, net_find("residual"));
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < step; i++)
            evaluate(&p, 4, (uint64_t)i);
        pass(&p, 4, (uint64_t)step);
        update(&p, 0.05);
        if (step % 2)
            for (int side = 0; side < SIDES; side++)
                net_shake(p.models[side], (uint64_t)step);
    }
    end(&p);
}

YK_TEST(loss_scales_change_between_steps)
{
    pair p;
    yk_grad_scaler *scalers[SIDES];
    begin(&p, net_find("plain"));
    for (int side = 0; side < SIDES; side++)
        assert_ok(yk_grad_scaler_create(&scalers[side], p.models[side],
                                        YK_WITH(yk_grad_scaler_options, YK_GRAD_SCALER_OPTIONS_INIT,
                                                o.init_scale = 4, o.growth_interval = 1)));
    for (int step = 0; step < STEPS; step++) {
        pass(&p, 3, (uint64_t)step);
        for (int side = 0; side < SIDES; side++) {
            assert_ok(yk_grad_scaler_step(scalers[side], p.optimizers[side]));
            assert_ok(yk_grad_scaler_update(scalers[side]));
        }
        assert_same_values(p.models[0], p.models[1]);
        assert_same_grads(p.models[0], p.models[1]);
    }
    for (int side = 0; side < SIDES; side++)
        yk_grad_scaler_destroy(scalers[side]);
    end(&p);
}

/* Where distributed training puts gradients, and takes them back. */
YK_TEST(gradients_may_move)
{
    pair p;
    begin(&p, net_find("linear"));
    yk_model *model = p.models[0];
    yki_device *device = yki_model_device(model);
    size_t count = yk_model_parameter_count(model), bytes = 0;
    void **memory = calloc(count, sizeof *memory), *block;
    for (size_t i = 0; i < count; i++)
        bytes += yki_model_padded_bytes(model, i);
    assert_ok(yki_device_alloc(device, bytes, &block));
    for (size_t i = 0, at = 0; i < count; at += yki_model_padded_bytes(model, i++))
        memory[i] = (char *)block + at;
    for (int step = 0; step < 3 * STEPS; step++) {
        if (step == STEPS)
            yki_model_place_gradients(model, memory);
        if (step == 2 * STEPS)
            yki_model_return_gradients(model);
        pass(&p, 3, (uint64_t)step);
        update(&p, 0.05);
    }
    assert_ok(yki_stream_wait(device, yki_device_stream(device)));
    yki_device_free(device, block, bytes);
    pass(&p, 3, 0);
    update(&p, 0.05);
    free(memory);
    end(&p);
}

/* ---- hooks ----------------------------------------------------------------------------------- */

/* Copies each gradient once it is ready. */
typedef struct copier {
    yk_model *model;
    char *copies[8];
    int calls;
    bool on_host; /* it waits for what it has copied */
} copier;

static void copy_gradient(void *context, size_t parameter)
{
    copier *c = context;
    yki_device *device = yki_model_device(c->model);
    yk_tensor grad = yk_model_parameter(c->model, parameter).grad;
    c->calls++;
    assert_ok(yki_device_copy(device, c->copies[parameter], grad.data, yk_tensor_bytes(&grad),
                              YKI_WITHIN_DEVICE, yki_device_stream(device)));
    if (c->on_host)
        assert_ok(yki_stream_wait(device, yki_device_stream(device)));
}

static bool always(const void *context, size_t parameter)
{
    (void)context, (void)parameter;
    return true;
}

static yk_status enter_copies_only(void *context, yki_backward *backward)
{
    (void)context;
    backward->in_streams = backward->unbroken;
    return YK_OK;
}

static void train_with_hooks(bool on_host)
{
    pair p;
    begin(&p, net_find("linear"));
    copier c = {.model = p.models[0], .on_host = on_host};
    yki_device *device = yki_model_device(c.model);
    size_t count = yk_model_parameter_count(c.model);
    for (size_t i = 0; i < count; i++) {
        void *copy;
        assert_ok(yki_device_alloc(device, yki_model_padded_bytes(c.model, i), &copy));
        c.copies[i] = copy;
    }
    yki_model_hooks hooks = {.context = &c,
                             .backward_begin = on_host ? NULL : enter_copies_only,
                             .grad_ready = copy_gradient,
                             .grad_needs_host = on_host ? always : NULL};
    assert_ok(yki_model_attach(c.model, &hooks, "a test"));
    for (int step = 0; step < STEPS; step++) {
        pass(&p, 3, (uint64_t)step);
        for (size_t i = 0; i < count; i++) {
            yk_parameter_view view = yk_model_parameter(c.model, i);
            yk_tensor copy = view.grad;
            copy.data = c.copies[i];
            assert_same_tensor(view.name, copy, view.grad);
        }
        update(&p, 0.05);
        /* Replays call what needs the host, and do what was recorded by themselves. */
        assert_int_equal(c.calls, (on_host || step < 2 ? step + 1 : 2) * (int)count);
    }
    yki_model_detach(c.model);
    pass(&p, 3, STEPS);
    update(&p, 0.05);
    for (size_t i = 0; i < count; i++)
        yki_device_free(device, c.copies[i], yki_model_padded_bytes(c.model, i));
    end(&p);
}

YK_TEST(what_hooks_enter_is_recorded)
{
    train_with_hooks(false);
}

YK_TEST(hooks_that_need_the_host_are_called_in_replays)
{
    train_with_hooks(true);
}

/* ---- timelines ------------------------------------------------------------------------------- */

YK_TEST(a_timeline_shows_the_kernels_of_recorded_passes)
{
    pair p;
    int kernels = 0;
    yki_trace_event event;
    begin(&p, net_find("linear"));
    for (int step = 0; step < STEPS; step++) {
        if (step == STEPS / 2)
            yki_trace_start();
        if (step == STEPS / 2 + 1)
            yki_trace_stop();
        pass(&p, 3, (uint64_t)step);
        update(&p, 0.05);
    }
    while (yki_trace_take(&event))
        kernels += strcmp(event.name, "linear") == 0;
    assert_int_equal(kernels, SIDES);
    end(&p);
}

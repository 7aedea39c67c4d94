/* The mean of losses that a loop leaves to a meter, which does not wait for the device. */
#define _GNU_SOURCE
#include <yoke/yoke.h>

#include <math.h>
#include <stdlib.h>

#include "device/memory.h"
#include "model/model_hooks.h"
#include "parts.h"

enum { STEPS = 5 };

typedef struct loop {
    yk_dataset *dataset;
    yk_loader *loader;
    yk_model *model;
    yk_optimizer *optimizer;
} loop;

static loop create_loop(const char *device)
{
    setenv("YK_TEST_DEVICE", device, 1);
    loop l = {.dataset = create_dataset(YK_SPLIT_TRAIN, 20 * STEPS - 7), .model = create_model()};
    l.loader = create_loader(l.dataset, NULL, true);
    assert_ok(yk_sgd_create(&l.optimizer, l.model, NULL));
    return l;
}

static void destroy_loop(loop l)
{
    yk_optimizer_destroy(l.optimizer);
    yk_model_destroy(l.model);
    yk_loader_destroy(l.loader);
    yk_dataset_destroy(l.dataset);
}

static double forward(const loop *l)
{
    const yk_batch *batch = yk_loader_next(l->loader);
    assert_non_null(batch);
    assert_ok(yk_model_forward(l->model, batch));
    return (double)batch->size;
}

static void update(const loop *l)
{
    assert_ok(yk_model_backward(l->model));
    assert_ok(yk_optimizer_step(l->optimizer));
}

/* The mean over so many steps, as yk_model_loss tells it. */
static double mean_of_losses(const loop *l, int steps)
{
    double sum = 0, samples = 0;
    for (int i = 0; i < steps; i++) {
        double size = forward(l);
        update(l);
        sum += yk_model_loss(l->model) * size;
        samples += size;
    }
    return sum / samples;
}

/* Whether all that was entered is done. The simulated device does one thing when it is asked. */
static bool is_done(const yk_model *model)
{
    yki_device *device = yki_model_device(model);
    yki_event *event;
    bool reached;
    assert_ok(yki_event_create(device, &event));
    assert_ok(yki_event_mark(device, event, yki_device_stream(device)));
    assert_ok(yki_event_query(device, event, &reached));
    yki_event_destroy(device, event);
    return reached;
}

static double metered_mean(const loop *l, yk_loss_meter *meter, int steps, bool late)
{
    double mean;
    for (int i = 0; i < steps; i++) {
        assert_ok(yk_loss_meter_update(meter, forward(l)));
        assert_int_equal(is_done(l->model), !late); /* not even the forward */
        update(l);
    }
    assert_ok(yk_loss_meter_compute(&mean, meter));
    return mean;
}

static void assert_same_means(const char *device, bool late)
{
    loop expected = create_loop("ref"), metered = create_loop(device);
    yk_loss_meter *meter;
    double mean;
    assert_ok(yk_loss_meter_create(&meter, metered.model));
    assert_true(metered_mean(&metered, meter, 2, late) == mean_of_losses(&expected, 2));
    assert_true(metered_mean(&metered, meter, STEPS - 2, late) ==
                mean_of_losses(&expected, STEPS - 2));
    assert_ok(yk_loss_meter_compute(&mean, meter));
    assert_true(isnan(mean));
    destroy_loop(metered);
    yk_loss_meter_destroy(meter);
    destroy_loop(expected);
}

YK_TEST(losses_are_read_while_the_next_step_computes)
{
    assert_same_means("sim", true);
}

YK_TEST(on_a_host_device_a_meter_is_a_mean)
{
    assert_same_means("ref", false);
}

YK_TEST(the_loss_of_replicas_is_that_of_the_batch)
{
    loop l = create_loop("cpu");
    yk_data_parallel *dp;
    yk_loss_meter *meter;
    double mean;
    assert_ok(yk_data_parallel_create(&dp, l.model, NULL));
    assert_ok(yk_loss_meter_create(&meter, l.model));
    forward(&l);
    assert_ok(yk_loss_meter_update(meter, 1));
    assert_ok(yk_loss_meter_compute(&mean, meter));
    assert_true(mean == yk_model_loss(l.model));
    yk_loss_meter_destroy(meter);
    yk_data_parallel_destroy(dp);
    destroy_loop(l);
}

YK_TEST(a_meter_wants_a_loss_and_a_weight)
{
    loop l = create_loop("sim");
    yk_loss_meter *meter;
    assert_ok(yk_loss_meter_create(&meter, l.model));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_loss_meter_update(meter, 1));
    assert_contains(yk_last_error(), "there is no loss before a forward that computes one");
    forward(&l);
    const double weights[] = {0, -1, NAN, INFINITY};
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) {
        assert_status(YK_ERROR_INVALID_ARGUMENT, yk_loss_meter_update(meter, weights[i]));
        assert_contains(yk_last_error(), "expected a number above 0");
    }
    yk_loss_meter_destroy(meter);
    destroy_loop(l);
}

/* The mean of losses that are read one step late: see yk_loss_meter in the public header. */
#include <math.h>
#include <stdlib.h>

#include <yoke/train.h>

#include "base/error.h"
#include "base/memory.h"
#include "model/model_hooks.h"
#include "model/outcome.h"

struct yk_loss_meter {
    yk_model *model;
    yki_late losses[2]; /* the newest and, while that is taken, the one before */
    int next;           /* the one to use next */
    double unread;      /* the weight of the newest, which has not been read; 0: it has */
    double sum, weight;
};

static yk_status create_losses(yk_loss_meter *meter)
{
    for (int i = 0; i < 2; i++)
        YK_TRY(yki_late_create(&meter->losses[i], yki_model_device(meter->model), sizeof(double)));
    return YK_OK;
}

yk_status yk_loss_meter_create(yk_loss_meter **meter, yk_model *model)
{
    YKI_NOT_NULL(meter);
    *meter = NULL;
    YKI_NOT_NULL(model);
    YK_TRY(yki_model_check_trained(model, "yk_loss_meter"));
    yk_loss_meter *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "a loss meter");
    made->model = model;
    yki_model_retain(model);
    yk_status status = create_losses(made);
    if (status != YK_OK) {
        yk_loss_meter_destroy(made);
        return status;
    }
    *meter = made;
    return YK_OK;
}

void yk_loss_meter_destroy(yk_loss_meter *meter)
{
    if (!meter)
        return;
    yki_device *device = yki_model_device(meter->model);
    yki_stream_wait(device, yki_device_stream(device)); /* for copies */
    for (int i = 0; i < 2; i++)
        yki_late_destroy(&meter->losses[i]);
    yk_model_destroy(meter->model);
    free(meter);
}

static void add(yk_loss_meter *meter, double loss, double weight)
{
    meter->sum += loss * weight;
    meter->weight += weight;
}

/* Adds the loss at losses[index], of that weight. */
static yk_status add_late(yk_loss_meter *meter, int index, double weight)
{
    double loss;
    if (weight == 0)
        return YK_OK;
    YK_TRY(yki_loss_read(&meter->losses[index], yki_model_loss_dtype(meter->model), &loss));
    add(meter, loss, weight);
    return YK_OK;
}

yk_status yk_loss_meter_update(yk_loss_meter *meter, double weight)
{
    YKI_NOT_NULL(meter);
    if (!(weight > 0) || !isfinite(weight))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "yk_loss_meter_update: the weight is %g, expected a number above 0",
                         weight);
    if (yki_model_is_replicated(meter->model)) {
        add(meter, yk_model_loss(meter->model), weight);
        return YK_OK;
    }
    YK_TRY(yki_model_take_loss(meter->model, &meter->losses[meter->next]));
    double before = meter->unread;
    meter->unread = weight;
    meter->next = 1 - meter->next;
    return add_late(meter, meter->next, before);
}

yk_status yk_loss_meter_compute(double *mean, yk_loss_meter *meter)
{
    YKI_NOT_NULL(mean);
    *mean = NAN;
    YKI_NOT_NULL(meter);
    double unread = meter->unread;
    meter->unread = 0;
    YK_TRY(add_late(meter, 1 - meter->next, unread));
    if (meter->weight > 0)
        *mean = meter->sum / meter->weight;
    meter->sum = meter->weight = 0;
    return YK_OK;
}

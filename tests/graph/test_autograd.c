/* Whole networks: gradients against central differences, in f64 on ref; then cpu against ref. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/model.h"
#include "harness.h"
#include "nets.h"

enum { SAMPLES = 3, DIFFERENCES = 12 };

/* The loss with the same dropout masks as the first forward had. */
static double loss_again(yk_model *model, const net_batch *b)
{
    if (model->training)
        model->step = 0;
    assert_ok(yk_model_forward(model, &b->batch));
    return yk_model_loss(model);
}

static void check_parameter(const test_net *net, yk_model *model, const net_batch *b, size_t p,
                            const double *gradient)
{
    const double h = 1e-5;
    yk_parameter_view view = yk_model_parameter(model, p);
    double *x = view.value.data, error = 0, norm = 0;
    int64_t count = yk_tensor_count(&view.value), stride = count / DIFFERENCES + 1;
    for (int64_t i = 0; i < count; i += stride) {
        double kept = x[i];
        x[i] = kept + h;
        double above = loss_again(model, b);
        x[i] = kept - h;
        double slope = (above - loss_again(model, b)) / (2 * h);
        x[i] = kept;
        error += (slope - gradient[i]) * (slope - gradient[i]);
        norm += slope * slope;
    }
    if (!(sqrt(error) <= 1e-6 * sqrt(norm) + 1e-9))
        fail_msg("%s, %s: error %g, norm %g", net->name, view.name, sqrt(error), sqrt(norm));
}

static void check_net(const test_net *net, bool training)
{
    yk_model *model = net_model(net, "ref", YK_F64, 1);
    net_batch b;
    net_batch_init(&b, YK_F64, SAMPLES, 7);
    if (!training)
        yk_model_eval(model);
    net_step(model, &b);
    int64_t count;
    double *gradients = net_gradients(model, &count), *at = gradients;
    for (size_t p = 0; p < yk_model_parameter_count(model); p++) {
        check_parameter(net, model, &b, p, at);
        yk_tensor grad = yk_model_parameter(model, p).grad;
        at += yk_tensor_count(&grad);
    }
    free(gradients);
    net_batch_fini(&b);
    yk_model_destroy(model);
}

YK_TEST(gradients_in_training)
{
    for (int i = 0; i < net_count; i++)
        check_net(&nets[i], true);
}

YK_TEST(gradients_in_evaluation)
{
    for (int i = 0; i < net_count; i++)
        check_net(&nets[i], false);
}

static void compare(const char *what, const char *name, const double *got, const double *expected,
                    int64_t count, double tolerance)
{
    double error = 0, norm = 0;
    for (int64_t i = 0; i < count; i++) {
        error += (got[i] - expected[i]) * (got[i] - expected[i]);
        norm += expected[i] * expected[i];
    }
    if (!(sqrt(error) <= tolerance * sqrt(norm)))
        fail_msg("%s, %s: error %g, norm %g", name, what, sqrt(error), sqrt(norm));
}

static double *gradients_on(const test_net *net, const char *device, yk_dtype dtype, int64_t width,
                            bool training, double *loss, int64_t *count)
{
    yk_model *model = net_model(net, device, dtype, width);
    net_batch b;
    net_batch_init(&b, dtype, 9, 7);
    if (!training)
        yk_model_eval(model);
    *loss = net_step(model, &b);
    double *gradients = net_gradients(model, count);
    net_batch_fini(&b);
    yk_model_destroy(model);
    return gradients;
}

static void check_device(const test_net *net, int64_t width, bool training)
{
    double loss[2];
    int64_t count;
    double *cpu = gradients_on(net, "cpu", YK_F32, width, training, &loss[0], &count);
    double *ref = gradients_on(net, "ref", YK_F64, width, training, &loss[1], &count);
    compare("loss", net->name, &loss[0], &loss[1], 1, 1e-5);
    compare("gradients", net->name, cpu, ref, count, 1e-4);
    free(cpu);
    free(ref);
}

YK_TEST(cpu_agrees_with_ref)
{
    for (int i = 0; i < net_count; i++) {
        check_device(&nets[i], 1, true);
        check_device(&nets[i], 1, false);
    }
}

YK_TEST(cpu_agrees_with_ref_in_blocked_layouts)
{
    for (int i = 0; i < net_count; i++) {
        check_device(&nets[i], 7, true);
        check_device(&nets[i], 7, false);
    }
}

/*
 * Training on the cuda device, with the fake driver and the stand-ins for NVIDIA's libraries: in
 * passes that are recorded from the second step on and replayed from the third.
 */
#include <math.h>
#include <stdlib.h>

#include "harness.h"
#include "nets.h"

enum { STEPS = 4 };

static void assert_close(double a, double b, double tolerance, const char *what, int step)
{
    if (!(fabs(a - b) <= tolerance * fabs(b)))
        fail_msg("%s, step %d: the loss is %.9g, and %.9g on the other device", what, step, a, b);
}

static void train_net(const test_net *net, const char *device, double losses[STEPS])
{
    yk_optimizer *optimizer;
    yk_model *model = net_model(net, device, YK_F64, 1);
    assert_ok(
        yk_sgd_create(&optimizer, model,
                      YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.05, o.momentum = 0.9)));
    for (int step = 0; step < STEPS; step++) {
        net_batch b;
        net_batch_init(&b, YK_F64, 3, (uint64_t)step);
        losses[step] = net_step(model, &b);
        assert_ok(yk_optimizer_step(optimizer));
        net_batch_fini(&b);
    }
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
}

YK_TEST(every_net_trains_as_on_ref)
{
    for (int n = 0; n < net_count; n++) {
        double cuda[STEPS], ref[STEPS];
        train_net(&nets[n], "cuda", cuda);
        train_net(&nets[n], "ref", ref);
        for (int step = 0; step < STEPS; step++)
            assert_close(cuda[step], ref[step], 1e-8, nets[n].name, step);
    }
}

/* ---- a ResNet ------------------------------------------------------------------------------- */

enum { BATCH = 4, PIXELS = 8, CLASSES = 10 };

static void draw(float *images, int32_t *labels, int step)
{
    for (int i = 0; i < BATCH * 3 * PIXELS * PIXELS; i++)
        images[i] = sinf((float)(i + 1) * (1.7f + (float)step));
    for (int i = 0; i < BATCH; i++)
        labels[i] = (i + step) % CLASSES;
}

static void train_resnet(const char *device, yk_amp amp, double losses[STEPS])
{
    static float images[BATCH * 3 * PIXELS * PIXELS];
    static int32_t labels[BATCH];
    const yk_tensor tensors[] = {
        {.data = images, .dtype = YK_F32, .ndim = 4, .dims = {BATCH, 3, PIXELS, PIXELS}},
        {.data = labels, .dtype = YK_I32, .ndim = 1, .dims = {BATCH}}};
    static const char *const names[] = {"images", "labels"};
    const yk_batch batch = {.size = BATCH, .count = 2, .names = names, .tensors = tensors};
    const int64_t dims[] = {YK_BATCH, 3, PIXELS, PIXELS};
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "images", YK_F32, 4, dims);
    yk_value *y = yk_input(graph, "labels", YK_I32, 1, dims);
    yk_value *loss = yk_cross_entropy(yk_resnet9(x, CLASSES), y, NULL);
    yk_model *model;
    yk_optimizer *optimizer;
    assert_ok(yk_model_create(
        &model, loss,
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device, o.amp = amp)));
    assert_ok(yk_sgd_create(&optimizer, model,
                            YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.01)));
    for (int step = 0; step < STEPS; step++) {
        draw(images, labels, step);
        assert_ok(yk_model_forward(model, &batch));
        assert_ok(yk_model_backward(model));
        losses[step] = yk_model_loss(model);
        assert_ok(yk_optimizer_step(optimizer));
    }
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
}

static void compare_resnet(yk_amp amp, double tolerance)
{
    double cuda[STEPS], cpu[STEPS];
    train_resnet("cuda", amp, cuda);
    train_resnet("cpu", YK_AMP_OFF, cpu);
    for (int step = 0; step < STEPS; step++)
        assert_close(cuda[step], cpu[step], tolerance, "resnet9", step);
}

YK_TEST(resnet_trains_as_on_the_cpu)
{
    compare_resnet(YK_AMP_OFF, 1e-3);
}

YK_TEST(resnet_trains_in_bf16)
{
    compare_resnet(YK_AMP_BF16, 0.05);
}

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
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device, o.amp = amp,
                o.winograd = false))); /* its rounding would be compared, too */
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

YK_TEST(resnet_trains_in_fp16)
{
    compare_resnet(YK_AMP_FP16, 0.05);
}

/* ---- PowerSGD -------------------------------------------------------------------------------- */

/* The norms of gradients that one rank alone has compressed, which its device does in streams. */
static void compress_gradients(const char *device, double norms[STEPS])
{
    yk_group *group;
    yk_ddp *ddp;
    yk_model *model = net_model(&nets[0], device, YK_F32, 1);
    assert_ok(yk_group_init(
        &group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.world_size = 1, o.rank = 0)));
    assert_ok(yk_ddp_create(&ddp, model, group, NULL));
    assert_ok(yk_ddp_register_powersgd_hook(
        ddp, YK_WITH(yk_powersgd_options, YK_POWERSGD_OPTIONS_INIT, o.start_iter = 0,
                     o.min_compression_rate = 0.1, o.matrix_approximation_rank = 2)));
    for (int step = 0; step < STEPS; step++) {
        net_batch b;
        net_batch_init(&b, YK_F32, 3, (uint64_t)step);
        net_step(model, &b);
        norms[step] = 0;
        for (size_t i = 0; i < yk_model_parameter_count(model); i++) {
            yk_tensor grad = yk_test_on_host(yk_model_parameter(model, i).grad);
            for (int64_t e = 0; e < yk_tensor_count(&grad); e++)
                norms[step] += pow((double)((const float *)grad.data)[e], 2);
        }
        yk_model_zero_grad(model);
        net_batch_fini(&b);
    }
    yk_powersgd_stats stats = yk_ddp_powersgd_stats(ddp);
    assert_int_equal(stats.elements_before, STEPS * yk_model_parameter_elements(model));
    assert_true(stats.elements_after < stats.elements_before);
    yk_ddp_destroy(ddp);
    yk_group_destroy(group);
    yk_model_destroy(model);
}

YK_TEST(gradients_are_compressed_as_on_the_host)
{
    double cuda[STEPS], ref[STEPS];
    compress_gradients("cuda", cuda);
    compress_gradients("ref", ref);
    for (int step = 0; step < STEPS; step++)
        assert_close(cuda[step], ref[step], 1e-3, "PowerSGD", step);
}

/*
 * yk_grad_scaler against torch.cuda.amp.GradScaler: the same infinities planted in the gradients
 * give the same scales, the same skipped steps, the same weights and the same state.
 */
#include "harness.h"

#include <math.h>

#include "pytorch.h"

enum { SIZE = 1000, CLASSES = 2 };

/* A weight of (2, 500), all ones, in a model that can run. */
static yk_model *make_model(void)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, SIZE / CLASSES});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *weight = yk_parameter(graph, "weight", YK_F32, 2,
                                    (int64_t[]){CLASSES, SIZE / CLASSES}, YK_INIT_ONES, 0);
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_cross_entropy(yk_linear(x, weight, NULL), labels, NULL),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = "ref")));
    return model;
}

static float planted(char kind)
{
    return kind == 'i' ? INFINITY : kind == 'm' ? -INFINITY : NAN;
}

static void train(FILE *file, const yk_grad_scaler_options *options, const char *kinds)
{
    yk_model *model = make_model();
    yk_grad_scaler *scaler;
    yk_optimizer *optimizer;
    assert_ok(yk_grad_scaler_create(&scaler, model, options));
    assert_ok(yk_sgd_create(&optimizer, model,
                            YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.01)));
    yk_parameter_view weight = yk_model_parameter(model, 0);
    float *value = weight.value.data, *grad = weight.grad.data;
    for (int step = 0; kinds[step]; step++) {
        double scale = yk_grad_scaler_scale(scaler);
        for (int i = 0; i < SIZE; i++)
            grad[i] = 0.25f * (float)scale;
        if (kinds[step] != '.')
            grad[step * 37 % SIZE] = planted(kinds[step]);
        assert_ok(yk_grad_scaler_step(scaler, optimizer));
        assert_ok(yk_grad_scaler_update(scaler));
        fprintf(file, "%.9g %d %.9g\n", scale, yk_grad_scaler_found_inf(scaler), (double)value[0]);
    }
    yk_grad_scaler_state s = yk_grad_scaler_get_state(scaler);
    fprintf(file, "%.9g %.9g %.9g %lld %lld\n", s.scale, s.growth_factor, s.backoff_factor,
            (long long)s.growth_interval, (long long)s.growth_tracker);
    yk_optimizer_destroy(optimizer);
    yk_grad_scaler_destroy(scaler);
    yk_model_destroy(model);
}

static void compare(const yk_grad_scaler_options *options, const char *kinds)
{
    char path[256];
    snprintf(path, sizeof path, "%s/scaler.txt", yk_test_directory());
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "%.17g %.17g %.17g %lld %s\n", options->init_scale, options->growth_factor,
            options->backoff_factor, (long long)options->growth_interval, kinds);
    train(file, options, kinds);
    assert_int_equal(fclose(file), 0);
    pytorch_judges("scaler.py", "%s", path);
}

YK_TEST(scales_and_skips_are_gradscalers)
{
    compare(&(yk_grad_scaler_options){sizeof(yk_grad_scaler_options), 65536, 2, 0.5, 4, true},
            "ii..n....m.........i..i..i....................n");
}

/* There and back through a checkpoint, with a skipped step on PyTorch's side. */
YK_TEST(gradscaler_takes_up_a_checkpoints_scaler)
{
    char path[256];
    yk_model *model = make_model();
    yk_training_state training = {.arch = "mlp", .scaler = {true, 4096, 3, 0.25, 7, 5}};
    snprintf(path, sizeof path, "%s/a.pth", yk_test_directory());
    assert_ok(yk_checkpoint_save(path, model, NULL, &training));
    pytorch_judges("scaler.py", "state %s", path);
    assert_ok(yk_checkpoint_read_state(path, &training));
    assert_true(training.scaler.scale == 1024 && training.scaler.growth_factor == 3);
    assert_true(training.scaler.backoff_factor == 0.25);
    assert_int_equal(training.scaler.growth_interval, 7);
    assert_int_equal(training.scaler.growth_tracker, 0);
    yk_model_destroy(model);
}

/* Factors whose products an f32 must round. */
YK_TEST(scales_of_odd_factors_are_gradscalers)
{
    compare(&(yk_grad_scaler_options){sizeof(yk_grad_scaler_options), 1000.1, 1.7, 0.3, 3, true},
            "...............i...n......m..........ii.......................");
}

/* Beyond what f32 holds the scale does not grow. */
YK_TEST(the_largest_scale_is_gradscalers)
{
    compare(&(yk_grad_scaler_options){sizeof(yk_grad_scaler_options), 0x1p124, 4, 0.25, 2, true},
            "........i.........");
}

/*
 * yk_randn_like: how its numbers are distributed, what they follow from, and a variational
 * autoencoder, which trains through them.
 */
#include "harness.h"

#include <math.h>
#include <string.h>

#include <yoke/optim.h>

enum { SAMPLES = 64, FEATURES = 500, COUNT = SAMPLES * FEATURES };

/* ---- the numbers ----------------------------------------------------------------------------- */

/* Outputs: two draws. The loss makes it a model that can be trained. */
static yk_model *create(uint64_t seed)
{
    yk_model *model;
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, FEATURES});
    yk_value *scale = yk_parameter(graph, "scale", YK_F32, 0, NULL, YK_INIT_ONES, 0);
    yk_value *outputs[] = {yk_randn_like(x), yk_randn_like(yk_multiply(x, scale))};
    yk_value *loss =
        yk_reduce_loss(yk_multiply(yk_add(outputs[0], outputs[1]), scale), YK_LOSS_MEAN);
    assert_ok(yk_model_create(&model, loss,
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = "cpu",
                                      o.seed = seed, o.outputs = outputs, o.output_count = 2)));
    return model;
}

/* One forward: the numbers of an output. */
static void draw(yk_model *model, size_t output, float *numbers)
{
    static float x[COUNT];
    static const char *const names[] = {"x"};
    yk_tensor tensor = {.data = x, .dtype = YK_F32, .ndim = 2, .dims = {SAMPLES, FEATURES}};
    const yk_batch batch = {.size = SAMPLES, .count = 1, .names = names, .tensors = &tensor};
    yk_tensor found;
    assert_ok(yk_model_forward(model, &batch));
    assert_ok(yk_model_output_at(model, output, &found));
    assert_int_equal(yk_tensor_count(&found), COUNT);
    for (int i = 0; i < COUNT; i++)
        numbers[i] = (float)yk_tensor_get(&found, i);
}

static float first[COUNT], second[COUNT];

/* Of n draws, the mean of f(z), which has this mean and variance, is within 5 deviations. */
#define assert_moment(f, mean, variance)                                                           \
    do {                                                                                           \
        double total = 0;                                                                          \
        for (int i = 0; i < COUNT; i++) {                                                          \
            const double z = first[i];                                                             \
            total += f;                                                                            \
        }                                                                                          \
        assert_true(fabs(total / COUNT - (mean)) < 5 * sqrt((double)(variance) / COUNT));          \
    } while (0)

YK_TEST(the_distribution_is_the_standard_normal)
{
    yk_model *model = create(3);
    draw(model, 0, first);
    assert_moment(z, 0, 1);
    assert_moment(z * z, 1, 2);
    assert_moment(z * z * z, 0, 15);
    assert_moment(z * z * z * z, 3, 96);
    assert_moment(fabs(z) > 1.959964 ? 1 : 0, 0.05, 0.05 * 0.95);
    assert_moment(z * (double)first[(i + 1) % COUNT], 0, 1); /* of neighbours */
    yk_model_destroy(model);
}

static bool is_same(void)
{
    return memcmp(first, second, sizeof first) == 0;
}

YK_TEST(operators_forwards_and_seeds_draw_other_numbers)
{
    yk_model *model = create(3), *other = create(4);
    draw(model, 0, first);
    draw(other, 0, second);
    assert_false(is_same());
    draw(model, 0, second);
    assert_false(is_same());
    draw(model, 1, first);
    yk_model_set_forwards(model, yk_model_forwards(model) - 1);
    draw(model, 0, second);
    assert_false(is_same());
    yk_model_destroy(model);
    yk_model_destroy(other);
}

YK_TEST(resumed_training_draws_the_same_numbers)
{
    yk_model *model = create(3), *resumed = create(3);
    for (int step = 0; step < 3; step++)
        draw(model, 1, first);
    yk_model_set_forwards(resumed, 2);
    draw(resumed, 1, second);
    assert_true(is_same());
    yk_model_destroy(model);
    yk_model_destroy(resumed);
}

/* Evaluation draws, too, and the same numbers until training goes on. */
YK_TEST(evaluation_is_repeatable)
{
    yk_model *model = create(3);
    draw(model, 0, first);
    yk_model_eval(model);
    draw(model, 0, first);
    draw(model, 0, second);
    assert_true(is_same());
    assert_moment(z * z, 1, 2);
    yk_model_train(model);
    draw(model, 0, second);
    assert_false(is_same());
    yk_model_destroy(model);
}

/* ---- a variational autoencoder --------------------------------------------------------------- */

enum { PIXELS = 16, HIDDEN = 32, LATENT = 2 };

/* Of pictures of PIXELS pixels, 0 or 1: the negative evidence lower bound of a sample. */
static yk_model *create_autoencoder(const char *device, yk_amp amp)
{
    yk_model *model;
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, PIXELS});
    yk_value *h = yk_relu(yk_nn_linear(x, "encoder.0", HIDDEN));
    yk_value *statistics = yk_nn_linear(h, "encoder.1", 2 * LATENT);
    yk_value *mu = yk_slice(statistics, 1, 0, LATENT);
    yk_value *logvar = yk_slice(statistics, 1, LATENT, LATENT);
    yk_value *deviation = yk_exp(yk_scale(logvar, 0.5));
    yk_value *z = yk_add(mu, yk_multiply(yk_randn_like(deviation), deviation));
    yk_value *logits =
        yk_nn_linear(yk_relu(yk_nn_linear(z, "decoder.0", HIDDEN)), "decoder.1", PIXELS);
    yk_value *error = yk_scale(yk_binary_cross_entropy_with_logits(logits, x, NULL), PIXELS);
    yk_value *kl = yk_subtract(yk_add_scalar(logvar, 1), yk_add(yk_pow(mu, 2), yk_exp(logvar)));
    yk_value *divergence = yk_scale(yk_reduce_loss(yk_sum(kl, 1), YK_LOSS_MEAN), -0.5);
    assert_ok(yk_model_create(&model, yk_add(error, divergence),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device,
                                      o.amp = amp, o.seed = 1, o.threads = 1)));
    return model;
}

/* Four bars, and a few pixels that are flipped. */
static void paint(float *pictures)
{
    for (int i = 0; i < SAMPLES * PIXELS; i++) {
        int sample = i / PIXELS, pixel = i % PIXELS;
        bool bar = pixel / 4 == sample % 4, flipped = (sample * 7 + pixel * 5) % 41 == 0;
        pictures[i] = bar != flipped;
    }
}

static double train(const char *device, yk_amp amp, int steps)
{
    static float pictures[SAMPLES * PIXELS];
    static const char *const names[] = {"x"};
    yk_tensor tensor = {.data = pictures, .dtype = YK_F32, .ndim = 2, .dims = {SAMPLES, PIXELS}};
    const yk_batch batch = {.size = SAMPLES, .count = 1, .names = names, .tensors = &tensor};
    yk_model *model = create_autoencoder(device, amp);
    yk_optimizer *adam;
    double last = 0;
    paint(pictures);
    assert_ok(
        yk_adam_create(&adam, model, YK_WITH(yk_adam_options, YK_ADAM_OPTIONS_INIT, o.lr = 1e-2)));
    for (int step = 0; step < steps; step++) {
        assert_ok(yk_model_forward(model, &batch));
        assert_ok(yk_model_backward(model));
        assert_ok(yk_optimizer_step(adam));
        last = yk_model_loss(model);
    }
    yk_optimizer_destroy(adam);
    yk_model_destroy(model);
    return last;
}

/* It begins at 16 log(2), and can come near log(4), by which the bar is told. */
YK_TEST(an_autoencoder_learns)
{
    static const struct {
        const char *device;
        yk_amp amp;
    } ways[] = {{"ref", YK_AMP_OFF}, {"cpu", YK_AMP_OFF}, {"cpu", YK_AMP_BF16}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        double begin = train(ways[i].device, ways[i].amp, 1);
        double end = train(ways[i].device, ways[i].amp, 200);
        if (!(begin > 10 && end < 0.5 * begin))
            fail_msg("%s, amp %d: the loss fell from %g to %g", ways[i].device, (int)ways[i].amp,
                     begin, end);
    }
}

/*
 * Losses that are made of operators, as programs write them: gradients of whole models against
 * central differences, and numbers against the formulas.
 */
#include "harness.h"

#include <math.h>

enum { SAMPLES = 5, FEATURES = 6, COUNT = SAMPLES * FEATURES };

typedef struct numbers {
    double x[COUNT], target[COUNT]; /* target: from 0 to 1 */
} numbers;

/* Of x + weight, (N, FEATURES), and the target. */
typedef struct loss_case {
    const char *name;
    yk_value *(*build)(yk_value *x, yk_value *target);
    double (*formula)(const numbers *n);
} loss_case;

/* ---- cosine similarity ----------------------------------------------------------------------- */

static yk_value *column(yk_value *x)
{
    return yk_reshape(x, 2, (int64_t[]){YK_BATCH, 1});
}

static yk_value *normalised(yk_value *x)
{
    yk_value *square = yk_clamp(yk_sum(yk_pow(x, 2), 1), 1e-24, INFINITY);
    return yk_divide(x, column(yk_sqrt(square)));
}

static yk_value *build_cosine(yk_value *x, yk_value *target)
{
    yk_value *similarity = yk_sum(yk_multiply(normalised(x), normalised(target)), -1);
    return yk_add_scalar(yk_scale(yk_reduce_loss(similarity, YK_LOSS_MEAN), -1), 1);
}

static double cosine(const numbers *n)
{
    double sum = 0;
    for (int row = 0; row < SAMPLES; row++) {
        double product = 0, xx = 0, tt = 0;
        for (int i = row * FEATURES; i < (row + 1) * FEATURES; i++) {
            product += n->x[i] * n->target[i];
            xx += n->x[i] * n->x[i];
            tt += n->target[i] * n->target[i];
        }
        sum += product / sqrt(xx * tt);
    }
    return 1 - sum / SAMPLES;
}

/* ---- dice of each sample --------------------------------------------------------------------- */

static yk_value *build_dice(yk_value *x, yk_value *target)
{
    yk_value *p = yk_sigmoid(x), *both = yk_sum(yk_multiply(p, target), 1);
    yk_value *all = yk_add(yk_sum(p, 1), yk_sum(target, 1));
    yk_value *dice = yk_divide(yk_scale(both, 2), yk_add_scalar(all, 1e-3));
    return yk_scale(yk_add_scalar(yk_reduce_loss(dice, YK_LOSS_MEAN), -1), -1);
}

static double dice(const numbers *n)
{
    double sum = 0;
    for (int row = 0; row < SAMPLES; row++) {
        double both = 0, all = 1e-3;
        for (int i = row * FEATURES; i < (row + 1) * FEATURES; i++) {
            double p = 1 / (1 + exp(-n->x[i]));
            both += p * n->target[i];
            all += p + n->target[i];
        }
        sum += 2 * both / all;
    }
    return 1 - sum / SAMPLES;
}

/* ---- sums and means: KL divergence and negative log-likelihood of normal distributions ------- */

/* The first half of x is mu, the second logvar. */
static yk_value *build_kl(yk_value *x, yk_value *target)
{
    yk_value *mu = yk_slice(x, 1, 0, FEATURES / 2);
    yk_value *logvar = yk_slice(x, 1, FEATURES / 2, FEATURES / 2);
    yk_value *kl = yk_subtract(yk_add_scalar(logvar, 1), yk_add(yk_pow(mu, 2), yk_exp(logvar)));
    yk_value *mean = yk_mse_loss(x, target, YK_LOSS_MEAN);
    return yk_subtract(mean, yk_scale(yk_reduce_loss(kl, YK_LOSS_SUM), 0.5));
}

static double kl(const numbers *n)
{
    double sum = 0, squares = 0;
    for (int i = 0; i < COUNT; i++) {
        double x = n->x[i], d = x - n->target[i];
        sum += i % FEATURES < FEATURES / 2 ? -x * x : 1 + x - exp(x);
        squares += d * d;
    }
    return squares / COUNT - 0.5 * sum;
}

static yk_value *build_nll(yk_value *x, yk_value *target)
{
    yk_value *variance = yk_clamp(yk_pow(x, 2), 1e-6, INFINITY);
    yk_value *error = yk_divide(yk_pow(yk_subtract(x, target), 2), variance);
    return yk_scale(yk_reduce_loss(yk_add(yk_log(variance), error), YK_LOSS_MEAN), 0.5);
}

static double nll(const numbers *n)
{
    double sum = 0;
    for (int i = 0; i < COUNT; i++) {
        double variance = n->x[i] * n->x[i], d = n->x[i] - n->target[i];
        sum += log(variance) + d * d / variance;
    }
    return 0.5 * sum / COUNT;
}

/* ---- focal loss: (1 - p)^gamma times cross entropy ------------------------------------------- */

static yk_value *build_focal(yk_value *x, yk_value *target)
{
    yk_value *p = yk_softmax(x), *weight = yk_pow(yk_add_scalar(yk_scale(p, -1), 1), 1.5);
    yk_value *loss = yk_multiply(weight, yk_multiply(yk_abs(yk_log(p)), target));
    return yk_reduce_loss(yk_sum(loss, 1), YK_LOSS_MEAN);
}

static double focal(const numbers *n)
{
    double loss = 0;
    for (int row = 0; row < SAMPLES; row++) {
        double sum = 0;
        for (int i = row * FEATURES; i < (row + 1) * FEATURES; i++)
            sum += exp(n->x[i]);
        for (int i = row * FEATURES; i < (row + 1) * FEATURES; i++) {
            double p = exp(n->x[i]) / sum;
            loss -= pow(1 - p, 1.5) * log(p) * n->target[i];
        }
    }
    return loss / SAMPLES;
}

/* ---- running them ---------------------------------------------------------------------------- */

static const loss_case cases[] = {{"cosine", build_cosine, cosine},
                                  {"dice", build_dice, dice},
                                  {"kl", build_kl, kl},
                                  {"nll", build_nll, nll},
                                  {"focal", build_focal, focal}};
enum { CASES = sizeof cases / sizeof *cases };

static yk_model *create(const loss_case *c)
{
    yk_model *model;
    yk_graph *graph = yk_graph_create();
    const int64_t dims[] = {YK_BATCH, FEATURES};
    yk_value *x = yk_input(graph, "x", YK_F64, 2, dims);
    yk_value *target = yk_input(graph, "target", YK_F64, 2, dims);
    yk_value *weight = yk_parameter(graph, "weight", YK_F64, 1, dims + 1, YK_INIT_ZEROS, 0);
    yk_value *loss = c->build(yk_add(x, weight), target);
    assert_ok(yk_model_create(&model, loss,
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = "cpu")));
    return model;
}

static void forward(yk_model *model, numbers *n)
{
    static const char *const names[] = {"x", "target"};
    yk_tensor tensors[] = {
        {.data = n->x, .dtype = YK_F64, .ndim = 2, .dims = {SAMPLES, FEATURES}},
        {.data = n->target, .dtype = YK_F64, .ndim = 2, .dims = {SAMPLES, FEATURES}}};
    const yk_batch batch = {.size = SAMPLES, .count = 2, .names = names, .tensors = tensors};
    assert_ok(yk_model_forward(model, &batch));
}

static void check(const loss_case *c)
{
    numbers n;
    yk_model *model = create(c);
    for (int i = 0; i < COUNT; i++) {
        n.x[i] = 0.3 * (i % 3) + sin(0.7 * i + 1);
        n.target[i] = 0.5 + 0.5 * sin(1.3 * i);
    }
    forward(model, &n);
    assert_ok(yk_model_backward(model));
    const double loss = c->formula(&n), h = 1e-6;
    if (!(fabs(yk_model_loss(model) - loss) < 1e-12 * (1 + fabs(loss))))
        fail_msg("%s: the loss is %.15g, expected %.15g", c->name, yk_model_loss(model), loss);
    const yk_parameter_view weight = yk_model_parameter(model, 0);
    for (int i = 0; i < FEATURES; i++) {
        numbers above = n, below = n;
        for (int row = 0; row < SAMPLES; row++) {
            above.x[row * FEATURES + i] += h;
            below.x[row * FEATURES + i] -= h;
        }
        double slope = (c->formula(&above) - c->formula(&below)) / (2 * h);
        double found = yk_tensor_get(&weight.grad, i);
        if (!(fabs(found - slope) < 1e-7 * (1 + fabs(slope))))
            fail_msg("%s: slope %d is %.12g, expected %.12g", c->name, i, found, slope);
    }
    yk_model_destroy(model);
}

YK_TEST(losses_are_what_their_formulas_say)
{
    for (int i = 0; i < CASES; i++)
        check(&cases[i]);
}

/* F.normalize of a row of zeros: its gradient is none, not NaN. */
YK_TEST(a_row_of_zeros_has_no_direction)
{
    numbers n = {{0}, {0}};
    yk_model *model = create(&cases[0]);
    n.target[0] = 1;
    forward(model, &n);
    assert_ok(yk_model_backward(model));
    const yk_parameter_view weight = yk_model_parameter(model, 0);
    assert_true(yk_model_loss(model) == 1);
    for (int i = 0; i < FEATURES; i++)
        assert_true(isfinite(yk_tensor_get(&weight.grad, i)));
    yk_model_destroy(model);
}

/* Losses: see operator_compare.h. */
#include "harness.h"
#include "operator_compare.h"

static yk_value *build_reduce_loss(operator_case *c)
{
    yk_value *x = operator_above(c);
    return yk_reduce_loss(x, operator_once_in(&c->dice, 2) ? YK_LOSS_SUM : YK_LOSS_MEAN);
}

YK_TEST(reduce_loss_is_pytorchs)
{
    operator_compare("reduce_loss", 46, build_reduce_loss);
}

/* Labels are classes, or a share for each class; shares need not add up to 1. */
static yk_value *cross_entropy_of(operator_case *c, yk_value *logits, int class_dim,
                                  yk_value *labels)
{
    operator_dice *dice = &c->dice;
    yk_cross_entropy_options options = YK_CROSS_ENTROPY_OPTIONS_INIT;
    options.class_dim = class_dim == 1 ? 1 : -1;
    options.reduction = operator_once_in(dice, 2) ? YK_LOSS_SUM : YK_LOSS_MEAN;
    if (operator_once_in(dice, 2))
        options.label_smoothing = 0.1 * (double)operator_between(dice, 1, 10);
    if (operator_once_in(dice, 3))
        options.weight =
            yk_buffer(c->graph, "class_weight", YK_F32, 1, &logits->dims[class_dim], YK_INIT_ONES);
    /* A class, so that some labels are; PyTorch has none for probabilities. */
    if (labels->dtype == YK_I32 && operator_once_in(dice, 3))
        options.ignore_index = operator_between(dice, 0, logits->dims[1] - 1);
    return yk_cross_entropy(logits, labels, &options);
}

/* (N, C), (N, C, L) or (N, C, H, W); there are enough labels that some count. */
static yk_value *scores(operator_case *c)
{
    operator_dice *dice = &c->dice;
    int64_t dims[] = {operator_between(dice, 20, 90), operator_between(dice, 2, 60),
                      operator_between(dice, 1, 9), operator_between(dice, 1, 9)};
    int ndim = (int)operator_between(dice, 2, 4);
    dims[0] = ndim == 4 ? operator_between(dice, 15, 20) : dims[0];
    return operator_input(c, "x", ndim, dims);
}

static yk_value *build_cross_entropy(operator_case *c)
{
    yk_value *x = scores(c);
    const int64_t dims[] = {x->dims[0], x->dims[2], x->dims[3]};
    return cross_entropy_of(c, x, 1, yk_input(c->graph, "labels", YK_I32, x->ndim - 1, dims));
}

YK_TEST(cross_entropy_is_pytorchs)
{
    operator_compare("cross_entropy", 14, build_cross_entropy);
}

/* (N, T, C), where T is at most C, because labels are below T here. */
static yk_value *build_token_cross_entropy(operator_case *c)
{
    operator_dice *dice = &c->dice;
    int64_t dims[] = {operator_between(dice, 20, 40), 0, operator_between(dice, 2, 60)};
    dims[1] = operator_between(dice, 2, dims[2]);
    yk_value *x = operator_input(c, "x", 3, dims);
    if (operator_once_in(dice, 3))
        return cross_entropy_of(c, x, 2, operator_input(c, "labels", 3, dims));
    return cross_entropy_of(c, x, 2, yk_input(c->graph, "labels", YK_I32, 2, dims));
}

YK_TEST(cross_entropy_of_tokens_is_pytorchs)
{
    operator_compare("cross_entropy", 30, build_token_cross_entropy);
}

static yk_value *build_soft_cross_entropy(operator_case *c)
{
    yk_value *x = scores(c);
    return cross_entropy_of(c, x, 1, operator_input(c, "labels", x->ndim, x->dims));
}

YK_TEST(cross_entropy_of_probabilities_is_pytorchs)
{
    operator_compare("cross_entropy", 20, build_soft_cross_entropy);
}

static yk_value *build_mse_loss(operator_case *c)
{
    yk_value *x = operator_image_or_features(c);
    return yk_mse_loss(x, operator_input(c, "other", x->ndim, x->dims),
                       operator_once_in(&c->dice, 2) ? YK_LOSS_SUM : YK_LOSS_MEAN);
}

YK_TEST(mse_loss_is_pytorchs)
{
    operator_compare("mse_loss", 15, build_mse_loss);
}

static yk_loss_reduction reduction(operator_case *c)
{
    return operator_once_in(&c->dice, 2) ? YK_LOSS_SUM : YK_LOSS_MEAN;
}

/* l1_loss among them. */
static yk_value *build_smooth_l1_loss(operator_case *c)
{
    yk_value *x = operator_image_or_features(c);
    double beta = 0.3 * (double)operator_between(&c->dice, 0, 6);
    return yk_smooth_l1_loss(x, operator_input(c, "other", x->ndim, x->dims), beta, reduction(c));
}

YK_TEST(smooth_l1_loss_is_pytorchs)
{
    operator_compare("smooth_l1_loss", 28, build_smooth_l1_loss);
}

static yk_value *build_bce(operator_case *c)
{
    yk_value *x = operator_image_or_features(c);
    yk_binary_cross_entropy_options options = YK_BINARY_CROSS_ENTROPY_OPTIONS_INIT;
    options.reduction = reduction(c);
    int64_t weights = operator_once_in(&c->dice, 3) ? 1 : x->dims[1];
    if (operator_once_in(&c->dice, 2))
        options.pos_weight = yk_buffer(c->graph, "pos_weight", YK_F32, 1, &weights, YK_INIT_ONES);
    return yk_binary_cross_entropy_with_logits(x, operator_input(c, "target", x->ndim, x->dims),
                                               &options);
}

YK_TEST(binary_cross_entropy_with_logits_is_pytorchs)
{
    operator_compare("binary_cross_entropy_with_logits", 29, build_bce);
}

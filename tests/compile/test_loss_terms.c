/*
 * How a loss is split into means and sums over samples: by its reduction, as a program's own
 * operator says, and what is neither counts as a mean.
 */
#include <yoke/yoke.h>

#include "compile/rewrite.h"
#include "harness.h"

/* ---- a program's own loss -------------------------------------------------------------------- */

static yk_status shape_of_a_number(const yk_operator_node *node, yk_tensor *outputs)
{
    (void)node;
    outputs[0].ndim = 0;
    return YK_OK;
}

static yk_status run_nothing(const yk_operator_run *run)
{
    yk_tensor_set(&run->outputs[0], 0, 0);
    return YK_OK;
}

static bool is_always_sum(const void *attributes)
{
    (void)attributes;
    return true;
}

static const yk_operator_kernel kernel = {.size = sizeof(yk_operator_kernel), .run = run_nothing};
static const yk_operator own_mean = {.size = sizeof(yk_operator),
                                     .name = "own_mean",
                                     .input_count = 1,
                                     .output_count = 1,
                                     .inputs = {{.name = "x", .is_activation = true}},
                                     .shape = shape_of_a_number,
                                     .ref = &kernel};
static const yk_operator own_sum = {.size = sizeof(yk_operator),
                                    .name = "own_sum",
                                    .input_count = 1,
                                    .output_count = 1,
                                    .inputs = {{.name = "x", .is_activation = true}},
                                    .shape = shape_of_a_number,
                                    .is_sum = is_always_sum,
                                    .ref = &kernel};

/* ---- splitting ------------------------------------------------------------------------------- */

typedef struct network {
    yk_graph *graph;
    yk_value *logits, *labels; /* of samples */
    yk_value *weight;
} network;

static network begin(void)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, 2});
    return (network){.graph = graph,
                     .logits = yk_nn_linear(x, "fc", 3),
                     .labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH}),
                     .weight =
                         yk_parameter(graph, "weight", YK_F32, 1, (int64_t[]){3}, YK_INIT_ONES, 0)};
}

static yk_value *cross_entropy(const network *net, yk_loss_reduction reduction)
{
    return yk_cross_entropy(
        net->logits, net->labels,
        YK_WITH(yk_cross_entropy_options, YK_CROSS_ENTROPY_OPTIONS_INIT, o.reduction = reduction));
}

static yk_value *own(const yk_operator *op, yk_value *x)
{
    return yk_operator_apply(op, NULL, &x, NULL);
}

/* The square of a parameter, which is no loss, and the sum over all of its elements. */
static yk_value *square(const network *net)
{
    yk_value *t = yk_parameter(net->graph, "t", YK_F32, 0, NULL, YK_INIT_ONES, 0);
    return yk_multiply(t, t);
}

static yk_value *squares(const network *net)
{
    return yk_mse_loss(net->weight, yk_scale(net->weight, 0), YK_LOSS_SUM);
}

/* Splits the loss and compares its parts; NULL where it must not have one. */
static void assert_terms(const network *net, yk_value *loss, const yk_value *mean,
                         const yk_value *sum)
{
    yk_value *terms[YKI_LOSS_KINDS];
    assert_ok(net->graph->status);
    assert_ok(yki_graph_split_loss(net->graph, loss, terms));
    assert_ptr_equal(terms[YKI_LOSS_MEANS], mean);
    assert_ptr_equal(terms[YKI_LOSS_SUMS], sum);
    yk_graph_destroy(net->graph);
}

YK_TEST(losses_are_what_their_reductions_say)
{
    network net = begin();
    yk_value *loss = cross_entropy(&net, YK_LOSS_MEAN);
    assert_terms(&net, loss, loss, NULL);
    net = begin();
    loss = cross_entropy(&net, YK_LOSS_SUM);
    assert_terms(&net, loss, NULL, loss);
    net = begin();
    yk_value *mean = cross_entropy(&net, YK_LOSS_MEAN), *sum = cross_entropy(&net, YK_LOSS_SUM);
    assert_terms(&net, yk_add(sum, mean), mean, sum);
}

/* Of the reduction, whatever the loss. */
static yk_value *loss_number(const network *net, int which, yk_loss_reduction reduction)
{
    yk_value *target = yk_scale(net->logits, 0);
    switch (which) {
    case 0:
        return yk_mse_loss(net->logits, target, reduction);
    case 1:
        return yk_l1_loss(net->logits, target, reduction);
    case 2:
        return yk_smooth_l1_loss(net->logits, target, 0.5, reduction);
    case 3:
        return yk_huber_loss(net->logits, target, 0.5, reduction);
    case 4:
        return yk_reduce_loss(yk_abs(net->logits), reduction);
    default:
        return yk_binary_cross_entropy_with_logits(net->logits, target,
                                                   YK_WITH(yk_binary_cross_entropy_options,
                                                           YK_BINARY_CROSS_ENTROPY_OPTIONS_INIT,
                                                           o.reduction = reduction));
    }
}

YK_TEST(every_loss_has_its_reduction)
{
    for (int which = 0; which < 6; which++) {
        network net = begin();
        yk_value *loss = loss_number(&net, which, YK_LOSS_MEAN);
        assert_terms(&net, loss, loss, NULL);
        net = begin();
        loss = loss_number(&net, which, YK_LOSS_SUM);
        assert_terms(&net, loss, NULL, loss);
    }
}

YK_TEST(a_programs_loss_is_a_mean_unless_it_says_sum)
{
    network net = begin();
    yk_value *mean = own(&own_mean, net.logits), *sum = own(&own_sum, net.logits);
    assert_terms(&net, yk_add(sum, mean), mean, sum);
    net = begin();
    mean = own(&own_mean, net.logits);
    sum = cross_entropy(&net, YK_LOSS_SUM);
    assert_terms(&net, yk_add(mean, sum), mean, sum);
    net = begin();
    mean = own(&own_mean, net.logits);
    assert_terms(&net, mean, mean, NULL);
}

/* Each part of a batch has all of a penalty, whatever its reduction. */
YK_TEST(a_penalty_on_weights_is_a_mean)
{
    network net = begin();
    yk_value *penalty = square(&net), *sum = cross_entropy(&net, YK_LOSS_SUM);
    assert_terms(&net, yk_add(sum, penalty), penalty, sum);
    net = begin();
    penalty = squares(&net);
    sum = cross_entropy(&net, YK_LOSS_SUM);
    assert_terms(&net, yk_add(penalty, sum), penalty, sum);
    net = begin();
    yk_value *loss = yk_add(cross_entropy(&net, YK_LOSS_MEAN), yk_scale(squares(&net), 0.1));
    assert_terms(&net, loss, loss, NULL);
    net = begin();
    penalty = own(&own_sum, net.weight);
    sum = cross_entropy(&net, YK_LOSS_SUM);
    assert_terms(&net, yk_add(sum, penalty), penalty, sum);
}

YK_TEST(what_is_made_of_a_sum_is_one)
{
    network net = begin();
    yk_value *loss = yk_multiply(cross_entropy(&net, YK_LOSS_SUM), square(&net));
    assert_terms(&net, loss, NULL, loss);
}

/* The part of a sum in a difference is negated, and that of a mean gets what is added to both. */
YK_TEST(differences_are_split)
{
    network net = begin();
    yk_value *mean = cross_entropy(&net, YK_LOSS_MEAN), *sum = cross_entropy(&net, YK_LOSS_SUM);
    yk_value *terms[YKI_LOSS_KINDS], *loss = yk_add_scalar(yk_subtract(mean, sum), 3);
    assert_ok(yki_graph_split_loss(net.graph, loss, terms));
    const yki_node *shifted = terms[YKI_LOSS_MEANS]->producer;
    const yki_node *negated = terms[YKI_LOSS_SUMS]->producer;
    assert_ptr_equal(shifted->op, &yki_op_add_scalar);
    assert_ptr_equal(shifted->in[0], mean);
    assert_ptr_equal(negated->op, &yki_op_scale);
    assert_ptr_equal(negated->in[0], sum);
    assert_true(shifted->attrs.alpha == 3 && negated->attrs.alpha == -1);
    yk_graph_destroy(net.graph);
}

/* The list of operators (graph/operators.def): what is made of it fits together. */
#include "harness.h"

#include <stdio.h>

#include "device/device.h"

YK_TEST(operators_are_told_apart_by_name)
{
    for (size_t i = 0; i < YKI_OPERATORS; i++)
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(yki_operators[i]->name, yki_operators[j]->name);
}

YK_TEST(operand_numbers_count_the_operands)
{
    assert_int_equal(YKI_BATCH_NORM_RESIDUAL, 6);
    assert_int_equal(YKI_BATCH_NORM_SUMS, 7);
    assert_int_equal(YKI_BATCH_NORM_INPUTS, 8);
    assert_int_equal(YKI_BATCH_NORM_BACKWARD_DRESIDUAL, 3);
    for (size_t i = 0; i < YKI_OPERATORS; i++) {
        const yki_op *op = yki_operators[i];
        assert_in_range(op->in_count, 1, YKI_MAX_IN);
        assert_in_range(op->out_count, 1, YKI_MAX_OUT);
        assert_false(op->in[0].is_optional);
        for (int input = 0; input < op->in_count; input++)
            assert_non_null(op->in[input].name);
    }
}

/* Users build the first operators of the list, and no others: those have a policy that can be
 * seen and overridden. */
YK_TEST(every_operator_that_users_build_has_rules_and_a_policy)
{
    const char *name, *policy;
    size_t built = 0;
    for (; yk_autocast_policy(built, &name, &policy); built++) {
        const yki_op *op = yki_operators[built];
        char override[64];
        assert_string_equal(name, op->name);
        assert_true(op->infer && op->gradient);
        assert_true(op->in[0].is_activation || op->autocast == YKI_AUTOCAST_FULL);
        snprintf(override, sizeof override, "%s=%s", name, policy);
        assert_ok(yk_autocast_check(override));
    }
    assert_true(built > 0);
    for (size_t i = built; i < YKI_OPERATORS; i++)
        assert_null(yki_operators[i]->infer);
}

YK_TEST(every_operator_has_a_kernel_of_ref)
{
    for (size_t i = 0; i < YKI_OPERATORS; i++) {
        int kernels = 0;
        for (const yki_kernel_impl *const *impl = yki_device_ref.kernels; *impl; impl++)
            kernels += (*impl)->op == yki_operators[i];
        if (kernels != 1)
            fail_msg("ref has %d kernels for %s", kernels, yki_operators[i]->name);
    }
}

YK_TEST(a_missing_operand_is_named)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, 8});
    yk_value *out = yki_emit(&yki_op_linear, &(yki_attrs){0}, (yk_value *[]){x, NULL, NULL});
    assert_false(out->valid);
    assert_string_equal(graph->error, "linear: the value for the weight is NULL");
    yk_graph_destroy(graph);
}

/* yk_operator_check: the conformance suite with settings for an operator of a program. */
#include <yoke/operator.h>

#include "base/options.h"
#include "check/conformance.h"
#include "check/operand.h"

/* ref in the dtypes that are computed in, cpu in all. Threads are the caller's. */
static const yki_conformance_setting settings[] = {
    {.device = "ref", .dtype = YK_F64, .threads = 1, .tolerance = 1e-12},
    {.device = "ref", .dtype = YK_F32, .threads = 1, .tolerance = 1e-5},
    {.device = "cpu", .dtype = YK_F64, .threads = 1, .tolerance = 1e-12},
    {.device = "cpu", .dtype = YK_F32, .threads = 1, .tolerance = 1e-5},
    {.device = "cpu", .dtype = YK_BF16, .threads = 1, .tolerance = 1e-2},
    {.device = "cpu", .dtype = YK_F16, .threads = 1, .tolerance = 2e-3},
};

static yk_status check_options(const yk_operator_check_options *options)
{
    if (!(options->range > 0) || options->classes < 1 || options->threads < 1 ||
        !(options->tolerance > 0))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "yk_operator_check: range %g, classes %lld, threads %d and tolerance %g "
                         "must be above 0",
                         options->range, (long long)options->classes, options->threads,
                         options->tolerance);
    return YK_OK;
}

/* Whether autocast can give the case 16 bit. */
static yk_status find_policy(const yki_conformance_case *row, bool *low)
{
    yk_graph *graph = yk_graph_create();
    if (!graph)
        return yki_error_memory(sizeof *graph, "the check of an operator");
    row->build(graph, YK_F32, row->data);
    *low = graph->node_count > 0 && graph->nodes[0]->op->autocast != YKI_AUTOCAST_FULL;
    yk_graph_destroy(graph);
    return YK_OK;
}

static yk_status check(const yki_conformance_case *row, const yk_operator_check_options *options)
{
    bool low = false;
    if (options->gradient)
        YK_TRY(yki_conformance_gradients(row));
    if (options->autocast)
        YK_TRY(find_policy(row, &low));
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        yki_conformance_setting setting = settings[i];
        setting.threads = options->threads;
        if (setting.dtype == YK_F32)
            setting.tolerance = options->tolerance;
        if (low || !yki_dtype_is_16_bit(setting.dtype))
            YK_TRY(yki_conformance_device(row, &setting));
    }
    return options->empty_batch ? yki_conformance_empty(row) : YK_OK;
}

yk_status yk_operator_check(yk_operator_build build, const yk_operator_check_options *options)
{
    YKI_NOT_NULL(build);
    yk_operator_check_options chosen;
    YK_TRY(YKI_READ_OPTIONS(&chosen, options, yk_operator_check_options,
                            YK_OPERATOR_CHECK_OPTIONS_INIT));
    YK_TRY(check_options(&chosen));
    yki_conformance_case row = {.build = build,
                                .data = chosen.data,
                                .classes = chosen.classes,
                                .evaluation = !chosen.training,
                                .spread = chosen.range};
    return check(&row, &chosen);
}

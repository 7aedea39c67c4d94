/* See rules.h. */
#include "rules.h"

#include "libraries/cudnn_calls.h"
#include "program.h"

enum { DEVICE_ID = 2700, TYPE_INT32 = 23 };

#define ONE(descriptor, name, type, needed)                                                        \
    {                                                                                              \
        descriptor, name, CUDNN_TYPE_##type, 1, 1, needed                                          \
    }
#define CONVOLVES(descriptor, x, w, y, kind)                                                       \
    ONE(descriptor, x, DESCRIPTOR, true), ONE(descriptor, w, DESCRIPTOR, true),                    \
        ONE(descriptor, y, DESCRIPTOR, true),                                                      \
        ONE(descriptor, CUDNN_##kind##_CONVOLUTION, DESCRIPTOR, true),                             \
        ONE(descriptor, CUDNN_##kind##_ALPHA, FLOAT, false),                                       \
        ONE(descriptor, CUDNN_##kind##_ALPHA, DOUBLE, false),                                      \
        ONE(descriptor, CUDNN_##kind##_BETA, FLOAT, false),                                        \
        ONE(descriptor, CUDNN_##kind##_BETA, DOUBLE, false)

const fake_rule fake_rules[] = {
    ONE(CUDNN_TENSOR, CUDNN_TENSOR_ID, INT64, true),
    ONE(CUDNN_TENSOR, CUDNN_TENSOR_DATA_TYPE, DATA_TYPE, true),
    ONE(CUDNN_TENSOR, CUDNN_TENSOR_ALIGNMENT, INT64, true),
    ONE(CUDNN_TENSOR, CUDNN_TENSOR_IS_VIRTUAL, BOOLEAN, false),
    {CUDNN_TENSOR, CUDNN_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, 4, true},
    {CUDNN_TENSOR, CUDNN_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, 4, true},
    ONE(CUDNN_CONVOLUTION, CUDNN_CONVOLUTION_MATH, DATA_TYPE, true),
    ONE(CUDNN_CONVOLUTION, CUDNN_CONVOLUTION_MODE, CONVOLUTION_MODE, true),
    ONE(CUDNN_CONVOLUTION, CUDNN_CONVOLUTION_SPATIAL_DIMS, INT64, true),
    {CUDNN_CONVOLUTION, CUDNN_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, 2, true},
    {CUDNN_CONVOLUTION, CUDNN_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, 2, true},
    {CUDNN_CONVOLUTION, CUDNN_CONVOLUTION_STRIDES, CUDNN_TYPE_INT64, 2, 2, true},
    {CUDNN_CONVOLUTION, CUDNN_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, 2, true},
    CONVOLVES(CUDNN_OPERATION_FORWARD, CUDNN_FORWARD_X, CUDNN_FORWARD_W, CUDNN_FORWARD_Y, FORWARD),
    CONVOLVES(CUDNN_OPERATION_BACKWARD_DATA, CUDNN_BACKWARD_DATA_DX, CUDNN_BACKWARD_DATA_W,
              CUDNN_BACKWARD_DATA_DY, BACKWARD_DATA),
    CONVOLVES(CUDNN_OPERATION_BACKWARD_FILTER, CUDNN_BACKWARD_FILTER_X, CUDNN_BACKWARD_FILTER_DW,
              CUDNN_BACKWARD_FILTER_DY, BACKWARD_FILTER),
    ONE(CUDNN_POINTWISE, CUDNN_POINTWISE_MODE, POINTWISE_MODE, true),
    ONE(CUDNN_POINTWISE, CUDNN_POINTWISE_MATH, DATA_TYPE, true),
    ONE(CUDNN_OPERATION_POINTWISE, CUDNN_OPERATION_POINTWISE_DESCRIPTOR, DESCRIPTOR, true),
    ONE(CUDNN_OPERATION_POINTWISE, CUDNN_OPERATION_POINTWISE_X, DESCRIPTOR, true),
    ONE(CUDNN_OPERATION_POINTWISE, CUDNN_OPERATION_POINTWISE_B, DESCRIPTOR, false),
    ONE(CUDNN_OPERATION_POINTWISE, CUDNN_OPERATION_POINTWISE_Y, DESCRIPTOR, true),
    ONE(CUDNN_OPERATION_STATISTICS, CUDNN_STATISTICS_MODE, STATISTICS_MODE, true),
    ONE(CUDNN_OPERATION_STATISTICS, CUDNN_STATISTICS_MATH, DATA_TYPE, true),
    ONE(CUDNN_OPERATION_STATISTICS, CUDNN_STATISTICS_X, DESCRIPTOR, true),
    ONE(CUDNN_OPERATION_STATISTICS, CUDNN_STATISTICS_SUM, DESCRIPTOR, true),
    ONE(CUDNN_OPERATION_STATISTICS, CUDNN_STATISTICS_SQUARES, DESCRIPTOR, true),
    ONE(CUDNN_GRAPH, CUDNN_GRAPH_HANDLE, HANDLE, false),
    {CUDNN_GRAPH, CUDNN_GRAPH_OPERATIONS, CUDNN_TYPE_DESCRIPTOR, 1, FAKE_OPERATIONS, true},
    ONE(CUDNN_HEURISTICS, CUDNN_HEURISTICS_GRAPH, DESCRIPTOR, true),
    ONE(CUDNN_HEURISTICS, CUDNN_HEURISTICS_MODE, HEUR_MODE, true),
    ONE(CUDNN_HEURISTICS, CUDNN_HEURISTICS_DEVICE, DESCRIPTOR, false),
    ONE(CUDNN_PLAN, CUDNN_PLAN_HANDLE, HANDLE, false),
    ONE(CUDNN_PLAN, CUDNN_PLAN_DEVICE, DESCRIPTOR, false),
    ONE(CUDNN_PLAN, CUDNN_PLAN_CONFIG, DESCRIPTOR, false),
    {CUDNN_PLAN, CUDNN_PLAN_JSON, CUDNN_TYPE_CHAR, 1, INT64_MAX, false},
    {CUDNN_VARIANT_PACK, CUDNN_PACK_IDS, CUDNN_TYPE_INT64, 1, FAKE_TENSORS, true},
    {CUDNN_VARIANT_PACK, CUDNN_PACK_POINTERS, CUDNN_TYPE_VOID_PTR, 1, FAKE_TENSORS, true},
    ONE(CUDNN_VARIANT_PACK, CUDNN_PACK_WORKSPACE, VOID_PTR, true),
    {CUDNN_DEVICE, CUDNN_DEVICE_JSON, CUDNN_TYPE_CHAR, 1, INT64_MAX, false},
    {CUDNN_DEVICE, DEVICE_ID, TYPE_INT32, 1, 1, false},
};
const int fake_rule_count = sizeof fake_rules / sizeof *fake_rules;

bool fake_may_set(int descriptor, int name, int type, int64_t count)
{
    for (int i = 0; i < fake_rule_count; i++) {
        const fake_rule *r = &fake_rules[i];
        if (r->descriptor == descriptor && r->name == name && r->type == type)
            return count >= r->least && count <= r->most;
    }
    return false;
}

bool fake_may_get(int descriptor, int name, int type)
{
    static const struct {
        int descriptor, name, type;
    } answers[] = {
        {CUDNN_HEURISTICS, CUDNN_HEURISTICS_RESULTS, CUDNN_TYPE_DESCRIPTOR},
        {CUDNN_ENGINE_CONFIG, CUDNN_CONFIG_ENGINE, CUDNN_TYPE_DESCRIPTOR},
        {CUDNN_ENGINE, CUDNN_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64},
        {CUDNN_ENGINE, CUDNN_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE},
        {CUDNN_ENGINE, CUDNN_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE},
        {CUDNN_PLAN, CUDNN_PLAN_WORKSPACE, CUDNN_TYPE_INT64},
        {CUDNN_PLAN, CUDNN_PLAN_JSON, CUDNN_TYPE_CHAR},
        {CUDNN_DEVICE, CUDNN_DEVICE_JSON, CUDNN_TYPE_CHAR},
    };
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
        if (answers[i].descriptor == descriptor && answers[i].name == name)
            return answers[i].type == type;
    return false;
}

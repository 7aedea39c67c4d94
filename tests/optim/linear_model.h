/* The model of the optimizers' tests, and its elements in either dtype. */
#ifndef YK_TEST_LINEAR_MODEL_H
#define YK_TEST_LINEAR_MODEL_H

#include "harness.h"

/* Parameters are a weight (out, in) and a bias (out). */
static inline yk_model *make_linear_model(yk_dtype dtype, int64_t in, int64_t out)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "images", dtype, 2, (int64_t[]){YK_BATCH, in});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *loss = yk_cross_entropy(yk_nn_linear(x, "fc", out), labels, NULL);
    yk_model *model;
    assert_ok(yk_model_create(&model, loss,
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = "ref")));
    return model;
}

static inline void put(yk_tensor tensor, int64_t index, double value)
{
    if (tensor.dtype == YK_F64)
        ((double *)tensor.data)[index] = value;
    else
        ((float *)tensor.data)[index] = (float)value;
}

static inline double get(yk_tensor tensor, int64_t index)
{
    return tensor.dtype == YK_F64 ? ((double *)tensor.data)[index]
                                  : (double)((float *)tensor.data)[index];
}

#endif

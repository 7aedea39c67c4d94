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
    assert_ok(yk_model_create(
        &model, loss,
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = yk_test_device("ref"))));
    return model;
}

/* One element as a tensor. */
static inline yk_tensor element_of(yk_tensor tensor, int64_t index)
{
    char *data = (char *)tensor.data + (size_t)index * yk_dtype_size(tensor.dtype);
    return (yk_tensor){.data = data, .dtype = tensor.dtype, .ndim = 0, .device = tensor.device};
}

static inline void put(yk_tensor tensor, int64_t index, double value)
{
    yk_tensor element = element_of(tensor, index);
    float narrow = (float)value;
    assert_ok(yk_tensor_write(&element, tensor.dtype == YK_F64 ? (const void *)&value : &narrow));
}

static inline double get(yk_tensor tensor, int64_t index)
{
    yk_tensor element = element_of(tensor, index);
    double wide;
    float narrow;
    assert_ok(yk_tensor_read(&element, tensor.dtype == YK_F64 ? (void *)&wide : &narrow));
    return tensor.dtype == YK_F64 ? wide : (double)narrow;
}

#endif

/*
 * Graphs drawn at random, exported, in ONNX Runtime: on the same inputs the same values, within
 * 1e-3 of the largest. onnx_graphs.py judges, with the packages that scripts/install-deps installs
 * from PyPI.
 *
 * YOKE_TEST_DRAWS=N draws N graphs instead of 40, YOKE_TEST_SEED=N others.
 */
#include <stdlib.h>

#include "base/random.h"
#include "drawn_graph.h"
#include "graph/graph.h"
#include "harness.h"
#include "tensor/element.h"
#include "tensor_files.h"

enum { SAMPLES = 3 };

static void draw_numbers(yk_tensor *tensor, uint64_t key)
{
    tensor->data = malloc(yk_tensor_bytes(tensor));
    assert_non_null(tensor->data);
    drawn_numbers(key, tensor->dtype, yk_tensor_count(tensor), tensor->data);
}

/* As after some training: variances stay above 0. */
static void draw_values(yk_model *model, uint64_t seed)
{
    for (size_t i = 0; i < yk_model_parameter_count(model); i++) {
        yk_tensor value = yk_model_parameter(model, i).value, drawn = value;
        draw_numbers(&drawn, yki_hash3(seed, 2, i));
        assert_ok(yk_tensor_write(&value, drawn.data));
        free(drawn.data);
    }
    for (size_t i = 0; i < yk_model_buffer_count(model); i++) {
        yk_tensor value = yk_model_buffer(model, i).value;
        for (int64_t j = 0; value.dtype == YK_F32 && j < yk_tensor_count(&value); j++)
            ((float *)value.data)[j] += 0.1F * (float)(j % 4);
    }
    yk_model_parameters_changed(model);
}

static const char *file_of_graph(uint64_t seed, const char *name)
{
    char text[128];
    snprintf(text, sizeof text, "%llu.%s", (unsigned long long)seed, name);
    return file_of(text);
}

static void write_numbers(uint64_t seed, const char *name, const yk_tensor *tensor)
{
    yk_test_write_file(file_of_graph(seed, name), tensor->data, yk_tensor_bytes(tensor));
}

/* All inputs of the graph; the model takes those that it needs. */
static void draw_inputs(yk_batch *batch, const yk_graph *graph, uint64_t seed, const char **names,
                        yk_tensor *tensors)
{
    *batch = (yk_batch){.size = SAMPLES, .names = names, .tensors = tensors};
    for (size_t i = 0; i < graph->value_count; i++) {
        const yk_value *value = graph->values[i];
        if (value->kind != YKI_INPUT)
            continue;
        yk_tensor *tensor = &tensors[batch->count];
        *tensor = (yk_tensor){.dtype = value->dtype, .ndim = value->ndim};
        memcpy(tensor->dims, value->dims, sizeof tensor->dims);
        tensor->dims[0] = SAMPLES;
        draw_numbers(tensor, yki_hash3(seed, 3, i));
        names[batch->count++] = value->name;
        write_numbers(seed, value->name, tensor);
    }
}

static void export_graph(uint64_t seed)
{
    const char *names[DRAWN_INPUTS];
    yk_tensor tensors[DRAWN_INPUTS], values;
    yk_value *last;
    yk_model *model;
    yk_batch batch;
    const yk_graph *graph = drawn_graph(seed, YK_F32, &last)->graph;
    draw_inputs(&batch, graph, seed, names, tensors);
    assert_ok(yk_model_create(
        &model, NULL,
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = "ref", o.logits = last)));
    draw_values(model, seed);
    assert_ok(yk_model_forward(model, &batch));
    assert_ok(yk_model_output(model, &values));
    write_numbers(seed, "logits", &values);
    assert_ok(yk_model_export_onnx(model, file_of_graph(seed, "onnx")));
    yk_model_destroy(model);
    for (int i = 0; i < batch.count; i++)
        free(tensors[i].data);
}

YK_TEST(random_graphs_are_the_same_in_onnx_runtime)
{
    static char said[16384];
    uint64_t first, end;
    drawn_seeds(40, &first, &end);
    for (uint64_t seed = first; seed < end; seed++)
        export_graph(seed);
    int code = yk_test_command(said, sizeof said,
                               "cd %s && %s/python/bin/python3 %s/tests/parity/onnx_graphs.py "
                               "%llu %llu %d 2>&1",
                               yk_test_directory(), getenv("YOKE_BUILD"), getenv("YOKE_SOURCE"),
                               (unsigned long long)first, (unsigned long long)end, SAMPLES);
    if (code == 77 || code == 127)
        skip_because("no ONNX Runtime here (scripts/install-deps pypi installs it): %s", said);
    fputs(said, stdout);
    assert_int_equal(code, 0);
}

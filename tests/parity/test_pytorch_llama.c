/*
 * The model of examples/llama.c against a Llama in PyTorch (llama.py): the same weights give the
 * same logits, loss and gradients, and parameters have Hugging Face's names and shapes.
 */
#define _GNU_SOURCE
#include <math.h>
#include <string.h>

#include "../../examples/llama.h"
#include "harness.h"
#include "pytorch.h"
#include "tensor_files.h"

enum { SAMPLES = 3, TOKENS = 11, WORDS = 23 };

static const llama_config small = {.vocab_size = WORDS,
                                   .hidden_size = 24,
                                   .intermediate_size = 40,
                                   .num_hidden_layers = 2,
                                   .num_attention_heads = 4,
                                   .num_key_value_heads = 4,
                                   .rms_norm_eps = 1e-5,
                                   .rope_theta = 10000};

static yk_model *create(const llama_config *config, const char *device)
{
    yk_graph *graph = yk_graph_create();
    const int64_t dims[] = {YK_BATCH, TOKENS};
    yk_value *tokens = yk_input(graph, "tokens", YK_I32, 2, dims);
    yk_value *labels = yk_input(graph, "labels", YK_I32, 2, dims);
    yk_value *logits = llama_logits(tokens, config);
    yk_model *model;
    yk_value *loss = yk_cross_entropy(
        logits, labels,
        YK_WITH(yk_cross_entropy_options, YK_CROSS_ENTROPY_OPTIONS_INIT, o.class_dim = -1));
    assert_ok(yk_model_create(&model, loss,
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device,
                                      o.outputs = &logits, o.output_count = 1)));
    return model;
}

static void set(const yk_tensor *tensor, int64_t i, double value)
{
    if (tensor->dtype == YK_F64)
        ((double *)tensor->data)[i] = value;
    else
        ((float *)tensor->data)[i] = (float)value;
}

/* Norms are around 1. Other weights are large enough that every part of the network matters, and
 * so small that no query sees one key alone, where gradients are differences of close numbers. */
static void set_weights(yk_model *model)
{
    for (size_t p = 0; p < yk_model_parameter_count(model); p++) {
        const yk_parameter_view view = yk_model_parameter(model, p);
        const bool is_norm = view.value.ndim == 1;
        for (int64_t i = 0; i < yk_tensor_count(&view.value); i++)
            set(&view.value, i, (is_norm ? 1 : 0) + 0.15 * sin(1.3 * (double)i + 0.7 * (double)p));
    }
}

static void append(FILE *file, const yk_tensor *tensor)
{
    assert_int_equal(fwrite(tensor->data, yk_tensor_bytes(tensor), 1, file), 1);
}

/* Names and shapes as text; the numbers of parameters, gradients and logits, and the loss. */
static void write_results(yk_model *model, const char *name)
{
    char path[64];
    yk_tensor logits;
    double loss = yk_model_loss(model);
    snprintf(path, sizeof path, "%s.names", name);
    FILE *names = fopen(file_of(path), "we");
    snprintf(path, sizeof path, "%s.numbers", name);
    FILE *numbers = fopen(file_of(path), "wbe");
    assert_true(names && numbers);
    for (size_t p = 0; p < yk_model_parameter_count(model); p++) {
        const yk_parameter_view view = yk_model_parameter(model, p);
        fputs(view.name, names);
        for (int d = 0; d < view.value.ndim; d++)
            fprintf(names, " %lld", (long long)view.value.dims[d]);
        fputc('\n', names);
        append(numbers, &view.value);
        append(numbers, &view.grad);
    }
    assert_ok(yk_model_output_at(model, 0, &logits));
    append(numbers, &logits);
    assert_int_equal(fwrite(&loss, sizeof loss, 1, numbers), 1);
    assert_int_equal(fclose(names) | fclose(numbers), 0);
}

static void compare(const char *device, yk_dtype dtype, bool tied, int64_t kv_heads)
{
    static const char *const inputs[] = {"tokens", "labels"};
    int32_t tokens[SAMPLES * TOKENS], labels[SAMPLES * TOKENS];
    for (int i = 0; i < SAMPLES * TOKENS; i++) {
        tokens[i] = i * i * 7 % WORDS;
        labels[i] = (i * 5 + 3) % WORDS;
    }
    const yk_tensor tensors[] = {
        {.data = tokens, .dtype = YK_I32, .ndim = 2, .dims = {SAMPLES, TOKENS}},
        {.data = labels, .dtype = YK_I32, .ndim = 2, .dims = {SAMPLES, TOKENS}}};
    const yk_batch batch = {.size = SAMPLES, .count = 2, .names = inputs, .tensors = tensors};
    llama_config config = small;
    config.dtype = dtype;
    config.tie_word_embeddings = tied;
    config.num_key_value_heads = kv_heads;
    yk_model *model = create(&config, device);
    set_weights(model);
    assert_ok(yk_model_forward(model, &batch));
    assert_ok(yk_model_backward(model));
    write_results(model, device);
    yk_model_destroy(model);
    pytorch_judges("llama.py", "%s/%s %s %d %d %g", yk_test_directory(), device,
                   dtype == YK_F64 ? "float64" : "float32", tied, (int)kv_heads,
                   dtype == YK_F64 ? 1e-11 : 1e-5);
}

YK_TEST(llama_in_f64_is_pytorchs)
{
    compare("ref", YK_F64, false, 4);
}

YK_TEST(llama_in_f32_is_pytorchs)
{
    compare("cpu", YK_F32, false, 4);
}

YK_TEST(llama_with_a_tied_head_is_pytorchs)
{
    compare("cpu", YK_F32, true, 4);
    compare("ref", YK_F64, true, 4);
}

YK_TEST(llama_with_grouped_queries_is_pytorchs)
{
    compare("ref", YK_F64, false, 2);
    compare("cpu", YK_F32, false, 1);
}

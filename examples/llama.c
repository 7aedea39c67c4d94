/*
 * A small Llama learns to write, character by character, as gpt.c does, on as many processes as a
 * launcher has started. Its parameters have the names of Hugging Face's LlamaForCausalLM: with
 * --save DIR, the program writes config.json and model.safetensors, which
 * LlamaForCausalLM.from_pretrained("DIR") opens.
 *
 *     ./llama                                  sentences that the program makes itself
 *     yoke run -n 2 -- ./llama --text FILE     two processes, any text, such as Shakespeare's
 */
#define _POSIX_C_SOURCE 200809L
#include "llama.h"

#include <sys/stat.h>

#include "characters.h"

static yk_model *create_model(const llama_config *config, const writing_options *writing)
{
    yk_graph *graph = yk_graph_create();
    const int64_t dims[] = {YK_BATCH, writing->block_size};
    yk_value *tokens = yk_input(graph, "tokens", YK_I32, 2, dims);
    yk_value *labels = yk_input(graph, "labels", YK_I32, 2, dims);
    yk_value *logits = llama_logits(tokens, config);
    yk_cross_entropy_options loss = YK_CROSS_ENTROPY_OPTIONS_INIT;
    loss.class_dim = -1; /* logits (N, T, V), labels (N, T) */

    yk_model *model;
    yk_model_options options = YK_MODEL_OPTIONS_INIT;
    options.device = writing->device;
    options.logits = logits;
    YK_CHECK(yk_model_create(&model, yk_cross_entropy(logits, labels, &loss), &options));
    return model;
}

/* ---- for transformers ------------------------------------------------------------------------ */

static void write_config(FILE *file, const llama_config *config, int64_t positions)
{
    fprintf(file,
            "{\n  \"architectures\": [\"LlamaForCausalLM\"],\n  \"model_type\": \"llama\",\n");
    fprintf(file, "  \"hidden_act\": \"silu\",\n  \"attention_bias\": false,\n");
    fprintf(file, "  \"mlp_bias\": false,\n  \"torch_dtype\": \"float32\",\n");
    fprintf(file, "  \"vocab_size\": %lld,\n", (long long)config->vocab_size);
    fprintf(file, "  \"hidden_size\": %lld,\n", (long long)config->hidden_size);
    fprintf(file, "  \"intermediate_size\": %lld,\n", (long long)config->intermediate_size);
    fprintf(file, "  \"num_hidden_layers\": %lld,\n", (long long)config->num_hidden_layers);
    fprintf(file, "  \"num_attention_heads\": %lld,\n", (long long)config->num_attention_heads);
    fprintf(file, "  \"num_key_value_heads\": %lld,\n", (long long)config->num_key_value_heads);
    fprintf(file, "  \"max_position_embeddings\": %lld,\n", (long long)positions);
    fprintf(file, "  \"rms_norm_eps\": %g,\n", config->rms_norm_eps);
    fprintf(file, "  \"rope_theta\": %.1f,\n", config->rope_theta);
    fprintf(file, "  \"tie_word_embeddings\": %s\n}\n",
            config->tie_word_embeddings ? "true" : "false");
}

/* Before training, which would be lost if nothing could be written. */
static void save_config(const char *directory, const llama_config *config, int64_t positions)
{
    char path[4096];
    mkdir(directory, 0777); /* it may be there already */
    snprintf(path, sizeof path, "%s/config.json", directory);
    FILE *file = fopen(path, "w");
    if (!file) {
        perror(path);
        exit(1);
    }
    write_config(file, config, positions);
    if (fclose(file)) {
        perror(path);
        exit(1);
    }
}

static void save_weights(const char *directory, const yk_model *model)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/model.safetensors", directory);
    YK_CHECK(yk_model_save(model, path));
}

/* ---- the program ---------------------------------------------------------------------------- */

/* The value of a flag that is "yes" or "no". */
static bool is_yes(const char *name, const char *text)
{
    if (strcmp(text, "yes") != 0 && strcmp(text, "no") != 0) {
        fprintf(stderr, "--%s %s: expected yes or no\n", name, text);
        exit(2);
    }
    return strcmp(text, "yes") == 0;
}

static void choose_heads(llama_config *config)
{
    if (config->num_key_value_heads == 0)
        config->num_key_value_heads = config->num_attention_heads;
    const long long heads = config->num_attention_heads, kv_heads = config->num_key_value_heads;
    if (kv_heads >= 1 && heads % kv_heads == 0)
        return;
    fprintf(stderr, "--kv-heads %lld: expected a divisor of the %lld heads\n", kv_heads, heads);
    exit(2);
}

int main(int argc, char **argv)
{
    llama_config config = {.vocab_size = CHARACTERS,
                           .hidden_size = 64,
                           .num_hidden_layers = 2,
                           .num_attention_heads = 4,
                           .rms_norm_eps = 1e-5,
                           .rope_theta = 10000,
                           .dtype = YK_F32};
    writing_options writing = WRITING_DEFAULTS;
    const char *directory = NULL, *tied = "no";
    const flag flags[] = {
        {"layers", "N", "decoder layers [2]", .number = &config.num_hidden_layers},
        {"heads", "N", "of attention [4]", .number = &config.num_attention_heads},
        {"kv-heads", "N", "of its keys and values [as many]",
         .number = &config.num_key_value_heads},
        {"width", "N", "numbers for each character [64]", .number = &config.hidden_size},
        {"tied", "yes|no", "the head has the embeddings' weight [no]", .text = &tied},
        {"save", "DIR", "write what transformers opens [nothing]", .text = &directory},
        WRITING_FLAGS(&writing)};
    setvbuf(stdout, NULL, _IOLBF, 0);
    parse_flags(argc, argv, flags, sizeof flags / sizeof *flags);
    config.tie_word_embeddings = is_yes("tied", tied);
    choose_heads(&config);
    /* As many weights as in an MLP of two layers and four widths, in multiples of 8. */
    config.intermediate_size = (config.hidden_size * 8 / 3 + 7) / 8 * 8;
    yk_group *world;
    YK_CHECK(yk_group_init(&world, NULL)); /* alone, a group of one */
    yk_model *model = create_model(&config, &writing);
    bool saves = directory && yk_group_rank(world) == 0;
    if (saves)
        save_config(directory, &config, writing.block_size);
    learn_to_write(&writing, model, world);
    if (saves)
        save_weights(directory, model);
    yk_model_destroy(model);
    yk_group_destroy(world);
    return 0;
}

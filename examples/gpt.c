/*
 * A small GPT learns to write, character by character, on as many processes as a launcher has
 * started. It reads side by side with the last part of PyTorch's tutorials on DDP, "Training
 * real-world models with DDP", which trains Karpathy's minGPT on the characters of a text. Its
 * parameters have GPT-2's names. At the end it shows what it has learnt: it continues the
 * text from its first character.
 *
 *     ./gpt                                    sentences that the program makes itself
 *     yoke run -n 2 -- ./gpt --text FILE       two processes, any text, such as Shakespeare's
 */
#define _POSIX_C_SOURCE 200809L
#include "common.h"

#include <math.h>

typedef struct gpt_config {
    int64_t n_layer, n_head, n_embd, block_size, batch_size, max_steps, length;
    const char *text, *device;
} gpt_config;

/* ---- data: a sample is block_size characters, from any position on --------------------------- */

enum { CHARACTERS = 256, MADE = 20000 };

typedef struct char_dataset {
    char *text;
    int64_t count, block_size;
} char_dataset;

/* What the model reads, and after each of these characters the one that follows. */
static yk_status read_block(void *data, void *worker, int64_t index, yk_field_buffer *buffers)
{
    const char_dataset *set = data;
    int32_t *tokens = buffers[0].data, *labels = buffers[1].data;
    (void)worker;
    for (int64_t i = 0; i < set->block_size; i++) {
        tokens[i] = (unsigned char)set->text[index + i];
        labels[i] = (unsigned char)set->text[index + i + 1];
    }
    return YK_OK;
}

/* Sentences of a few words, which a small model learns in seconds. */
static void make_text(FILE *to)
{
    static const char *const words[3][4] = {
        {"the cat ", "a dog ", "my horse ", "one bird "},
        {"sees ", "likes ", "follows ", "hears "},
        {"the farmer.\n", "a mouse.\n", "my aunt.\n", "rain.\n"}};
    unsigned draw = 1;
    for (int word = 0; ftell(to) < MADE; word = (word + 1) % 3) {
        draw = draw * 1103515245u + 12345u;
        fputs(words[word][draw >> 16 & 3], to);
    }
}

static void copy_text(FILE *to, const char *path)
{
    FILE *from = fopen(path, "rb");
    for (int c; from && (c = getc(from)) != EOF;)
        putc(c, to);
    if (!from || fclose(from)) {
        perror(path);
        exit(1);
    }
}

static yk_dataset *open_text(char_dataset *set, const gpt_config *config)
{
    size_t size;
    *set = (char_dataset){.block_size = config->block_size};
    FILE *memory = open_memstream(&set->text, &size);
    if (config->text)
        copy_text(memory, config->text);
    else
        make_text(memory);
    fclose(memory);
    set->count = (int64_t)size - set->block_size;
    if (set->count < 1) {
        fprintf(stderr, "the text has %zu characters, expected more than --block-size\n", size);
        exit(2);
    }
    const yk_field fields[] = {{"tokens", YK_FIELD_TENSOR, YK_I32, 1, {set->block_size}},
                               {"labels", YK_FIELD_TENSOR, YK_I32, 1, {set->block_size}}};
    yk_dataset_ops ops = YK_DATASET_OPS_INIT;
    yk_dataset *dataset;
    ops.name = "text";
    ops.count = set->count;
    ops.field_count = 2;
    ops.fields = fields;
    ops.read = read_block;
    YK_CHECK(yk_dataset_create(&dataset, &ops, set)); /* set outlives it */
    return dataset;
}

/* ---- the model ------------------------------------------------------------------------------ */

enum { VALUES_OF_A_TOKEN = 3 /* query, key, value */ };
static const double dropout = 0.1;

static yk_value *causal_self_attention(yk_value *x, const gpt_config *config)
{
    yk_attention_options options = YK_ATTENTION_OPTIONS_INIT;
    options.num_heads = config->n_head;
    options.is_causal = true;
    options.dropout_p = dropout;
    x = yk_nn_linear(x, "attn.c_attn", VALUES_OF_A_TOKEN * config->n_embd);
    x = yk_scaled_dot_product_attention(x, NULL, NULL, &options);
    return yk_dropout(yk_nn_linear(x, "attn.c_proj", config->n_embd), dropout);
}

static yk_value *block(yk_value *x, const gpt_config *config)
{
    x = yk_add(x, causal_self_attention(yk_nn_layer_norm(x, "ln_1", 1e-5), config));
    yk_value *y = yk_nn_linear(yk_nn_layer_norm(x, "ln_2", 1e-5), "mlp.c_fc", 4 * config->n_embd);
    return yk_add(x, yk_dropout(yk_nn_linear(yk_gelu(y), "mlp.c_proj", config->n_embd), dropout));
}

/* minGPT's: the layers whose sums all blocks add up begin with less. */
static void init_weights(yk_model *model, const gpt_config *config)
{
    YK_CHECK(yk_nn_init_normal(model, "w?e.weight", 0, 0.02)); /* embeddings */
    YK_CHECK(yk_nn_init_normal(model, "*.c_*.weight", 0, 0.02));
    YK_CHECK(yk_nn_init_normal(model, "lm_head.weight", 0, 0.02));
    YK_CHECK(yk_nn_init_constant(model, "*.c_*.bias", 0));
    YK_CHECK(yk_nn_init_constant(model, "lm_head.bias", 0));
    double deviation = 0.02 / sqrt(2 * (double)config->n_layer);
    YK_CHECK(yk_nn_init_normal(model, "*.c_proj.weight", 0, deviation));
}

static yk_model *create_model(const gpt_config *config)
{
    yk_graph *graph = yk_graph_create();
    const int64_t dims[] = {YK_BATCH, config->block_size};
    yk_value *tokens = yk_input(graph, "tokens", YK_I32, 2, dims);
    yk_value *labels = yk_input(graph, "labels", YK_I32, 2, dims);
    yk_value *positions =
        yk_parameter(graph, "wpe.weight", YK_F32, 2,
                     (int64_t[]){config->block_size, config->n_embd}, YK_INIT_NORMAL, 0);
    yk_value *x = yk_nn_embedding(tokens, "wte", CHARACTERS, config->n_embd);
    x = yk_dropout(yk_add(x, positions), dropout); /* which are the same in all samples */
    for (int64_t layer = 0; layer < config->n_layer; layer++) {
        char name[32];
        snprintf(name, sizeof name, "h.%lld", (long long)layer);
        yk_scope_push(graph, name);
        x = block(x, config);
        yk_scope_pop(graph);
    }
    yk_value *logits = yk_nn_linear(yk_nn_layer_norm(x, "ln_f", 1e-5), "lm_head", CHARACTERS);
    yk_cross_entropy_options loss = YK_CROSS_ENTROPY_OPTIONS_INIT;
    loss.class_dim = -1; /* logits (N, T, V), labels (N, T) */

    yk_model *model;
    yk_model_options options = YK_MODEL_OPTIONS_INIT;
    options.device = config->device;
    options.logits = logits;
    YK_CHECK(yk_model_create(&model, yk_cross_entropy(logits, labels, &loss), &options));
    init_weights(model, config);
    return model;
}

/* ---- training ------------------------------------------------------------------------------- */

static void train(const gpt_config *config, yk_model *model, yk_optimizer *optimizer,
                  yk_loader *loader, yk_group *world)
{
    yk_loss_meter *meter; /* of the steps since the last line */
    YK_CHECK(yk_loss_meter_create(&meter, model));
    int64_t step = 0;
    while (step < config->max_steps) {
        const yk_batch *batch = yk_loader_next(loader);
        YK_CHECK(yk_loader_status(loader));
        if (!batch) /* the end of an epoch; the next begins by itself */
            continue;
        YK_CHECK(yk_model_forward(model, batch));
        YK_CHECK(yk_model_backward(model)); /* averages the gradients over the ranks */
        YK_CHECK(yk_clip_grad_norm(optimizer, 1, NULL));
        YK_CHECK(yk_optimizer_step(optimizer));
        YK_CHECK(yk_loss_meter_update(meter, (double)batch->size));
        if (++step % 50 && step < config->max_steps)
            continue;
        double mean;
        YK_CHECK(yk_loss_meter_compute(&mean, meter));
        YK_CHECK(yk_mean_over_ranks(&mean, world, mean, 1));
        if (yk_group_rank(world) == 0)
            printf("Step %lld: training loss %.4f\n", (long long)step, mean);
    }
    yk_loss_meter_destroy(meter);
}

/* ---- generating ----------------------------------------------------------------------------- */

/* Draws the next character as often as the model expects it. */
static int32_t draw_next(const float *logits, unsigned *state)
{
    double sum = 0, most = logits[0];
    for (int i = 1; i < CHARACTERS; i++)
        most = fmax(most, logits[i]);
    for (int i = 0; i < CHARACTERS; i++)
        sum += exp(logits[i] - most);
    *state = *state * 1103515245u + 12345u;
    double left = sum * (*state >> 8) / 0x1p24;
    int next = 0;
    while (next < CHARACTERS - 1 && (left -= exp(logits[next] - most)) >= 0)
        next++;
    return next;
}

/* What follows the text's first character. A position does not see those after it, so it does not
 * matter what is there. */
static void generate(const gpt_config *config, yk_model *model, const char_dataset *set)
{
    static const char *const names[] = {"tokens"};
    const int64_t size = config->block_size;
    int32_t *tokens = calloc((size_t)size, sizeof *tokens);
    float *values = malloc((size_t)(size * CHARACTERS) * sizeof *values);
    unsigned state = 1;
    yk_tensor input = {.data = tokens, .dtype = YK_I32, .ndim = 2, .dims = {1, size}}, logits;
    yk_batch batch = {.size = 1, .count = 1, .names = names, .tensors = &input};
    yk_model_eval(model);
    tokens[0] = (unsigned char)set->text[0];
    putchar(tokens[0]);
    for (int64_t written = 1, last = 0; written < config->length; written++) {
        YK_CHECK(yk_model_forward(model, &batch));
        YK_CHECK(yk_model_output(model, &logits));
        YK_CHECK(yk_tensor_read(&logits, values));
        int32_t next = draw_next(values + last * CHARACTERS, &state);
        putchar(next);
        if (++last == size) /* the oldest gives way */
            memmove(tokens, tokens + 1, (size_t)--last * sizeof *tokens);
        tokens[last] = next;
    }
    putchar('\n');
    free(values);
    free(tokens);
}

/* ---- the program ---------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    gpt_config config = {2, 4, 64, 64, 32, 300, 200, NULL, "cpu"};
    const flag flags[] = {
        {"text", "FILE", "the text [sentences that the program makes]", .text = &config.text},
        {"layers", "N", "blocks [2]", .number = &config.n_layer},
        {"heads", "N", "of attention [4]", .number = &config.n_head},
        {"width", "N", "numbers for each character [64]", .number = &config.n_embd},
        {"block-size", "N", "characters that the model sees [64]", .number = &config.block_size},
        {"batch-size", "N", "samples of each process [32]", .number = &config.batch_size},
        {"max-steps", "N", "steps [300]", .number = &config.max_steps},
        {"length", "N", "characters that are written at the end [200]", .number = &config.length},
        FLAG_DEVICE(&config.device)};
    setvbuf(stdout, NULL, _IOLBF, 0);
    parse_flags(argc, argv, flags, sizeof flags / sizeof *flags);
    yk_group *world;
    YK_CHECK(yk_group_init(&world, NULL)); /* alone, a group of one */

    char_dataset set;
    yk_dataset *dataset = open_text(&set, &config);
    yk_model *model = create_model(&config);
    yk_ddp *ddp;
    YK_CHECK(yk_ddp_create(&ddp, model, world, NULL));
    yk_optimizer *optimizer;
    yk_adam_options adam = YK_ADAM_OPTIONS_INIT;
    adam.decoupled = true;
    adam.weight_decay = 0.1;
    YK_CHECK(yk_adam_create(&optimizer, model, &adam));
    yk_loader *loader; /* each rank gets its own part of every epoch */
    yk_loader_options options = YK_LOADER_OPTIONS_INIT;
    options.group = world;
    options.batch_size = config.batch_size;
    options.shuffle = true;
    YK_CHECK(yk_loader_create(&loader, dataset, &options));

    train(&config, model, optimizer, loader, world);
    if (yk_group_rank(world) == 0)
        generate(&config, model, &set);

    yk_loader_destroy(loader);
    yk_dataset_destroy(dataset);
    yk_optimizer_destroy(optimizer);
    yk_ddp_destroy(ddp);
    yk_model_destroy(model);
    yk_group_destroy(world);
    free(set.text);
    return 0;
}

/*
 * What the examples that learn to write share: a data set of the characters of a text, and writing
 * with the model. A model reads "tokens" (N, block_size) and
 * "labels", and its logits are (N, block_size, CHARACTERS).
 */
#ifndef YOKE_EXAMPLES_CHARACTERS_H
#define YOKE_EXAMPLES_CHARACTERS_H

#include "training.h"

#include <math.h>

/* ---- data: a sample is block_size characters, from any position on --------------------------- */

enum { CHARACTERS = 256, MADE = 20000 };

typedef struct char_dataset {
    char *text;
    int64_t count, block_size;
} char_dataset;

/* How a model of characters is trained, and what it writes. */
typedef struct writing_options {
    int64_t block_size, batch_size, max_steps, length;
    const char *text, *device;
} writing_options;

#define WRITING_DEFAULTS                                                                           \
    {                                                                                              \
        64, 32, 300, 200, NULL, "cpu"                                                              \
    }

#define WRITING_FLAGS(options)                                                                     \
    {"text", "FILE", "the text [sentences that the program makes]", .text = &(options)->text},     \
        {"block-size", "N", "characters that the model sees [64]",                                 \
         .number = &(options)->block_size},                                                        \
        {"batch-size", "N", "samples of each process [32]", .number = &(options)->batch_size},     \
        {"max-steps", "N", "steps [300]", .number = &(options)->max_steps},                        \
        {"length", "N", "characters that are written at the end [200]",                            \
         .number = &(options)->length},                                                            \
        FLAG_DEVICE(&(options)->device)

/* What the model reads, and after each of these characters the one that follows. */
static inline yk_status read_block(void *data, void *worker, int64_t index,
                                   yk_field_buffer *buffers)
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
static inline void make_text(FILE *to)
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

static inline void copy_text(FILE *to, const char *path)
{
    FILE *from = fopen(path, "rb");
    for (int c; from && (c = getc(from)) != EOF;)
        putc(c, to);
    if (!from || ferror(from) || fclose(from)) {
        perror(path);
        exit(1);
    }
}

static inline yk_dataset *open_text(char_dataset *set, const writing_options *o)
{
    size_t size;
    *set = (char_dataset){.block_size = o->block_size};
    FILE *memory = open_memstream(&set->text, &size);
    if (o->text)
        copy_text(memory, o->text);
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

/* ---- generating ----------------------------------------------------------------------------- */

/* Draws the next character as often as the model expects it. */
static inline int32_t draw_next(const float *logits, unsigned *state)
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
static inline void generate(const writing_options *o, yk_model *model, const char_dataset *set)
{
    static const char *const names[] = {"tokens"};
    const int64_t size = o->block_size;
    int32_t *tokens = calloc((size_t)size, sizeof *tokens);
    float *values = malloc((size_t)(size * CHARACTERS) * sizeof *values);
    unsigned state = 1;
    yk_tensor input = {.data = tokens, .dtype = YK_I32, .ndim = 2, .dims = {1, size}}, logits;
    yk_batch batch = {.size = 1, .count = 1, .names = names, .tensors = &input};
    yk_model_eval(model);
    tokens[0] = (unsigned char)set->text[0];
    putchar(tokens[0]);
    for (int64_t written = 1, last = 0; written < o->length; written++) {
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

/* ---- all of it ------------------------------------------------------------------------------ */

/* Trains the model, which is the same on all ranks, and shows what it has learnt: it continues the
 * text from its first character. */
static inline void learn_to_write(const writing_options *o, yk_model *model, yk_group *world)
{
    char_dataset set;
    yk_dataset *dataset = open_text(&set, o);
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
    options.batch_size = o->batch_size;
    options.shuffle = true;
    YK_CHECK(yk_loader_create(&loader, dataset, &options));

    train(model, optimizer, loader, world, o->max_steps);
    if (yk_group_rank(world) == 0)
        generate(o, model, &set);

    yk_loader_destroy(loader);
    yk_dataset_destroy(dataset);
    yk_optimizer_destroy(optimizer);
    yk_ddp_destroy(ddp);
    free(set.text);
}

#endif

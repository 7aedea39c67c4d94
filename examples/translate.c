/*
 * A transformer learns to read numbers: it translates the digits of 377042 into "three hundred
 * seventy seven thousand forty two", on as many processes as a launcher has started. It reads side
 * by side with PyTorch's tutorial "Language Translation with nn.Transformer": an encoder reads the
 * digits, and a decoder writes one word after the other. At the end it translates numbers that it
 * has not seen.
 *
 *     ./translate
 *     yoke run -n 2 -- ./translate --max-steps 3000        two processes, a longer training
 */
#define _POSIX_C_SOURCE 200809L
#include "training.h"

typedef struct translate_config {
    int64_t layers, heads, width, batch_size, max_steps;
    const char *device;
} translate_config;

/* ---- both languages ------------------------------------------------------------------------- */

enum {
    DIGITS = 6,      /* of a number, at most */
    WORDS = 10,      /* of a number, at most, with the end */
    HELD_OUT = 17,   /* numbers above 9 that it divides are not trained on */
    BEGIN = 0,       /* before the first word */
    END = 1,         /* after the last one */
    FIRST_WORD = 2,  /* that of words[0] */
    NO_LABEL = -100, /* which the loss ignores */
    PADDING = 10,    /* after the digits 0 to 9 */
    SOURCE_TOKENS = PADDING + 1,
};

static const char *const words[] = {
    "zero",    "one",       "two",      "three",    "four",    "five",     "six",      "seven",
    "eight",   "nine",      "ten",      "eleven",   "twelve",  "thirteen", "fourteen", "fifteen",
    "sixteen", "seventeen", "eighteen", "nineteen", "twenty",  "thirty",   "forty",    "fifty",
    "sixty",   "seventy",   "eighty",   "ninety",   "hundred", "thousand"};
enum { TWENTY = 20, HUNDRED = 28, THOUSAND = 29, TARGET_TOKENS = FIRST_WORD + 30 };

/* Appends the words of a number below 1000, none of zero. Returns how many there are. */
static int name_below_1000(int64_t number, int32_t *tokens)
{
    int count = 0;
    if (number >= 100) {
        tokens[count++] = FIRST_WORD + (int32_t)(number / 100);
        tokens[count++] = FIRST_WORD + HUNDRED;
    }
    number %= 100;
    if (number >= 20) {
        tokens[count++] = FIRST_WORD + TWENTY + (int32_t)(number / 10) - 2;
        number %= 10;
    }
    if (number > 0)
        tokens[count++] = FIRST_WORD + (int32_t)number;
    return count;
}

/* The words of a number and END. Returns how many tokens there are. */
static int name_number(int64_t number, int32_t tokens[WORDS])
{
    int count = name_below_1000(number / 1000, tokens);
    if (count > 0)
        tokens[count++] = FIRST_WORD + THOUSAND;
    count += name_below_1000(number % 1000, tokens + count);
    if (count == 0)
        tokens[count++] = FIRST_WORD;
    tokens[count++] = END;
    return count;
}

static void write_digits(int64_t number, int32_t tokens[DIGITS], float padding[DIGITS])
{
    char text[32];
    int count = snprintf(text, sizeof text, "%lld", (long long)number);
    for (int i = 0; i < DIGITS; i++) {
        tokens[i] = i < count ? text[i] - '0' : PADDING;
        padding[i] = i < count ? 0 : 1;
    }
}

/* ---- data: numbers of all lengths, equally often -------------------------------------------- */

enum { SAMPLES = 100000 };

/* One of so many digits or fewer; other seeds, other numbers. */
static int64_t draw_number(int64_t digits, int64_t seed)
{
    int64_t end = 10;
    while (--digits > 0)
        end *= 10;
    return seed * 15485863 % 1000003 % end;
}

static yk_status read_number(void *data, void *worker, int64_t index, yk_field_buffer *buffers)
{
    int32_t *begun = buffers[2].data, *labels = buffers[3].data;
    int64_t number = draw_number(1 + index % DIGITS, index);
    if (number > 9 && number % HELD_OUT == 0)
        number--;
    (void)data, (void)worker;
    write_digits(number, buffers[0].data, buffers[1].data);
    int count = name_number(number, labels);
    begun[0] = BEGIN;
    for (int i = 1; i < WORDS; i++)
        begun[i] = i < count ? labels[i - 1] : END;
    for (int i = count; i < WORDS; i++)
        labels[i] = NO_LABEL;
    return YK_OK;
}

static yk_dataset *open_numbers(void)
{
    static const yk_field fields[] = {{"digits", YK_FIELD_TENSOR, YK_I32, 1, {DIGITS}},
                                      {"padding", YK_FIELD_TENSOR, YK_F32, 1, {DIGITS}},
                                      {"words", YK_FIELD_TENSOR, YK_I32, 1, {WORDS}},
                                      {"labels", YK_FIELD_TENSOR, YK_I32, 1, {WORDS}}};
    yk_dataset_ops ops = YK_DATASET_OPS_INIT;
    yk_dataset *dataset;
    ops.name = "numbers";
    ops.count = SAMPLES;
    ops.field_count = sizeof fields / sizeof *fields;
    ops.fields = fields;
    ops.read = read_number;
    YK_CHECK(yk_dataset_create(&dataset, &ops, NULL));
    return dataset;
}

/* ---- the model ------------------------------------------------------------------------------ */

/* Tokens (N, T) and what is learnt of their positions: (N, T, width). */
static yk_value *embed(yk_value *tokens, const char *name, int64_t count, int64_t width)
{
    int64_t dims[YK_MAX_DIMS];
    yk_graph *graph = yk_value_graph(tokens);
    yk_value_shape(tokens, dims);
    yk_scope_push(graph, name);
    yk_value *x = yk_nn_embedding(tokens, "tokens", count, width);
    yk_value *positions = yk_parameter(graph, "positions", YK_F32, 2, (int64_t[]){dims[1], width},
                                       YK_INIT_NORMAL_0_02, 0);
    yk_scope_pop(graph);
    return yk_add(x, positions);
}

static yk_model *create_model(const translate_config *config)
{
    yk_graph *graph = yk_graph_create();
    yk_value *digits = yk_input(graph, "digits", YK_I32, 2, (int64_t[]){YK_BATCH, DIGITS});
    yk_value *padding = yk_input(graph, "padding", YK_F32, 2, (int64_t[]){YK_BATCH, DIGITS});
    yk_value *begun = yk_input(graph, "words", YK_I32, 2, (int64_t[]){YK_BATCH, WORDS});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 2, (int64_t[]){YK_BATCH, WORDS});

    yk_nn_transformer_options options = YK_NN_TRANSFORMER_OPTIONS_INIT;
    options.num_heads = config->heads;
    options.dim_feedforward = 4 * config->width;
    options.norm_first = options.final_norm = true;
    options.key_padding_mask = padding;
    yk_value *source = embed(digits, "source", SOURCE_TOKENS, config->width);
    yk_value *memory = yk_nn_transformer_encoder(source, "encoder", config->layers, &options);

    options.key_padding_mask = NULL; /* words come last, so none sees the padding after it */
    options.memory_key_padding_mask = padding;
    options.is_causal = true;
    yk_value *target = embed(begun, "target", TARGET_TOKENS, config->width);
    yk_value *x = yk_nn_transformer_decoder(target, memory, "decoder", config->layers, &options);

    yk_model *model;
    yk_model_options model_options = YK_MODEL_OPTIONS_INIT;
    model_options.device = config->device;
    model_options.logits = yk_nn_linear(x, "generator", TARGET_TOKENS);
    yk_cross_entropy_options loss = YK_CROSS_ENTROPY_OPTIONS_INIT;
    loss.class_dim = -1; /* logits (N, T, V), labels (N, T) */
    yk_value *mean = yk_cross_entropy(model_options.logits, labels, &loss);
    YK_CHECK(yk_model_create(&model, mean, &model_options));
    return model;
}

/* ---- translating ---------------------------------------------------------------------------- */

enum { ASKED = 200 /* numbers that are held out */ };

/* Numbers, and what the decoder has said of them so far. */
typedef struct questions {
    int64_t number[ASKED];
    int32_t digits[ASKED][DIGITS];
    float padding[ASKED][DIGITS];
    int32_t said[ASKED][WORDS];
} questions;

static int32_t likeliest(const float *logits)
{
    int32_t best = 0;
    for (int32_t token = 1; token < TARGET_TOKENS; token++)
        best = logits[token] > logits[best] ? token : best;
    return best;
}

/* Word after word, the likeliest that follows those before it. */
static void translate(yk_model *model, questions *q)
{
    static const char *const names[] = {"digits", "padding", "words"};
    static int32_t begun[ASKED][WORDS];
    static float values[ASKED][WORDS][TARGET_TOKENS];
    const yk_tensor inputs[] = {
        {.data = q->digits, .dtype = YK_I32, .ndim = 2, .dims = {ASKED, DIGITS}},
        {.data = q->padding, .dtype = YK_F32, .ndim = 2, .dims = {ASKED, DIGITS}},
        {.data = begun, .dtype = YK_I32, .ndim = 2, .dims = {ASKED, WORDS}}};
    const yk_batch batch = {.size = ASKED, .count = 3, .names = names, .tensors = inputs};
    yk_model_eval(model);
    for (int at = 0; at < WORDS; at++) {
        yk_tensor logits;
        YK_CHECK(yk_model_forward(model, &batch));
        YK_CHECK(yk_model_output(model, &logits));
        YK_CHECK(yk_tensor_read(&logits, values));
        for (int i = 0; i < ASKED; i++) {
            q->said[i][at] = likeliest(values[i][at]);
            if (at + 1 < WORDS)
                begun[i][at + 1] = q->said[i][at];
        }
    }
}

/* As far as END, which both have, unless the decoder never says it. */
static bool is_right(const int32_t said[WORDS], int64_t number)
{
    int32_t expected[WORDS];
    int count = name_number(number, expected);
    return memcmp(said, expected, (size_t)count * sizeof *expected) == 0;
}

static void print_words(const int32_t said[WORDS])
{
    for (int i = 0; i < WORDS && said[i] != END; i++)
        printf(" %s", said[i] >= FIRST_WORD ? words[said[i] - FIRST_WORD] : "?");
}

/* Numbers of all lengths, spread over what is held out. */
static void show(yk_model *model)
{
    static questions q;
    int right = 0;
    for (int64_t i = 0; i < ASKED; i++) {
        int64_t number = draw_number(2 + i % (DIGITS - 1), i + 1);
        q.number[i] = number < HELD_OUT ? HELD_OUT : number / HELD_OUT * HELD_OUT;
        write_digits(q.number[i], q.digits[i], q.padding[i]);
    }
    translate(model, &q);
    for (int i = 0; i < ASKED; i++) {
        bool good = is_right(q.said[i], q.number[i]);
        right += good;
        if (i >= 2 * DIGITS)
            continue;
        printf("%6lld:", (long long)q.number[i]);
        print_words(q.said[i]);
        printf(good ? "\n" : " (wrong)\n");
    }
    printf("%d of %d numbers that it has not seen are right\n", right, ASKED);
}

/* ---- the program ---------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    translate_config config = {2, 4, 48, 32, 1500, "cpu"};
    const flag flags[] = {
        {"layers", "N", "of encoder and decoder each [2]", .number = &config.layers},
        {"heads", "N", "of attention [4]", .number = &config.heads},
        {"width", "N", "numbers for each token [48]", .number = &config.width},
        {"batch-size", "N", "samples of each process [32]", .number = &config.batch_size},
        {"max-steps", "N", "steps [1500]", .number = &config.max_steps},
        FLAG_DEVICE(&config.device)};
    setvbuf(stdout, NULL, _IOLBF, 0);
    parse_flags(argc, argv, flags, sizeof flags / sizeof *flags);
    yk_group *world;
    YK_CHECK(yk_group_init(&world, NULL)); /* alone, a group of one */
    yk_model *model = create_model(&config);
    yk_ddp *ddp;
    YK_CHECK(yk_ddp_create(&ddp, model, world, NULL));
    yk_optimizer *optimizer;
    YK_CHECK(yk_adam_create(&optimizer, model, NULL));
    yk_dataset *dataset = open_numbers();
    yk_loader *loader; /* each rank gets its own part of every epoch */
    yk_loader_options options = YK_LOADER_OPTIONS_INIT;
    options.group = world;
    options.batch_size = config.batch_size;
    options.shuffle = true;
    YK_CHECK(yk_loader_create(&loader, dataset, &options));

    train(model, optimizer, loader, world, config.max_steps);
    if (yk_group_rank(world) == 0)
        show(model);

    yk_loader_destroy(loader);
    yk_dataset_destroy(dataset);
    yk_optimizer_destroy(optimizer);
    yk_ddp_destroy(ddp);
    yk_model_destroy(model);
    yk_group_destroy(world);
    return 0;
}

/*
 * Wrong values in options: each field of each struct in turn is zero, negative, huge, infinite or
 * no number. It is taken, or refused with a line that names the field or says what was expected; it
 * never crashes, as the sanitizers would see. What was to be built on can be used afterwards.
 */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "parts.h"

enum { OPTIONS_BYTES = 2048 };

static parts p;
static yk_model *filters; /* with a convolution, for Muon */
static yk_group *group;

/* ---- what takes options: each makes something, and destroys it again ------------------------- */

static const char *trying; /* a field */

static void ended(yk_status status, const void *made)
{
    if ((status == YK_OK) != (made != NULL))
        fail_msg("%s: status %s, made %p: %s", trying, yk_status_string(status), made,
                 yk_last_error());
}

#define MAKER(name, options_type, type, destroy, call)                                             \
    static yk_status name(const void *options)                                                     \
    {                                                                                              \
        const options_type *o = options;                                                           \
        type *made = NULL;                                                                         \
        yk_status status = call;                                                                   \
        ended(status, made);                                                                       \
        destroy(made);                                                                             \
        return status;                                                                             \
    }

MAKER(make_sgd, yk_sgd_options, yk_optimizer, yk_optimizer_destroy,
      yk_sgd_create(&made, p.model, o))
MAKER(make_adam, yk_adam_options, yk_optimizer, yk_optimizer_destroy,
      yk_adam_create(&made, p.model, o))
MAKER(make_nadam, yk_nadam_options, yk_optimizer, yk_optimizer_destroy,
      yk_nadam_create(&made, p.model, o))
MAKER(make_radam, yk_radam_options, yk_optimizer, yk_optimizer_destroy,
      yk_radam_create(&made, p.model, o))
MAKER(make_adamax, yk_adamax_options, yk_optimizer, yk_optimizer_destroy,
      yk_adamax_create(&made, p.model, o))
MAKER(make_adagrad, yk_adagrad_options, yk_optimizer, yk_optimizer_destroy,
      yk_adagrad_create(&made, p.model, o))
MAKER(make_adadelta, yk_adadelta_options, yk_optimizer, yk_optimizer_destroy,
      yk_adadelta_create(&made, p.model, o))
MAKER(make_rmsprop, yk_rmsprop_options, yk_optimizer, yk_optimizer_destroy,
      yk_rmsprop_create(&made, p.model, o))
MAKER(make_lars, yk_lars_options, yk_optimizer, yk_optimizer_destroy,
      yk_lars_create(&made, p.model, o))
MAKER(make_lamb, yk_lamb_options, yk_optimizer, yk_optimizer_destroy,
      yk_lamb_create(&made, p.model, o))
MAKER(make_muon, yk_muon_options, yk_optimizer, yk_optimizer_destroy,
      yk_muon_create(&made, filters, o))
MAKER(make_ema, yk_ema_options, yk_ema, yk_ema_destroy, yk_ema_create(&made, p.optimizer, o))
MAKER(make_lookahead, yk_lookahead_options, yk_lookahead, yk_lookahead_destroy,
      yk_lookahead_create(&made, p.optimizer, o))
MAKER(make_scaler, yk_grad_scaler_options, yk_grad_scaler, yk_grad_scaler_destroy,
      yk_grad_scaler_create(&made, p.model, o))
MAKER(make_ddp, yk_ddp_options, yk_ddp, yk_ddp_destroy, yk_ddp_create(&made, p.model, group, o))
MAKER(make_parallel, yk_data_parallel_options, yk_data_parallel, yk_data_parallel_destroy,
      yk_data_parallel_create(&made, filters, o))
MAKER(make_synthetic, yk_synthetic_options, yk_dataset, yk_dataset_destroy,
      yk_synthetic_create(&made, YK_SPLIT_TRAIN, o))
MAKER(make_random, yk_random_options, yk_dataset, yk_dataset_destroy,
      yk_random_create(&made, YK_SPLIT_TRAIN, o))
MAKER(make_loader, yk_loader_options, yk_loader, yk_loader_destroy,
      yk_loader_create(&made, p.dataset, o))
MAKER(make_trainer, yk_trainer_options, yk_trainer, yk_trainer_destroy,
      yk_trainer_create(&made, p.model, p.optimizer, p.loader, o))
MAKER(make_trace, yk_trace_options, yk_trace, yk_trace_close,
      yk_trace_open(&made, yk_test_path("trace.json"), NULL, o))

static yk_status make_powersgd(const void *options)
{
    yk_ddp *ddp;
    assert_ok(yk_ddp_create(&ddp, p.model, group, NULL));
    yk_status status = yk_ddp_register_powersgd_hook(ddp, options);
    yk_ddp_destroy(ddp);
    return status;
}

static yk_status make_preset(const void *options)
{
    yk_transforms *train, *evaluation;
    const int64_t dims[] = {3, 32, 32};
    yk_status status = yk_transforms_preset(&train, &evaluation, dims, options);
    ended(status, train);
    ended(status, evaluation);
    yk_transforms_destroy(train);
    yk_transforms_destroy(evaluation);
    return status;
}

static yk_status make_pack(const void *options)
{
    return yk_pack_write(yk_test_path("images.pack"), p.test_set, options);
}

static yk_status make_evaluation(const void *options)
{
    yk_evaluation result;
    return yk_evaluate(&result, p.model, p.validation, options);
}

static yk_status make_model_with(const void *options)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, 3});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_model *made;
    yk_value *loss = yk_cross_entropy(yk_nn_linear(x, "fc", 2), labels, NULL);
    yk_status status = yk_model_create(&made, loss, options);
    ended(status, made);
    if (status == YK_OK)
        yk_model_destroy(made);
    else
        yk_graph_destroy(graph);
    return status;
}

static yk_status set_scaler_state(const void *state)
{
    yk_grad_scaler *scaler;
    assert_ok(yk_grad_scaler_create(&scaler, p.model, NULL));
    yk_status status = yk_grad_scaler_set_state(scaler, state);
    yk_grad_scaler_destroy(scaler);
    return status;
}

static yk_status step_plateau(const void *options)
{
    yk_plateau plateau = *(const yk_plateau *)options;
    return yk_plateau_step(&plateau, p.optimizer, 1, NULL);
}

/* ---- operators, whose mistakes show when a model is made of the graph ----------------------- */

static yk_status end_graph(yk_graph *graph, yk_value *y)
{
    yk_model *made = NULL;
    yk_status status = YK_OK;
    if (yk_value_shape(y, NULL) < 0)
        status = yk_model_create(&made, y, NULL);
    assert_null(made);
    yk_graph_destroy(graph);
    return status;
}

#define OPERATOR(name, call)                                                                       \
    static yk_status name(const void *o)                                                           \
    {                                                                                              \
        yk_graph *graph = yk_graph_create();                                                       \
        yk_value *x = yk_input(graph, "x", YK_F32, 4, (int64_t[]){YK_BATCH, 4, 9, 9});             \
        return end_graph(graph, call);                                                             \
    }

OPERATOR(make_conv, yk_nn_conv2d_bias(x, "conv", 4, 3, o))
OPERATOR(make_conv_transpose, yk_nn_conv_transpose2d_bias(x, "conv", 4, 3, o))
OPERATOR(make_norm, yk_nn_batch_norm_with(x, "norm", o))
OPERATOR(make_attention,
         yk_scaled_dot_product_attention(yk_reshape(x, 3, (int64_t[]){YK_BATCH, 27, 12}), NULL,
                                         NULL, o))
OPERATOR(make_cross_entropy,
         yk_cross_entropy(x, yk_input(graph, "y", YK_I32, 3, (int64_t[]){YK_BATCH, 9, 9}), o))
OPERATOR(make_binary, yk_binary_cross_entropy_with_logits(x, x, o))

/* ---- the fields ----------------------------------------------------------------------------- */

typedef enum kind { NUMBER, COUNT, INT } kind;

typedef struct field {
    const char *name;
    size_t offset;
    kind kind;
} field;

#define FIELD(type, member, its_kind)                                                              \
    {                                                                                              \
        .name = #type "." #member, .offset = offsetof(type, member), .kind = its_kind              \
    }
#define NUMBER(type, member) FIELD(type, member, NUMBER)
#define COUNT(type, member)  FIELD(type, member, COUNT)
#define INT(type, member)    FIELD(type, member, INT)

static const double numbers[] = {(double)NAN, (double)INFINITY, -(double)INFINITY, -1, 0, 1e300};
static const int64_t counts[] = {-1, INT64_MIN, INT64_MAX, 0};
static const int ints[] = {-1, INT32_MIN, INT32_MAX, 0};

/* Structs with their default values, and the fields of each. */
static const yk_sgd_options make_sgd_options = YK_SGD_OPTIONS_INIT;
static const field make_sgd_fields[] = {
    NUMBER(yk_sgd_options, lr), NUMBER(yk_sgd_options, momentum), NUMBER(yk_sgd_options, dampening),
    NUMBER(yk_sgd_options, weight_decay)};
static const yk_adam_options make_adam_options = YK_ADAM_OPTIONS_INIT;
static const field make_adam_fields[] = {
    NUMBER(yk_adam_options, lr), NUMBER(yk_adam_options, beta1), NUMBER(yk_adam_options, beta2),
    NUMBER(yk_adam_options, eps), NUMBER(yk_adam_options, weight_decay)};
static const yk_nadam_options make_nadam_options = YK_NADAM_OPTIONS_INIT;
static const field make_nadam_fields[] = {
    NUMBER(yk_nadam_options, lr),           NUMBER(yk_nadam_options, beta1),
    NUMBER(yk_nadam_options, beta2),        NUMBER(yk_nadam_options, eps),
    NUMBER(yk_nadam_options, weight_decay), NUMBER(yk_nadam_options, momentum_decay)};
static const yk_radam_options make_radam_options = YK_RADAM_OPTIONS_INIT;
static const field make_radam_fields[] = {
    NUMBER(yk_radam_options, lr), NUMBER(yk_radam_options, beta1), NUMBER(yk_radam_options, beta2),
    NUMBER(yk_radam_options, eps), NUMBER(yk_radam_options, weight_decay)};
static const yk_adamax_options make_adamax_options = YK_ADAMAX_OPTIONS_INIT;
static const field make_adamax_fields[] = {
    NUMBER(yk_adamax_options, lr), NUMBER(yk_adamax_options, beta1),
    NUMBER(yk_adamax_options, beta2), NUMBER(yk_adamax_options, eps),
    NUMBER(yk_adamax_options, weight_decay)};
static const yk_adagrad_options make_adagrad_options = YK_ADAGRAD_OPTIONS_INIT;
static const field make_adagrad_fields[] = {
    NUMBER(yk_adagrad_options, lr), NUMBER(yk_adagrad_options, lr_decay),
    NUMBER(yk_adagrad_options, weight_decay), NUMBER(yk_adagrad_options, initial_accumulator_value),
    NUMBER(yk_adagrad_options, eps)};
static const yk_adadelta_options make_adadelta_options = YK_ADADELTA_OPTIONS_INIT;
static const field make_adadelta_fields[] = {
    NUMBER(yk_adadelta_options, lr), NUMBER(yk_adadelta_options, rho),
    NUMBER(yk_adadelta_options, eps), NUMBER(yk_adadelta_options, weight_decay)};
static const yk_rmsprop_options make_rmsprop_options = YK_RMSPROP_OPTIONS_INIT;
static const field make_rmsprop_fields[] = {
    NUMBER(yk_rmsprop_options, lr), NUMBER(yk_rmsprop_options, alpha),
    NUMBER(yk_rmsprop_options, eps), NUMBER(yk_rmsprop_options, weight_decay),
    NUMBER(yk_rmsprop_options, momentum)};
static const yk_lars_options make_lars_options = YK_LARS_OPTIONS_INIT;
static const field make_lars_fields[] = {
    NUMBER(yk_lars_options, lr), NUMBER(yk_lars_options, momentum),
    NUMBER(yk_lars_options, weight_decay), NUMBER(yk_lars_options, trust_coefficient)};
static const yk_lamb_options make_lamb_options = YK_LAMB_OPTIONS_INIT;
static const field make_lamb_fields[] = {
    NUMBER(yk_lamb_options, lr), NUMBER(yk_lamb_options, beta1), NUMBER(yk_lamb_options, beta2),
    NUMBER(yk_lamb_options, eps), NUMBER(yk_lamb_options, weight_decay)};
static const yk_muon_options make_muon_options = YK_MUON_OPTIONS_INIT;
static const field make_muon_fields[] = {NUMBER(yk_muon_options, lr),
                                         NUMBER(yk_muon_options, momentum),
                                         NUMBER(yk_muon_options, weight_decay),
                                         INT(yk_muon_options, ns_steps),
                                         NUMBER(yk_muon_options, sgd.lr),
                                         NUMBER(yk_muon_options, sgd.momentum),
                                         NUMBER(yk_muon_options, sgd.dampening),
                                         NUMBER(yk_muon_options, sgd.weight_decay)};
static const yk_ema_options make_ema_options = YK_EMA_OPTIONS_INIT;
static const field make_ema_fields[] = {NUMBER(yk_ema_options, decay)};
static const yk_lookahead_options make_lookahead_options = YK_LOOKAHEAD_OPTIONS_INIT;
static const field make_lookahead_fields[] = {
    NUMBER(yk_lookahead_options, decay), COUNT(yk_lookahead_options, interval),
    NUMBER(yk_lookahead_options, power), COUNT(yk_lookahead_options, total_steps)};
static const yk_grad_scaler_options make_scaler_options = YK_GRAD_SCALER_OPTIONS_INIT;
static const field make_scaler_fields[] = {
    NUMBER(yk_grad_scaler_options, init_scale), NUMBER(yk_grad_scaler_options, growth_factor),
    NUMBER(yk_grad_scaler_options, backoff_factor), COUNT(yk_grad_scaler_options, growth_interval)};
static const yk_grad_scaler_state set_scaler_state_options = {.enabled = true,
                                                              .scale = 1024,
                                                              .growth_factor = 2,
                                                              .backoff_factor = 0.5,
                                                              .growth_interval = 10};
static const field set_scaler_state_fields[] = {
    NUMBER(yk_grad_scaler_state, scale), NUMBER(yk_grad_scaler_state, growth_factor),
    NUMBER(yk_grad_scaler_state, backoff_factor), COUNT(yk_grad_scaler_state, growth_interval),
    COUNT(yk_grad_scaler_state, growth_tracker)};
static const yk_ddp_options make_ddp_options = YK_DDP_OPTIONS_INIT;
static const field make_ddp_fields[] = {
    NUMBER(yk_ddp_options, bucket_cap_mb), NUMBER(yk_ddp_options, first_bucket_mb),
    NUMBER(yk_ddp_options, last_bucket_mb), INT(yk_ddp_options, virtual_ranks)};
static const yk_powersgd_options make_powersgd_options = YK_POWERSGD_OPTIONS_INIT;
static const field make_powersgd_fields[] = {
    COUNT(yk_powersgd_options, matrix_approximation_rank), COUNT(yk_powersgd_options, start_iter),
    NUMBER(yk_powersgd_options, min_compression_rate),
    NUMBER(yk_powersgd_options, orthogonalization_epsilon), COUNT(yk_powersgd_options, iter)};
static const yk_data_parallel_options make_parallel_options = YK_DATA_PARALLEL_OPTIONS_INIT;
static const field make_parallel_fields[] = {INT(yk_data_parallel_options, threads)};
static const yk_model_options make_model_with_options = YK_MODEL_OPTIONS_INIT;
static const field make_model_with_fields[] = {INT(yk_model_options, amp),
                                               INT(yk_model_options, threads)};
static const yk_synthetic_options make_synthetic_options = YK_SYNTHETIC_OPTIONS_INIT;
static const field make_synthetic_fields[] = {COUNT(yk_synthetic_options, count)};
static const yk_random_options make_random_options = YK_RANDOM_OPTIONS_INIT;
static const field make_random_fields[] = {
    COUNT(yk_random_options, count), COUNT(yk_random_options, channels),
    COUNT(yk_random_options, height), COUNT(yk_random_options, width),
    COUNT(yk_random_options, classes)};
static const yk_loader_options make_loader_options = YK_LOADER_OPTIONS_INIT;
static const field make_loader_fields[] = {
    INT(yk_loader_options, virtual_ranks), COUNT(yk_loader_options, batch_size),
    INT(yk_loader_options, workers),       INT(yk_loader_options, prefetch),
    INT(yk_loader_options, dtype),         COUNT(yk_loader_options, classes)};
static const yk_pack_options make_pack_options = YK_PACK_OPTIONS_INIT;
static const field make_pack_fields[] = {COUNT(yk_pack_options, short_side),
                                         INT(yk_pack_options, format),
                                         INT(yk_pack_options, quality)};
static const yk_preset_options make_preset_options = YK_PRESET_OPTIONS_INIT;
static const field make_preset_fields[] = {COUNT(yk_preset_options, image_size)};
static const yk_trainer_options make_trainer_options = YK_TRAINER_OPTIONS_INIT;
static const field make_trainer_fields[] = {COUNT(yk_trainer_options, epochs),
                                            COUNT(yk_trainer_options, max_steps),
                                            COUNT(yk_trainer_options, accumulate),
                                            NUMBER(yk_trainer_options, clip_grad_norm),
                                            COUNT(yk_trainer_options, check_divergence),
                                            NUMBER(yk_trainer_options, stop_margin_s),
                                            COUNT(yk_trainer_options, save_every),
                                            INT(yk_trainer_options, keep),
                                            INT(yk_trainer_options, tta),
                                            NUMBER(yk_trainer_options, tta_confidence),
                                            INT(yk_trainer_options, loss_reduction)};
static const yk_evaluate_options make_evaluation_options = YK_EVALUATE_OPTIONS_INIT;
static const field make_evaluation_fields[] = {INT(yk_evaluate_options, tta),
                                               NUMBER(yk_evaluate_options, tta_confidence)};
static const yk_trace_options make_trace_options = YK_TRACE_OPTIONS_INIT;
static const field make_trace_fields[] = {COUNT(yk_trace_options, first_step),
                                          COUNT(yk_trace_options, steps)};
static const yk_plateau step_plateau_options = YK_PLATEAU_INIT;
static const field step_plateau_fields[] = {
    NUMBER(yk_plateau, factor),  COUNT(yk_plateau, patience), NUMBER(yk_plateau, threshold),
    COUNT(yk_plateau, cooldown), NUMBER(yk_plateau, min_lr),  NUMBER(yk_plateau, eps)};
static const yk_conv2d_options make_conv_options = YK_CONV2D_OPTIONS_INIT;
static const field make_conv_fields[] = {
    COUNT(yk_conv2d_options, stride), COUNT(yk_conv2d_options, padding),
    COUNT(yk_conv2d_options, dilation), COUNT(yk_conv2d_options, groups)};
static const yk_conv_transpose2d_options make_conv_transpose_options =
    YK_CONV_TRANSPOSE2D_OPTIONS_INIT;
static const field make_conv_transpose_fields[] = {
    COUNT(yk_conv_transpose2d_options, stride), COUNT(yk_conv_transpose2d_options, padding),
    COUNT(yk_conv_transpose2d_options, output_padding),
    COUNT(yk_conv_transpose2d_options, dilation), COUNT(yk_conv_transpose2d_options, groups)};
static const yk_nn_batch_norm_options make_norm_options = YK_NN_BATCH_NORM_OPTIONS_INIT;
static const field make_norm_fields[] = {NUMBER(yk_nn_batch_norm_options, eps),
                                         NUMBER(yk_nn_batch_norm_options, momentum)};
static const yk_attention_options make_attention_options = YK_ATTENTION_OPTIONS_INIT;
static const field make_attention_fields[] = {
    COUNT(yk_attention_options, num_heads), COUNT(yk_attention_options, num_kv_heads),
    NUMBER(yk_attention_options, scale), NUMBER(yk_attention_options, dropout_p)};
static const yk_cross_entropy_options make_cross_entropy_options = YK_CROSS_ENTROPY_OPTIONS_INIT;
static const field make_cross_entropy_fields[] = {NUMBER(yk_cross_entropy_options, label_smoothing),
                                                  INT(yk_cross_entropy_options, reduction),
                                                  COUNT(yk_cross_entropy_options, class_dim)};
static const yk_binary_cross_entropy_options make_binary_options =
    YK_BINARY_CROSS_ENTROPY_OPTIONS_INIT;
static const field make_binary_fields[] = {INT(yk_binary_cross_entropy_options, reduction)};

typedef struct subject {
    yk_status (*make)(const void *options);
    const void *options;
    size_t size;
    const field *fields;
    size_t count;
} subject;

#define SUBJECT(name)                                                                              \
    {                                                                                              \
        name, &name##_options, sizeof name##_options, name##_fields,                               \
            sizeof name##_fields / sizeof *name##_fields                                           \
    }

static const subject subjects[] = {
    SUBJECT(make_sgd),        SUBJECT(make_adam),       SUBJECT(make_nadam),
    SUBJECT(make_radam),      SUBJECT(make_adamax),     SUBJECT(make_adagrad),
    SUBJECT(make_adadelta),   SUBJECT(make_rmsprop),    SUBJECT(make_lars),
    SUBJECT(make_lamb),       SUBJECT(make_muon),       SUBJECT(make_ema),
    SUBJECT(make_lookahead),  SUBJECT(make_scaler),     SUBJECT(set_scaler_state),
    SUBJECT(make_ddp),        SUBJECT(make_powersgd),   SUBJECT(make_parallel),
    SUBJECT(make_model_with), SUBJECT(make_synthetic),  SUBJECT(make_random),
    SUBJECT(make_loader),     SUBJECT(make_pack),       SUBJECT(make_preset),
    SUBJECT(make_trainer),    SUBJECT(make_evaluation), SUBJECT(make_trace),
    SUBJECT(step_plateau),    SUBJECT(make_conv),       SUBJECT(make_conv_transpose),
    SUBJECT(make_norm),       SUBJECT(make_attention),  SUBJECT(make_cross_entropy),
    SUBJECT(make_binary)};

/* ---- the cases ------------------------------------------------------------------------------ */

static void begin(void)
{
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    p = create_parts(&options, 40);
    assert_ok(yk_group_init(&group, NULL));
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 8, 8});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *y = yk_nn_linear(yk_flatten(yk_nn_conv2d(images, "conv", 4, 3, NULL)), "fc", 10);
    yk_model_options with = YK_MODEL_OPTIONS_INIT;
    with.threads = 1;
    assert_ok(yk_model_create(&filters, yk_cross_entropy(y, labels, NULL), &with));
}

static void end(void)
{
    yk_model_destroy(filters);
    destroy_parts(p);
    yk_group_destroy(group);
}

/* A step of training, as after any mistake. */
static void assert_usable(const char *after)
{
    const yk_batch *batch = yk_loader_next(p.loader);
    if (!batch) /* the end of an epoch */
        batch = yk_loader_next(p.loader);
    assert_non_null(batch);
    if (yk_model_forward(p.model, batch) != YK_OK || yk_model_backward(p.model) != YK_OK ||
        yk_optimizer_step(p.optimizer) != YK_OK)
        fail_msg("after %s: %s", after, yk_last_error());
}

/* Every refusal must write its own error line. */
static void try_value(const subject *s, const field *f, const void *value, size_t bytes)
{
    _Alignas(16) char options[OPTIONS_BYTES];
    assert_true(s->size <= sizeof options);
    memcpy(options, s->options, s->size);
    memcpy(options + f->offset, value, bytes);
    trying = f->name;
    yk_set_error(YK_OK, "nothing");
    yk_status status = s->make(options);
    if (status == YK_OK)
        return;
    if (strcmp(yk_last_error(), "yoke: nothing") == 0)
        fail_msg("%s is refused without a line", f->name);
    assert_usable(f->name);
}

static void try_field(const subject *s, const field *f)
{
    switch (f->kind) {
    case NUMBER:
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
            try_value(s, f, &numbers[i], sizeof *numbers);
        break;
    case COUNT:
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
            try_value(s, f, &counts[i], sizeof *counts);
        break;
    case INT:
        for (size_t i = 0; i < sizeof ints / sizeof *ints; i++)
            try_value(s, f, &ints[i], sizeof *ints);
        break;
    }
}

/* Before it has made something that would train for long, or compute nonsense. */
YK_TEST(values_without_a_meaning_are_refused)
{
    begin();
    yk_trainer_options training = YK_TRAINER_OPTIONS_INIT;
    training.tta = (yk_tta)99;
    assert_status(YK_ERROR_INVALID_ARGUMENT, make_trainer(&training));
    assert_contains(yk_last_error(), "trainer: tta is 99");
    training.tta = YK_TTA_MIRROR;
    training.tta_confidence = (double)NAN;
    assert_status(YK_ERROR_INVALID_ARGUMENT, make_trainer(&training));
    assert_contains(yk_last_error(), "trainer: tta_confidence is");
    training = (yk_trainer_options)YK_TRAINER_OPTIONS_INIT;
    training.accumulate = INT64_MAX;
    assert_status(YK_ERROR_INVALID_ARGUMENT, make_trainer(&training));
    assert_contains(yk_last_error(), "expected at most 2147483647");
    yk_nn_batch_norm_options norm = YK_NN_BATCH_NORM_OPTIONS_INIT;
    norm.eps = (double)INFINITY;
    assert_status(YK_ERROR_INVALID_ARGUMENT, make_norm(&norm));
    yk_data_parallel_options parallel = YK_DATA_PARALLEL_OPTIONS_INIT;
    parallel.threads = INT32_MAX;
    assert_status(YK_ERROR_INVALID_ARGUMENT, make_parallel(&parallel));
    yk_loader_options loading = YK_LOADER_OPTIONS_INIT;
    loading.virtual_ranks = INT32_MAX;
    assert_status(YK_ERROR_INVALID_ARGUMENT, make_loader(&loading));
    assert_contains(yk_last_error(), "at most 65535");
    end();
}

YK_TEST(wrong_values_are_refused_or_harmless)
{
    begin();
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++)
        for (size_t k = 0; k < subjects[i].count; k++)
            try_field(&subjects[i], &subjects[i].fields[k]);
    assert_usable("all");
    end();
}

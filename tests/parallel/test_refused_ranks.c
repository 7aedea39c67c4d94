/*
 * What the ranks of a group create together: where one of them is refused, all are, at once and
 * with its reason, and then create it after all. Options that differ are named.
 */
#define _GNU_SOURCE
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <sys/resource.h>

#include "small_network.h"

/* A rank's side, in which everything can be created once. */
typedef struct refused_side {
    yk_group *group;
    yk_model *model;
    yk_ddp *ddp;
    yk_optimizer *optimizer;
    yk_zero *zero;
    yk_local_sgd *local;
} refused_side;

static const network net = {.device = "ref", .dtype = YK_F32, .norm = true, .seed = 9};

/* With DDP, and with an optimizer, unless the case creates them itself. */
static void begin(refused_side *s, bool ddp)
{
    *s = (refused_side){.model = make_model(&net)};
    assert_ok(yk_group_init(&s->group,
                            YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.timeout_s = 60)));
    if (ddp)
        assert_ok(yk_ddp_create(&s->ddp, s->model, s->group, NULL));
    assert_ok(yk_sgd_create(&s->optimizer, s->model,
                            YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.momentum = 0.9)));
}

static void end(refused_side *s)
{
    yk_local_sgd_destroy(s->local);
    yk_zero_destroy(s->zero);
    yk_optimizer_destroy(s->optimizer);
    yk_ddp_destroy(s->ddp);
    yk_model_destroy(s->model);
    yk_group_destroy(s->group);
}

/* What one rank does otherwise than the others; in no way with RIGHT. */
typedef enum way { RIGHT, WRONG, NOTHING, OTHER } way;

typedef struct creation {
    yk_status (*create)(refused_side *s, way how);
    bool needs_ddp;
    const char *wrong;   /* why WRONG is refused */
    const char *nothing; /* and a NULL */
    const char *other;   /* what OTHER says of the rank, or NULL: there is no such thing */
} creation;

static yk_status create_ddp(refused_side *s, way how)
{
    yk_ddp_options options = YK_DDP_OPTIONS_INIT;
    options.bucket_cap_mb = how == WRONG ? -1 : how == OTHER ? 4 : 25;
    return yk_ddp_create(&s->ddp, how == NOTHING ? NULL : s->model, s->group, &options);
}

static yk_status convert(refused_side *s, way how)
{
    yk_model *model = s->model;
    if (how == OTHER) {
        network plain = net;
        plain.norm = false;
        model = make_model(&plain);
    }
    yk_status status = yk_sync_batch_norm_convert(how == NOTHING ? NULL : model, s->group);
    if (how == OTHER)
        yk_model_destroy(model);
    return status;
}

static yk_status create_zero(refused_side *s, way how)
{
    yk_model *model = s->model;
    yk_optimizer *optimizer = s->optimizer;
    if (how == WRONG)
        model = make_model(&net);
    if (how == OTHER)
        assert_ok(yk_adam_create(&optimizer, s->model, NULL));
    yk_status status = yk_zero_create(&s->zero, how == NOTHING ? NULL : optimizer, model, s->group);
    if (how == WRONG)
        yk_model_destroy(model);
    if (how == OTHER)
        yk_optimizer_destroy(optimizer);
    return status;
}

static yk_status create_local_sgd(refused_side *s, way how)
{
    yk_local_sgd_options options = YK_LOCAL_SGD_OPTIONS_INIT;
    options.sync_every = how == WRONG ? 0 : how == OTHER ? 5 : 16;
    return yk_local_sgd_create(&s->local, how == NOTHING ? NULL : s->optimizer, s->group, &options);
}

static yk_status sum_up(void *state, yk_group *group, const yk_grad_bucket *bucket)
{
    (void)state;
    return yk_all_reduce(group, bucket->buffer, bucket->elements, bucket->dtype, YK_REDUCE_SUM,
                         NULL);
}

static yk_status register_own(refused_side *s, way how)
{
    if (how == OTHER)
        return yk_ddp_register_bf16_compress_hook(s->ddp);
    return yk_ddp_register_comm_hook(s->ddp, how == NOTHING ? NULL : sum_up, NULL);
}

static yk_status register_bf16(refused_side *s, way how)
{
    return how == OTHER ? yk_ddp_register_fp16_compress_hook(s->ddp)
                        : yk_ddp_register_bf16_compress_hook(s->ddp);
}

static yk_status register_powersgd(refused_side *s, way how)
{
    yk_powersgd_options options = YK_POWERSGD_OPTIONS_INIT;
    options.start_iter = 0;
    options.matrix_approximation_rank = how == WRONG ? 0 : how == OTHER ? 2 : 1;
    return yk_ddp_register_powersgd_hook(s->ddp, &options);
}

static yk_status begin_join(refused_side *s, way how)
{
    yk_join_options options = YK_JOIN_OPTIONS_INIT;
    if (how == WRONG)
        options.size = SIZE_MAX;
    options.throw_on_early_termination = how == OTHER;
    return yk_ddp_join_begin(s->ddp, &options);
}

static const creation ddp = {.create = create_ddp,
                             .wrong = "ddp: bucket_cap_mb is -1",
                             .nothing = "yk_ddp_create: model is NULL",
                             .other = "bucket_cap_mb 4"};
static const creation sync_batch_norm = {.create = convert,
                                         .nothing = "yk_sync_batch_norm_convert: model is NULL",
                                         .other = "batch_norm of up to 0 channels"};
static const creation zero = {.create = create_zero,
                              .wrong = "ZeRO: the optimizer belongs to another model",
                              .nothing = "yk_zero_create: optimizer is NULL",
                              .other = "2 tensors of state for each parameter"};
static const creation local_sgd = {.create = create_local_sgd,
                                   .wrong = "local SGD: sync_every must be at least 1, not 0",
                                   .nothing = "yk_local_sgd_create: optimizer is NULL",
                                   .other = "sync_every 5"};
static const creation own_hook = {.create = register_own,
                                  .needs_ddp = true,
                                  .nothing = "yk_ddp_register_comm_hook: hook is NULL",
                                  .other = "bf16_compress"};
static const creation bf16_hook = {
    .create = register_bf16, .needs_ddp = true, .other = "fp16_compress"};
static const creation powersgd = {.create = register_powersgd,
                                  .needs_ddp = true,
                                  .wrong = "PowerSGD: matrix_approximation_rank is 0",
                                  .other = "matrix_approximation_rank 2"};
static const creation join = {.create = begin_join,
                              .needs_ddp = true,
                              .wrong = "yk_join_options",
                              .other = "throw_on_early_termination 1"};

static void check_refusal(refused_side *s, const creation *c, int culprit, way how,
                          const char *reason)
{
    char text[160];
    bool refuses = yk_group_rank(s->group) == culprit;
    snprintf(text, sizeof text, "rank %d cannot take part: %s", culprit, reason);
    assert_status(refuses ? YK_ERROR_INVALID_ARGUMENT : YK_ERROR_MISMATCH,
                  c->create(s, refuses ? how : RIGHT));
    assert_contains(yk_last_error(), refuses ? reason : text);
}

static void check_difference(refused_side *s, const creation *c, int culprit)
{
    char text[120];
    snprintf(text, sizeof text, "rank %d has %s", culprit, c->other);
    assert_status(YK_ERROR_MISMATCH,
                  c->create(s, yk_group_rank(s->group) == culprit ? OTHER : RIGHT));
    assert_contains(yk_last_error(), text);
    assert_contains(yk_last_error(), culprit ? "rank 0 has" : "rank 1 has");
}

/* Each rank in turn goes its own way; afterwards all create and train. */
static void check(const creation *c)
{
    refused_side s;
    static samples own;
    begin(&s, c->needs_ddp);
    for (int culprit = 0; culprit < yk_group_size(s.group); culprit++) {
        if (c->wrong)
            check_refusal(&s, c, culprit, WRONG, c->wrong);
        if (c->nothing)
            check_refusal(&s, c, culprit, NOTHING, c->nothing);
        if (c->other)
            check_difference(&s, c, culprit);
    }
    assert_ok(c->create(&s, RIGHT));
    step(s.model, take_samples(&own, net.dtype, 3 * yk_group_rank(s.group), 3));
    assert_ok(yk_optimizer_step(s.optimizer));
    end(&s);
}

YK_TEST_RANKS(promise_07_one_of_two_is_refused_ddp, 2)
{
    (void)rank, (void)world;
    check(&ddp);
}

YK_TEST_RANKS(promise_07_one_of_three_is_refused_ddp, 3)
{
    (void)rank, (void)world;
    check(&ddp);
}

YK_TEST_RANKS(promise_07_one_of_two_is_refused_sync_batch_norm, 2)
{
    (void)rank, (void)world;
    check(&sync_batch_norm);
}

YK_TEST_RANKS(promise_07_one_of_three_is_refused_zero, 3)
{
    (void)rank, (void)world;
    check(&zero);
}

YK_TEST_RANKS(promise_07_one_of_three_is_refused_local_sgd, 3)
{
    (void)rank, (void)world;
    check(&local_sgd);
}

YK_TEST_RANKS(promise_07_one_of_two_is_refused_an_own_hook, 2)
{
    (void)rank, (void)world;
    check(&own_hook);
}

YK_TEST_RANKS(promise_07_one_of_two_is_refused_a_built_in_hook, 2)
{
    (void)rank, (void)world;
    check(&bf16_hook);
}

YK_TEST_RANKS(promise_07_one_of_three_is_refused_powersgd, 3)
{
    (void)rank, (void)world;
    check(&powersgd);
}

YK_TEST_RANKS(promise_07_one_of_three_is_refused_join, 3)
{
    (void)rank, (void)world;
    check(&join);
}

/* What a hook carries is gathered by all ranks, or by none. */
YK_TEST_RANKS(one_of_three_cannot_consolidate, 3)
{
    refused_side s;
    const yk_comm_hook_state *state;
    static samples own;
    begin(&s, true);
    assert_ok(register_powersgd(&s, RIGHT));
    step(s.model, take_samples(&own, net.dtype, 3 * rank, 3));
    bool refuses = rank == world - 1;
    assert_status(refuses ? YK_ERROR_INVALID_ARGUMENT : YK_ERROR_MISMATCH,
                  yk_ddp_consolidate_comm_hook(s.ddp, refuses ? NULL : &state));
    assert_contains(yk_last_error(), refuses ? "state is NULL" : "rank 2 cannot take part: yk_ddp");
    assert_true(refuses || !state);
    assert_ok(yk_ddp_consolidate_comm_hook(s.ddp, &state));
    assert_true((state != NULL) == (rank == 0));
    end(&s);
}

/* Comm hooks: a user's own, and the two that halve what travels, against a direct computation. */
#include "harness.h"

#include "small_network.h"

#include "base/clock.h"
#include "comm/group_internal.h"
#include "tensor/convert16.h"

static const network net = {.device = "ref", .dtype = YK_F32, .seed = 5};

typedef struct side {
    int rank, world;
    yk_group *group;
    yk_model *model;
    yk_ddp *ddp;
    samples own;
} side;

/* A model under DDP in a group that is there. */
static void begin_in(side *s, yk_group *group, const yk_ddp_options *options)
{
    s->group = group;
    s->rank = yk_group_rank(group);
    s->world = yk_group_size(group);
    s->model = make_model(&net);
    assert_ok(yk_ddp_create(&s->ddp, s->model, group, options));
}

static yk_group *join(void)
{
    yk_group *group;
    assert_ok(yk_group_init(&group, NULL));
    return group;
}

static void end_in(side *s)
{
    yk_ddp_destroy(s->ddp);
    yk_model_destroy(s->model);
}

static const yk_batch *own_batch(side *s, int64_t first)
{
    return take_samples(&s->own, net.dtype, first + 3 * s->rank, 3);
}

/* ---- a user's own ---------------------------------------------------------------------------- */

typedef struct account {
    size_t calls, elements, out_of_order, last;
    bool fail, asynchronous;
    yk_status inner;
} account;

static yk_status counting_hook(void *state, yk_group *group, const yk_grad_bucket *bucket)
{
    account *a = state;
    a->out_of_order += bucket->index != a->calls;
    a->calls++;
    a->last += bucket->is_last;
    for (size_t i = 0; i < bucket->parameter_count; i++) {
        yk_tensor grad = bucket->parameters[i].grad;
        a->elements += (size_t)yk_tensor_count(&grad);
        if ((char *)grad.data < (char *)bucket->buffer ||
            (char *)grad.data >= (char *)bucket->buffer + bucket->elements * sizeof(float))
            a->out_of_order += 100;
    }
    if (a->asynchronous) {
        yk_work *work;
        a->inner = yk_all_reduce(group, bucket->buffer, bucket->elements, bucket->dtype,
                                 YK_REDUCE_SUM, &work);
    }
    if (a->fail)
        return yk_send(group, NULL, 1, YK_F32, -1); /* an error with its own line */
    return yk_all_reduce(group, bucket->buffer, bucket->elements, bucket->dtype, YK_REDUCE_SUM,
                         NULL);
}

static void own_hook(int rank, int world)
{
    (void)rank, (void)world;
    yk_group *group = join();
    side plain, hooked;
    yk_ddp_options options = YK_DDP_OPTIONS_INIT;
    options.bucket_cap_mb = 1e-6;
    account seen = {0};
    begin_in(&plain, group, &options);
    begin_in(&hooked, group, &options);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_ddp_register_comm_hook(hooked.ddp, NULL, NULL));
    assert_ok(yk_ddp_register_comm_hook(hooked.ddp, counting_hook, &seen));
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_ddp_register_comm_hook(hooked.ddp, counting_hook, &seen));
    assert_contains(yk_last_error(), "already registered");
    for (int i = 0; i < 3; i++) {
        step(plain.model, own_batch(&plain, 30 * i));
        step(hooked.model, own_batch(&hooked, 30 * i));
        assert_same_gradients(hooked.model, plain.model, 0);
        assert_int_equal(seen.calls, yk_ddp_bucket_count(hooked.ddp));
        assert_int_equal(seen.elements, yk_model_parameter_elements(hooked.model));
        assert_int_equal(seen.out_of_order, 0);
        assert_int_equal(seen.last, 1);
        assert_true(yk_ddp_last_stats(hooked.ddp).communication_s > 0);
        seen = (account){0};
        yk_model_zero_grad(plain.model);
        yk_model_zero_grad(hooked.model);
    }
    seen.asynchronous = true;
    step(hooked.model, own_batch(&hooked, 0));
    assert_int_equal(seen.inner, YK_ERROR_INVALID_ARGUMENT);
    seen = (account){.fail = true};
    assert_ok(yk_model_forward(hooked.model, own_batch(&hooked, 0)));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_backward(hooked.model));
    assert_contains(yk_last_error(), "send: ");
    assert_int_equal(seen.calls, 1); /* what follows would not meet the other ranks' calls */
    seen = (account){0};
    yk_model_zero_grad(hooked.model);
    step(hooked.model, own_batch(&hooked, 0));
    assert_int_equal(seen.calls, yk_ddp_bucket_count(hooked.ddp));
    end_in(&plain);
    end_in(&hooked);
    yk_group_destroy(group);
}

YK_TEST(a_hook_of_ones_own_takes_the_place_of_the_all_reduce)
{
    yk_test_ranks(2, own_hook);
}

YK_TEST(a_hook_works_on_one_rank_and_on_three)
{
    yk_test_ranks(3, own_hook);
}

/* ---- sixteen bits ---------------------------------------------------------------------------- */

/* Leaves each rank its own gradients. */
static yk_status local_hook(void *state, yk_group *group, const yk_grad_bucket *bucket)
{
    (void)state, (void)group, (void)bucket;
    return YK_OK;
}

/* What a sum in 16 bits must give, from every rank's gradient: rounded, added in f32 in the order
 * of the ranks, rounded again. */
static void sum_in_16_bits(float *sum, const float *all, int world, size_t count, yk_dtype dtype)
{
    for (size_t i = 0; i < count; i++) {
        float total = 0, value;
        uint16_t bits;
        for (int rank = 0; rank < world; rank++) {
            yki_narrow16(&bits, &all[(size_t)rank * count + i], dtype, 1);
            yki_widen16(&value, &bits, dtype, 1);
            total = rank ? total + value : value;
        }
        yki_narrow16(&bits, &total, dtype, 1);
        yki_widen16(&sum[i], &bits, dtype, 1);
    }
}

static void check_sixteen_bits(yk_dtype dtype)
{
    yk_group *group = join();
    side local, hooked;
    if (!yki_group_adds_in_rank_order(group)) { /* the backend promises no order */
        yk_group_destroy(group);
        return;
    }
    begin_in(&local, group, YK_WITH(yk_ddp_options, YK_DDP_OPTIONS_INIT, o.bucket_cap_mb = 1e-3));
    begin_in(&hooked, group, YK_WITH(yk_ddp_options, YK_DDP_OPTIONS_INIT, o.bucket_cap_mb = 1e-3));
    assert_ok(yk_ddp_register_comm_hook(local.ddp, local_hook, NULL));
    assert_ok(dtype == YK_BF16 ? yk_ddp_register_bf16_compress_hook(hooked.ddp)
                               : yk_ddp_register_fp16_compress_hook(hooked.ddp));
    for (int i = 0; i < 3; i++) {
        step(local.model, own_batch(&local, 30 * i));
        step(hooked.model, own_batch(&hooked, 30 * i));
        for (size_t p = 0; p < yk_model_parameter_count(local.model); p++) {
            yk_tensor mine = yk_test_on_host(yk_model_parameter(local.model, p).grad);
            yk_tensor found = yk_test_on_host(yk_model_parameter(hooked.model, p).grad);
            size_t count = (size_t)yk_tensor_count(&mine);
            float *all = calloc(count * (size_t)local.world, sizeof *all);
            float *expected = calloc(count, sizeof *expected);
            assert_true(all && expected);
            assert_ok(yk_all_gather(group, all, mine.data, count, YK_F32, NULL));
            sum_in_16_bits(expected, all, local.world, count, dtype);
            assert_memory_equal(found.data, expected, count * sizeof *expected);
            free(all);
            free(expected);
        }
        yk_model_zero_grad(local.model);
        yk_model_zero_grad(hooked.model);
    }
    end_in(&local);
    end_in(&hooked);
    yk_group_destroy(group);
}

static void in_bf16(int rank, int world)
{
    (void)rank, (void)world;
    check_sixteen_bits(YK_BF16);
}

static void in_fp16(int rank, int world)
{
    (void)rank, (void)world;
    check_sixteen_bits(YK_F16);
}

YK_TEST(bf16_compress_is_the_sum_in_bf16)
{
    yk_test_ranks(3, in_bf16);
}

YK_TEST(fp16_compress_is_the_sum_in_fp16)
{
    yk_test_ranks(3, in_fp16);
}

/* Gradients in f64 are compressed too. */
YK_TEST_RANKS(gradients_in_f64_are_compressed_too, 2)
{
    yk_group *group = join();
    network wide = net;
    wide.dtype = YK_F64;
    yk_model *model = make_model(&wide), *alone = make_model(&wide);
    yk_ddp *ddp;
    static samples own, joint;
    assert_ok(yk_ddp_create(&ddp, model, group, NULL));
    assert_ok(yk_ddp_register_bf16_compress_hook(ddp));
    step(model, take_samples(&own, YK_F64, 3 * rank, 3));
    step(alone, take_samples(&joint, YK_F64, 0, 6));
    assert_same_gradients(model, alone, 1.0 / 128);
    yk_ddp_destroy(ddp);
    yk_model_destroy(model);
    yk_model_destroy(alone);
    yk_group_destroy(group);
}

/* ---- times ----------------------------------------------------------------------------------- */

typedef struct stay {
    double first, last; /* when the first hook began and the last one ended */
} stay;

static yk_status timing_hook(void *state, yk_group *group, const yk_grad_bucket *bucket)
{
    stay *s = state;
    if (bucket->index == 0)
        s->first = yki_now();
    yk_status status =
        yk_all_reduce(group, bucket->buffer, bucket->elements, bucket->dtype, YK_REDUCE_SUM, NULL);
    s->last = yki_now();
    return status;
}

/* Also of the pauses between buckets, in which backward has not yet made the next one. */
YK_TEST_RANKS(communication_is_timed_from_first_launch_to_last_landing, 2)
{
    side s = {0};
    stay seen = {0};
    yk_group *group = join();
    begin_in(&s, group, YK_WITH(yk_ddp_options, YK_DDP_OPTIONS_INIT, o.bucket_cap_mb = 0));
    assert_ok(yk_ddp_register_comm_hook(s.ddp, timing_hook, &seen));
    for (int i = 0; i < 5; i++) {
        step(s.model, own_batch(&s, 0));
        yk_ddp_stats stats = yk_ddp_last_stats(s.ddp);
        assert_true(stats.communication_s >= seen.last - seen.first);
        assert_true(stats.exposed_s >= 0 && stats.exposed_s <= stats.communication_s);
        yk_model_zero_grad(s.model);
    }
    end_in(&s);
    yk_group_destroy(group);
}

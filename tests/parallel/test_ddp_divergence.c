/* One flipped bit on one rank ends the run on all of them, and the line says where. */
#include "harness.h"

#include "small_network.h"

static const network net = {.device = "ref", .dtype = YK_F32, .norm = true, .seed = 3};

typedef struct side {
    yk_group *group;
    yk_model *model;
    yk_ddp *ddp;
    yk_optimizer *sgd;
    samples own;
} side;

static void begin_on(side *s, yk_group *group, const yk_ddp_options *options)
{
    s->group = group;
    s->model = make_model(&net);
    assert_ok(yk_ddp_create(&s->ddp, s->model, s->group, options));
    assert_ok(
        yk_sgd_create(&s->sgd, s->model,
                      YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1, o.momentum = 0.9)));
}

static void begin(side *s, const yk_ddp_options *options)
{
    yk_group *group;
    assert_ok(yk_group_init(&group, NULL));
    begin_on(s, group, options);
}

static void end(side *s)
{
    yk_optimizer_destroy(s->sgd);
    yk_ddp_destroy(s->ddp);
    yk_model_destroy(s->model);
    yk_group_destroy(s->group);
}

static void train_one(side *s, int64_t first)
{
    int rank = yk_group_rank(s->group);
    step(s->model, take_samples(&s->own, net.dtype, first + 3 * rank, 3));
    assert_ok(yk_optimizer_step(s->sgd));
}

static void flip(const yk_model *model, const char *name, int64_t bit)
{
    yk_tensor tensor = find(model, name).value, host = yk_test_on_host(tensor);
    assert_in_range(bit, 0, 8 * (int64_t)yk_tensor_bytes(&tensor) - 1);
    ((unsigned char *)host.data)[bit / 8] ^= (unsigned char)(1 << (bit % 8));
    yk_test_write_back(tensor, host);
}

static void one_bit(int rank, int world)
{
    side s;
    begin(&s, NULL);
    for (int i = 0; i < 3; i++) {
        train_one(&s, 20 * i);
        assert_ok(yk_ddp_check_divergence(s.ddp));
    }
    if (rank == 1) {
        flip(s.model, "conv2.weight", 32 * 17);
        flip(s.model, "fc.bias", 0);
    }
    assert_status(YK_ERROR_MISMATCH, yk_ddp_check_divergence(s.ddp));
    const char *expected = "ranks have diverged: conv2.weight of rank 1 differs from rank 0's (2 ";
    assert_contains(yk_last_error(), expected);
    if (rank == 1)
        flip(s.model, "conv2.weight", 32 * 17);
    else if (world == 3 && rank == 0)
        flip(s.model, "fc.bias", 0); /* now two of three have it */
    assert_status(YK_ERROR_MISMATCH, yk_ddp_check_divergence(s.ddp));
    assert_contains(yk_last_error(), world == 3 ? "fc.bias of rank 2 differs from rank 0's (1 of"
                                                : "fc.bias of rank 1 differs from rank 0's (1 of");
    end(&s);
}

YK_TEST(promise_25_one_flipped_bit_is_found_on_two_ranks)
{
    yk_test_ranks(2, one_bit);
}

YK_TEST(promise_25_the_rank_that_stands_apart_is_named)
{
    yk_test_ranks(3, one_bit);
}

/* Every bit counts: the first, the last, any in between. */
YK_TEST_RANKS(promise_25_every_bit_counts, 2)
{
    side s;
    begin(&s, NULL);
    yk_tensor weight = find(s.model, "fc.weight").value;
    int64_t bits = 8 * (int64_t)yk_tensor_bytes(&weight);
    for (int64_t bit = 0; bit < bits; bit += bit < 8 || bit > bits - 8 ? 1 : 7) {
        if (rank == 0)
            flip(s.model, "fc.weight", bit);
        assert_status(YK_ERROR_MISMATCH, yk_ddp_check_divergence(s.ddp));
        if (rank == 0)
            flip(s.model, "fc.weight", bit);
    }
    assert_ok(yk_ddp_check_divergence(s.ddp));
    end(&s);
}

/* Running statistics differ after a step by their nature; the check brings rank 0's forward. */
static void buffers(int rank, int world)
{
    (void)world;
    side s;
    begin(&s, NULL);
    train_one(&s, 0);
    if (rank == 1)
        flip(s.model, "bn1.running_mean", 3);
    assert_ok(yk_ddp_check_divergence(s.ddp));
    if (rank == 1) /* nothing runs between this and the next check: nothing may have moved it */
        flip(s.model, "bn1.running_mean", 3);
    assert_status(YK_ERROR_MISMATCH, yk_ddp_check_divergence(s.ddp));
    assert_contains(yk_last_error(), "bn1.running_mean of rank 1");
    end(&s);
}

YK_TEST(promise_25_buffers_are_compared_once_they_follow_rank_0)
{
    yk_test_ranks(2, buffers);
}

/* Looking changes nothing: with and without, the same bits. */
YK_TEST_RANKS(a_check_changes_no_bit, 2)
{
    side a, b;
    begin(&a, NULL);
    for (int i = 0; i < 3; i++) {
        train_one(&a, 20 * i);
        assert_ok(yk_ddp_check_divergence(a.ddp));
    }
    b = a;
    b.model = make_model(&net);
    assert_ok(yk_ddp_create(&b.ddp, b.model, b.group, NULL));
    assert_ok(
        yk_sgd_create(&b.sgd, b.model,
                      YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1, o.momentum = 0.9)));
    for (int i = 0; i < 3; i++)
        train_one(&b, 20 * i);
    assert_ok(yk_ddp_check_divergence(b.ddp)); /* gives both rank 0's buffers */
    assert_same_parameters(a.model, b.model, 0);
    assert_same_buffers(a.model, b.model, 0);
    yk_optimizer_destroy(b.sgd);
    yk_ddp_destroy(b.ddp);
    yk_model_destroy(b.model);
    end(&a);
}

/* Ranks are named by their numbers in the job, also where a part of it trains by itself. */
YK_TEST_RANKS(promise_25_a_rank_of_a_part_is_named_as_in_the_job, 3)
{
    (void)world;
    side s;
    yk_group *all, *part;
    assert_ok(yk_group_init(&all, NULL));
    assert_ok(yk_group_split(&part, all, rank == 0, 0));
    if (rank > 0) {
        begin_on(&s, part, NULL);
        if (rank == 2)
            flip(s.model, "fc.bias", 0);
        assert_status(YK_ERROR_MISMATCH, yk_ddp_check_divergence(s.ddp));
        assert_contains(yk_last_error(), "fc.bias of rank 2 differs from rank 1's (1 of");
        end(&s);
    } else {
        yk_group_destroy(part);
    }
    yk_group_destroy(all);
}

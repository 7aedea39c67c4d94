/*
 * A rank's side of a case: its group, its model under DDP, and one process's model that sees the
 * joint batch, to compare with.
 */
#ifndef YK_TEST_SIDE_H
#define YK_TEST_SIDE_H

#include "small_network.h"

typedef struct side {
    network net;
    int rank, world;
    yk_group *group;
    yk_model *model, *alone;
    yk_ddp *ddp;
    samples own, joint;
} side;

/* Joins the group; the models, and DDP, are the case's to make. */
static inline void side_join(side *s, const network *net)
{
    s->net = *net;
    assert_ok(yk_group_init(&s->group, NULL));
    s->rank = yk_group_rank(s->group);
    s->world = yk_group_size(s->group);
}

static inline void side_end(side *s)
{
    yk_ddp_destroy(s->ddp);
    yk_model_destroy(s->model);
    yk_model_destroy(s->alone);
    yk_group_destroy(s->group);
}

/* One step on `count` samples a rank, from sample `first` on: rank by rank, and all in one. */
static inline void both_step(side *s, int64_t first, int64_t count)
{
    step(s->model, take_samples(&s->own, s->net.dtype, first + s->rank * count, count));
    step(s->alone, take_samples(&s->joint, s->net.dtype, first, s->world * count));
}

/* The same with counts[rank] samples each. */
static inline void both_step_uneven(side *s, int64_t first, const int64_t *counts)
{
    int64_t before = 0, all = 0;
    for (int r = 0; r < s->world; r++) {
        before += r < s->rank ? counts[r] : 0;
        all += counts[r];
    }
    step(s->model, take_samples(&s->own, s->net.dtype, first + before, counts[s->rank]));
    step(s->alone, take_samples(&s->joint, s->net.dtype, first, all));
}

static inline void zero_both(side *s)
{
    yk_model_zero_grad(s->model);
    yk_model_zero_grad(s->alone);
}

/* All ranks hold rank 0's bits. */
static inline void assert_equal_over_ranks(yk_group *group, const yk_tensor *mine)
{
    size_t bytes = yk_tensor_bytes(mine);
    void *first = malloc(bytes);
    assert_non_null(first);
    yk_tensor own = yk_test_on_host(*mine);
    memcpy(first, own.data, bytes);
    assert_ok(yk_broadcast(group, first, bytes, YK_U8, 0, NULL));
    assert_memory_equal(first, own.data, bytes);
    free(first);
}

#endif

/* A rank's side of a case with an optimizer, which ZeRO may share out. */
#ifndef YK_TEST_TRAINED_SIDE_H
#define YK_TEST_TRAINED_SIDE_H

#include "small_network.h"

typedef struct trained_side {
    yk_group *group;
    yk_model *model;
    yk_ddp *ddp;
    yk_optimizer *optimizer;
    yk_zero *zero; /* or NULL */
    samples own;
} trained_side;

/* The model under DDP; the optimizer is the case's to make. */
static inline void trained_side_begin(trained_side *s, yk_group *group, const network *net,
                                      const yk_ddp_options *options)
{
    *s = (trained_side){.group = group, .model = make_model(net)};
    assert_ok(yk_ddp_create(&s->ddp, s->model, group, options));
}

static inline void trained_side_shard(trained_side *s)
{
    assert_ok(yk_zero_create(&s->zero, s->optimizer, s->model, s->group));
}

static inline void trained_side_end(trained_side *s)
{
    yk_zero_destroy(s->zero);
    yk_optimizer_destroy(s->optimizer);
    yk_ddp_destroy(s->ddp);
    yk_model_destroy(s->model);
}

#endif

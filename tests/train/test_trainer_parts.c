/* The parts of a trainer, which may be destroyed before it and after it. */
#define _GNU_SOURCE
#include <yoke/yoke.h>

#include "parts.h"

enum { OBJECTS = 12 };

typedef struct objects {
    yk_group *group;
    parts p;
    yk_ddp *ddp;
    yk_zero *zero;
    yk_ema *ema;
    yk_grad_scaler *scaler;
} objects;

static void create_objects(objects *all)
{
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    parts *p = &all->p;
    assert_ok(yk_group_init(&all->group, NULL));
    p->dataset = create_dataset(YK_SPLIT_TRAIN, 200);
    p->test_set = create_dataset(YK_SPLIT_TEST, 50);
    p->loader = create_loader(p->dataset, all->group, true);
    p->validation = create_loader(p->test_set, all->group, false);
    p->model = create_model();
    assert_ok(yk_ddp_create(&all->ddp, p->model, all->group, NULL));
    assert_ok(yk_sgd_create(&p->optimizer, p->model, NULL));
    assert_ok(yk_zero_create(&all->zero, p->optimizer, p->model, all->group));
    assert_ok(yk_ema_create(&all->ema, p->optimizer, NULL));
    assert_ok(yk_grad_scaler_create(&all->scaler, p->model, NULL));
    options.validation = p->validation;
    options.group = all->group;
    options.ddp = all->ddp;
    options.zero = all->zero;
    options.ema = all->ema;
    options.scaler = all->scaler;
    assert_ok(yk_trainer_create(&p->trainer, p->model, p->optimizer, p->loader, &options));
}

static void destroy_object(objects *all, int which)
{
    switch (which) {
    case 0:
        yk_group_destroy(all->group);
        break;
    case 1:
        yk_dataset_destroy(all->p.dataset);
        break;
    case 2:
        yk_dataset_destroy(all->p.test_set);
        break;
    case 3:
        yk_loader_destroy(all->p.loader);
        break;
    case 4:
        yk_loader_destroy(all->p.validation);
        break;
    case 5:
        yk_model_destroy(all->p.model);
        break;
    case 6:
        yk_ddp_destroy(all->ddp);
        break;
    case 7:
        yk_optimizer_destroy(all->p.optimizer);
        break;
    case 8:
        yk_zero_destroy(all->zero);
        break;
    case 9:
        yk_ema_destroy(all->ema);
        break;
    case 10:
        yk_grad_scaler_destroy(all->scaler);
        break;
    default:
        yk_trainer_destroy(all->p.trainer);
        break;
    }
}

/* Ranks have different orders: one counts up from `first`, the other down. */
YK_TEST_RANKS(a_trainer_and_its_parts_are_destroyed_in_any_order, 2)
{
    for (int first = 0; first < OBJECTS; first++) {
        objects all;
        create_objects(&all);
        for (int i = 0; i < OBJECTS; i++)
            destroy_object(&all, (first + (rank ? OBJECTS - i : i)) % OBJECTS);
    }
}

YK_TEST_RANKS(a_trainer_trains_on_without_the_handles_of_its_parts, 2)
{
    objects all;
    yk_evaluation result;
    create_objects(&all);
    for (int i = 0; i < OBJECTS - 1; i++)
        destroy_object(&all, i);
    assert_ok(yk_trainer_step(all.p.trainer, NULL));
    assert_ok(yk_trainer_evaluate(all.p.trainer, &result, NULL));
    assert_int_equal(result.count, 50);
    yk_trainer_destroy(all.p.trainer);
    (void)rank;
}

YK_TEST(data_parallel_may_go_before_its_trainer)
{
    parts p = create_parts(&(yk_trainer_options)YK_TRAINER_OPTIONS_INIT, 200);
    yk_data_parallel *dp;
    yk_trainer *trainer;
    assert_ok(yk_data_parallel_create(&dp, p.model, NULL));
    assert_ok(
        yk_trainer_create(&trainer, p.model, p.optimizer, p.loader,
                          YK_WITH(yk_trainer_options, YK_TRAINER_OPTIONS_INIT, o.parallel = dp)));
    yk_data_parallel_destroy(dp);
    assert_ok(yk_trainer_step(trainer, NULL));
    destroy_parts(p);
    yk_trainer_destroy(trainer);
}

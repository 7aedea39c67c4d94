/*
 * Who keeps whom alive: groups, models, optimizers and what is made of them are destroyed in every
 * order, DDP is created and destroyed again and again, and missing arguments are errors.
 */
#include <yoke/comm_hook.h>
#include <yoke/data_parallel.h>
#include <yoke/optim.h>
#include <yoke/zero.h>

#include "small_network.h"

static const network net = {.device = "ref", .dtype = YK_F32, .norm = true, .seed = 7};

/* ---- orders of destruction ------------------------------------------------------------------- */

enum { OBJECTS = 5 };

typedef struct objects {
    yk_group *group;
    yk_model *model;
    yk_ddp *ddp;
    yk_optimizer *optimizer;
    yk_zero *zero;
} objects;

static void create_all(objects *all, bool synced)
{
    static samples batch;
    assert_ok(yk_group_init(&all->group, NULL));
    all->model = make_model(&net);
    if (synced)
        assert_ok(yk_sync_batch_norm_convert(all->model, all->group));
    assert_ok(yk_ddp_create(&all->ddp, all->model, all->group, NULL));
    assert_ok(yk_sgd_create(&all->optimizer, all->model, NULL));
    assert_ok(yk_zero_create(&all->zero, all->optimizer, all->model, all->group));
    step(all->model, take_samples(&batch, YK_F32, 0, 4));
    assert_ok(yk_optimizer_step(all->optimizer));
}

static void destroy_one(objects *all, int which)
{
    if (which == 0)
        yk_group_destroy(all->group);
    else if (which == 1)
        yk_model_destroy(all->model);
    else if (which == 2)
        yk_ddp_destroy(all->ddp);
    else if (which == 3)
        yk_optimizer_destroy(all->optimizer);
    else
        yk_zero_destroy(all->zero);
}

/* The next permutation in the order of a dictionary; false after the last. */
static bool permute(int *order)
{
    int i = OBJECTS - 2, j = OBJECTS - 1;
    while (i >= 0 && order[i] > order[i + 1])
        i--;
    if (i < 0)
        return false;
    while (order[j] < order[i])
        j--;
    int swapped = order[i];
    order[i] = order[j];
    order[j] = swapped;
    for (int a = i + 1, b = OBJECTS - 1; a < b; a++, b--) {
        swapped = order[a];
        order[a] = order[b];
        order[b] = swapped;
    }
    return true;
}

YK_TEST(objects_of_one_rank_are_destroyed_in_every_order)
{
    int order[OBJECTS] = {0, 1, 2, 3, 4};
    do {
        objects all;
        create_all(&all, false);
        for (int i = 0; i < OBJECTS; i++)
            destroy_one(&all, order[i]);
    } while (permute(order));
}

/* The ranks need not even agree on the order. */
YK_TEST_RANKS(objects_of_ranks_are_destroyed_in_any_order, 2)
{
    for (int first = 0; first < OBJECTS; first++) {
        objects all;
        create_all(&all, true);
        for (int i = 0; i < OBJECTS; i++)
            destroy_one(&all, (first + (rank ? OBJECTS - i : i)) % OBJECTS);
    }
}

YK_TEST_RANKS(works_keep_their_group, 2)
{
    yk_group *group;
    yk_work *work;
    assert_ok(yk_group_init(&group, NULL));
    int32_t one = 1;
    assert_ok(yk_all_reduce(group, &one, 1, YK_I32, YK_REDUCE_SUM, &work));
    yk_group_destroy(group);
    assert_ok(yk_work_wait(work));
    assert_int_equal(one, 2);
}

YK_TEST(a_model_may_go_before_its_data_parallel)
{
    yk_data_parallel *dp;
    yk_model *model = make_model(&net);
    assert_ok(yk_data_parallel_create(&dp, model, NULL));
    yk_model_destroy(model);
    yk_data_parallel_destroy(dp);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int count_mappings(void)
{
    int lines = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    assert_non_null(file);
    for (int c; (c = fgetc(file)) != EOF;)
        lines += c == '\n';
    fclose(file);
    return lines;
}

/* A shared mapping for each rank and piece of memory would be leaked each time. */
YK_TEST_RANKS(creating_ddp_again_and_again_takes_no_more_memory, 2)
{
    enum { TIMES = 50 };
    static samples batch;
    yk_group *group;
    int before = 0;
    assert_ok(yk_group_init(&group, NULL));
    yk_model *model = make_model(&net);
    assert_ok(yk_sync_batch_norm_convert(model, group));
    for (int i = 0; i < TIMES; i++) {
        yk_ddp *ddp;
        assert_ok(yk_ddp_create(&ddp, model, group, NULL));
        if (i % 2)
            assert_ok(yk_ddp_register_bf16_compress_hook(ddp));
        else
            assert_ok(yk_ddp_register_powersgd_hook(ddp, NULL));
        step(model, take_samples(&batch, YK_F32, 0, 4));
        yk_ddp_destroy(ddp);
        yk_model_zero_grad(model);
        before = i == 2 ? count_mappings() : before;
    }
    assert_in_range(count_mappings(), 1, before + TIMES / 2);
    yk_model_destroy(model);
    yk_group_destroy(group);
}

YK_TEST_RANKS(memory_that_a_peer_has_freed_fails_the_group, 2)
{
    yk_group *group;
    void *memory;
    static int64_t own[1 << 14]; /* too much to travel with the exchange */
    assert_ok(yk_group_init(&group, NULL));
    assert_ok(yk_group_alloc(group, sizeof own, &memory));
    bool freed = yk_group_rank(group) == 1;
    if (freed)
        assert_ok(yk_group_free(group, memory));
    assert_status(YK_ERROR_MISMATCH,
                  yk_broadcast(group, freed ? (void *)own : memory, 1 << 14, YK_I64, 0, NULL));
    assert_contains(yk_last_error(),
                    "rank 0 passed memory of yk_group_alloc that rank 1 has already freed");
    yk_group_destroy(group);
}

YK_TEST_RANKS(a_receiver_that_has_freed_the_senders_memory_fails_the_group, 2)
{
    yk_group *group;
    void *memory;
    int64_t own = 0;
    assert_ok(yk_group_init(&group, NULL));
    assert_ok(yk_group_alloc(group, sizeof own, &memory));
    if (yk_group_rank(group) == 1) {
        assert_ok(yk_group_free(group, memory));
        assert_status(YK_ERROR_MISMATCH, yk_recv(group, &own, 1, YK_I64, 0));
    } else {
        assert_status(YK_ERROR_MISMATCH, yk_send(group, memory, 1, YK_I64, 1));
    }
    assert_contains(yk_last_error(), "that rank 1 has already freed");
    yk_group_destroy(group);
}

static void check_free(void)
{
    yk_group *group;
    void *first, *second;
    int other;
    assert_ok(yk_group_init(&group, NULL));
    assert_ok(yk_group_alloc(group, 100, &first));
    assert_ok(yk_group_alloc(group, 1 << 20, &second));
    assert_ok(yk_group_free(group, first));
    assert_ok(yk_group_free(group, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_group_free(group, &other));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_group_free(group, first));
    assert_contains(yk_last_error(), "is not memory of this group's yk_group_alloc");
    int64_t *numbers = second;
    numbers[1000] = 1;
    assert_ok(yk_all_reduce(group, numbers, 1 << 17, YK_I64, YK_REDUCE_SUM, NULL));
    assert_int_equal(numbers[1000], yk_group_size(group));
    yk_group_destroy(group);
}

YK_TEST_RANKS(memory_is_freed_one_by_one, 2)
{
    check_free();
}

YK_TEST(memory_of_one_rank_is_freed_one_by_one)
{
    check_free();
}

/* ---- missing arguments ----------------------------------------------------------------------- */

#define assert_refused(call)                                                                       \
    do {                                                                                           \
        assert_status(YK_ERROR_INVALID_ARGUMENT, call);                                            \
        assert_contains(yk_last_error(), "is NULL");                                               \
    } while (0)

YK_TEST(missing_groups_and_works_are_errors)
{
    int32_t one = 1;
    yk_work *work = (yk_work *)(uintptr_t)1;
    void *memory = &one;
    assert_refused(yk_all_reduce(NULL, &one, 1, YK_I32, YK_REDUCE_SUM, &work));
    assert_null(work);
    assert_refused(yk_reduce(NULL, &one, 1, YK_I32, YK_REDUCE_SUM, 0, NULL));
    assert_refused(yk_broadcast(NULL, &one, 1, YK_I32, 0, NULL));
    assert_refused(yk_all_gather(NULL, &one, &one, 1, YK_I32, NULL));
    assert_refused(yk_reduce_scatter(NULL, &one, &one, 1, YK_I32, YK_REDUCE_SUM, NULL));
    assert_refused(yk_gather(NULL, &one, &one, 1, YK_I32, 0, NULL));
    assert_refused(yk_scatter(NULL, &one, &one, 1, YK_I32, 0, NULL));
    assert_refused(yk_send(NULL, &one, 1, YK_I32, 0));
    assert_refused(yk_recv(NULL, &one, 1, YK_I32, 0));
    assert_refused(yk_barrier(NULL));
    assert_refused(yk_group_alloc(NULL, 1, &memory));
    assert_null(memory);
    assert_refused(yk_group_free(NULL, &one));
    assert_refused(yk_group_init(NULL, NULL));
    assert_refused(yk_work_wait(NULL));
    assert_true(yk_work_done(NULL));
    assert_int_equal(yk_group_rank(NULL), -1);
    assert_int_equal(yk_group_size(NULL), 0);
    assert_string_equal(yk_group_backend(NULL), "");
    assert_string_equal(yk_group_backend_reason(NULL), "");
    yk_group_destroy(NULL);
}

YK_TEST(missing_models_and_groups_are_errors)
{
    yk_group *group;
    yk_ddp *ddp;
    yk_zero *zero;
    yk_data_parallel *dp;
    yk_optimizer *optimizer;
    yk_model *model = make_model(&net);
    assert_ok(yk_group_init(&group, NULL));
    assert_ok(yk_sgd_create(&optimizer, model, NULL));
    assert_refused(yk_ddp_create(&ddp, model, NULL, NULL));
    assert_refused(yk_ddp_create(&ddp, NULL, group, NULL));
    assert_refused(yk_ddp_create(NULL, model, group, NULL));
    assert_refused(yk_zero_create(&zero, NULL, model, group));
    assert_refused(yk_zero_create(&zero, optimizer, NULL, group));
    assert_refused(yk_zero_create(&zero, optimizer, model, NULL));
    assert_refused(yk_zero_consolidate(NULL));
    assert_refused(yk_data_parallel_create(&dp, NULL, NULL));
    assert_refused(yk_data_parallel_check(NULL, NULL));
    assert_refused(yk_sync_batch_norm_convert(NULL, group));
    assert_refused(yk_sync_batch_norm_convert(model, NULL));
    assert_int_equal(yk_zero_owner(NULL, 0), -1);
    assert_string_equal(yk_data_parallel_description(NULL), "");
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
    yk_group_destroy(group);
}

YK_TEST(a_missing_ddp_is_an_error)
{
    const yk_comm_hook_state *carried;
    assert_refused(yk_ddp_join_begin(NULL, NULL));
    assert_refused(yk_ddp_join_end(NULL));
    assert_refused(yk_ddp_check_divergence(NULL));
    assert_refused(yk_ddp_register_comm_hook(NULL, NULL, NULL));
    assert_refused(yk_ddp_register_bf16_compress_hook(NULL));
    assert_refused(yk_ddp_register_powersgd_hook(NULL, NULL));
    assert_refused(yk_ddp_consolidate_comm_hook(NULL, &carried));
    yk_ddp_set_no_sync(NULL, true);
    assert_int_equal(yk_ddp_bucket_count(NULL), 0);
    assert_int_equal(yk_ddp_bucket_bytes(NULL, 0), 0);
    assert_true(yk_ddp_last_stats(NULL).communication_s == 0);
    yk_ddp_destroy(NULL);
}

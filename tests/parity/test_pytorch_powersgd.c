/*
 * PowerSGD against PyTorch's powerSGD_hook: two ranks' gradients of 20 steps, what yoke makes of
 * them, and what PyTorch does, with error feedback and warm starts.
 */
#define _GNU_SOURCE
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include "../parallel/small_network.h"
#include "pytorch.h"

enum { RANKS = 2, STEPS = 20, START_ITER = 2, SEED = 5, MOST = 16 };

/* The parent's folder, for its ranks. */
static const char *path_of(const char *file)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", getenv("YOKE_TEST_SHARED"), file);
    return path;
}

typedef struct record {
    FILE *file;
    bool leads;
    size_t count;
    const char *names[MOST];
} record;

static void write_shapes(const yk_grad_bucket *bucket)
{
    FILE *file = fopen(path_of("shapes.txt"), "we");
    assert_non_null(file);
    for (size_t i = 0; i < bucket->parameter_count; i++)
        for (int d = 0; d < bucket->parameters[i].grad.ndim; d++)
            fprintf(file, "%lld%c", (long long)bucket->parameters[i].grad.dims[d],
                    d + 1 < bucket->parameters[i].grad.ndim ? ' ' : '\n');
    fclose(file);
}

static void write_gradient(FILE *file, const yk_tensor *grad)
{
    size_t count = (size_t)yk_tensor_count(grad);
    assert_int_equal(fwrite(grad->data, sizeof(float), count, file), count);
}

/* In place of the all-reduce: keeps this rank's gradients. */
static yk_status record_hook(void *state, yk_group *group, const yk_grad_bucket *bucket)
{
    record *r = state;
    (void)group;
    if (r->count == 0 && r->leads)
        write_shapes(bucket);
    r->count = bucket->parameter_count;
    assert_in_range(r->count, 1, MOST);
    for (size_t i = 0; i < r->count; i++) {
        r->names[i] = bucket->parameters[i].name;
        write_gradient(r->file, &bucket->parameters[i].grad);
    }
    return YK_OK;
}

static void write_result(FILE *file, const yk_model *model, const record *r)
{
    for (size_t i = 0; i < r->count; i++)
        for (size_t p = 0; p < yk_model_parameter_count(model); p++) {
            yk_parameter_view view = yk_model_parameter(model, p);
            if (strcmp(view.name, r->names[i]) == 0)
                write_gradient(file, &view.grad);
        }
}

static void compress(int rank, int64_t approximation)
{
    const network net = {.device = "ref", .dtype = YK_F32, .seed = 5};
    samples own;
    char local[32];
    yk_group *group;
    yk_ddp *plain, *hooked;
    snprintf(local, sizeof local, "local-%d.bin", rank);
    record r = {.file = fopen(path_of(local), "we"), .leads = rank == 0};
    FILE *result = rank == 0 ? fopen(path_of("result.bin"), "we") : NULL;
    assert_true(r.file && (rank || result));
    assert_ok(yk_group_init(&group, NULL));
    yk_model *model = make_model(&net), *compressed = make_model(&net);
    assert_ok(yk_ddp_create(&plain, model, group, NULL));
    assert_ok(yk_ddp_create(&hooked, compressed, group, NULL));
    assert_ok(yk_ddp_register_comm_hook(plain, record_hook, &r));
    assert_ok(yk_ddp_register_powersgd_hook(
        hooked, YK_WITH(yk_powersgd_options, YK_POWERSGD_OPTIONS_INIT,
                        o.matrix_approximation_rank = approximation, o.start_iter = START_ITER,
                        o.min_compression_rate = 1e-9, o.random_seed = SEED)));
    for (int i = 0; i < STEPS; i++) {
        const yk_batch *batch = take_samples(&own, net.dtype, 10 * i + 5 * rank, 5);
        step(model, batch);
        step(compressed, batch);
        if (result)
            write_result(result, compressed, &r);
        yk_model_zero_grad(model);
        yk_model_zero_grad(compressed);
    }
    fclose(r.file);
    if (result)
        fclose(result);
    yk_ddp_destroy(plain);
    yk_ddp_destroy(hooked);
    yk_model_destroy(model);
    yk_model_destroy(compressed);
    yk_group_destroy(group);
}

static void with_rank_1(int rank, int world)
{
    (void)world;
    compress(rank, 1);
}

static void with_rank_2(int rank, int world)
{
    (void)world;
    compress(rank, 2);
}

static void compare(void (*body)(int rank, int world), int approximation)
{
    if (!getenv("RANK"))
        setenv("YOKE_TEST_SHARED", yk_test_directory(), 1);
    yk_test_ranks(RANKS, body);
    pytorch_judges("powersgd.py", "%s %d %d %d", yk_test_directory(), RANKS, approximation,
                   START_ITER);
}

YK_TEST(powersgd_of_rank_1_is_pytorchs)
{
    compare(with_rank_1, 1);
}

YK_TEST(powersgd_of_rank_2_is_pytorchs)
{
    compare(with_rank_2, 2);
}

/* PowerSGD's errors and factors in checkpoints: a run goes on bit for bit, on fewer ranks it loses
 * nothing. */
#define _GNU_SOURCE
#include "harness.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../parallel/small_network.h"
#include "checkpoint/tensor_file/pth.h"
#include "parallel/ddp.h"

enum { BEFORE = 6, AFTER = 5 };

static const network net = {.device = "ref", .dtype = YK_F32, .seed = 3};

typedef struct side {
    yk_group *group;
    yk_model *model;
    yk_ddp *ddp;
    samples own;
} side;

/* With a PowerSGD that has this many backwards behind it; rank 0: that of the options. */
static void begin(side *s, yk_group *group, int64_t iter, const yk_powersgd_options *options)
{
    yk_powersgd_options own = YK_POWERSGD_OPTIONS_INIT;
    own.start_iter = 2;
    own.min_compression_rate = 1e-9;
    if (options)
        own = *options;
    own.iter = iter;
    *s = (side){.group = group, .model = make_model(&net)};
    assert_ok(yk_ddp_create(&s->ddp, s->model, group,
                            YK_WITH(yk_ddp_options, YK_DDP_OPTIONS_INIT, o.bucket_cap_mb = 1e-3)));
    assert_ok(yk_ddp_register_powersgd_hook(s->ddp, &own));
}

static void end(side *s)
{
    yk_ddp_destroy(s->ddp);
    yk_model_destroy(s->model);
}

static void take_steps(side *s, int first, int count)
{
    for (int i = first; i < first + count; i++) {
        yk_model_zero_grad(s->model);
        step(s->model, take_samples(&s->own, net.dtype, 40 * i + 4 * yk_group_rank(s->group), 4));
    }
}

/* On rank 0, under a name that all ranks know; they go on when it is there. */
static const char *save(const side *s)
{
    static char path[256];
    yk_training_state state = {.arch = "small"};
    snprintf(path, sizeof path, "%s/run.pth", getenv("YOKE_TEST_SHARED"));
    assert_ok(yk_ddp_consolidate_comm_hook(s->ddp, &state.comm_hook));
    assert_true((state.comm_hook != NULL) == (yk_group_rank(s->group) == 0));
    if (state.comm_hook)
        assert_ok(yk_checkpoint_save(path, s->model, NULL, &state));
    assert_ok(yk_barrier(s->group));
    return path;
}

static void run(int ranks, void (*body)(int rank, int world))
{
    if (!getenv("RANK"))
        setenv("YOKE_TEST_SHARED", yk_test_directory(), 1);
    yk_test_ranks(ranks, body);
}

/* ---- as many ranks --------------------------------------------------------------------------- */

static void go_on(int rank, int world)
{
    (void)rank, (void)world;
    yk_group *group;
    side whole, parts;
    assert_ok(yk_group_init(&group, NULL));
    begin(&whole, group, 0, NULL);
    take_steps(&whole, 0, BEFORE);
    const char *path = save(&whole);
    take_steps(&whole, BEFORE, AFTER);

    begin(&parts, group, BEFORE, NULL);
    assert_ok(yk_checkpoint_load(path, parts.model, NULL, NULL));
    assert_ok(yk_checkpoint_load_comm_hook(path, parts.ddp));
    take_steps(&parts, BEFORE, AFTER);
    for (size_t i = 0; i < yk_model_parameter_count(whole.model); i++) {
        yk_tensor a = yk_model_parameter(whole.model, i).grad;
        yk_tensor b = yk_model_parameter(parts.model, i).grad;
        assert_memory_equal(yk_test_on_host(a).data, yk_test_on_host(b).data, yk_tensor_bytes(&a));
    }
    end(&parts);
    end(&whole);
    yk_group_destroy(group);
}

YK_TEST(powersgd_goes_on_bit_for_bit)
{
    run(3, go_on);
}

/* ---- fewer, or more -------------------------------------------------------------------------- */

/* What all ranks' errors add up to, in f64. */
static double total_error(const side *s)
{
    double sum = 0;
    const yki_hook_memory *memory = &s->ddp->hook.memory;
    yk_tensor errors = yk_test_on_host((yk_tensor){.data = memory->errors,
                                                   .ndim = 1,
                                                   .dims = {(int64_t)memory->error_elements},
                                                   .device = memory->device});
    for (size_t e = 0; e < memory->error_elements; e++)
        sum += (double)((const float *)errors.data)[e] * (double)(e % 7 + 1);
    assert_ok(yk_all_reduce(s->group, &sum, 1, YK_F64, YK_REDUCE_SUM, NULL));
    return sum;
}

static void on_other_ranks(int rank, int world)
{
    (void)world;
    yk_group *three, *two;
    side whole, parts;
    assert_ok(yk_group_init(&three, NULL));
    begin(&whole, three, 0, NULL);
    take_steps(&whole, 0, BEFORE);
    const char *path = save(&whole);
    double expected = total_error(&whole);
    assert_true(fabs(expected) > 1e-6);
    if (rank < 2) {
        char where[256];
        snprintf(where, sizeof where, "file://%s/two", getenv("YOKE_TEST_SHARED"));
        assert_ok(
            yk_group_init(&two, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT,
                                        o.init_method = where, o.rank = rank, o.world_size = 2)));
        begin(&parts, two, BEFORE, NULL);
        assert_ok(yk_checkpoint_load_comm_hook(path, parts.ddp));
        assert_float_equal(total_error(&parts), expected, 1e-5 * fabs(expected));
        end(&parts);
        yk_group_destroy(two);
    }
    assert_ok(yk_barrier(three));
    end(&whole);
    yk_group_destroy(three);
}

YK_TEST(powersgd_on_fewer_ranks_keeps_what_it_owes)
{
    run(3, on_other_ranks);
}

/* ---- what does not fit ----------------------------------------------------------------------- */

static void mismatches(int rank, int world)
{
    (void)rank, (void)world;
    yk_group *group;
    side whole, other;
    assert_ok(yk_group_init(&group, NULL));
    begin(&whole, group, 0, NULL);
    take_steps(&whole, 0, BEFORE);
    const char *path = save(&whole);
    double before = total_error(&whole);

    begin(&other, group, BEFORE,
          YK_WITH(yk_powersgd_options, YK_POWERSGD_OPTIONS_INIT, o.matrix_approximation_rank = 2,
                  o.start_iter = 2, o.min_compression_rate = 1e-9));
    assert_status(YK_ERROR_MISMATCH, yk_checkpoint_load_comm_hook(path, other.ddp));
    assert_contains(yk_last_error(), "\"factors\" of the comm hook");
    assert_float_equal(total_error(&other), 0, 0);
    end(&other);

    other = (side){.group = group, .model = make_model(&net)};
    assert_ok(yk_ddp_create(&other.ddp, other.model, group, NULL));
    assert_status(YK_ERROR_MISMATCH, yk_checkpoint_load_comm_hook(path, other.ddp));
    assert_contains(yk_last_error(),
                    "holds the state of the comm hook powersgd; the one registered here keeps no");
    const yk_comm_hook_state *none = &(yk_comm_hook_state){.ranks = 1};
    assert_ok(yk_ddp_consolidate_comm_hook(other.ddp, &none));
    assert_null(none);
    end(&other);

    assert_ok(yk_barrier(group)); /* the other rank still reads what is written over here */
    if (yk_group_rank(group) == 0)
        assert_ok(yk_checkpoint_save(path, whole.model, NULL, NULL));
    assert_ok(yk_barrier(group));
    assert_status(YK_ERROR_NOT_FOUND, yk_checkpoint_load_comm_hook(path, whole.ddp));
    assert_float_equal(total_error(&whole), before, 0);
    end(&whole);
    yk_group_destroy(group);
}

/* A checkpoint whose "warm" has this number in front, as a float. */
static void write_warm(const char *path, const yki_hook_memory *memory, float number)
{
    static float zeros[65536];
    yki_pth_writer *writer;
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    assert_true(memory->factor_elements <= 65536 && memory->buckets <= 65536);
    float *warm = calloc(memory->buckets, sizeof *warm);
    warm[0] = number;
    assert_ok(yki_pth_writer_create(&writer, fd, path));
    yki_pickle_writer *pickle = yki_pth_pickle(writer);
    yki_pickle_dict(pickle);
    yki_pickle_mark(pickle);
    yki_pickle_text(pickle, "comm_hook");
    yki_pickle_dict(pickle);
    yki_pickle_mark(pickle);
    yki_pickle_text(pickle, "name");
    yki_pickle_text(pickle, memory->name);
    yki_pickle_text(pickle, "errors");
    yki_pickle_list(pickle);
    yk_tensor factors = {.data = zeros, .ndim = 1, .dims = {(int64_t)memory->factor_elements}};
    yki_pickle_text(pickle, "factors");
    assert_ok(yki_pth_tensor(writer, &factors));
    yk_tensor odd = {.data = warm, .ndim = 1, .dims = {(int64_t)memory->buckets}};
    yki_pickle_text(pickle, "warm");
    assert_ok(yki_pth_tensor(writer, &odd));
    yki_pickle_setitems(pickle);
    yki_pickle_setitems(pickle);
    assert_ok(yki_pth_writer_finish(writer));
    free(warm);
    close(fd);
}

static int first_warm(const yki_hook_memory *memory)
{
    yk_tensor warm = {.data = memory->warm, .dtype = YK_U8, .device = memory->device};
    return *(const uint8_t *)yk_test_on_host(warm).data;
}

YK_TEST(numbers_that_no_hook_writes_are_refused)
{
    const char *path = yk_test_path("odd.pth");
    side s;
    yk_group *group;
    assert_ok(yk_group_init(
        &group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.world_size = 1, o.rank = 0)));
    begin(&s, group, 0, NULL);
    const yki_hook_memory *memory = &s.ddp->hook.memory;
    write_warm(path, memory, 1);
    assert_ok(yk_checkpoint_load_comm_hook(path, s.ddp));
    assert_int_equal(first_warm(memory), 1);
    static const float wrong[] = {NAN, -1, 256};
    for (int i = 0; i < 3; i++) {
        write_warm(path, memory, wrong[i]);
        assert_status(YK_ERROR_FORMAT, yk_checkpoint_load_comm_hook(path, s.ddp));
        assert_contains(yk_last_error(), "odd.pth: \"warm\" of the comm hook (float32) holds ");
        assert_int_equal(first_warm(memory), 1);
    }
    end(&s);
    yk_group_destroy(group);
}

YK_TEST(powersgd_of_other_options_is_refused)
{
    run(2, mismatches);
}

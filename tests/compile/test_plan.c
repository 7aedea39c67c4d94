/*
 * Plans: what shares memory never lives at the same time. Checked on random slots, and on the plans
 * of all nets by following, step by step, whose bytes are whose.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "compile/arena.h"
#include "harness.h"
#include "model/model.h"
#include "nets.h"

/* ---- the arena ------------------------------------------------------------------------------ */

static bool bytes_overlap(const yki_slot *a, const yki_slot *b)
{
    return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

static bool alive_together(const yki_slot *a, const yki_slot *b)
{
    return a->first <= b->last && b->first <= a->last;
}

static void check_slots(const yki_slot *slots, size_t count, size_t total)
{
    size_t most = 0;
    for (size_t i = 0; i < count; i++) {
        const yki_slot *a = &slots[i];
        size_t alive = 0;
        assert_true(a->offset % 256 == 0 && a->offset + a->bytes <= total);
        for (size_t j = 0; j < count; j++) {
            if (j < i)
                assert_false(alive_together(a, &slots[j]) && bytes_overlap(a, &slots[j]));
            if (slots[j].first <= a->first && a->first <= slots[j].last)
                alive += slots[j].bytes;
        }
        most = alive > most ? alive : most;
    }
    assert_true(total >= most);
    assert_true(total <= 2 * most); /* greedy by size stays well below this */
}

YK_TEST(slots_alive_together_never_overlap)
{
    enum { SLOTS = 120, ROUNDS = 200 };
    for (uint64_t round = 0; round < ROUNDS; round++) {
        yki_slot slots[SLOTS] = {{0}};
        size_t total, count = 1 + yki_hash3(round, 0, 0) % SLOTS;
        for (uint64_t i = 0; i < count; i++) {
            slots[i].bytes = 1 + yki_hash3(round, i, 1) % 5000;
            slots[i].first = (int)(yki_hash3(round, i, 2) % 60);
            slots[i].last = slots[i].first + (int)(yki_hash3(round, i, 3) % 20);
        }
        assert_ok(yki_arena_assign(slots, count, &total));
        check_slots(slots, count, total);
    }
}

YK_TEST(an_empty_arena_is_fine)
{
    size_t total = 1;
    assert_ok(yki_arena_assign(NULL, 0, &total));
    assert_int_equal(total, 0);
}

/* ---- whole plans ---------------------------------------------------------------------------- */

static int pairs; /* of steps beside each other, in all plans that have been followed */

/* Follows a plan: for every value, whether its bytes still hold it. */
typedef struct follower {
    const yk_model *model;
    const yki_plan *plan;
    bool *holds;         /* by value id */
    const yki_slot **at; /* by value id: the slot it was written to */
} follower;

static void write_value(follower *f, const yki_place *place, const yk_value *value)
{
    if (place->kind != YKI_PLACE_ARENA)
        return;
    const yki_slot *slot = &f->plan->slots[place->index];
    assert_true(slot->offset + slot->bytes <= f->plan->arena_bytes);
    for (size_t i = 0; i < f->model->graph->value_count; i++)
        if (f->holds[i] && bytes_overlap(slot, f->at[i]))
            f->holds[i] = false;
    if (value) {
        f->holds[value->id] = true;
        f->at[value->id] = slot;
    }
}

/* Nobody reads a parameter's gradient, which distributed training may change once it is written. */
static void read_value(const follower *f, const yki_place *place, const yk_value *value)
{
    assert_int_not_equal(place->kind, YKI_PLACE_GRADIENT);
    if (place->kind != YKI_PLACE_ARENA)
        return;
    if (!f->holds[value->id] || f->at[value->id] != &f->plan->slots[place->index])
        fail_msg("value %d is read after its bytes were given away", value->id);
}

/* Scratch memory takes no bytes of a value that is still read, nor of what the step itself works
 * on. */
static void check_scratch(const follower *f, const yki_step *step)
{
    if (step->scratch < 0) {
        assert_int_equal(step->kernel->scratch, 0);
        return;
    }
    const yki_slot *slot = &f->plan->slots[step->scratch];
    int at = (int)(step - f->plan->steps);
    assert_true(slot->bytes >= step->kernel->scratch);
    assert_true(slot->offset + slot->bytes <= f->plan->arena_bytes);
    for (size_t i = 0; i < f->plan->slot_count; i++) {
        const yki_slot *other = &f->plan->slots[i];
        bool alive = other->first <= at && at <= other->last;
        assert_false(other != slot && alive && bytes_overlap(slot, other));
    }
}

/* A kernel reads its inputs while it writes: only output 0 may take one over. */
static void follow_step(follower *f, const yki_step *step)
{
    const yki_node *node = step->node;
    const unsigned inplace = step->kernel->impl->inplace;
    check_scratch(f, step);
    for (int i = 0; node && i < step->in_count; i++)
        if (node->in[i])
            read_value(f, &step->in[i], node->in[i]);
    for (int i = 0; i < step->out_count; i++)
        write_value(f, &step->out[i],
                    node ? node->out[i] : f->model->executor.inputs.list[step->in[0].index].value);
    for (int i = 0; node && i < step->in_count; i++) {
        bool arena = node->in[i] && step->in[i].kind == YKI_PLACE_ARENA;
        if (arena && !f->holds[node->in[i]->id] && !(inplace >> i & 1))
            fail_msg("%s overwrites its input %d while it reads it", node->op->name, i);
    }
    for (int i = 0; i < step->out_count; i++)
        if (node && node->out[i] && step->out[i].kind == YKI_PLACE_ARENA)
            assert_true(f->holds[node->out[i]->id]);
}

/* The slots that a step reads or writes, or only those that it writes. */
static int slots_of(const yki_plan *plan, const yki_step *step, bool written,
                    const yki_slot *slots[YKI_MAX_IN + YKI_MAX_OUT + 1])
{
    int count = 0;
    for (int i = 0; !written && i < step->in_count; i++)
        if (step->in[i].kind == YKI_PLACE_ARENA)
            slots[count++] = &plan->slots[step->in[i].index];
    for (int i = 0; i < step->out_count; i++)
        if (step->out[i].kind == YKI_PLACE_ARENA)
            slots[count++] = &plan->slots[step->out[i].index];
    if (step->scratch >= 0)
        slots[count++] = &plan->slots[step->scratch];
    return count;
}

static void check_writes(const yki_plan *plan, const yki_step *step, const yki_step *other)
{
    const yki_slot *written[YKI_MAX_IN + YKI_MAX_OUT + 1], *used[YKI_MAX_IN + YKI_MAX_OUT + 1];
    int writes = slots_of(plan, step, true, written), uses = slots_of(plan, other, false, used);
    for (int i = 0; i < writes; i++)
        for (int j = 0; j < uses; j++)
            if (bytes_overlap(written[i], used[j]))
                fail_msg("%s writes what %s uses beside it", step->node->op->name,
                         other->node->op->name);
}

/* Two steps beside each other write nothing that the other uses. */
static void check_pairs(const yki_plan *plan)
{
    for (size_t i = 0; i < plan->step_count; i++) {
        const yki_step *step = &plan->steps[i];
        if (!step->beside)
            continue;
        assert_true(i + 1 < plan->step_count && i + 1 != plan->forward_count && !step[1].beside);
        check_writes(plan, step, step + 1);
        check_writes(plan, step + 1, step);
        pairs++;
    }
}

static void check_plan(const yk_model *model, const yki_plan *plan)
{
    size_t values = model->graph->value_count, total = 0;
    follower f = {.model = model, .plan = plan};
    f.holds = calloc(values, sizeof *f.holds);
    f.at = calloc(values, sizeof *f.at);
    for (size_t i = 0; i < plan->slot_count; i++)
        total += plan->slots[i].bytes;
    for (size_t i = 0; i < plan->step_count; i++)
        follow_step(&f, &plan->steps[i]);
    assert_true(f.holds[model->executor.source.loss->id] &&
                f.holds[yki_logits_of(&model->executor.source)->id]);
    assert_true(plan->arena_bytes <= total);
    check_pairs(plan);
    free(f.holds);
    free(f.at);
}

/* Plans of training, of evaluation, and of evaluation with backward. */
static void check_net(const test_net *net, const char *device, yk_dtype dtype, int64_t width)
{
    yk_model *model = net_model(net, device, dtype, width);
    net_batch b;
    net_batch_init(&b, dtype, 3, 7);
    net_step(model, &b);
    yk_model_eval(model);
    assert_ok(yk_model_forward(model, &b.batch));
    net_step(model, &b);
    assert_int_equal(model->executor.plans.count, 3);
    for (size_t i = 0; i < model->executor.plans.count; i++)
        check_plan(model, model->executor.plans.list[i]->plan);
    assert_true(model->executor.plans.list[1]->plan->arena_bytes <=
                model->executor.plans.list[0]->plan->arena_bytes);
    net_batch_fini(&b);
    yk_model_destroy(model);
}

YK_TEST(values_keep_their_bytes_while_they_are_read)
{
    for (int i = 0; i < net_count; i++)
        check_net(&nets[i], "ref", YK_F64, 1);
}

YK_TEST(values_keep_their_bytes_on_cpu)
{
    for (int i = 0; i < net_count; i++)
        check_net(&nets[i], "cpu", YK_F32, 7);
}

/* The simulated device gains by all steps that may run beside each other. */
YK_TEST(values_keep_their_bytes_beside_each_other)
{
    for (int i = 0; i < net_count; i++)
        check_net(&nets[i], "sim", YK_F32, 7);
    assert_true(pairs > net_count);
}

/* Its kernels need so little scratch memory that it lies after the values in some plans. */
YK_TEST(values_keep_their_bytes_on_cpu_without_avx2)
{
    setenv("ONEDNN_MAX_CPU_ISA", "SSE41", 1);
    for (int i = 0; i < net_count; i++)
        check_net(&nets[i], "cpu", YK_F32, 7);
}

/* ---- results in the place of an operand ------------------------------------------------------ */

/* x + f(x), and a column of x times f(x): x is the caller's memory, and f(x) dies there. */
static void check_either_side(const char *device, bool broadcast)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, 8});
    yk_value *branch = yk_nn_linear(x, "fc", 8);
    yk_model_options options = YK_MODEL_OPTIONS_INIT;
    options.device = device;
    options.logits = broadcast ? yk_multiply(yk_slice(x, 1, 0, 1), branch) : yk_add(x, branch);
    yk_model *model;
    assert_ok(yk_model_create(&model, NULL, &options));
    float numbers[3 * 8] = {1};
    yk_batch batch = {
        .size = 3,
        .count = 1,
        .names = (const char *const[]){"x"},
        .tensors = &(yk_tensor){.data = numbers, .dtype = YK_F32, .ndim = 2, .dims = {3, 8}}};
    assert_ok(yk_model_forward(model, &batch));
    const yki_plan *plan = model->executor.plans.list[0]->plan;
    const yki_step *last = &plan->steps[plan->step_count - 1];
    assert_ptr_equal(last->node->op, broadcast ? &yki_op_multiply : &yki_op_add);
    assert_int_equal(last->in[1].kind, YKI_PLACE_ARENA);
    assert_int_equal(last->out[0].kind, YKI_PLACE_ARENA);
    assert_int_equal(last->out[0].index, last->in[1].index);
    yk_model_destroy(model);
}

YK_TEST(results_take_the_memory_of_either_side)
{
    static const char *const devices[] = {"ref", "cpu", "sim"};
    for (int i = 0; i < 3; i++) {
        check_either_side(devices[i], false);
        check_either_side(devices[i], true);
    }
}

/* ---- sums of convolutions -------------------------------------------------------------------- */

/* How many convolutions give sums, and how many batch_norms read them, in the newest plan. */
typedef struct summing {
    int given, read;
} summing;

static summing count_sums(const yk_model *model)
{
    const yki_plans *plans = &model->executor.plans;
    const yki_plan *plan = plans->list[plans->count - 1]->plan;
    summing found = {0, 0};
    for (size_t i = 0; i < plan->step_count; i++) {
        const yki_step *step = &plan->steps[i];
        const yki_op *op = step->node ? step->node->op : NULL;
        if (op == &yki_op_conv2d)
            found.given += step->out[YKI_CONV2D_SUMS].kind == YKI_PLACE_ARENA;
        if (op == &yki_op_batch_norm)
            found.read += step->in[YKI_BATCH_NORM_SUMS].kind == YKI_PLACE_ARENA;
    }
    return found;
}

/* conv1 -> norm1, conv2 -> relu -> norm2, conv3 -> norm3, which is frozen, and conv4 -> norm4. */
static yk_model *make_norms(const char *device)
{
    const int64_t dims[] = {YK_BATCH, 8, 5, 5}, labels[] = {YK_BATCH};
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "images", YK_F32, 4, dims);
    x = yk_nn_batch_norm(yk_nn_conv2d(x, "conv1", 8, 3, NULL), "norm1");
    x = yk_nn_batch_norm(yk_relu(yk_nn_conv2d(x, "conv2", 8, 1, NULL)), "norm2");
    x = yk_nn_batch_norm(yk_nn_conv2d(x, "conv3", 8, 1, NULL), "norm3");
    x = yk_relu(yk_nn_batch_norm(yk_nn_conv2d(x, "conv4", 8, 1, NULL), "norm4"));
    assert_ok(yk_graph_set_trainable(graph, "norm3.*", false, NULL));
    yk_value *loss = yk_cross_entropy(yk_flatten(yk_global_avg_pool2d(x)),
                                      yk_input(graph, "labels", YK_I32, 1, labels), NULL);
    yk_model *model;
    assert_ok(yk_model_create(&model, loss,
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device)));
    return model;
}

static summing sums_of(yk_model *model, bool training)
{
    const int64_t samples = 2;
    static float images[2 * 8 * 5 * 5] = {1};
    static int32_t labels[2];
    static const char *const names[] = {"images", "labels"};
    yk_tensor tensors[] = {{.data = images, .dtype = YK_F32, .ndim = 4, .dims = {samples, 8, 5, 5}},
                           {.data = labels, .dtype = YK_I32, .ndim = 1, .dims = {samples}}};
    if (training)
        yk_model_train(model);
    else
        yk_model_eval(model);
    assert_ok(yk_model_forward(
        model, &(yk_batch){.size = samples, .count = 2, .names = names, .tensors = tensors}));
    return count_sums(model);
}

/* In training, where a batch_norm that is not frozen reads the convolution's own result. */
YK_TEST(convolutions_give_sums_to_batch_norms)
{
    static const char *const devices[] = {"ref", "sim"};
    for (int i = 0; i < 2; i++) {
        yk_model *model = make_norms(devices[i]);
        summing found = sums_of(model, true);
        assert_int_equal(found.given, 2);
        assert_int_equal(found.read, 2);
        found = sums_of(model, false);
        assert_int_equal(found.given + found.read, 0);
        yk_model_destroy(model);
    }
}

/* Its kernels would make a pass for the sums, too. */
YK_TEST(batch_norms_of_the_cpu_measure_for_themselves)
{
    yk_model *model = make_norms("cpu");
    summing found = sums_of(model, true);
    assert_int_equal(found.given + found.read, 0);
    yk_model_destroy(model);
}

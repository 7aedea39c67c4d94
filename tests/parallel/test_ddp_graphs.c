/*
 * Graphs drawn at random under DDP with SyncBatchNorm: gradients and running statistics are those
 * of one process with the joint batch, whatever the graph's parameters are used for, if at all.
 *
 * YOKE_TEST_DRAWS=N draws N graphs instead of 20, YOKE_TEST_SEED=N others.
 */
#include <math.h>
#include <stdlib.h>

#include "base/random.h"
#include "drawn_graph.h"
#include "graph/graph.h"
#include "harness.h"
#include "model/model_hooks.h"
#include "tensor/element.h"

enum { STEPS = 2, MOST = 4 /* samples of a rank */ };

/* ---- inputs ---------------------------------------------------------------------------------- */

/* The samples of all ranks, and of them those of one. */
typedef struct inputs {
    const char *names[DRAWN_INPUTS];
    yk_tensor joint[DRAWN_INPUTS], own[DRAWN_INPUTS];
    int count;
} inputs;

static void make_inputs(inputs *in, const yk_graph *graph, int rank, int world)
{
    *in = (inputs){.count = 0};
    for (size_t i = 0; i < graph->value_count; i++) {
        const yk_value *value = graph->values[i];
        if (value->kind != YKI_INPUT)
            continue;
        yk_tensor *joint = &in->joint[in->count], *own = &in->own[in->count];
        *joint = (yk_tensor){.dtype = value->dtype, .ndim = value->ndim};
        memcpy(joint->dims, value->dims, sizeof joint->dims);
        joint->dims[0] = (int64_t)MOST * world;
        joint->data = malloc(yk_tensor_bytes(joint));
        assert_non_null(joint->data);
        *own = *joint;
        own->dims[0] = MOST;
        own->data = (char *)joint->data + (size_t)rank * yk_tensor_bytes(own);
        in->names[in->count++] = value->name;
    }
}

static void draw_inputs(inputs *in, uint64_t seed, int step)
{
    for (int i = 0; i < in->count; i++)
        drawn_numbers(yki_hash3(seed, (uint64_t)i, (uint64_t)step), in->joint[i].dtype,
                      yk_tensor_count(&in->joint[i]), in->joint[i].data);
}

/* ---- models ---------------------------------------------------------------------------------- */

static yk_model *make_model(uint64_t seed, yk_value *loss)
{
    yk_model *model;
    assert_ok(yk_model_create(
        &model, loss,
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = yk_test_device("ref"))));
    for (size_t i = 0; i < yk_model_parameter_count(model); i++) {
        yk_tensor value = yk_model_parameter(model, i).value;
        void *numbers = malloc(yk_tensor_bytes(&value));
        assert_non_null(numbers);
        drawn_numbers(yki_hash3(seed, 100, i), value.dtype, yk_tensor_count(&value), numbers);
        assert_ok(yk_tensor_write(&value, numbers));
        free(numbers);
    }
    yk_model_parameters_changed(model);
    return model;
}

static void step(yk_model *model, const inputs *in, const yk_tensor *tensors)
{
    const yk_batch batch = {
        .size = tensors[0].dims[0], .count = in->count, .names = in->names, .tensors = tensors};
    assert_ok(yk_model_forward(model, &batch));
    assert_ok(yk_model_backward(model));
    yk_model_zero_grad(model);
}

/* ---- comparing ------------------------------------------------------------------------------- */

static double norm_of(const yk_tensor *tensor)
{
    double sum = 0;
    yk_tensor host = yk_test_on_host(*tensor);
    for (int64_t i = 0; i < yk_tensor_count(tensor); i++)
        sum += pow(yki_element_get(host.dtype, host.data, i), 2);
    return sqrt(sum);
}

/* Relative to the tensor, but not to less than `least`. */
static double distance(const yk_tensor *got, const yk_tensor *expected, double least)
{
    double sum = 0;
    yk_tensor a = yk_test_on_host(*got), b = yk_test_on_host(*expected);
    assert_int_equal(yk_tensor_count(got), yk_tensor_count(expected));
    for (int64_t i = 0; i < yk_tensor_count(got); i++)
        sum += pow(yki_element_get(a.dtype, a.data, i) - yki_element_get(b.dtype, b.data, i), 2);
    return sqrt(sum) / fmax(norm_of(expected), least);
}

static void expect_same(uint64_t seed, const yk_model *model, const yk_model *alone)
{
    double largest = 0;
    for (size_t i = 0; i < yk_model_parameter_count(alone); i++) {
        yk_parameter_view view = yk_model_parameter(alone, i);
        largest = fmax(largest, norm_of(&view.grad));
    }
    for (size_t i = 0; i < yk_model_parameter_count(model); i++) {
        yk_parameter_view mine = yk_model_parameter(model, i), one = yk_model_parameter(alone, i);
        double found = distance(&mine.grad, &one.grad, 1e-3 * largest + 1e-300);
        if (!(found <= 1e-9))
            fail_msg("graph %llu: the gradient of %s is %.1e from that of one process",
                     (unsigned long long)seed, mine.name, found);
    }
    for (size_t i = 0; i < yk_model_buffer_count(model); i++) {
        yk_parameter_view mine = yk_model_buffer(model, i), one = yk_model_buffer(alone, i);
        double found = distance(&mine.value, &one.value, 1e-6);
        if (!(found <= 1e-9))
            fail_msg("graph %llu: %s is %.1e from that of one process", (unsigned long long)seed,
                     mine.name, found);
    }
}

/* ---- the case -------------------------------------------------------------------------------- */

static void train(yk_group *group, uint64_t seed, int rank, int world)
{
    yk_value *loss = drawn_graph(seed, YK_F64, NULL);
    yk_ddp *ddp;
    inputs in;
    make_inputs(&in, yk_value_graph(loss), rank, world);
    yk_model *model = make_model(seed, loss);
    yk_model *alone = make_model(seed, drawn_graph(seed, YK_F64, NULL));
    if (yki_model_check_trainable(model, "a drawn graph") == YK_OK) {
        assert_ok(yk_sync_batch_norm_convert(model, group));
        assert_ok(yk_ddp_create(&ddp, model, group,
                                YK_WITH(yk_ddp_options, YK_DDP_OPTIONS_INIT,
                                        o.find_unused_parameters = true, o.bucket_cap_mb = 1e-3)));
        for (int i = 0; i < STEPS; i++) {
            draw_inputs(&in, seed, i);
            step(model, &in, in.own);
            step(alone, &in, in.joint);
            expect_same(seed, model, alone);
        }
        yk_ddp_destroy(ddp);
    }
    yk_model_destroy(model);
    yk_model_destroy(alone);
    for (int i = 0; i < in.count; i++)
        free(in.joint[i].data);
}

YK_TEST_RANKS(two_ranks_compute_what_one_process_computes, 2)
{
    yk_group *group;
    uint64_t first, end;
    drawn_seeds(20, &first, &end);
    assert_ok(yk_group_init(&group, NULL));
    for (uint64_t seed = first; seed < end; seed++)
        train(group, seed, rank, world);
    yk_group_destroy(group);
}

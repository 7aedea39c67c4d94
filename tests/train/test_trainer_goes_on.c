/* A trainer goes on: after a failed step, a stop or another trainer, and from wherever its loader
 * is. */
#define _GNU_SOURCE
#include <yoke/yoke.h>

#include "parts.h"

/* Training without any of it, for so many epochs of 10 steps. */
static parts train_whole(int64_t epochs)
{
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.epochs = epochs;
    parts p = create_parts(&options, 200);
    assert_ok(yk_trainer_fit(p.trainer));
    return p;
}

static void assert_same_and_destroy(parts a, parts b)
{
    assert_same_weights(&a, &b);
    destroy_parts(a);
    destroy_parts(b);
}

/* ---- after a failure ------------------------------------------------------------------------- */

/* Fails once at the sample *data. */
static yk_status read_pattern(void *data, void *worker, int64_t index, yk_field_buffer *buffers)
{
    int64_t *failing = data;
    (void)worker;
    if (index == *failing) {
        *failing = -1;
        return yk_set_error(YK_ERROR_IO, "this sample cannot be read yet");
    }
    unsigned char *pixels = yk_field_buffer_reserve(&buffers[0], 3 * 32 * 32);
    for (int64_t i = 0; i < (int64_t)3 * 32 * 32; i++)
        pixels[i] = (unsigned char)(index * 31 + i * (index % 5 + 3));
    *(int32_t *)buffers[1].data = (int32_t)(index % 10);
    return YK_OK;
}

static parts create_failing_parts(const yk_trainer_options *options, int64_t *failing)
{
    static const yk_field fields[] = {{"images", YK_FIELD_IMAGE, YK_U8, 3, {3, 32, 32}},
                                      {"labels", YK_FIELD_TENSOR, YK_I32, 0, {0}}};
    yk_dataset *dataset;
    yk_dataset_ops ops = YK_DATASET_OPS_INIT;
    ops.name = "pattern";
    ops.count = 200;
    ops.field_count = 2;
    ops.fields = fields;
    ops.classes = 10;
    ops.read = read_pattern;
    assert_ok(yk_dataset_create(&dataset, &ops, failing));
    return create_parts_over(options, dataset);
}

/* A sample of this batch of the first epoch. */
static int64_t sample_of_batch(int64_t batch)
{
    int64_t indices[200];
    yk_sampler_options sampler = YK_SAMPLER_OPTIONS_INIT;
    sampler.samples = 200;
    sampler.shuffle = true;
    assert_ok(yk_sampler_indices(&sampler, 0, indices));
    return indices[batch * 20 + 7];
}

YK_TEST(gradients_of_a_failed_step_are_forgotten)
{
    int64_t none = -1, failing = sample_of_batch(5); /* the second batch of the third step */
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.epochs = 2;
    options.accumulate = 2;
    parts whole = create_failing_parts(&options, &none);
    assert_ok(yk_trainer_fit(whole.trainer));
    parts p = create_failing_parts(&options, &failing);
    assert_status(YK_ERROR_IO, yk_trainer_fit(p.trainer));
    assert_int_equal(yk_trainer_state(p.trainer)->step, 2);
    assert_ok(yk_loader_seek(p.loader, 0, 4));
    assert_ok(yk_trainer_fit(p.trainer));
    assert_same_and_destroy(p, whole);
}

/* Data sets of a program's own: any fields, workers with a state, failures that name the sample. */
#include "harness.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 23, HEIGHT = 5, WIDTH = 7 };

/* What read() below makes of an index. */
typedef struct measurements {
    atomic_int open_workers, closed; /* workers that are open; whether the data set was closed */
    int64_t broken;                  /* this sample cannot be read; -1: all can */
} measurements;

static float vector_at(int64_t index, int i)
{
    return (float)index + 0.25f * (float)i;
}

static uint8_t pixel_at(int64_t index, int i)
{
    return (uint8_t)(index * 7 + i);
}

static yk_status open_worker(void *data, void **worker)
{
    measurements *set = data;
    atomic_fetch_add(&set->open_workers, 1);
    *worker = malloc(HEIGHT * WIDTH);
    return *worker ? YK_OK : yk_set_error(YK_ERROR_OUT_OF_MEMORY, "no memory for a worker");
}

static void close_worker(void *data, void *worker)
{
    measurements *set = data;
    atomic_fetch_sub(&set->open_workers, 1);
    free(worker);
}

static void close_set(void *data)
{
    measurements *set = data;
    atomic_fetch_add(&set->closed, 1);
}

static void name_sample(void *data, int64_t index, char *name, size_t size)
{
    (void)data;
    snprintf(name, size, "night/%03d.raw", (int)index);
}

/* Fields: vector (3) f32, time () i64, images (1, 5, 7), labels () i32. */
static yk_status read_measurement(void *data, void *worker, int64_t index, yk_field_buffer *buffers)
{
    const measurements *set = data;
    uint8_t *pixels = worker;
    if (index == set->broken)
        return yk_set_error(YK_ERROR_FORMAT, "expected a header, found zeros");
    for (int i = 0; i < 3; i++)
        ((float *)buffers[0].data)[i] = vector_at(index, i);
    *(int64_t *)buffers[1].data = index << 40;
    for (int i = 0; i < HEIGHT * WIDTH; i++)
        pixels[i] = pixel_at(index, i);
    yk_field_buffer_lend(&buffers[2], pixels, HEIGHT * WIDTH);
    *(int32_t *)buffers[3].data = (int32_t)(index % 2);
    return YK_OK;
}

static yk_dataset_ops measurement_ops(void)
{
    static const yk_field fields[] = {{"vector", YK_FIELD_TENSOR, YK_F32, 1, {3}},
                                      {"time", YK_FIELD_TENSOR, YK_I64, 0, {0}},
                                      {"images", YK_FIELD_IMAGE, YK_U8, 3, {1, HEIGHT, WIDTH}},
                                      {"labels", YK_FIELD_TENSOR, YK_I32, 0, {0}}};
    static const char *const classes[] = {"day", "night"};
    yk_dataset_ops ops = YK_DATASET_OPS_INIT;
    ops.name = "measurements";
    ops.count = COUNT;
    ops.field_count = 4;
    ops.fields = fields;
    ops.classes = 2;
    ops.class_names = classes;
    ops.read = read_measurement;
    ops.open_worker = open_worker;
    ops.close_worker = close_worker;
    ops.sample_name = name_sample;
    ops.close = close_set;
    return ops;
}

static yk_dataset *create_measurements(measurements *set)
{
    yk_dataset *dataset;
    yk_dataset_ops ops = measurement_ops();
    assert_ok(yk_dataset_create(&dataset, &ops, set));
    return dataset;
}

YK_TEST(a_reader_reads_every_field)
{
    measurements set = {.broken = -1};
    yk_dataset *dataset = create_measurements(&set);
    yk_reader *reader;
    const yk_tensor *fields;
    assert_int_equal(yk_dataset_size(dataset), COUNT);
    assert_int_equal(yk_dataset_field_count(dataset), 4);
    assert_string_equal(yk_dataset_field(dataset, 1)->name, "time");
    assert_null(yk_dataset_field(dataset, 4));
    assert_ptr_equal(yk_dataset_find_field(dataset, "images"), yk_dataset_field(dataset, 2));
    assert_null(yk_dataset_find_field(dataset, "masks"));
    assert_string_equal(yk_dataset_class_name(dataset, 1), "night");
    assert_ok(yk_reader_create(&reader, dataset));
    yk_dataset_destroy(dataset); /* the reader keeps it */
    for (int64_t index = COUNT - 1; index >= 0; index -= 11) {
        assert_ok(yk_reader_read(reader, index, &fields));
        assert_true(((float *)fields[0].data)[2] == vector_at(index, 2));
        assert_true(*(int64_t *)fields[1].data == index << 40);
        assert_int_equal(fields[2].ndim, 3);
        assert_int_equal(yk_tensor_bytes(&fields[2]), HEIGHT * WIDTH);
        assert_int_equal(((uint8_t *)fields[2].data)[34], pixel_at(index, 34));
        assert_int_equal(*(int32_t *)fields[3].data, index % 2);
    }
    assert_int_equal(set.open_workers, 1);
    yk_reader_destroy(reader);
    assert_int_equal(set.open_workers, 0);
    assert_int_equal(set.closed, 1);
}

static void check_sample(const yk_batch *batch, int64_t row)
{
    const yk_tensor *fields = batch->tensors;
    int64_t index = batch->indices[row];
    for (int i = 0; i < 3; i++)
        assert_true(((float *)fields[0].data)[row * 3 + i] == vector_at(index, i));
    assert_true(((int64_t *)fields[1].data)[row] == index << 40);
    const float *pixels = (const float *)fields[2].data + row * HEIGHT * WIDTH;
    for (int i = 0; i < HEIGHT * WIDTH; i++)
        assert_true(pixels[i] == (float)pixel_at(index, i) / 255.0f);
    assert_int_equal(((int32_t *)fields[3].data)[row], index % 2);
}

YK_TEST(a_loader_serves_every_field)
{
    measurements set = {.broken = -1};
    yk_dataset *dataset = create_measurements(&set);
    yk_loader *loader;
    assert_ok(yk_loader_create(&loader, dataset,
                               YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT, o.batch_size = 5,
                                       o.shuffle = true, o.workers = 3)));
    int64_t seen = 0;
    for (const yk_batch *batch; (batch = yk_loader_next(loader)); seen += batch->size) {
        assert_int_equal(batch->count, 4);
        assert_string_equal(batch->names[0], "vector");
        assert_string_equal(batch->names[3], "labels");
        assert_int_equal(batch->tensors[0].ndim, 2);
        assert_int_equal(batch->tensors[0].dims[0], batch->size);
        assert_int_equal(batch->tensors[0].dims[1], 3);
        assert_int_equal(batch->tensors[1].dtype, YK_I64);
        assert_int_equal(batch->tensors[2].dtype, YK_F32);
        assert_int_equal(batch->tensors[2].ndim, 4);
        for (int64_t row = 0; row < batch->size; row++)
            check_sample(batch, row);
    }
    assert_int_equal(seen, COUNT);
    assert_int_equal(set.open_workers, 3);
    yk_loader_destroy(loader);
    assert_int_equal(set.open_workers, 0);
    assert_int_equal(set.closed, 0);
    yk_dataset_destroy(dataset);
    assert_int_equal(set.closed, 1);
}

/* One process serves four virtual ranks in turn: each gets what a rank of four would. */
YK_TEST(virtual_ranks_share_a_programs_own_data)
{
    measurements set = {.broken = -1};
    yk_dataset *dataset = create_measurements(&set);
    yk_loader *loader;
    yk_sampler_options sampler = YK_SAMPLER_OPTIONS_INIT;
    int64_t expected[4][COUNT], at[4] = {0};
    sampler.samples = COUNT;
    sampler.world_size = 4;
    sampler.shuffle = true;
    for (sampler.rank = 0; sampler.rank < 4; sampler.rank++)
        assert_ok(yk_sampler_indices(&sampler, 0, expected[sampler.rank]));
    assert_ok(yk_loader_create(&loader, dataset,
                               YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT, o.batch_size = 2,
                                       o.shuffle = true, o.virtual_ranks = 4, o.workers = 2)));
    int turn = 0;
    for (const yk_batch *batch; (batch = yk_loader_next(loader)); turn = (turn + 1) % 4)
        for (int64_t row = 0; row < batch->size; row++) {
            assert_int_equal(batch->indices[row], expected[turn][at[turn]++]);
            check_sample(batch, row);
        }
    for (int i = 0; i < 4; i++)
        assert_int_equal(at[i], 6); /* 23 samples and one again */
    yk_loader_destroy(loader);
    yk_dataset_destroy(dataset);
}

YK_TEST(promise_28_a_workers_error_names_the_sample)
{
    measurements set = {.broken = 17};
    yk_dataset *dataset = create_measurements(&set);
    yk_loader *loader;
    assert_ok(yk_loader_create(
        &loader, dataset,
        YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT, o.batch_size = 4, o.workers = 2)));
    int batches = 0;
    while (yk_loader_next(loader))
        batches++;
    assert_int_equal(batches, 4); /* the fifth has sample 17 */
    assert_int_equal(yk_loader_status(loader), YK_ERROR_FORMAT);
    assert_contains(yk_last_error(), "loader worker: epoch 1: sample 17, night/017.raw: expected a "
                                     "header, found zeros");
    yk_loader_destroy(loader);
    yk_dataset_destroy(dataset);
}

/* ---- descriptions that make no sense --------------------------------------------------------- */

static void refused(const yk_dataset_ops *ops, const char *words)
{
    measurements set = {.broken = -1};
    yk_dataset *dataset = (yk_dataset *)1;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_dataset_create(&dataset, ops, &set));
    assert_null(dataset);
    assert_contains(yk_last_error(), words);
    assert_int_equal(set.closed, 0); /* it remains the caller's */
}

static void refused_field(yk_field field, const char *words)
{
    yk_dataset_ops ops = measurement_ops();
    ops.fields = &field;
    ops.field_count = 1;
    refused(&ops, words);
}

static yk_status fail_silently(void *data, void *worker, int64_t index, yk_field_buffer *buffers)
{
    (void)data, (void)worker, (void)index, (void)buffers;
    return YK_ERROR_IO;
}

YK_TEST(a_read_that_fails_without_words_is_told)
{
    measurements set = {.broken = -1};
    yk_dataset_ops ops = measurement_ops();
    yk_dataset *dataset;
    yk_reader *reader;
    const yk_tensor *fields;
    ops.count = 3;
    ops.read = fail_silently;
    assert_ok(yk_dataset_create(&dataset, &ops, &set));
    assert_ok(yk_reader_create(&reader, dataset));
    yk_set_error(YK_ERROR_FORMAT, "an older line");
    assert_status(YK_ERROR_IO, yk_reader_read(reader, 1, &fields));
    assert_contains(yk_last_error(),
                    "sample 1, night/001.raw: read() failed without yk_set_error: ");
    yk_reader_destroy(reader);
    yk_dataset_destroy(dataset);
}

YK_TEST(refuses_descriptions_that_make_no_sense)
{
    yk_dataset_ops ops = measurement_ops();
    ops.read = NULL;
    refused(&ops, "ops.read is NULL");
    ops = measurement_ops();
    ops.count = -5;
    refused(&ops, "-5 samples");
    ops = measurement_ops();
    ops.field_count = 0;
    refused(&ops, "0 fields");
    ops = measurement_ops();
    ops.classes = -1;
    refused(&ops, "-1 classes");
    ops = measurement_ops();
    yk_field twice[2] = {ops.fields[0], ops.fields[0]};
    ops.fields = twice;
    ops.field_count = 2;
    refused(&ops, "two fields are named \"vector\"");
    refused_field((yk_field){NULL, YK_FIELD_TENSOR, YK_F32, 1, {3}}, "field 0 has no name");
    refused_field((yk_field){"x", YK_FIELD_TENSOR, YK_F32, 1, {0}}, "dimension 0 is 0");
    refused_field((yk_field){"x", YK_FIELD_TENSOR, YK_F32, 3, {1 << 20, 1 << 20, 1}},
                  "dimension 1 is 1048576");
    refused_field((yk_field){"x", YK_FIELD_TENSOR, YK_F32, 6, {1, 1, 1, 1, 1}},
                  "0 to 5 dimensions");
    refused_field((yk_field){"x", YK_FIELD_TENSOR, YK_F32, 2, {YK_ANY_SIZE, 3}}, "is -1");
    refused_field((yk_field){"x", YK_FIELD_IMAGE, YK_F32, 3, {3, 8, 8}}, "a picture is uint8");
    refused_field((yk_field){"x", YK_FIELD_IMAGE, YK_U8, 3, {YK_ANY_SIZE, 8, 8}}, "is -1");
}

/* ---- pictures that do not fit ---------------------------------------------------------------- */

/* data: the bytes to give. */
static yk_status read_bytes(void *data, void *worker, int64_t index, yk_field_buffer *buffers)
{
    static const uint8_t pixels[64];
    (void)worker;
    (void)index;
    size_t bytes = *(const size_t *)data;
    if (bytes > 0)
        yk_field_buffer_lend(&buffers[0], pixels, bytes);
    return YK_OK;
}

YK_TEST(a_picture_must_fit_its_field)
{
    size_t bytes = 0;
    const yk_field field = {"photo", YK_FIELD_IMAGE, YK_U8, 3, {1, 6, 6}};
    yk_dataset_ops ops = YK_DATASET_OPS_INIT;
    yk_dataset *dataset;
    yk_reader *reader;
    const yk_tensor *fields;
    ops.count = 1;
    ops.fields = &field;
    ops.field_count = 1;
    ops.read = read_bytes;
    assert_ok(yk_dataset_create(&dataset, &ops, &bytes));
    assert_ok(yk_reader_create(&reader, dataset));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_reader_read(reader, 0, &fields));
    assert_contains(yk_last_error(), "sample 0: read() gave no picture for \"photo\"");
    bytes = 35;
    assert_status(YK_ERROR_INVALID_SHAPE, yk_reader_read(reader, 0, &fields));
    assert_contains(yk_last_error(), "35 bytes for \"photo\" of (1, 6, 6)");
    bytes = 36;
    assert_ok(yk_reader_read(reader, 0, &fields));
    yk_reader_destroy(reader);
    yk_dataset_destroy(dataset);
}

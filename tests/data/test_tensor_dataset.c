/* Data sets of tensors in memory. */
#include "harness.h"

#include <string.h>

enum { COUNT = 5, CLASSES = 3 };

static float vectors[COUNT][2];
static uint8_t pixels[COUNT][1][2][3];
static int32_t labels[COUNT];

static const char *const names[] = {"vector", "images", "labels"};
static const yk_tensor tensors[] = {
    {.data = vectors, .dtype = YK_F32, .ndim = 2, .dims = {COUNT, 2}},
    {.data = pixels, .dtype = YK_U8, .ndim = 4, .dims = {COUNT, 1, 2, 3}},
    {.data = labels, .dtype = YK_I32, .ndim = 1, .dims = {COUNT}}};

static yk_dataset *create(void)
{
    yk_dataset *dataset;
    for (int i = 0; i < COUNT; i++) {
        vectors[i][0] = (float)i + 0.25f;
        vectors[i][1] = (float)-i;
        for (int p = 0; p < 6; p++)
            (&pixels[i][0][0][0])[p] = (uint8_t)(10 * i + p);
        labels[i] = i % CLASSES;
    }
    assert_ok(yk_tensor_dataset_create(&dataset, names, tensors, 3, CLASSES));
    return dataset;
}

YK_TEST(a_sample_has_a_row_of_each_tensor)
{
    yk_dataset *dataset = create();
    yk_reader *reader;
    const yk_tensor *fields;
    assert_int_equal(yk_dataset_size(dataset), COUNT);
    assert_int_equal(yk_dataset_classes(dataset), CLASSES);
    assert_int_equal(yk_dataset_find_field(dataset, "images")->kind, YK_FIELD_IMAGE);
    assert_int_equal(yk_dataset_find_field(dataset, "vector")->kind, YK_FIELD_TENSOR);
    assert_int_equal(yk_dataset_find_field(dataset, "labels")->ndim, 0);
    assert_ok(yk_reader_create(&reader, dataset));
    yk_dataset_destroy(dataset); /* the reader keeps it */
    for (int64_t i = COUNT - 1; i >= 0; i -= 2) {
        assert_ok(yk_reader_read(reader, i, &fields));
        assert_memory_equal(fields[0].data, vectors[i], sizeof vectors[i]);
        assert_memory_equal(fields[1].data, pixels[i], sizeof pixels[i]);
        assert_int_equal(*(int32_t *)fields[2].data, labels[i]);
    }
    yk_reader_destroy(reader);
}

/* Volumes of a model's input, with one dimension for the samples. */
YK_TEST(samples_have_up_to_five_dimensions)
{
    static const char *const name[] = {"volumes"};
    static float volumes[COUNT][2][1][3][2][2];
    for (int i = 0; i < COUNT * 24; i++)
        (&volumes[0][0][0][0][0][0])[i] = (float)i;
    const yk_tensor tensor = {
        .data = volumes, .dtype = YK_F32, .ndim = 6, .dims = {COUNT, 2, 1, 3, 2, 2}};
    yk_dataset *dataset;
    yk_loader *loader;
    assert_ok(yk_tensor_dataset_create(&dataset, name, &tensor, 1, 0));
    assert_ok(yk_loader_create(
        &loader, dataset, YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT, o.batch_size = 2)));
    const yk_batch *batch = yk_loader_next(loader);
    assert_non_null(batch);
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "volumes", YK_F32, 6, (int64_t[]){YK_BATCH, 2, 1, 3, 2, 2});
    yk_value *sums = yk_sum(yk_flatten(x), 1);
    yk_model *model;
    yk_tensor result;
    assert_ok(yk_model_create(
        &model, NULL,
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.outputs = &sums, o.output_count = 1)));
    assert_ok(yk_model_forward(model, batch));
    assert_ok(yk_model_output_at(model, 0, &result));
    assert_float_equal(yk_tensor_get(&result, 0), 276, 0);           /* 0 + ... + 23 */
    assert_float_equal(yk_tensor_get(&result, 1), 276 + 24 * 24, 0); /* 24 + ... + 47 */
    yk_model_destroy(model);
    yk_loader_destroy(loader);
    yk_dataset_destroy(dataset);
}

/* Other tensors arrive as they are. */
YK_TEST(the_loader_transforms_its_pictures)
{
    yk_dataset *dataset = create();
    yk_loader *loader;
    assert_ok(yk_loader_create(&loader, dataset,
                               YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT, o.batch_size = 2,
                                       o.transforms = "CenterCrop((2,1))")));
    const yk_batch *batch = yk_loader_next(loader);
    assert_non_null(batch);
    const yk_tensor *images = yk_batch_find(batch, "images");
    assert_int_equal(images->dims[3], 1);
    for (int64_t i = 0; i < 4; i++) { /* the middle column of both rows of both pictures */
        const int64_t picture = i / 2, row = i % 2;
        assert_float_equal(yk_tensor_get(images, i), pixels[picture][0][row][1] / 255.0, 1e-6);
    }
    assert_memory_equal(yk_batch_find(batch, "vector")->data, vectors, 2 * sizeof vectors[0]);
    yk_loader_destroy(loader);
    yk_dataset_destroy(dataset);
}

YK_TEST(tensors_that_do_not_fit_are_refused_by_name)
{
    yk_dataset *dataset;
    yk_tensor wrong[3];
    memcpy(wrong, tensors, sizeof wrong);
    wrong[2].dims[0] = COUNT - 1;
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_tensor_dataset_create(&dataset, names, wrong, 3, CLASSES));
    assert_contains(yk_last_error(), "\"labels\" has 4 samples, but the first tensor has 5");
    assert_null(dataset);
    wrong[2] = (yk_tensor){.data = labels, .dtype = YK_I32, .ndim = 0};
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_tensor_dataset_create(&dataset, names, wrong, 3, CLASSES));
    assert_contains(yk_last_error(), "\"labels\" has 0 dimensions: expected 1 to 6");
    wrong[2] = (yk_tensor){.data = NULL, .dtype = YK_I32, .ndim = 1, .dims = {COUNT}};
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_tensor_dataset_create(&dataset, names, wrong, 3, CLASSES));
    assert_contains(yk_last_error(), "\"labels\" has no data in the host's memory");
    memcpy(wrong, tensors, sizeof wrong);
    wrong[1].dims[3] = YK_ANY_SIZE; /* pictures of their own sizes are not rows of a tensor */
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_tensor_dataset_create(&dataset, names, wrong, 3, CLASSES));
    assert_contains(yk_last_error(), "dimension 3 of \"images\" is -1: expected 1 or more");
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_tensor_dataset_create(&dataset, names, tensors, 0, CLASSES));
    assert_contains(yk_last_error(), "0 tensors: expected 1 or more");
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_tensor_dataset_create(&dataset, names, tensors, 3, -1));
    assert_contains(yk_last_error(), "-1 classes");
    assert_null(dataset);
}

YK_TEST(labels_are_classes)
{
    int32_t three[] = {0, 2, 3}, negative[] = {1, -1, 0};
    yk_tensor tensor = {.data = three, .dtype = YK_I32, .ndim = 1, .dims = {3}};
    const char *const name = "labels", *const other = "tokens";
    yk_dataset *dataset;
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_tensor_dataset_create(&dataset, &name, &tensor, 1, CLASSES));
    assert_contains(yk_last_error(), "label 2 is 3: expected 0 to 2, as classes is 3");
    assert_null(dataset);
    assert_ok(yk_tensor_dataset_create(&dataset, &other, &tensor, 1, CLASSES));
    yk_dataset_destroy(dataset);
    int64_t wide[] = {0, -100, 4294967297};
    tensor = (yk_tensor){.data = wide, .dtype = YK_I64, .ndim = 1, .dims = {3}};
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_tensor_dataset_create(&dataset, &name, &tensor, 1, CLASSES));
    assert_contains(yk_last_error(), "label 2 is 4294967297: expected 0 to 2");
    tensor.dims[0] = 2;
    assert_ok(yk_tensor_dataset_create(&dataset, &name, &tensor, 1, CLASSES));
    yk_dataset_destroy(dataset);
    tensor = (yk_tensor){.data = negative, .dtype = YK_I32, .ndim = 1, .dims = {3}};
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_tensor_dataset_create(&dataset, &name, &tensor, 1, CLASSES));
    assert_contains(yk_last_error(), "label 1 is -1");
    assert_ok(yk_tensor_dataset_create(&dataset, &name, &tensor, 1, 0)); /* there are no classes */
    yk_dataset_destroy(dataset);
    negative[1] = -100; /* which cross_entropy ignores */
    assert_ok(yk_tensor_dataset_create(&dataset, &name, &tensor, 1, CLASSES));
    yk_dataset_destroy(dataset);
}

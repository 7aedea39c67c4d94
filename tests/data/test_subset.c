/* Subsets, random splits, and data that is only noise. */
#include "harness.h"

#include <string.h>

static yk_dataset *create_random(int64_t count)
{
    yk_dataset *dataset;
    assert_ok(yk_random_create(&dataset, YK_SPLIT_TRAIN,
                               YK_WITH(yk_random_options, YK_RANDOM_OPTIONS_INIT, o.count = count,
                                       o.channels = 1, o.height = 9, o.width = 4, o.classes = 7)));
    return dataset;
}

/* The bytes and the label of a sample. */
static int read_one(const yk_dataset *dataset, int64_t index, uint8_t pixels[36])
{
    yk_reader *reader;
    const yk_tensor *fields;
    assert_ok(yk_reader_create(&reader, dataset));
    assert_ok(yk_reader_read(reader, index, &fields));
    assert_int_equal(yk_tensor_bytes(&fields[0]), 36);
    memcpy(pixels, fields[0].data, 36);
    int label = *(const int32_t *)fields[1].data;
    yk_reader_destroy(reader);
    return label;
}

YK_TEST(random_images_have_any_size)
{
    uint8_t first[36], again[36], other[36];
    yk_dataset *dataset = create_random(50), *longer = create_random(90);
    assert_int_equal(yk_dataset_size(dataset), 50);
    assert_int_equal(yk_dataset_classes(dataset), 7);
    assert_null(yk_dataset_class_name(dataset, 0));
    assert_int_equal(read_one(dataset, 8, first), 1);
    read_one(longer, 8, again);
    read_one(dataset, 9, other);
    assert_memory_equal(first, again, sizeof first);
    assert_memory_not_equal(first, other, sizeof first);
    yk_dataset_destroy(dataset);
    yk_dataset_destroy(longer);
    assert_status(
        YK_ERROR_INVALID_ARGUMENT,
        yk_random_create(&dataset, YK_SPLIT_TRAIN,
                         YK_WITH(yk_random_options, YK_RANDOM_OPTIONS_INIT, o.width = 1 << 20)));
    assert_contains(yk_last_error(), "width is 1048576, expected 1 to 16384");
    assert_null(dataset);
}

YK_TEST(a_subset_has_the_samples_of_its_indices)
{
    const int64_t indices[] = {41, 3, 3};
    uint8_t of_part[36], of_whole[36];
    yk_dataset *part, *whole = create_random(50);
    assert_ok(yk_subset_create(&part, whole, indices, 3));
    assert_int_equal(yk_dataset_size(part), 3);
    assert_string_equal(yk_dataset_name(part), "random");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(read_one(part, i, of_part), read_one(whole, indices[i], of_whole));
        assert_memory_equal(of_part, of_whole, sizeof of_part);
    }
    yk_dataset_destroy(whole);
    read_one(part, 0, of_part); /* the subset has kept it */
    yk_dataset_destroy(part);
    whole = create_random(5);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_subset_create(&part, whole, indices, 3));
    assert_contains(yk_last_error(), "there is no sample 41 of 5");
    assert_null(part);
    yk_dataset_destroy(whole);
}

YK_TEST(a_random_split_has_each_sample_once)
{
    uint8_t pixels[36];
    int seen[7] = {0};
    yk_dataset *first, *second, *whole = create_random(70);
    assert_ok(yk_dataset_random_split(&first, &second, whole, 49, 1));
    assert_int_equal(yk_dataset_size(first), 49);
    assert_int_equal(yk_dataset_size(second), 21);
    for (int i = 0; i < 49; i++)
        seen[read_one(first, i, pixels)]++;
    for (int i = 0; i < 21; i++)
        seen[read_one(second, i, pixels)]++;
    for (int label = 0; label < 7; label++)
        assert_int_equal(seen[label], 10);
    yk_dataset_destroy(first);
    yk_dataset_destroy(second);
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_dataset_random_split(&first, &second, whole, 71, 1));
    assert_null(first);
    assert_null(second);
    yk_dataset_destroy(whole);
}

/* NULL where a data set or a loader is required: an error or a neutral value, never a crash. */

#include "harness.h"

static void assert_invalid(yk_status status, const char *words)
{
    assert_status(YK_ERROR_INVALID_ARGUMENT, status);
    assert_contains(yk_last_error(), words);
}

YK_TEST(data_sets_that_are_null_are_empty)
{
    yk_dataset *dataset = (yk_dataset *)1;
    yk_reader *reader = (yk_reader *)1;
    const yk_tensor *fields;
    assert_invalid(yk_cifar10_open(NULL, ".", YK_SPLIT_TEST), "dataset is NULL");
    assert_invalid(yk_cifar10_open(&dataset, NULL, YK_SPLIT_TEST), "path is NULL");
    assert_null(dataset);
    dataset = (yk_dataset *)1;
    assert_status(YK_ERROR_NOT_FOUND, yk_cifar10_open(&dataset, "/nowhere", YK_SPLIT_TEST));
    assert_null(dataset);
    assert_invalid(yk_synthetic_create(NULL, YK_SPLIT_TEST, NULL), "dataset is NULL");
    assert_int_equal(yk_dataset_size(NULL), 0);
    assert_int_equal(yk_dataset_classes(NULL), 0);
    assert_null(yk_dataset_class_name(NULL, 0));
    assert_null(yk_dataset_name(NULL));
    assert_int_equal(yk_dataset_field_count(NULL), 0);
    assert_null(yk_dataset_field(NULL, 0));
    assert_null(yk_dataset_find_field(NULL, "images"));
    assert_invalid(yk_reader_create(&reader, NULL), "dataset is NULL");
    assert_null(reader);
    assert_invalid(yk_reader_read(NULL, 0, &fields), "reader is NULL");
    assert_invalid(yk_download_data(NULL, 0, "mnist", NULL), "path is NULL");
}

YK_TEST(loaders_that_are_null_have_no_batches)
{
    assert_null(yk_loader_next(NULL));
    assert_invalid(yk_loader_status(NULL), "loader is NULL");
    assert_invalid(yk_loader_seek(NULL, 0, 0), "loader is NULL");
    assert_int_equal(yk_loader_virtual_ranks(NULL), 0);
    assert_int_equal(yk_loader_batches(NULL), 0);
    assert_int_equal(yk_loader_epoch(NULL), 0);
    assert_int_equal(yk_loader_skipped(NULL), 0);
    assert_true(yk_loader_wait_s(NULL) == 0);
}

/* CIFAR-100, MNIST, NumPy arrays: what is read, and 200 damaged files each. */
#define _GNU_SOURCE
#include "damage.h"
#include "shell.h"

#include <string.h>

static void assert_sample(const yk_dataset *dataset, int64_t index, int label, uint8_t first)
{
    yk_reader *reader;
    const yk_tensor *fields;
    assert_ok(yk_reader_create(&reader, dataset));
    assert_ok(yk_reader_read(reader, index, &fields));
    assert_int_equal(*(const int32_t *)fields[1].data, label);
    assert_int_equal(*(const uint8_t *)fields[0].data, first);
    yk_reader_destroy(reader);
}

/* ---- CIFAR-100 ------------------------------------------------------------------------------- */

YK_TEST(cifar100_has_the_fine_labels)
{
    static uint8_t records[2][3074];
    yk_dataset *dataset;
    shell("mkdir cifar-100-binary");
    for (int i = 0; i < 2; i++) {
        memset(records[i], 7 + i, sizeof records[i]);
        records[i][0] = 19;
        records[i][1] = (uint8_t)(98 + i);
    }
    yk_test_write_file(yk_test_path("cifar-100-binary/train.bin"), records, sizeof records);
    yk_test_write_file(yk_test_path("cifar-100-binary/test.bin"), records, sizeof records[0]);
    assert_ok(yk_cifar100_open(&dataset, yk_test_directory(), YK_SPLIT_TRAIN));
    assert_int_equal(yk_dataset_size(dataset), 2);
    assert_int_equal(yk_dataset_classes(dataset), 100);
    assert_string_equal(yk_dataset_class_name(dataset, 99), "worm");
    assert_sample(dataset, 1, 99, 8);
    yk_dataset_destroy(dataset);
    damage(yk_cifar100_open, "", "cifar-100-binary/test.bin", YK_SPLIT_TEST);
    records[0][1] = 100;
    yk_test_write_file(yk_test_path("cifar-100-binary/test.bin"), records, sizeof records[0]);
    assert_refused(yk_cifar100_open, "", YK_SPLIT_TEST, "a label from 0 to 99, found 100");
    assert_refused(yk_cifar10_open, "", YK_SPLIT_TEST, "no CIFAR-10 here");
}

/* ---- MNIST ----------------------------------------------------------------------------------- */

static void write_mnist(void)
{
    uint8_t images[16 + 3 * 4 * 5] = {0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 5};
    uint8_t labels[8 + 3] = {0, 0, 8, 1, 0, 0, 0, 3, 9, 1, 4};
    for (int i = 0; i < 60; i++)
        images[16 + i] = (uint8_t)(100 + i);
    yk_test_write_file(yk_test_path("train-images-idx3-ubyte"), images, sizeof images);
    yk_test_write_file(yk_test_path("train-labels-idx1-ubyte"), labels, sizeof labels);
}

YK_TEST(mnist_is_read_from_idx_files)
{
    yk_dataset *dataset;
    write_mnist();
    assert_ok(yk_mnist_open(&dataset, yk_test_directory(), YK_SPLIT_TRAIN));
    assert_int_equal(yk_dataset_size(dataset), 3);
    const yk_field *field = yk_dataset_find_field(dataset, "images");
    assert_true(field->dims[0] == 1 && field->dims[1] == 4 && field->dims[2] == 5);
    assert_sample(dataset, 2, 4, 140);
    yk_dataset_destroy(dataset);
    damage(yk_mnist_open, "", "train-images-idx3-ubyte", YK_SPLIT_TRAIN);
    damage(yk_mnist_open, "", "train-labels-idx1-ubyte", YK_SPLIT_TRAIN);
    assert_refused(yk_mnist_open, "", YK_SPLIT_TEST, "no t10k-images-idx3-ubyte or .gz here");
}

YK_TEST(fashion_mnist_is_read_compressed)
{
    yk_dataset *dataset;
    write_mnist();
    shell("mkdir -p FashionMNIST/raw; mv train-* FashionMNIST/raw; gzip FashionMNIST/raw/*");
    assert_ok(yk_fashion_mnist_open(&dataset, yk_test_directory(), YK_SPLIT_TRAIN));
    assert_string_equal(yk_dataset_class_name(dataset, 9), "Ankle boot");
    assert_sample(dataset, 0, 9, 100);
    yk_dataset_destroy(dataset);
    damage(yk_mnist_open, "", "FashionMNIST/raw/train-images-idx3-ubyte.gz", YK_SPLIT_TRAIN);
}

/* gzip makes a thousandth of zeros, of which a small file would then fill all memory. */
YK_TEST(promise_31_compressed_mnist_that_unpacks_to_far_more_is_refused)
{
    yk_dataset *dataset;
    shell("set -- train-images-idx3-ubyte train-labels-idx1-ubyte;"
          "{ printf '\\0\\0\\10\\3\\0\\0\\1\\0\\0\\0\\1\\0\\0\\0\\1\\0';"
          "head -c 16777216 /dev/zero; } | gzip -1 > $1.gz;"
          "{ printf '\\0\\0\\10\\1\\0\\0\\1\\0'; head -c 256 /dev/zero; } | gzip > $2.gz");
    assert_refused(yk_mnist_open, "", YK_SPLIT_TRAIN, "would unpack to 16 times its size");
    shell("{ printf '\\0\\0\\10\\3\\0\\0\\1\\0\\0\\0\\0\\4\\0\\0\\0\\4';"
          "head -c 4096 /dev/zero; } | gzip > train-images-idx3-ubyte.gz");
    assert_ok(
        yk_mnist_open(&dataset, yk_test_directory(), YK_SPLIT_TRAIN)); /* small all the same */
    yk_dataset_destroy(dataset);
}

/* ---- NumPy ----------------------------------------------------------------------------------- */

static void write_npy(const char *name, const char *type, const char *order, const char *shape,
                      const void *data, size_t bytes)
{
    char file[2048] = "\x93NUMPY\x01\x00";
    int length =
        snprintf(file + 10, 1000, "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }%*s\n", type,
                 order, shape, 20, "");
    file[8] = (char)(length & 255);
    file[9] = (char)(length >> 8);
    memcpy(file + 10 + length, data, bytes);
    yk_test_write_file(yk_test_path(name), file, (size_t)(10 + length) + bytes);
}

YK_TEST(numpy_arrays_of_bytes_are_pictures)
{
    const uint8_t pixels[2 * 2 * 2 * 3] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const int64_t labels[2] = {4, 1};
    static const char *const shapes[] = {"(2, 2, 2, 3)", "(2, 3, 2, 2)"};
    static const uint8_t second_byte[] = {4, 2};
    for (int i = 0; i < 2; i++) {
        yk_dataset *dataset;
        yk_reader *reader;
        const yk_tensor *fields;
        write_npy("train_images.npy", "|u1", "False", shapes[i], pixels, sizeof pixels);
        write_npy("train_labels.npy", "<i8", "False", "(2,)", labels, sizeof labels);
        assert_ok(yk_npy_open(&dataset, yk_test_directory(), YK_SPLIT_TRAIN));
        assert_int_equal(yk_dataset_classes(dataset), 5);
        const yk_field *field = yk_dataset_find_field(dataset, "images");
        assert_true(field->kind == YK_FIELD_IMAGE && field->dims[0] == 3 && field->dims[2] == 2);
        assert_sample(dataset, 1, 1, 13);
        assert_ok(yk_reader_create(&reader, dataset));
        assert_ok(yk_reader_read(reader, 0, &fields));
        assert_int_equal(((const uint8_t *)fields[0].data)[1], second_byte[i]);
        yk_reader_destroy(reader);
        yk_dataset_destroy(dataset);
    }
    damage(yk_npy_open, "", "train_images.npy", YK_SPLIT_TRAIN);
    damage(yk_npy_open, "", "train_labels.npy", YK_SPLIT_TRAIN);
}

static void assert_channels(const char *shape, int64_t channels, int64_t height, int64_t width)
{
    static const uint8_t pixels[2 * 4 * 6 * 7];
    yk_dataset *dataset;
    write_npy("train_images.npy", "|u1", "False", shape, pixels, sizeof pixels);
    assert_ok(yk_npy_open(&dataset, yk_test_directory(), YK_SPLIT_TRAIN));
    const yk_field *field = yk_dataset_find_field(dataset, "images");
    assert_true(field->kind == YK_FIELD_IMAGE);
    assert_int_equal(field->dims[0], channels);
    assert_int_equal(field->dims[1], height);
    assert_int_equal(field->dims[2], width);
    yk_dataset_destroy(dataset);
}

YK_TEST(numpy_pictures_have_any_number_of_channels)
{
    assert_channels("(2, 4, 6, 7)", 4, 6, 7);
    assert_channels("(2, 7, 6, 4)", 4, 7, 6); /* the fewer ones are the channels */
    assert_channels("(2, 3, 28, 2)", 3, 28, 2);
    assert_channels("(2, 4, 14, 3)", 3, 4, 14);
    assert_channels("(2, 2, 42, 2)", 2, 42, 2);
}

/* Such as cnpy's: there is no order that it could be. */
YK_TEST(numpy_bytes_may_claim_an_order)
{
    const uint8_t rows[2][3] = {{1, 2, 3}, {4, 5, 6}}, labels[2] = {4, 1};
    yk_dataset *dataset;
    yk_reader *reader;
    const yk_tensor *fields;
    write_npy("train_images.npy", "<u1", "False", "(2, 3)", rows, sizeof rows);
    write_npy("train_labels.npy", ">u1", "False", "(2,)", labels, sizeof labels);
    assert_ok(yk_npy_open(&dataset, yk_test_directory(), YK_SPLIT_TRAIN));
    assert_ok(yk_reader_create(&reader, dataset));
    assert_ok(yk_reader_read(reader, 1, &fields));
    assert_memory_equal(fields[0].data, rows[1], sizeof rows[1]);
    assert_int_equal(*(const int32_t *)fields[1].data, 1);
    yk_reader_destroy(reader);
    yk_dataset_destroy(dataset);
}

/* A contest's images for testing come without labels, beside those for validation. */
YK_TEST(numpy_labels_are_those_of_the_same_name)
{
    static const uint8_t pixels[2 * 2 * 3];
    const int64_t labels[2] = {4, 1};
    yk_dataset *dataset;
    write_npy("test_images.npy", "|u1", "False", "(2, 2, 3)", pixels, sizeof pixels);
    write_npy("y_val.npy", "<i8", "False", "(2,)", labels, sizeof labels);
    assert_ok(yk_npy_open(&dataset, yk_test_directory(), YK_SPLIT_TEST));
    assert_null(yk_dataset_find_field(dataset, "labels"));
    yk_dataset_destroy(dataset);
    write_npy("val_images.npy", "|u1", "False", "(2, 3, 2)", pixels, sizeof pixels);
    assert_ok(yk_npy_open(&dataset, yk_test_directory(), YK_SPLIT_TEST));
    assert_int_equal(yk_dataset_find_field(dataset, "images")->dims[1], 3);
    assert_int_equal(yk_dataset_classes(dataset), 5);
    yk_dataset_destroy(dataset);
}

YK_TEST(other_numpy_arrays_are_tensors)
{
    const float values[2][3] = {{1, 2, 3}, {4, 5, 6}};
    const int8_t labels[2] = {1, -1};
    yk_dataset *dataset;
    yk_reader *reader;
    const yk_tensor *fields;
    write_npy("x_test.npy", "<f4", "False", "(2, 3)", values, sizeof values);
    assert_ok(yk_npy_open(&dataset, yk_test_directory(), YK_SPLIT_TEST));
    assert_int_equal(yk_dataset_field_count(dataset), 1);
    assert_ok(yk_reader_create(&reader, dataset));
    assert_ok(yk_reader_read(reader, 1, &fields));
    assert_true(fields[0].dtype == YK_F32 && ((const float *)fields[0].data)[2] == 6);
    yk_reader_destroy(reader);
    yk_dataset_destroy(dataset);
    write_npy("y_test.npy", "|i1", "False", "(2,)", labels, sizeof labels);
    assert_refused(yk_npy_open, "", YK_SPLIT_TEST, "label 1 is -1");
    static const uint64_t million[] = {0, 1 << 20};
    write_npy("y_test.npy", "<u8", "False", "(2,)", million, sizeof million);
    assert_refused(yk_npy_open, "", YK_SPLIT_TEST, "label 1 is 1048576, expected 0 to 1048575");
    write_npy("y_test.npy", "<U1", "False", "(2,)", million, 8);
    assert_refused(yk_npy_open, "", YK_SPLIT_TEST,
                   "y_test.npy: expected numbers of at most 8 bytes, found elements of type <U1");
    write_npy("y_test.npy", "<f4", "False", "(2, 2)", values, 16);
    assert_refused(yk_npy_open, "", YK_SPLIT_TEST, "found elements of type <f4 and shape (2, 2)");
    write_npy("y_test.npy", "<c16", "False", "(2,)", values, sizeof values);
    assert_refused(yk_npy_open, "", YK_SPLIT_TEST, "found elements of type <c16; save x.astype");
    write_npy("y_test.npy", "<i4", "False", "(1, 1, 1, 1, 1, 1, 1)", values, 4);
    assert_refused(yk_npy_open, "", YK_SPLIT_TEST, "expected an array of at most 6 dimensions");
    write_npy("x_test.npy", "<f4", "True", "(2, 3)", values, sizeof values);
    assert_refused(yk_npy_open, "", YK_SPLIT_TEST, "in Fortran's order");
    write_npy("x_test.npy", ">f4", "False", "(2, 3)", values, sizeof values);
    assert_refused(yk_npy_open, "", YK_SPLIT_TEST, "elements of type >f4 are not read");
    assert_refused(yk_npy_open, "", YK_SPLIT_TRAIN, "expected train_images.npy");
}

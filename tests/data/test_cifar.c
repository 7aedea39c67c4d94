/* CIFAR-10 in both versions, found from the folder and from its parent, and refused when broken. */
#define _GNU_SOURCE
#include "cifar_files.h"
#include "images.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/random.h"

static void check_rows(const char *path, int rows)
{
    yk_dataset *dataset;
    assert_ok(yk_cifar10_open(&dataset, path, YK_SPLIT_TRAIN));
    assert_int_equal(yk_dataset_size(dataset), 5 * rows);
    assert_int_equal(yk_dataset_classes(dataset), 10);
    assert_string_equal(yk_dataset_class_name(dataset, 0), "airplane");
    assert_string_equal(yk_dataset_class_name(dataset, 9), "truck");
    assert_null(yk_dataset_class_name(dataset, 10));
    for (int i = 0; i < 5 * rows; i++) {
        int label = -1;
        const uint8_t *pixels = image_of(dataset, i, &label);
        assert_int_equal(label, row_label(i / rows, i % rows));
        for (int p = 0; p < ROW_BYTES; p += 97)
            assert_int_equal(pixels[p], row_pixel(i / rows, i % rows, p));
    }
    yk_reader *reader;
    const yk_tensor *fields;
    assert_ok(yk_reader_create(&reader, dataset));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_reader_read(reader, 5 * rows, &fields));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_reader_read(reader, -1, &fields));
    assert_null(fields);
    yk_reader_destroy(reader);
    yk_dataset_destroy(dataset);

    assert_ok(yk_cifar10_open(&dataset, path, YK_SPLIT_TEST));
    assert_int_equal(yk_dataset_size(dataset), rows);
    assert_int_equal(image_of(dataset, 1, NULL)[2], row_pixel(5, 1, 2));
    yk_dataset_destroy(dataset);
}

YK_TEST(reads_the_python_version)
{
    char path[512];
    const char *folder = fresh_folder();
    write_cifar(folder, false, 12);
    check_rows(folder, 12);
    snprintf(path, sizeof path, "%s/cifar-10-batches-py", folder);
    check_rows(path, 12);
}

YK_TEST(reads_labels_in_runs_of_a_thousand)
{
    const char *folder = fresh_folder();
    write_cifar(folder, false, 1003);
    check_rows(folder, 1003);
}

YK_TEST(reads_the_binary_version)
{
    char path[512];
    const char *folder = fresh_folder();
    write_cifar(folder, true, 12);
    check_rows(folder, 12);
    snprintf(path, sizeof path, "%s/cifar-10-batches-bin", folder);
    check_rows(path, 12);
}

/* Overwrites bytes of data_batch_3 and expects the words in the error line. */
static void broken(bool binary, const char *find, const char *replace, size_t length,
                   const char *words)
{
    char path[512], bytes[64 << 10];
    const char *folder = fresh_folder();
    write_cifar(folder, binary, 3);
    snprintf(path, sizeof path, "%s/cifar-10-batches-%s/data_batch_3%s", folder,
             binary ? "bin" : "py", binary ? ".bin" : "");
    FILE *file = fopen(path, "r+b");
    size_t size = fread(bytes, 1, sizeof bytes, file);
    char *at = memmem(bytes, size, find, length);
    assert_non_null(at);
    memcpy(at, replace, length);
    rewind(file);
    write_bytes(file, bytes, size);
    fclose(file);

    yk_dataset *dataset = NULL;
    assert_status(YK_ERROR_FORMAT, yk_cifar10_open(&dataset, folder, YK_SPLIT_TRAIN));
    assert_null(dataset);
    assert_contains(yk_last_error(), "data_batch_3");
    assert_contains(yk_last_error(), words);
}

YK_TEST(refuses_broken_pickles)
{
    broken(false, "K\x02K\x03K\x04", "K\x02K\x0aK\x04", 6, "a label from 0 to 9");
    broken(false, "K\x02K\x03K\x04", "K\x02K\x03NN", 6, "labels, one a row");
    broken(false, "K\x02K\x03K\x04", "K\x02K\x03U\x00", 6, "a label from 0 to 9, found a byte");
    broken(false, "M\x00\x0c", "M\x00\x0d", 3, "the shape (rows, 3072)");
    broken(false, "M\x03\x00", "M\x04\x00", 3, "4 rows of 3072 bytes");
    broken(false, "u1", "i4", 2, "row-major numpy array of uint8");
    broken(false, "tb\x89T", "tb\x88T", 4, "row-major numpy array of uint8");
    broken(false,
           "U\x04"
           "data",
           "U\x04"
           "date",
           6, "expected \"data\"");
    broken(false, "labels", "lables", 6, "expected \"labels\" as a list");
    broken(false, "cnumpy\ndtype", "cposix\nabort", 12, "refers to posix.abort");
    broken(false, "\x80\x02}", "\x80\x06}", 3, "protocol 2 to 5, found 6");
}

YK_TEST(refuses_broken_records)
{
    broken(true, "\x03\x11", "\x0b\x11", 2, "offset 3073: expected a label from 0 to 9, found 11");
    char path[512];
    const char *folder = fresh_folder();
    snprintf(path, sizeof path, "%s/cifar-10-batches-bin/data_batch_3.bin", folder);
    write_cifar(folder, true, 3);
    assert_int_equal(truncate(path, 3073 * 2 + 5), 0);
    yk_dataset *dataset = NULL;
    assert_status(YK_ERROR_FORMAT, yk_cifar10_open(&dataset, folder, YK_SPLIT_TRAIN));
    assert_contains(yk_last_error(), "offset 6146: expected records of 3073 bytes, found 5 bytes");
    assert_int_equal(truncate(path, 0), 0);
    assert_status(YK_ERROR_FORMAT, yk_cifar10_open(&dataset, folder, YK_SPLIT_TRAIN));
    assert_contains(yk_last_error(), "offset 0: expected a batch of images, found it empty");
    assert_int_equal(unlink(path), 0);
    assert_status(YK_ERROR_NOT_FOUND, yk_cifar10_open(&dataset, folder, YK_SPLIT_TRAIN));
    assert_contains(yk_last_error(), "data_batch_3.bin");
}

/* Whoever opened it to read would wait for a writer. */
YK_TEST(promise_31_a_pipe_among_the_batches)
{
    char path[512];
    yk_dataset *dataset;
    const char *folder = fresh_folder();
    write_cifar(folder, true, 3);
    snprintf(path, sizeof path, "%s/cifar-10-batches-bin/data_batch_3.bin", folder);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(10);
    assert_status(YK_ERROR_IO, yk_cifar10_open(&dataset, folder, YK_SPLIT_TRAIN));
    assert_contains(yk_last_error(), "data_batch_3.bin: is not a file");
}

/* A file that is truncated while it is open gives an error with file and offset, never SIGBUS. */
YK_TEST(promise_31_a_file_cut_short_while_it_is_open)
{
    for (int binary = 0; binary < 2; binary++) {
        char path[512];
        yk_dataset *dataset;
        yk_reader *reader;
        const yk_tensor *fields;
        const char *folder = fresh_folder();
        write_cifar(folder, binary, 3);
        snprintf(path, sizeof path, "%s/cifar-10-batches-%s/test_batch%s", folder,
                 binary ? "bin" : "py", binary ? ".bin" : "");
        assert_ok(yk_cifar10_open(&dataset, folder, YK_SPLIT_TEST));
        assert_int_equal(truncate(path, 4096), 0);
        assert_ok(yk_reader_create(&reader, dataset));
        assert_ok(yk_reader_read(reader, 0, &fields));
        assert_status(YK_ERROR_IO, yk_reader_read(reader, 1, &fields));
        assert_contains(yk_last_error(), "sample 1");
        assert_contains(yk_last_error(), "test_batch");
        assert_contains(yk_last_error(), "offset 4096: the file ends here");
        yk_reader_destroy(reader);
        yk_dataset_destroy(dataset);
    }
}

YK_TEST(says_what_it_expected_where_there_is_nothing)
{
    yk_dataset *dataset;
    const char *folder = fresh_folder();
    assert_status(YK_ERROR_NOT_FOUND, yk_cifar10_open(&dataset, folder, YK_SPLIT_TRAIN));
    assert_contains(yk_last_error(), folder);
    assert_contains(yk_last_error(), "cifar-10-batches-py");
}

/* Random edits and cuts of a file, in both versions: opened or refused, never a crash. */
static void fuzz(bool binary)
{
    char path[512], bytes[64 << 10];
    const char *folder = fresh_folder();
    write_cifar(folder, binary, 2);
    snprintf(path, sizeof path, "%s/cifar-10-batches-%s/test_batch%s", folder,
             binary ? "bin" : "py", binary ? ".bin" : "");
    FILE *file = fopen(path, "rb");
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    for (uint64_t round = 0; round < 800; round++) {
        char edited[sizeof bytes];
        memcpy(edited, bytes, size);
        size_t head = round % 2 ? 320 : size; /* the structure is in the first bytes and the last */
        for (uint64_t i = 0; i <= yki_hash3(round, 0, 0) % 3; i++) {
            uint64_t draw = yki_hash3(round, 1, i);
            edited[draw % head] = (char)(draw >> 40);
        }
        size_t kept = round % 4 ? size : yki_hash3(round, 2, 0) % size;
        unlink(path); /* some file systems flush a file that is truncated and rewritten */
        file = fopen(path, "wb");
        write_bytes(file, edited, kept);
        fclose(file);
        yk_dataset *dataset;
        if (yk_cifar10_open(&dataset, folder, YK_SPLIT_TEST) == YK_OK)
            yk_dataset_destroy(dataset);
    }
}

YK_TEST(promise_31_fuzzed_pickle_batches)
{
    fuzz(false);
}

YK_TEST(promise_31_fuzzed_binary_batches)
{
    fuzz(true);
}

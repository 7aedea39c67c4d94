/* Data sets that Python has written: CIFAR-100's pickles and NumPy's files. */
#include "harness.h"

#include "pytorch.h"

static void assert_sample(const yk_dataset *dataset, int64_t index, int label, const uint8_t *start)
{
    yk_reader *reader;
    const yk_tensor *fields;
    assert_ok(yk_reader_create(&reader, dataset));
    assert_ok(yk_reader_read(reader, index, &fields));
    assert_int_equal(*(const int32_t *)fields[1].data, label);
    assert_memory_equal(fields[0].data, start, 3);
    yk_reader_destroy(reader);
}

/* Bytes above 127, which Python 3 writes as two in protocol 2. */
static void assert_last_pixels(const yk_dataset *dataset, int64_t index)
{
    yk_reader *reader;
    const yk_tensor *fields;
    assert_ok(yk_reader_create(&reader, dataset));
    assert_ok(yk_reader_read(reader, index, &fields));
    assert_memory_equal((const uint8_t *)fields[0].data + 3069, ((const uint8_t[]){253, 254, 255}),
                        3);
    yk_reader_destroy(reader);
}

YK_TEST(files_that_python_has_written_are_read)
{
    yk_dataset *dataset;
    pytorch_judges("readers.py", "%s", yk_test_directory());
    assert_ok(yk_cifar100_open(&dataset, yk_test_directory(), YK_SPLIT_TRAIN));
    assert_int_equal(yk_dataset_size(dataset), 3);
    assert_sample(dataset, 2, 99, (const uint8_t[]){0, 1, 2}); /* 2 * 3072 is a multiple of 256 */
    yk_dataset_destroy(dataset);
    for (int protocol = 2; protocol <= 5; protocol++)
        for (int bytes = 0; bytes < 2; bytes++) {
            char path[512];
            snprintf(path, sizeof path, "%s/%s-%d", yk_test_directory(), bytes ? "bytes" : "latin1",
                     protocol);
            assert_ok(yk_cifar100_open(&dataset, path, YK_SPLIT_TRAIN));
            assert_int_equal(yk_dataset_size(dataset), 3);
            assert_sample(dataset, 0, 97, (const uint8_t[]){0, 1, 2});
            assert_last_pixels(dataset, 2);
            yk_dataset_destroy(dataset);
        }
    assert_ok(yk_npy_open(&dataset, yk_test_directory(), YK_SPLIT_TRAIN));
    assert_int_equal(yk_dataset_classes(dataset), 4);
    assert_sample(dataset, 1, 1, (const uint8_t[]){60, 63, 66});
    yk_dataset_destroy(dataset);
}

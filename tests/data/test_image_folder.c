/* Folders of pictures, with the semantics of torchvision's ImageFolder. */
#define _GNU_SOURCE
#include "shell.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int entries_until_failure; /* of folders; 0: none fails */

typedef struct dirent *readdir_function(DIR *folder);

/* Takes the place of the C library's function. */
struct dirent *readdir(DIR *folder)
{
    readdir_function *real = (readdir_function *)dlsym(RTLD_NEXT, "readdir");
    if (entries_until_failure == 0 || --entries_until_failure > 0)
        return real(folder);
    errno = EIO;
    return NULL;
}

/* What is missing would be a smaller data set. */
YK_TEST(a_folder_that_cannot_be_read_to_its_end_is_an_error)
{
    yk_dataset *dataset;
    shell("mkdir -p d/a d/b; for i in 1 2 3; do cp $SEEDS/png/rgb d/a/$i.png; "
          "cp $SEEDS/png/rgb d/b/$i.png; done");
    int failures = 0;
    for (int until = 1; until < 40; until++) {
        entries_until_failure = until;
        yk_status status = yk_folder_open(&dataset, yk_test_path("d"), YK_SPLIT_TRAIN);
        bool failed = entries_until_failure == 0;
        entries_until_failure = 0;
        assert_int_equal(status, failed ? YK_ERROR_IO : YK_OK);
        if (failed)
            assert_contains(yk_last_error(), ": cannot read the folder: Input/output error");
        failures += failed;
        yk_dataset_destroy(dataset);
    }
    assert_in_range(failures, 8, 39);
}

YK_TEST(classes_and_files_are_in_image_folders_order)
{
    static const char *const names[] = {"Zebra/1.png",  "cat/10.JPG",    "cat/9.jpeg",
                                        "cat/a/4.webp", "cat/a-b/0.png", "cat/a/b/2.jpg"};
    static const int labels[] = {0, 1, 1, 1, 1, 1};
    yk_dataset *dataset;
    yk_reader *reader;
    const yk_tensor *fields;
    shell("mkdir -p d/cat/a/b d/cat/a-b d/Zebra d/.hidden; cp $SEEDS/png/rgb d/Zebra/1.png;"
          "cp $SEEDS/jpeg/rgb_420 d/cat/10.JPG; cp $SEEDS/jpeg/grey d/cat/9.jpeg;"
          "cp $SEEDS/webp/lossy_rgb d/cat/a/4.webp; cp $SEEDS/png/la d/cat/a-b/0.png;"
          "cp $SEEDS/jpeg/cmyk d/cat/a/b/2.jpg; echo > d/cat/notes.txt; echo > d/readme");
    assert_ok(yk_folder_open(&dataset, yk_test_path("d"), YK_SPLIT_TRAIN));
    assert_int_equal(yk_dataset_size(dataset), 6);
    assert_int_equal(yk_dataset_classes(dataset), 2);
    assert_string_equal(yk_dataset_class_name(dataset, 0), "Zebra");
    assert_string_equal(yk_dataset_class_name(dataset, 1), "cat");
    if (yk_reader_create(&reader, dataset) != YK_OK)
        skip_because("%s", yk_last_error());
    /* os.walk's folders are sorted as texts: "cat/a" < "cat/a-b" < "cat/a/b". */
    for (int i = 0; i < 6; i++) {
        assert_string_equal(sample_name(dataset, i), names[i]);
        assert_ok(yk_reader_read(reader, i, &fields));
        assert_int_equal(fields[0].ndim, 3);
        assert_int_equal(fields[0].dims[0], 3);
        assert_int_equal(fields[0].dims[1], 35);
        assert_int_equal(fields[0].dims[2], 45);
        assert_int_equal(*(const int32_t *)fields[1].data, labels[i]);
    }
    yk_reader_destroy(reader);
    yk_dataset_destroy(dataset);
}

YK_TEST(the_validation_split_has_the_numbers_of_the_training_split)
{
    yk_dataset *dataset;
    shell("mkdir -p d/train/a d/train/b d/val/b; cp $SEEDS/png/rgb d/train/a/1.png;"
          "cp $SEEDS/png/rgb d/train/b/1.png; cp $SEEDS/png/rgb d/val/b/1.png");
    assert_ok(yk_folder_open(&dataset, yk_test_path("d"), YK_SPLIT_TRAIN));
    assert_int_equal(yk_dataset_size(dataset), 2);
    yk_dataset_destroy(dataset);
    assert_ok(yk_folder_open(&dataset, yk_test_path("d"), YK_SPLIT_TEST));
    assert_int_equal(yk_dataset_classes(dataset), 2);
    assert_string_equal(sample_name(dataset, 0), "b/1.png");
    yk_reader *reader;
    const yk_tensor *fields;
    if (yk_reader_create(&reader, dataset) == YK_OK) {
        assert_ok(yk_reader_read(reader, 0, &fields));
        assert_int_equal(*(const int32_t *)fields[1].data, 1);
        yk_reader_destroy(reader);
    }
    yk_dataset_destroy(dataset);
}

static void assert_refused(yk_status status, yk_split split, const char *why)
{
    yk_dataset *dataset;
    assert_status(status, yk_folder_open(&dataset, yk_test_path("d"), split));
    assert_null(dataset);
    assert_contains(yk_last_error(), why);
}

YK_TEST(what_is_wrong_with_a_folder_is_said)
{
    assert_refused(YK_ERROR_NOT_FOUND, YK_SPLIT_TRAIN, "No such file or directory");
    shell("mkdir d; cp $SEEDS/png/rgb d/1.png");
    assert_refused(YK_ERROR_NOT_FOUND, YK_SPLIT_TRAIN, "expected a folder for each class");
    shell("mkdir d/a d/b; mv d/1.png d/a; echo > d/b/1.bmp");
    assert_refused(YK_ERROR_FORMAT, YK_SPLIT_TRAIN, "/d/b: no pictures in this class");
    assert_refused(YK_ERROR_NOT_FOUND, YK_SPLIT_TEST, "expected the folders train and val");
    shell("mv d away");
    assert_refused(YK_ERROR_NOT_FOUND, YK_SPLIT_TEST, "there is no such folder");
    shell("mv away d");
    shell("mkdir -p d/train d/val/c; mv d/a d/train; cp d/train/a/1.png d/val/c");
    assert_refused(YK_ERROR_FORMAT, YK_SPLIT_TEST,
                   "/val/c: the data for training has no class of this name");
    /* Two loops, which would be 2^32 paths if they were followed to the greatest depth. */
    shell("ln -s .. d/train/a/loop; ln -s . d/train/a/another");
    assert_refused(YK_ERROR_INVALID_ARGUMENT, YK_SPLIT_TRAIN, "leads back to a folder above it");
}

YK_TEST(a_damaged_picture_is_named)
{
    yk_dataset *dataset;
    yk_reader *reader;
    const yk_tensor *fields;
    shell("mkdir -p d/a; cp $SEEDS/jpeg/torn d/a/torn.jpg; cp $SEEDS/jpeg/grey d/a/fine.jpg;"
          "cp $SEEDS/jpeg/grey d/a/gone.jpg");
    assert_ok(yk_folder_open(&dataset, yk_test_path("d"), YK_SPLIT_TRAIN));
    if (yk_reader_create(&reader, dataset) != YK_OK)
        skip_because("%s", yk_last_error());
    assert_status(YK_ERROR_FORMAT, yk_reader_read(reader, 2, &fields));
    assert_contains(yk_last_error(), "sample 2, a/torn.jpg: damaged JPEG");
    assert_ok(yk_reader_read(reader, 0, &fields));
    shell("rm d/a/gone.jpg");
    assert_status(YK_ERROR_NOT_FOUND, yk_reader_read(reader, 1, &fields));
    assert_contains(yk_last_error(), "a/gone.jpg");
    yk_reader_destroy(reader);
    yk_dataset_destroy(dataset);
}

/* What an epoch of the folder "d" consists of: indices in order, and pixels in all. */
typedef struct epoch {
    int64_t indices[8], count, skipped;
    double pixels;
} epoch;

static epoch read_epoch(const yk_dataset *dataset, int workers)
{
    epoch read = {.count = 0};
    yk_loader *loader;
    assert_ok(yk_loader_create(&loader, dataset,
                               YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT, o.batch_size = 2,
                                       o.transforms = "RandomResizedCrop(8)", o.workers = workers,
                                       o.skip_damaged = true)));
    for (const yk_batch *batch; (batch = yk_loader_next(loader));) {
        const float *pixels = batch->tensors[0].data;
        for (int64_t i = 0; i < yk_tensor_count(&batch->tensors[0]); i++)
            read.pixels += (double)(i + 1) * (double)pixels[i];
        for (int64_t i = 0; i < batch->size; i++)
            read.indices[read.count++] = batch->indices[i];
    }
    assert_ok(yk_loader_status(loader));
    read.skipped = yk_loader_skipped(loader);
    assert_non_null(yk_loader_next(loader));
    assert_int_equal(yk_loader_skipped(loader), 1);
    assert_ok(yk_loader_seek(loader, 0, 0));
    assert_int_equal(yk_loader_skipped(loader), 0);
    yk_loader_destroy(loader);
    return read;
}

YK_TEST(damaged_pictures_are_replaced_by_the_next_on_any_number_of_workers)
{
    static const int64_t expected[] = {1, 1, 2, 5, 5, 5, 1};
    yk_dataset *dataset;
    yk_reader *reader;
    shell("mkdir -p d/a d/b; cp $SEEDS/jpeg/torn d/a/0.jpg; cp $SEEDS/jpeg/grey d/a/1.jpg;"
          "cp $SEEDS/png/rgb d/a/2.png; cp $SEEDS/jpeg/torn d/a/3.jpg; : > d/b/4.png;"
          "cp $SEEDS/jpeg/rgb_420 d/b/5.jpg; echo text > d/b/6.webp");
    assert_ok(yk_folder_open(&dataset, yk_test_path("d"), YK_SPLIT_TRAIN));
    if (yk_reader_create(&reader, dataset) != YK_OK)
        skip_because("%s", yk_last_error());
    yk_reader_destroy(reader);
    epoch one = read_epoch(dataset, 1), four = read_epoch(dataset, 4);
    assert_int_equal(one.count, 7);
    assert_memory_equal(one.indices, expected, sizeof expected);
    assert_int_equal(one.skipped, 4);
    assert_int_equal(four.skipped, 4);
    assert_memory_equal(four.indices, expected, sizeof expected);
    assert_true(one.pixels == four.pixels);
    yk_dataset_destroy(dataset);
}

YK_TEST(nothing_replaces_pictures_that_are_all_damaged)
{
    yk_dataset *dataset;
    yk_loader *loader;
    shell("mkdir -p d/a; cp $SEEDS/jpeg/torn d/a/0.jpg; cp $SEEDS/jpeg/torn d/a/1.jpg");
    assert_ok(yk_folder_open(&dataset, yk_test_path("d"), YK_SPLIT_TRAIN));
    if (yk_loader_create(&loader, dataset,
                         YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT,
                                 o.transforms = "CenterCrop(8)", o.skip_damaged = true)) != YK_OK)
        skip_because("%s", yk_last_error());
    assert_null(yk_loader_next(loader));
    assert_status(YK_ERROR_FORMAT, yk_loader_status(loader));
    assert_contains(yk_last_error(), "2 damaged samples in a row: ");
    yk_loader_destroy(loader);
    yk_dataset_destroy(dataset);
}

/* The number of replaced samples in an epoch of the folder "d", after `commands` have been run. */
static int64_t count_skipped(const char *commands, const char *transforms)
{
    yk_dataset *dataset;
    yk_loader *loader;
    shell("mkdir -p d/a; cp $SEEDS/jpeg/grey d/a/0.jpg; cp $SEEDS/jpeg/grey d/a/1.jpg;"
          "cp $SEEDS/jpeg/grey d/a/2.jpg");
    assert_ok(yk_folder_open(&dataset, yk_test_path("d"), YK_SPLIT_TRAIN));
    shell(commands);
    if (yk_loader_create(&loader, dataset,
                         YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT,
                                 o.transforms = transforms, o.skip_damaged = true)) != YK_OK)
        skip_because("%s", yk_last_error());
    while (yk_loader_next(loader))
        ;
    assert_ok(yk_loader_status(loader));
    int64_t skipped = yk_loader_skipped(loader);
    yk_loader_destroy(loader);
    yk_dataset_destroy(dataset);
    return skipped;
}

YK_TEST(whatever_is_wrong_with_one_picture_is_skipped)
{
    assert_int_equal(count_skipped("rm d/a/1.jpg", "CenterCrop(8)"), 1);
    assert_int_equal(count_skipped("ln -sf 1.jpg d/a/1.jpg", "CenterCrop(8)"), 1);
    shell("rm d/a/1.jpg");
    assert_int_equal(count_skipped("truncate -s 2G d/a/1.jpg", "CenterCrop(8)"), 1);
    assert_int_equal(count_skipped("cp $SEEDS/png/rgb_16 d/a/1.jpg", "RandomCrop(30)"), 1);
    if (getuid() == 0)
        return; /* root may read everything */
    assert_int_equal(count_skipped("chmod 0 d/a/1.jpg", "CenterCrop(8)"), 1);
}

static yk_status read_broken(void *data, void *worker, int64_t index, yk_field_buffer *buffers)
{
    (void)worker, (void)buffers;
    return yk_set_error(*(const yk_status *)data, "broken at %lld", (long long)index);
}

YK_TEST(what_is_wrong_with_the_whole_data_set_is_not_skipped)
{
    static yk_status status;
    static const yk_field field = {"x", YK_FIELD_TENSOR, YK_F32, 1, {4}};
    for (status = YK_ERROR_INVALID_ARGUMENT; status <= YK_ERROR_INTERNAL; status++) {
        yk_dataset *dataset;
        yk_loader *loader;
        yk_dataset_ops ops = YK_DATASET_OPS_INIT;
        ops.count = 10;
        ops.field_count = 1;
        ops.fields = &field;
        ops.read = read_broken;
        assert_ok(yk_dataset_create(&dataset, &ops, &status));
        assert_ok(yk_loader_create(
            &loader, dataset,
            YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT, o.skip_damaged = true)));
        assert_null(yk_loader_next(loader));
        assert_status(status, yk_loader_status(loader));
        assert_int_equal(yk_sample_is_damaged(status), strstr(yk_last_error(), "in a row") != NULL);
        yk_loader_destroy(loader);
        yk_dataset_destroy(dataset);
    }
}

/* Packed files: the same samples as the data they were made of, and damaged files. */
#define _GNU_SOURCE
#include "harness.h"

#include <stdlib.h>
#include <string.h>

static const char *in_folder(const char *name)
{
    static char paths[2][512];
    static int turn;
    turn = !turn;
    snprintf(paths[turn], sizeof paths[turn], "%s/%s", yk_test_directory(), name);
    return paths[turn];
}

static void make_pictures(void)
{
    char output[4096];
    const char *source = getenv("YOKE_SOURCE");
    int code = yk_test_command(
        output, sizeof output,
        "set -e; cd %s; SEEDS=%s/tests/fuzz/corpus; mkdir -p d/b d/a; cp $SEEDS/jpeg/rgb_420 "
        "d/a/1.jpg; cp $SEEDS/png/rgb d/b/1.png; cp $SEEDS/png/rgb_16 d/b/2.png",
        yk_test_directory(), source ? source : ".");
    if (code != 0)
        fail_msg("%s", output);
}

static void assert_same_samples(const yk_dataset *a, const yk_dataset *b)
{
    yk_reader *readers[2];
    const yk_tensor *fields[2];
    assert_int_equal(yk_dataset_size(a), yk_dataset_size(b));
    assert_int_equal(yk_dataset_classes(a), yk_dataset_classes(b));
    for (int64_t i = 0; i < yk_dataset_classes(a); i++)
        assert_string_equal(yk_dataset_class_name(a, i), yk_dataset_class_name(b, i));
    assert_ok(yk_reader_create(&readers[0], a));
    assert_ok(yk_reader_create(&readers[1], b));
    for (int64_t i = 0; i < yk_dataset_size(a); i++) {
        assert_ok(yk_reader_read(readers[0], i, &fields[0]));
        assert_ok(yk_reader_read(readers[1], i, &fields[1]));
        const yk_tensor *images[2] = {&fields[0][0], &fields[1][0]};
        for (int d = 0; d < 3; d++)
            assert_int_equal(images[0]->dims[d], images[1]->dims[d]);
        assert_memory_equal(images[0]->data, images[1]->data,
                            (size_t)(images[0]->dims[0] * images[0]->dims[1] * images[0]->dims[2]));
        assert_int_equal(*(const int32_t *)fields[0][1].data, *(const int32_t *)fields[1][1].data);
    }
    yk_reader_destroy(readers[0]);
    yk_reader_destroy(readers[1]);
}

static yk_dataset *open_pictures(void)
{
    yk_dataset *dataset;
    make_pictures();
    assert_ok(yk_folder_open(&dataset, in_folder("d"), YK_SPLIT_TRAIN));
    return dataset;
}

YK_TEST(a_packed_file_has_the_same_samples)
{
    if (!yk_image_formats())
        skip_because("%s", yk_last_error());
    yk_dataset *pictures = open_pictures(), *packed;
    for (int keep = 0; keep < 2; keep++) {
        assert_ok(
            yk_pack_write(in_folder("train.pack"), pictures,
                          YK_WITH(yk_pack_options, YK_PACK_OPTIONS_INIT, o.keep_files = keep)));
        assert_ok(yk_pack_open(&packed, yk_test_directory(), YK_SPLIT_TRAIN));
        assert_same_samples(pictures, packed);
        yk_dataset_destroy(packed);
    }
    assert_status(YK_ERROR_NOT_FOUND,
                  yk_pack_open(&packed, in_folder("train.pack"), YK_SPLIT_TEST));
    assert_contains(yk_last_error(), "a packed file holds one split");
    yk_dataset_destroy(pictures);
}

YK_TEST(pictures_of_one_size_are_packed_as_such)
{
    yk_dataset *synthetic, *packed;
    assert_ok(yk_synthetic_create(
        &synthetic, YK_SPLIT_TRAIN,
        YK_WITH(yk_synthetic_options, YK_SYNTHETIC_OPTIONS_INIT, o.count = 20)));
    assert_ok(yk_pack_write(in_folder("x.pack"), synthetic, NULL));
    assert_ok(yk_pack_open(&packed, in_folder("x.pack"), YK_SPLIT_TRAIN));
    assert_int_equal(yk_dataset_field(packed, 0)->dims[1], 32);
    assert_same_samples(synthetic, packed);
    yk_dataset_destroy(packed);
    yk_dataset_destroy(synthetic);
}

YK_TEST(the_shorter_side_is_resized)
{
    if (!yk_image_formats())
        skip_because("%s", yk_last_error());
    yk_dataset *pictures = open_pictures(), *packed;
    yk_reader *reader;
    const yk_tensor *fields;
    assert_ok(yk_pack_write(in_folder("x.pack"), pictures,
                            YK_WITH(yk_pack_options, YK_PACK_OPTIONS_INIT, o.short_side = 14)));
    assert_ok(yk_pack_open(&packed, in_folder("x.pack"), YK_SPLIT_TRAIN));
    assert_ok(yk_reader_create(&reader, packed));
    assert_ok(yk_reader_read(reader, 0, &fields)); /* was 35 x 45 */
    assert_int_equal(fields[0].dims[1], 14);
    assert_int_equal(fields[0].dims[2], 18);
    assert_ok(yk_reader_read(reader, 2, &fields)); /* was 18 x 24 */
    assert_int_equal(fields[0].dims[1], 14);
    assert_int_equal(fields[0].dims[2], 18);
    yk_reader_destroy(reader);
    yk_dataset_destroy(packed);
    yk_dataset_destroy(pictures);
}

YK_TEST(options_that_do_not_fit_are_refused)
{
    yk_dataset *synthetic;
    assert_ok(yk_synthetic_create(&synthetic, YK_SPLIT_TRAIN, NULL));
    assert_status(
        YK_ERROR_INVALID_ARGUMENT,
        yk_pack_write(in_folder("x"), synthetic,
                      YK_WITH(yk_pack_options, YK_PACK_OPTIONS_INIT, o.keep_files = true)));
    assert_contains(yk_last_error(), "its pictures are not files");
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_pack_write(in_folder("x"), synthetic,
                                YK_WITH(yk_pack_options, YK_PACK_OPTIONS_INIT, o.short_side = 0)));
    assert_contains(yk_last_error(), "short_side is 0");
    yk_dataset_destroy(synthetic);
}

YK_TEST(damaged_packed_files_are_read_or_refused)
{
    static uint8_t whole[1 << 16], damaged[1 << 16];
    yk_dataset *dataset;
    assert_ok(yk_synthetic_create(
        &dataset, YK_SPLIT_TRAIN,
        YK_WITH(yk_synthetic_options, YK_SYNTHETIC_OPTIONS_INIT, o.count = 10)));
    assert_ok(yk_pack_write(in_folder("x.pack"), dataset, NULL));
    yk_dataset_destroy(dataset);
    FILE *file = fopen(in_folder("x.pack"), "rb");
    size_t size = fread(whole, 1, sizeof whole, file);
    fclose(file);
    uint32_t random = 1;
    for (int i = 0; i < 200; i++) {
        memcpy(damaged, whole, size);
        for (int k = 0; k < i % 4; k++) {
            random = random * 1664525 + 1013904223;
            size_t at = i % 8 < 4 ? (random >> 8) % 64 : size - 1 - (random >> 8) % 320;
            damaged[at] ^= (uint8_t)(1 + (random >> 25));
        }
        file = fopen(in_folder("y.pack"), "wb");
        fwrite(damaged, 1, i % 4 ? size : size * (size_t)i / 200, file);
        fclose(file);
        yk_status status = yk_pack_open(&dataset, in_folder("y.pack"), YK_SPLIT_TRAIN);
        if (status != YK_OK)
            assert_true(strlen(yk_last_error()) > 10 && !strchr(yk_last_error(), '\n'));
        assert_true(status == YK_OK || status == YK_ERROR_FORMAT ||
                    status == YK_ERROR_UNSUPPORTED || status == YK_ERROR_INVALID_ARGUMENT);
        yk_dataset_destroy(dataset);
    }
}

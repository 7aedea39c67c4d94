/* Packed files: the same samples as the data they were made of, and damaged files. */
#define _GNU_SOURCE
#include "shell.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

static void make_pictures(void)
{
    shell("mkdir -p d/b d/a; cp $SEEDS/jpeg/rgb_420 d/a/1.jpg; cp $SEEDS/png/rgb d/b/1.png;"
          "cp $SEEDS/png/rgb_16 d/b/2.png");
}

static void assert_same_samples(const yk_dataset *a, const yk_dataset *b)
{
    yk_reader *readers[2];
    const yk_tensor *fields[2];
    assert_int_equal(yk_dataset_size(a), yk_dataset_size(b));
    assert_int_equal(yk_dataset_classes(a), yk_dataset_classes(b));
    for (int64_t i = 0; i < yk_dataset_classes(a); i++)
        if (yk_dataset_class_name(a, i)) /* classes without names are packed as numbers */
            assert_string_equal(yk_dataset_class_name(a, i), yk_dataset_class_name(b, i));
    assert_ok(yk_reader_create(&readers[0], a));
    assert_ok(yk_reader_create(&readers[1], b));
    for (int64_t i = 0; i < yk_dataset_size(a); i++) {
        char names[2][64];
        yk_dataset_sample_name(a, i, names[0], sizeof names[0]);
        yk_dataset_sample_name(b, i, names[1], sizeof names[1]);
        assert_string_equal(names[0], names[1]);
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
    assert_ok(yk_folder_open(&dataset, yk_test_path("d"), YK_SPLIT_TRAIN));
    return dataset;
}

YK_TEST(a_packed_file_has_the_same_samples)
{
    if (!yk_image_formats())
        skip_because("%s", yk_last_error());
    yk_dataset *pictures = open_pictures(), *packed;
    for (int keep = 0; keep < 2; keep++) {
        assert_ok(yk_pack_write(yk_test_path("train.pack"), pictures,
                                YK_WITH(yk_pack_options, YK_PACK_OPTIONS_INIT,
                                        o.format = keep ? YK_PACK_FILES : YK_PACK_PIXELS)));
        assert_ok(yk_pack_open(&packed, yk_test_directory(), YK_SPLIT_TRAIN));
        assert_same_samples(pictures, packed);
        char name[4];
        yk_dataset_sample_name(packed, 1, name, sizeof name);
        assert_string_equal(name, "b/1"); /* .png does not fit */
        yk_dataset_destroy(packed);
    }
    assert_status(YK_ERROR_NOT_FOUND,
                  yk_pack_open(&packed, yk_test_path("train.pack"), YK_SPLIT_TEST));
    assert_contains(yk_last_error(), "a packed file holds one split");
    yk_dataset_destroy(pictures);
}

YK_TEST(a_file_that_is_read_is_not_replaced)
{
    static const int64_t first[] = {0};
    yk_dataset *packed, *part;
    yk_dataset *pictures = open_pictures();
    assert_ok(yk_pack_write(yk_test_path("x.pack"), pictures, NULL));
    assert_false(yk_dataset_reads_file(pictures, yk_test_path("x.pack")));
    assert_ok(yk_pack_open(&packed, yk_test_path("x.pack"), YK_SPLIT_TRAIN));
    assert_ok(yk_subset_create(&part, packed, first, 1));
    assert_true(yk_dataset_reads_file(part, yk_test_path("x.pack")));
    assert_false(yk_dataset_reads_file(part, yk_test_path("y.pack")));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_pack_write(yk_test_path("x.pack"), part, NULL));
    assert_contains(yk_last_error(), "x.pack: is a file of the data that it would hold");
    assert_ok(yk_pack_write(yk_test_path("y.pack"), part, NULL));
    yk_dataset_destroy(part);
    yk_dataset_destroy(packed);
    yk_dataset_destroy(pictures);
}

YK_TEST(pictures_of_one_size_are_packed_as_such)
{
    yk_dataset *synthetic, *packed;
    assert_ok(yk_synthetic_create(
        &synthetic, YK_SPLIT_TRAIN,
        YK_WITH(yk_synthetic_options, YK_SYNTHETIC_OPTIONS_INIT, o.count = 20)));
    assert_ok(yk_pack_write(yk_test_path("x.pack"), synthetic, NULL));
    assert_ok(yk_pack_open(&packed, yk_test_path("x.pack"), YK_SPLIT_TRAIN));
    assert_int_equal(yk_dataset_field(packed, 0)->dims[1], 32);
    assert_same_samples(synthetic, packed);
    yk_dataset_destroy(packed);
    yk_dataset_destroy(synthetic);
}

/* Samples of 1.5 MB, which begin and end within the pieces that are written. */
YK_TEST(pictures_of_any_number_of_channels_are_packed)
{
    yk_dataset *noise, *packed;
    assert_ok(yk_random_create(&noise, YK_SPLIT_TRAIN,
                               YK_WITH(yk_random_options, YK_RANDOM_OPTIONS_INIT, o.count = 12,
                                       o.channels = 4, o.height = 9, o.width = 7)));
    assert_ok(yk_pack_write(yk_test_path("x.pack"), noise, NULL));
    assert_ok(yk_pack_open(&packed, yk_test_path("x.pack"), YK_SPLIT_TRAIN));
    assert_same_samples(noise, packed);
    yk_dataset_destroy(packed);
    assert_ok(yk_pack_write(yk_test_path("x.pack"), noise,
                            YK_WITH(yk_pack_options, YK_PACK_OPTIONS_INIT, o.short_side = 14)));
    assert_ok(yk_pack_open(&packed, yk_test_path("x.pack"), YK_SPLIT_TRAIN));
    const int64_t *dims = yk_dataset_field(packed, 0)->dims;
    assert_true(dims[0] == 4 && dims[1] == 18 && dims[2] == 14);
    yk_dataset_destroy(packed);
    yk_dataset_destroy(noise);
}

YK_TEST(large_pictures_are_packed)
{
    yk_dataset *noise, *packed;
    assert_ok(yk_random_create(&noise, YK_SPLIT_TRAIN,
                               YK_WITH(yk_random_options, YK_RANDOM_OPTIONS_INIT, o.count = 4,
                                       o.height = 700, o.width = 701)));
    assert_ok(yk_pack_write(yk_test_path("x.pack"), noise, NULL));
    assert_ok(yk_pack_open(&packed, yk_test_path("x.pack"), YK_SPLIT_TRAIN));
    assert_same_samples(noise, packed);
    yk_dataset_destroy(packed);
    yk_dataset_destroy(noise);
}

YK_TEST(the_shorter_side_is_resized)
{
    if (!yk_image_formats())
        skip_because("%s", yk_last_error());
    yk_dataset *pictures = open_pictures(), *packed;
    yk_reader *reader;
    const yk_tensor *fields;
    assert_ok(yk_pack_write(yk_test_path("x.pack"), pictures,
                            YK_WITH(yk_pack_options, YK_PACK_OPTIONS_INIT, o.short_side = 14)));
    assert_ok(yk_pack_open(&packed, yk_test_path("x.pack"), YK_SPLIT_TRAIN));
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

/* The signal-to-noise ratio of the pixels of sample 0, in dB. */
static double psnr_of_first(const yk_dataset *a, const yk_dataset *b)
{
    yk_reader *readers[2];
    const yk_tensor *fields[2];
    double squares = 0;
    assert_ok(yk_reader_create(&readers[0], a));
    assert_ok(yk_reader_create(&readers[1], b));
    assert_ok(yk_reader_read(readers[0], 0, &fields[0]));
    assert_ok(yk_reader_read(readers[1], 0, &fields[1]));
    assert_memory_equal(fields[0][0].dims, fields[1][0].dims, 3 * sizeof(int64_t));
    int64_t count = yk_tensor_count(&fields[0][0]);
    for (int64_t i = 0; i < count; i++) {
        int difference =
            ((const uint8_t *)fields[0][0].data)[i] - ((const uint8_t *)fields[1][0].data)[i];
        squares += difference * difference;
    }
    yk_reader_destroy(readers[0]);
    yk_reader_destroy(readers[1]);
    return 10 * log10(255.0 * 255 * (double)count / squares);
}

static void pack_jpeg(const yk_dataset *dataset, yk_dataset **packed, int64_t side, int quality)
{
    assert_ok(yk_pack_write(yk_test_path("x.pack"), dataset,
                            YK_WITH(yk_pack_options, YK_PACK_OPTIONS_INIT, o.short_side = side,
                                    o.format = YK_PACK_JPEG, o.quality = quality)));
    assert_ok(yk_pack_open(packed, yk_test_path("x.pack"), YK_SPLIT_TRAIN));
}

YK_TEST(pictures_are_packed_as_jpeg)
{
    if (!yk_image_formats())
        skip_because("%s", yk_last_error());
    yk_dataset *pictures = open_pictures(), *pixels, *poor, *good;
    assert_ok(yk_pack_write(yk_test_path("p.pack"), pictures,
                            YK_WITH(yk_pack_options, YK_PACK_OPTIONS_INIT, o.short_side = 28)));
    assert_ok(yk_pack_open(&pixels, yk_test_path("p.pack"), YK_SPLIT_TRAIN));
    pack_jpeg(pictures, &good, 28, 95);
    pack_jpeg(pictures, &poor, 28, 30);
    assert_int_equal(yk_dataset_field(good, 0)->kind, YK_FIELD_ENCODED_IMAGE);
    assert_int_equal(yk_dataset_size(good), 3);
    assert_string_equal(yk_dataset_class_name(good, 1), "b");
    double far = psnr_of_first(pixels, poor), near = psnr_of_first(pixels, good);
    assert_true(near > 30 && far > 20 && near > far + 2);
    yk_dataset_destroy(poor);
    yk_dataset_destroy(good);
    yk_dataset_destroy(pixels);
    yk_dataset_destroy(pictures);
}

YK_TEST(damaged_pictures_are_left_out_on_request)
{
    if (!yk_image_formats())
        skip_because("%s", yk_last_error());
    yk_dataset *pictures = open_pictures(), *packed;
    FILE *file = fopen(yk_test_path("d/b/1.png"), "wb");
    assert_non_null(file);
    fputs("text", file);
    fclose(file);
    assert_status(YK_ERROR_FORMAT, yk_pack_write(yk_test_path("x.pack"), pictures, NULL));
    assert_contains(yk_last_error(), "b/1.png");
    assert_true(access(yk_test_path("x.pack"), F_OK) != 0);
    for (int format = YK_PACK_PIXELS; format <= YK_PACK_FILES; format++) {
        if (format == YK_PACK_FILES)
            assert_int_equal(unlink(yk_test_path("d/b/1.png")), 0);
        assert_ok(yk_pack_write(yk_test_path("x.pack"), pictures,
                                YK_WITH(yk_pack_options, YK_PACK_OPTIONS_INIT,
                                        o.format = (yk_pack_format)format, o.skip_damaged = true)));
        assert_ok(yk_pack_open(&packed, yk_test_path("x.pack"), YK_SPLIT_TRAIN));
        char name[64];
        yk_dataset_sample_name(packed, 1, name, sizeof name);
        assert_string_equal(name, "b/2.png");
        assert_int_equal(yk_dataset_size(packed), 2);
        assert_int_equal(yk_dataset_classes(packed), 2);
        yk_dataset_destroy(packed);
    }
    assert_int_equal(unlink(yk_test_path("d/b/2.png")) || unlink(yk_test_path("d/a/1.jpg")), 0);
    assert_status(YK_ERROR_FORMAT, yk_pack_write(yk_test_path("y.pack"), pictures,
                                                 YK_WITH(yk_pack_options, YK_PACK_OPTIONS_INIT,
                                                         o.skip_damaged = true)));
    assert_contains(yk_last_error(), "none of its samples can be read");
    yk_dataset_destroy(pictures);
}

/* Files that are kept are not looked at before they are read: the error names the picture. */
YK_TEST(a_damaged_picture_in_a_packed_file_is_named)
{
    if (!yk_image_formats())
        skip_because("%s", yk_last_error());
    yk_dataset *pictures = open_pictures(), *packed;
    yk_reader *reader;
    const yk_tensor *fields;
    assert_int_equal(truncate(yk_test_path("d/b/2.png"), 100), 0);
    assert_ok(
        yk_pack_write(yk_test_path("x.pack"), pictures,
                      YK_WITH(yk_pack_options, YK_PACK_OPTIONS_INIT, o.format = YK_PACK_FILES)));
    assert_ok(yk_pack_open(&packed, yk_test_path("x.pack"), YK_SPLIT_TRAIN));
    assert_ok(yk_reader_create(&reader, packed));
    assert_status(YK_ERROR_FORMAT, yk_reader_read(reader, 2, &fields));
    assert_contains(yk_last_error(), "sample 2, b/2.png: damaged PNG");
    yk_reader_destroy(reader);
    yk_dataset_destroy(packed);
    yk_dataset_destroy(pictures);
}

/* ---- what a program's own data set may hold -------------------------------------------------- */

/* Three grey samples: the second has this width, and all this label. */
typedef struct odd_samples {
    int64_t width;
    int32_t label;
} odd_samples;

static yk_status read_odd(void *data, void *worker, int64_t index, yk_field_buffer *buffers)
{
    const odd_samples *odd = data;
    int64_t width = index == 1 ? odd->width : 2;
    (void)worker;
    memset(yk_field_buffer_reserve(&buffers[0], (size_t)(3 * width)), 128, (size_t)(3 * width));
    memcpy(buffers[0].dims, (int64_t[]){3, 1, width}, sizeof(int64_t[3]));
    *(int32_t *)buffers[1].data = odd->label;
    return YK_OK;
}

static yk_dataset *create_odd(odd_samples *odd, int64_t classes)
{
    static const yk_field fields[] = {
        {"images", YK_FIELD_IMAGE, YK_U8, 3, {3, YK_ANY_SIZE, YK_ANY_SIZE}},
        {"labels", YK_FIELD_TENSOR, YK_I32, 0, {0}}};
    yk_dataset *dataset;
    yk_dataset_ops ops = YK_DATASET_OPS_INIT;
    ops.name = "odd";
    ops.count = 3;
    ops.field_count = 2;
    ops.fields = fields;
    ops.classes = classes;
    ops.read = read_odd;
    assert_ok(yk_dataset_create(&dataset, &ops, odd));
    return dataset;
}

static yk_status pack_odd(const yk_dataset *dataset, int64_t side, yk_pack_format format, bool skip)
{
    return yk_pack_write(yk_test_path("odd.pack"), dataset,
                         YK_WITH(yk_pack_options, YK_PACK_OPTIONS_INIT, o.short_side = side,
                                 o.format = format, o.skip_damaged = skip));
}

static void assert_width_refused(int64_t width, int64_t side, yk_pack_format format)
{
    odd_samples odd = {.width = width};
    yk_dataset *dataset = create_odd(&odd, 1), *packed;
    assert_status(YK_ERROR_UNSUPPORTED, pack_odd(dataset, side, format, false));
    assert_contains(yk_last_error(), "sample 1: a picture of ");
    assert_int_equal(access(yk_test_path("odd.pack"), F_OK), -1);
    assert_int_equal(access(yk_test_path("odd.pack.tmp"), F_OK), -1);
    assert_ok(pack_odd(dataset, side, format, true));
    assert_ok(yk_pack_open(&packed, yk_test_path("odd.pack"), YK_SPLIT_TRAIN));
    assert_int_equal(yk_dataset_size(packed), 2);
    assert_int_equal(unlink(yk_test_path("odd.pack")), 0);
    yk_dataset_destroy(packed);
    yk_dataset_destroy(dataset);
}

YK_TEST(pictures_with_sides_that_are_too_long_are_refused_or_left_out)
{
    assert_width_refused(300, 256, YK_PACK_PIXELS);
    assert_width_refused(1 << 19, 256, YK_PACK_PIXELS);
    assert_width_refused(65536, YK_PACK_SIZE_KEEP, YK_PACK_PIXELS);
    if (!yk_image_formats())
        skip_because("%s", yk_last_error());
    assert_width_refused(300, 256, YK_PACK_JPEG);
    assert_width_refused(65501, YK_PACK_SIZE_KEEP, YK_PACK_JPEG);
}

YK_TEST(labels_outside_the_classes_are_refused)
{
    static const int32_t wrong[] = {-1, 7, INT32_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        odd_samples odd = {.width = 2, .label = wrong[i]};
        yk_dataset *dataset = create_odd(&odd, 7);
        assert_status(YK_ERROR_INVALID_ARGUMENT,
                      pack_odd(dataset, YK_PACK_SIZE_KEEP, YK_PACK_PIXELS, true));
        assert_contains(yk_last_error(), "sample 0: label ");
        assert_contains(yk_last_error(), "expected 0 to 6");
        odd.label = 6;
        assert_ok(pack_odd(dataset, YK_PACK_SIZE_KEEP, YK_PACK_PIXELS, false));
        yk_dataset_destroy(dataset);
    }
}

YK_TEST(labels_of_no_classes_are_refused)
{
    odd_samples odd = {.width = 2};
    yk_dataset *dataset = create_odd(&odd, 0);
    assert_status(YK_ERROR_UNSUPPORTED,
                  pack_odd(dataset, YK_PACK_SIZE_KEEP, YK_PACK_PIXELS, false));
    assert_contains(yk_last_error(), "odd: its labels are not of classes");
    assert_int_equal(access(yk_test_path("odd.pack"), F_OK), -1);
    yk_dataset_destroy(dataset);
}

YK_TEST(options_that_do_not_fit_are_refused)
{
    yk_dataset *synthetic, *grey;
    assert_ok(yk_random_create(&grey, YK_SPLIT_TRAIN,
                               YK_WITH(yk_random_options, YK_RANDOM_OPTIONS_INIT, o.channels = 1)));
    assert_status(YK_ERROR_UNSUPPORTED, yk_pack_write(yk_test_path("x"), grey,
                                                      YK_WITH(yk_pack_options, YK_PACK_OPTIONS_INIT,
                                                              o.format = YK_PACK_JPEG)));
    assert_contains(yk_last_error(), "which is read as RGB");
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_pack_write(yk_test_path("x"), grey,
                                YK_WITH(yk_pack_options, YK_PACK_OPTIONS_INIT, o.quality = 101)));
    yk_dataset_destroy(grey);
    assert_ok(yk_synthetic_create(&synthetic, YK_SPLIT_TRAIN, NULL));
    assert_status(
        YK_ERROR_INVALID_ARGUMENT,
        yk_pack_write(yk_test_path("x"), synthetic,
                      YK_WITH(yk_pack_options, YK_PACK_OPTIONS_INIT, o.format = YK_PACK_FILES)));
    assert_contains(yk_last_error(), "its pictures are not files");
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_pack_write(yk_test_path("x"), synthetic,
                                YK_WITH(yk_pack_options, YK_PACK_OPTIONS_INIT, o.short_side = 0)));
    assert_contains(yk_last_error(), "short_side is 0");
    yk_dataset_destroy(synthetic);
}

/* Reads all samples, and what they are called. */
static void look_at_all(const yk_dataset *dataset)
{
    yk_reader *reader;
    const yk_tensor *fields;
    char name[64];
    assert_ok(yk_reader_create(&reader, dataset));
    for (int64_t i = 0; i < yk_dataset_size(dataset) && i < 50; i++) {
        if (yk_reader_read(reader, i, &fields) != YK_OK)
            assert_non_null(strstr(yk_last_error(), "sample "));
        yk_dataset_sample_name(dataset, i, name, sizeof name);
        assert_true(strlen(name) < sizeof name);
    }
    yk_reader_destroy(reader);
}

YK_TEST(damaged_packed_files_are_read_or_refused)
{
    if (!yk_image_formats())
        skip_because("%s", yk_last_error());
    static uint8_t whole[1 << 16], damaged[1 << 16];
    yk_dataset *dataset = open_pictures();
    assert_ok(yk_pack_write(yk_test_path("x.pack"), dataset, NULL));
    yk_dataset_destroy(dataset);
    FILE *file = fopen(yk_test_path("x.pack"), "rb");
    size_t size = fread(whole, 1, sizeof whole, file);
    fclose(file);
    uint32_t random = 1;
    for (int i = 0; i < 200; i++) {
        memcpy(damaged, whole, size);
        for (int k = 0; k < i % 4; k++) {
            random = random * 1664525 + 1013904223;
            size_t at = i % 8 < 4 ? (random >> 8) % 64 : size - 1 - (random >> 8) % 160;
            damaged[at] ^= (uint8_t)(1 + (random >> 25));
        }
        file = fopen(yk_test_path("y.pack"), "wb");
        fwrite(damaged, 1, i % 4 ? size : size * (size_t)i / 200, file);
        fclose(file);
        yk_status status = yk_pack_open(&dataset, yk_test_path("y.pack"), YK_SPLIT_TRAIN);
        if (status == YK_OK)
            look_at_all(dataset);
        else
            assert_true(strlen(yk_last_error()) > 10 && !strchr(yk_last_error(), '\n'));
        assert_true(status == YK_OK || status == YK_ERROR_FORMAT ||
                    status == YK_ERROR_UNSUPPORTED || status == YK_ERROR_INVALID_ARGUMENT);
        yk_dataset_destroy(dataset);
    }
}

/* The same pixels give the same bits in a batch, wherever they come from: a folder, shards, packed
 * files, and a program's own data set. */
#define _GNU_SOURCE
#include "shell.h"

#include <string.h>

#include <yoke/readers.h>

enum { COUNT = 6, EPOCHS = 3, SIDE = 16, IMAGE = 3 * SIDE * SIDE };

/* PNG files of several sizes in d/a and d/b, and as samples 0 to 5 of a shard, in that order. */
static void write_pictures(void)
{
    shell("mkdir -p d/a d/b s; S=$SEEDS/png; cp $S/rgb d/a/0.png; cp $S/rgb_16 d/a/1.png;"
          "cp $S/la d/a/2.png; cp $S/palette_8 d/b/3.png; cp $S/rgb d/b/4.png;"
          "cp $S/rgb_16 d/b/5.png; cp d/?/*.png s; for i in 0 1 2; do printf 0 > s/$i.cls; done;"
          "for i in 3 4 5; do printf 1 > s/$i.cls; done; cd s; tar cf ../shard.tar *");
}

/* ---- a program's own data set ---------------------------------------------------------------- */

typedef struct picture {
    uint8_t pixels[1 << 16];
    size_t bytes;
    int64_t dims[3];
    int32_t label;
} picture;

static picture pictures[COUNT];

static void keep_pictures(const yk_dataset *folder)
{
    yk_reader *reader;
    const yk_tensor *fields;
    assert_ok(yk_reader_create(&reader, folder));
    for (int64_t i = 0; i < COUNT; i++) {
        assert_ok(yk_reader_read(reader, i, &fields));
        picture *kept = &pictures[i];
        kept->bytes = yk_tensor_bytes(&fields[0]);
        assert_true(kept->bytes <= sizeof kept->pixels);
        memcpy(kept->pixels, fields[0].data, kept->bytes);
        memcpy(kept->dims, fields[0].dims, sizeof kept->dims);
        kept->label = *(const int32_t *)fields[1].data;
    }
    yk_reader_destroy(reader);
}

static yk_status read_picture(void *data, void *worker, int64_t index, yk_field_buffer *buffers)
{
    const picture *kept = &pictures[index];
    (void)data, (void)worker;
    memcpy(buffers[0].dims, kept->dims, sizeof kept->dims);
    yk_field_buffer_lend(&buffers[0], kept->pixels, kept->bytes);
    *(int32_t *)buffers[1].data = kept->label;
    return YK_OK;
}

static yk_dataset *own_dataset(void)
{
    static const yk_field fields[] = {
        {"images", YK_FIELD_IMAGE, YK_U8, 3, {3, YK_ANY_SIZE, YK_ANY_SIZE}},
        {"labels", YK_FIELD_TENSOR, YK_I32, 0, {0}}};
    yk_dataset *dataset;
    yk_dataset_ops ops = YK_DATASET_OPS_INIT;
    ops.count = COUNT;
    ops.field_count = 2;
    ops.fields = fields;
    ops.classes = 2;
    ops.read = read_picture;
    assert_ok(yk_dataset_create(&dataset, &ops, NULL));
    return dataset;
}

/* ---- what arrives ---------------------------------------------------------------------------- */

typedef struct run {
    float images[EPOCHS][COUNT][IMAGE];
    int32_t labels[EPOCHS][COUNT];
} run;

static void load(run *got, yk_dataset *dataset, int workers)
{
    yk_loader *loader;
    assert_int_equal(yk_dataset_size(dataset), COUNT);
    assert_ok(
        yk_loader_create(&loader, dataset,
                         YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT, o.batch_size = 4,
                                 o.shuffle = true, o.seed = 3, o.workers = workers,
                                 o.transforms = "RandomResizedCrop(16),RandomHorizontalFlip,"
                                                "ColorJitter(0.4,0.4,0.4,0.1),RandAugment(2,9),"
                                                "Normalize(imagenet),RandomErasing")));
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        int64_t at = 0;
        for (const yk_batch *batch; (batch = yk_loader_next(loader)); at += batch->size) {
            memcpy(got->images[epoch][at], batch->tensors[0].data,
                   (size_t)batch->size * sizeof(float[IMAGE]));
            memcpy(&got->labels[epoch][at], batch->tensors[1].data,
                   (size_t)batch->size * sizeof(int32_t));
        }
        assert_ok(yk_loader_status(loader));
        assert_int_equal(at, COUNT);
    }
    yk_loader_destroy(loader);
    yk_dataset_destroy(dataset);
}

YK_TEST(equal_pixels_arrive_as_equal_bits)
{
    static run folder, other;
    yk_dataset *dataset;
    if (!yk_image_formats())
        skip_because("%s", yk_last_error());
    write_pictures();
    assert_ok(yk_folder_open(&dataset, yk_test_path("d"), YK_SPLIT_TRAIN));
    keep_pictures(dataset);
    assert_ok(yk_pack_write(yk_test_path("pixels.pack"), dataset, NULL));
    assert_ok(
        yk_pack_write(yk_test_path("files.pack"), dataset,
                      YK_WITH(yk_pack_options, YK_PACK_OPTIONS_INIT, o.format = YK_PACK_FILES)));
    load(&folder, dataset, 1);
    load(&other, own_dataset(), 2);
    assert_memory_equal(&other, &folder, sizeof other);
    assert_ok(yk_pack_open(&dataset, yk_test_path("pixels.pack"), YK_SPLIT_TRAIN));
    load(&other, dataset, 1);
    assert_memory_equal(&other, &folder, sizeof other);
    assert_ok(yk_pack_open(&dataset, yk_test_path("files.pack"), YK_SPLIT_TRAIN));
    load(&other, dataset, 3);
    assert_memory_equal(&other, &folder, sizeof other);
    assert_ok(yk_shards_open(&dataset, yk_test_path("shard.tar"), YK_SPLIT_TRAIN));
    load(&other, dataset, 1);
    assert_memory_equal(&other, &folder, sizeof other);
}

/* Whole lists of transforms give torchvision's numbers: presets, RandAugment at all magnitudes. */
#define _GNU_SOURCE
#include "harness.h"

#include <inttypes.h>

#include <yoke/readers.h>

#include "pytorch.h"

enum { SEED = 7 };

/* Writes what a loader makes of a folder's pictures, with all that it depends on. */
static void write_samples(FILE *file, const char *kind, const char *transforms, int epochs)
{
    yk_dataset *dataset;
    yk_loader *loader;
    char path[512], name[256];
    snprintf(path, sizeof path, "%s/%s", yk_test_directory(), kind);
    assert_ok(yk_folder_open(&dataset, path, YK_SPLIT_TRAIN));
    assert_ok(yk_loader_create(&loader, dataset,
                               YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT,
                                       o.transforms = transforms, o.seed = SEED)));
    for (int epoch = 0; epoch < epochs; epoch++) {
        for (const yk_batch *batch; (batch = yk_loader_next(loader));) {
            const yk_tensor *images = &batch->tensors[0];
            yk_dataset_sample_name(dataset, batch->indices[0], name, sizeof name);
            fprintf(file, "%s\t%d\t%d\t%" PRId64 "\t%s/%s\t%d\t%d\t%d\n", transforms, SEED, epoch,
                    batch->indices[0], path, name, (int)images->dims[1], (int)images->dims[2],
                    (int)images->dims[3]);
            fwrite(images->data, sizeof(float), (size_t)yk_tensor_count(images), file);
        }
        assert_ok(yk_loader_status(loader));
    }
    yk_loader_destroy(loader);
    yk_dataset_destroy(dataset);
}

/* The lists of a preset for pictures of these sizes. */
static void write_preset(FILE *file, const char *kind, const char *preset, int64_t side)
{
    static const int64_t any[] = {3, -1, -1};
    yk_transforms *train, *evaluation;
    assert_ok(yk_transforms_preset(&train, &evaluation, any,
                                   YK_WITH(yk_preset_options, YK_PRESET_OPTIONS_INIT,
                                           o.preset = preset, o.image_size = side)));
    write_samples(file, kind, yk_transforms_text(train), 4);
    write_samples(file, kind, yk_transforms_text(evaluation), 1);
    yk_transforms_destroy(train);
    yk_transforms_destroy(evaluation);
}

YK_TEST(lists_of_transforms_give_torchvisions_numbers)
{
    char path[512], list[128];
    if (!yk_image_formats())
        skip_because("%s", yk_last_error());
    pytorch_judges("pipelines.py", "draw %s", yk_test_directory());
    snprintf(path, sizeof path, "%s/samples", yk_test_directory());
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    write_preset(file, "pictures", "imagenet", 56);
    write_preset(file, "pictures", "cifar", 32);
    write_preset(file, "pictures", "none", 48);
    write_samples(file, "small",
                  "RandomCrop(32,padding=4),RandomHorizontalFlip,Normalize(imagenet)", 4);
    for (int magnitude = 0; magnitude < 31; magnitude++) {
        snprintf(list, sizeof list, "RandAugment(2,%d),Normalize(imagenet)", magnitude);
        char resized[160];
        snprintf(resized, sizeof resized, "CenterCrop(32),%s", list);
        write_samples(file, "small", resized, 4);
    }
    write_samples(file, "large", "Resize(100),CenterCrop(88),ToTensor", 1);
    write_samples(file, "large", "Resize(175),CenterCrop(160),ToTensor", 1);
    write_samples(file, "large", "RandomResizedCrop(56),RandomHorizontalFlip,ToTensor", 3);
    fclose(file);
    pytorch_judges("pipelines.py", "judge %s", path);
}

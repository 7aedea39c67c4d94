/*
 * Noise of any size, for measuring speed: an image is a window of one block of random bytes, whose
 * place depends on the image's index, so that reading it costs nothing.
 */
#include <stdlib.h>

#include <yoke/data.h>

#include "base/memory.h"
#include "base/options.h"
#include "base/random.h"

enum { DEFAULT_TRAIN = 5000, DEFAULT_TEST = 1000, PLACES = 4096 };
static const int64_t MAX_SIDE = 1 << 14, MAX_CHANNELS = 1 << 10, MAX_CLASSES = 1 << 24;

typedef struct noise {
    uint8_t *block; /* (image_bytes + PLACES) */
    size_t image_bytes;
    int64_t classes;
    uint64_t key;
} noise;

static yk_status read_noise(void *data, void *worker, int64_t index, yk_field_buffer *buffers)
{
    const noise *set = data;
    uint64_t draw = yki_mix64(set->key + (uint64_t)index);
    (void)worker;
    yk_field_buffer_lend(&buffers[0], set->block + draw % PLACES, set->image_bytes);
    *(int32_t *)buffers[1].data = (int32_t)(index % set->classes);
    return YK_OK;
}

static void close_noise(void *data)
{
    noise *set = data;
    yki_unmap(set->block, set->image_bytes + PLACES);
    free(set);
}

static yk_status check_range(const char *what, int64_t value, int64_t least, int64_t most)
{
    if (value >= least && value <= most)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT, "random data: %s is %lld, expected %lld to %lld",
                     what, (long long)value, (long long)least, (long long)most);
}

static yk_status create_noise(yk_dataset **dataset, int64_t count, const yk_random_options *o,
                              yk_split split)
{
    const yk_field fields[] = {
        {"images", YK_FIELD_IMAGE, YK_U8, 3, {o->channels, o->height, o->width}},
        {"labels", YK_FIELD_TENSOR, YK_I32, 0, {0}},
    };
    yk_dataset_ops ops = YK_DATASET_OPS_INIT;
    ops.name = "random";
    ops.count = count;
    ops.field_count = 2;
    ops.fields = fields;
    ops.classes = o->classes;
    ops.read = read_noise;
    ops.close = close_noise;
    noise *set = yki_calloc(1, sizeof *set);
    if (!set)
        return yki_error_memory(sizeof *set, "random data");
    set->classes = o->classes;
    set->key = yki_hash3(o->seed, (uint64_t)split, 0);
    set->image_bytes = (size_t)(o->channels * o->height * o->width);
    set->block = yki_map(set->image_bytes + PLACES);
    for (size_t i = 0; set->block && i < set->image_bytes + PLACES; i++)
        set->block[i] = (uint8_t)yki_mix64(~set->key + i);
    yk_status status = set->block ? yk_dataset_create(dataset, &ops, set)
                                  : yki_error_memory(set->image_bytes, "random data");
    if (status != YK_OK)
        close_noise(set);
    return status;
}

yk_status yk_random_create(yk_dataset **dataset, yk_split split, const yk_random_options *options)
{
    YKI_NOT_NULL(dataset);
    *dataset = NULL;
    yk_random_options o;
    YK_TRY(YKI_READ_OPTIONS(&o, options, yk_random_options, YK_RANDOM_OPTIONS_INIT));
    int64_t count = o.count;
    if (count == YK_SYNTHETIC_COUNT_AUTO)
        count = split == YK_SPLIT_TRAIN ? DEFAULT_TRAIN : DEFAULT_TEST;
    YK_TRY(check_range("count", count, 0, INT64_MAX));
    YK_TRY(check_range("channels", o.channels, 1, MAX_CHANNELS));
    YK_TRY(check_range("height", o.height, 1, MAX_SIDE));
    YK_TRY(check_range("width", o.width, 1, MAX_SIDE));
    YK_TRY(check_range("classes", o.classes, 1, MAX_CLASSES));
    return create_noise(dataset, count, &o, split);
}

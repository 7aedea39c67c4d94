/* See crossing.h. */
#include "data/crossing.h"

#include <string.h>

#include "base/memory.h"
#include "device/device.h"

enum { DRAWS = YKI_ALIGNMENT /* where they begin in a block */ };

static size_t numbers_bytes(const yki_crossing *crossing)
{
    return YKI_PICTURE_CHANNELS * YKI_PICTURE_NUMBERS * yk_dtype_size(crossing->pipeline->dtype);
}

static size_t erasings_bytes(const yki_crossing *crossing)
{
    return (size_t)crossing->pipeline->erasing_count * sizeof(yki_picture_erasing);
}

/* Of a picture that crosses. */
static size_t bytes_of(const yki_deferral *deferral)
{
    return (size_t)(deferral->dims[0] * deferral->dims[1] * deferral->dims[2]);
}

/* ---- pictures that the device keeps ---------------------------------------------------------- */

enum { CHUNK = 4 << 20 /* bytes that are copied at once, if a picture is not larger */ };

typedef struct keeping {
    yki_crossing *crossing;
    yki_stream *stream;
    yki_worker reading;
    int field;
    uint8_t *pinned;
    size_t capacity, picture; /* bytes */
} keeping;

static yk_status read_pictures(keeping *k, int64_t first, int64_t count, uint8_t *room)
{
    yki_worker *reading = &k->reading;
    for (int64_t i = 0; i < count; i++) {
        YK_TRY(yki_worker_read(reading, first + i));
        memcpy(room + (size_t)i * k->picture, reading->buffers[k->field].data, k->picture);
    }
    return YK_OK;
}

static yk_status copy_pictures(keeping *k, int64_t samples)
{
    yki_device *device = k->crossing->device;
    int64_t most = (int64_t)(k->capacity / k->picture);
    for (int64_t first = 0; first < samples; first += most) {
        int64_t count = samples - first < most ? samples - first : most;
        YK_TRY(read_pictures(k, first, count, k->pinned));
        YK_TRY(yki_device_copy(device, (char *)k->crossing->kept + (size_t)first * k->picture,
                               k->pinned, (size_t)count * k->picture, YKI_TO_DEVICE, k->stream));
        YK_TRY(yki_stream_wait(device, k->stream));
    }
    return YK_OK;
}

/* Places for the fields that are not pictures, which reading writes to as well. */
static yk_status reserve_others(keeping *k, const yk_dataset *dataset)
{
    for (int i = 0; i < yk_dataset_field_count(dataset); i++) {
        yk_field_buffer *buffer = &k->reading.buffers[i];
        if (yk_dataset_field(dataset, i)->kind != YK_FIELD_TENSOR)
            continue;
        buffer->data = yki_room_reserve(&k->reading.rooms[i], buffer->bytes);
        if (!buffer->data)
            return yki_error_memory(buffer->bytes, "a sample");
    }
    return YK_OK;
}

static yk_status keep_pictures(keeping *k, const yk_dataset *dataset)
{
    yki_crossing *crossing = k->crossing;
    void *pinned;
    YK_TRY(yki_worker_open(&k->reading, dataset));
    YK_TRY(reserve_others(k, dataset));
    YK_TRY(yki_stream_create(crossing->device, &k->stream));
    YK_TRY(yki_device_alloc_pinned(crossing->device, k->capacity, &pinned));
    k->pinned = pinned;
    YK_TRY(yki_device_alloc(crossing->device, crossing->kept_bytes, &crossing->kept));
    return copy_pictures(k, yk_dataset_size(dataset));
}

/* False if they cannot be kept, for which there need be no other reason than too little memory; a
 * sample that is damaged is reported when it is loaded. */
static bool keep_all(yki_crossing *crossing, const yk_dataset *dataset, int field)
{
    size_t picture = bytes_of(&crossing->deferral);
    keeping k = {.crossing = crossing,
                 .field = field,
                 .capacity = picture > CHUNK ? picture : CHUNK,
                 .picture = picture};
    bool kept = keep_pictures(&k, dataset) == YK_OK;
    yki_stream_destroy(crossing->device, k.stream);
    yki_device_free_pinned(crossing->device, k.pinned, k.capacity);
    yki_worker_close(&k.reading);
    if (!kept)
        yki_device_free(crossing->device, crossing->kept, crossing->kept_bytes);
    if (!kept)
        crossing->kept = NULL;
    return kept;
}

/* ---- life ------------------------------------------------------------------------------------ */

yk_status yki_crossing_plan(yki_crossing *crossing, yki_device *device,
                            const yki_pipeline *pipeline, const yk_dataset *dataset, int field,
                            size_t keep)
{
    *crossing = (yki_crossing){.device = device, .pipeline = pipeline};
    yki_deferral *deferral = &crossing->deferral;
    size_t samples = (size_t)yk_dataset_size(dataset);
    yki_pipeline_defer(deferral, pipeline, true);
    bool fits = !__builtin_mul_overflow(samples, bytes_of(deferral), &crossing->kept_bytes) &&
                crossing->kept_bytes <= keep && samples > 0;
    if (deferral->whole && fits && keep_all(crossing, dataset, field))
        return YK_OK;
    yki_pipeline_defer(deferral, pipeline, false);
    crossing->picture_bytes = bytes_of(deferral);
    return YK_OK;
}

/* What the device reads of every batch. */
static yk_status create_constant(const yki_crossing *crossing, void **memory, size_t bytes,
                                 const void *values)
{
    YK_TRY(yki_device_alloc(crossing->device, bytes, memory));
    const yk_tensor tensor = {.data = *memory,
                              .dtype = YK_U8,
                              .ndim = 1,
                              .dims = {(int64_t)bytes},
                              .device = crossing->device};
    return bytes > 0 ? yk_tensor_write(&tensor, values) : YK_OK;
}

yk_status yki_crossing_create(yki_crossing *crossing, size_t rows, bool mixes)
{
    yki_device *device = crossing->device;
    const int64_t *dims = crossing->pipeline->dims;
    crossing->rows = rows;
    crossing->mixes = mixes;
    crossing->batch_bytes =
        rows * (size_t)(dims[0] * dims[1] * dims[2]) * yk_dtype_size(crossing->pipeline->dtype);
    YK_TRY(yki_stages_create(&crossing->stages, device, yki_crossing_bytes(crossing)));
    YK_TRY(yki_device_alloc(device, crossing->batch_bytes, &crossing->batch));
    const yki_byte_tables *tables = &crossing->pipeline->tables;
    bool is_f64 = crossing->pipeline->dtype == YK_F64;
    YK_TRY(create_constant(crossing, &crossing->numbers, numbers_bytes(crossing),
                           is_f64 ? (const void *)tables->f64 : tables->f32));
    return create_constant(crossing, &crossing->erasings, erasings_bytes(crossing),
                           crossing->pipeline->erasings);
}

void yki_crossing_destroy(yki_crossing *crossing)
{
    yki_device *device = crossing->device;
    if (!device)
        return;
    yki_stages_destroy(&crossing->stages);
    yki_device_free(device, crossing->batch, crossing->batch_bytes);
    yki_device_free(device, crossing->numbers, numbers_bytes(crossing));
    yki_device_free(device, crossing->erasings, erasings_bytes(crossing));
    yki_device_free(device, crossing->kept, crossing->kept_bytes);
    *crossing = (yki_crossing){.device = NULL};
}

/* ---- a block --------------------------------------------------------------------------------- */

static size_t boxes_at(const yki_crossing *crossing)
{
    return DRAWS + yki_align(crossing->rows * sizeof(yki_picture_draw), YKI_ALIGNMENT);
}

/* Of a sample. */
static size_t boxes_bytes(const yki_crossing *crossing)
{
    return (size_t)crossing->pipeline->erasing_count * sizeof(yki_picture_box);
}

static size_t pictures_at(const yki_crossing *crossing)
{
    return boxes_at(crossing) + yki_align(crossing->rows * boxes_bytes(crossing), YKI_ALIGNMENT);
}

size_t yki_crossing_bytes(const yki_crossing *crossing)
{
    return pictures_at(crossing) + crossing->rows * crossing->picture_bytes;
}

yki_picture_mix *yki_crossing_mix(void *block)
{
    return block;
}

yk_status yki_crossing_write(const yki_crossing *crossing, void *block, int64_t row,
                             yki_pipeline_memory *memory, yki_decoder *decoder,
                             const yk_field_buffer *picture, yki_pipeline_draw draw)
{
    yki_picture_draw *made = (yki_picture_draw *)(void *)((char *)block + DRAWS) + row;
    void *boxes = (char *)block + boxes_at(crossing) + (size_t)row * boxes_bytes(crossing);
    uint8_t *pixels = crossing->kept ? NULL
                                     : (uint8_t *)block + pictures_at(crossing) +
                                           (size_t)row * crossing->picture_bytes;
    YK_TRY(yki_deferral_run(&crossing->deferral, crossing->pipeline, memory, decoder, picture, draw,
                            pixels, made, boxes));
    made->source = crossing->kept ? draw.index : row;
    return YK_OK;
}

static yki_pictures_args arguments(const yki_crossing *crossing, const void *staged, int64_t rows)
{
    const yki_pipeline *pipeline = crossing->pipeline;
    const yki_deferral *deferral = &crossing->deferral;
    const char *block = staged;
    size_t picture = bytes_of(deferral);
    yki_pictures_args args = {
        .pictures = crossing->kept ? crossing->kept : block + pictures_at(crossing),
        .draws = (const void *)(block + DRAWS),
        .mix = crossing->mixes ? staged : NULL,
        .numbers = crossing->numbers,
        .erasings = crossing->erasings,
        .boxes = (const void *)(block + boxes_at(crossing)),
        .out = crossing->batch,
        .stream = yki_device_stream(crossing->device),
        .count = crossing->kept ? (int64_t)(crossing->kept_bytes / picture) : rows,
        .batch = rows,
        .dtype = pipeline->dtype,
        .channels = (int32_t)deferral->dims[0],
        .height = (int32_t)deferral->dims[1],
        .width = (int32_t)deferral->dims[2],
        .out_height = (int32_t)pipeline->dims[1],
        .out_width = (int32_t)pipeline->dims[2],
        .erasing_count = pipeline->erasing_count,
        .interleaved = deferral->interleaved,
        .reflects = deferral->reflects};
    return args;
}

yk_status yki_crossing_send(yki_crossing *crossing, const void *block, int64_t rows,
                            yki_stream *copies)
{
    yki_device *device = crossing->device;
    void *staged;
    size_t bytes = pictures_at(crossing) + (size_t)rows * crossing->picture_bytes;
    if (device->type->enter)
        device->type->enter(device);
    YK_TRY(yki_stages_send(&crossing->stages, block, bytes, copies, &staged));
    const yki_pictures_args args = arguments(crossing, staged, rows);
    YK_TRY(device->type->pictures(device, &args));
    return yki_stages_taken(&crossing->stages);
}

/* See crossing.h. */
#include "data/loader/crossing.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/device.h"
#include "model/model_hooks.h"

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

static size_t block_bytes(const yki_crossing *crossing)
{
    return yki_align(pictures_at(crossing) + crossing->rows * crossing->picture_bytes,
                     YKI_ALIGNMENT);
}

size_t yki_crossing_bytes(const yki_crossing *crossing)
{
    return (size_t)crossing->lane_count * block_bytes(crossing);
}

/* A sample's place in its block. */
typedef struct place {
    yki_picture_draw *draw;
    yki_picture_box *boxes;
    uint8_t *pixels;
} place;

static place place_of(const yki_crossing *crossing, void *block, int64_t row)
{
    char *draws = (char *)block + DRAWS, *boxes = (char *)block + boxes_at(crossing);
    return (place){.draw = (yki_picture_draw *)(void *)draws + row,
                   .boxes = (void *)(boxes + (size_t)row * boxes_bytes(crossing)),
                   .pixels = (uint8_t *)block + pictures_at(crossing) +
                             (size_t)row * crossing->picture_bytes};
}

static bool keeps(const yki_crossing *crossing)
{
    return crossing->lanes[0].kept != NULL;
}

/* ---- pictures that the devices keep ---------------------------------------------------------- */

enum { CHUNK = 4 << 20 /* bytes that are copied at once, if a picture is not larger */ };

typedef struct keeping {
    yki_crossing *crossing;
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

/* To every device, which copy side by side. */
static yk_status copy_chunk(const keeping *k, size_t at, size_t bytes)
{
    const yki_crossing *crossing = k->crossing;
    for (int i = 0; i < crossing->lane_count; i++) {
        const yki_lane *lane = &crossing->lanes[i];
        YK_TRY(yki_device_copy(lane->device, (char *)lane->kept + at, k->pinned, bytes,
                               YKI_TO_DEVICE, lane->copies));
    }
    for (int i = 0; i < crossing->lane_count; i++)
        YK_TRY(yki_stream_wait(crossing->lanes[i].device, crossing->lanes[i].copies));
    return YK_OK;
}

static yk_status copy_pictures(keeping *k, int64_t samples)
{
    int64_t most = (int64_t)(k->capacity / k->picture);
    for (int64_t first = 0; first < samples; first += most) {
        int64_t count = samples - first < most ? samples - first : most;
        YK_TRY(read_pictures(k, first, count, k->pinned));
        YK_TRY(copy_chunk(k, (size_t)first * k->picture, (size_t)count * k->picture));
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
    const yki_crossing *crossing = k->crossing;
    void *pinned;
    YK_TRY(yki_worker_open(&k->reading, dataset));
    YK_TRY(reserve_others(k, dataset));
    YK_TRY(yki_device_alloc_pinned(crossing->lanes[0].device, k->capacity, &pinned));
    k->pinned = pinned;
    for (int i = 0; i < crossing->lane_count; i++)
        YK_TRY(yki_device_alloc(crossing->lanes[i].device, crossing->kept_bytes,
                                &crossing->lanes[i].kept));
    return copy_pictures(k, yk_dataset_size(dataset));
}

static void drop_pictures(const yki_crossing *crossing)
{
    for (int i = 0; i < crossing->lane_count; i++) {
        yki_lane *lane = &crossing->lanes[i];
        yki_device_free(lane->device, lane->kept, crossing->kept_bytes);
        lane->kept = NULL;
    }
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
    for (int i = 0; i < crossing->lane_count; i++) /* which may still read what is freed */
        if (yki_stream_wait(crossing->lanes[i].device, crossing->lanes[i].copies) != YK_OK)
            kept = false;
    yki_device_free_pinned(crossing->lanes[0].device, k.pinned, k.capacity);
    yki_worker_close(&k.reading);
    if (!kept)
        drop_pictures(crossing);
    return kept;
}

/* ---- life ------------------------------------------------------------------------------------ */

static yk_status create_lanes(yki_crossing *crossing, yki_device *const *devices, int count)
{
    crossing->lanes = yki_calloc((size_t)count, sizeof *crossing->lanes);
    crossing->tensors = yki_calloc((size_t)count, sizeof *crossing->tensors);
    if (!crossing->lanes || !crossing->tensors)
        return yki_error_memory((size_t)count * sizeof *crossing->lanes, "a loader");
    crossing->parts.tensors = crossing->tensors;
    for (; crossing->lane_count < count; crossing->lane_count++) {
        yki_lane *lane = &crossing->lanes[crossing->lane_count];
        lane->device = devices[crossing->lane_count];
        YK_TRY(yki_stream_create(lane->device, &lane->copies));
    }
    return YK_OK;
}

yk_status yki_crossing_plan(yki_crossing *crossing, yki_device *const *devices, int count,
                            const yki_pipeline *pipeline, const yk_dataset *dataset, int field,
                            size_t keep)
{
    *crossing = (yki_crossing){.pipeline = pipeline};
    yki_deferral *deferral = &crossing->deferral;
    size_t samples = (size_t)yk_dataset_size(dataset);
    if (count == 0)
        return YK_OK;
    YK_TRY(create_lanes(crossing, devices, count));
    yki_pipeline_defer(deferral, pipeline, true);
    bool fits = !__builtin_mul_overflow(samples, bytes_of(deferral), &crossing->kept_bytes) &&
                crossing->kept_bytes <= keep && samples > 0;
    if (deferral->whole && fits && keep_all(crossing, dataset, field))
        return YK_OK;
    yki_pipeline_defer(deferral, pipeline, false);
    crossing->picture_bytes = bytes_of(deferral);
    return YK_OK;
}

/* What a device reads of every batch. */
static yk_status create_constant(yki_device *device, void **memory, size_t bytes,
                                 const void *values)
{
    YK_TRY(yki_device_alloc(device, bytes, memory));
    const yk_tensor tensor = {
        .data = *memory, .dtype = YK_U8, .ndim = 1, .dims = {(int64_t)bytes}, .device = device};
    return bytes > 0 ? yk_tensor_write(&tensor, values) : YK_OK;
}

static yk_status create_lane(const yki_crossing *crossing, yki_lane *lane)
{
    const yki_byte_tables *tables = &crossing->pipeline->tables;
    const void *numbers =
        crossing->pipeline->dtype == YK_F64 ? (const void *)tables->f64 : tables->f32;
    YK_TRY(yki_stages_create(&lane->stages, lane->device, block_bytes(crossing)));
    YK_TRY(yki_device_alloc(lane->device, crossing->batch_bytes, &lane->batch));
    YK_TRY(create_constant(lane->device, &lane->numbers, numbers_bytes(crossing), numbers));
    return create_constant(lane->device, &lane->erasings, erasings_bytes(crossing),
                           crossing->pipeline->erasings);
}

yk_status yki_crossing_create(yki_crossing *crossing, size_t samples, bool mixes)
{
    const yki_pipeline *pipeline = crossing->pipeline;
    size_t part = (size_t)yki_share_of((int64_t)samples, crossing->lane_count);
    crossing->rows = part + mixes;
    crossing->mixes = mixes;
    crossing->batch_bytes = part *
                            (size_t)(pipeline->dims[0] * pipeline->dims[1] * pipeline->dims[2]) *
                            yk_dtype_size(pipeline->dtype);
    for (int i = 0; i < crossing->lane_count; i++) {
        YK_TRY(create_lane(crossing, &crossing->lanes[i]));
        yk_tensor *tensor = &crossing->tensors[i];
        *tensor = (yk_tensor){.data = crossing->lanes[i].batch,
                              .dtype = pipeline->dtype,
                              .ndim = 4,
                              .device = crossing->lanes[i].device};
        memcpy(tensor->dims + 1, pipeline->dims, sizeof pipeline->dims);
    }
    return YK_OK;
}

static void destroy_lane(const yki_crossing *crossing, yki_lane *lane)
{
    yki_device *device = lane->device;
    yki_stream_wait(device, lane->copies);
    yki_stream_wait(device, yki_device_stream(device));
    yki_stages_destroy(&lane->stages);
    yki_stream_destroy(device, lane->copies);
    yki_device_free(device, lane->batch, crossing->batch_bytes);
    yki_device_free(device, lane->numbers, numbers_bytes(crossing));
    yki_device_free(device, lane->erasings, erasings_bytes(crossing));
    yki_device_free(device, lane->kept, crossing->kept_bytes);
}

void yki_crossing_destroy(yki_crossing *crossing)
{
    for (int i = 0; i < crossing->lane_count; i++)
        destroy_lane(crossing, &crossing->lanes[i]);
    free(crossing->lanes);
    free(crossing->tensors);
    *crossing = (yki_crossing){.lane_count = 0};
}

/* ---- the blocks of a batch ------------------------------------------------------------------- */

static void *block_of(const yki_crossing *crossing, void *blocks, int lane)
{
    return (char *)blocks + (size_t)lane * block_bytes(crossing);
}

/* Of the lane's part of so many samples; 0 if it has none. */
static int64_t rows_of(const yki_crossing *crossing, int64_t samples, int lane)
{
    int64_t most = yki_share_of(samples, crossing->lane_count), left = samples - lane * most;
    return left <= 0 ? 0 : left < most ? left : most;
}

yk_status yki_crossing_write(const yki_crossing *crossing, void *blocks, int64_t samples,
                             int64_t row, yki_pipeline_memory *memory, yki_decoder *decoder,
                             const yk_field_buffer *picture, yki_pipeline_draw draw)
{
    int64_t most = yki_share_of(samples, crossing->lane_count);
    place to = place_of(crossing, block_of(crossing, blocks, (int)(row / most)), row % most);
    YK_TRY(yki_deferral_run(&crossing->deferral, crossing->pipeline, memory, decoder, picture, draw,
                            keeps(crossing) ? NULL : to.pixels, to.draw, to.boxes));
    to.draw->source = keeps(crossing) ? draw.index : row % most;
    return YK_OK;
}

/* A part ends with the sample before its first, which that is mixed with. */
static void append_before(const yki_crossing *crossing, void *blocks, int64_t samples, int lane)
{
    int64_t most = yki_share_of(samples, crossing->lane_count),
            end = rows_of(crossing, samples, lane);
    int64_t before = (lane > 0 ? lane * most : samples) - 1;
    place to = place_of(crossing, block_of(crossing, blocks, lane), end);
    place from =
        place_of(crossing, block_of(crossing, blocks, (int)(before / most)), before % most);
    *to.draw = *from.draw;
    memcpy(to.boxes, from.boxes, boxes_bytes(crossing));
    memcpy(to.pixels, from.pixels, crossing->picture_bytes);
    if (!keeps(crossing))
        to.draw->source = end;
}

void yki_crossing_mix(const yki_crossing *crossing, void *blocks, int64_t samples,
                      const yki_picture_mix *mix)
{
    for (int i = 0; i < crossing->lane_count && rows_of(crossing, samples, i) > 0; i++) {
        *(yki_picture_mix *)block_of(crossing, blocks, i) = *mix;
        if (crossing->mixes)
            append_before(crossing, blocks, samples, i);
    }
}

static yki_pictures_args arguments(const yki_crossing *crossing, const yki_lane *lane,
                                   const void *staged, int64_t rows)
{
    const yki_pipeline *pipeline = crossing->pipeline;
    const yki_deferral *deferral = &crossing->deferral;
    const char *block = staged;
    yki_pictures_args args = {.pictures = lane->kept ? lane->kept : block + pictures_at(crossing),
                              .draws = (const void *)(block + DRAWS),
                              .mix = crossing->mixes ? staged : NULL,
                              .numbers = lane->numbers,
                              .erasings = lane->erasings,
                              .boxes = (const void *)(block + boxes_at(crossing)),
                              .out = lane->batch,
                              .stream = yki_device_stream(lane->device),
                              .count = lane->kept
                                           ? (int64_t)(crossing->kept_bytes / bytes_of(deferral))
                                           : rows + crossing->mixes,
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

static yk_status send_block(const yki_crossing *crossing, yki_lane *lane, const void *block,
                            int64_t rows)
{
    yki_device *device = lane->device;
    void *staged;
    size_t pictures = (size_t)rows + crossing->mixes;
    size_t bytes = pictures_at(crossing) + pictures * crossing->picture_bytes;
    if (device->type->enter)
        device->type->enter(device);
    YK_TRY(yki_stages_send(&lane->stages, block, bytes, lane->copies, &staged));
    const yki_pictures_args args = arguments(crossing, lane, staged, rows);
    YK_TRY(device->type->pictures(device, &args));
    return yki_stages_taken(&lane->stages);
}

yk_status yki_crossing_send(yki_crossing *crossing, const void *blocks, int64_t samples)
{
    const char *block = blocks;
    crossing->parts.count = 0;
    for (int i = 0; i < crossing->lane_count; i++, block += block_bytes(crossing)) {
        int64_t rows = rows_of(crossing, samples, i);
        if (rows == 0)
            break;
        crossing->tensors[i].dims[0] = rows;
        crossing->parts.count++;
        YK_TRY(send_block(crossing, &crossing->lanes[i], block, rows));
    }
    return YK_OK;
}

yk_status yki_crossing_wait(yki_crossing *crossing)
{
    for (int i = 0; i < crossing->parts.count; i++)
        YK_TRY(yki_stages_wait(&crossing->lanes[i].stages));
    return YK_OK;
}

void yki_crossing_place(const yki_crossing *crossing, yk_tensor *tensor)
{
    bool divided = crossing->lane_count > 1;
    tensor->data = divided ? NULL : crossing->lanes[0].batch;
    tensor->device = crossing->lanes[0].device;
    tensor->parts = divided ? &crossing->parts : NULL;
}

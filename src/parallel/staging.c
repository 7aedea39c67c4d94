/* See staging.h. */
#include "parallel/staging.h"

#include "comm/queue.h"

/* ---- making ---------------------------------------------------------------------------------- */

static bool is_direct(const yki_staging *staging)
{
    return yki_device_is_host(staging->device);
}

static bool is_alone(const yki_staging *staging)
{
    return !is_direct(staging) && yk_group_size(staging->group) == 1;
}

bool yki_staging_is_in_streams(const yki_staging *staging)
{
    return staging->plane || is_alone(staging);
}

/* The group's block and what copies to and from it need. */
static yk_status open_staged(yki_staging *staging)
{
    yki_device *device = staging->device;
    void *host;
    YK_TRY(yk_group_alloc(staging->group, staging->bytes, &host));
    staging->host = host;
    if (is_direct(staging))
        return YK_OK;
    YK_TRY(yki_stream_create(device, &staging->copies));
    return yki_event_create(device, &staging->returned);
}

static yk_status open_staging(yki_staging *staging)
{
    YK_TRY(yki_plane_open(&staging->plane, staging->group, staging->device));
    if (!yki_staging_is_in_streams(staging))
        YK_TRY(open_staged(staging));
    staging->memory = staging->host;
    if (is_direct(staging))
        return YK_OK;
    return staging->plane ? yki_plane_alloc(staging->plane, staging->bytes, &staging->memory)
                          : yki_device_alloc(staging->device, staging->bytes, &staging->memory);
}

yk_status yki_staging_create(yki_staging *staging, yk_group *group, yki_device *device,
                             size_t bytes)
{
    *staging = (yki_staging){.group = group, .device = device, .bytes = bytes};
    yk_status status = open_staging(staging);
    if (status != YK_OK)
        yki_staging_destroy(staging);
    return status;
}

void yki_staging_destroy(yki_staging *staging)
{
    yki_device *device = staging->device;
    if (!device)
        return;
    yki_stream_wait(device, yki_device_stream(device));
    yki_stream_destroy(device, staging->copies);
    yki_event_destroy(device, staging->returned);
    if (staging->plane)
        yki_plane_free(staging->plane, staging->memory, staging->bytes);
    else if (!is_direct(staging))
        yki_device_free(device, staging->memory, staging->bytes);
    yk_group_free(staging->group, staging->host);
    yki_plane_close(staging->plane);
    *staging = (yki_staging){0};
}

yk_status yki_staging_open_host(yki_staging *staging)
{
    return staging->host || staging->bytes == 0 ? YK_OK : open_staged(staging);
}

void *yki_staging_host(const yki_staging *staging, const void *address)
{
    return staging->host + ((const char *)address - (const char *)staging->memory);
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Copies bytes to the block that the ranks exchange, which the device no longer reads. */
static yk_status fetch(yki_staging *staging, size_t offset, size_t bytes)
{
    yki_device *device = staging->device;
    yki_stream *stream = yki_device_stream(device);
    if (is_direct(staging))
        return YK_OK;
    YK_TRY(yki_event_wait(device, staging->returned));
    YK_TRY(yki_device_copy(device, staging->host + offset, (char *)staging->memory + offset, bytes,
                           YKI_TO_HOST, stream));
    return bytes ? yki_stream_wait(device, stream) : YK_OK;
}

static yk_status give_back(yki_staging *staging, size_t offset, size_t bytes)
{
    yki_device *device = staging->device;
    yki_stream *stream = yki_device_stream(device);
    if (is_direct(staging))
        return YK_OK;
    YK_TRY(yki_device_copy(device, (char *)staging->memory + offset, staging->host + offset, bytes,
                           YKI_TO_DEVICE, stream));
    return yki_event_mark(device, staging->returned, stream);
}

/* A collective of bytes in the plane, in order with the compute stream. */
static yk_status run_in_plane(yki_staging *staging, yk_operation operation, int root,
                              const void *in, size_t count)
{
    yk_descriptor what = {
        .operation = (uint8_t)operation, .dtype = YK_U8, .root = root, .count = count};
    return yki_plane_run(staging->plane, &what, in, staging->memory,
                         yki_device_stream(staging->device));
}

yk_status yki_staging_broadcast(yki_staging *staging, int root)
{
    if (is_alone(staging))
        return YK_OK;
    if (staging->plane)
        return run_in_plane(staging, YK_OPERATION_BROADCAST, root, staging->memory, staging->bytes);
    bool sends = yk_group_rank(staging->group) == root;
    YK_TRY(fetch(staging, 0, sends ? staging->bytes : 0));
    YK_TRY(yk_broadcast(staging->group, staging->host, staging->bytes, YK_U8, root, NULL));
    return sends ? YK_OK : give_back(staging, 0, staging->bytes);
}

yk_status yki_staging_all_gather(yki_staging *staging)
{
    size_t share = staging->bytes / (size_t)yk_group_size(staging->group);
    size_t own = share * (size_t)yk_group_rank(staging->group), after = own + share;
    if (is_alone(staging))
        return YK_OK;
    if (staging->plane)
        return run_in_plane(staging, YK_OPERATION_ALL_GATHER, 0, (char *)staging->memory + own,
                            share);
    YK_TRY(fetch(staging, own, share));
    YK_TRY(yk_all_gather(staging->group, staging->host, staging->host + own, share, YK_U8, NULL));
    YK_TRY(give_back(staging, 0, own));
    return give_back(staging, after, staging->bytes - after);
}

/* ---- parts ----------------------------------------------------------------------------------- */

yk_status yki_staged_part_create(yki_staged_part *part, yki_staging *staging, const void *address,
                                 size_t elements, yk_dtype dtype)
{
    *part = (yki_staged_part){.staging = staging,
                              .offset = (size_t)((const char *)address - (char *)staging->memory),
                              .elements = elements,
                              .dtype = dtype,
                              .stream = yki_device_stream(staging->device)};
    YK_TRY(yki_event_create(staging->device, &part->ready));
    return yki_event_create(staging->device, &part->landed);
}

void yki_staged_part_destroy(yki_staged_part *part)
{
    if (!part->staging)
        return;
    yki_event_destroy(part->staging->device, part->ready);
    yki_event_destroy(part->staging->device, part->landed);
    *part = (yki_staged_part){0};
}

static yk_status sum_part(void *context)
{
    const yki_staged_part *part = context;
    return yk_all_reduce(part->staging->group, part->staging->host + part->offset, part->elements,
                         part->dtype, YK_REDUCE_SUM, NULL);
}

/* On the group's thread. Until it has marked `landed`, no other thread uses the part's events. */
static yk_status exchange_part(void *context)
{
    yki_staged_part *part = context;
    yki_staging *staging = part->staging;
    yki_device *device = staging->device;
    char *memory = (char *)staging->memory + part->offset, *host = staging->host + part->offset;
    size_t bytes = part->elements * yk_dtype_size(part->dtype);
    YK_TRY(yki_event_follow(device, part->ready, staging->copies));
    YK_TRY(yki_device_copy(device, host, memory, bytes, YKI_TO_HOST, staging->copies));
    YK_TRY(yki_event_mark(device, part->landed, staging->copies));
    YK_TRY(yki_event_wait(device, part->landed));
    YK_TRY(part->exchange(part->context));
    YK_TRY(yki_device_copy(device, memory, host, bytes, YKI_TO_DEVICE, staging->copies));
    return yki_event_mark(device, part->landed, staging->copies);
}

static yk_status launch_part(yki_staged_part *part, yk_status (*exchange)(void *context),
                             void *context, yk_work **work)
{
    yki_device *device = part->staging->device;
    part->exchange = exchange;
    part->context = context;
    YK_TRY(yki_event_mark(device, part->ready, part->stream));
    return yki_group_run(part->staging->group, exchange_part, part, work);
}

static yk_status sum_in_plane(yki_staged_part *part, bool agreed)
{
    yki_staging *staging = part->staging;
    yki_device *device = staging->device;
    yk_descriptor what = {.operation = YK_OPERATION_ALL_REDUCE,
                          .dtype = (uint8_t)part->dtype,
                          .reduce = YK_REDUCE_SUM,
                          .count = part->elements};
    void *data = (char *)staging->memory + part->offset;
    if (is_alone(staging))
        return YK_OK;
    YK_TRY(yki_event_mark(device, part->ready, part->stream));
    return (agreed ? yki_plane_enter : yki_plane_start)(staging->plane, &what, data, data,
                                                        part->ready, part->landed);
}

yk_status yki_staged_all_reduce_agreed(yki_staged_part *part)
{
    return sum_in_plane(part, true);
}

yk_status yki_staged_all_reduce(yki_staged_part *part, yk_work **work)
{
    yki_staging *staging = part->staging;
    *work = NULL;
    if (yki_staging_is_in_streams(staging))
        return sum_in_plane(part, false);
    if (!is_direct(staging))
        return launch_part(part, sum_part, part, work);
    return yk_all_reduce(staging->group, staging->host + part->offset, part->elements, part->dtype,
                         YK_REDUCE_SUM, work);
}

yk_status yki_staged_run(yki_staged_part *part, yk_status (*exchange)(void *context), void *context,
                         yk_work **work)
{
    if (!is_direct(part->staging))
        return launch_part(part, exchange, context, work);
    return yki_group_run(part->staging->group, exchange, context, work);
}

yk_status yki_staged_part_land(yki_staged_part *part)
{
    return yki_event_follow(part->staging->device, part->landed, part->stream);
}

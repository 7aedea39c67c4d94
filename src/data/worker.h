/*
 * One worker of a data set: its own state, and the buffers that a sample is read into. Loaders have
 * one for each of their threads, a yk_reader has one.
 */
#ifndef YKI_WORKER_H
#define YKI_WORKER_H

#include "data/dataset.h"
#include "image/decode.h"

/* Memory that grows to the largest size that it was asked for. All zeros is an empty one. */
typedef struct yki_room {
    uint8_t *memory;
    size_t bytes;
} yki_room;

/* At least that many bytes, whose content is undefined; NULL when out of memory. */
void *yki_room_reserve(yki_room *room, size_t bytes);
void yki_room_free(yki_room *room);

typedef struct yki_worker {
    const yk_dataset *dataset; /* kept alive by whoever has the worker */
    void *state;               /* from open_worker */
    bool open;
    yk_field_buffer *buffers; /* (field_count) */
    yki_room *rooms;          /* (field_count) */
    yki_decoder *decoder;     /* if a field holds encoded pictures, else NULL */
} yki_worker;

/* Into a worker of zeros; close it on failure, too. */
yk_status yki_worker_open(yki_worker *worker, const yk_dataset *dataset);
void yki_worker_close(yki_worker *worker);
/*
 * Reads a sample, whose index must be valid. Before it, the caller points the buffers of tensors to
 * their places; after it, those of pictures hold one. Errors name the sample.
 */
yk_status yki_worker_read(yki_worker *worker, int64_t index);

/* Adds the sample's number and name to the error line; returns status. */
yk_status yki_name_sample(const yk_dataset *dataset, int64_t index, yk_status status);

/* Bytes of a tensor field, or of a picture of fixed size. */
size_t yki_field_bytes(const yk_field *field);

#endif

/* See protobuf.h. */
#include "io/protobuf.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"

typedef enum wire_type { WIRE_VARINT, WIRE_64, WIRE_BYTES, WIRE_32 = 5 } wire_type;
enum { MAX_VARINT = 10 };

void yki_protobuf_clear(yki_protobuf *message)
{
    message->size = 0;
    message->failed = false;
}

void yki_protobuf_fini(yki_protobuf *message)
{
    free(message->data);
    *message = (yki_protobuf){.size = 0};
}

/* Makes room for so many more bytes. */
static bool reserve(yki_protobuf *message, size_t bytes)
{
    message->failed = message->failed ||
                      !yki_reserve(&message->data, message->size + bytes, &message->capacity, 1);
    return !message->failed;
}

static void append(yki_protobuf *message, const void *bytes, size_t size)
{
    if (size == 0 || !reserve(message, size))
        return;
    memcpy(message->data + message->size, bytes, size);
    message->size += size;
}

/* Seven bits a byte, the low ones first; returns their number. */
static size_t encode_varint(uint8_t bytes[MAX_VARINT], uint64_t value)
{
    size_t size = 0;
    for (; value >= 0x80; value >>= 7)
        bytes[size++] = (uint8_t)(value | 0x80);
    bytes[size++] = (uint8_t)value;
    return size;
}

static void append_varint(yki_protobuf *message, uint64_t value)
{
    uint8_t bytes[MAX_VARINT];
    append(message, bytes, encode_varint(bytes, value));
}

static void append_key(yki_protobuf *message, int field, wire_type type)
{
    append_varint(message, (uint64_t)field << 3 | (uint64_t)type);
}

void yki_protobuf_int(yki_protobuf *message, int field, int64_t value)
{
    append_key(message, field, WIRE_VARINT);
    append_varint(message, (uint64_t)value);
}

/* Numbers are little-endian, as the machines that yoke runs on. */
void yki_protobuf_double(yki_protobuf *message, int field, double value)
{
    append_key(message, field, WIRE_64);
    append(message, &value, sizeof value);
}

void yki_protobuf_float(yki_protobuf *message, int field, float value)
{
    append_key(message, field, WIRE_32);
    append(message, &value, sizeof value);
}

void yki_protobuf_add(yki_protobuf *message, const yki_protobuf *fields)
{
    append(message, fields->data, fields->size);
    message->failed |= fields->failed;
}

void yki_protobuf_head(yki_protobuf *message, int field, size_t size)
{
    append_key(message, field, WIRE_BYTES);
    append_varint(message, size);
}

void yki_protobuf_bytes(yki_protobuf *message, int field, const void *bytes, size_t size)
{
    yki_protobuf_head(message, field, size);
    append(message, bytes, size);
}

void yki_protobuf_text(yki_protobuf *message, int field, const char *text)
{
    if (yki_utf8_is_valid(text, strlen(text))) {
        yki_protobuf_bytes(message, field, text, strlen(text));
        return;
    }
    char *shown = yki_utf8_shown(text);
    message->failed |= !shown;
    if (shown)
        yki_protobuf_bytes(message, field, shown, strlen(shown));
    free(shown);
}

void yki_protobuf_doubles(yki_protobuf *message, int field, const double *values, size_t count)
{
    yki_protobuf_bytes(message, field, values, count * sizeof *values);
}

size_t yki_protobuf_begin(yki_protobuf *message, int field)
{
    append_key(message, field, WIRE_BYTES);
    return message->size;
}

/* The length goes before the fields, which move to make room for it. */
void yki_protobuf_end(yki_protobuf *message, size_t begin)
{
    uint8_t length[MAX_VARINT];
    if (message->failed)
        return;
    size_t inner = message->size - begin, bytes = encode_varint(length, inner);
    if (!reserve(message, bytes))
        return;
    memmove(message->data + begin + bytes, message->data + begin, inner);
    memcpy(message->data + begin, length, bytes);
    message->size += bytes;
}

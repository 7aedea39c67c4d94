/*
 * Writing protocol buffers: https://protobuf.dev/programming-guides/encoding. A message is built in
 * one growing buffer, which is kept from message to message, so that writing the same kind of
 * message again allocates nothing. When memory runs out, `failed` is set and further calls do
 * nothing.
 */
#ifndef YKI_PROTOBUF_H
#define YKI_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct yki_protobuf {
    uint8_t *data;
    size_t size, capacity;
    bool failed;
} yki_protobuf;

/* Starts an empty message in the same memory. */
void yki_protobuf_clear(yki_protobuf *message);
void yki_protobuf_fini(yki_protobuf *message);

/* One field each. Proto3 leaves out zeros; these write what they are given. */
void yki_protobuf_int(yki_protobuf *message, int field, int64_t value);
void yki_protobuf_double(yki_protobuf *message, int field, double value);
void yki_protobuf_float(yki_protobuf *message, int field, float value);
void yki_protobuf_bytes(yki_protobuf *message, int field, const void *bytes, size_t size);
/* Bytes that are not UTF-8, which readers refuse, are written as \xHH. */
void yki_protobuf_text(yki_protobuf *message, int field, const char *text);
void yki_protobuf_doubles(yki_protobuf *message, int field, const double *values, size_t count);

/* The fields of another message, after those that are there. */
void yki_protobuf_add(yki_protobuf *message, const yki_protobuf *fields);
/* What comes before so many bytes, which the caller writes elsewhere. */
void yki_protobuf_head(yki_protobuf *message, int field, size_t size);

/* A message within the message: its fields are those written between begin and end, which takes
 * what begin returned. */
size_t yki_protobuf_begin(yki_protobuf *message, int field);
void yki_protobuf_end(yki_protobuf *message, size_t begin);

#endif

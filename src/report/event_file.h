/*
 * TensorBoard's event file: a sequence of records, each a protocol buffer with its length before it
 * and a checksum (CRC-32C) of each. Records are appended with one write, so that a reader that
 * follows the file finds at most an incomplete last record, which it waits for.
 */
#ifndef YKI_EVENT_FILE_H
#define YKI_EVENT_FILE_H

#include "base/error.h"
#include "io/protobuf.h"

/* Bytes of a record before and after the protocol buffer. */
enum { YKI_RECORD_HEAD = 12, YKI_RECORD_TAIL = 4 };

/* Writes both for the bytes of the event between them. */
void yki_event_frame(uint8_t head[YKI_RECORD_HEAD], uint8_t tail[YKI_RECORD_TAIL],
                     const yki_protobuf *event);

/* Creates a file in the folder with the name that TensorBoard looks for; *path is to be freed. On
 * failure *fd is -1 and *path NULL. */
yk_status yki_event_file_create(int *fd, char **path, const char *folder);
/* Appends the event as a record. */
yk_status yki_event_file_append(int fd, const char *path, const yki_protobuf *event);

#endif

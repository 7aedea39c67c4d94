/* See event_file.h. The format is that of tensorboard/summary/writer/record_writer.py. */
#define _GNU_SOURCE
#include "report/event_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/folder.h"

/* ---- checksums ------------------------------------------------------------------------------- */

static const uint32_t CASTAGNOLI = 0x82f63b78; /* bits reversed */
static uint32_t crc_of_byte[256];

static void fill_table(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? CASTAGNOLI : 0);
        crc_of_byte[byte] = crc;
    }
}

static uint32_t crc32c(const uint8_t *bytes, size_t size)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill_table);
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < size; i++)
        crc = crc >> 8 ^ crc_of_byte[(crc ^ bytes[i]) & 255];
    return ~crc;
}

/* A checksum of bytes that contain checksums is weak, so those in the file are masked. */
static void put_checksum(uint8_t out[4], const uint8_t *bytes, size_t size)
{
    uint32_t crc = crc32c(bytes, size), masked = (crc >> 15 | crc << 17) + 0xa282ead8;
    memcpy(out, &masked, sizeof masked);
}

void yki_event_frame(uint8_t head[YKI_RECORD_HEAD], uint8_t tail[YKI_RECORD_TAIL],
                     const yki_protobuf *event)
{
    uint64_t size = event->size;
    memcpy(head, &size, sizeof size);
    put_checksum(head + sizeof size, head, sizeof size);
    put_checksum(tail, event->data, event->size);
}

/* ---- the file -------------------------------------------------------------------------------- */

yk_status yki_event_file_create(int *fd, char **path, const char *folder)
{
    char host[65] = "localhost";
    *fd = -1;
    *path = NULL;
    YK_TRY(yki_make_folders(folder));
    gethostname(host, sizeof host - 1);
    for (int number = 0; *fd < 0; number++) {
        if (asprintf(path, "%s/events.out.tfevents.%010lld.%s.%ld.%d", folder,
                     (long long)time(NULL), host, (long)getpid(), number) < 0) {
            *path = NULL;
            return yki_error_memory(strlen(folder), "the name of an event file");
        }
        *fd = open(*path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
        if (*fd >= 0)
            break;
        yk_status status = errno == EEXIST ? YK_OK
                                           : yki_error(YK_ERROR_IO, "%s: cannot create: %s", *path,
                                                       strerror(errno));
        free(*path);
        *path = NULL;
        YK_TRY(status);
    }
    return YK_OK;
}

yk_status yki_event_file_append(int fd, const char *path, const yki_protobuf *event)
{
    uint8_t head[YKI_RECORD_HEAD], tail[YKI_RECORD_TAIL];
    if (event->failed)
        return yki_error_memory(event->size, "an event of TensorBoard");
    yki_event_frame(head, tail, event);
    const struct iovec parts[] = {
        {head, sizeof head}, {event->data, event->size}, {tail, sizeof tail}};
    ssize_t all = (ssize_t)(sizeof head + event->size + sizeof tail);
    errno = ENOSPC; /* for a short write */
    if (writev(fd, parts, 3) == all)
        return YK_OK;
    return yki_error(YK_ERROR_IO, "%s: cannot write: %s", path, strerror(errno));
}

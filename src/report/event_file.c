/* See event_file.h. The format is that of tensorboard/summary/writer/record_writer.py. */
#define _GNU_SOURCE
#include "report/event_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/folder.h"
#include "io/atomic_file.h"

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

static const char PREFIX[] = "events.out.tfevents.";

/* The time for a new file's name: TensorBoard reads the files of a folder in the order of their
 * names, so it is later than those of the others, also where the clock has been set back. */
static long long time_of_name(const char *folder)
{
    long long time_s = (long long)time(NULL);
    DIR *files = opendir(folder);
    for (const struct dirent *file; files && (file = readdir(files));) {
        bool is_event_file = strncmp(file->d_name, PREFIX, sizeof PREFIX - 1) == 0;
        long long other =
            is_event_file ? strtoll(file->d_name + sizeof PREFIX - 1, NULL, 10) : LLONG_MAX;
        if (other >= time_s && other < LLONG_MAX)
            time_s = other + 1;
    }
    if (files)
        closedir(files);
    return time_s;
}

yk_status yki_event_file_create(int *fd, char **path, const char *folder)
{
    char host[65] = "localhost";
    *fd = -1;
    *path = NULL;
    YK_TRY(yki_make_folders(folder));
    gethostname(host, sizeof host - 1);
    while (*fd < 0) {
        if (asprintf(path, "%s/%s%010lld.%s.%ld.0", folder, PREFIX, time_of_name(folder), host,
                     (long)getpid()) < 0) {
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
    ssize_t written = writev(fd, parts, 3);
    if (written == all)
        return YK_OK;
    if (written < 0)
        return yki_error(YK_ERROR_IO, "%s: cannot write: %s", path, strerror(errno));
    for (int i = 0; i < 3; i++) { /* what is left says why it was short */
        size_t done = (size_t)written < parts[i].iov_len ? (size_t)written : parts[i].iov_len;
        YK_TRY(yki_write_all(fd, path, (const char *)parts[i].iov_base + done,
                             parts[i].iov_len - done));
        written -= (ssize_t)done;
    }
    return YK_OK;
}

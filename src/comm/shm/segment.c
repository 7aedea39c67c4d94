/*
 * Segments: memory that the processes of one machine share.
 *
 * A segment is a memfd. It has no name, so nothing remains however its processes end, and it does
 * not depend on the size of /dev/shm. Peers receive its descriptor (mailbox.c). With
 * YOKE_SHM_DIR=DIR the memory comes from a tmpfs of the user's choice instead, through an unnamed
 * file (O_TMPFILE).
 *
 * All pages are allocated at once with fallocate: a page that a full tmpfs cannot provide later
 * would raise SIGBUS, whereas here a shortage is an error with the bytes needed and free. For a
 * memfd, the OOM killer may be the only limit, so the memory that the machine and the control
 * groups have left is checked first.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/held_signal.h"
#include "comm/shm/shm.h"

static const char *directory(void)
{
    const char *dir = getenv("YOKE_SHM_DIR");
    return dir && *dir ? dir : NULL;
}

/* ---- how much there is ----------------------------------------------------------------------- */

/* The number after `name` in a file of lines "NAME NUMBER", or 0. */
static uint64_t number_of(const char *path, const char *name)
{
    char line[128];
    unsigned long long number = 0;
    size_t length = strlen(name);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, name, length) == 0) {
            number = strtoull(line + length, NULL, 10);
            break;
        }
    if (file)
        fclose(file);
    return number;
}

/* What a file consists of; UINT64_MAX if there is none, or for "max". */
static uint64_t read_number(const char *path)
{
    unsigned long long number = UINT64_MAX;
    FILE *file = fopen(path, "re");
    if (!file)
        return UINT64_MAX;
    if (fscanf(file, "%llu", &number) != 1)
        number = UINT64_MAX;
    fclose(file);
    return number;
}

/* Lowers *least to what a control group has left. Pages of files count as used, but give way. */
static void take_group(const char *folder, void *least)
{
    char path[1100];
    snprintf(path, sizeof path, "%s/memory.max", folder);
    uint64_t limit = read_number(path);
    if (limit == UINT64_MAX)
        return;
    snprintf(path, sizeof path, "%s/memory.current", folder);
    uint64_t used = read_number(path);
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    uint64_t pages = number_of(path, "active_file ") + number_of(path, "inactive_file ");
    used = used > pages ? used - pages : 0;
    uint64_t left = limit > used ? limit - used : 0;
    if (left < *(uint64_t *)least)
        *(uint64_t *)least = left;
}

static uint64_t available_memory(void)
{
    uint64_t kilobytes = number_of("/proc/meminfo", "MemAvailable:");
    uint64_t least = kilobytes ? kilobytes << 10 : UINT64_MAX;
    yki_cgroup_each(take_group, &least);
    return least;
}

uint64_t yki_shm_free_bytes(void)
{
    struct statvfs info;
    uint64_t memory = available_memory(), disk = UINT64_MAX;
    if (directory() && statvfs(directory(), &info) == 0)
        disk = (uint64_t)info.f_bavail * info.f_frsize;
    return disk < memory ? disk : memory;
}

/* ---- making and finding ---------------------------------------------------------------------- */

static int open_nameless(void)
{
    return directory() ? open(directory(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)
                       : memfd_create("yoke", MFD_CLOEXEC);
}

static yk_status map_segment(shm_segment *segment, size_t bytes)
{
    segment->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, segment->fd, 0);
    if (segment->memory == MAP_FAILED) {
        segment->memory = NULL;
        return yki_error(YK_ERROR_OUT_OF_MEMORY, "cannot map %zu bytes of shared memory: %s", bytes,
                         strerror(errno));
    }
    segment->bytes = bytes;
    madvise(segment->memory, bytes, MADV_HUGEPAGE); /* best effort */
    return YK_OK;
}

yk_status yki_shm_no_room(size_t bytes, int ranks, uint64_t free_bytes, int error)
{
    char each[48] = "";
    struct rlimit limit;
    if (error == EFBIG && getrlimit(RLIMIT_FSIZE, &limit) == 0)
        return yki_error(
            YK_ERROR_OUT_OF_MEMORY,
            "shared memory: %zu bytes needed, but a file may have %llu (ulimit -f): %s", bytes,
            (unsigned long long)limit.rlim_cur, strerror(error));
    if (ranks > 1)
        snprintf(each, sizeof each, " by each of %d ranks", ranks);
    return yki_error(YK_ERROR_OUT_OF_MEMORY, "shared memory%s%s: %zu bytes needed%s, %llu free%s%s",
                     directory() ? " in " : "", directory() ? directory() : "", bytes, each,
                     (unsigned long long)free_bytes, error ? ": " : "",
                     error ? strerror(error) : "");
}

/*
 * 0, or an error number: EFBIG beyond RLIMIT_FSIZE, for which the kernel would end the process.
 * Other signals wait: after each, the kernel gives all pages back, and with those of a profiler
 * would never come to the end.
 */
static int allocate_pages(int fd, size_t bytes)
{
    yki_held_signal too_large;
    sigset_t all, before;
    int error;
    sigfillset(&all);
    yki_signal_hold(&too_large, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    while ((error = posix_fallocate(fd, 0, (off_t)bytes)) == EINTR)
        ;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    yki_signal_drop(&too_large, SIGXFSZ);
    return error;
}

yk_status yki_shm_create(shm_segment *segment, size_t bytes)
{
    *segment = (shm_segment){.fd = -1};
    uint64_t free_bytes = yki_shm_free_bytes();
    if (bytes > free_bytes)
        return yki_shm_no_room(bytes, 1, free_bytes, 0);
    segment->fd = open_nameless();
    if (segment->fd < 0)
        return yki_error(YK_ERROR_IO, "cannot create shared memory%s%s: %s",
                         directory() ? " in " : "", directory() ? directory() : "",
                         strerror(errno));
    int error = allocate_pages(segment->fd, bytes);
    yk_status status =
        error ? yki_shm_no_room(bytes, 1, free_bytes, error) : map_segment(segment, bytes);
    if (status != YK_OK)
        yki_shm_detach(segment);
    return status;
}

yk_status yki_shm_attach(shm_segment *segment, int job_rank, int fd, size_t bytes)
{
    struct stat info;
    *segment = (shm_segment){.fd = fd};
    if (fd < 0)
        return yki_error(YK_ERROR_PEER_FAILED, "rank %d has not sent its shared memory", job_rank);
    yk_status status;
    if (fstat(fd, &info) || (size_t)info.st_size != bytes)
        status = yki_error(YK_ERROR_FORMAT, "the shared memory of rank %d does not have %zu bytes",
                           job_rank, bytes);
    else
        status = map_segment(segment, bytes);
    if (status != YK_OK)
        yki_shm_detach(segment);
    return status;
}

void yki_shm_close_file(shm_segment *segment)
{
    if (segment->fd >= 0)
        close(segment->fd);
    segment->fd = -1;
}

void yki_shm_detach(shm_segment *segment)
{
    if (segment->memory)
        munmap(segment->memory, segment->bytes);
    yki_shm_close_file(segment);
    *segment = (shm_segment){.fd = -1};
}

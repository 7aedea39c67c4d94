/*
 * See memory_bound.h. Ranks map each other's memory through /proc: the group's own memory
 * (yk_group_alloc) shows a program its own part only. A pid means the same process only to ranks of
 * one pid namespace, so they compare theirs first.
 */
#define _GNU_SOURCE
#include "bench/memory_bound.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/errors.h"
#include "common/median.h"

enum { MEASURES = 9 };
enum { STAGING = 64 << 10 }; /* floats: 256 KiB, as much as the shm backend stages at a time */
static const size_t staging_bytes = STAGING * sizeof(float);

/* Loads and stores as wide as the processor has. */
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&                \
    !defined(__SANITIZE_THREAD__)
#define WIDE __attribute__((optimize("O3"), target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define WIDE
#endif

WIDE static void add_to_itself(float *data, size_t count)
{
    for (size_t i = 0; i < count; i++)
        data[i] += data[i];
}

WIDE static void add(float *restrict data, const float *restrict more, size_t count)
{
    for (size_t i = 0; i < count; i++)
        data[i] += more[i];
}

/* ---- setting up ------------------------------------------------------------------------------ */

/* Where the other ranks find this rank's memory. */
typedef struct owner {
    int64_t pid, fd, inode; /* of the file */
} owner;

static int64_t inode_of(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? (int64_t)info.st_ino : -1;
}

bool cli_memory_bound_exists(yk_group *world, bool is_private)
{
    int64_t mine = is_private ? inode_of("/proc/self/ns/pid") : 0, least = mine, most = mine;
    return yk_group_size(world) > 1 && yk_group_local_size(world) == yk_group_size(world) &&
           cli_ok(yk_all_reduce(world, &least, 1, YK_I64, YK_REDUCE_MIN, NULL)) &&
           cli_ok(yk_all_reduce(world, &most, 1, YK_I64, YK_REDUCE_MAX, NULL)) && least == most;
}

/* The pid might be that of another process after all. */
static bool map_staging(float **staging, const owner *of)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)of->pid, (long long)of->fd);
    int fd = inode_of(path) == of->inode ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *memory =
        fd < 0 ? MAP_FAILED : mmap(NULL, staging_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        cli_complain("%s: cannot map the memory of another rank: %s", path, strerror(errno));
    else
        *staging = memory;
    if (fd >= 0)
        close(fd);
    return memory != MAP_FAILED;
}

static bool map_all(cli_memory_bound *bound, yk_group *world, const owner *mine)
{
    owner *all = calloc((size_t)bound->world, sizeof *all);
    if (!all)
        return cli_complain("no memory for a table of ranks");
    bool fine = cli_ok(yk_all_gather(world, all, mine, sizeof *mine / 8, YK_I64, NULL));
    for (int r = 0; fine && r < bound->world; r++)
        fine = map_staging(&bound->staging[r], &all[r]);
    free(all);
    return fine && cli_ok(yk_barrier(world)); /* all have opened it before its owner closes it */
}

static bool share_staging(cli_memory_bound *bound, yk_group *world)
{
    char path[64];
    owner mine = {.pid = getpid(), .fd = memfd_create("yoke-bench", MFD_CLOEXEC)};
    snprintf(path, sizeof path, "/proc/self/fd/%lld", (long long)mine.fd);
    mine.inode = inode_of(path);
    if (mine.fd < 0 || ftruncate((int)mine.fd, (off_t)staging_bytes)) {
        cli_complain("cannot create shared memory: %s", strerror(errno));
        if (mine.fd >= 0)
            close((int)mine.fd);
        return false;
    }
    bool fine = map_all(bound, world, &mine);
    close((int)mine.fd);
    return fine;
}

bool cli_memory_bound_init(cli_memory_bound *bound, yk_group *world, size_t most_bytes,
                           bool is_private)
{
    *bound = (cli_memory_bound){
        .is_private = is_private, .rank = yk_group_rank(world), .world = yk_group_size(world)};
    bound->data = malloc(most_bytes);
    bound->staging = is_private ? calloc((size_t)bound->world, sizeof *bound->staging) : NULL;
    if (!bound->data || (is_private && !bound->staging))
        return cli_complain("no memory for a buffer of %zu bytes", most_bytes);
    memset(bound->data, 0, most_bytes); /* its pages are there before it is timed */
    return !is_private || share_staging(bound, world);
}

void cli_memory_bound_fini(cli_memory_bound *bound)
{
    for (int r = 0; bound->staging && r < bound->world; r++)
        if (bound->staging[r])
            munmap(bound->staging[r], staging_bytes);
    free(bound->staging);
    free(bound->data);
    *bound = (cli_memory_bound){.data = NULL};
}

/* ---- a pass ---------------------------------------------------------------------------------- */

/* Copies all but this rank's slice. */
static void copy_others(float *to, const float *from, size_t begin, size_t end, size_t count)
{
    memcpy(to, from, begin * sizeof *to);
    memcpy(to + end, from + end, (count - end) * sizeof *to);
}

static void pass_private(const cli_memory_bound *bound, float *data, size_t count)
{
    size_t world = (size_t)bound->world, rank = (size_t)bound->rank;
    size_t begin = count * rank / world, end = count * (rank + 1) / world;
    float *mine = bound->staging[rank];
    if (world == 2) {
        memcpy(mine, data, count * sizeof *data);
        add(data, bound->staging[1 - rank], count);
        return;
    }
    copy_others(mine, data, begin, end, count);
    for (size_t r = 0; r < world; r++)
        if (r != rank)
            add(data + begin, bound->staging[r] + begin, end - begin);
    for (size_t r = 0; r < world; r++)
        if (r != rank)
            memcpy(bound->staging[r] + begin, data + begin, (end - begin) * sizeof *data);
    copy_others(data, mine, begin, end, count);
}

void cli_memory_bound_pass(const cli_memory_bound *bound, size_t bytes)
{
    size_t count = bytes / sizeof(float);
    if (!bound->is_private)
        add_to_itself(bound->data, count);
    for (size_t start = 0; bound->is_private && start < count; start += STAGING)
        pass_private(bound, bound->data + start, count - start < STAGING ? count - start : STAGING);
}

/* ---- measuring ------------------------------------------------------------------------------- */

static bool time_passes(double *seconds, const cli_memory_bound *bound, yk_group *world,
                        size_t bytes)
{
    double times[MEASURES];
    for (int i = 0; i < MEASURES; i++) {
        if (!cli_ok(yk_barrier(world)))
            return false;
        double start = cli_clock_s();
        cli_memory_bound_pass(bound, bytes);
        if (!cli_ok(yk_barrier(world)))
            return false;
        times[i] = cli_clock_s() - start;
    }
    *seconds = cli_take_median(times, MEASURES);
    return true;
}

bool cli_memory_bound_measure(double *seconds, yk_group *world, size_t bytes)
{
    cli_memory_bound bound;
    *seconds = 0;
    if (!cli_memory_bound_exists(world, false))
        return true;
    bool fine = cli_memory_bound_init(&bound, world, bytes, false) &&
                time_passes(seconds, &bound, world, bytes);
    cli_memory_bound_fini(&bound);
    return fine;
}

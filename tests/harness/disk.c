/* See disk.h. */
#define _GNU_SOURCE
#include "disk.h"

#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static char disk[80], filler[96];

/* One line of a file below /proc/self. */
static bool tell_kernel(const char *path, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static bool tell_kernel(const char *path, const char *format, ...)
{
    va_list arguments;
    FILE *file = fopen(path, "we");
    if (!file)
        return false;
    va_start(arguments, format);
    vfprintf(file, format, arguments);
    va_end(arguments);
    return fclose(file) == 0;
}

/* An ordinary user becomes root of a new user namespace, who may mount. */
static bool enter_namespace(void)
{
    int user = (int)getuid(), group = (int)getgid();
    if (user == 0)
        return unshare(CLONE_NEWNS) == 0;
    return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
           tell_kernel("/proc/self/setgroups", "deny") &&
           tell_kernel("/proc/self/uid_map", "0 %d 1", user) &&
           tell_kernel("/proc/self/gid_map", "0 %d 1", group);
}

/* Runs before the harness removes the folder that the disk is in. */
static void unmount(void)
{
    umount2(disk, MNT_DETACH);
}

const char *yk_test_disk(size_t bytes)
{
    char options[32];
    snprintf(options, sizeof options, "size=%zu", bytes);
    snprintf(disk, sizeof disk, "%s/disk", yk_test_directory());
    snprintf(filler, sizeof filler, "%s/filler", disk);
    assert_int_equal(mkdir(disk, 0755), 0);
    if (!enter_namespace() || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("tmpfs", disk, "tmpfs", 0, options))
        skip_because("a disk cannot be mounted here: %s", strerror(errno));
    atexit(unmount);
    return disk;
}

static uint64_t free_bytes(void)
{
    struct statvfs info;
    assert_int_equal(statvfs(disk, &info), 0);
    return (uint64_t)info.f_bfree * info.f_frsize;
}

void yk_test_fill_disk_except(size_t room)
{
    enum { PIECE = 1 << 20 };
    int fd = open(filler, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    /* Others may write meanwhile, and what does not fit is not taken at all. */
    for (uint64_t left; (left = free_bytes()) > room;) {
        struct stat info;
        off_t more = left - room < PIECE ? (off_t)(left - room) : PIECE;
        assert_int_equal(fstat(fd, &info), 0);
        if (fallocate(fd, 0, info.st_size, more) != 0)
            assert_int_equal(errno, ENOSPC);
    }
    close(fd);
}

void yk_test_fill_disk(void)
{
    yk_test_fill_disk_except(0);
}

void yk_test_free_disk(void)
{
    assert_int_equal(unlink(filler), 0);
}

void yk_test_limit_files(const char *path, size_t room)
{
    struct rlimit limit;
    struct stat file = {.st_size = 0};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    if (path)
        assert_int_equal(stat(path, &file), 0);
    limit.rlim_cur = path ? (rlim_t)file.st_size + room : limit.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* See atomic_file.h. */
#define _GNU_SOURCE
#include "io/atomic_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/text.h"

static yk_status system_error(const char *path, const char *doing)
{
    int error = errno;
    return yki_error(error == ENOENT ? YK_ERROR_NOT_FOUND : YK_ERROR_IO, "%s: cannot %s: %s", path,
                     doing, strerror(error));
}

/* Whether path still names the file that fd has open: another writer may have renamed it. */
static bool names_same_file(const char *path, int fd)
{
    struct stat by_path, by_fd;
    return lstat(path, &by_path) == 0 && fstat(fd, &by_fd) == 0 && by_path.st_ino == by_fd.st_ino &&
           by_path.st_dev == by_fd.st_dev;
}

static yk_status busy_error(const char *path)
{
    return yki_error(YK_ERROR_IO, "%s: another process is writing it", path);
}

/*
 * Deletes the temporary file that a writer left when it died, never its contents: the name may be
 * a hard link to somebody's file. Anything but a file is not ours, a symbolic link least of all.
 */
static yk_status delete_leftover(const char *path)
{
    struct stat info;
    if (lstat(path, &info) != 0)
        return errno == ENOENT ? YK_OK : system_error(path, "look at it");
    if (!S_ISREG(info.st_mode))
        return yki_error(YK_ERROR_IO,
                         "%s: is in the way of the temporary file and is not a file itself: "
                         "remove it",
                         path);
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? YK_OK : system_error(path, "open it");
    yk_status status = YK_OK;
    if (!yki_lock(fd))
        status = busy_error(path);
    else if (names_same_file(path, fd) && unlink(path) != 0)
        status = system_error(path, "delete it");
    close(fd);
    return status;
}

/* A new file of this name, locked. O_EXCL: whatever is there is neither opened nor followed. */
static yk_status create_locked(const char *path, int *fd)
{
    for (;;) {
        *fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (*fd < 0 && errno != EEXIST)
            return system_error(path, "create it");
        if (*fd < 0) {
            YK_TRY(delete_leftover(path));
            continue;
        }
        bool locked = yki_lock(*fd);
        if (locked && names_same_file(path, *fd))
            return YK_OK;
        close(*fd);
        *fd = -1;
        if (!locked)
            return busy_error(path);
    }
}

static void reset_atomic_file(yki_atomic_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    free(file->path);
    free(file->temporary);
    *file = (yki_atomic_file){.fd = -1};
}

yk_status yki_check_replaceable(const char *path)
{
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return yki_error(YK_ERROR_IO, "%s: is not a file", path);
    return YK_OK;
}

char *yki_temporary_path(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t length = strlen(name), room = NAME_MAX - strlen(YKI_TEMPORARY_SUFFIX);
    size_t kept = (size_t)(name - path) + (length < room ? length : room);
    char *temporary = malloc(kept + sizeof YKI_TEMPORARY_SUFFIX);
    if (temporary) {
        memcpy(temporary, path, kept);
        memcpy(temporary + kept, YKI_TEMPORARY_SUFFIX, sizeof YKI_TEMPORARY_SUFFIX);
    }
    return temporary;
}

yk_status yki_atomic_open(yki_atomic_file *file, const char *path)
{
    *file = (yki_atomic_file){.fd = -1};
    if (!*path)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "the file to write has an empty name");
    YK_TRY(yki_check_replaceable(path));
    file->path = strdup(path);
    file->temporary = yki_temporary_path(path);
    if (!file->path || !file->temporary) {
        reset_atomic_file(file);
        return yki_error_memory(2 * strlen(path), "a file's name");
    }
    yk_status status = create_locked(file->temporary, &file->fd);
    if (status != YK_OK)
        reset_atomic_file(file);
    return status;
}

bool yki_sync_file(int fd)
{
    int result;
    do
        result = fsync(fd);
    while (result != 0 && errno == EINTR);
    return result == 0;
}

/* A rename is safe from a power cut once its folder is synced. */
static yk_status sync_folder_of(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;
    if (length >= sizeof folder)
        return yki_path_too_long(path);
    memcpy(folder, path, length);
    folder[length] = '\0';
    const char *name = length ? folder : slash ? "/" : ".";
    int fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return system_error(name, "open it");
    /* Some file systems cannot sync a folder and say EINVAL: they do not need to. */
    yk_status status = YK_OK;
    if (!yki_sync_file(fd) && errno != EINVAL)
        status = system_error(name, "sync it");
    close(fd);
    return status;
}

/* The contents and times of one file to another, which is new. */
static bool copy_file(int from, int to)
{
    struct stat info;
    bool fine = fstat(from, &info) == 0;
    for (off_t at = 0; fine && at < info.st_size;) {
        ssize_t sent = sendfile(to, from, &at, (size_t)(info.st_size - at));
        fine = sent > 0 || (sent < 0 && errno == EINTR);
    }
    return fine && futimens(to, (struct timespec[2]){info.st_atim, info.st_mtim}) == 0;
}

/* Somebody has removed the temporary file, perhaps with its folder. */
static yk_status write_again(yki_atomic_file *file)
{
    int fd;
    YK_TRY(yki_make_folders_above(file->temporary));
    YK_TRY(create_locked(file->temporary, &fd));
    yk_status status = YK_OK;
    if (!copy_file(file->fd, fd) || !yki_sync_file(fd))
        status = system_error(file->temporary, "write it again");
    close(file->fd);
    file->fd = fd;
    YKI_WARN("%s: was removed while it was being written, and is written again", file->temporary);
    return status;
}

/* Gives the temporary file its name. */
static yk_status put_in_place(yki_atomic_file *file)
{
    int renamed = rename(file->temporary, file->path);
    if (renamed != 0 && errno == ENOENT && !names_same_file(file->temporary, file->fd)) {
        YK_TRY(write_again(file));
        renamed = rename(file->temporary, file->path);
    }
    return renamed == 0 ? YK_OK : system_error(file->path, "replace it");
}

yk_status yki_atomic_commit(yki_atomic_file *file)
{
    yk_status status = YK_OK;
    if (!yki_sync_file(file->fd))
        status = system_error(file->temporary, "sync it");
    else
        status = put_in_place(file);
    if (status == YK_OK)
        status = sync_folder_of(file->path);
    if (status == YK_OK)
        reset_atomic_file(file);
    else
        yki_atomic_abandon(file);
    return status;
}

void yki_atomic_abandon(yki_atomic_file *file)
{
    if (file->fd >= 0 && names_same_file(file->temporary, file->fd))
        unlink(file->temporary);
    reset_atomic_file(file);
}

yk_status yki_write_all(int fd, const char *path, const void *data, size_t size)
{
    const char *at = data;
    while (size > 0) {
        ssize_t written = write(fd, at, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return system_error(path, "write");
        at += written;
        size -= (size_t)written;
    }
    return YK_OK;
}

static bool is_left_over(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0 && yki_ends_in(name, YKI_TEMPORARY_SUFFIX);
}

void yki_atomic_clean(const char *folder, const char *prefix)
{
    DIR *entries = opendir(folder);
    if (!entries)
        return;
    for (const struct dirent *entry; (entry = readdir(entries));) {
        if (!is_left_over(entry->d_name, prefix))
            continue;
        int fd = openat(dirfd(entries), entry->d_name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
            continue;
        if (yki_lock(fd))
            unlinkat(dirfd(entries), entry->d_name, 0);
        close(fd);
    }
    closedir(entries);
}

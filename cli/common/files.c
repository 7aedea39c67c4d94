/* See files.h. */
#define _GNU_SOURCE
#include "common/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/errors.h"

/* ---- links ----------------------------------------------------------------------------------- */

/* The path that a link at `path` leads to, in its place; false: errno says why not. */
static bool follow_one(char path[PATH_MAX])
{
    char text[PATH_MAX], folder[PATH_MAX];
    ssize_t length = readlink(path, text, sizeof text);
    if (length < 0)
        return false;
    const char *slash = strrchr(path, '/');
    bool whole = text[0] == '/';
    snprintf(folder, sizeof folder, "%.*s", whole || !slash ? 0 : (int)(slash - path) + 1, path);
    errno = ENAMETOOLONG;
    return length < PATH_MAX &&
           snprintf(path, PATH_MAX, "%s%.*s", folder, (int)length, text) < PATH_MAX;
}

/* The kernel has the last word on links: it may forbid to follow one in a folder of everybody's,
 * and those in /proc name files by more than their text. */
static bool is_followed(const char *path, const char *target)
{
    struct stat by_path, by_target;
    if (stat(path, &by_path) != 0)
        return errno == ENOENT;
    errno = ENOENT;
    return stat(target, &by_target) == 0 && by_target.st_ino == by_path.st_ino &&
           by_target.st_dev == by_path.st_dev;
}

bool cli_follow_links(char target[PATH_MAX], const char *path)
{
    enum { MOST = 40 }; /* as the kernel follows */
    struct stat info;
    bool is_other = stat(path, &info) == 0 && !S_ISREG(info.st_mode);
    errno = ENAMETOOLONG;
    bool fine = snprintf(target, PATH_MAX, "%s", path) < PATH_MAX;
    if (fine && is_other)
        return true;
    for (int i = 0; fine && lstat(target, &info) == 0 && S_ISLNK(info.st_mode); i++) {
        errno = ELOOP;
        fine = i < MOST && follow_one(target);
    }
    return (fine && is_followed(path, target)) || cli_complain("%s: %s", path, strerror(errno));
}

/* ---- results --------------------------------------------------------------------------------- */

/* Creates a file in the folder of `target`; -1 on failure. Its name is short, so that it can be
 * created beside a file with the longest possible name, and is not in use. */
static int create_beside(char unfinished[PATH_MAX], const char *target)
{
    const char *slash = strrchr(target, '/');
    int fd, length = slash ? (int)(slash - target) + 1 : 0;
    for (int i = 0;; i++) {
        errno = ENAMETOOLONG;
        if (snprintf(unfinished, PATH_MAX, "%.*s.yoke-%d-%d.tmp", length, target, getpid(), i) >=
            PATH_MAX)
            return -1;
        fd = open(unfinished, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
}

bool cli_file_create(cli_file *file, const char *path)
{
    struct stat info;
    int fd;
    *file = (cli_file){.path = path};
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        fd = open(path, O_WRONLY | O_CLOEXEC);
    else if (!cli_follow_links(file->target, path))
        return false;
    else
        fd = create_beside(file->unfinished, file->target);
    if (fd >= 0 && (file->stream = fdopen(fd, "w")))
        return true;
    return cli_complain("%s: cannot create: %s", path, strerror(errno));
}

void cli_file_stdout(cli_file *file)
{
    *file = (cli_file){.stream = stdout, .path = "standard output"};
}

/* Why not everything was written, or 0. An earlier failure is asked for again. */
static int reason_of(FILE *file)
{
    if (fflush(file))
        return errno;
    if (!ferror(file))
        return 0;
    return write(fileno(file), "\n", 1) < 0 ? errno : EIO;
}

bool cli_file_close(cli_file *file)
{
    int reason = reason_of(file->stream);
    bool renames = file->unfinished[0] != '\0';
    if (file->stream != stdout && fclose(file->stream) && !reason)
        reason = errno;
    if (!reason && renames && rename(file->unfinished, file->target))
        reason = errno;
    if (reason && renames)
        unlink(file->unfinished);
    return !reason || cli_complain("%s: cannot write: %s", file->path, strerror(reason));
}

/* ---- folders --------------------------------------------------------------------------------- */

bool cli_folder_make(const char *path)
{
    char part[PATH_MAX];
    if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part) {
        errno = ENAMETOOLONG;
        return false;
    }
    for (char *slash = part; *slash && (slash = strchr(slash + 1, '/'));) {
        *slash = '\0';
        if (mkdir(part, 0777) && errno != EEXIST)
            return false;
        *slash = '/';
    }
    return mkdir(part, 0777) == 0 || errno == EEXIST;
}

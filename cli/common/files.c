/* See files.h. */
#define _GNU_SOURCE
#include "common/files.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/errors.h"

/* What a result is written to: a file beside it, which takes its place in the end. Devices and
 * pipes are written to as they are. */
static void name_unfinished(char unfinished[PATH_MAX], const char *path)
{
    struct stat info;
    bool replaces = stat(path, &info) != 0 || S_ISREG(info.st_mode);
    snprintf(unfinished, PATH_MAX, "%s%s", path, replaces ? ".tmp" : "");
}

FILE *cli_file_create(const char *path)
{
    char unfinished[PATH_MAX];
    name_unfinished(unfinished, path);
    FILE *file = fopen(unfinished, "we");
    if (!file)
        cli_complain("%s: cannot create: %s", path, strerror(errno));
    return file;
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

bool cli_file_close(FILE *file, const char *path)
{
    char unfinished[PATH_MAX];
    int reason = reason_of(file);
    if (file != stdout) {
        name_unfinished(unfinished, path);
        bool renames = strcmp(unfinished, path) != 0;
        if (fclose(file) && !reason)
            reason = errno;
        if (!reason && renames && rename(unfinished, path))
            reason = errno;
        if (reason && renames)
            unlink(unfinished);
    }
    return !reason || cli_complain("%s: cannot write: %s", path, strerror(reason));
}

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

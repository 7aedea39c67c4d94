/* See folder.h. */
#include "base/folder.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

bool yki_is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

yk_status yki_path_too_long(const char *path)
{
    return yki_error(YK_ERROR_INVALID_ARGUMENT, "%.80s...: the path is too long", path);
}

yk_status yki_join_path(char path[PATH_MAX], const char *folder, const char *name)
{
    return snprintf(path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX ? YK_OK
                                                                      : yki_path_too_long(folder);
}

yk_status yki_read_folder(const struct dirent **entry, DIR *folder, const char *path)
{
    do {
        errno = 0;
        *entry = readdir(folder);
    } while (*entry && (strcmp((*entry)->d_name, ".") == 0 || strcmp((*entry)->d_name, "..") == 0));
    if (!*entry && errno != 0)
        return yki_error(YK_ERROR_IO, "%s: cannot read the folder: %s", path, strerror(errno));
    return YK_OK;
}

/* ---- making them ----------------------------------------------------------------------------- */

/* An existing path is left to whoever opens a file in it: some parents exist but cannot be made. */
static yk_status make_one_folder(const char *path)
{
    if (mkdir(path, 0777) == 0 || errno == EEXIST || errno == EISDIR)
        return YK_OK;
    int error = errno;
    if (yki_is_folder(path))
        return YK_OK; /* on a read-only file system, say */
    return yki_error(YK_ERROR_IO, "%s: cannot create the folder: %s", path, strerror(error));
}

/* Every folder that the path names before one of its slashes. */
static yk_status make_prefixes(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        yk_status status = make_one_folder(path);
        *slash = '/';
        YK_TRY(status);
    }
    return YK_OK;
}

yk_status yki_make_folders(const char *path)
{
    char prefix[PATH_MAX];
    if (!*path)
        return YK_OK;
    if (snprintf(prefix, sizeof prefix, "%s/", path) >= (int)sizeof prefix)
        return yki_path_too_long(path);
    return make_prefixes(prefix);
}

yk_status yki_make_folders_above(const char *file)
{
    char prefix[PATH_MAX];
    if (!*file)
        return YK_OK;
    if (snprintf(prefix, sizeof prefix, "%s", file) >= (int)sizeof prefix)
        return yki_path_too_long(file);
    return make_prefixes(prefix);
}

bool yki_is_at(int fd, const char *path)
{
    struct stat there, open;
    return stat(path, &there) == 0 && fstat(fd, &open) == 0 && there.st_dev == open.st_dev &&
           there.st_ino == open.st_ino;
}

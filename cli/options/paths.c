/* See paths.h. */
#define _GNU_SOURCE
#include "options/paths.h"

#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/files.h"
#include "options/options.h"

bool cli_check_readable(const char *name, const char *option, const char *path)
{
    if (!path || access(path, R_OK) == 0)
        return true;
    cli_usage_error(name, "%s%s%s: %s", option, *option ? " " : "", path, strerror(errno));
    return false;
}

/* The folder is all up to the last slash; keeping the slash detects a path that is not one. */
static int access_folder_of(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    int length = snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1,
                          slash ? path : ".");
    if (length < PATH_MAX)
        return access(folder, W_OK | X_OK);
    errno = ENAMETOOLONG;
    return -1;
}

bool cli_check_writable(const char *name, const char *option, const char *path)
{
    char target[PATH_MAX];
    struct stat info;
    if (!path)
        return true;
    bool exists = stat(path, &info) == 0;
    if (!exists && errno == ENOENT) {
        if (!cli_follow_links(target, path))
            return false;
        errno = access_folder_of(target) ? errno : 0;
    }
    if (exists)
        errno = S_ISDIR(info.st_mode) ? EISDIR : access(path, W_OK) ? errno : 0;
    if (errno == 0)
        return true;
    cli_usage_error(name, "%s%s%s: cannot be written: %s", option, *option ? " " : "", path,
                    strerror(errno));
    return false;
}

/* Weights, and the files that keep a run. */
static bool is_training_file(const char *path)
{
    static const char *const names[] = {"*.pth", "*.pt", "*.safetensors", "metrics.jsonl",
                                        "manifest.json"};
    const char *slash = strrchr(path, '/');
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (fnmatch(names[i], slash ? slash + 1 : path, 0) == 0)
            return true;
    return false;
}

bool cli_check_result(const char *name, const char *option, const char *path)
{
    if (!path || !is_training_file(path))
        return true;
    cli_usage_error(name, "%s %s: only weights and records of training have such a name", option,
                    path);
    return false;
}

bool cli_check_writable_result(const char *name, const char *option, const char *path)
{
    return cli_check_result(name, option, path) && cli_check_writable(name, option, path);
}

bool cli_check_folder(const char *name, const char *option, const char *path)
{
    struct stat info;
    if (!path)
        return true;
    if (strlen(path) + 1 + NAME_MAX >= PATH_MAX) /* no room for the files' names */
        errno = ENAMETOOLONG;
    else if (stat(path, &info))
        errno = errno == ENAMETOOLONG ? errno : 0;
    else
        errno = !S_ISDIR(info.st_mode) ? ENOTDIR : access(path, W_OK | X_OK) ? errno : 0;
    if (errno == 0)
        return true;
    cli_usage_error(name, "%s %s: cannot create files there: %s", option, path, strerror(errno));
    return false;
}

/* Checks the files that options name before any work starts; writes files; and formats sizes. */
#define _GNU_SOURCE
#include "setup/setup.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
    struct stat info;
    if (!path)
        return true;
    if (stat(path, &info))
        errno = access_folder_of(path) ? errno : 0;
    else
        errno = S_ISDIR(info.st_mode) ? EISDIR : access(path, W_OK) ? errno : 0;
    if (errno == 0)
        return true;
    cli_usage_error(name, "%s%s%s: cannot be written: %s", option, *option ? " " : "", path,
                    strerror(errno));
    return false;
}

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

bool cli_check_folder(const char *name, const char *option, const char *path)
{
    struct stat info;
    if (!path || stat(path, &info))
        return true;
    errno = !S_ISDIR(info.st_mode) ? ENOTDIR : access(path, W_OK | X_OK) ? errno : 0;
    if (errno == 0)
        return true;
    cli_usage_error(name, "%s %s: cannot create files there: %s", option, path, strerror(errno));
    return false;
}

bool cli_weights_loaded(yk_status status, const char *path, const char *arch)
{
    char reason[2048];
    const char *found = NULL;
    int64_t classes;
    yk_tensor_file *file;
    if (status != YK_ERROR_MISMATCH)
        return cli_ok(status);
    snprintf(reason, sizeof reason, "%s", cli_reason());
    bool known = yk_tensor_file_open(&file, path) == YK_OK &&
                 yk_tensor_file_find_arch(file, &found, &classes) == YK_OK;
    bool told =
        !known ? cli_complain("%s", reason)
        : yk_arch_find(found) != yk_arch_find(arch)
            ? cli_complain("%s: holds weights of %s, not of %s: name it with --arch %s", path,
                           found, arch, found)
            : cli_complain("%s (its weights are for %lld classes)", reason, (long long)classes);
    yk_tensor_file_close(file);
    return told;
}

const char *cli_size_text(char text[CLI_SIZE_TEXT], double bytes)
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB"};
    size_t unit = 0;
    for (; bytes >= 999.5 && unit < 4; unit++)
        bytes /= 1000;
    snprintf(text, CLI_SIZE_TEXT, "%.*f %s", unit ? 1 : 0, bytes, units[unit]);
    return text;
}

bool cli_find_checkpoint(char *path, size_t size, const char *operand)
{
    struct stat info;
    if (stat(operand, &info) == 0 && S_ISDIR(info.st_mode))
        return cli_ok(yk_checkpoint_dir_latest(operand, path, size));
    snprintf(path, size, "%s", operand);
    return true;
}

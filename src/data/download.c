/*
 * Downloads CIFAR-10 into the user's cache, as CACHE/yoke/cifar-10-batches-py (or -bin). The
 * archive is written to a .part file, from which an interrupted download resumes. It is checked
 * against the known MD5, unpacked into a temporary folder, opened once as a data set, and renamed
 * into place, so the folder is either complete or not there. A lock keeps two processes from
 * downloading at once.
 *
 * YOKE_CIFAR10_URL names another source, YOKE_CIFAR10_MD5 the checksum that goes with it.
 */
#define _GNU_SOURCE
#include "data/download.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/log.h"
#include "base/options.h"
#include "io/hash.h"

#define OFFICIAL_URL "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
#define PYTHON_MD5   "c58f30108f718f92721af3b95e74349a"
#define BINARY_MD5   "c32a1d4ab5d03f1284b67883e8d87530"

enum { CACHE_BYTES = 3840, PATH_BYTES = 4096 };

static const char *const folder_names[] = {"cifar-10-batches-py", "cifar-10-batches-bin"};

/* ---- the cache ---------------------------------------------------------------------------------
 */

/* $XDG_CACHE_HOME/yoke or ~/.cache/yoke, created where it is missing. */
static yk_status cache_folder(char cache[CACHE_BYTES])
{
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    bool xdg = base && base[0] == '/';
    if (!xdg && (!home || !*home))
        return yki_error(YK_ERROR_NOT_FOUND,
                         "no cache folder: neither XDG_CACHE_HOME nor HOME is set");
    int length = snprintf(cache, CACHE_BYTES, "%s%s/yoke", xdg ? base : home, xdg ? "" : "/.cache");
    if (length >= CACHE_BYTES)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "the cache folder's path is too long");
    return yki_make_folders(cache);
}

static yk_status complete(const char *folder)
{
    for (int split = YK_SPLIT_TRAIN; split <= YK_SPLIT_TEST; split++) {
        yk_dataset *dataset;
        YK_TRY(yk_cifar10_open(&dataset, folder, (yk_split)split));
        yk_dataset_destroy(dataset);
    }
    return YK_OK;
}

/* Whether either version is in the cache and complete; writes its folder to path. */
static bool find_cached(const char *cache, char path[PATH_BYTES])
{
    for (int version = 0; version < 2; version++) {
        snprintf(path, PATH_BYTES, "%s/%s", cache, folder_names[version]);
        if (access(path, F_OK) == 0 && complete(path) == YK_OK)
            return true;
    }
    return false;
}

/* ---- download and unpack -----------------------------------------------------------------------
 */

static yk_status check_archive(const char *part)
{
    const char *wanted = getenv("YOKE_CIFAR10_MD5");
    char md5[YKI_MD5_TEXT] = "";
    YK_TRY(yki_md5_file(part, md5));
    bool fine = wanted && *wanted ? strcmp(md5, wanted) == 0
                                  : strcmp(md5, PYTHON_MD5) == 0 || strcmp(md5, BINARY_MD5) == 0;
    if (fine)
        return YK_OK;
    unlink(part); /* nothing can be resumed from it */
    return yki_error(YK_ERROR_FORMAT,
                     "the archive's MD5 is %s, expected %s: it was removed, try again", md5,
                     wanted && *wanted ? wanted : PYTHON_MD5);
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void)info, (void)type, (void)walk;
    return remove(path);
}

static void remove_folder(const char *path)
{
    nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static yk_status unpack(const char *cache, const char *part, char path[PATH_BYTES])
{
    char aside[PATH_BYTES];
    bool binary = false;
    snprintf(aside, sizeof aside, "%s/unpacking", cache);
    remove_folder(aside); /* what a killed process may have left */
    YK_TRY(yki_make_folders(aside));
    yk_status status = yki_unpack_cifar10(part, aside, &binary);
    if (status != YK_OK)
        goto discard;
    status = complete(aside);
    if (status != YK_OK)
        goto discard;
    snprintf(path, PATH_BYTES, "%s/%s", cache, folder_names[binary]);
    remove_folder(path); /* find_cached found it damaged */
    if (rename(aside, path) != 0) {
        status = yki_error(YK_ERROR_IO, "%s: %s", path, strerror(errno));
        goto discard;
    }
    unlink(part);
    return YK_OK;
discard:
    remove_folder(aside);
    return status;
}

/* Called with the lock held. */
static yk_status obtain(const char *cache, char path[PATH_BYTES],
                        const yk_download_options *options)
{
    if (find_cached(cache, path))
        return YK_OK;
    char part[PATH_BYTES];
    const char *url = getenv("YOKE_CIFAR10_URL");
    url = url && *url ? url : OFFICIAL_URL;
    snprintf(part, sizeof part, "%s/cifar-10.tar.gz.part", cache);
    yk_status status = yki_fetch(url, part, options);
    if (status != YK_OK)
        return yki_error_context(status,
                                 "cannot download CIFAR-10 (fetch %s elsewhere, unpack it and pass "
                                 "--data DIR, or train on --data synthetic)",
                                 OFFICIAL_URL);
    status = check_archive(part);
    return status == YK_OK ? unpack(cache, part, path) : status;
}

/* Waits while another process downloads; its lock is released however it ends. */
static yk_status lock_cache(const char *cache, int *fd)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/lock", cache);
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (*fd < 0)
        return yki_error(YK_ERROR_IO, "%s: %s", path, strerror(errno));
    if (flock(*fd, LOCK_EX | LOCK_NB) == 0)
        return YK_OK;
    if (errno == EWOULDBLOCK) {
        YKI_WARN("waiting for another process that is downloading CIFAR-10");
        while (flock(*fd, LOCK_EX) != 0 && errno == EINTR)
            ;
    }
    return YK_OK; /* a file system without locks: the rename at the end is still atomic */
}

yk_status yk_cifar10_find(char *path, size_t path_size)
{
    char cache[CACHE_BYTES], found[PATH_BYTES];
    YK_TRY(cache_folder(cache));
    if (!find_cached(cache, found))
        return yki_error(YK_ERROR_NOT_FOUND, "CIFAR-10 is not in the cache folder %s", cache);
    if ((size_t)snprintf(path, path_size, "%s", found) >= path_size)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s: longer than %zu bytes", found, path_size);
    return YK_OK;
}

yk_status yk_cifar10_download(char *path, size_t path_size, const yk_download_options *given)
{
    yk_download_options options;
    YKI_NOT_NULL(path);
    YK_TRY(YKI_READ_OPTIONS(&options, given, yk_download_options, YK_DOWNLOAD_OPTIONS_INIT));
    char cache[CACHE_BYTES], found[PATH_BYTES];
    YK_TRY(cache_folder(cache));
    yk_status status = YK_OK;
    if (!find_cached(cache, found)) {
        int fd = -1;
        YK_TRY(lock_cache(cache, &fd));
        status = obtain(cache, found, &options);
        close(fd);
    }
    if (status == YK_OK && (size_t)snprintf(path, path_size, "%s", found) >= path_size)
        status =
            yki_error(YK_ERROR_INVALID_ARGUMENT, "%s: longer than %zu bytes", found, path_size);
    return status;
}

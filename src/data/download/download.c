/*
 * Downloads data sets into the user's cache, as CACHE/yoke/FOLDER. Files arrive in the folder
 * NAME.part, where an interrupted download resumes. Each is checked against the known MD5; then
 * archives are unpacked and other files moved into NAME.part/complete, which is opened once as a
 * data set and renamed into place, so the folder is either complete or not there. A lock keeps two
 * processes from downloading at once.
 */
#define _GNU_SOURCE
#include "data/download/download.h"

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

enum { CACHE_BYTES = 3840, STAGE_BYTES = CACHE_BYTES + 64 };

/* One download: its data set, and where it happens. */
typedef struct job {
    const yki_source *source;
    const yk_download_options *options;
    const char *cache;
    char stage[STAGE_BYTES];         /* CACHE/NAME.part */
    char complete[STAGE_BYTES + 16]; /* CACHE/NAME.part/complete */
} job;

/* ---- the cache ------------------------------------------------------------------------------- */

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

static yk_status check_data(const yki_source *source, const char *folder)
{
    for (int split = YK_SPLIT_TRAIN; split <= YK_SPLIT_TEST; split++) {
        yk_dataset *dataset;
        YK_TRY(source->open(&dataset, folder, (yk_split)split));
        yk_dataset_destroy(dataset);
    }
    return YK_OK;
}

/* Whether a version of the data is in the cache and complete; writes its folder to path. */
static bool find_cached(const yki_source *source, const char *cache, char path[PATH_MAX])
{
    for (int version = 0; version < 2 && source->folders[version]; version++) {
        snprintf(path, PATH_MAX, "%s/%s", cache, source->folders[version]);
        if (access(path, F_OK) == 0 && check_data(source, path) == YK_OK)
            return true;
    }
    return false;
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

/* ---- files ----------------------------------------------------------------------------------- */

/* YOKE_MNIST_URL and the like; NULL where it is not set. */
static const char *setting(const yki_source *source, const char *what)
{
    char name[64];
    snprintf(name, sizeof name, "%s_%s", source->variable, what);
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* Element `index` of a list that commas separate. */
static bool is_element(const char *list, int index, const char *text)
{
    for (; index > 0 && list; index--)
        list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL;
    return list && strcspn(list, ",") == strlen(text) && strncmp(list, text, strlen(text)) == 0;
}

static yk_status check_md5(const job *j, int index, const char *path)
{
    const yki_source_file *file = &j->source->files[index];
    const char *wanted = setting(j->source, "MD5");
    char md5[YKI_MD5_TEXT] = "";
    YK_TRY(yki_md5_file(path, md5));
    bool fine =
        wanted ? is_element(wanted, index, md5)
               : strcmp(md5, file->md5[0]) == 0 || (file->md5[1] && strcmp(md5, file->md5[1]) == 0);
    if (fine)
        return YK_OK;
    return yki_error(YK_ERROR_FORMAT, "%s: its MD5 is %s, expected %s: it was removed, try again",
                     file->name, md5, wanted ? wanted : file->md5[0]);
}

/* Fetches a file from the first mirror that has it. */
static yk_status fetch_file(const job *j, int index, const char *path)
{
    const yki_source *source = j->source;
    const char *name = source->files[index].name, *given = setting(source, "URL");
    const char *mirrors[] = {given ? given : source->mirrors[0], given ? NULL : source->mirrors[1]};
    char url[PATH_MAX];
    yk_status status = YK_ERROR_NETWORK;
    for (int i = 0; i < 2 && mirrors[i] && status == YK_ERROR_NETWORK; i++) {
        size_t length = strlen(mirrors[i]);
        const char *slash = length && mirrors[i][length - 1] == '/' ? "" : "/";
        bool whole = given && source->archive; /* the archive itself was named */
        snprintf(url, sizeof url, "%s%s%s", mirrors[i], whole ? "" : slash, whole ? "" : name);
        status = yki_fetch(url, path, j->options);
    }
    if (status == YK_OK)
        return YK_OK;
    return yki_error_context(status,
                             "cannot download %s (fetch %s%s elsewhere%s and pass --data %s:DIR, "
                             "or train on --data synthetic)",
                             source->title, source->mirrors[0], name,
                             source->archive ? ", unpack it" : " and the files beside it",
                             source->name);
}

/* ---- data sets ------------------------------------------------------------------------------- */

static yk_status unpack(const job *j, const char *archive, int *version)
{
    remove_folder(j->complete); /* what a killed process may have left */
    YK_TRY(yki_make_folders(j->complete));
    return yki_unpack(j->source->archive, archive, j->complete, version);
}

/* Brings every file into the folder `complete`, where files of an earlier attempt may be. */
static yk_status bring_files(const job *j, int *version)
{
    char arriving[PATH_MAX], arrived[PATH_MAX];
    for (int i = 0; i < j->source->file_count; i++) {
        snprintf(arriving, sizeof arriving, "%s/%s", j->stage, j->source->files[i].name);
        snprintf(arrived, sizeof arrived, "%s/%s", j->complete, j->source->files[i].name);
        if (!j->source->archive && access(arrived, F_OK) == 0)
            continue;
        YK_TRY(fetch_file(j, i, arriving));
        YK_TRY(check_md5(j, i, arriving));
        if (j->source->archive)
            YK_TRY(unpack(j, arriving, version));
        else if (rename(arriving, arrived) != 0)
            return yki_error(YK_ERROR_IO, "%s: %s", arrived, strerror(errno));
    }
    return YK_OK;
}

/* Called with the lock held. */
static yk_status obtain(const yki_source *source, const char *cache, char path[PATH_MAX],
                        const yk_download_options *options)
{
    job j = {.source = source, .options = options, .cache = cache};
    int version = 0;
    if (find_cached(source, cache, path))
        return YK_OK;
    snprintf(j.stage, sizeof j.stage, "%s/%s.part", cache, source->name);
    snprintf(j.complete, sizeof j.complete, "%s/complete", j.stage);
    YK_TRY(yki_make_folders(j.complete));
    yk_status status = bring_files(&j, &version);
    if (status != YK_OK && status != YK_ERROR_FORMAT)
        return status; /* what has arrived is kept */
    if (status == YK_OK)
        status = check_data(source, j.complete);
    if (status == YK_OK) {
        snprintf(path, PATH_MAX, "%s/%s", cache, source->folders[version]);
        remove_folder(path); /* find_cached found it damaged */
        if (rename(j.complete, path) != 0)
            status = yki_error(YK_ERROR_IO, "%s: %s", path, strerror(errno));
    }
    remove_folder(j.stage);
    return status;
}

/* Waits while another process downloads; its lock is released however it ends. */
static yk_status lock_cache(const char *cache, int *fd)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/lock", cache);
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (*fd < 0)
        return yki_error(YK_ERROR_IO, "%s: %s", path, strerror(errno));
    if (flock(*fd, LOCK_EX | LOCK_NB) == 0)
        return YK_OK;
    if (errno == EWOULDBLOCK) {
        YKI_WARN("waiting for another process that is downloading data");
        while (flock(*fd, LOCK_EX) != 0 && errno == EINTR)
            ;
    }
    return YK_OK; /* a file system without locks: the rename at the end is still atomic */
}

/* ---- the interface --------------------------------------------------------------------------- */

static yk_status find_source(const yki_source **source, const char *name)
{
    for (int i = 0; (*source = yki_source_at(i)); i++)
        if (strcmp((*source)->name, name) == 0)
            return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "%s cannot be downloaded: expected cifar10, cifar100, mnist or fashion-mnist",
                     name);
}

static yk_status give_path(char *path, size_t path_size, const char *found)
{
    if ((size_t)snprintf(path, path_size, "%s", found) < path_size)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s: longer than %zu bytes", found, path_size);
}

yk_status yk_download_find(char *path, size_t path_size, const char *name)
{
    const yki_source *source;
    char cache[CACHE_BYTES], found[PATH_MAX];
    YKI_NOT_NULL(path);
    YKI_NOT_NULL(name);
    YK_TRY(find_source(&source, name));
    YK_TRY(cache_folder(cache));
    if (!find_cached(source, cache, found))
        return yki_error(YK_ERROR_NOT_FOUND, "%s is not in the cache folder %s", source->title,
                         cache);
    return give_path(path, path_size, found);
}

yk_status yk_download_data(char *path, size_t path_size, const char *name,
                           const yk_download_options *given)
{
    const yki_source *source;
    yk_download_options options;
    YKI_NOT_NULL(path);
    YKI_NOT_NULL(name);
    YK_TRY(YKI_READ_OPTIONS(&options, given, yk_download_options, YK_DOWNLOAD_OPTIONS_INIT));
    YK_TRY(find_source(&source, name));
    char cache[CACHE_BYTES], found[PATH_MAX];
    YK_TRY(cache_folder(cache));
    if (!find_cached(source, cache, found)) {
        int fd = -1;
        YK_TRY(lock_cache(cache, &fd));
        yk_status status = obtain(source, cache, found, &options);
        close(fd);
        if (status != YK_OK)
            return status;
    }
    return give_path(path, path_size, found);
}

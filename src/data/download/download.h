/*
 * The parts of yk_download_data: what can be downloaded, fetching a file, and unpacking an archive
 * safely.
 */
#ifndef YKI_DOWNLOAD_H
#define YKI_DOWNLOAD_H

#include <yoke/data.h>

#include "base/error.h"

enum { YKI_MAX_MEMBERS = 8 };

/* An archive, tar.gz, of one folder with known files. There are two versions: Python and binary. */
typedef struct yki_archive {
    const char *title; /* "CIFAR-10" */
    const char *folders[2];
    const char *members[2][YKI_MAX_MEMBERS + 1]; /* up to NULL */
    size_t most_bytes;                           /* of a member */
} yki_archive;

typedef struct yki_source_file {
    const char *name;
    const char *md5[2]; /* the last may be NULL */
} yki_source_file;

/* A data set that can be downloaded. */
typedef struct yki_source {
    const char *name, *title;   /* "mnist", "MNIST" */
    const char *variable;       /* "YOKE_MNIST", before _URL and _MD5 */
    const char *mirrors[2];     /* URLs that end in /; the last may be NULL */
    const yki_archive *archive; /* of what the only file is, or NULL: files are kept as they are */
    const char *folders[2];     /* in the cache, where it may be; the last may be NULL */
    const yki_source_file *files; /* (file_count) */
    int file_count;
    yk_status (*open)(yk_dataset **dataset, const char *path, yk_split split);
} yki_source;

extern const yki_archive yki_cifar10_archive, yki_cifar100_archive;

/* The index-th source, or NULL. */
const yki_source *yki_source_at(int index);

/*
 * Fetches url to path; a file that is already there is taken as the beginning of it. On failure
 * what has arrived is kept for the next attempt. options as read from the user.
 */
yk_status yki_fetch(const char *url, const char *path, const yk_download_options *options);
/*
 * Unpacks an archive into folder, which exists: the known files of either version (*version: 0 or
 * 1), each of bounded size, without the archive's folder. One that holds anything else is refused.
 */
yk_status yki_unpack(const yki_archive *known, const char *path, const char *folder, int *version);

#endif

/* The parts of yk_cifar10_download: fetching a file, and unpacking an archive safely. */
#ifndef YKI_DOWNLOAD_H
#define YKI_DOWNLOAD_H

#include <stdbool.h>

#include "base/error.h"

/*
 * Fetches url to path, going on where a file already there ends. Progress to stderr. On failure
 * what has come stays, for the next try.
 */
yk_status yki_fetch(const char *url, const char *path);
/*
 * Unpacks the CIFAR-10 archive into folder, which exists: the known files of either version, and
 * nothing else, each of bounded size, without its folder's name. Anything else in it is refused.
 */
yk_status yki_unpack_cifar10(const char *archive, const char *folder, bool *binary);

#endif

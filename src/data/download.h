/* The parts of yk_cifar10_download: fetching a file, and unpacking an archive safely. */
#ifndef YKI_DOWNLOAD_H
#define YKI_DOWNLOAD_H

#include <yoke/data.h>

#include "base/error.h"

/*
 * Fetches url to path; a file that is already there is taken as the beginning of it. On failure
 * what has arrived is kept for the next attempt. options as read from the user.
 */
yk_status yki_fetch(const char *url, const char *path, const yk_download_options *options);
/*
 * Unpacks the CIFAR-10 archive into folder, which exists: the known files of either version, each
 * of bounded size, without the archive's folder. An archive that holds anything else is refused.
 */
yk_status yki_unpack_cifar10(const char *archive, const char *folder, bool *binary);

#endif

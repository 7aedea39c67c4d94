/* Downloading CIFAR-10, with progress on stderr. */
#ifndef YOKE_CLI_DOWNLOAD_H
#define YOKE_CLI_DOWNLOAD_H

#include <yoke/data.h>

/* yk_cifar10_download with a progress display. */
yk_status cli_cifar10_download(char *path, size_t path_size);

#endif

/* Downloading data sets, with progress on stderr. */
#ifndef YOKE_CLI_DOWNLOAD_H
#define YOKE_CLI_DOWNLOAD_H

#include <yoke/data.h>

/* yk_download_data with a progress display. */
yk_status cli_download(char *path, size_t path_size, const char *name);

#endif

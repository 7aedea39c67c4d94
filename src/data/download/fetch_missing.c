/* See download.h: what takes the place of fetch.c and unpack.c in a build without downloads. */
#include "data/download/download.h"

bool yk_download_supported(void)
{
    return false;
}

static yk_status download_unsupported(void)
{
    return yki_error(YK_ERROR_UNSUPPORTED,
                     "this build cannot download: install libcurl and libarchive (Debian: "
                     "libcurl4-openssl-dev, libarchive-dev), then configure with "
                     "-DYOKE_DOWNLOAD=ON and build again");
}

yk_status yki_fetch(const char *url, const char *path, const yk_download_options *options)
{
    (void)url, (void)path, (void)options;
    return download_unsupported();
}

yk_status yki_unpack(const yki_archive *known, const char *path, const char *folder, int *version)
{
    (void)known, (void)path, (void)folder;
    *version = 0;
    return download_unsupported();
}

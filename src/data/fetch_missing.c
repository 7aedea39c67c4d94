/* See download.h: what takes the place of fetch.c and unpack.c in a build without downloads. */
#include "data/download.h"

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

yk_status yki_unpack_cifar10(const char *archive, const char *folder, bool *binary)
{
    (void)archive, (void)folder;
    *binary = false;
    return download_unsupported();
}

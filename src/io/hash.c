/* See hash.h. */
#define _GNU_SOURCE
#include "io/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/evp.h>

enum { BLOCK = 1 << 20 };

/* Feeds the file to the digest, block by block. */
static yk_status digest_file(EVP_MD_CTX *digest, int fd, const char *path, int64_t *bytes)
{
    unsigned char *block = malloc(BLOCK);
    if (!block)
        return yki_error_memory(BLOCK, "hashing a file");
    yk_status status = YK_OK;
    ssize_t got;
    *bytes = 0;
    while ((got = pread(fd, block, BLOCK, *bytes)) != 0) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            status = yki_error(YK_IO, "%s: cannot read it: %s", path, strerror(errno));
            break;
        }
        EVP_DigestUpdate(digest, block, (size_t)got);
        *bytes += got;
    }
    free(block);
    return status;
}

yk_status yki_sha256_fd(int fd, const char *path, char text[YKI_SHA256_TEXT], int64_t *bytes)
{
    EVP_MD_CTX *digest = EVP_MD_CTX_new();
    if (!digest || !EVP_DigestInit_ex(digest, EVP_sha256(), NULL)) {
        EVP_MD_CTX_free(digest);
        return yki_error(YK_INTERNAL, "%s: SHA-256 is not available", path);
    }
    yk_status status = digest_file(digest, fd, path, bytes);
    unsigned char value[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    if (status == YK_OK)
        EVP_DigestFinal_ex(digest, value, &length);
    EVP_MD_CTX_free(digest);
    for (unsigned i = 0; i < length; i++)
        snprintf(text + 2 * i, 3, "%02x", value[i]);
    return status;
}

yk_status yki_sha256_file(const char *path, char text[YKI_SHA256_TEXT], int64_t *bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return yki_error(errno == ENOENT ? YK_NOT_FOUND : YK_IO, "%s: cannot open it: %s", path,
                         strerror(errno));
    yk_status status = yki_sha256_fd(fd, path, text, bytes);
    close(fd);
    return status;
}

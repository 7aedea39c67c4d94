/* See hash.h. */
#define _GNU_SOURCE
#include "io/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "io/input_file.h"

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
            status = yki_error(YK_ERROR_IO, "%s: cannot read it: %s", path, strerror(errno));
            break;
        }
        EVP_DigestUpdate(digest, block, (size_t)got);
        *bytes += got;
    }
    free(block);
    return status;
}

static void write_digits(char *text, const unsigned char *value, unsigned length)
{
    for (unsigned i = 0; i < length; i++)
        snprintf(text + 2 * i, 3, "%02x", value[i]);
}

/* In hexadecimal. */
static yk_status hash_fd(const EVP_MD *algorithm, int fd, const char *path, char *text,
                         int64_t *bytes)
{
    EVP_MD_CTX *digest = EVP_MD_CTX_new();
    if (!digest || !EVP_DigestInit_ex(digest, algorithm, NULL)) {
        EVP_MD_CTX_free(digest);
        return yki_error(YK_ERROR_INTERNAL, "%s: its hash is not available", path);
    }
    unsigned char value[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    yk_status status = digest_file(digest, fd, path, bytes);
    if (status != YK_OK)
        goto out;
    EVP_DigestFinal_ex(digest, value, &length);
    write_digits(text, value, length);
out:
    EVP_MD_CTX_free(digest);
    return status;
}

static yk_status hash_file(const EVP_MD *algorithm, const char *path, char *text, int64_t *bytes)
{
    yki_input_file file;
    YK_TRY(yki_input_file_open(&file, path));
    yk_status status = hash_fd(algorithm, file.fd, path, text, bytes);
    yki_input_file_close(&file);
    return status;
}

yk_status yki_sha256_fd(int fd, const char *path, char text[YKI_SHA256_TEXT], int64_t *bytes)
{
    return hash_fd(EVP_sha256(), fd, path, text, bytes);
}

yk_status yki_sha256_file(const char *path, char text[YKI_SHA256_TEXT], int64_t *bytes)
{
    return hash_file(EVP_sha256(), path, text, bytes);
}

yk_status yki_sha256_memory(const void *data, size_t size, char text[YKI_SHA256_TEXT])
{
    unsigned char value[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    text[0] = '\0';
    if (!EVP_Digest(data, size, value, &length, EVP_sha256(), NULL))
        return yki_error(YK_ERROR_INTERNAL, "SHA-256 is not available");
    write_digits(text, value, length);
    return YK_OK;
}

yk_status yki_md5_file(const char *path, char text[YKI_MD5_TEXT])
{
    int64_t bytes;
    return hash_file(EVP_md5(), path, text, &bytes);
}

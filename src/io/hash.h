/* SHA-256 and MD5, over libcrypto. */
#ifndef YKI_HASH_H
#define YKI_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { YKI_SHA256_TEXT = 65, YKI_MD5_TEXT = 33 }; /* hexadecimal digits and a zero */

/* Of the whole file that fd has open, from its beginning; path is its name in error lines. */
yk_status yki_sha256_fd(int fd, const char *path, char text[YKI_SHA256_TEXT], int64_t *bytes);
yk_status yki_sha256_file(const char *path, char text[YKI_SHA256_TEXT], int64_t *bytes);
yk_status yki_sha256_memory(const void *data, size_t size, char text[YKI_SHA256_TEXT]);
yk_status yki_md5_file(const char *path, char text[YKI_MD5_TEXT]);

#endif

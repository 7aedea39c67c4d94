/* Texts that must be UTF-8, because readers of the files they go into accept nothing else. */
#ifndef YKI_UTF8_H
#define YKI_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Whether all bytes are UTF-8 as in RFC 3629: no overlong forms or surrogates, up to U+10FFFF. */
bool yki_utf8_is_valid(const char *text, size_t length);

/*
 * The text with everything but printable ASCII written as \xHH, cut to size and terminated: for
 * error lines about text that a terminal could not show. Returns out.
 */
const char *yki_utf8_escape(char *out, size_t size, const char *text, size_t length);

/* A copy with each byte that is not UTF-8 written as \xHH, for files whose texts must be UTF-8; to
 * be freed, NULL when memory is out. */
char *yki_utf8_shown(const char *text);

/*
 * Bytes that need not be UTF-8, such as a file's name, as a text that Python reads: each byte that
 * is not UTF-8 becomes a lone surrogate, U+DC00 + byte, as in os.fsdecode (PEP 383). out has room
 * for 3 * length bytes, or is NULL. Returns the bytes of the result.
 */
size_t yki_utf8_from_bytes(char *out, const char *bytes, size_t length);
/* The bytes again, at most `length`. out may be NULL. */
size_t yki_utf8_to_bytes(char *out, const char *text, size_t length);

#endif

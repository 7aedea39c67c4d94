/* Texts that must be UTF-8, because readers of the files they go into accept nothing else. */
#ifndef YKI_UTF8_H
#define YKI_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Whether all bytes are UTF-8 as in RFC 3629: no overlong forms, no surrogates, at most U+10FFFF.
 */
bool yki_utf8_is_valid(const char *text, size_t length);

/*
 * The text with everything but printable ASCII written as \xHH, cut to size and terminated: for
 * error lines about text that a terminal could not show. Returns out.
 */
const char *yki_utf8_escape(char *out, size_t size, const char *text, size_t length);

#endif

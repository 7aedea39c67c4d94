/*
 * Reading the options structs of the public API.
 *
 * Every such struct starts with its own size and has a macro, YK_..._OPTIONS_INIT, with the default
 * of each field. Callers therefore change single fields of real defaults, no value doubles as "not
 * set", and a struct can grow: a program that was compiled against an older header passes a smaller
 * size, and the fields it does not know keep their defaults. (After libgit2's versioned options and
 * the sizes of Linux's extensible system calls.)
 */
#ifndef YKI_OPTIONS_H
#define YKI_OPTIONS_H

#include "base/error.h"

/*
 * Sets *out, a `type`, to the defaults and copies over them what the caller has given; NULL means
 * the defaults. YK_ERROR_INVALID_ARGUMENT when the size inside cannot be right.
 *
 *     yk_sgd_options sgd;
 *     YK_TRY(YKI_READ_OPTIONS(&sgd, options, yk_sgd_options, YK_SGD_OPTIONS_INIT));
 */
#define YKI_READ_OPTIONS(out, given, type, INIT)                                                   \
    (*(out) = (type)INIT, yki_options_read((out), sizeof(type), (given), #type, #INIT))

/* Called by the macro: out holds `size` bytes of defaults. */
yk_status yki_options_read(void *out, size_t size, const void *given, const char *type,
                           const char *init);

#endif

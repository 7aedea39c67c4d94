/* See wrappers.h. */
#include "io/wrappers.h"

#include <string.h>

#include <yoke/tensor_file.h>

static const char *const wrappers[] = {"_orig_mod.", "_fsdp_wrapped_module.",
                                       "_checkpoint_wrapped_module."};

size_t yki_wrapper_at(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers; i++) {
        size_t size = strlen(wrappers[i]);
        if (length > size && memcmp(name, wrappers[i], size) == 0)
            return size;
    }
    return 0;
}

/* Bytes of wrappers where a part of a name begins. */
static size_t wrappers_at(const char *name, size_t length)
{
    size_t all = 0, one;
    while ((one = yki_wrapper_at(name + all, length - all)))
        all += one;
    return all;
}

bool yki_is_wrapped(const char *name, size_t length, const char *known)
{
    bool begins = true;                        /* a part of the name */
    if (length > strlen(known) + YK_FILE_NAME) /* of wrappers, which would take long to pass over */
        return false;
    for (size_t i = 0; i < length; known++) {
        i += begins ? wrappers_at(name + i, length - i) : 0;
        if (*known == '\0' || name[i] != *known)
            return false;
        begins = name[i++] == '.';
    }
    return *known == '\0';
}

void yki_unwrap_name(char *name)
{
    char *to = name;
    bool begins = true;
    for (const char *from = name; *from; from++) {
        from += begins ? wrappers_at(from, strlen(from)) : 0;
        begins = *from == '.';
        *to++ = *from;
    }
    *to = '\0';
}

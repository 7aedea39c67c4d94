/* See wrappers.h. */
#include "checkpoint/tensor_file/wrappers.h"

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

/* The dot in "denselayer1.norm.1", which is "denselayer1.norm1" today. `known` is at the number, of
 * a text that begins at `first`. */
static bool is_dot_of_densenet(const char *name, const char *end, const char *first,
                               const char *known)
{
    if (end - name < 2 || name[0] != '.' || name[1] != *known || (*known != '1' && *known != '2'))
        return false;
    const char *layer = strstr(first, "denselayer");
    return layer && known - layer > 4 &&
           (memcmp(known - 4, "norm", 4) == 0 || memcmp(known - 4, "conv", 4) == 0);
}

bool yki_same_unwrapped(const char *name, size_t length, const char *known)
{
    const char *first = known;
    size_t limit =
        strlen(known) + YK_FILE_NAME; /* of wrappers, which would take long to pass over */
    const char *end = name + length;
    bool begins = true; /* a part of the name */
    if (length > limit)
        return false;
    for (;;) {
        if (begins) {
            name += wrappers_at(name, (size_t)(end - name));
            known += wrappers_at(known, strlen(known));
        }
        if (is_dot_of_densenet(name, end, first, known))
            name++;
        if (name == end || *known == '\0' || *known != *name)
            return name == end && *known == '\0';
        begins = *name == '.';
        name++;
        known++;
    }
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

/* Whether all names have this text at the offset. */
static bool all_have(yki_name_at *name_at, const void *list, size_t count, const char *text,
                     size_t offset)
{
    const char *name;
    size_t length, wanted = strlen(text);
    for (size_t i = 0; i < count; i++) {
        if (!name_at(list, i, &name, &length))
            continue;
        if (!name || length < offset + wanted || memcmp(name + offset, text, wanted) != 0)
            return false;
    }
    return count > 0;
}

size_t yki_common_wrapper(yki_name_at *name_at, const void *list, size_t count)
{
    static const char *const whole[] = {"module.", "_orig_mod.", "_fsdp_wrapped_module."};
    size_t length = 0;
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < sizeof whole / sizeof *whole && length < YK_FILE_NAME; i++)
            if (all_have(name_at, list, count, whole[i], length)) {
                length += strlen(whole[i]);
                more = true;
            }
    }
    return length;
}

/* The C locale for one thread: the program's own, which other threads go by, is left alone. */
#define _GNU_SOURCE
#include "base/c_locale.h"

#include <locale.h>

/* For "C" the C library has an object ready: nothing is allocated. */
void *yki_c_locale_begin(void)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return uselocale(c); /* without c: asks only */
}

void yki_c_locale_end(void *before)
{
    locale_t c = uselocale(before);
    if (c != before && c != LC_GLOBAL_LOCALE)
        freelocale(c);
}

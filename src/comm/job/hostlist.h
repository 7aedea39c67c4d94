/*
 * Slurm's compressed lists: host names as in "node[01-03,7],login", and tasks per node as in
 * "2(x3),1".
 */
#ifndef YKI_HOSTLIST_H
#define YKI_HOSTLIST_H

#include <stddef.h>

#include "base/error.h"

/* More hosts than that are refused instead of counted. */
enum { YKI_HOSTLIST_MAX = 1 << 18 };

/*
 * The host at `index` of the list. Commas or white space separate entries; brackets hold ranges,
 * whose leading zeros set the width; several brackets in one entry multiply, the last one counting
 * fastest. YK_ERROR_INVALID_ARGUMENT when the list is malformed or has no such host.
 */
yk_status yki_hostlist_get(char *host, size_t size, const char *list, long index);

/* The entry at `index` of a list of counts. */
yk_status yki_countlist_get(long *count, const char *list, long index);

#endif

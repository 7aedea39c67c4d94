/*
 * An entry such as "r[1-2]n[01-16]" stands for the product of its ranges, so its n-th host follows
 * from n by division: nothing is expanded.
 */
#include "comm/job/hostlist.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BRACKETS = 8 };

typedef struct range {
    long first, last;
    int width;
} range;

static yk_status malformed(const char *list)
{
    return yki_error(YK_ERROR_INVALID_ARGUMENT, "malformed list of hosts \"%.200s\"", list);
}

/* Reads "7" or "01-03" and what ends it, a comma or the closing bracket; NULL if malformed. */
static const char *read_range(range *r, const char *at)
{
    char *end;
    if (!isdigit((unsigned char)*at))
        return NULL;
    r->first = r->last = strtol(at, &end, 10);
    r->width = (int)(end - at);
    if (*end == '-') {
        if (!isdigit((unsigned char)end[1]))
            return NULL;
        r->last = strtol(end + 1, &end, 10);
    }
    bool sound = r->width <= 18 && r->last >= r->first && r->last - r->first < YKI_HOSTLIST_MAX;
    return sound && (*end == ',' || *end == ']') ? end + 1 : NULL;
}

/* How many names a bracket stands for; at is after '[' and is moved after ']'. 0 if malformed. */
static long count_bracket(const char **at)
{
    long count = 0;
    range r;
    for (const char *next = *at; count <= YKI_HOSTLIST_MAX;) {
        next = read_range(&r, next);
        if (!next)
            return 0;
        count += r.last - r.first + 1;
        if (next[-1] == ']') {
            *at = next;
            return count <= YKI_HOSTLIST_MAX ? count : 0;
        }
    }
    return 0;
}

/* Writes the number at `index` of a bracket; at is as above. */
static int write_number(char *text, size_t size, const char **at, long index)
{
    range r = {0};
    long chosen = -1;
    int width = 0;
    do {
        const char *next = read_range(&r, *at);
        if (!next)
            break; /* never: the entry is sound */
        *at = next;
        long count = r.last - r.first + 1;
        if (chosen < 0 && index < count) {
            chosen = r.first + index;
            width = r.width;
        }
        index -= count;
    } while ((*at)[-1] != ']');
    return snprintf(text, size, "%0*ld", width, chosen);
}

static bool ends_entry(char c)
{
    return c == '\0' || c == ',' || isspace((unsigned char)c);
}

/* Counts the hosts of an entry and the names of its brackets; NULL if it is malformed. */
static const char *measure_entry(const char *at, long *hosts, long counts[MAX_BRACKETS])
{
    int brackets = 0;
    *hosts = 1;
    for (int i = 0; i < MAX_BRACKETS; i++)
        counts[i] = 1;
    while (!ends_entry(*at)) {
        if (*at == ']')
            return NULL;
        if (*at++ != '[')
            continue;
        long count = brackets < MAX_BRACKETS ? count_bracket(&at) : 0;
        if (count == 0 || *hosts > YKI_HOSTLIST_MAX / count)
            return NULL;
        *hosts *= count;
        counts[brackets++] = count;
    }
    return at;
}

/* Writes the host at `index` of a sound entry; false if it does not fit. */
static bool write_host(char *host, size_t size, const char *at, long index,
                       const long counts[MAX_BRACKETS], long hosts)
{
    size_t used = 0;
    for (int bracket = 0; !ends_entry(*at);) {
        if (*at == '[') {
            hosts /= counts[bracket++];
            at++;
            used += (size_t)write_number(host + used, size - used, &at, index / hosts);
            index %= hosts;
        } else {
            host[used++] = *at++;
        }
        if (used >= size)
            return false;
    }
    host[used] = '\0';
    return used > 0;
}

yk_status yki_hostlist_get(char *host, size_t size, const char *list, long index)
{
    long skipped = 0, hosts, counts[MAX_BRACKETS];
    for (const char *at = list; *at;) {
        if (ends_entry(*at)) {
            at++;
            continue;
        }
        const char *end = measure_entry(at, &hosts, counts);
        if (!end)
            return malformed(list);
        if (index - skipped < hosts)
            return write_host(host, size, at, index - skipped, counts, hosts) ? YK_OK
                                                                              : malformed(list);
        skipped += hosts;
        at = end;
    }
    return yki_error(YK_ERROR_INVALID_ARGUMENT, "the list of hosts \"%.200s\" has no host %ld",
                     list, index);
}

yk_status yki_countlist_get(long *count, const char *list, long index)
{
    for (const char *at = list; isdigit((unsigned char)*at);) {
        char *end;
        long repeat = 1;
        *count = strtol(at, &end, 10);
        if (strncmp(end, "(x", 2) == 0 && isdigit((unsigned char)end[2])) {
            repeat = strtol(end + 2, &end, 10);
            if (*end++ != ')')
                break;
        }
        if (*end != ',' && *end != '\0')
            break;
        if (index < repeat)
            return YK_OK;
        index -= repeat;
        if (*end == '\0')
            break;
        at = end + 1;
    }
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "\"%.200s\" does not say how many tasks node %ld has", list, index);
}

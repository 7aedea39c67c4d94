/*
 * The files filtered_stdout.log and filtered_stderr.log of an attempt: one for all ranks of this
 * host, with the prefixes that tell whose lines they are.
 */
#define _GNU_SOURCE
#include "launch/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

bool cli_filter_parse(cli_filter *filter, const char *list)
{
    *filter = (cli_filter){.fd = -1};
    char *at = filter->texts = calloc(strlen(list) + 2, 1);
    if (!at)
        return false;
    for (; *list; list++) {
        bool comma = *list == ',';
        if (comma && list[1] == ',')
            *at++ = *list++;
        else if (!comma)
            *at++ = *list;
        else if (at > filter->texts && at[-1]) /* an empty text would be in every line */
            *at++ = '\0';
    }
    return true;
}

bool cli_filter_open(cli_filter *filter, const char *path)
{
    if (!filter->texts)
        return true;
    if (filter->fd >= 0)
        close(filter->fd);
    filter->fd = -1;
    filter->torn = filter->lost = false;
    if (path)
        filter->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
    return !path || filter->fd >= 0;
}

void cli_filter_free(cli_filter *filter)
{
    cli_filter_open(filter, NULL);
    free(filter->texts);
}

static bool contains_a_text(const cli_filter *filter, const char *line, size_t size)
{
    for (const char *text = filter->texts; *text; text += strlen(text) + 1)
        if (memmem(line, size, text, strlen(text)))
            return true;
    return false;
}

/* Drops what has been written from the front of the parts. */
static void advance(struct iovec *parts, int count, size_t written)
{
    for (int i = 0; i < count; i++) {
        size_t part = written < parts[i].iov_len ? written : parts[i].iov_len;
        parts[i].iov_base = (char *)parts[i].iov_base + part;
        parts[i].iov_len -= part;
        written -= part;
    }
}

/* Returns whether lines have been lost before. A full disk may have room again; otherwise the file
 * is closed. */
static bool lose_line(cli_filter *filter)
{
    int reason = errno;
    bool before = filter->lost;
    if (reason != ENOSPC && reason != EDQUOT)
        cli_filter_open(filter, NULL);
    filter->lost = true;
    errno = reason;
    return before;
}

bool cli_filter_put(cli_filter *filter, const char *prefix, const char *line, size_t size)
{
    if (filter->fd < 0 || !contains_a_text(filter, line, size))
        return true;
    static char newline[] = "\n";
    struct iovec parts[] = {{newline, filter->torn},
                            {(char *)prefix, strlen(prefix)},
                            {(char *)line, size},
                            {newline, 1}};
    enum { PARTS = sizeof parts / sizeof *parts };
    filter->torn = true;
    while (parts[PARTS - 1].iov_len > 0) {
        ssize_t written = writev(filter->fd, parts, PARTS);
        if (written > 0) {
            advance(parts, PARTS, (size_t)written);
        } else if (errno != EINTR) {
            return lose_line(filter);
        }
    }
    filter->torn = false;
    return true;
}

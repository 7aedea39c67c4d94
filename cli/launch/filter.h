/* Copies the printed lines that contain one of some texts to a file. See filter.c. */
#ifndef YOKE_CLI_LAUNCH_FILTER_H
#define YOKE_CLI_LAUNCH_FILTER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct cli_filter {
    char *texts; /* each ended by a zero byte, the last one by two */
    int fd;      /* the file, or -1 */
    bool torn;   /* its last line may lack its end */
    bool lost;   /* lines have been lost */
} cli_filter;

/*
 * Reads the value of --duplicate-stdout-filters: texts separated by commas; a double comma is a
 * comma of the text. False when there is no memory.
 */
bool cli_filter_parse(cli_filter *filter, const char *list);
/* Creates or empties the file; with path NULL, only closes it. False, with errno, on failure. */
bool cli_filter_open(cli_filter *filter, const char *path);
void cli_filter_free(cli_filter *filter);

/*
 * Writes prefix and line to the file if the line contains one of the texts. A line that cannot be
 * written is lost; for the first one it returns false, with errno.
 */
bool cli_filter_put(cli_filter *filter, const char *prefix, const char *line, size_t size);

#endif

/* Passes the output of the ranks to the user. See output.c. */
#ifndef YOKE_CLI_LAUNCH_OUTPUT_H
#define YOKE_CLI_LAUNCH_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "launch/echoes.h"
#include "launch/filter.h"

enum {
    CLI_TAIL_LINES = 8,
    CLI_TAIL_SIZE = 8 * 1001 + 1,
    CLI_LINE_MAX = 1024 * 1024, /* a longer line is printed as several */
    CLI_SINK_MAX = 256 * 1024
};

/* A growing buffer. */
typedef struct cli_bytes {
    char *data;
    size_t size, capacity;
} cli_bytes;

/* The launcher's stdout or stderr, with the bytes that it cannot take yet. */
typedef struct cli_sink {
    int fd;
    bool terminal, colour, closed;
    bool within_line;            /* the rest of a line that has been begun is pending */
    int error;                   /* why output was lost first, as in errno; 0: none was */
    const struct cli_sink *twin; /* the other one, if both are one file; NULL otherwise */
    cli_bytes pending;
    const cli_bytes *status; /* the line that is redrawn in place below all others */
} cli_sink;

/* One output of one rank, cut into lines. */
typedef struct cli_stream {
    int fd; /* -1 once at its end */
    int rank;
    bool speaks;         /* its lines are printed without a prefix */
    const char *prefix;  /* of its lines; NULL: "[rank 3] " */
    bool hidden;         /* its lines are not printed */
    int log;             /* the file that gets a copy, or -1 */
    bool log_torn;       /* what came last did not fit into it */
    bool log_lost;       /* something did not */
    cli_filter *filter;  /* gets a copy of some printed lines, or NULL */
    cli_echoes *echoes;  /* what other ranks have said need not be printed again; or NULL */
    const char *program; /* who complains if a file cannot be written: "yoke run" */
    cli_bytes *status;   /* where its unfinished line is shown, or NULL */
    cli_bytes line;      /* the unfinished line */
    cli_sink *sink;
    /* Whether a line is an order to this launcher, which is obeyed and not printed; or NULL. */
    bool (*obeys)(void *context, int rank, const char *text, size_t size);
    void *context;
    char *tail[CLI_TAIL_LINES]; /* its last lines, a ring */
    size_t tail_next;
} cli_stream;

void cli_sink_init(cli_sink *sink, int fd, const cli_bytes *status);
/* Says that two sinks may be one file, such as stdout and stderr after 2>&1: while one of them is
 * within a line, the other one waits. */
void cli_sinks_join(cli_sink *a, cli_sink *b);
void cli_sink_free(cli_sink *sink);
/* Writes as much as possible without blocking; call it after POLLOUT. */
void cli_sink_flush(cli_sink *sink);
/* Whether so much is pending that the ranks must wait. */
bool cli_sink_is_full(const cli_sink *sink);
/* Whether output was lost that somebody wanted: a reader that is gone wants no more. */
bool cli_sink_has_lost(const cli_sink *sink);

/* Reads once and passes whole lines to the sink. Closes the stream at its end. */
void cli_stream_read(cli_stream *stream);
void cli_stream_free(cli_stream *stream);
/* Writes the last lines, oldest first, each ended by a newline. size is CLI_TAIL_SIZE or less. */
void cli_stream_tail(const cli_stream *stream, char *text, size_t size);
/* Prints the lines of a text as those of a rank. */
void cli_sink_repeat(cli_sink *sink, int rank, const char *text);
/* Prints a line of the launcher itself. */
void cli_sink_say(cli_sink *sink, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif

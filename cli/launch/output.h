/* What ranks print, on its way to the user. See output.c. */
#ifndef YOKE_CLI_LAUNCH_OUTPUT_H
#define YOKE_CLI_LAUNCH_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

enum { YKI_TAIL_LINES = 8, YKI_LINE_MAX = 64 * 1024, YKI_SINK_MAX = 256 * 1024 };

/* Bytes that grow. */
typedef struct yki_bytes {
    char *data;
    size_t size, capacity;
} yki_bytes;

/* Where lines go: the launcher's own stdout or stderr. What it cannot take yet waits here. */
typedef struct yki_sink {
    int fd;
    bool terminal, colour, closed;
    yki_bytes pending;
    const yki_bytes *status; /* the line that is redrawn in place below all others */
} yki_sink;

/* One output of one rank, cut into lines. */
typedef struct yki_stream {
    int fd; /* -1 once at its end */
    int rank;
    bool speaks;       /* its lines are the job's own: no prefix */
    yki_bytes *status; /* where an unfinished line of it is shown, or NULL */
    yki_bytes line;    /* what has no newline yet */
    yki_sink *sink;
    char *tail[YKI_TAIL_LINES]; /* its last lines, a ring */
    size_t tail_next;
} yki_stream;

void yki_sink_init(yki_sink *sink, int fd, const yki_bytes *status);
void yki_sink_free(yki_sink *sink);
/* Writes what the reader takes without blocking; call it when poll says POLLOUT. */
void yki_sink_flush(yki_sink *sink);

/* Reads once and hands whole lines to the sink. Closes the stream at its end. */
void yki_stream_read(yki_stream *stream);
void yki_stream_free(yki_stream *stream);
/* Hands the last lines to the sink again, oldest first; returns how many. */
int yki_stream_repeat(const yki_stream *stream, yki_sink *sink);
/* Whether one of the last lines holds text. */
bool yki_stream_tail_has(const yki_stream *stream, const char *text);

/* A line of the launcher itself. */
void yki_sink_say(yki_sink *sink, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif

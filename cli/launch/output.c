/*
 * Lines of different ranks never interleave: each is collected up to its newline and then written
 * as a whole, after a prefix that names its rank. A line that grows beyond CLI_LINE_MAX is written
 * as several: its rank may wait for others before it ends the line, and they for room to print.
 * Writing never blocks the launcher, which must react to deaths and signals: lines wait in the
 * sink. While too many wait, the ranks' pipes are not read, so that a slow reader slows the ranks
 * down as it would without a launcher.
 *
 * A carriage return overwrites the line, as on a terminal: of a line that a rank redraws, only the
 * last state is printed. If rank0_speaks is set, rank 0 may redraw a status line on the terminal;
 * other lines are printed above it.
 */
#define _GNU_SOURCE
#include "launch/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TAIL_WIDTH = 1000 }; /* of each line that is kept for the report of a failure */

/* ---- bytes ---------------------------------------------------------------------------------- */

/* If memory runs out, output is lost but the job continues. */
static void append_bytes(cli_bytes *bytes, const char *data, size_t size)
{
    if (bytes->size + size > bytes->capacity) {
        size_t capacity = 2 * (bytes->size + size) + 256;
        char *grown = realloc(bytes->data, capacity);
        if (!grown)
            return;
        bytes->data = grown;
        bytes->capacity = capacity;
    }
    if (size)
        memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
}

static void append_text(cli_bytes *bytes, const char *text)
{
    append_bytes(bytes, text, strlen(text));
}

static void drop_front(cli_bytes *bytes, size_t size)
{
    if (size == 0)
        return;
    memmove(bytes->data, bytes->data + size, bytes->size - size);
    bytes->size -= size;
}

/* ---- sinks ---------------------------------------------------------------------------------- */

/*
 * Opens a pipe or terminal once more, so that only the launcher's own writes do not block: poll
 * promises room in a terminal for one byte, and another writer may fill a pipe first. Returns fd
 * itself where that is not possible, and for files, which take what they are given.
 */
static int open_again(int fd)
{
    char path[32];
    struct stat file;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    bool may_block = isatty(fd) || (fstat(fd, &file) == 0 && S_ISFIFO(file.st_mode));
    int own = may_block ? open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
    return own >= 0 ? own : fd;
}

void cli_sink_init(cli_sink *sink, int fd, const cli_bytes *status)
{
    bool terminal = isatty(fd);
    const char *plain = getenv("NO_COLOR");
    *sink = (cli_sink){.fd = open_again(fd),
                       .terminal = terminal,
                       .colour = terminal && !(plain && *plain),
                       .status = status};
}

void cli_sink_free(cli_sink *sink)
{
    if (sink->fd > STDERR_FILENO)
        close(sink->fd);
    free(sink->pending.data);
}

void cli_sinks_join(cli_sink *a, cli_sink *b)
{
    struct stat one, other;
    if (fstat(a->fd, &one) || fstat(b->fd, &other) || one.st_dev != other.st_dev ||
        one.st_ino != other.st_ino)
        return;
    a->twin = b;
    b->twin = a;
}

/* How much is written at once: what a pipe takes without blocking, up to the end of a line. */
static size_t next_piece(const cli_bytes *pending)
{
    if (pending->size <= PIPE_BUF)
        return pending->size;
    const char *newline = memrchr(pending->data, '\n', PIPE_BUF);
    return newline ? (size_t)(newline + 1 - pending->data) : PIPE_BUF;
}

void cli_sink_flush(cli_sink *sink)
{
    if (sink->twin && sink->twin->within_line)
        return;
    ssize_t written = write(sink->fd, sink->pending.data, next_piece(&sink->pending));
    if (written > 0) {
        bool ended = sink->pending.data[written - 1] == '\n';
        drop_front(&sink->pending, (size_t)written);
        sink->within_line = !ended && sink->pending.size > 0;
    } else if (written < 0 && errno != EINTR && errno != EAGAIN) {
        /* The job continues without output: its reader is gone, or a disk is full, which may have
         * room again. */
        sink->closed = errno != ENOSPC && errno != EDQUOT;
        sink->error = sink->error ? sink->error : errno;
        sink->pending.size = 0;
        sink->within_line = false;
    }
}

bool cli_sink_is_full(const cli_sink *sink)
{
    return sink->pending.size > CLI_SINK_MAX;
}

bool cli_sink_has_lost(const cli_sink *sink)
{
    return sink->error && sink->error != EPIPE;
}

static void begin_line(cli_sink *sink)
{
    if (sink->terminal && sink->status->size)
        append_text(&sink->pending, "\r\033[K");
}

static void end_line(cli_sink *sink)
{
    append_text(&sink->pending, "\n");
    if (sink->terminal)
        append_bytes(&sink->pending, sink->status->data, sink->status->size);
    if (sink->closed)
        sink->pending.size = 0;
}

static void put_prefix(cli_sink *sink, int rank)
{
    char prefix[48];
    if (sink->colour)
        snprintf(prefix, sizeof prefix, "\033[%dm[rank %d]\033[0m ", 31 + (rank + 1) % 6, rank);
    else
        snprintf(prefix, sizeof prefix, "[rank %d] ", rank);
    append_text(&sink->pending, prefix);
}

/* Prints a whole line; rank is -1 for lines of the launcher. prefix NULL: that of the rank. */
static void put_line(cli_sink *sink, int rank, const char *prefix, const char *text, size_t size)
{
    begin_line(sink);
    if (prefix)
        append_text(&sink->pending, prefix);
    else if (rank >= 0)
        put_prefix(sink, rank);
    append_bytes(&sink->pending, text, size);
    end_line(sink);
}

void cli_sink_say(cli_sink *sink, const char *format, ...)
{
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    put_line(sink, -1, NULL, line, strlen(line));
}

/* ---- streams -------------------------------------------------------------------------------- */

static void remember(cli_stream *stream, const char *text, size_t size)
{
    if (size == 0)
        return;
    char **slot = &stream->tail[stream->tail_next++ % CLI_TAIL_LINES];
    size_t kept = size < TAIL_WIDTH ? size : TAIL_WIDTH;
    free(*slot);
    *slot = calloc(kept + 1, 1);
    if (*slot)
        memcpy(*slot, text, kept);
}

/*
 * Returns what a terminal would show in the end: the text after the last carriage return or
 * sequence that clears a line.
 */
static const char *visible_part(const char *text, size_t *size)
{
    static const char clear[] = "\033[K";
    const size_t clear_size = sizeof clear - 1;
    if (*size && text[*size - 1] == '\r')
        (*size)--;
    const char *back = memrchr(text, '\r', *size);
    if (back) {
        *size -= (size_t)(back + 1 - text);
        text = back + 1;
    }
    if (*size >= clear_size && memcmp(text, clear, clear_size) == 0) {
        *size -= clear_size;
        text += clear_size;
    }
    return text;
}

/* The job continues without lines that cannot be written. */
static void filter_line(cli_stream *stream, const char *text, size_t size)
{
    char prefix[32];
    snprintf(prefix, sizeof prefix, "[rank %d] ", stream->rank);
    if (stream->filter &&
        !cli_filter_put(stream->filter, stream->prefix ? stream->prefix : prefix, text, size))
        cli_sink_say(stream->sink,
                     "%s: cannot write the file of filtered lines: %s; the job continues, and "
                     "lines are lost",
                     stream->program, strerror(errno));
}

static void finish_line(cli_stream *stream, const char *text, size_t size)
{
    if (stream->obeys && stream->obeys(stream->context, stream->rank, text, size))
        return;
    text = visible_part(text, &size);
    remember(stream, text, size);
    if (stream->status && stream->status->size) { /* this line replaces the status */
        begin_line(stream->sink);
        stream->status->size = 0;
    }
    if (stream->hidden ||
        (stream->echoes && cli_echoes_hide(stream->echoes, stream->rank, text, size)))
        return;
    put_line(stream->sink, stream->speaks ? -1 : stream->rank, stream->prefix, text, size);
    filter_line(stream, text, size);
}

/* Draws the unfinished line of a stream that may have one. */
static void show_status(cli_stream *stream)
{
    size_t size = stream->line.size;
    const char *text = size ? visible_part(stream->line.data, &size) : "";
    begin_line(stream->sink);
    stream->status->size = 0;
    append_bytes(stream->status, text, size);
    append_bytes(&stream->sink->pending, text, size);
}

/* Prints all whole lines; of the rest, keeps only what has not been overwritten. */
static void cut_lines(cli_stream *stream)
{
    cli_bytes *line = &stream->line;
    size_t start = 0;
    for (char *newline; (newline = memchr(line->data + start, '\n', line->size - start));) {
        size_t end = (size_t)(newline - line->data);
        finish_line(stream, line->data + start, end - start);
        start = end + 1;
    }
    if (line->size > start) {
        char *back = memrchr(line->data + start, '\r', line->size - start - 1);
        start = back ? (size_t)(back + 1 - line->data) : start;
    }
    drop_front(line, start);
    if (line->size >= CLI_LINE_MAX) {
        finish_line(stream, line->data, line->size);
        line->size = 0;
    }
}

/* Prints a last line without a newline, unless it has been cleared. */
static void finish_last_line(cli_stream *stream)
{
    size_t size = stream->line.size;
    if (size)
        visible_part(stream->line.data, &size);
    if (size)
        finish_line(stream, stream->line.data, stream->line.size);
    stream->line.size = 0;
}

/* A full disk may have room again; otherwise the log is closed. The job continues. */
static void lose_log(cli_stream *stream)
{
    bool full = errno == ENOSPC || errno == EDQUOT;
    if (!stream->log_lost)
        cli_sink_say(stream->sink,
                     "%s: cannot write the log of rank %d: %s; the job continues, and lines are "
                     "lost",
                     stream->program, stream->rank, strerror(errno));
    stream->log_torn = stream->log_lost = true;
    if (full)
        return;
    close(stream->log);
    stream->log = -1;
}

/* What could not be written ends at the next newline. */
static void write_log(cli_stream *stream, const char *bytes, size_t size)
{
    const char *newline = stream->log_torn ? memchr(bytes, '\n', size) : bytes;
    if (stream->log < 0 || !newline)
        return;
    stream->log_torn = false;
    size -= (size_t)(newline - bytes);
    for (bytes = newline; size > 0;) {
        ssize_t written = write(stream->log, bytes, size);
        if (written > 0) {
            bytes += written;
            size -= (size_t)written;
        } else if (errno != EINTR) {
            lose_log(stream);
            return;
        }
    }
}

void cli_stream_read(cli_stream *stream)
{
    char chunk[8192];
    ssize_t got = read(stream->fd, chunk, sizeof chunk);
    if (got < 0 && errno == EINTR)
        return;
    if (got > 0) {
        write_log(stream, chunk, (size_t)got);
        append_bytes(&stream->line, chunk, (size_t)got);
        if (stream->line.size)
            cut_lines(stream);
        if (stream->status && stream->sink->terminal && !stream->hidden)
            show_status(stream);
        return;
    }
    close(stream->fd);
    stream->fd = -1;
    finish_last_line(stream);
}

void cli_stream_free(cli_stream *stream)
{
    if (stream->fd >= 0)
        close(stream->fd);
    if (stream->log >= 0)
        close(stream->log);
    free(stream->line.data);
    for (int i = 0; i < CLI_TAIL_LINES; i++)
        free(stream->tail[i]);
}

void cli_stream_tail(const cli_stream *stream, char *text, size_t size)
{
    size_t at = 0;
    text[0] = '\0';
    for (size_t i = 0; i < CLI_TAIL_LINES; i++) {
        const char *line = stream->tail[(stream->tail_next + i) % CLI_TAIL_LINES];
        if (line && at + strlen(line) + 2 <= size)
            at += (size_t)snprintf(text + at, size - at, "%s\n", line);
    }
}

void cli_sink_repeat(cli_sink *sink, int rank, const char *text)
{
    for (const char *end; (end = strchr(text, '\n')); text = end + 1)
        put_line(sink, rank, NULL, text, (size_t)(end - text));
}

/*
 * The file of a timeline: the JSON array of the Trace Event Format (Duan, Zalewski: "Trace Event
 * Format", 2016), with one event per line. Times are microseconds of CLOCK_MONOTONIC, which all
 * ranks of a machine share, so that they are aligned without further work.
 *
 * All ranks write to one file. A rank that has events locks it and overwrites the closing bracket
 * with the events and a new bracket. Between two writes the file is therefore a complete JSON
 * document, whichever rank has died. A write that was cut short when its process was killed is
 * recognised by the missing bracket, and removed.
 */
#define _GNU_SOURCE
#include <yoke/report.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/trace.h"
#include "io/atomic_file.h"

#define END "\n]\n"

enum { END_BYTES = sizeof END - 1, TEXT = 64 * 1024, EVENT = 512, DEPTH = 16, PAUSE_NS = 1000000 };

static const double FLUSH_S = 1, FLUSH_FILL = 0.5, PATIENCE_S = 5;

static atomic_bool is_open; /* the process has one recorder and therefore one timeline */

struct yk_trace {
    int fd, rank;
    char *path;
    yk_trace_options options;
    int64_t step;      /* the current one */
    double step_begin; /* 0 if none is recorded */
    double flushed_s;
    bool recording, finished;
    yk_status status;           /* the first failure to write ... */
    char error[YKI_ERROR_LINE]; /* ... and its line */
    size_t used;
    char text[TEXT]; /* events to append, each ",\n{...}" */
};

/* ---- the file -------------------------------------------------------------------------------- */

static yk_status trace_error(yk_trace *trace, const char *what)
{
    yk_status status = yki_error(YK_ERROR_IO, "%s: %s: %s", trace->path, what, strerror(errno));
    if (trace->status == YK_OK) {
        trace->status = status;
        yki_error_copy(trace->error, sizeof trace->error);
    }
    return status;
}

/* Where the array's closing bracket is, or the last separator if a write was cut short. */
static off_t find_closing_bracket(const yk_trace *trace)
{
    char tail[TEXT];
    off_t size = lseek(trace->fd, 0, SEEK_END);
    off_t from = size < (off_t)sizeof tail ? 0 : size - (off_t)sizeof tail;
    ssize_t got = pread(trace->fd, tail, sizeof tail, from);
    if (size == 0)
        return 0;
    if (got >= END_BYTES && memcmp(tail + got - END_BYTES, END, END_BYTES) == 0)
        return size - END_BYTES;
    for (ssize_t i = got - 2; i > 0; i--)
        if (tail[i] == ',' && tail[i + 1] == '\n')
            return from + i;
    return -1;
}

/* Writes the last part of the file, to where it ends from here on. */
static bool write_end(const yk_trace *trace, const char *text, size_t size, off_t at)
{
    const off_t end = at + (off_t)size;
    while (at < end) { /* what is left of a short write says why it was one */
        ssize_t written = pwrite(trace->fd, text + size - (end - at), (size_t)(end - at), at);
        if (written < 0)
            return false;
        at += written;
    }
    return ftruncate(trace->fd, end) == 0;
}

/* Requires the lock. */
static yk_status append_events(yk_trace *trace)
{
    off_t end = find_closing_bracket(trace);
    if (end < 0)
        return trace_error(trace, "cannot read");
    memcpy(trace->text + trace->used, END, END_BYTES);
    size_t size = trace->used + END_BYTES;
    if (write_end(trace, trace->text, size, end))
        return YK_OK;
    yk_status status = trace_error(trace, "cannot write");
    write_end(trace, END, end ? END_BYTES : 0, end); /* it was there: it fits where all does not */
    return status;
}

/* Waits for other ranks, but no longer than a moment: one may be stopped while it writes. */
static yk_status lock_trace(yk_trace *trace)
{
    double deadline = yki_now() + PATIENCE_S;
    while (flock(trace->fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return trace_error(trace, "cannot lock");
        if (yki_now() >= deadline)
            return trace_error(trace, "another process, which may be stopped, keeps it locked");
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
    return YK_OK;
}

static void write_events(yk_trace *trace)
{
    if (trace->used && trace->status == YK_OK && lock_trace(trace) == YK_OK) {
        append_events(trace);
        flock(trace->fd, LOCK_UN);
    }
    trace->used = 0;
}

/* ---- events ---------------------------------------------------------------------------------- */

/* Appends a line to what will be written: ",\n", then the object. */
static void add_line(yk_trace *trace, const char *format, ...) YKI_PRINTF(2, 3);
static void add_line(yk_trace *trace, const char *format, ...)
{
    if (trace->used + EVENT + END_BYTES > TEXT)
        write_events(trace);
    char *to = trace->text + trace->used;
    *to++ = ',';
    *to++ = '\n';
    va_list arguments;
    va_start(arguments, format);
    trace->used += 2 + (size_t)vsnprintf(to, EVENT - 2, format, arguments);
    va_end(arguments);
}

/* Copies a name for use in a JSON string; anything but printable ASCII becomes '?'. */
static const char *quote(char text[2 * YKI_TRACE_NAME], const char *name)
{
    char *to = text;
    for (; *name; name++) {
        if (*name == '"' || *name == '\\')
            *to++ = '\\';
        *to++ = *name >= ' ' && *name <= '~' ? *name : '?';
    }
    *to = '\0';
    return text;
}

/* "{"bytes": 4, "sequence": 9}". */
static const char *format_args(char text[160], const yki_trace_args *args)
{
    size_t at = 0;
    for (int i = 0; i < YKI_TRACE_ARGS && args->key[i]; i++)
        at += (size_t)snprintf(text + at, 160 - at, "%s\"%s\": %lld", i ? ", " : "", args->key[i],
                               (long long)args->value[i]);
    text[at] = '\0';
    return text;
}

static void add_metadata_event(yk_trace *trace, const char *what, int thread, const char *name,
                               int64_t place)
{
    char text[2 * YKI_TRACE_NAME];
    add_line(trace,
             "{\"ph\": \"M\", \"name\": \"%s_name\", \"pid\": %d, \"tid\": %d, "
             "\"args\": {\"name\": \"%s\"}}",
             what, (int)getpid(), thread, quote(text, name));
    add_line(trace,
             "{\"ph\": \"M\", \"name\": \"%s_sort_index\", \"pid\": %d, \"tid\": %d, "
             "\"args\": {\"sort_index\": %lld}}",
             what, (int)getpid(), thread, (long long)place);
}

static long long nanoseconds(double seconds)
{
    return llround(1e9 * seconds);
}

/* Microseconds, from whole nanoseconds, of which a double does not hold as many as pass in 105
 * days. Spans that end together do so to the last digit; Perfetto requires it of nested spans. */
#define MICROSECONDS        "%lld.%03lld"
#define MICROSECONDS_OF(ns) (ns) / 1000, (ns) % 1000

/* Spans that may overlap get one row per name; their begin and end are matched by an id. */
static void add_async(yk_trace *trace, const yki_trace_event *event, const char *name,
                      const char *args)
{
    static const char format[] = "{\"ph\": \"%s\", \"cat\": \"bucket\", \"id\": \"0x%llx\", "
                                 "\"name\": \"%s\", \"pid\": %d, \"tid\": %d, "
                                 "\"ts\": " MICROSECONDS ", \"args\": {%s}}";
    unsigned long long id =
        (unsigned long long)trace->rank << 32 | (unsigned long long)event->args.value[1];
    int pid = (int)getpid();
    long long begin = nanoseconds(event->begin), end = nanoseconds(event->end);
    add_line(trace, format, "b", id, name, pid, event->thread, MICROSECONDS_OF(begin), args);
    add_line(trace, format, "e", id, name, pid, event->thread, MICROSECONDS_OF(end), "");
}

static void add_span(yk_trace *trace, const yki_trace_event *event, const char *name,
                     const char *args)
{
    long long begin = nanoseconds(event->begin), took = nanoseconds(event->end) - begin;
    add_line(trace,
             "{\"ph\": \"X\", \"name\": \"%s\", \"pid\": %d, \"tid\": %d, "
             "\"ts\": " MICROSECONDS ", \"dur\": " MICROSECONDS ", \"args\": {%s}}",
             name, (int)getpid(), event->thread, MICROSECONDS_OF(begin), MICROSECONDS_OF(took),
             args);
}

static void add_event(yk_trace *trace, const yki_trace_event *event)
{
    char name[2 * YKI_TRACE_NAME], args[160];
    quote(name, event->name);
    format_args(args, &event->args);
    if (event->kind == YKI_TRACE_THREAD)
        add_metadata_event(trace, "thread", event->thread, event->name, event->args.value[0]);
    else if (event->kind == YKI_TRACE_ASYNC)
        add_async(trace, event, name, args);
    else
        add_span(trace, event, name, args);
}

/* Writes what has been recorded so far. */
static void flush_trace(yk_trace *trace)
{
    for (yki_trace_event event; yki_trace_take(&event);)
        add_event(trace, &event);
    write_events(trace);
    trace->flushed_s = yki_now();
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void introduce_process(yk_trace *trace)
{
    char name[64];
    snprintf(name, sizeof name, "rank %d", trace->rank);
    add_metadata_event(trace, "process", (int)getpid(), name, trace->rank);
}

/* On rank 0: starts the array with the name of the process, which needs no separator before it. */
static yk_status create_file(yk_trace *trace)
{
    YK_TRY(yki_check_replaceable(trace->path));
    YK_TRY(yki_make_folders_above(trace->path));
    trace->fd = open(trace->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (trace->fd < 0)
        return trace_error(trace, "cannot create");
    if (!yki_lock(trace->fd))
        return yki_error(YK_ERROR_IO, "%s: this run or another program is writing it", trace->path);
    if (ftruncate(trace->fd, 0) != 0)
        return trace_error(trace, "cannot empty");
    introduce_process(trace);
    trace->text[0] = '[';
    write_events(trace);
    return trace->status;
}

static yk_status open_trace_file(yk_trace *trace)
{
    trace->fd = open(trace->path, O_RDWR | O_CLOEXEC);
    if (trace->fd < 0)
        return trace_error(trace, "cannot open");
    introduce_process(trace);
    write_events(trace);
    return trace->status;
}

/* Rank 0 creates the file first; the others learn whether it could. */
static yk_status make_file(yk_trace *trace, yk_group *group)
{
    int32_t created = YK_OK;
    if (trace->rank == 0)
        created = (int32_t)create_file(trace);
    if (group) {
        char line[YKI_ERROR_LINE];
        yki_error_copy(line, sizeof line);
        YK_TRY(yk_broadcast(group, &created, 1, YK_I32, 0, NULL));
        if (created != YK_OK && trace->rank == 0)
            return yki_error_set_line((yk_status)created, line);
    }
    if (created != YK_OK)
        return trace->rank
                   ? yki_error((yk_status)created, "%s: rank 0 cannot write it", trace->path)
                   : (yk_status)created;
    return trace->rank ? open_trace_file(trace) : YK_OK;
}

static yk_status check_trace_options(const yk_trace_options *options)
{
    bool next = options->first_step == YK_TRACE_NEXT_STEP;
    if ((options->first_step < 0 && !next) || options->steps < 1)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "timeline: %lld steps from step %lld on: expected at least 1 step, and a "
                         "first step of 0 or more, or YK_TRACE_NEXT_STEP",
                         (long long)options->steps, (long long)options->first_step);
    return YK_OK;
}

yk_status yk_trace_open(yk_trace **trace, const char *path, yk_group *group,
                        const yk_trace_options *options)
{
    YKI_NOT_NULL(trace);
    *trace = NULL;
    YKI_NOT_NULL(path);
    yk_trace_options o;
    YK_TRY(YKI_READ_OPTIONS(&o, options, yk_trace_options, YK_TRACE_OPTIONS_INIT));
    YK_TRY(check_trace_options(&o));
    if (atomic_exchange(&is_open, true))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s: another timeline is open", path);
    yk_trace *made = yki_calloc(1, sizeof *made);
    char *copy = yki_strdup(path);
    if (!made || !copy) {
        free(made);
        free(copy);
        atomic_store(&is_open, false);
        return yki_error_memory(sizeof *made, "a timeline");
    }
    made->fd = -1;
    made->path = copy;
    made->rank = group ? yk_group_rank(group) : 0;
    made->options = o;
    yki_trace_name_thread("compute", YKI_TRACE_COMPUTE);
    yk_status status = make_file(made, group);
    if (status != YK_OK) {
        made->finished = true;
        made->status = YK_OK; /* reported here */
        yk_trace_close(made);
        return status;
    }
    *trace = made;
    return YK_OK;
}

static void finish_trace(yk_trace *trace)
{
    trace->finished = true;
    if (!trace->recording)
        return;
    trace->recording = false;
    yki_trace_stop();
    flush_trace(trace);
    if (yki_trace_dropped())
        YKI_WARN("%s: %lld events did not fit and are missing", trace->path,
                 (long long)yki_trace_dropped());
}

yk_status yk_trace_close(yk_trace *trace)
{
    if (!trace)
        return YK_OK;
    finish_trace(trace);
    if (trace->fd >= 0 && close(trace->fd))
        trace_error(trace, "cannot close");
    yk_status status = trace->status;
    if (status != YK_OK)
        yki_error_set_line(status, trace->error);
    free(trace->path);
    free(trace);
    atomic_store(&is_open, false);
    return status;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Whether this step is after all requested ones. */
static bool is_past_window(const yk_trace *trace, int64_t step)
{
    return step >= trace->options.first_step &&
           step - trace->options.first_step >= trace->options.steps;
}

void yk_trace_step_begin(yk_trace *trace, int64_t step)
{
    if (!trace || trace->finished)
        return;
    if (trace->options.first_step == YK_TRACE_NEXT_STEP)
        trace->options.first_step = step;
    if (is_past_window(trace, step)) {
        finish_trace(trace);
        return;
    }
    if (!trace->recording && step >= trace->options.first_step) {
        trace->recording = true;
        trace->flushed_s = yki_now();
        yki_trace_start();
    }
    trace->step = step;
    trace->step_begin = yki_trace_begin();
}

void yk_trace_step_end(yk_trace *trace)
{
    if (!trace || !trace->recording)
        return;
    YKI_TRACE_END(trace->step_begin, YKI_NO_ARGS, "step %lld", (long long)trace->step);
    trace->step_begin = 0;
    if (is_past_window(trace, trace->step + 1))
        finish_trace(trace);
    else if (yki_now() - trace->flushed_s > FLUSH_S || yki_trace_fill() > FLUSH_FILL)
        flush_trace(trace);
}

/* ---- spans of the user's own ----------------------------------------------------------------- */

static _Thread_local struct {
    int depth;
    double begin[DEPTH];
    char name[DEPTH][YKI_TRACE_NAME];
} spans;

void yk_trace_begin(const char *name)
{
    int depth = spans.depth++;
    if (depth >= DEPTH)
        return;
    spans.begin[depth] = yki_trace_begin();
    if (spans.begin[depth] > 0)
        snprintf(spans.name[depth], sizeof spans.name[depth], "%s", name ? name : "");
}

void yk_trace_end(void)
{
    if (spans.depth == 0 || --spans.depth >= DEPTH)
        return;
    YKI_TRACE_END(spans.begin[spans.depth], YKI_NO_ARGS, "%s", spans.name[spans.depth]);
}

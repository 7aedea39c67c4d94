/*
 * See flight_recorder.h. The file, flight-recorder-RANK.json, is one object:
 *
 *     {"version": "yoke 1", "rank": 1, "world_size": 2, "host": "n1", "pid": 4242,
 *      "reason": "...",
 *      "pg_config": {"0": {"name": "group/0", "desc": "shm", "ranks": "[0, 1]"}},
 *      "pg_status": {"0": {"last_started_collective": 8, "last_completed_collective": 7}},
 *      "entries": [{"pg_id": 0, "process_group": ["group/0", "shm"], "collective_seq_id": 8, ...}]}
 *
 * Times are in nanoseconds since 1970, by the clock of the host.
 */
#define _GNU_SOURCE
#include "comm/flight_recorder.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/c_locale.h"
#include "base/folder.h"
#include "comm/job/describe.h"

/* Of this process. */
static struct {
    pthread_mutex_t lock;
    yki_flight_ring *rings;
    uint64_t ticks;        /* when the first ring was made, */
    double now;            /* the same by yki_now() */
    char folder[PATH_MAX]; /* "": none */
    char path[PATH_MAX];   /* of the file, once it is written */
} recorder = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- rings ----------------------------------------------------------------------------------- */

void yki_flight_init(yki_flight_ring *ring, const yki_job *job, const char *backend)
{
    ring->job = job;
    ring->backend = backend;
    pthread_mutex_lock(&recorder.lock);
    if (!recorder.rings)
        recorder.path[0] = '\0'; /* what a job of before has written is history */
    if (!recorder.ticks) {
        recorder.ticks = yki_ticks();
        recorder.now = yki_now();
    }
    yki_flight_ring **last = &recorder.rings;
    while (*last)
        last = &(*last)->next;
    *last = ring;
    pthread_mutex_unlock(&recorder.lock);
}

void yki_flight_fini(yki_flight_ring *ring)
{
    pthread_mutex_lock(&recorder.lock);
    for (yki_flight_ring **at = &recorder.rings; *at; at = &(*at)->next)
        if (*at == ring) {
            *at = ring->next;
            break;
        }
    pthread_mutex_unlock(&recorder.lock);
}

void yki_flight_set_folder(const char *folder)
{
    pthread_mutex_lock(&recorder.lock);
    snprintf(recorder.folder, sizeof recorder.folder, "%s", folder);
    recorder.path[0] = '\0';
    pthread_mutex_unlock(&recorder.lock);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* A text with its quotes; what is not printable ASCII becomes '?'. */
static void write_text(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', file);
        fputc(*text >= ' ' && *text <= '~' ? *text : '?', file);
    }
    fputc('"', file);
}

/* ---- times ----------------------------------------------------------------------------------- */

/* How ticks become times, as of the moment of writing. */
typedef struct tick_scale {
    uint64_t ticks;   /* now */
    double per_s;     /* ticks a second */
    int64_t epoch_ns; /* now, since 1970 */
} tick_scale;

static tick_scale measure_ticks(void)
{
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    tick_scale scale = {.ticks = yki_ticks(),
                        .epoch_ns = (int64_t)wall.tv_sec * 1000000000 + wall.tv_nsec};
    double seconds = yki_now() - recorder.now;
    scale.per_s = seconds > 0 ? (double)(scale.ticks - recorder.ticks) / seconds : 1e9;
    return scale;
}

static double seconds_between(const tick_scale *scale, uint64_t from, uint64_t to)
{
    return (double)(int64_t)(to - from) / scale->per_s;
}

/* In nanoseconds since 1970; null for 0. */
static void write_time(FILE *file, const tick_scale *scale, const char *name, uint64_t ticks)
{
    if (ticks)
        fprintf(file, ", \"%s\": %lld", name,
                (long long)scale->epoch_ns -
                    llround(1e9 * seconds_between(scale, ticks, scale->ticks)));
    else
        fprintf(file, ", \"%s\": null", name);
}

/* ---- an entry -------------------------------------------------------------------------------- */

/* A copy of an entry that another thread may be writing. */
typedef struct call_record {
    uint64_t sequence;
    yk_descriptor what;
    uint64_t submitted, started, ended;
    int state;
} call_record;

static call_record read_entry(const yki_flight_entry *entry)
{
    call_record record;
    yki_flight_words words;
    for (int i = 0; i < 2; i++)
        words.word[i] = atomic_load_explicit(&entry->what[i], memory_order_relaxed);
    memcpy(&record.what, &words, sizeof words);
    record.sequence = atomic_load_explicit(&entry->sequence, memory_order_relaxed);
    record.submitted = atomic_load_explicit(&entry->submitted, memory_order_relaxed);
    record.started = atomic_load_explicit(&entry->started, memory_order_relaxed);
    record.state = atomic_load_explicit(&entry->state, memory_order_relaxed);
    bool over = record.state != YKI_FLIGHT_STARTED;
    record.ended = over ? atomic_load_explicit(&entry->ended, memory_order_relaxed) : 0;
    return record;
}

static void write_entry(FILE *file, const tick_scale *scale, const yki_flight_ring *ring, int group,
                        uint64_t number)
{
    static const char *const states[] = {"started", "completed", "failed"};
    call_record record = read_entry(&ring->entries[number % YKI_FLIGHT_ENTRIES]);
    char words[YKI_WORDS], name[2 * YKI_WORDS];
    bool message = !yki_flight_is_collective(&record.what);
    yki_describe(words, ring->job, &record.what);
    snprintf(name, sizeof name, "%s:%s", ring->backend, words);
    fprintf(file, "{\"record_id\": %llu, \"pg_id\": %d, \"process_group\": [",
            (unsigned long long)number, group);
    write_text(file, ring->job->prefix);
    fprintf(file, ", \"%s\"], \"collective_seq_id\": %llu, \"p2p_seq_id\": %llu, ", ring->backend,
            message ? 0 : (unsigned long long)record.sequence,
            message ? (unsigned long long)record.sequence : 0);
    fputs("\"profiling_name\": ", file);
    write_text(file, name);
    fprintf(file, ", \"input_sizes\": [[%llu]], \"input_dtypes\": [\"%s\"], \"state\": \"%s\"",
            (unsigned long long)record.what.count,
            record.what.dtype < YK_DTYPE_COUNT ? yk_dtype_name((yk_dtype)record.what.dtype) : "?",
            states[record.state]);
    write_time(file, scale, "time_created_ns", record.submitted);
    write_time(file, scale, "time_discovered_started_ns", record.started);
    write_time(file, scale, "time_discovered_completed_ns", record.ended);
    if (record.ended)
        fprintf(file, ", \"duration_ms\": %.3f",
                1e3 * seconds_between(scale, record.started, record.ended));
    fprintf(file, ", \"retired\": %s, \"is_p2p\": %s, \"timeout_ms\": ",
            record.state == YKI_FLIGHT_COMPLETED ? "true" : "false", message ? "true" : "false");
    if (isfinite(ring->job->timeout_s))
        fprintf(file, "%.0f}", 1e3 * ring->job->timeout_s);
    else
        fputs("null}", file);
}

/* ---- the file -------------------------------------------------------------------------------- */

static uint64_t first_of(uint64_t count)
{
    return count > YKI_FLIGHT_ENTRIES ? count - YKI_FLIGHT_ENTRIES : 0;
}

static void write_config(FILE *file, const yki_flight_ring *ring, int group)
{
    fprintf(file, "%s\"%d\": {\"name\": ", group ? ", " : "", group);
    write_text(file, ring->job->prefix);
    fprintf(file, ", \"desc\": \"%s\", \"ranks\": \"[", ring->backend);
    for (int r = 0; r < ring->job->world; r++)
        fprintf(file, "%s%d", r ? ", " : "", yki_job_rank(ring->job, r));
    fputs("]\"}", file);
}

static void write_status(FILE *file, const yki_flight_ring *ring, int group)
{
    uint64_t started = atomic_load_explicit(&ring->last_started, memory_order_relaxed);
    uint64_t completed = atomic_load_explicit(&ring->last_completed, memory_order_relaxed);
    fprintf(file,
            "%s\"%d\": {\"last_started_collective\": %llu, \"last_completed_collective\": %llu}",
            group ? ", " : "", group, (unsigned long long)started, (unsigned long long)completed);
}

static void write_entries(FILE *file)
{
    int group = 0;
    const char *separator = "\n";
    tick_scale scale = measure_ticks();
    for (const yki_flight_ring *ring = recorder.rings; ring; ring = ring->next, group++) {
        uint64_t count = atomic_load_explicit(&ring->count, memory_order_relaxed);
        for (uint64_t i = first_of(count); i < count; i++) {
            fputs(separator, file);
            write_entry(file, &scale, ring, group, i);
            separator = ",\n";
        }
    }
}

static void write_file(FILE *file, int rank, int world, const char *reason)
{
    char host[256] = "";
    int group = 0;
    gethostname(host, sizeof host - 1);
    fprintf(file, "{\"version\": \"yoke 1\", \"rank\": %d, \"world_size\": %d, \"host\": ", rank,
            world);
    write_text(file, host);
    fprintf(file, ", \"pid\": %d, \"reason\": ", (int)getpid());
    write_text(file, reason);
    fputs(",\n \"pg_config\": {", file);
    for (const yki_flight_ring *ring = recorder.rings; ring; ring = ring->next)
        write_config(file, ring, group++);
    fputs("},\n \"pg_status\": {", file);
    group = 0;
    for (const yki_flight_ring *ring = recorder.rings; ring; ring = ring->next)
        write_status(file, ring, group++);
    fputs("},\n \"entries\": [", file);
    write_entries(file);
    fputs("]}\n", file);
}

static yk_status file_error(const char *path)
{
    return yki_error(YK_ERROR_IO, "%s: %s", path, strerror(errno));
}

/* Whole or not at all: written under another name first. */
static yk_status create_file(const char *path, int rank, int world, const char *reason)
{
    char temporary[PATH_MAX + 8];
    snprintf(temporary, sizeof temporary, "%s.tmp", path);
    YK_TRY(yki_make_folders_above(path));
    FILE *file = fopen(temporary, "we");
    if (!file)
        return file_error(path);
    void *before = yki_c_locale_begin();
    write_file(file, rank, world, reason);
    yki_c_locale_end(before);
    bool written = !ferror(file);
    written = fclose(file) == 0 && written;
    if (written && rename(temporary, path) == 0)
        return YK_OK;
    yk_status status = file_error(path);
    unlink(temporary);
    return status;
}

/* The rank in the whole job: parts of its groups number their own. */
static int job_rank(const yki_job *job)
{
    return yki_job_rank(job, job->rank);
}

/* The user's folder, or the program's, or that of a launcher for the files of this rank, which
 * torchrun always has; "" if there is none. */
static void choose_folder(char folder[PATH_MAX])
{
    const char *chosen = getenv("YOKE_FLIGHT_RECORDER"), *file = getenv("TORCHELASTIC_ERROR_FILE");
    const char *slash = file ? strrchr(file, '/') : NULL;
    if (chosen && *chosen)
        snprintf(folder, PATH_MAX, "%s", chosen);
    else if (recorder.folder[0] || !slash)
        snprintf(folder, PATH_MAX, "%s", recorder.folder);
    else
        snprintf(folder, PATH_MAX, "%.*s", (int)(slash - file), file);
}

/* Sets recorder.path, unless it is set already or there is nowhere to write. */
static yk_status write_once(const yki_job *job, const char *reason)
{
    char folder[PATH_MAX], path[PATH_MAX];
    choose_folder(folder);
    if (recorder.path[0] || !*folder)
        return YK_OK;
    if (snprintf(path, sizeof path, "%s/flight-recorder-%d.json", folder, job_rank(job)) >=
        (int)sizeof path)
        return yki_path_too_long(folder);
    YK_TRY(create_file(path, job_rank(job), job->job_world, reason));
    memcpy(recorder.path, path, sizeof path);
    return YK_OK;
}

yk_status yki_flight_write(const yki_job *job, yk_status status)
{
    char reason[YKI_ERROR_LINE], path[PATH_MAX], why[YKI_ERROR_LINE];
    snprintf(reason, sizeof reason, "%s", yki_error_text());
    pthread_mutex_lock(&recorder.lock);
    yk_status written = write_once(job, reason);
    memcpy(path, recorder.path, sizeof path);
    pthread_mutex_unlock(&recorder.lock);
    snprintf(why, sizeof why, "%s", yki_error_text());
    if (written != YK_OK)
        return yki_error(status, "%s (its last calls cannot be written: %s)", reason, why);
    return path[0] ? yki_error(status, "%s (its last calls are in %s)", reason, path)
                   : yki_error(status, "%s", reason);
}

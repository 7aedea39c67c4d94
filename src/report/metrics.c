/*
 * metrics.jsonl: one JSON object per line and one write per record, so that a reader that follows
 * the file never sees half a record. Numbers that JSON cannot express (NaN, infinities) are written
 * as null. A lock prevents a second writer.
 *
 * Before each record the path is looked up. If the file there is not the open one, because someone
 * has removed or renamed it or its folder, records continue in a new file at the path, beside the
 * run's new checkpoints, and the log reports it.
 */
#define _GNU_SOURCE
#include <yoke/report.h>
#include <yoke/train.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/c_locale.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/memory.h"
#include "io/atomic_file.h"
#include "io/json.h"

enum { FORMAT_VERSION = 1, MAX_RECORD = 1024 /* bytes of the record of a step or an epoch */ };

struct yk_metrics {
    int fd;
    int echo_fd; /* see yk_metrics_echo; -1: none */
    bool echo_failed;
    char *path;
    char *header; /* its line, in case a new file must be started; NULL before it is written */
};

static yk_status metrics_error(const yk_metrics *metrics, const char *what)
{
    return yki_error(YK_ERROR_IO, "%s: %s: %s", metrics->path, what, strerror(errno));
}

/* ---- opening --------------------------------------------------------------------------------- */

static yk_status read_error(const yk_metrics *metrics)
{
    return metrics_error(metrics, "cannot read");
}

/* Moves *end back to the end of the last line that is complete there; 0 without one. */
static yk_status find_line_end(const yk_metrics *metrics, off_t *end)
{
    char block[4096];
    while (*end > 0) {
        size_t size = *end < (off_t)sizeof block ? (size_t)*end : sizeof block;
        ssize_t got = pread(metrics->fd, block, size, *end - (off_t)size);
        if (got != (ssize_t)size)
            return read_error(metrics);
        const char *newline = memrchr(block, '\n', size);
        if (newline) {
            *end -= (off_t)size - (newline + 1 - block);
            return YK_OK;
        }
        *end -= (off_t)size;
    }
    return YK_OK;
}

static yk_status cut_metrics(const yk_metrics *metrics, off_t end)
{
    return ftruncate(metrics->fd, end) == 0 ? YK_OK : metrics_error(metrics, "cannot truncate");
}

static yk_status lock_within(const yk_metrics *metrics, double patience_s)
{
    const double end = yki_now() + patience_s;
    for (bool told = false; !yki_lock(metrics->fd); told = true) {
        if (yki_now() >= end)
            return yki_error(YK_ERROR_IO, "%s: another process is writing it", metrics->path);
        if (!told)
            YKI_WARN("%s: another process is writing it; waiting up to %g s for its end",
                     metrics->path, patience_s);
        usleep(50000);
    }
    return YK_OK;
}

/* Opens and locks the file, creates its folders, and removes an incomplete last line. */
static yk_status open_metrics_file(yk_metrics *metrics, double patience_s)
{
    struct stat info;
    YK_TRY(yki_make_folders_above(metrics->path));
    metrics->fd = open(metrics->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (metrics->fd < 0)
        return metrics_error(metrics, "cannot open");
    YK_TRY(lock_within(metrics, patience_s));
    if (fstat(metrics->fd, &info) != 0)
        return metrics_error(metrics, "cannot look at it");
    off_t end = info.st_size;
    YK_TRY(find_line_end(metrics, &end));
    return cut_metrics(metrics, end);
}

static void close_file(yk_metrics *metrics)
{
    if (metrics->fd >= 0)
        close(metrics->fd);
    metrics->fd = -1;
}

yk_status yk_metrics_open_within(yk_metrics **metrics, const char *path, double patience_s)
{
    YKI_NOT_NULL(metrics);
    *metrics = NULL;
    YKI_NOT_NULL(path);
    yk_metrics *made = yki_calloc(1, sizeof *made);
    char *copy = yki_strdup(path);
    if (!made || !copy) {
        free(made);
        free(copy);
        return yki_error_memory(sizeof *made, "metrics");
    }
    *made = (yk_metrics){.fd = -1, .echo_fd = -1, .path = copy};
    yk_status status = open_metrics_file(made, patience_s);
    if (status != YK_OK) {
        yk_metrics_close(made);
        return status;
    }
    *metrics = made;
    return YK_OK;
}

yk_status yk_metrics_open(yk_metrics **metrics, const char *path)
{
    return yk_metrics_open_within(metrics, path, 0);
}

void yk_metrics_close(yk_metrics *metrics)
{
    if (!metrics)
        return;
    close_file(metrics);
    free(metrics->header);
    free(metrics->path);
    free(metrics);
}

/* ---- resuming from a checkpoint ------------------------------------------------------------- */

/* What a line is to a run that resumes from a step. */
typedef enum place { BEFORE, UNKNOWN, AFTER } place;

/* The evaluation at the step itself belongs after it unless `evaluated` is true. What else is of
 * that step may be on either side of the evaluation. */
static place place_of(const char *line, int64_t step, bool evaluated)
{
    cJSON *record = yki_json_parse(line);
    const cJSON *of = cJSON_GetObjectItemCaseSensitive(record, "step");
    bool evaluation = cJSON_GetObjectItemCaseSensitive(record, "val_loss") != NULL;
    double at = cJSON_IsNumber(of) ? of->valuedouble : (double)NAN;
    bool later = at > (double)step || (at == (double)step && evaluation && !evaluated);
    cJSON_Delete(record);
    return later ? AFTER : at < (double)step ? BEFORE : UNKNOWN;
}

/* Finds the beginning of the line that ends at end, and its place. */
static yk_status look_at_line(const yk_metrics *metrics, off_t end, off_t *begin, int64_t step,
                              bool evaluated, place *found)
{
    *begin = end - 1;
    YK_TRY(find_line_end(metrics, begin));
    size_t length = (size_t)(end - *begin);
    char *line = yki_calloc(length + 1, 1);
    if (!line)
        return yki_error_memory(length + 1, "a record of metrics");
    ssize_t got = pread(metrics->fd, line, length, *begin);
    *found = place_of(line, step, evaluated);
    free(line);
    return got == (ssize_t)length ? YK_OK : read_error(metrics);
}

/*
 * Finds where the first record after the step begins. Steps rise within a file, so that only its
 * end is read, however long the run has been. It is unknown whether unreadable records are later,
 * so they stay.
 */
static yk_status find_later(const yk_metrics *metrics, int64_t step, bool evaluated, off_t *later)
{
    struct stat info;
    place found = UNKNOWN;
    if (fstat(metrics->fd, &info) != 0)
        return read_error(metrics);
    *later = info.st_size;
    for (off_t end = info.st_size, begin; end > 0 && found != BEFORE; end = begin) {
        YK_TRY(look_at_line(metrics, end, &begin, step, evaluated, &found));
        *later = found == AFTER ? begin : *later;
    }
    return YK_OK;
}

yk_status yk_metrics_rewind(yk_metrics *metrics, int64_t step, bool evaluated)
{
    off_t later = 0;
    YKI_NOT_NULL(metrics);
    YK_TRY(find_later(metrics, step, evaluated, &later));
    return cut_metrics(metrics, later);
}

void yk_metrics_echo(yk_metrics *metrics, int fd)
{
    if (metrics)
        metrics->echo_fd = fd;
}

/* ---- writing lines --------------------------------------------------------------------------- */

/* The file was moved away, so further records go into a new one. */
static yk_status begin_again(yk_metrics *metrics)
{
    YKI_WARN("%s: was removed or renamed while the run was writing it; a new file takes the "
             "records from here on",
             metrics->path);
    close_file(metrics);
    YK_TRY(open_metrics_file(metrics, 0));
    return metrics->header
               ? yki_write_all(metrics->fd, metrics->path, metrics->header, strlen(metrics->header))
               : YK_OK;
}

/* Warns once if that fails, unless the reader has gone or the file is closed. */
static void echo_line(yk_metrics *metrics, const char *line, size_t length)
{
    bool echoes = metrics->echo_fd >= 0 && yk_stop_may_write(metrics->echo_fd);
    if (!echoes || write(metrics->echo_fd, line, length) >= 0 || metrics->echo_failed ||
        errno == EPIPE || errno == EBADF)
        return;
    metrics->echo_failed = true;
    YKI_WARN("records cannot be printed: %s; the run continues, and lines are lost",
             strerror(errno));
}

static yk_status write_metrics_line(yk_metrics *metrics, const char *line, size_t length)
{
    echo_line(metrics, line, length);
    if (!yki_is_at(metrics->fd, metrics->path))
        YK_TRY(begin_again(metrics));
    return yki_write_all(metrics->fd, metrics->path, line, length);
}

enum { TIME_TEXT = 40 };

/* The current time in UTC and ISO 8601, such as "2026-03-01T12:00:00.250Z". */
static const char *time_text(char text[TIME_TEXT])
{
    struct timespec now;
    struct tm date;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &date);
    size_t length = strftime(text, TIME_TEXT, "%Y-%m-%dT%H:%M:%S", &date);
    snprintf(text + length, TIME_TEXT - length, ".%03ldZ", now.tv_nsec / 1000000);
    return text;
}

/* ---- the header ------------------------------------------------------------------------------ */

/* Adds a text to the record; paths in it need not be UTF-8. */
static bool add_header_text(cJSON *record, const char *name, const char *text)
{
    return !text || cJSON_AddItemToObject(record, name, yki_json_string(text));
}

static bool add_header_count(cJSON *record, const char *name, int64_t count)
{
    return cJSON_AddNumberToObject(record, name, (double)count) != NULL;
}

/* A double cannot hold 64 bits, so cJSON gets the digits. */
static bool add_seed(cJSON *record, uint64_t seed)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)seed);
    return cJSON_AddRawToObject(record, "seed", digits) != NULL;
}

/* The record as a line, with the same spaces as other records; to be freed. */
static char *print_header(const cJSON *record)
{
    char *line = NULL;
    size_t size;
    const cJSON *member;
    FILE *stream = open_memstream(&line, &size);
    bool fine = stream != NULL;
    cJSON_ArrayForEach(member, record)
    {
        char *value = yki_json_print(member);
        fine = fine && value &&
               fprintf(stream, "%s\"%s\": %s", member->prev->next ? ", " : "{", member->string,
                       value) > 0;
        free(value);
    }
    fine = fine && fputs("}\n", stream) >= 0;
    if (stream && fclose(stream) != 0)
        fine = false;
    if (fine)
        return line;
    free(line);
    return NULL;
}

yk_status yk_metrics_header(yk_metrics *metrics, const yk_header_record *record)
{
    YKI_NOT_NULL(metrics);
    YKI_NOT_NULL(record);
    char time[TIME_TEXT];
    cJSON *json = cJSON_CreateObject();
    bool made = add_header_text(json, "type", "header") &&
                add_header_count(json, "format", FORMAT_VERSION) &&
                add_header_text(json, "yoke", yk_version()) &&
                add_header_text(json, "arch", record->arch) &&
                add_header_text(json, "data", record->data) &&
                add_header_text(json, "options", record->options) &&
                add_header_count(json, "ranks", record->ranks) &&
                add_header_count(json, "threads", record->threads) &&
                add_header_count(json, "batch_size", record->batch_size) &&
                add_seed(json, record->seed) && add_header_count(json, "step", record->step) &&
                add_header_text(json, "time", time_text(time));
    char *line = made ? print_header(json) : NULL;
    cJSON_Delete(json);
    if (!line)
        return yki_error_memory(MAX_RECORD, "the header of metrics");
    free(metrics->header);
    metrics->header = line;
    return write_metrics_line(metrics, line, strlen(line));
}

/* ---- steps and epochs ------------------------------------------------------------------------ */

typedef struct field {
    const char *name;
    double value;
} field;

/* Counts, such as steps, keep all their digits. */
static int put_number(char *to, size_t size, double value)
{
    if (!isfinite(value))
        return snprintf(to, size, "null");
    bool count = rint(value) == value && fabs(value) <= 0x1p53;
    return snprintf(to, size, count ? "%.0f" : "%.9g", value);
}

static yk_status write_record(yk_metrics *metrics, const char *type, const field *fields,
                              size_t count)
{
    char line[MAX_RECORD], time[TIME_TEXT];
    size_t at = (size_t)snprintf(line, sizeof line, "{\"type\": \"%s\"", type);
    void *before = yki_c_locale_begin();
    for (size_t i = 0; i < count; i++) {
        at += (size_t)snprintf(line + at, sizeof line - at, ", \"%s\": ", fields[i].name);
        at += (size_t)put_number(line + at, sizeof line - at, fields[i].value);
    }
    yki_c_locale_end(before);
    at += (size_t)snprintf(line + at, sizeof line - at, ", \"time\": \"%s\"}\n", time_text(time));
    return write_metrics_line(metrics, line, at);
}

yk_status yk_metrics_step(yk_metrics *metrics, const yk_step_record *record)
{
    YKI_NOT_NULL(metrics);
    YKI_NOT_NULL(record);
    const yk_step_record *r = record;
    field fields[14] = {{"epoch", (double)r->epoch},
                        {"step", (double)r->step},
                        {"loss", r->loss},
                        {"lr", r->lr},
                        {"images_per_s", r->images_per_s},
                        {"data_s", r->data_s},
                        {"compute_s", r->compute_s},
                        {"waiting_s", r->waiting_s},
                        {"exposed_comm_s", r->exposed_comm_s}};
    size_t count = 9;
    if (r->has_grad_norm)
        fields[count++] = (field){"grad_norm", r->grad_norm};
    if (r->scale != 0) {
        fields[count++] = (field){"scale", r->scale};
        fields[count++] = (field){"skipped", (double)r->skipped};
    }
    if (r->steps > 1)
        fields[count++] = (field){"steps", (double)r->steps};
    return write_record(metrics, "step", fields, count);
}

yk_status yk_metrics_epoch(yk_metrics *metrics, const yk_epoch_record *record)
{
    YKI_NOT_NULL(metrics);
    YKI_NOT_NULL(record);
    const yk_epoch_record *r = record;
    field fields[16] = {{"epoch", (double)r->epoch},
                        {"step", (double)r->step},
                        {"train_loss", r->train_loss},
                        {"val_loss", r->val_loss},
                        {"val_accuracy", r->val_accuracy},
                        {"epoch_s", r->epoch_s},
                        {"data_s", r->data_s},
                        {"compute_s", r->compute_s},
                        {"waiting_s", r->waiting_s},
                        {"exposed_comm_s", r->exposed_comm_s}};
    size_t count = 10;
    if (r->slowest_rank >= 0) {
        fields[count++] = (field){"slowest_rank", r->slowest_rank};
        fields[count++] = (field){"waited_s", r->waited_s};
    }
    if (r->has_ema) {
        fields[count++] = (field){"ema_val_loss", r->ema_val_loss};
        fields[count++] = (field){"ema_val_accuracy", r->ema_val_accuracy};
    }
    if (r->has_tta)
        fields[count++] = (field){"tta_val_accuracy", r->tta_val_accuracy};
    if (r->is_partial)
        fields[count++] = (field){"partial", 1};
    return write_record(metrics, "epoch", fields, count);
}

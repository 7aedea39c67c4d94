/*
 * metrics.jsonl: one JSON object a line, one write a record, so that a reader that follows the file
 * never sees half of one. Numbers that JSON does not have (NaN, infinities) are written as null.
 * A lock keeps two writers apart.
 */
#define _GNU_SOURCE
#include <yoke/report.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "base/c_locale.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/memory.h"

struct yk_metrics {
    int fd;
    char *path;
};

static yk_status fail(const yk_metrics *metrics, const char *what)
{
    return yki_error(YK_ERROR_IO, "%s: %s: %s", metrics->path, what, strerror(errno));
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Where the last whole line ends. */
static yk_status find_end(const yk_metrics *metrics, off_t *end)
{
    char block[4096];
    *end = lseek(metrics->fd, 0, SEEK_END);
    while (*end > 0) {
        size_t size = *end < (off_t)sizeof block ? (size_t)*end : sizeof block;
        ssize_t got = pread(metrics->fd, block, size, *end - (off_t)size);
        if (got != (ssize_t)size)
            return fail(metrics, "cannot read");
        const char *newline = memrchr(block, '\n', size);
        if (newline) {
            *end -= (off_t)size - (newline + 1 - block);
            return YK_OK;
        }
        *end -= (off_t)size;
    }
    return YK_OK;
}

static yk_status cut(const yk_metrics *metrics, off_t end)
{
    return ftruncate(metrics->fd, end) == 0 ? YK_OK : fail(metrics, "cannot truncate");
}

static yk_status lock(const yk_metrics *metrics)
{
    if (yki_lock(metrics->fd))
        return YK_OK;
    return yki_error(YK_ERROR_IO, "%s: another process is writing it", metrics->path);
}

yk_status yk_metrics_open(yk_metrics **metrics, const char *path)
{
    *metrics = NULL;
    yk_metrics *made = yki_calloc(1, sizeof *made);
    char *copy = yki_strdup(path);
    if (!made || !copy) {
        free(made);
        free(copy);
        return yki_error_memory(sizeof *made, "metrics");
    }
    *made = (yk_metrics){.path = copy};
    made->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    off_t end;
    yk_status status = made->fd < 0 ? fail(made, "cannot open") : lock(made);
    if (status == YK_OK)
        status = find_end(made, &end);
    if (status == YK_OK)
        status = cut(made, end);
    if (status != YK_OK) {
        yk_metrics_close(made);
        return status;
    }
    *metrics = made;
    return YK_OK;
}

void yk_metrics_close(yk_metrics *metrics)
{
    if (!metrics)
        return;
    if (metrics->fd >= 0)
        close(metrics->fd);
    free(metrics->path);
    free(metrics);
}

/* ---- going on from a checkpoint -------------------------------------------------------------- */

/* Whether a record was written after the step, or, unless it counts, is the step's evaluation. */
static bool is_later(const char *line, int64_t step, bool evaluated)
{
    cJSON *record = cJSON_Parse(line);
    const cJSON *of = cJSON_GetObjectItemCaseSensitive(record, "step");
    bool evaluation = cJSON_HasObjectItem(record, "val_loss");
    bool later =
        cJSON_IsNumber(of) && (of->valuedouble > (double)step ||
                               (of->valuedouble == (double)step && evaluation && !evaluated));
    cJSON_Delete(record);
    return later;
}

yk_status yk_metrics_rewind(yk_metrics *metrics, int64_t step, bool evaluated)
{
    FILE *file = fopen(metrics->path, "re");
    if (!file)
        return fail(metrics, "cannot read");
    char *line = NULL;
    size_t size = 0;
    off_t end = 0;
    ssize_t length;
    bool later = false;
    while (!later && (length = getline(&line, &size, file)) > 0) {
        later = is_later(line, step, evaluated);
        end += later ? 0 : length;
    }
    /* What could not be read is not known to be later, and stays. */
    yk_status status = later || feof(file) ? cut(metrics, end) : fail(metrics, "cannot read");
    free(line);
    fclose(file);
    return status;
}

/* ---- records --------------------------------------------------------------------------------- */

typedef struct field {
    const char *name;
    double value;
} field;

static yk_status write_record(yk_metrics *metrics, const field *fields, size_t count)
{
    char line[1024];
    size_t at = 0;
    void *before = yki_c_locale_begin();
    for (size_t i = 0; i < count; i++) {
        int length =
            snprintf(line + at, sizeof line - at, "%s\"%s\": ", i ? ", " : "{", fields[i].name);
        at += (size_t)length;
        length = isfinite(fields[i].value)
                     ? snprintf(line + at, sizeof line - at, "%.9g", fields[i].value)
                     : snprintf(line + at, sizeof line - at, "null");
        at += (size_t)length;
    }
    yki_c_locale_end(before);
    at += (size_t)snprintf(line + at, sizeof line - at, "}\n");
    ssize_t written = write(metrics->fd, line, at);
    return written == (ssize_t)at ? YK_OK : fail(metrics, "cannot write");
}

yk_status yk_metrics_step(yk_metrics *metrics, const yk_step_record *r)
{
    field fields[12] = {{"epoch", (double)r->epoch},
                        {"step", (double)r->step},
                        {"loss", r->loss},
                        {"lr", r->lr},
                        {"images_per_s", r->images_per_s},
                        {"data_s", r->data_s},
                        {"compute_s", r->compute_s},
                        {"exposed_comm_s", r->exposed_comm_s}};
    size_t count = 8;
    if (r->has_grad_norm)
        fields[count++] = (field){"grad_norm", r->grad_norm};
    if (r->scale != 0) {
        fields[count++] = (field){"scale", r->scale};
        fields[count++] = (field){"skipped", r->skipped};
    }
    return write_record(metrics, fields, count);
}

yk_status yk_metrics_epoch(yk_metrics *metrics, const yk_epoch_record *r)
{
    const field fields[] = {{"epoch", (double)r->epoch},
                            {"step", (double)r->step},
                            {"train_loss", r->train_loss},
                            {"val_loss", r->val_loss},
                            {"val_accuracy", r->val_accuracy},
                            {"epoch_s", r->epoch_s},
                            {"data_s", r->data_s},
                            {"compute_s", r->compute_s},
                            {"exposed_comm_s", r->exposed_comm_s},
                            {"ema_val_loss", r->ema_val_loss},
                            {"ema_val_accuracy", r->ema_val_accuracy}};
    size_t count = sizeof fields / sizeof *fields;
    return write_record(metrics, fields, r->has_ema ? count : count - 2);
}

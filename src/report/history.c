/*
 * Reading metrics.jsonl back. A reader may come while the run still writes, and the file may have
 * been edited: lines that are not records are counted and skipped, and so is an incomplete last
 * line. Records after the step that a later header resumes from were removed by the writer
 * (yk_metrics_rewind); should some be left, because the resumed run wrote into another file, they
 * are dropped here.
 */
#define _GNU_SOURCE
#include <yoke/report.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/c_locale.h"
#include "base/error.h"
#include "base/memory.h"
#include "io/json.h"

/* ---- members --------------------------------------------------------------------------------- */

/* The number, or NaN where it is null or missing. */
static double real(const cJSON *record, const char *name)
{
    const cJSON *member = cJSON_GetObjectItemCaseSensitive(record, name);
    return cJSON_IsNumber(member) ? member->valuedouble : (double)NAN;
}

/* The number if it is an integer that a double holds exactly, else 0. */
static int64_t integer(const cJSON *record, const char *name)
{
    double value = real(record, name);
    return fabs(value) <= 0x1p53 ? (int64_t)value : 0;
}

static bool has(const cJSON *record, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(record, name) != NULL;
}

/* A copy of the text, NULL where there is none; *fine becomes false when memory runs out. */
static const char *text(const cJSON *record, const char *name, bool *fine)
{
    cJSON *member = cJSON_GetObjectItemCaseSensitive(record, name);
    if (!cJSON_IsString(member))
        return NULL;
    char *copy = yki_strdup(yki_json_bytes(member));
    *fine = *fine && copy;
    return copy;
}

/* ---- records --------------------------------------------------------------------------------- */

static void free_header(yk_header_record *header)
{
    free((char *)header->arch);
    free((char *)header->data);
    free((char *)header->options);
}

static void drop_after(yk_metrics_history *h, int64_t step)
{
    while (h->step_count > 0 && h->steps[h->step_count - 1].step > step)
        h->step_count--;
    while (h->epoch_count > 0 && h->epochs[h->epoch_count - 1].step > step)
        h->epoch_count--;
}

/* 64 bits do not fit a double, so the digits are read from the line itself. */
static uint64_t read_seed(const char *line)
{
    const char *at = strstr(line, "\"seed\":");
    return at ? strtoull(at + strlen("\"seed\":"), NULL, 10) : 0;
}

static bool add_header(yk_metrics_history *h, const cJSON *record, const char *line)
{
    bool fine = true;
    yk_header_record header = {.arch = text(record, "arch", &fine),
                               .data = text(record, "data", &fine),
                               .options = text(record, "options", &fine),
                               .ranks = integer(record, "ranks"),
                               .threads = integer(record, "threads"),
                               .batch_size = integer(record, "batch_size"),
                               .seed = read_seed(line),
                               .step = integer(record, "step")};
    free_header(&h->header);
    h->header = header;
    h->starts++;
    drop_after(h, header.step);
    return fine;
}

/* Makes room for one more: doubled whenever count is a power of two. */
static void *grow(void *array, size_t count, size_t size)
{
    if (count & (count - 1))
        return array;
    return realloc(array, (count ? 2 * count : 1) * size);
}

static bool add_step(yk_metrics_history *h, const cJSON *r)
{
    yk_step_record *steps = grow(h->steps, h->step_count, sizeof *steps);
    if (!steps)
        return false;
    h->steps = steps;
    steps[h->step_count++] =
        (yk_step_record){.epoch = integer(r, "epoch"),
                         .step = integer(r, "step"),
                         .steps = has(r, "steps") ? integer(r, "steps") : 1,
                         .loss = real(r, "loss"),
                         .lr = real(r, "lr"),
                         .images_per_s = real(r, "images_per_s"),
                         .data_s = real(r, "data_s"),
                         .compute_s = real(r, "compute_s"),
                         .waiting_s = has(r, "waiting_s") ? real(r, "waiting_s") : 0,
                         .exposed_comm_s = real(r, "exposed_comm_s"),
                         .scale = has(r, "scale") ? real(r, "scale") : 0,
                         .skipped = integer(r, "skipped"),
                         .has_grad_norm = has(r, "grad_norm"),
                         .grad_norm = real(r, "grad_norm")};
    return true;
}

static bool add_epoch(yk_metrics_history *h, const cJSON *r)
{
    yk_epoch_record *epochs = grow(h->epochs, h->epoch_count, sizeof *epochs);
    if (!epochs)
        return false;
    h->epochs = epochs;
    epochs[h->epoch_count++] = (yk_epoch_record){
        .epoch = integer(r, "epoch"),
        .step = integer(r, "step"),
        .train_loss = real(r, "train_loss"),
        .val_loss = real(r, "val_loss"),
        .val_accuracy = real(r, "val_accuracy"),
        .epoch_s = real(r, "epoch_s"),
        .data_s = real(r, "data_s"),
        .compute_s = real(r, "compute_s"),
        .waiting_s = has(r, "waiting_s") ? real(r, "waiting_s") : 0,
        .exposed_comm_s = real(r, "exposed_comm_s"),
        .slowest_rank = has(r, "slowest_rank") ? (int)integer(r, "slowest_rank") : -1,
        .waited_s = has(r, "waited_s") ? real(r, "waited_s") : 0,
        .has_ema = has(r, "ema_val_loss"),
        .ema_val_loss = real(r, "ema_val_loss"),
        .ema_val_accuracy = real(r, "ema_val_accuracy"),
        .has_tta = has(r, "tta_val_accuracy"),
        .tta_val_accuracy = real(r, "tta_val_accuracy"),
        .is_partial = integer(r, "partial") != 0};
    return true;
}

/* False when memory runs out. */
static bool add_line(yk_metrics_history *h, const char *line)
{
    cJSON *record = yki_json_parse(line);
    const char *type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(record, "type"));
    bool fine = true;
    if (type && strcmp(type, "header") == 0)
        fine = add_header(h, record, line);
    else if (type && strcmp(type, "step") == 0)
        fine = add_step(h, record);
    else if (type && strcmp(type, "epoch") == 0)
        fine = add_epoch(h, record);
    else
        h->skipped_lines++;
    cJSON_Delete(record);
    return fine;
}

/* ---- the file -------------------------------------------------------------------------------- */

static yk_status read_lines(yk_metrics_history *h, FILE *file, const char *path)
{
    char *line = NULL;
    size_t size = 0;
    ssize_t length;
    bool fine = true;
    void *before = yki_c_locale_begin();
    while (fine && (length = getline(&line, &size, file)) > 0)
        if (line[length - 1] == '\n')
            fine = add_line(h, line);
    yki_c_locale_end(before);
    free(line);
    if (!fine)
        return yki_error_memory(h->step_count * sizeof *h->steps, "the records of a run");
    return ferror(file) ? yki_error(YK_ERROR_IO, "%s: cannot read: %s", path, strerror(errno))
                        : YK_OK;
}

/* A pipe is not waited for. */
static yk_status open_records(FILE **file, const char *path)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (!*file)
        return yki_error(errno == ENOENT ? YK_ERROR_NOT_FOUND : YK_ERROR_IO, "%s: %s", path,
                         strerror(errno));
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode))
        return YK_OK;
    fclose(*file);
    return yki_error(YK_ERROR_IO, "%s: is not a file", path);
}

yk_status yk_metrics_read(yk_metrics_history **history, const char *path)
{
    FILE *file;
    YKI_NOT_NULL(history);
    *history = NULL;
    YKI_NOT_NULL(path);
    YK_TRY(open_records(&file, path));
    yk_metrics_history *made = yki_calloc(1, sizeof *made);
    yk_status status = made ? read_lines(made, file, path)
                            : yki_error_memory(sizeof *made, "the records of a run");
    fclose(file);
    if (status != YK_OK) {
        yk_metrics_history_destroy(made);
        return status;
    }
    *history = made;
    return YK_OK;
}

void yk_metrics_history_destroy(yk_metrics_history *history)
{
    if (!history)
        return;
    free_header(&history->header);
    free(history->steps);
    free(history->epochs);
    free(history);
}

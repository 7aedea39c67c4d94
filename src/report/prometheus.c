/*
 * The state of a run in Prometheus' text format, version 0.0.4
 * (https://prometheus.io/docs/instrumenting/exposition_formats/), in a file that is replaced at
 * most once a second, so that a reader such as node_exporter's textfile collector always finds a
 * whole one. Every sample has the label "run", so that files of several runs can lie in one folder.
 *
 * The file is a view that may be lost: after a failure to write it the run continues.
 */
#define _GNU_SOURCE
#include <yoke/report.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/c_locale.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "io/atomic_file.h"

static const double INTERVAL_S = 1;

struct yk_prometheus {
    char *path, *temporary;
    char *labels;     /* run, arch and data: those of yoke_run_info */
    size_t run_label; /* how much of labels is the run's alone */
    int64_t ranks, batch_size;
    double written_s;         /* when the file was last replaced */
    bool warned;              /* that the file cannot be replaced at present */
    bool has_step, has_epoch; /* whether there is a record yet */
    int64_t skipped_steps;
    yk_step_record step;
    yk_epoch_record epoch;
    FILE *stream; /* into text, while that is composed */
    char *text;   /* of the whole file, while that is replaced */
    size_t length;
};

/* ---- text ------------------------------------------------------------------------------------ */

/* Writes a label with what the format wants escaped; bytes that are not UTF-8, which paths may
 * have, as \xHH. False when memory runs out. */
static bool put_label(FILE *stream, const char *name, const char *value)
{
    char *text = yki_utf8_shown(value ? value : "");
    fprintf(stream, "%s=\"", name);
    for (const char *at = text; at && *at; at++) {
        if (strchr("\\\"\n", *at))
            fputc('\\', stream);
        fputc(*at == '\n' ? 'n' : *at, stream);
    }
    fputc('"', stream);
    free(text);
    return text != NULL;
}

static void add_family(yk_prometheus *p, const char *name, const char *type, const char *help)
{
    fprintf(p->stream, "# HELP yoke_%s %s\n# TYPE yoke_%s %s\n", name, help, name, type);
}

/* part: a further label, or NULL. */
static void add_sample(yk_prometheus *p, const char *name, const char *part, double value)
{
    fprintf(p->stream, "yoke_%s{%.*s", name, (int)p->run_label, p->labels);
    if (part)
        fprintf(p->stream, ",part=\"%s\"", part);
    if (isfinite(value))
        fprintf(p->stream, "} %.17g\n", value);
    else
        fprintf(p->stream, "} %s\n", isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf");
}

static void add_gauge(yk_prometheus *p, const char *name, const char *help, double value)
{
    add_family(p, name, "gauge", help);
    add_sample(p, name, NULL, value);
}

static void add_counter(yk_prometheus *p, const char *name, const char *help, int64_t value)
{
    add_family(p, name, "counter", help);
    add_sample(p, name, NULL, (double)value);
}

/* ---- samples --------------------------------------------------------------------------------- */

static void add_run(yk_prometheus *p)
{
    add_family(p, "run_info", "gauge", "The run: its network and data, with the value 1.");
    fprintf(p->stream, "yoke_run_info{%s,version=\"%s\"} 1\n", p->labels, yk_version());
    add_gauge(p, "ranks", "World size.", (double)p->ranks);
    add_gauge(p, "batch_size", "Samples of a step, over all ranks.", (double)p->batch_size);
}

static void add_step(yk_prometheus *p)
{
    const yk_step_record *r = &p->step;
    add_counter(p, "steps_total", "Optimizer steps completed.", r->step);
    add_gauge(p, "epoch", "The current epoch, from 1.", (double)r->epoch);
    add_gauge(p, "loss", "Training loss of the last step.", r->loss);
    add_gauge(p, "learning_rate", "Learning rate of the last step.", r->lr);
    add_gauge(p, "images_per_second", "Throughput of the last step.", r->images_per_s);
    add_family(p, "step_seconds", "gauge", "Duration of the last step, by what it was spent on.");
    add_sample(p, "step_seconds", "data", r->data_s);
    add_sample(p, "step_seconds", "compute", r->compute_s);
    add_sample(p, "step_seconds", "waiting", r->waiting_s);
    add_sample(p, "step_seconds", "exposed_comm", r->exposed_comm_s);
    if (r->has_grad_norm)
        add_gauge(p, "gradient_norm", "Norm of all gradients before clipping.", r->grad_norm);
    if (r->scale != 0) {
        add_gauge(p, "loss_scale", "Factor of the loss with a gradient scaler.", r->scale);
        add_counter(p, "skipped_steps_total",
                    "Steps that the gradient scaler skipped, since the run was last started.",
                    p->skipped_steps);
    }
}

static void add_epoch(yk_prometheus *p)
{
    const yk_epoch_record *r = &p->epoch;
    add_gauge(p, "epochs_completed", "Epochs completed and evaluated.",
              (double)(r->epoch - r->is_partial));
    add_gauge(p, "epoch_train_loss", "Mean training loss of the last epoch.", r->train_loss);
    add_gauge(p, "validation_loss", "Validation loss after the last epoch.", r->val_loss);
    add_gauge(p, "validation_accuracy", "Validation accuracy after the last epoch, 0 to 1.",
              r->val_accuracy);
    add_gauge(p, "epoch_seconds", "Duration of the last epoch.", r->epoch_s);
    if (!r->has_ema)
        return;
    add_gauge(p, "ema_validation_loss", "Validation loss of the averaged weights.",
              r->ema_val_loss);
    add_gauge(p, "ema_validation_accuracy", "Validation accuracy of the averaged weights.",
              r->ema_val_accuracy);
}

/* Makes text and length; false when memory runs out. */
static bool compose(yk_prometheus *p)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    p->text = NULL;
    p->stream = open_memstream(&p->text, &p->length);
    if (!p->stream)
        return false;
    void *before = yki_c_locale_begin();
    add_run(p);
    if (p->has_step)
        add_step(p);
    if (p->has_epoch)
        add_epoch(p);
    add_gauge(p, "updated_timestamp_seconds", "When these values were written, in Unix time.",
              (double)now.tv_sec);
    yki_c_locale_end(before);
    return fclose(p->stream) == 0;
}

/* ---- the file -------------------------------------------------------------------------------- */

static yk_status cannot_write(const yk_prometheus *p)
{
    return yki_error(YK_ERROR_IO, "%s: cannot write: %s", p->path, strerror(errno));
}

static yk_status write_temporary(const yk_prometheus *p)
{
    int fd = open(p->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return cannot_write(p);
    yk_status status = yki_write_all(fd, p->path, p->text, p->length);
    close(fd);
    return status;
}

static yk_status replace_file(yk_prometheus *p)
{
    p->written_s = yki_now();
    yk_status status = compose(p) ? write_temporary(p) : cannot_write(p);
    if (status == YK_OK && rename(p->temporary, p->path))
        status = cannot_write(p);
    free(p->text);
    if (status != YK_OK)
        unlink(p->temporary);
    return status;
}

static void replace_or_warn(yk_prometheus *p)
{
    bool replaced = replace_file(p) == YK_OK;
    if (!replaced && !p->warned)
        YKI_WARN("%s; the run continues", yki_error_text());
    p->warned = !replaced;
}

static void replace_if_due(yk_prometheus *p)
{
    if (yki_now() - p->written_s >= INTERVAL_S)
        replace_or_warn(p);
}

/* ---- the object ------------------------------------------------------------------------------ */

static bool make_labels(yk_prometheus *p, const char *run, const yk_header_record *header)
{
    size_t size;
    FILE *stream = open_memstream(&p->labels, &size);
    if (!stream)
        return false;
    bool fine = put_label(stream, "run", run);
    fflush(stream);
    p->run_label = size;
    fine = fine && put_label(stream, ",arch", header->arch) &&
           put_label(stream, ",data", header->data);
    return fclose(stream) == 0 && fine;
}

yk_status yk_prometheus_open(yk_prometheus **prometheus, const char *path, const char *run,
                             const yk_header_record *header)
{
    YKI_NOT_NULL(prometheus);
    *prometheus = NULL;
    YKI_NOT_NULL(path);
    YKI_NOT_NULL(run);
    YKI_NOT_NULL(header);
    YK_TRY(yki_check_replaceable(path));
    YK_TRY(yki_make_folders_above(path));
    yk_prometheus *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "metrics for Prometheus");
    made->path = yki_strdup(path);
    if (!made->path || !make_labels(made, run, header) ||
        !(made->temporary = yki_temporary_path(path))) {
        yk_prometheus_close(made);
        return yki_error_memory(strlen(path), "metrics for Prometheus");
    }
    made->ranks = header->ranks;
    made->batch_size = header->batch_size;
    yk_status status = replace_file(made);
    if (status != YK_OK) {
        free(made->path); /* nothing is left to be written */
        made->path = NULL;
        yk_prometheus_close(made);
        return status;
    }
    *prometheus = made;
    return YK_OK;
}

yk_status yk_prometheus_step(yk_prometheus *prometheus, const yk_step_record *record)
{
    YKI_NOT_NULL(prometheus);
    YKI_NOT_NULL(record);
    prometheus->step = *record;
    prometheus->has_step = true;
    prometheus->skipped_steps += record->skipped;
    replace_if_due(prometheus);
    return YK_OK;
}

yk_status yk_prometheus_epoch(yk_prometheus *prometheus, const yk_epoch_record *record)
{
    YKI_NOT_NULL(prometheus);
    YKI_NOT_NULL(record);
    prometheus->epoch = *record;
    prometheus->has_epoch = true;
    replace_or_warn(prometheus);
    return YK_OK;
}

void yk_prometheus_close(yk_prometheus *prometheus)
{
    if (!prometheus)
        return;
    if (prometheus->path && prometheus->temporary)
        replace_or_warn(prometheus);
    free(prometheus->labels);
    free(prometheus->temporary);
    free(prometheus->path);
    free(prometheus);
}

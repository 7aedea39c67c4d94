/*
 * What a run shows in TensorBoard, as protocol buffers in an event file (event_file.h). The
 * messages are those of tensorboard/compat/proto/{event,summary}.proto and
 * tensorboard/plugins/hparams/{api,plugin_data}.proto; the numbers below are their fields. Scalars,
 * pictures and histograms have the form of TensorFlow 1, which needs no metadata and which
 * TensorBoard converts as it reads.
 */
#define _GNU_SOURCE
#include <yoke/report.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/c_locale.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/log.h"
#include "base/memory.h"
#include "device/memory.h"
#include "io/protobuf.h"
#include "report/event_file.h"
#include "report/histogram.h"

enum {
    EVENT_WALL_TIME = 1,
    EVENT_STEP,
    EVENT_FILE_VERSION,
    EVENT_SUMMARY = 5,
    EVENT_SESSION_LOG = 7
};
enum { SUMMARY_VALUE = 1 };
enum {
    VALUE_TAG = 1,
    VALUE_SIMPLE,
    VALUE_IMAGE = 4,
    VALUE_HISTOGRAM,
    VALUE_TENSOR = 8,
    VALUE_METADATA
};
enum { IMAGE_HEIGHT = 1, IMAGE_WIDTH, IMAGE_COLORSPACE, IMAGE_PNG, COLORSPACE_RGB = 3 };
enum {
    HISTOGRAM_MIN = 1,
    HISTOGRAM_MAX,
    HISTOGRAM_NUM,
    HISTOGRAM_SUM,
    HISTOGRAM_SUM_SQUARES,
    HISTOGRAM_LIMITS,
    HISTOGRAM_COUNTS
};
enum { SESSION_LOG_STATUS = 1, SESSION_START = 1 };
enum { METADATA_PLUGIN = 1, PLUGIN_NAME = 1, PLUGIN_CONTENT };
enum { TENSOR_DTYPE = 1, TENSOR_SHAPE, SHAPE_DIM = 2, DIM_SIZE = 1, DTYPE_FLOAT = 1 };
enum { HPARAMS_START = 3, HPARAMS_END };
enum { START_HPARAMS = 1, START_TIME = 5, MAP_KEY = 1, MAP_VALUE };
enum { END_STATUS = 1, END_TIME, STATUS_SUCCESS = 1, STATUS_FAILURE };
enum { ANY_NUMBER = 2, ANY_STRING, ANY_BOOL };

struct yk_tensorboard {
    int fd;
    char *folder, *path;
    yki_protobuf event; /* the one that is being written */
};

/* ---- events ---------------------------------------------------------------------------------- */

static double wall_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static yki_protobuf *begin_event(yk_tensorboard *writer)
{
    yki_protobuf_clear(&writer->event);
    yki_protobuf_double(&writer->event, EVENT_WALL_TIME, wall_time());
    return &writer->event;
}

static yki_protobuf *begin_step_event(yk_tensorboard *writer, int64_t step)
{
    yki_protobuf *event = begin_event(writer);
    if (step != 0)
        yki_protobuf_int(event, EVENT_STEP, step);
    return event;
}

static void close_file(yk_tensorboard *writer)
{
    if (writer->fd >= 0)
        close(writer->fd);
    free(writer->path);
}

/* Begins a new file with its first event, the version. */
static yk_status begin_file(yk_tensorboard *writer)
{
    int fd;
    char *path;
    yki_protobuf version = {.size = 0};
    YK_TRY(yki_event_file_create(&fd, &path, writer->folder));
    close_file(writer);
    writer->fd = fd;
    writer->path = path;
    yki_protobuf_double(&version, EVENT_WALL_TIME, wall_time());
    yki_protobuf_text(&version, EVENT_FILE_VERSION, "brain.Event:2");
    yk_status status = yki_event_file_append(fd, path, &version);
    yki_protobuf_fini(&version);
    return status;
}

/* A file that was moved away is continued in a new one. */
static yk_status end_event(yk_tensorboard *writer)
{
    if (!yki_is_at(writer->fd, writer->path)) {
        YKI_WARN("%s: was removed or renamed while the run was writing it; a new file takes the "
                 "events from here on",
                 writer->path);
        YK_TRY(begin_file(writer));
    }
    return yki_event_file_append(writer->fd, writer->path, &writer->event);
}

/* ---- opening and closing --------------------------------------------------------------------- */

/* TensorBoard forgets what earlier files of the folder have from the next step on. */
static yk_status write_restart(yk_tensorboard *writer, int64_t step)
{
    if (step == 0)
        return YK_OK;
    yki_protobuf *event = begin_step_event(writer, step + 1);
    size_t log = yki_protobuf_begin(event, EVENT_SESSION_LOG);
    yki_protobuf_int(event, SESSION_LOG_STATUS, SESSION_START);
    yki_protobuf_end(event, log);
    return end_event(writer);
}

yk_status yk_tensorboard_open(yk_tensorboard **writer, const char *folder, int64_t step)
{
    YKI_NOT_NULL(writer);
    *writer = NULL;
    YKI_NOT_NULL(folder);
    yk_tensorboard *made = yki_calloc(1, sizeof *made);
    char *copy = yki_strdup(folder);
    if (!made || !copy) {
        free(made);
        free(copy);
        return yki_error_memory(sizeof *made, "the writer of TensorBoard's file");
    }
    *made = (yk_tensorboard){.fd = -1, .folder = copy};
    yk_status status = begin_file(made);
    if (status == YK_OK)
        status = write_restart(made, step);
    if (status != YK_OK) {
        yk_tensorboard_close(made);
        return status;
    }
    *writer = made;
    return YK_OK;
}

void yk_tensorboard_close(yk_tensorboard *writer)
{
    if (!writer)
        return;
    close_file(writer);
    yki_protobuf_fini(&writer->event);
    free(writer->folder);
    free(writer);
}

/* ---- scalars --------------------------------------------------------------------------------- */

static void put_scalar(yki_protobuf *event, const char *tag, double value)
{
    size_t item = yki_protobuf_begin(event, SUMMARY_VALUE);
    yki_protobuf_text(event, VALUE_TAG, tag);
    yki_protobuf_float(event, VALUE_SIMPLE, (float)value);
    yki_protobuf_end(event, item);
}

yk_status yk_tensorboard_scalar(yk_tensorboard *writer, const char *tag, int64_t step, double value)
{
    YKI_NOT_NULL(writer);
    YKI_NOT_NULL(tag);
    yki_protobuf *event = begin_step_event(writer, step);
    size_t summary = yki_protobuf_begin(event, EVENT_SUMMARY);
    put_scalar(event, tag, value);
    yki_protobuf_end(event, summary);
    return end_event(writer);
}

yk_status yk_tensorboard_step(yk_tensorboard *writer, const yk_step_record *record)
{
    YKI_NOT_NULL(writer);
    YKI_NOT_NULL(record);
    const yk_step_record *r = record;
    yki_protobuf *event = begin_step_event(writer, r->step);
    size_t summary = yki_protobuf_begin(event, EVENT_SUMMARY);
    const double steps = r->steps > 1 ? (double)r->steps : 1;
    put_scalar(event, "loss/train", r->loss);
    put_scalar(event, "training/learning_rate", r->lr);
    put_scalar(event, "throughput/images_per_s", r->images_per_s);
    put_scalar(event, "seconds_per_step/data", r->data_s / steps);
    put_scalar(event, "seconds_per_step/compute", r->compute_s / steps);
    put_scalar(event, "seconds_per_step/waiting", r->waiting_s / steps);
    put_scalar(event, "seconds_per_step/exposed_comm", r->exposed_comm_s / steps);
    if (r->has_grad_norm)
        put_scalar(event, "training/grad_norm", r->grad_norm);
    if (r->scale != 0) {
        put_scalar(event, "training/loss_scale", r->scale);
        put_scalar(event, "training/skipped", (double)r->skipped);
    }
    yki_protobuf_end(event, summary);
    return end_event(writer);
}

yk_status yk_tensorboard_epoch(yk_tensorboard *writer, const yk_epoch_record *record)
{
    YKI_NOT_NULL(writer);
    YKI_NOT_NULL(record);
    const yk_epoch_record *r = record;
    yki_protobuf *event = begin_step_event(writer, r->step);
    size_t summary = yki_protobuf_begin(event, EVENT_SUMMARY);
    put_scalar(event, "loss/train_epoch", r->train_loss);
    put_scalar(event, "loss/validation", r->val_loss);
    put_scalar(event, "accuracy/validation", r->val_accuracy);
    if (r->has_ema) {
        put_scalar(event, "loss/validation_ema", r->ema_val_loss);
        put_scalar(event, "accuracy/validation_ema", r->ema_val_accuracy);
    }
    if (r->has_tta)
        put_scalar(event, "accuracy/validation_tta", r->tta_val_accuracy);
    put_scalar(event, "throughput/seconds_per_epoch", r->epoch_s);
    yki_protobuf_end(event, summary);
    return end_event(writer);
}

/* ---- pictures and histograms ----------------------------------------------------------------- */

yk_status yk_tensorboard_image(yk_tensorboard *writer, const char *tag, int64_t step,
                               const yk_png *picture)
{
    YKI_NOT_NULL(writer);
    YKI_NOT_NULL(tag);
    YKI_NOT_NULL(picture);
    YKI_NOT_NULL(picture->bytes);
    yki_protobuf *event = begin_step_event(writer, step);
    size_t summary = yki_protobuf_begin(event, EVENT_SUMMARY);
    size_t item = yki_protobuf_begin(event, SUMMARY_VALUE);
    yki_protobuf_text(event, VALUE_TAG, tag);
    size_t image = yki_protobuf_begin(event, VALUE_IMAGE);
    yki_protobuf_int(event, IMAGE_HEIGHT, picture->height);
    yki_protobuf_int(event, IMAGE_WIDTH, picture->width);
    yki_protobuf_int(event, IMAGE_COLORSPACE, COLORSPACE_RGB);
    yki_protobuf_bytes(event, IMAGE_PNG, picture->bytes, picture->size);
    yki_protobuf_end(event, image);
    yki_protobuf_end(event, item);
    yki_protobuf_end(event, summary);
    return end_event(writer);
}

static void put_histogram(yki_protobuf *event, const yki_histogram *h)
{
    size_t histogram = yki_protobuf_begin(event, VALUE_HISTOGRAM);
    yki_protobuf_double(event, HISTOGRAM_MIN, h->minimum);
    yki_protobuf_double(event, HISTOGRAM_MAX, h->maximum);
    yki_protobuf_double(event, HISTOGRAM_NUM, h->count);
    yki_protobuf_double(event, HISTOGRAM_SUM, h->sum);
    yki_protobuf_double(event, HISTOGRAM_SUM_SQUARES, h->sum_of_squares);
    yki_protobuf_doubles(event, HISTOGRAM_LIMITS, h->limit, (size_t)h->bins);
    yki_protobuf_doubles(event, HISTOGRAM_COUNTS, h->in_bin, (size_t)h->bins);
    yki_protobuf_end(event, histogram);
}

static yk_status measure_histogram(yki_histogram *histogram, const yk_tensor *tensor)
{
    yk_tensor seen = *tensor;
    yki_host_view view;
    YK_TRY(yki_host_view_open(&view, tensor, YKI_READ));
    seen.data = view.data;
    yk_status status = yki_histogram_measure(histogram, &seen);
    return yki_host_view_end(&view, status);
}

yk_status yk_tensorboard_histogram(yk_tensorboard *writer, const char *tag, int64_t step,
                                   const yk_tensor *tensor)
{
    yki_histogram histogram;
    YKI_NOT_NULL(writer);
    YKI_NOT_NULL(tag);
    YKI_NOT_NULL(tensor);
    YK_TRY(measure_histogram(&histogram, tensor));
    yki_protobuf *event = begin_step_event(writer, step);
    size_t summary = yki_protobuf_begin(event, EVENT_SUMMARY);
    size_t item = yki_protobuf_begin(event, SUMMARY_VALUE);
    yki_protobuf_text(event, VALUE_TAG, tag);
    put_histogram(event, &histogram);
    yki_protobuf_end(event, item);
    yki_protobuf_end(event, summary);
    return end_event(writer);
}

/* ---- hyperparameters ------------------------------------------------------------------------- */

/* A value with the content of the hparams plugin, whose tensor, which nobody reads, is empty. */
static void put_plugin_value(yki_protobuf *event, const char *tag, const yki_protobuf *content)
{
    size_t summary = yki_protobuf_begin(event, EVENT_SUMMARY);
    size_t item = yki_protobuf_begin(event, SUMMARY_VALUE);
    yki_protobuf_text(event, VALUE_TAG, tag);
    size_t tensor = yki_protobuf_begin(event, VALUE_TENSOR);
    yki_protobuf_int(event, TENSOR_DTYPE, DTYPE_FLOAT);
    size_t shape = yki_protobuf_begin(event, TENSOR_SHAPE);
    size_t dim = yki_protobuf_begin(event, SHAPE_DIM); /* of size 0 */
    yki_protobuf_end(event, dim);
    yki_protobuf_end(event, shape);
    yki_protobuf_end(event, tensor);
    size_t metadata = yki_protobuf_begin(event, VALUE_METADATA);
    size_t plugin = yki_protobuf_begin(event, METADATA_PLUGIN);
    yki_protobuf_text(event, PLUGIN_NAME, "hparams");
    yki_protobuf_bytes(event, PLUGIN_CONTENT, content->data, content->size);
    yki_protobuf_end(event, plugin);
    yki_protobuf_end(event, metadata);
    yki_protobuf_end(event, item);
    yki_protobuf_end(event, summary);
}

/* A number, "true", "false" or a text. */
static void put_value(yki_protobuf *content, const char *text)
{
    char *end;
    void *before = yki_c_locale_begin();
    double number = strtod(text, &end);
    yki_c_locale_end(before);
    bool yes = strcmp(text, "true") == 0;
    if (end != text && !*end)
        yki_protobuf_double(content, ANY_NUMBER, number);
    else if (yes || strcmp(text, "false") == 0)
        yki_protobuf_int(content, ANY_BOOL, yes);
    else
        yki_protobuf_text(content, ANY_STRING, text);
}

static void put_hyperparameter(yki_protobuf *content, const char *name, const char *text)
{
    size_t entry = yki_protobuf_begin(content, START_HPARAMS);
    yki_protobuf_text(content, MAP_KEY, name);
    size_t value = yki_protobuf_begin(content, MAP_VALUE);
    put_value(content, text);
    yki_protobuf_end(content, value);
    yki_protobuf_end(content, entry);
}

/* lines is cut into its texts. */
static void put_start(yki_protobuf *content, char *lines)
{
    size_t start = yki_protobuf_begin(content, HPARAMS_START);
    char *rest, *line = strtok_r(lines, "\n", &rest);
    for (; line; line = strtok_r(NULL, "\n", &rest)) {
        char *value = strchr(line, '=');
        if (!value)
            continue;
        *value = '\0';
        put_hyperparameter(content, line, value + 1);
    }
    yki_protobuf_double(content, START_TIME, wall_time());
    yki_protobuf_end(content, start);
}

static yk_status write_session(yk_tensorboard *writer, const char *tag, yki_protobuf *content)
{
    yki_protobuf *event = begin_event(writer);
    put_plugin_value(event, tag, content);
    event->failed |= content->failed;
    yki_protobuf_fini(content);
    return end_event(writer);
}

yk_status yk_tensorboard_hyperparameters(yk_tensorboard *writer, const char *lines)
{
    YKI_NOT_NULL(writer);
    YKI_NOT_NULL(lines);
    char *copy = yki_strdup(lines);
    if (!copy)
        return yki_error_memory(strlen(lines), "hyperparameters");
    yki_protobuf content = {.size = 0};
    put_start(&content, copy);
    free(copy);
    return write_session(writer, "_hparams_/session_start_info", &content);
}

yk_status yk_tensorboard_finish(yk_tensorboard *writer, bool succeeded)
{
    YKI_NOT_NULL(writer);
    yki_protobuf content = {.size = 0};
    size_t end = yki_protobuf_begin(&content, HPARAMS_END);
    yki_protobuf_int(&content, END_STATUS, succeeded ? STATUS_SUCCESS : STATUS_FAILURE);
    yki_protobuf_double(&content, END_TIME, wall_time());
    yki_protobuf_end(&content, end);
    return write_session(writer, "_hparams_/session_end_info", &content);
}

/**
 * @file
 * What a run records: metrics.jsonl, TensorBoard's event file and the file for Prometheus, which
 * rank 0 writes; the timeline, which all ranks write together; and the progress that Kubeflow
 * shows.
 */
#ifndef YOKE_REPORT_H
#define YOKE_REPORT_H

#include <yoke/group.h>
#include <yoke/status.h>
#include <yoke/tensor.h>

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** How a run was started or resumed: the first record of metrics.jsonl, and one more for each time
 * the run was resumed. */
typedef struct yk_header_record {
    const char *arch;    /**< name of the network; NULL leaves the member out */
    const char *data;    /**< name of the data set; NULL leaves the member out */
    const char *options; /**< the program's options as text; NULL leaves the member out */
    int64_t ranks;       /**< world size */
    int64_t threads;     /**< kernel threads of a rank */
    int64_t batch_size;  /**< samples of a step, over all ranks */
    uint64_t seed;       /**< of initial values, sampling and augmentation */
    int64_t step;        /**< steps completed before: 0 in a new run */
} yk_header_record;

/** The record of one training step, or of several together. Times are seconds of wall clock. */
typedef struct yk_step_record {
    int64_t epoch;         /**< the epoch, from 1 */
    int64_t step;          /**< the step, from 1, counted over all epochs; the last of several */
    int64_t steps;         /**< steps that the record tells of; 0 is taken for 1 */
    double loss;           /**< the loss of the step; the mean of several */
    double lr;             /**< the learning rate of the step */
    double images_per_s;   /**< samples per second */
    double data_s;         /**< time spent waiting for data */
    double compute_s;      /**< time spent computing */
    double waiting_s;      /**< time spent waiting for ranks that had not come as far */
    double exposed_comm_s; /**< time spent moving data while nothing was computed */
    double scale;          /**< of the loss, with a grad scaler; 0 without */
    int64_t skipped;       /**< steps that the grad scaler skipped: 0 or 1 of one step */
    bool has_grad_norm;    /**< whether grad_norm is recorded */
    double grad_norm;      /**< of all gradients together, before clipping; the mean of several */
} yk_step_record;

/** The record of one epoch, after its evaluation. Times are seconds of wall clock. */
typedef struct yk_epoch_record {
    int64_t epoch;           /**< the epoch, from 1 */
    int64_t step;            /**< its last step, counted over all epochs */
    double train_loss;       /**< mean over the epoch's samples */
    double val_loss;         /**< mean over the validation samples */
    double val_accuracy;     /**< fraction of them classified correctly, 0 to 1 */
    double epoch_s;          /**< duration of the epoch */
    double data_s;           /**< sum over the epoch's steps, as in yk_step_record */
    double compute_s;        /**< sum over the epoch's steps */
    double waiting_s;        /**< sum over the epoch's steps */
    double exposed_comm_s;   /**< sum over the epoch's steps */
    int slowest_rank;        /**< the rank that the others waited for; -1 where there is none */
    double waited_s;         /**< how long the other ranks waited for it, on average */
    bool has_ema;            /**< whether the two fields below are recorded */
    double ema_val_loss;     /**< val_loss of the averaged weights */
    double ema_val_accuracy; /**< val_accuracy of the averaged weights */
    bool has_tta;            /**< whether the field below is recorded */
    double tta_val_accuracy; /**< val_accuracy with test-time augmentation */
    bool is_partial;         /**< whether the run ended within the epoch */
} yk_epoch_record;

/** An open metrics.jsonl. */
typedef struct yk_metrics yk_metrics;

/**
 * Opens path for appending, one JSON object per line (docs/file-formats.md); a last line that a
 * crash cut short is removed. Missing folders are created. YK_ERROR_IO while another process has
 * the file open. On failure *metrics is NULL.
 *
 * If the file or its folder is removed or renamed during the run, the next record notices: the
 * records continue in a new file at path, folders included, with the header repeated, and the log
 * has a warning. Only if that fails does the call return YK_ERROR_IO.
 */
yk_status yk_metrics_open(yk_metrics **metrics, const char *path);
/**
 * The same for a run that has been started again: while another process has the file open, it waits
 * for up to patience_s seconds, and the log says so. The process may be one of the attempt before,
 * on a host that has lost the others and does not know it yet. Look for checkpoints afterwards:
 * that process may still have written one.
 */
yk_status yk_metrics_open_within(yk_metrics **metrics, const char *path, double patience_s);
/** When a run resumes from a checkpoint: removes the records that were written after this step, and
 * the step's evaluation unless the checkpoint was saved after it (evaluated). */
yk_status yk_metrics_rewind(yk_metrics *metrics, int64_t step, bool evaluated);
/** From now on every record is also written to this file descriptor, such as a program's standard
 * output. That it cannot be written there is no failure; the log says so once, unless the reader
 * has left. A negative one ends that. NULL is ignored. */
void yk_metrics_echo(yk_metrics *metrics, int fd);
/** Writes the header, with its "type" and the time like every record: after yk_metrics_rewind and
 *  before any step. YK_ERROR_IO names the file. */
yk_status yk_metrics_header(yk_metrics *metrics, const yk_header_record *record);
/** Writes the line of a step; YK_ERROR_IO names the file. */
yk_status yk_metrics_step(yk_metrics *metrics, const yk_step_record *record);
/** Writes the line of an epoch; YK_ERROR_IO names the file. */
yk_status yk_metrics_epoch(yk_metrics *metrics, const yk_epoch_record *record);
/** Closes the file. Accepts NULL. */
void yk_metrics_close(yk_metrics *metrics);

/** What metrics.jsonl has recorded. The arrays are in the order of the file. */
typedef struct yk_metrics_history {
    yk_header_record header; /**< the last one; all zeros where there is none */
    size_t starts;           /**< headers: how often the run was started or resumed */
    yk_step_record *steps;   /**< (step_count) */
    size_t step_count;       /**< steps recorded */
    yk_epoch_record *epochs; /**< (epoch_count) */
    size_t epoch_count;      /**< epochs recorded */
    size_t skipped_lines;    /**< lines that are not records of a type known here */
} yk_metrics_history;

/** Reads a metrics.jsonl, also while a run is writing it; numbers recorded as null are NaN.
 * YK_ERROR_NOT_FOUND where there is none. On failure *history is NULL. */
yk_status yk_metrics_read(yk_metrics_history **history, const char *path);
/** Releases it. Accepts NULL. */
void yk_metrics_history_destroy(yk_metrics_history *history);

/* ---- Prometheus ----------------------------------------------------------------------------- */

/**
 * A file with the present state of a run in Prometheus' text format, for node_exporter's textfile
 * collector. It is replaced at most once a second and after each epoch, and a reader always finds a
 * whole file. If it cannot be written later on, the log has one warning and the run continues.
 */
typedef struct yk_prometheus yk_prometheus;

/** Writes the first file, and missing folders above it. run: the value of the label "run", which
 * tells runs apart; header: the run's network, data, ranks and batch size. YK_ERROR_IO if the file
 * cannot be written. On failure *prometheus is NULL. */
yk_status yk_prometheus_open(yk_prometheus **prometheus, const char *path, const char *run,
                             const yk_header_record *header);
/** Takes over the values of a step. */
yk_status yk_prometheus_step(yk_prometheus *prometheus, const yk_step_record *record);
/** Takes over the values of an epoch. */
yk_status yk_prometheus_epoch(yk_prometheus *prometheus, const yk_epoch_record *record);
/** Writes the file a last time and leaves it. Accepts NULL. */
void yk_prometheus_close(yk_prometheus *prometheus);

/* ---- Kubeflow Trainer ----------------------------------------------------------------------- */

/**
 * The progress of a TrainJob of Kubeflow Trainer 2, whose controller shows it in the job's status.
 * A separate thread sends it, at most once every 5 s, so training never waits. If it cannot be
 * sent, the log has one warning and the run continues. Functions accept NULL and then do nothing,
 * so that a program can call them wherever it runs.
 */
typedef struct yk_kubeflow yk_kubeflow;

/**
 * Begins to report, in a TrainJob whose controller has set KUBEFLOW_TRAINER_SERVER_URL,
 * KUBEFLOW_TRAINER_SERVER_TOKEN and KUBEFLOW_TRAINER_SERVER_CA_CERT (the feature gate
 * TrainJobRuntimeStatus). Elsewhere, and with an empty URL, *kubeflow is NULL, as on failure. One
 * rank calls it, rank 0. steps: of the whole training, at least 1, those before a checkpoint
 * included.
 */
yk_status yk_kubeflow_open(yk_kubeflow **kubeflow, int64_t steps);
/** Takes over the values of a step: the share of the steps that are done, the time that the others
 * will take at the pace so far, loss, learning rate and throughput. Never blocks. */
void yk_kubeflow_step(yk_kubeflow *kubeflow, const yk_step_record *record);
/** Takes over the losses and the accuracy of an epoch. Never blocks. */
void yk_kubeflow_epoch(yk_kubeflow *kubeflow, const yk_epoch_record *record);
/** Training has come to its end, not only to that of this run: progress is 100 %. Never blocks. */
void yk_kubeflow_finish(yk_kubeflow *kubeflow);
/** Sends what has not been sent yet, which takes 10 s at most, and ends. */
void yk_kubeflow_close(yk_kubeflow *kubeflow);

/* ---- TensorBoard ---------------------------------------------------------------------------- */

/**
 * An event file that TensorBoard reads (`tensorboard --logdir runs`): one more view of what
 * metrics.jsonl records. Each call below appends one event, so a run can be watched while it
 * trains. Functions return YK_ERROR_IO, which names the file, if it cannot be written.
 */
typedef struct yk_tensorboard yk_tensorboard;

/** A picture as a PNG file in memory. */
typedef struct yk_png {
    const void *bytes; /**< the file */
    size_t size;       /**< its bytes */
    int width;         /**< in pixels */
    int height;        /**< in pixels */
} yk_png;

/**
 * Encodes a picture, rows of 3 * width bytes of RGB, through the module libyoke-image.so:
 * YK_ERROR_UNSUPPORTED where it is missing, or for sides of more than 65500 pixels. On failure *png
 * is empty; otherwise yk_png_free() frees its bytes.
 */
yk_status yk_png_encode(yk_png *png, const uint8_t *rgb, int width, int height);
/** Frees the bytes of a picture that yk_png_encode() has made, and empties it. Accepts NULL. */
void yk_png_free(yk_png *png);

/**
 * Creates an event file in the folder, and missing folders above it. step: steps completed before,
 * 0 in a new run; what earlier files in the folder have recorded after it is no longer shown. On
 * failure *writer is NULL.
 */
yk_status yk_tensorboard_open(yk_tensorboard **writer, const char *folder, int64_t step);
/** Records one value under a tag, such as "loss/train". */
yk_status yk_tensorboard_scalar(yk_tensorboard *writer, const char *tag, int64_t step,
                                double value);
/** Records all values of a step: loss, learning rate, throughput, and where the time went. */
yk_status yk_tensorboard_step(yk_tensorboard *writer, const yk_step_record *record);
/** Records the losses and accuracies of an epoch. */
yk_status yk_tensorboard_epoch(yk_tensorboard *writer, const yk_epoch_record *record);
/** Records a picture. */
yk_status yk_tensorboard_image(yk_tensorboard *writer, const char *tag, int64_t step,
                               const yk_png *picture);
/** Records how the tensor's finite elements are distributed. YK_ERROR_UNSUPPORTED unless it is of
 * YK_F32 or YK_F64. */
yk_status yk_tensorboard_histogram(yk_tensorboard *writer, const char *tag, int64_t step,
                                   const yk_tensor *tensor);
/** Records the hyperparameters of the run as lines "NAME=VALUE\n". Values that are numbers, "true"
 * and "false" are stored as such. The table of TensorBoard's page HPARAMS shows them beside the
 * last value of every scalar. */
yk_status yk_tensorboard_hyperparameters(yk_tensorboard *writer, const char *lines);
/** Records that the run has ended. */
yk_status yk_tensorboard_finish(yk_tensorboard *writer, bool succeeded);
/** Closes the file. Accepts NULL. */
void yk_tensorboard_close(yk_tensorboard *writer);

/* ---- the timeline --------------------------------------------------------------------------- */

/**
 * A timeline of training steps, as a trace that https://ui.perfetto.dev and chrome://tracing open:
 * each rank is a process, and its threads (compute, communication, data loading) are the rows. It
 * shows the steps; the wait for data, forward, backward and each of their kernels, the exposed wait
 * for communication and the optimizer's step; every collective with its size and sequence number;
 * and, in a row of its own, every bucket's all-reduce from start to completion.
 *
 * The file is a complete JSON document after each write, about once a second, so the trace of a run
 * that dies still opens. Recording is bounded: it ends after the last of the requested steps, and
 * events that find the buffer of 16,384 full are dropped and counted. While nothing is recorded it
 * costs nothing. A process can have one timeline at a time.
 */
typedef struct yk_trace yk_trace;

/** yk_trace_options.first_step: the first step that begins. */
#define YK_TRACE_NEXT_STEP (-1)

/** Which steps a timeline records. */
typedef struct yk_trace_options {
    size_t size;        /**< set by YK_TRACE_OPTIONS_INIT */
    int64_t first_step; /**< number given to yk_trace_step_begin, or YK_TRACE_NEXT_STEP
                             [YK_TRACE_NEXT_STEP] */
    int64_t steps;      /**< how many to record, at least 1 [50] */
} yk_trace_options;

/** The defaults of yk_trace_options. */
#define YK_TRACE_OPTIONS_INIT                                                                      \
    {                                                                                              \
        sizeof(yk_trace_options), YK_TRACE_NEXT_STEP, 50                                           \
    }

/**
 * Opens a timeline. Collective over group (NULL for this process alone). Rank 0 creates the file,
 * in new folders if need be, and the others append to it, so all ranks must see it. The calling
 * thread appears as "compute". On failure *trace is NULL.
 */
yk_status yk_trace_open(yk_trace **trace, const char *path, yk_group *group,
                        const yk_trace_options *options);
/** Call at the beginning of each training step, before yk_loader_next. trace may be NULL. */
void yk_trace_step_begin(yk_trace *trace, int64_t step);
/**
 * Call at the end of each training step, after the optimizer. A step that began but never ended
 * (because the loader had no batch left) is not shown. trace may be NULL.
 */
void yk_trace_step_end(yk_trace *trace);
/**
 * Writes the remaining events and closes the file. YK_ERROR_IO when anything could not be written,
 * now or earlier; training itself never fails because of that. Accepts NULL. Not collective.
 */
yk_status yk_trace_close(yk_trace *trace);

/** Begins a span of the calling thread, shown under this name; spans nest up to 16 deep. The name
 * is copied. */
void yk_trace_begin(const char *name);
/** Ends the innermost span of the calling thread. */
void yk_trace_end(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

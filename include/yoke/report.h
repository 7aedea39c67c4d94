/**
 * @file
 * What a run records: metrics.jsonl, which rank 0 writes, and the timeline, which all ranks write
 * together.
 */
#ifndef YOKE_REPORT_H
#define YOKE_REPORT_H

#include <yoke/group.h>
#include <yoke/status.h>

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

/** The record of one training step. Times are seconds of wall clock. */
typedef struct yk_step_record {
    int64_t epoch;         /**< the epoch, from 1 */
    int64_t step;          /**< the step, from 1, counted over all epochs */
    double loss;           /**< the loss of the step */
    double lr;             /**< the learning rate of the step */
    double images_per_s;   /**< samples per second */
    double data_s;         /**< time spent waiting for data */
    double compute_s;      /**< time spent computing */
    double exposed_comm_s; /**< time spent waiting for communication */
    double scale;          /**< of the loss, with a grad scaler; 0 without */
    bool skipped;          /**< whether the grad scaler skipped the step */
    bool has_grad_norm;    /**< whether grad_norm is recorded */
    double grad_norm;      /**< of all gradients together, before clipping */
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
    double exposed_comm_s;   /**< sum over the epoch's steps */
    bool has_ema;            /**< whether the two fields below are recorded */
    double ema_val_loss;     /**< val_loss of the averaged weights */
    double ema_val_accuracy; /**< val_accuracy of the averaged weights */
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
/** When a run resumes from a checkpoint: removes the records that were written after this step, and
 * the step's evaluation unless the checkpoint was saved after it (evaluated). */
yk_status yk_metrics_rewind(yk_metrics *metrics, int64_t step, bool evaluated);
/** Writes the header, with its "type" and the time like every record: after yk_metrics_rewind and
 *  before any step. YK_ERROR_IO names the file. */
yk_status yk_metrics_header(yk_metrics *metrics, const yk_header_record *record);
/** Writes the line of a step; YK_ERROR_IO names the file. */
yk_status yk_metrics_step(yk_metrics *metrics, const yk_step_record *record);
/** Writes the line of an epoch; YK_ERROR_IO names the file. */
yk_status yk_metrics_epoch(yk_metrics *metrics, const yk_epoch_record *record);
/** Closes the file. Accepts NULL. */
void yk_metrics_close(yk_metrics *metrics);

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
 * Opens a timeline. Collective over group (NULL for this process alone). Rank 0 creates the file
 * and the others append to it, so all ranks must see it in one file system. The calling thread
 * appears as "compute". On failure *trace is NULL.
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

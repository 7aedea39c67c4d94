/*
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

/* One training step. Times in seconds of wall clock. */
typedef struct yk_step_record {
    int64_t epoch, step; /* both from 1; step counts over all epochs */
    double loss, lr, images_per_s, data_s, compute_s, exposed_comm_s;
    double scale; /* of the loss, where a grad scaler is at work; else 0 ... */
    bool skipped; /* ... and whether it has skipped the step */
    bool has_grad_norm;
    double grad_norm; /* of all gradients together, before clipping */
} yk_step_record;

/* One epoch, after its evaluation. */
typedef struct yk_epoch_record {
    int64_t epoch, step;
    double train_loss, val_loss, val_accuracy, epoch_s;
    double data_s, compute_s, exposed_comm_s; /* sums over the epoch */
    bool has_ema;
    double ema_val_loss, ema_val_accuracy; /* of averaged weights */
} yk_epoch_record;

typedef struct yk_metrics yk_metrics;

/**
 * Opens path for appending, one JSON object per line (docs/file-formats.md); a last line that a
 * crash cut short is removed. YK_ERROR_IO while another process has it open.
 *
 * If the file or its folder is removed or renamed during the run, the next record notices: the
 * records continue in a new file at path, folders included, with the header repeated, and the log
 * has a warning. Only if that fails does the call return YK_ERROR_IO.
 */
yk_status yk_metrics_open(yk_metrics **metrics, const char *path);
/** When a run resumes from a checkpoint: removes the records that were written after this step, and
 * the step's evaluation unless the checkpoint was saved after it (evaluated). */
yk_status yk_metrics_rewind(yk_metrics *metrics, int64_t step, bool evaluated);
/** Each writes one line with its "type" and the "time"; YK_ERROR_IO names the file. Write the
 * header after yk_metrics_rewind and before any step. */
yk_status yk_metrics_header(yk_metrics *metrics, const yk_header_record *record);
yk_status yk_metrics_step(yk_metrics *metrics, const yk_step_record *record);
yk_status yk_metrics_epoch(yk_metrics *metrics, const yk_epoch_record *record);
/* Accepts NULL. */
void yk_metrics_close(yk_metrics *metrics);

/* ---- the timeline --------------------------------------------------------------------------- */

/*
 * A timeline of training steps, as a trace that https://ui.perfetto.dev and chrome://tracing open:
 * each rank a process, its threads (compute, communication, data loading) the rows. On it stand the
 * steps; data wait, forward, backward, each of their kernels, the exposed wait for communication,
 * the optimizer's step; every collective with its bytes and sequence number; and every bucket's
 * all-reduce from launch to landing, in a row of its own.
 *
 * The file is a complete JSON document after each write, and is written about once a second, so a
 * run that dies leaves a trace that opens. Recording is bounded: it ends by itself after the last
 * of the steps asked for, and what finds the buffer of 16,384 events full is counted and dropped.
 * While nothing is recorded it costs nothing. One timeline a process at a time.
 */
typedef struct yk_trace yk_trace;

/** yk_trace_options.first_step: the first step that begins. */
#define YK_TRACE_NEXT_STEP (-1)

/** Which steps a timeline records. */
typedef struct yk_trace_options {
    size_t size;        /**< set by YK_TRACE_OPTIONS_INIT */
    int64_t first_step; /**< number given to yk_trace_step_begin, or YK_TRACE_NEXT_STEP
                             [YK_TRACE_NEXT_STEP] */
    int64_t steps;      /**< recording ends after so many, at least 1 [50] */
} yk_trace_options;

/** The defaults of yk_trace_options. */
#define YK_TRACE_OPTIONS_INIT                                                                      \
    {                                                                                              \
        sizeof(yk_trace_options), YK_TRACE_NEXT_STEP, 50                                           \
    }

/*
 * Collective over group (NULL: this process alone). Rank 0 creates the file, which one file system
 * shows to all ranks; the others append. The calling thread is called "compute".
 */
yk_status yk_trace_open(yk_trace **trace, const char *path, yk_group *group,
                        const yk_trace_options *options);
/*
 * Around each training step, from before yk_loader_next to after the optimizer. A step that began
 * and never ended (the loader had no batch) is not shown. trace may be NULL.
 */
void yk_trace_step_begin(yk_trace *trace, int64_t step);
void yk_trace_step_end(yk_trace *trace);
/* Writes what is left. YK_ERROR_IO when anything could not be written, now or earlier; training
 * itself never fails of that. Accepts NULL. Not collective. */
yk_status yk_trace_close(yk_trace *trace);

/* Marks what the calling thread does between the two, nested up to 16 deep. name is copied. */
void yk_trace_begin(const char *name);
void yk_trace_end(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

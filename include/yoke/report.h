/* What a run tells: the progress line on a terminal and metrics.jsonl. Used on rank 0. */
#ifndef YOKE_REPORT_H
#define YOKE_REPORT_H

#include <yoke/status.h>

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* One training step. Times in seconds of wall clock. */
typedef struct yk_step_record {
    int64_t epoch, step; /* both from 1; step counts over all epochs */
    double loss, lr, images_per_s, data_s, compute_s, exposed_comm_s;
} yk_step_record;

/* One epoch, after its evaluation. */
typedef struct yk_epoch_record {
    int64_t epoch, step;
    double train_loss, val_loss, val_accuracy, epoch_s;
    double data_s, compute_s, exposed_comm_s; /* sums over the epoch */
} yk_epoch_record;

typedef struct yk_metrics yk_metrics;

/* Appends to path, one JSON object a line; a torn last line of an earlier crash is cut off. */
yk_status yk_metrics_open(yk_metrics **metrics, const char *path);
/* Going on from a checkpoint: drops what an earlier run wrote after this step. */
yk_status yk_metrics_rewind(yk_metrics *metrics, int64_t step);
yk_status yk_metrics_step(yk_metrics *metrics, const yk_step_record *record);
yk_status yk_metrics_epoch(yk_metrics *metrics, const yk_epoch_record *record);
void yk_metrics_close(yk_metrics *metrics);

/* A line that is redrawn in place on a terminal, and printed now and then elsewhere. */
typedef struct yk_progress yk_progress;

yk_status yk_progress_create(yk_progress **progress, int64_t epochs, int64_t steps_per_epoch);
void yk_progress_step(yk_progress *progress, const yk_step_record *record, int64_t step_in_epoch);
void yk_progress_epoch(yk_progress *progress, const yk_epoch_record *record);
void yk_progress_destroy(yk_progress *progress);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

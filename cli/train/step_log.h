/*
 * Records of several steps, for --log-every N: their number, mean values and added-up times. One
 * that tells of a single step is the record of this step, unchanged.
 */
#ifndef CLI_TRAIN_STEP_LOG_H
#define CLI_TRAIN_STEP_LOG_H

#include <stdbool.h>

#include <yoke/report.h>

typedef struct cli_step_log {
    yk_step_record record;     /* of the last step, with the sums over all */
    double samples;            /* of all steps */
    double loss, loss_samples; /* sum over samples, of the steps whose loss is finite */
    double grad_norm, norms;   /* likewise, over steps */
} cli_step_log;

void cli_step_log_add(cli_step_log *log, const yk_step_record *step);
/* The record of the steps that were added since the last call; false: there are none. */
bool cli_step_log_take(cli_step_log *log, yk_step_record *record);

#endif

/* See step_log.h. */
#include "train/step_log.h"

#include <math.h>

#include "common/step_seconds.h"

void cli_step_log_add(cli_step_log *log, const yk_step_record *step)
{
    const yk_step_record before = log->record;
    const double samples = step->images_per_s * cli_step_seconds(step);
    log->record = *step;
    log->record.steps += before.steps;
    log->record.skipped += before.skipped;
    log->record.data_s += before.data_s;
    log->record.compute_s += before.compute_s;
    log->record.waiting_s += before.waiting_s;
    log->record.exposed_comm_s += before.exposed_comm_s;
    log->samples += samples;
    if (isfinite(step->loss)) {
        log->loss += step->loss * samples;
        log->loss_samples += samples;
    }
    if (isfinite(step->grad_norm)) {
        log->grad_norm += step->grad_norm;
        log->norms++;
    }
}

bool cli_step_log_take(cli_step_log *log, yk_step_record *record)
{
    const cli_step_log taken = *log;
    *log = (cli_step_log){.samples = 0};
    *record = taken.record;
    if (record->steps > 1) {
        record->loss = taken.loss / taken.loss_samples;
        record->images_per_s = taken.samples / cli_step_seconds(record);
        record->grad_norm = taken.grad_norm / taken.norms;
    }
    return record->steps > 0;
}

/* How long a step took, or all steps that a record tells of. */
#ifndef CLI_COMMON_STEP_SECONDS_H
#define CLI_COMMON_STEP_SECONDS_H

#include <yoke/report.h>

static inline double cli_step_seconds(const yk_step_record *record)
{
    return record->data_s + record->compute_s + record->waiting_s + record->exposed_comm_s;
}

#endif

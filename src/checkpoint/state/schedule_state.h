/* A learning-rate schedule in a checkpoint: the dict "schedule" of the training state. */
#ifndef YKI_SCHEDULE_STATE_H
#define YKI_SCHEDULE_STATE_H

#include <yoke/schedule.h>

#include "checkpoint/tensor_file/pth.h"

/* Appends the dict; the schedule has passed yk_schedule_check. */
void yki_schedule_state_write(yki_pickle_writer *pickle, const yk_schedule *schedule);
/* Reads and checks it. Fields that the dict lacks have their defaults, unknown ones are ignored. */
yk_status yki_schedule_state_read(const yki_pth *pth, const yki_pickle_value *dict,
                                  yk_schedule *schedule);

#endif

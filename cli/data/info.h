/* What a data set consists of, printed: its classes, and the mean and deviation of its pixels. */
#ifndef YOKE_CLI_DATA_INFO_H
#define YOKE_CLI_DATA_INFO_H

#include <yoke/data.h>

/* Reads every sample and returns the command's exit code. With skip_damaged, damaged samples are
 * not counted. */
int cli_data_info(const yk_dataset *dataset, const char *split, bool skip_damaged);
/* Whether a sample whose read ended so is left out; it has then been reported on stderr. */
bool cli_data_leave_out(yk_status status, bool skip_damaged);

#endif

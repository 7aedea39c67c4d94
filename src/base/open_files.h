/* How many files a process may have open. */
#ifndef YKI_OPEN_FILES_H
#define YKI_OPEN_FILES_H

#include <stdbool.h>

/* Raises the limit, which is often 1024 at first, to the most that this user may have. False if it
 * is there already. */
bool yki_allow_more_open_files(void);

#endif

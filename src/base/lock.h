/* A lock that keeps writers of a file apart, flock(2): the open file holds it, so that it ends with
 * its process. */
#ifndef YKI_LOCK_H
#define YKI_LOCK_H

#include <stdbool.h>

/* True unless another process has it; a file system without locks is taken at its word. */
bool yki_lock(int fd);

#endif

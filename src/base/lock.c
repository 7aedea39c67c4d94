/* See lock.h. */
#include "base/lock.h"

#include <errno.h>
#include <sys/file.h>

bool yki_lock(int fd)
{
    return flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

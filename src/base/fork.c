#include "base/fork.h"

#include <stdatomic.h>
#include <unistd.h>

#include "base/error.h"

static atomic_int owner; /* the process that has started threads; 0 before it has */

yk_status yki_check_not_forked(void)
{
    int self = (int)getpid(), found = 0;
    if (atomic_compare_exchange_strong(&owner, &found, self) || found == self)
        return YK_OK;
    return yki_error(
        YK_ERROR_UNSUPPORTED,
        "process %d was forked by process %d after a model had run there on several "
        "threads, which a child process does not have: fork before the first forward, or "
        "use one thread",
        self, found);
}

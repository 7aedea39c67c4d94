/* The comparison of descriptors that every backend makes before it moves data. */
#include <string.h>

#include <yoke/backend.h>

#include "base/clock.h"
#include "base/error.h"

_Static_assert(sizeof(yk_descriptor) == 16, "descriptors are compared as bytes");

yk_status yk_backend_compare(yk_backend_call *call, const yk_descriptor *all, int ranks)
{
    YKI_NOT_NULL(call);
    YKI_NOT_NULL(all);
    call->met_s = yki_now();
    for (int r = 1; r < ranks; r++) {
        if (memcmp(&all[r], &all[0], sizeof *all) == 0)
            continue;
        call->mismatch = (yk_mismatch){.rank_b = r, .what_a = all[0], .what_b = all[r]};
        return YK_ERROR_MISMATCH;
    }
    /* All ranks' arguments may have been refused, with the same descriptor. */
    if (!all[0].invalid)
        return YK_OK;
    call->mismatch = (yk_mismatch){.what_a = all[0], .what_b = all[0]};
    return YK_ERROR_MISMATCH;
}

yk_status yk_backend_compare_messages(yk_backend_call *call, int from, const yk_descriptor *sent,
                                      int to, const yk_descriptor *wanted)
{
    YKI_NOT_NULL(call);
    YKI_NOT_NULL(sent);
    YKI_NOT_NULL(wanted);
    if (sent->dtype == wanted->dtype && sent->count == wanted->count)
        return YK_OK;
    if (call->mismatch.rank_a == call->mismatch.rank_b)
        call->mismatch =
            (yk_mismatch){.rank_a = from, .rank_b = to, .what_a = *sent, .what_b = *wanted};
    return YK_ERROR_MISMATCH;
}

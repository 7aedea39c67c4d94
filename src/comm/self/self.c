/*
 * The backend of a group of one: every collective is a copy from in to out, reductions of one
 * operand included. collectives.c refuses send and recv to oneself before they come here.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "comm/call.h"

static yk_status self_open(yk_backend **backend, const yk_backend_site *site)
{
    (void)site;
    *backend = yki_calloc(1, sizeof **backend);
    if (!*backend)
        return yki_error_memory(sizeof **backend, "the self backend");
    (*backend)->ops = &yki_backend_self;
    return YK_OK;
}

static void self_close(yk_backend *backend)
{
    free(backend);
}

static yk_status self_post(yk_backend *backend, yk_backend_call *call, yk_backend_work **work)
{
    (void)backend;
    *work = NULL;
    size_t bytes = call->what.count * yk_dtype_size((yk_dtype)call->what.dtype);
    if (bytes && !call->what.invalid && !call->compare_only && call->out && call->in &&
        call->out != call->in)
        memmove(call->out, call->in, bytes);
    return YK_OK;
}

const yk_backend_ops yki_backend_self = {
    .version = YK_BACKEND_VERSION,
    .size = sizeof(yk_backend_ops),
    .name = "self",
    .capabilities = YK_BACKEND_RANK_ORDER,
    .max_works = 1,
    .open = self_open,
    .close = self_close,
    .post = self_post,
};

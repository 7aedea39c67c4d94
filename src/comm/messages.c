/*
 * The public calls that send and receive messages. Each checks its arguments and becomes a yki_call
 * with a list of messages, which run.c runs.
 *
 * There is no exchange of all ranks by which the others would learn that arguments were refused:
 * such calls fail here.
 */
#include <stdint.h>

#include "comm/arguments.h"
#include "comm/group_state.h"

static yk_status check_message(const yk_group *group, const char *name, const yk_message *message)
{
    YK_TRY(yki_check_buffer(group, name, message->data, message->count, message->dtype));
    return yki_check_peer(group, name, message->peer);
}

static yk_backend_message describe(const yk_message *message)
{
    bool sends = message->kind == YK_MESSAGE_SEND;
    return (yk_backend_message){.what = {.operation = sends ? YK_OPERATION_SEND : YK_OPERATION_RECV,
                                         .dtype = (uint8_t)message->dtype,
                                         .root = message->peer,
                                         .count = message->count},
                                .data = message->data};
}

/* Of checked messages: what a single one is, or a batch. */
static yk_status run(yk_group *group, const yk_message *messages, size_t count, yk_work **work)
{
    yki_call call = {.base.what = {.operation = YK_OPERATION_BATCH, .count = count}};
    yk_backend_message *described;
    yk_status status = yki_call_make_messages(&call, count, &described);
    if (status != YK_OK)
        return yki_group_fail_alone(group, status);
    for (size_t i = 0; i < count; i++)
        described[i] = describe(&messages[i]);
    if (count == 1)
        call.base.what = described[0].what;
    else if (count > 1)
        call.base.what.root = described[0].what.root;
    return yki_group_submit(group, &call, YK_OK, work);
}

static yk_status run_one(yk_group *group, const char *name, const yk_message *message)
{
    YK_TRY(yki_check_group(group, name, NULL));
    YK_TRY(check_message(group, name, message));
    return run(group, message, 1, NULL);
}

yk_status yk_send(yk_group *group, const void *data, size_t count, yk_dtype dtype, int to)
{
    return run_one(group, "send",
                   &(yk_message){YK_MESSAGE_SEND, to, (void *)(uintptr_t)data, count, dtype});
}

yk_status yk_recv(yk_group *group, void *data, size_t count, yk_dtype dtype, int from)
{
    return run_one(group, "recv", &(yk_message){YK_MESSAGE_RECV, from, data, count, dtype});
}

static yk_status check_all(const yk_group *group, const yk_message *messages, size_t count)
{
    char name[48];
    if (!messages && count > 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "batch_send_recv: %zu messages, but the array is NULL", count);
    for (size_t i = 0; i < count; i++) {
        snprintf(name, sizeof name, "batch_send_recv, message %zu", i);
        if ((unsigned)messages[i].kind > YK_MESSAGE_RECV)
            return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s: unknown kind %d", name,
                             (int)messages[i].kind);
        YK_TRY(check_message(group, name, &messages[i]));
    }
    return YK_OK;
}

yk_status yk_batch_send_recv(yk_group *group, const yk_message *messages, size_t count,
                             yk_work **work)
{
    YK_TRY(yki_check_group(group, "batch_send_recv", work));
    YK_TRY(check_all(group, messages, count));
    return run(group, messages, count, work);
}

/* See plane_order.h. */
#include "comm/plane_order.h"

#include <pthread.h>

#include "device/device.h"

/* Of the process. The lock also guards the turns' events. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static yki_plane_turn *turns;

static bool is_same_gpu(const yki_device *a, const yki_device *b)
{
    return a == b || (a->type == b->type && a->hardware && a->hardware == b->hardware);
}

yk_status yki_plane_turn_begin(yki_plane_turn *turn, yki_device *device)
{
    *turn = (yki_plane_turn){.device = device};
    YK_TRY(yki_event_create(device, &turn->last));
    pthread_mutex_lock(&lock);
    turn->next = turns;
    turns = turn;
    pthread_mutex_unlock(&lock);
    return YK_OK;
}

void yki_plane_turn_end(yki_plane_turn *turn)
{
    if (!turn->last)
        return;
    pthread_mutex_lock(&lock);
    yki_plane_turn **at = &turns;
    while (*at != turn)
        at = &(*at)->next;
    *at = turn->next;
    pthread_mutex_unlock(&lock);
    yki_event_destroy(turn->device, turn->last);
}

yk_status yki_plane_turn_take(const yki_plane_turn *turn, yki_stream *stream)
{
    yk_status status = YK_OK;
    pthread_mutex_lock(&lock);
    for (yki_plane_turn *t = turns; t && status == YK_OK; t = t->next)
        if (t->marked && t->marked != stream && is_same_gpu(t->device, turn->device))
            status = yki_event_follow(turn->device, t->last, stream);
    pthread_mutex_unlock(&lock);
    return status;
}

yk_status yki_plane_turn_pass(yki_plane_turn *turn, yki_stream *stream)
{
    pthread_mutex_lock(&lock);
    yk_status status = yki_event_mark(turn->device, turn->last, stream);
    if (status == YK_OK)
        turn->marked = stream;
    pthread_mutex_unlock(&lock);
    return status;
}

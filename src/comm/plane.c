/* See plane.h. */
#include "comm/plane.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "comm/choose.h"
#include "comm/group_state.h"
#include "comm/plane_order.h"
#include "device/device.h"

enum { CALLS = 32 };

/* A collective that has been entered, for messages and timeouts. */
typedef struct entered_call {
    yki_call call;
    yki_event *over;
} entered_call;

/* Memory that is the engine's. */
typedef struct own_memory {
    struct own_memory *next;
    void *memory;
} own_memory;

struct yki_plane {
    yki_plane *next; /* of the group */
    int references;
    yk_group *group; /* which it belongs to, and on which calls are compared */
    yk_group *host;  /* a duplicate, by which any thread looks at the other ranks */
    yki_device *device;
    yk_backend_device description;
    yk_backend_site site; /* of the duplicate, with the device */
    yk_backend *engine;
    yki_stream *stream; /* of all its collectives */
    own_memory *owned;
    yki_event *ready, *landed;
    yki_plane_turn turn;
    yki_watcher watcher;
    pthread_mutex_t lock; /* of host, engine and everything below */
    entered_call calls[CALLS];
    uint64_t entered, over; /* numbers of calls; those before `over` are known to be */
    yki_call agreed;        /* see yki_plane_agree */
    yk_status failure;      /* YK_OK: none */
    char line[YKI_ERROR_LINE];
};

/* ---- failures -------------------------------------------------------------------------------- */

/* This thread's last error becomes the plane's failure. */
static yk_status fail_plane(yki_plane *plane, yk_status status)
{
    if (plane->failure != YK_OK)
        return yki_error_set_line(plane->failure, plane->line);
    plane->failure = status;
    yki_error_copy(plane->line, sizeof plane->line);
    plane->engine->ops->abort(plane->engine, status, plane->line);
    return yki_error_set_line(status, plane->line);
}

static yk_status known_failure(const yki_plane *plane)
{
    return plane->failure == YK_OK ? YK_OK : yki_error_set_line(plane->failure, plane->line);
}

/* The oldest call that is not over, or NULL. A device reports some failures only once, to whoever
 * asks first, so an error of a query must not be lost. */
static yk_status find_oldest(yki_plane *plane, yki_call **oldest)
{
    *oldest = NULL;
    while (plane->over < plane->entered) {
        entered_call *entered = &plane->calls[plane->over % CALLS];
        bool reached = false;
        yk_status status = yki_event_query(plane->device, entered->over, &reached);
        if (status == YK_OK && !reached) {
            *oldest = &entered->call;
            return YK_OK;
        }
        plane->over++;
        YK_TRY(status);
    }
    return YK_OK;
}

static yk_status look_for_failures(yki_plane *plane)
{
    yki_call *oldest;
    YK_TRY(known_failure(plane));
    YK_TRY(find_oldest(plane, &oldest));
    if (!oldest)
        return YK_OK;
    plane->host->running = oldest;
    yk_status status = plane->engine->ops->check(plane->engine);
    if (status != YK_OK)
        status = yki_group_find_cause(plane->host, status);
    else
        status = yki_group_look_at_all(plane->host);
    plane->host->running = NULL;
    return status == YK_OK ? YK_OK : fail_plane(plane, status);
}

/* yki_watcher.look: where another thread uses the plane, that one finds out. */
static yk_status look(void *context)
{
    yki_plane *plane = context;
    if (pthread_mutex_trylock(&plane->lock) != 0)
        return YK_OK;
    yki_device *device = plane->device;
    if (device->type->enter)
        device->type->enter(device);
    yk_status status = look_for_failures(plane);
    pthread_mutex_unlock(&plane->lock);
    return status;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* It is over when the stream has come to its end. */
static yk_status note_call(yki_plane *plane, const yki_call *call, yki_stream *stream)
{
    if (plane->entered - plane->over == CALLS)
        plane->over++;
    entered_call *noted = &plane->calls[plane->entered % CALLS];
    noted->call = *call;
    plane->entered++;
    YK_TRY(yki_event_mark(plane->device, noted->over, stream));
    return yki_plane_turn_pass(&plane->turn, stream);
}

static yk_status enter(yki_plane *plane, const yk_backend_call *moved, yki_event *ready,
                       yki_event *landed)
{
    yki_device *device = plane->device;
    YK_TRY(yki_event_follow(device, ready, plane->stream));
    YK_TRY(plane->engine->ops->enqueue(plane->engine, moved));
    return yki_event_mark(device, landed, plane->stream);
}

/* The others have entered what this rank could not, and must learn that. */
static yk_status fail_to_enter(yki_plane *plane, yki_call *call, yk_status status)
{
    char text[YKI_ERROR_LINE];
    yk_group *host = plane->host;
    yki_error_copy(text, sizeof text);
    host->running = call; /* for messages */
    status = fail_plane(plane, yki_group_fail(host, host->job.rank, status, text));
    host->running = NULL;
    return status;
}

static yk_status enter_or_fail(yki_plane *plane, yki_call *call, const yk_descriptor *what,
                               const void *in, void *out, yki_event *ready, yki_event *landed)
{
    const yk_backend_call moved = {.what = *what,
                                   .sequence = call->base.sequence,
                                   .in = in,
                                   .out = out,
                                   .stream = yki_stream_native(plane->device, plane->stream)};
    yk_status status =
        call == &plane->agreed ? YK_OK : yki_plane_turn_take(&plane->turn, plane->stream);
    plane->host->running = call; /* for an engine that looks at the other ranks */
    if (status == YK_OK)
        status = enter(plane, &moved, ready, landed);
    plane->host->running = NULL;
    return status == YK_OK ? YK_OK : fail_to_enter(plane, call, status);
}

/* The ranks compare a call. */
static yk_status agree_on(yki_plane *plane, const yk_descriptor *what, yki_call *call)
{
    *call = (yki_call){.base = {.what = *what, .compare_only = true}};
    YK_TRY(known_failure(plane));
    yk_status status = yki_group_submit(plane->group, call, YK_OK, NULL);
    return status == YK_OK || status == YK_ERROR_MISMATCH ? status : fail_plane(plane, status);
}

yk_status yki_plane_start(yki_plane *plane, const yk_descriptor *what, const void *in, void *out,
                          yki_event *ready, yki_event *landed)
{
    yki_call call;
    pthread_mutex_lock(&plane->lock);
    yk_status status = agree_on(plane, what, &call);
    if (status == YK_OK)
        status = enter_or_fail(plane, &call, what, in, out, ready, landed);
    if (status == YK_OK)
        status = note_call(plane, &call, plane->stream);
    pthread_mutex_unlock(&plane->lock);
    return status;
}

yk_status yki_plane_agree(yki_plane *plane, const yk_descriptor *what, yki_stream *stream)
{
    pthread_mutex_lock(&plane->lock);
    yk_status status = agree_on(plane, what, &plane->agreed);
    if (status == YK_OK) {
        status = yki_plane_turn_take(&plane->turn, stream);
        status = status == YK_OK ? YK_OK : fail_to_enter(plane, &plane->agreed, status);
    }
    pthread_mutex_unlock(&plane->lock);
    return status;
}

yk_status yki_plane_enter(yki_plane *plane, const yk_descriptor *what, const void *in, void *out,
                          yki_event *ready, yki_event *landed)
{
    pthread_mutex_lock(&plane->lock);
    yk_status status = known_failure(plane);
    if (status == YK_OK)
        status = enter_or_fail(plane, &plane->agreed, what, in, out, ready, landed);
    pthread_mutex_unlock(&plane->lock);
    return status;
}

yk_status yki_plane_entered(yki_plane *plane, yki_stream *stream)
{
    pthread_mutex_lock(&plane->lock);
    yk_status status = note_call(plane, &plane->agreed, stream);
    pthread_mutex_unlock(&plane->lock);
    return status;
}

yk_status yki_plane_run(yki_plane *plane, const yk_descriptor *what, const void *in, void *out,
                        yki_stream *stream)
{
    yki_device *device = plane->device;
    YK_TRY(yki_event_mark(device, plane->ready, stream));
    YK_TRY(yki_plane_start(plane, what, in, out, plane->ready, plane->landed));
    return yki_event_follow(device, plane->landed, stream);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* On every rank, or on none: an engine may not know how to exchange its memory with any other. */
static yk_status take_own(yki_plane *plane, size_t bytes, void **memory)
{
    const yk_backend_ops *ops = plane->engine->ops;
    yk_backend_call call = {.what = {.count = bytes}};
    own_memory *owned = yki_calloc(1, sizeof *owned);
    *memory = NULL;
    if (plane->device->type->enter)
        plane->device->type->enter(plane->device);
    bool got = owned && ops->alloc(plane->engine, &call, memory) == YK_OK;
    int32_t missing = !got;
    yk_status status = yk_all_reduce(plane->group, &missing, 1, YK_I32, YK_REDUCE_MAX, NULL);
    if (status == YK_OK && got && !missing) {
        *owned = (own_memory){.next = plane->owned, .memory = *memory};
        plane->owned = owned;
        return YK_OK;
    }
    if (got)
        ops->free(plane->engine, *memory);
    *memory = NULL;
    free(owned);
    return status;
}

yk_status yki_plane_alloc(yki_plane *plane, size_t bytes, void **memory)
{
    yki_device *device = plane->device;
    *memory = NULL;
    if (bytes > 0 && plane->engine->ops->alloc)
        YK_TRY(take_own(plane, bytes, memory));
    if (!*memory)
        return yki_device_alloc(device, bytes, memory);
    yk_status status = yki_device_fill(device, *memory, 0, bytes, plane->stream);
    if (status == YK_OK)
        status = yki_stream_wait(device, plane->stream);
    if (status != YK_OK) {
        yki_plane_free(plane, *memory, bytes);
        *memory = NULL;
    }
    return status;
}

void yki_plane_free(yki_plane *plane, void *memory, size_t bytes)
{
    own_memory **at = &plane->owned;
    while (*at && (*at)->memory != memory)
        at = &(*at)->next;
    own_memory *owned = *at;
    if (!owned) {
        yki_device_free(plane->device, memory, bytes);
        return;
    }
    yki_stream_wait(plane->device, plane->stream);
    plane->engine->ops->free(plane->engine, memory);
    *at = owned->next;
    free(owned);
}

/* ---- opening --------------------------------------------------------------------------------- */

static void free_plane(yki_plane *plane)
{
    yki_device *device = plane->device;
    if (plane->stream)
        yki_stream_wait(device, plane->stream);
    yki_plane_turn_end(&plane->turn);
    yki_device_remove_watcher(device, &plane->watcher);
    yki_stream_destroy(device, plane->stream);
    if (plane->engine)
        plane->engine->ops->close(plane->engine);
    yki_event_destroy(device, plane->ready);
    yki_event_destroy(device, plane->landed);
    for (int i = 0; i < CALLS; i++)
        yki_event_destroy(device, plane->calls[i].over);
    yk_group_destroy(plane->host);
    pthread_mutex_destroy(&plane->lock);
    free(plane);
}

static yk_status create_device_side(yki_plane *plane)
{
    yki_device *device = plane->device;
    YK_TRY(yki_stream_create(device, &plane->stream));
    YK_TRY(yki_event_create(device, &plane->ready));
    YK_TRY(yki_event_create(device, &plane->landed));
    for (int i = 0; i < CALLS; i++)
        YK_TRY(yki_event_create(device, &plane->calls[i].over));
    return yki_plane_turn_begin(&plane->turn, device);
}

/* While the engine is opened, the ranks look at each other as in a call. */
static yk_status open_engine(yki_plane *plane, const yk_backend_ops *ops)
{
    yk_group *host = plane->host;
    plane->description = (yk_backend_device){.size = sizeof plane->description,
                                             .type = plane->device->type->name,
                                             .handle = plane->device};
    plane->site = host->site;
    plane->site.device = &plane->description;
    host->opening = (yki_call){.waited = 0};
    if (plane->device->type->enter)
        plane->device->type->enter(plane->device);
    return ops->open(&plane->engine, &plane->site);
}

/* Every rank's status; the error of the first rank that has one becomes everyone's. */
static yk_status agree(yk_group *group, yk_status status)
{
    typedef struct verdict {
        int32_t status;
        char text[252];
    } verdict;
    int world = yk_group_size(group);
    verdict mine = {.status = status}, *all = yki_calloc((size_t)world, sizeof *all);
    if (!all)
        return yki_group_fail_alone(
            group, yki_error_memory((size_t)world * sizeof *all, "the ranks of a group"));
    snprintf(mine.text, sizeof mine.text, "%.251s", status == YK_OK ? "" : yki_error_text());
    yk_status met = yk_all_gather(group, all, &mine, sizeof mine, YK_U8, NULL);
    int failed = 0;
    while (met == YK_OK && failed < world && all[failed].status == YK_OK)
        failed++;
    if (met == YK_OK && failed < world)
        met = yki_error((yk_status)all[failed].status, "%.251s", all[failed].text);
    free(all);
    return met;
}

/* An engine waits for all ranks while it is opened, so no rank may have failed before. */
static yk_status build_plane(yki_plane *plane, const yk_backend_ops *ops)
{
    YK_TRY(agree(plane->group, create_device_side(plane)));
    return agree(plane->group, open_engine(plane, ops));
}

static yk_status create_plane(yki_plane **out, yk_group *group, yki_device *device,
                              const yk_backend_ops *ops)
{
    yk_group *host;
    *out = NULL;
    YK_TRY(yk_group_duplicate(&host, group));
    yki_plane *plane = yki_calloc(1, sizeof *plane);
    if (!plane) {
        yk_group_destroy(host);
        return yki_error_memory(sizeof *plane, "a plane");
    }
    plane->references = 1;
    plane->group = group;
    plane->host = host;
    plane->device = device;
    pthread_mutex_init(&plane->lock, NULL);
    plane->watcher = (yki_watcher){.look = look, .context = plane};
    yk_status status = build_plane(plane, ops);
    if (status != YK_OK) {
        char line[YKI_ERROR_LINE];
        yki_error_copy(line, sizeof line);
        free_plane(plane);
        return yki_error_set_line(status, line);
    }
    yki_device_add_watcher(device, &plane->watcher);
    plane->next = group->planes;
    group->planes = plane;
    *out = plane;
    return YK_OK;
}

/* Reports how memory travels, when that is news. */
static void report_exchange(yk_group *group, const yki_device *device, const char *text)
{
    if (strcmp(group->exchange, text) == 0)
        return;
    snprintf(group->exchange, sizeof group->exchange, "%s", text);
    if (yk_group_rank(group) == 0)
        YKI_INFO("memory of device %s: %s", device->type->name, text);
}

static void report_staging(yk_group *group, const yki_device *device, const char *why)
{
    char text[sizeof group->exchange];
    snprintf(text, sizeof text, "staged through %s: %.250s", yk_group_backend(group), why);
    report_exchange(group, device, text);
}

/* The backend for this device, if all ranks can use it. */
static yk_status find_backend(const yk_backend_ops **ops, yk_group *group, const yki_device *device)
{
    const char *name = group->device_backend ? group->device_backend : device->type->backend;
    yk_status status = YK_OK;
    *ops = NULL;
    if (name)
        status = yki_backend_find(ops, name);
    if (status == YK_OK && (!*ops || !((*ops)->capabilities & YK_BACKEND_DEVICE_MEMORY)))
        status = yki_error(YK_ERROR_UNSUPPORTED, "no backend moves the memory of device %s",
                           device->type->name);
    return agree(group, status);
}

static yki_plane *find_plane(const yk_group *group, const yki_device *device)
{
    yki_plane *plane = group->planes;
    while (plane && plane->device != device)
        plane = plane->next;
    return plane;
}

/* A new plane. Where there can be none, *plane is NULL, which is an error if it was asked for. */
static yk_status open_new(yki_plane **plane, yk_group *group, yki_device *device)
{
    const yk_backend_ops *ops;
    char text[96];
    yk_status status = find_backend(&ops, group, device);
    if (status == YK_OK && ops) /* always both */
        status = create_plane(plane, group, device, ops);
    if (status != YK_OK && (group->device_backend || atomic_load(&group->watched->failed)))
        return status;
    if (status != YK_OK || !ops) {
        report_staging(group, device, yki_error_text());
        return YK_OK;
    }
    snprintf(text, sizeof text, "%.60s, in the device's streams", ops->name);
    report_exchange(group, device, text);
    return YK_OK;
}

yk_status yki_plane_open(yki_plane **plane, yk_group *group, yki_device *device)
{
    *plane = NULL;
    if (yk_group_size(group) == 1)
        return YK_OK;
    if (yki_device_is_host(device))
        return group->device_backend
                   ? yki_error(YK_ERROR_UNSUPPORTED,
                               "backend %s, which was asked for, does not move the memory of "
                               "device %s",
                               group->device_backend, device->type->name)
                   : YK_OK;
    if (group->named) {
        report_staging(group, device, "as asked for");
        return YK_OK;
    }
    *plane = find_plane(group, device);
    if (!*plane)
        return open_new(plane, group, device);
    (*plane)->references++;
    return YK_OK;
}

void yki_plane_close(yki_plane *plane)
{
    if (!plane || --plane->references > 0)
        return;
    yki_plane **at = &plane->group->planes;
    while (*at != plane)
        at = &(*at)->next;
    *at = plane->next;
    free_plane(plane);
}

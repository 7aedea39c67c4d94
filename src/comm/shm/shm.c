/*
 * The backend for ranks on one machine: opening and closing its control segment. Each rank
 * publishes the name of its mailbox in the store. Rank 0 creates the segment, posts its descriptor
 * to all other ranks, and publishes the result in the store.
 */
#define _GNU_SOURCE
#include "comm/shm/shm.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cores.h"
#include "base/memory.h"

#define MAILBOX_S                                                                                  \
    0.05 /* how often a rank whose mailbox is still unknown is checked for its death */

enum { PAGE = 4096, ATTACH_POLL_NS = 200000 };

static const uint64_t LAYOUT = 0x35306d6873656b79u; /* "ykeshm05" */

static size_t rank_bytes(int world)
{
    return yki_align(sizeof(shm_rank) + (size_t)world * sizeof(shm_channel), PAGE);
}

static size_t control_bytes(int world)
{
    return yki_align(sizeof(shm_header), PAGE) + (size_t)world * rank_bytes(world);
}

/* ---- attaching ------------------------------------------------------------------------------- */

/* Every rank checks this by itself: ranks on different machines could not exchange the error. */
static yk_status check_machine(const yk_backend_site *site)
{
    const yk_backend_member *me = &site->members[site->rank];
    for (int r = 0; r < site->ranks; r++)
        if (strcmp(site->members[r].machine, me->machine) != 0)
            return yki_error(YK_ERROR_UNSUPPORTED,
                             "the shm backend needs all ranks on one machine and in one container, "
                             "but rank %d is not",
                             site->members[r].job_rank);
    return YK_OK;
}

/* Sets the pointers into the control segment, which is mapped. */
static void find_ranks(shm_backend *shm)
{
    char *ranks = (char *)shm->control.memory + yki_align(sizeof(shm_header), PAGE);
    for (int r = 0; r < shm->world; r++)
        shm->ranks[r] = (shm_rank *)(ranks + (size_t)r * rank_bytes(shm->world));
    shm->header = shm->control.memory;
    shm->me = shm->ranks[shm->rank];
}

/* Publishes "STATUS TEXT", so that all ranks learn of a failure of rank 0 at once. */
static yk_status publish_segment(shm_backend *shm, yk_status status)
{
    char text[YKI_ERROR_LINE + 16], line[YKI_ERROR_LINE] = "";
    if (status != YK_OK)
        yki_error_copy(line, sizeof line);
    int size =
        snprintf(text, sizeof text, "%d %s", (int)status, status == YK_OK ? "" : yki_error_text());
    yk_status told = shm->site->set(shm->site->context, "segment", text, (size_t)size);
    return status == YK_OK ? told : yki_error_set_line(status, line);
}

static void mailbox_key(char key[32], int rank)
{
    snprintf(key, 32, "mailbox/%d", rank);
}

static bool has_no_mailbox(const void *argument, int rank)
{
    const shm_backend *shm = argument;
    return rank != shm->rank && !shm->ranks[rank]->mailbox[0];
}

/* A rank that has joined the job publishes the name of its mailbox soon, unless it dies. */
static yk_status find_mailbox(shm_backend *shm, int rank)
{
    const yk_backend_site *site = shm->site;
    char key[32], *name = shm->ranks[rank]->mailbox;
    size_t used;
    mailbox_key(key, rank);
    for (;;) {
        yk_status status =
            site->get(site->context, key, name, SHM_MAILBOX_NAME - 1, &used, MAILBOX_S);
        if (status != YK_ERROR_TIMEOUT)
            return status;
        YK_TRY(site->look(site->context, has_no_mailbox, shm));
    }
}

static yk_status post_control(shm_backend *shm)
{
    memcpy(shm->me->mailbox, shm->mailbox.name, sizeof shm->me->mailbox);
    for (int r = 1; r < shm->world; r++)
        YK_TRY(find_mailbox(shm, r));
    for (int r = 1; r < shm->world; r++)
        YK_TRY(yki_shm_post(shm, r, shm->ranks[r]->mailbox, shm->control.fd));
    return YK_OK;
}

static yk_status create_control(shm_backend *shm)
{
    YK_TRY(yki_shm_create(&shm->control, control_bytes(shm->world)));
    find_ranks(shm);
    shm->header->world = (uint32_t)shm->world;
    shm->header->magic = LAYOUT;
    return post_control(shm);
}

static yk_status find_control(shm_backend *shm)
{
    const yk_backend_site *site = shm->site;
    char key[32], text[YKI_ERROR_LINE + 16];
    size_t used;
    mailbox_key(key, shm->rank);
    YK_TRY(site->set(site->context, key, shm->mailbox.name, strlen(shm->mailbox.name)));
    YK_TRY(site->get(site->context, "segment", text, sizeof text - 1, &used, site->timeout_s));
    text[used] = '\0';
    char *rest;
    long status = strtol(text, &rest, 10);
    if (status != YK_OK)
        return yki_error((yk_status)status, "rank %d failed: %s", site->members[0].job_rank,
                         rest + 1);
    YK_TRY(yki_shm_take_letters(shm));
    YK_TRY(yki_shm_attach(&shm->control, site->members[0].job_rank, yki_shm_letter(shm, 0),
                          control_bytes(shm->world)));
    const shm_header *header = shm->control.memory;
    if (header->magic != LAYOUT || header->world != (uint32_t)shm->world)
        return yki_error(YK_ERROR_FORMAT, "rank %d runs another version of yoke",
                         site->members[0].job_rank);
    find_ranks(shm);
    return YK_OK;
}

/* True for the other ranks until all have attached. One that cannot attach ends or reports a
 * failure. */
static bool not_attached(const void *argument, int rank)
{
    const shm_backend *shm = argument;
    return rank != shm->rank && atomic_load(&shm->header->attached) < (uint32_t)shm->world;
}

static yk_status wait_for_all(shm_backend *shm)
{
    atomic_fetch_add(&shm->header->attached, 1);
    for (int looks = 1; not_attached(shm, -1); looks++) {
        nanosleep(&(struct timespec){.tv_nsec = ATTACH_POLL_NS}, NULL);
        if (looks % 100 == 0)
            YK_TRY(shm->site->look(shm->site->context, not_attached, shm));
    }
    return YK_OK;
}

/*
 * Spinning pays if there is a core for each rank, by affinity and quota. Pinned ranks see only
 * their own cores, so the sets of all ranks are united.
 */
static bool cores_for_all(const shm_backend *shm)
{
    cpu_set_t all;
    CPU_ZERO(&all);
    for (int r = 0; r < shm->world; r++)
        CPU_OR(&all, &all, &shm->ranks[r]->affinity);
    int own = CPU_COUNT(&shm->me->affinity), available = yki_cores_available();
    bool quota = available < own; /* the cgroup gives less than the affinity mask promises */
    return shm->world <= (quota ? available : CPU_COUNT(&all));
}

bool yki_shm_is_crowded(const yk_backend *backend)
{
    return backend->ops == &yki_backend_shm && !((const shm_backend *)backend)->spin;
}

/* ---- the table's functions ------------------------------------------------------------------- */

static void shm_close(yk_backend *backend)
{
    shm_backend *shm = (shm_backend *)backend;
    yki_shm_free_regions(shm);
    yki_shm_detach(&shm->control);
    yki_shm_mailbox_close(&shm->mailbox);
    yki_shm_drop_letters(shm);
    free(shm->letters);
    free(shm->ranks);
    free(shm->from);
    free(shm->to);
    free(shm->sent);
    free(shm->transfers);
    free(shm->first);
    free(shm);
}

static bool allocate_tables(shm_backend *shm)
{
    size_t world = (size_t)shm->world;
    shm->ranks = yki_calloc(world, sizeof *shm->ranks);
    shm->from = yki_calloc(world, sizeof *shm->from);
    shm->to = yki_calloc(world, sizeof *shm->to);
    shm->sent = yki_calloc(4 * world, sizeof *shm->sent);
    shm->letters = yki_calloc(world, sizeof *shm->letters);
    shm->first = yki_calloc(4 * world, sizeof(shm_transfer *));
    for (size_t r = 0; shm->letters && r < world; r++)
        shm->letters[r] = -1;
    if (!shm->ranks || !shm->from || !shm->to || !shm->sent || !shm->letters || !shm->first)
        return false;
    shm->received = shm->sent + world;
    shm->filled = shm->received + world;
    shm->drained = shm->filled + world;
    shm->last = shm->first + 2 * world;
    return true;
}

static yk_status attach(shm_backend *shm)
{
    YK_TRY(check_machine(shm->site));
    YK_TRY(yki_shm_mailbox_open(&shm->mailbox));
    YK_TRY(shm->rank == 0 ? publish_segment(shm, create_control(shm)) : find_control(shm));
    CPU_ZERO(&shm->me->affinity);
    sched_getaffinity(0, sizeof shm->me->affinity, &shm->me->affinity);
    YK_TRY(wait_for_all(shm));
    yki_shm_close_file(&shm->control);
    shm->spin = cores_for_all(shm);
    return YK_OK;
}

static yk_status shm_open(yk_backend **backend, const yk_backend_site *site)
{
    *backend = NULL;
    shm_backend *shm = yki_calloc(1, sizeof *shm);
    if (!shm)
        return yki_error_memory(sizeof *shm, "the shm backend");
    shm->base.ops = &yki_backend_shm;
    shm->site = site;
    shm->placed = shm;
    shm->rank = site->rank;
    shm->world = site->ranks;
    shm->control.fd = shm->mailbox.fd = -1;
    shm->half[0].to = shm->half[1].to = -1;
    yk_status status =
        allocate_tables(shm) ? attach(shm) : yki_error_memory((size_t)site->ranks * 48, "ranks");
    if (status == YK_OK)
        *backend = &shm->base;
    else
        shm_close(&shm->base);
    return status;
}

/* Finishes the call on the caller's thread: there is never a work to test or to cancel. */
static yk_status shm_post(yk_backend *backend, yk_backend_call *call, yk_backend_work **work)
{
    shm_backend *shm = (shm_backend *)backend;
    *work = NULL;
    shm->background = call->background;
    YK_TRY(yki_shm_check_given_up(shm));
    return call->message_count > 0 ? yki_shm_transfer(shm, call) : yki_shm_collective(shm, call);
}

void yki_shm_share_regions(yk_backend *borrower, const yk_backend *owner)
{
    if (borrower->ops == &yki_backend_shm && owner->ops == &yki_backend_shm)
        ((shm_backend *)borrower)->placed = (const shm_backend *)owner;
}

const yk_backend_ops yki_backend_shm = {
    .version = YK_BACKEND_VERSION,
    .size = sizeof(yk_backend_ops),
    .name = "shm",
    .capabilities = YK_BACKEND_RANK_ORDER | YK_BACKEND_REGISTERED_MEMORY,
    .max_works = 1,
    .open = shm_open,
    .close = shm_close,
    .post = shm_post,
    .alloc = yki_shm_alloc,
    .free = yki_shm_free,
};

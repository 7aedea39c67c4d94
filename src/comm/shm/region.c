/*
 * yk_group_alloc: every rank creates a segment, posts its descriptor to all others, and maps all
 * segments. Three exchanges make this all or nothing: they tell every rank whether there is room
 * for all segments together, whether all were created, and whether all were mapped.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "comm/shm/shm.h"

enum { PAGE = 4096 };

static const uint64_t LARGEST = (uint64_t)1 << 40; /* what placements can address */

/* The outcome on one rank; fits a line of the exchange. */
typedef struct offer {
    int32_t status;
    uint64_t free_bytes;
} offer;

_Static_assert(sizeof(offer) <= SHM_INLINE, "an offer travels with the exchange");

/* Turns the outcomes that were just exchanged into the status of this rank. */
static yk_status check_offers(const shm_backend *shm, const yk_backend_call *call,
                              const offer *mine)
{
    for (int r = 0; r < shm->world; r++) {
        offer news;
        int job_rank = shm->site->members[r].job_rank;
        memcpy(&news, yki_shm_line_of(shm, r)->data, sizeof news);
        if (news.status == YK_OK || news.status == YK_ERROR_PEER_FAILED ||
            (mine->status != YK_OK && mine->status != YK_ERROR_PEER_FAILED))
            continue; /* success, a consequence, or less specific than this rank's own error */
        if (news.status != YK_ERROR_OUT_OF_MEMORY)
            return yki_error(
                (yk_status)news.status,
                "rank %d cannot create or share its memory: see the error of that rank", job_rank);
        return yki_error(YK_ERROR_OUT_OF_MEMORY,
                         "rank %d cannot allocate %llu bytes of shared memory: %llu are free",
                         job_rank, (unsigned long long)call->what.count,
                         (unsigned long long)news.free_bytes);
    }
    return (yk_status)mine->status;
}

/*
 * Posts the segment to one peer after the other and receives theirs. The ranks proceed in step, so
 * that few descriptors are in flight: the kernel allows a user RLIMIT_NOFILE of them. No rank posts
 * while another one takes its letters, because a letter that has been announced but not sent yet
 * would be dropped.
 */
static yk_status pass_around(shm_backend *shm, const shm_segment *mine, yk_status *passed)
{
    *passed = YK_OK;
    for (int k = 1; k < shm->world; k++) {
        int r = (shm->rank + k) % shm->world;
        if (*passed == YK_OK)
            *passed = yki_shm_post(shm, r, shm->ranks[r]->mailbox, mine->fd);
        YK_TRY(yki_shm_step(shm));
        if (*passed == YK_OK)
            *passed = yki_shm_take_letters(shm);
        YK_TRY(yki_shm_step(shm));
    }
    return YK_OK;
}

static yk_status attach_peers(shm_backend *shm, shm_region *region)
{
    for (int r = 0; r < shm->world; r++)
        if (r != shm->rank)
            YK_TRY(yki_shm_attach(&region->segments[r], shm->site->members[r].job_rank,
                                  yki_shm_letter(shm, r), region->bytes));
    return YK_OK;
}

static void free_region(shm_backend *shm, shm_region *region)
{
    for (int r = 0; region->segments && r < shm->world; r++)
        yki_shm_detach(&region->segments[r]);
    free(region->segments);
    region->segments = NULL;
}

static bool reserve_region(shm_backend *shm, shm_region *region)
{
    shm_region *regions =
        realloc(shm->regions, (size_t)(shm->region_count + 1) * sizeof *shm->regions);
    if (!regions)
        return false;
    shm->regions = regions;
    region->segments = yki_calloc((size_t)shm->world, sizeof *region->segments);
    for (int r = 0; region->segments && r < shm->world; r++)
        region->segments[r].fd = -1;
    return region->segments != NULL;
}

/* What keeps this rank from making its segment is told to the others. */
static yk_status prepare_region(shm_backend *shm, const yk_backend_call *call, shm_region *region)
{
    size_t bytes = call->what.count ? call->what.count : 1;
    if (bytes > LARGEST)
        return yki_error(YK_ERROR_OUT_OF_MEMORY,
                         "shared memory: %zu bytes needed, one region has at most %llu", bytes,
                         (unsigned long long)LARGEST);
    if (shm->region_count == SHM_MAX_REGIONS || shm->next_region > SHM_LAST_REGION ||
        !reserve_region(shm, region))
        return yki_error(YK_ERROR_OUT_OF_MEMORY, "no room for another region of shared memory");
    region->bytes = yki_align(bytes, PAGE);
    return YK_OK;
}

/*
 * Whether there is room for the segments of all ranks, by what each of them saw before the first
 * took its part. One after the other they could all find room, and the kernel would end a process.
 */
static yk_status check_room(const shm_backend *shm, size_t bytes)
{
    uint64_t least = UINT64_MAX;
    for (int r = 0; r < shm->world; r++) {
        offer news;
        memcpy(&news, yki_shm_line_of(shm, r)->data, sizeof news);
        least = news.free_bytes < least ? news.free_bytes : least;
    }
    return bytes <= least / (uint64_t)shm->world ? YK_OK
                                                 : yki_shm_no_room(bytes, shm->world, least, 0);
}

static yk_status create_all(shm_backend *shm, yk_backend_call *call, shm_region *region)
{
    offer news = {.status = prepare_region(shm, call, region), .free_bytes = yki_shm_free_bytes()};
    YK_TRY(yki_shm_exchange(shm, call, NULL, &news, sizeof news));
    YK_TRY(check_offers(shm, call, &news));
    YK_TRY(check_room(shm, region->bytes));
    assert(region->segments);
    news.status = yki_shm_create(&region->segments[shm->rank], region->bytes);
    YK_TRY(yki_shm_exchange(shm, call, NULL, &news, sizeof news));
    return check_offers(shm, call, &news);
}

static yk_status attach_all(shm_backend *shm, yk_backend_call *call, shm_region *region)
{
    yk_status passed;
    shm->round = (uint32_t)call->sequence;
    yk_status status = pass_around(shm, &region->segments[shm->rank], &passed);
    if (status == YK_OK) {
        offer news = {.status = passed == YK_OK ? attach_peers(shm, region) : passed};
        status = yki_shm_exchange(shm, call, NULL, &news, sizeof news);
        if (status == YK_OK)
            status = check_offers(shm, call, &news);
    }
    yki_shm_drop_letters(shm);
    return status;
}

yk_status yki_shm_alloc(yk_backend *backend, yk_backend_call *call, void **memory)
{
    shm_backend *shm = (shm_backend *)backend;
    shm_region region = {0};
    shm->background = call->background;
    YK_TRY(yki_shm_check_given_up(shm));
    yk_status status = create_all(shm, call, &region);
    if (status == YK_OK)
        status = attach_all(shm, call, &region);
    if (status != YK_OK) {
        free_region(shm, &region);
        return status;
    }
    for (int r = 0; r < shm->world; r++)
        yki_shm_close_file(&region.segments[r]);
    region.id = shm->next_region++;
    *memory = region.segments[shm->rank].memory;
    shm->regions[shm->region_count++] = region;
    return YK_OK;
}

/* Peers that have not freed theirs yet keep the memory: it is gone when no rank maps it. */
yk_status yki_shm_free(yk_backend *backend, void *memory)
{
    shm_backend *shm = (shm_backend *)backend;
    for (uint64_t i = 0; i < shm->region_count; i++) {
        if (shm->regions[i].segments[shm->rank].memory != memory)
            continue;
        free_region(shm, &shm->regions[i]);
        shm->region_count--;
        memmove(&shm->regions[i], &shm->regions[i + 1],
                (size_t)(shm->region_count - i) * sizeof *shm->regions);
        return YK_OK;
    }
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "yk_group_free: %p is not memory of this group's yk_group_alloc", memory);
}

void yki_shm_free_regions(shm_backend *shm)
{
    for (uint64_t i = 0; i < shm->region_count; i++)
        free_region(shm, &shm->regions[i]);
    free(shm->regions);
    shm->regions = NULL;
    shm->region_count = 0;
}

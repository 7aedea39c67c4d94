/*
 * The shared-memory backend's own contract between its files.
 *
 * One control segment holds, for each rank, what that rank alone writes and its peers read:
 *
 *   line[2]     descriptor, placement and up to 32 bytes of data in one cache line, published by
 *               the ticket in it: the check and a tiny message travel together (exchange.c)
 *   step        a counter of what was finished within a collective (signal.c)
 *   small[2]    data of up to SMALL bytes that rides on the same exchange
 *   stage[2]    chunks of larger data that does not live in shared memory
 *   outbox      data of messages, and one channel for each receiver (point_to_point.c)
 *   bell        rung by the others when a message to or from this rank may go on
 *
 * Whatever comes twice alternates. Rank A may overwrite line[i] at ticket t + 2, because it has
 * then seen everybody's ticket t + 1, which each publishes only when done with ticket t. The same
 * argument holds for stage[] with chunks. All waiting is for counters that only grow.
 *
 * Regions are further segments, one a rank for each yk_group_alloc, which all ranks map: data in
 * them is read and written by the peers where it lies.
 */
#ifndef YKI_SHM_H
#define YKI_SHM_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <yoke/backend.h>

#include "comm/call.h"

enum {
    SHM_MAILBOX_NAME = 40,
    SHM_LINE = 64,
    SHM_REASON = 384,
    SHM_INLINE = 32,
    SHM_SMALL = 8 << 10,
    SHM_STAGE = 256 << 10,
    SHM_OUTBOX = 64 << 10,
    SHM_MAX_REGIONS = 4096,         /* at a time */
    SHM_LAST_REGION = (1 << 24) - 2 /* over a group's life: placements have 24 bits for it */
};

typedef _Atomic uint32_t shm_counter;

/* Published by its ticket. placement is 0, or 1 + region << 40 | offset of the data. */
typedef struct shm_line {
    yk_descriptor what;
    uint64_t placement;
    unsigned char data[SHM_INLINE];
    shm_counter ticket;
} __attribute__((aligned(SHM_LINE))) shm_line;

/* From one sender to one receiver. The sender writes the first line, the receiver the second. */
typedef struct shm_channel {
    yk_descriptor what[2]; /* of the even and of the odd messages */
    uint64_t placement[2];
    uint32_t half[2];   /* of the outbox, where the even and the odd chunks are */
    shm_counter sent;   /* messages announced: what is valid */
    shm_counter filled; /* chunks filled, over all messages */
    _Alignas(SHM_LINE) yk_descriptor wanted[2];
    shm_counter received; /* messages the receiver has come for: wanted is valid */
    shm_counter drained;  /* chunks taken, over all messages */
} __attribute__((aligned(SHM_LINE))) shm_channel;

typedef struct shm_rank {
    shm_line line[2];
    _Alignas(SHM_LINE) shm_counter step;
    _Alignas(SHM_LINE) shm_counter bell;
    _Alignas(SHM_LINE) shm_counter sleepers; /* processes asleep on a counter of this rank */
    cpu_set_t affinity;
    char mailbox[SHM_MAILBOX_NAME]; /* its name; written by rank 0 before others attach */
    _Alignas(SHM_LINE) unsigned char small[2][SHM_SMALL];
    unsigned char outbox[2][SHM_OUTBOX / 2];
    unsigned char stage[2][SHM_STAGE];
    shm_channel to[]; /* [world] */
} shm_rank;

typedef enum shm_end { SHM_GOES_ON, SHM_GIVING_UP, SHM_GIVEN_UP } shm_end;

typedef struct shm_header {
    uint64_t magic; /* layout and version */
    uint32_t world;
    shm_counter attached;
    _Alignas(SHM_LINE) atomic_int given_up; /* a shm_end: whether a rank has given up a call */
    int status;                             /* and why */
    char reason[SHM_REASON];
    _Alignas(SHM_LINE) unsigned char ranks[]; /* world times rank_bytes */
} shm_header;

/* A mapped segment; fd is -1 where there is none, and once all ranks have mapped it. */
typedef struct shm_segment {
    void *memory;
    size_t bytes;
    int fd;
} shm_segment;

/* Where peers post descriptors. See mailbox.c. */
typedef struct shm_mailbox {
    int fd;
    char name[SHM_MAILBOX_NAME];
} shm_mailbox;

typedef struct shm_region {
    uint64_t id; /* counts from 0, the same on all ranks, and is never used again */
    size_t bytes;
    shm_segment *segments; /* [world] */
} shm_region;

/* How far a message has come. */
typedef struct shm_transfer {
    const yk_backend_message *message;
    struct shm_transfer *next; /* in its channel */
    bool announced, matched, over;
    bool shared;     /* its data is read where it lies */
    uint32_t number; /* in its channel */
    size_t done;     /* bytes that this rank has filled or taken */
} shm_transfer;

/* Which chunk of which receiver fills half of the outbox. */
typedef struct shm_half {
    int to; /* -1: none yet */
    uint32_t chunk;
} shm_half;

typedef struct shm_backend {
    yk_backend base;
    const yk_backend_site *site;
    int rank, world;
    shm_mailbox mailbox;
    uint32_t round; /* of letters: the sequence number of the call; 0 for the control segment */
    int *letters;   /* [world]: descriptors that have come, or -1 */
    shm_segment control;
    shm_header *header;
    shm_rank **ranks; /* [world] */
    shm_rank *me;
    const struct shm_backend *placed; /* whose regions data may lie in: usually this */
    shm_region *regions;              /* those not yet freed, by rising id */
    uint64_t region_count, next_region;
    uint32_t ticket, step, chunk; /* the next values are the same on all ranks */
    uint32_t *sent, *received;    /* [world]: messages to and from each rank */
    uint32_t *filled, *drained;   /* [world]: chunks to and from each rank */
    shm_half half[2];
    shm_transfer *transfers; /* [transfer_room], of the running call's messages */
    size_t transfer_room;
    shm_transfer **first; /* [first_count] of each channel that has any, the first not over; */
    shm_transfer **last;  /* [2 * world]: the last one from and to each rank, scratch */
    int first_count;
    bool spin;         /* every rank has a core of its own */
    bool background;   /* of the running call */
    const void **from; /* [world], scratch of the running call */
    void **to;
} shm_backend;

/* ---- segment.c ------------------------------------------------------------------------------ */

/* Makes a segment of zeroed bytes that are really there. */
yk_status yki_shm_create(shm_segment *segment, size_t bytes);
/* Maps the segment of that rank of the job by its descriptor, which it takes over; -1: none has
 * come. */
yk_status yki_shm_attach(shm_segment *segment, int job_rank, int fd, size_t bytes);
/* Once all ranks have mapped it: many ranks and regions would run out of files. */
void yki_shm_close_file(shm_segment *segment);
void yki_shm_detach(shm_segment *segment);
/* Bytes that a new segment could still get, by what limits it first. */
uint64_t yki_shm_free_bytes(void);
/* The error of a segment that so many ranks each need; error: a number of errno, or 0. */
yk_status yki_shm_no_room(size_t bytes, int ranks, uint64_t free_bytes, int error);

/* ---- mailbox.c ------------------------------------------------------------------------------ */

yk_status yki_shm_mailbox_open(shm_mailbox *mailbox);
void yki_shm_mailbox_close(shm_mailbox *mailbox);
/* Sends the descriptor to the mailbox of that rank, without waiting for it to be taken. */
yk_status yki_shm_post(const shm_backend *shm, int rank, const char *name, int file);
/* Takes the descriptors of all letters of this round that have come. Does not wait. */
yk_status yki_shm_take_letters(shm_backend *shm);
/* The descriptor that a rank has sent, which is the caller's from here on; -1: none. */
int yki_shm_letter(shm_backend *shm, int rank);
/* Closes the descriptors that nobody has asked for. */
void yki_shm_drop_letters(shm_backend *shm);

/* ---- signal.c ------------------------------------------------------------------------------- */

/* Counters wrap around, so the comparison is modulo 2^32. */
static inline bool yki_shm_reached(shm_counter *counter, uint32_t target)
{
    uint32_t now = atomic_load_explicit(counter, memory_order_acquire);
    return (int32_t)(now - target) >= 0;
}

/* Stores value to a counter of this rank (with release order) and wakes the ranks asleep on it. */
void yki_shm_publish(shm_backend *shm, shm_counter *counter, uint32_t value);

/* Rings the bell of a rank, after what it is told by it has been stored. */
void yki_shm_ring(shm_backend *shm, int rank);

/* The counters waited for: which one of a rank, and the value it must have reached. */
typedef struct shm_wait {
    shm_backend *shm;
    shm_counter *(*counter)(const struct shm_wait *wait, int rank);
    uint32_t target;
    int only; /* a rank, or -1 for all */
    int slot; /* which of two, for lines */
    /* Whether it cannot end, and because of what; may be NULL. */
    bool (*hopeless)(const struct shm_wait *wait, yk_mismatch *mismatch);
    /* Whether it is for that rank; NULL: for those whose counters have not reached it. */
    bool (*missing)(const struct shm_wait *wait, int rank);
    yk_backend_call *call;
} shm_wait;

yk_status yki_shm_wait_for(const shm_wait *wait);
/* YK_OK, unless a rank has given up; then its reason. */
yk_status yki_shm_check_given_up(const shm_backend *shm);
/* This rank has done its part of a step; returns when all have. */
yk_status yki_shm_step(shm_backend *shm);

/* ---- exchange.c ----------------------------------------------------------------------------- */

/*
 * Publishes this rank's descriptor with `size` bytes of data and waits for those of all others;
 * YK_ERROR_MISMATCH, with call->mismatch set, when they differ.
 */
yk_status yki_shm_exchange(shm_backend *shm, yk_backend_call *call, const void *shared,
                           const void *data, size_t size);
/* After it: the line of a rank, and where its `shared` data is, NULL when private. */
const shm_line *yki_shm_line_of(const shm_backend *shm, int rank);
void *yki_shm_placed(const shm_backend *shm, int rank);
/* Where a rank's region, offset is; the placement of an address of this rank's, 0 when private. */
void *yki_shm_locate(const shm_backend *shm, int rank, uint64_t placement);
uint64_t yki_shm_placement(const shm_backend *shm, const void *data);

/* ---- collectives, alloc ---------------------------------------------------------------------- */

/* Sets the two sides of a mismatch after which the group is unusable; returns true. */
bool yki_shm_out_of_step(yk_mismatch *mismatch, int rank_a, const yk_descriptor *what_a, int rank_b,
                         const yk_descriptor *what_b);

/* YK_ERROR_MISMATCH: this rank has freed the memory where the data of rank `owner` lies. */
yk_status yki_shm_memory_freed(const shm_backend *shm, yk_backend_call *call, int owner);

yk_status yki_shm_alloc(yk_backend *backend, yk_backend_call *call, void **memory);
yk_status yki_shm_free(yk_backend *backend, void *memory);
void yki_shm_free_regions(shm_backend *shm);
yk_status yki_shm_collective(shm_backend *shm, yk_backend_call *call);
yk_status yki_shm_reduce_in_place(shm_backend *shm, yk_backend_call *call);
yk_status yki_shm_transfer(shm_backend *shm, yk_backend_call *call);

#endif

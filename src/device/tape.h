/*
 * Work that is entered in a device's stream again and again with the same addresses and arguments,
 * such as a pass over a plan. The first run walks: it calls the function that enters the work,
 * while kernels are warmed up and sweeps bring their spans to the device. The second run records,
 * and later ones replay. On a device without recordings, and while a timeline is recorded, every
 * run walks.
 *
 *     yki_tape_run(&tape, device, moves, enter, context);
 *
 * `moves` changes whenever an address that the work uses may have changed; the recordings are then
 * dropped, and the next run walks again. What the host has to do between two parts of the work goes
 * through yki_tape_call. It splits the work into several recordings, and is done between them in
 * every replay.
 */
#ifndef YKI_TAPE_H
#define YKI_TAPE_H

#include <stddef.h>
#include <stdint.h>

#include "device/memory.h"

typedef yk_status (*yki_tape_work)(void *context);
typedef yk_status (*yki_tape_host)(void *context, int64_t subject);

typedef struct yki_tape_item yki_tape_item;

typedef enum yki_tape_state { YKI_TAPE_FRESH, YKI_TAPE_WALKED, YKI_TAPE_RECORDED } yki_tape_state;

/* Zeroed before its first run. */
typedef struct yki_tape {
    yki_device *device;
    yki_tape_state state;
    uint64_t moves;       /* of its first run */
    uint64_t number;      /* of its recordings: at least 2, given by whoever compares tapes */
    yki_tape_item *items; /* recordings, and what the host does after them */
    size_t count, room;
    size_t part; /* the recording that is being made ... */
    bool open;   /* ... if this is set */
} yki_tape;

/* What the next run with these moves does: 0 walks, 1 records, and more is the number of the
 * recordings that it replays. */
uint64_t yki_tape_next(const yki_tape *tape, uint64_t moves);
/* Enters the work. */
yk_status yki_tape_run(yki_tape *tape, yki_device *device, uint64_t moves, yki_tape_work enter,
                       void *context);
/*
 * While enter runs: calls host(context, subject), in replays too. With at_once, all that enter has
 * entered so far is in the device's stream by then; otherwise the call may come later, after more
 * of it.
 */
yk_status yki_tape_call(yki_tape *tape, yki_tape_host host, void *context, int64_t subject,
                        bool at_once);
/* Forgets the recordings, once what they have entered is done. */
yk_status yki_tape_drop(yki_tape *tape);

#endif

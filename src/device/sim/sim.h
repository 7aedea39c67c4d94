/*
 * The simulated device: an accelerator that is as unkind as device/memory.h permits, so that a
 * program which is correct on it has good reasons to be correct on a real one. Its kernels are
 * ref's, and so are its bits.
 *
 * Memory: an address of the device is an address at which nothing is mapped; the bytes are
 * elsewhere, and only the device knows where (memory.c). The host that dereferences one crashes at
 * that line. Every address that the device is given is checked to lie in memory that is allocated.
 *
 * Time: what is entered in a stream is only noted. It is done when someone waits for it, on the
 * thread that waits, with nothing but what it depends on; where the order is free, it is drawn from
 * YOKE_SIM_SEED (stream.c). Host memory is read and written at that time, too.
 *
 * Failures: an operation that fails is reported by every wait for a point after it. The work that
 * was entered between the failure and the first report of it is not done.
 */
#ifndef YKI_SIM_H
#define YKI_SIM_H

#include <pthread.h>

#include "base/reference.h"
#include "device/device.h"

typedef struct yki_sim_block yki_sim_block;

typedef struct yki_sim_memory {
    pthread_mutex_t lock;
    yki_sim_block **blocks; /* by address, those freed lately among them */
    size_t count, room;
    size_t freed; /* how many of them are */
} yki_sim_memory;

/* Memory of a stand-in for a driver, which has the streams of a simulated device, and tests. */
typedef struct yki_sim_foreign {
    /* As yki_sim_find; this thread has access until it leaves. */
    yk_status (*find)(const void *address, size_t bytes, void **host);
    void (*leave)(void);
} yki_sim_foreign;

typedef struct yki_sim {
    yki_device base;
    yki_reference references; /* its creator's, and that of each link which it has used */
    yki_sim_memory memory;
    const yki_sim_foreign *foreign; /* instead of memory; or NULL */
    pthread_mutex_t lock;           /* of everything below, and of all streams and events */
    pthread_cond_t progress;
    yki_stream *streams;   /* all that there ever were; destroyed ones are used again */
    yki_stream *exclusive; /* where the last operation of an exclusive kind is, or NULL */
    uint64_t exclusive_number;
    uint64_t draws, recordings;
} yki_sim;

/* ---- device.c -------------------------------------------------------------------------------- */

/* Without streams and memory, but with its lock, a destroyed device is there until links that have
 * used it end too. */
void yki_sim_release_device(yki_sim *sim);

/* ---- memory.c -------------------------------------------------------------------------------- */

extern const yki_memory_ops yki_sim_memory_ops;

/* Where the bytes at a device's address are. An error unless all of them are allocated. */
yk_status yki_sim_find(yki_sim *sim, const void *address, size_t bytes, void **host);
/* An error unless the address is the host's, and not in pinned memory that has been freed. */
yk_status yki_sim_check_host(yki_sim *sim, const void *address);
/* Frees what is left. */
void yki_sim_memory_close(yki_sim *sim);

/* ---- stream.c -------------------------------------------------------------------------------- */

/* What an operation does; work is its own copy of what was entered. */
typedef struct yki_sim_work {
    yk_status (*run)(yki_sim *sim, void *work);
    /* Whether it can begin, as far as other processes are concerned; may be NULL. Asked
     * repeatedly, under the device's lock, once the stream has reached it and it is wanted. */
    bool (*ready)(yki_sim *sim, void *work);
    void (*retain)(void *work);  /* another copy of work is made; may be NULL */
    void (*release)(void *work); /* a copy is no longer needed; may be NULL */
    size_t bytes;                /* of work */
    /* It occupies the device while it waits for other processes. Two such operations whose order is
     * free might wait for each other, so the later one fails instead. */
    bool exclusive;
} yki_sim_work;

/* Notes an operation at the end of the stream. */
yk_status yki_sim_enter(yki_sim *sim, yki_stream *stream, const yki_sim_work *kind,
                        const void *work);
/* Frees all streams and what is in them, undone. */
void yki_sim_streams_close(yki_sim *sim);

/* ---- kernel.c -------------------------------------------------------------------------------- */

/* The kernels of ref, entered in streams; ends with NULL. Empty before it has been filled. */
extern const yki_kernel_impl *yki_sim_kernels[];
void yki_sim_fill_kernels(void);

/* ---- sweep.c --------------------------------------------------------------------------------- */

yk_status yki_sim_sweep(yki_device *device, const yki_sweep_args *args);

/* ---- muon.c ---------------------------------------------------------------------------------- */

extern const yki_muon_ops yki_sim_muon;

/* ---- low_rank.c ------------------------------------------------------------------------------ */

yk_status yki_sim_low_rank(yki_device *device, const yki_low_rank_args *args);

/* ---- clock.c --------------------------------------------------------------------------------- */

yk_status yki_sim_note_time(yki_device *device, int64_t *nanoseconds, yki_stream *stream);

/* ---- pictures.c ------------------------------------------------------------------------------ */

yk_status yki_sim_pictures(yki_device *device, const yki_pictures_args *args);

#endif

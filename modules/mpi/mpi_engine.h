/*
 * The mpi backend: mpi.c opens and closes it, collectives.c has the collectives and messages.c
 * messages between two ranks, and finalise.c ends MPI. All are compiled once for each MPI, because
 * the libraries of Open MPI and MPICH do not mix.
 */
#ifndef MPI_ENGINE_H
#define MPI_ENGINE_H

#include <stdatomic.h>

#include <mpi.h>

#include <yoke/backend.h>

#include "comm/engine/engine.h"

#ifdef OPEN_MPI
#define LIBRARY "Open MPI"
#else
#define LIBRARY "MPICH"
#endif

enum { LARGEST_COUNT = 1 << 30 }; /* elements in one call of MPI, whose counts are ints */

/* Tags: of an exchange; and of messages, the descriptor of a send, that of a receive, and the data.
 */
enum { TAG_MESSAGE = 1, TAG_SENT, TAG_WANTED, TAG_DATA };

/* A part of a call that MPI's counts can express. */
typedef struct mpi_span {
    size_t start; /* in bytes */
    int count;    /* in elements */
} mpi_span;

/* How far a message has come, and what MPI uses of it meanwhile. */
typedef struct mpi_transfer {
    const yk_backend_message *message;
    struct mpi_transfer *next; /* in its channel */
    yk_descriptor mine, theirs;
    MPI_Request told, heard, moved; /* the two descriptors, and a part of the data */
    bool compared;
    mpi_span part; /* of the data, */
    size_t left;   /* and the elements after it */
} mpi_transfer;

/* The messages of a call from or to one rank. */
typedef struct mpi_channel {
    struct mpi_channel *next; /* that is busy */
    /* The first one that is not over, and those of which not all data is under way and that are not
     * announced; NULL: there is none. */
    mpi_transfer *first, *idle, *unannounced;
    mpi_transfer *last;
    int ahead; /* how many are announced and not over */
} mpi_channel;

typedef struct mpi_engine {
    yki_engine_base common;                    /* first */
    enum { INITIALISES, CREATES, RUNS } stage; /* what the thread does next */
    MPI_Comm comm;
    int leader_tag;          /* of the creation of comm, chosen by rank 0 */
    int *world_ranks;        /* [ranks] in MPI_COMM_WORLD */
    MPI_Request *requests;   /* [2 * ranks] of an exchange */
    int pending;             /* those that may not be done; 1 while there are messages */
    mpi_transfer *transfers; /* [transfer_room], of the messages of a call */
    size_t transfer_room;
    mpi_channel *channels; /* [2 * ranks], from and to each rank, */
    mpi_channel *busy;     /* and those that have messages that are not over */
    size_t largest;        /* LARGEST_COUNT, but tests make it small */
    atomic_bool cancelled;
    struct mpi_engine *next_kept; /* closed, but MPI may still write to it */
} mpi_engine;

extern const yki_engine_calls mpi_engine_calls;
yk_status mpi_engine_messages(yki_engine_base *engine, yk_backend_call *call);

/* An error where the engine has failed. It then begins no more calls: MPI may still use the memory
 * of the last one. */
yk_status mpi_engine_check_usable(const mpi_engine *engine);

MPI_Datatype mpi_type_of(yk_dtype dtype);

/* The next part, of at most `most` elements of this width; false at the end. */
bool mpi_next_span(mpi_span *at, size_t *left, size_t most, size_t width);

/* Between tests of requests: spins and then yields or, in the background, takes naps. */
typedef struct mpi_pauses {
    bool background;
    int tests;
    long nap;
} mpi_pauses;

void mpi_pause(mpi_pauses *p);

double mpi_now(void); /* in seconds */

/* Once for the process, after MPI: the operations on bf16 and f16. Returns a code of MPI. */
int mpi_engine_create_operations(void);

/* Ends MPI at the end of a process whose work is done, in which it has moved data or has only told
 * ranks where to meet. May end the process. */
void mpi_engine_finalise(bool only_met);

yk_status mpi_engine_failed(const char *what, int code);

#define TRY_MPI(call)                                                                              \
    do {                                                                                           \
        int code_ = (call);                                                                        \
        if (code_ != MPI_SUCCESS)                                                                  \
            return mpi_engine_failed(#call, code_);                                                \
    } while (0)

#define TRY(call)                                                                                  \
    do {                                                                                           \
        yk_status status_ = (call);                                                                \
        if (status_ != YK_OK)                                                                      \
            return status_;                                                                        \
    } while (0)

#endif

/*
 * The connections of the fake backend: one Unix socket between every two ranks, which carries
 * frames. A frame is a header and `bytes` of the message that the header names; frames of several
 * messages mix as the adversary likes, and the parts of one message may come in any order.
 */
#ifndef YK_TEST_FAKE_WIRE_H
#define YK_TEST_FAKE_WIRE_H

#include <yoke/backend.h>

#include "adversary.h"

enum { FAKE_RANKS_MAX = 64 };

/* What a message belongs to. A rank sends each kind at most once for a sequence number and peer. */
typedef enum fake_kind {
    FAKE_COLLECTIVE, /* a descriptor */
    FAKE_SENDER,     /* the descriptor of a send */
    FAKE_RECEIVER,   /* the descriptor of a recv */
    FAKE_DATA,       /* the data of a collective */
    FAKE_MESSAGE     /* the data of a send */
} fake_kind;

typedef struct fake_header {
    uint64_t kind; /* a fake_kind */
    uint64_t sequence;
    uint64_t offset; /* in the message */
    uint64_t bytes;  /* of this frame, after the header */
} fake_header;

typedef struct fake_frame {
    struct fake_frame *next;
    int *unsent; /* counts the frames of a work that have not left; NULL: nobody counts */
    size_t size; /* of content */
    char content[];
} fake_frame;

typedef struct fake_peer {
    int fd; /* -1 for this rank itself */
    bool ready, closed;
    fake_frame *first, **last; /* to be sent */
    size_t written;            /* of the first frame */
    size_t queued;             /* bytes in all frames */
    fake_header header;        /* of the frame that arrives */
    size_t header_read, payload_read;
} fake_peer;

typedef struct fake_wire {
    fake_adversary *adversary;
    int rank, ranks;
    fake_peer peers[FAKE_RANKS_MAX];
    /* Where the bytes of a frame go; NULL: they are discarded. */
    char *(*locate)(void *context, int from, const fake_header *header);
    /* Called when all bytes of a frame are there. */
    void (*arrived)(void *context, int from, const fake_header *header);
    void *context;
} fake_wire;

/* Connects all ranks; everything but the peers is set. */
yk_status fake_wire_open(fake_wire *wire, const yk_backend_site *site);
void fake_wire_close(fake_wire *wire);

/* Queues one frame, which is a copy of its bytes. */
yk_status fake_wire_send(fake_wire *wire, int to, const fake_header *header, const void *bytes,
                         int *unsent);
/* Reads and writes what can be read and written now. */
void fake_wire_progress(fake_wire *wire);
/* Waits until something can be read or written, at most `seconds`. */
void fake_wire_wait(fake_wire *wire, double seconds);
/* Frames that count on this counter no longer do. */
void fake_wire_forget(fake_wire *wire, const int *unsent);

#endif

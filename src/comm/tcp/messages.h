/* What links keep of the messages between this rank and another one. */
#ifndef YKI_TCP_MESSAGES_H
#define YKI_TCP_MESSAGES_H

#include "comm/tcp/transfer.h"

/* Messages that are announced to another rank before it has announced its side of them, in each
 * direction. It has to keep so many that are of its later calls. */
enum { TCP_AHEAD = 64 };

typedef struct tcp_message tcp_message;

/* The messages of a call from one rank to another. */
typedef struct tcp_channel {
    tcp_message *last;
    /* The first that this rank has not announced, that the other one has not, and whose data has
     * not moved; NULL: there is none. */
    tcp_message *unannounced, *uncompared, *unmoved;
    int ahead; /* how many are announced and not compared */
    /* What the other rank has announced of later calls. */
    yk_descriptor *early; /* [TCP_AHEAD], or NULL */
    int early_count;
} tcp_channel;

/* A part of what is sent or received: a head and a descriptor, then the data of a message. */
typedef struct tcp_frame {
    struct {
        tcp_head head;
        yk_descriptor what;
    } start;
    char *data;
    size_t bytes; /* of all; 0: there is no frame */
    size_t moved; /* those that have been sent or received */
} tcp_frame;

typedef struct tcp_peer {
    tcp_channel channels[2]; /* to it, and from it */
    tcp_frame out, in;       /* that are under way */
} tcp_peer;

#endif

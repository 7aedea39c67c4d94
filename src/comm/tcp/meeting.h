/*
 * How ranks connect with each other: each calls those before it, and listens to those after it,
 * which tell it a token and their number. Whoever does not know the token is sent away.
 */
#ifndef YKI_TCP_MEETING_H
#define YKI_TCP_MEETING_H

#include "comm/tcp/connection.h"

/* What a rank tells the ranks after it. */
typedef struct tcp_card {
    char token[16];
    uint16_t port; /* in the order of the network */
} tcp_card;

typedef struct tcp_meeting tcp_meeting;

/* Listens at an address of this host, on a port that is free. The connections will be in
 * connections[ranks], which must stay valid and have none yet. */
yk_status yki_tcp_meeting_open(tcp_meeting **meeting, int rank, int ranks, const char *address,
                               tcp_connection *connections, tcp_card *card);
/* Calls a rank before this one, which listens at the address. */
yk_status yki_tcp_meeting_call(tcp_meeting *meeting, int other, const char *address,
                               const tcp_card *card);
/* Then every rank calls this until *done. Waits at most wait_ms. */
yk_status yki_tcp_meeting_continue(tcp_meeting *meeting, int wait_ms, bool *done);
/* Accepts NULL. */
void yki_tcp_meeting_close(tcp_meeting *meeting);

#endif

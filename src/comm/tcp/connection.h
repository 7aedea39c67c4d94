/* A connection with another rank, of which no call blocks. */
#ifndef YKI_TCP_CONNECTION_H
#define YKI_TCP_CONNECTION_H

#include <stddef.h>

#include <sys/uio.h>

#include <yoke/backend.h>

#include "base/error.h"

typedef struct tcp_connection {
    int socket;    /* -1: none */
    int low_water; /* bytes by which whoever polls for input is woken */
} tcp_connection;

/* An error with the text of an errno. */
yk_status yki_tcp_failed(const char *what, int error);

/* Takes a connected socket over. Small messages leave at once. */
void yki_tcp_connection_open(tcp_connection *connection, int socket);
void yki_tcp_connection_close(tcp_connection *connection);
/* Ends whatever waits for the other rank, here and there. */
void yki_tcp_connection_reset(const tcp_connection *connection);

/* Move what can be moved now, which may be nothing, and add the bytes to *moved. The other rank's
 * end is an error. */
yk_status yki_tcp_receive(const tcp_connection *from, void *data, size_t bytes, size_t *moved);
yk_status yki_tcp_send(const tcp_connection *to, const void *data, size_t bytes, size_t *moved);
/* The same, of two buffers one after the other. */
yk_status yki_tcp_receive_two(const tcp_connection *from, struct iovec buffers[2], size_t *moved);
yk_status yki_tcp_send_two(const tcp_connection *to, struct iovec buffers[2], size_t *moved);

/* Whoever polls for input is woken by so many bytes, or by any where these are few. */
void yki_tcp_connection_await(tcp_connection *connection, size_t bytes);

#endif

/*
 * What a client sends to the store: the server's reading of it, without its thread. The first byte
 * tells whether the client has already proved itself.
 */
#define _GNU_SOURCE
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "comm/store/requests.h"

enum { CHUNK = 4096 };

/* A listener under a name that the system chooses, and its address. */
static int listen_anywhere(struct sockaddr_un *address, socklen_t *size)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    *size = sizeof *address;
    if (fd < 0 || bind(fd, (struct sockaddr *)address, sizeof(sa_family_t)) || listen(fd, 1) ||
        getsockname(fd, (struct sockaddr *)address, size)) {
        perror("a listener");
        abort();
    }
    return fd;
}

static void discard_replies(int client)
{
    char bytes[CHUNK];
    while (recv(client, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
}

/* Serves what has arrived; a request that waits for its key is answered at once. */
static void serve(yki_store_server *server, yki_store_peer *peer, int client)
{
    for (int left = 1; left > 0 && !peer->doomed;) {
        if (yki_store_peer_read(server, peer))
            yki_store_request_serve(server, peer);
        if (peer->parked) {
            peer->deadline = 0;
            yki_store_request_resume(server, peer);
        }
        discard_replies(client);
        yki_store_peer_flush(server, peer);
        if (ioctl(peer->fd, FIONREAD, &left))
            left = 0;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char no_secret[] = "";
    static struct sockaddr_un address;
    static socklen_t address_size;
    static yki_store_server server = {.listener = -1, .heartbeat_s = 5, .secret = no_secret};
    if (server.listener < 0) {
        server.listener = listen_anywhere(&address, &address_size);
        server.poller = epoll_create1(EPOLL_CLOEXEC);
    }
    fuzz_begin(size);
    int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (client < 0 || connect(client, (struct sockaddr *)&address, address_size))
        abort();
    yki_store_peer_accept(&server);
    yki_store_peer *peer = server.peers;
    if (size > 0 && data[0] % 2 == 0)
        peer->expects = STORE_INPUT_HEADER;
    for (size_t at = 1; at < size && !peer->doomed; at += CHUNK) {
        size_t more = size - at < CHUNK ? size - at : CHUNK;
        if (send(client, data + at, more, MSG_NOSIGNAL) != (ssize_t)more)
            break;
        serve(&server, peer, client);
    }
    yki_store_execute_will(&server, peer);
    yki_store_peer_drop(&server, peer);
    yki_store_table_fini(&server.table);
    close(client);
    fuzz_end();
    return 0;
}

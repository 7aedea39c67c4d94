/* See wire.h. */
#define _GNU_SOURCE
#include "wire.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- connecting ------------------------------------------------------------------------------ */

/* An abstract name, which needs no file; the kernel frees it with the socket. */
static socklen_t name_address(struct sockaddr_un *address, const char *name)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int length = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "%s", name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static yk_status network_error(const char *what)
{
    return yk_set_error(YK_ERROR_NETWORK, "fake: cannot %s: %s", what, strerror(errno));
}

static yk_status listen_and_publish(int *listener, const yk_backend_site *site)
{
    static atomic_int opened;
    char name[64], key[32];
    struct sockaddr_un address;
    int length =
        snprintf(name, sizeof name, "yoke-fake-%d-%d", (int)getpid(), atomic_fetch_add(&opened, 1));
    socklen_t size = name_address(&address, name);
    *listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*listener < 0 || bind(*listener, (struct sockaddr *)&address, size) != 0 ||
        listen(*listener, site->ranks) != 0)
        return network_error("listen");
    snprintf(key, sizeof key, "fake/%d", site->rank);
    return site->set(site->context, key, name, (size_t)length);
}

/* Connects to a rank below this one and says who this is. */
static yk_status connect_to(fake_wire *wire, int rank, const yk_backend_site *site)
{
    char name[64] = "", key[32];
    size_t used = 0;
    struct sockaddr_un address;
    snprintf(key, sizeof key, "fake/%d", rank);
    yk_status status = site->get(site->context, key, name, sizeof name - 1, &used, site->timeout_s);
    if (status != YK_OK)
        return status;
    socklen_t size = name_address(&address, name);
    int fd = wire->peers[rank].fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, size) != 0 ||
        write(fd, &wire->rank, sizeof wire->rank) != sizeof wire->rank)
        return network_error("connect");
    return YK_OK;
}

static bool is_missing(const void *wait, int rank)
{
    const fake_wire *wire = wait;
    return !wire->peers[rank].ready;
}

/* Waits until something can be read, as long as the group has patience. */
static yk_status await(fake_wire *wire, int fd, const yk_backend_site *site)
{
    struct pollfd waiting = {.fd = fd, .events = POLLIN};
    while (poll(&waiting, 1, 20) <= 0) {
        yk_status status = site->look(site->context, is_missing, wire);
        if (status != YK_OK)
            return status;
    }
    return YK_OK;
}

static yk_status accept_one(fake_wire *wire, int listener, const yk_backend_site *site)
{
    yk_status status = await(wire, listener, site);
    if (status != YK_OK)
        return status;
    int rank = -1, fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return network_error("accept");
    if (recv(fd, &rank, sizeof rank, MSG_WAITALL) != sizeof rank || rank <= wire->rank ||
        rank >= wire->ranks || wire->peers[rank].fd >= 0) {
        close(fd);
        return yk_set_error(YK_ERROR_NETWORK, "fake: a stranger has connected");
    }
    wire->peers[rank].fd = fd;
    return YK_OK;
}

/* Returns when every rank has connected to every other. */
static yk_status meet(fake_wire *wire, const yk_backend_site *site)
{
    char ready = 1;
    for (int r = 0; r < wire->ranks; r++)
        if (r != wire->rank && send(wire->peers[r].fd, &ready, 1, MSG_NOSIGNAL) != 1)
            return network_error("meet the other ranks");
    for (int r = 0; r < wire->ranks; r++) {
        if (r == wire->rank)
            continue;
        yk_status status = await(wire, wire->peers[r].fd, site);
        if (status != YK_OK)
            return status;
        if (recv(wire->peers[r].fd, &ready, 1, 0) != 1)
            return network_error("meet the other ranks");
        wire->peers[r].ready = true;
    }
    return YK_OK;
}

yk_status fake_wire_open(fake_wire *wire, const yk_backend_site *site)
{
    int listener = -1;
    for (int r = 0; r < wire->ranks; r++) {
        wire->peers[r].fd = -1;
        wire->peers[r].last = &wire->peers[r].first;
    }
    yk_status status = listen_and_publish(&listener, site);
    for (int r = 0; r < wire->rank && status == YK_OK; r++)
        status = connect_to(wire, r, site);
    for (int r = wire->rank + 1; r < wire->ranks && status == YK_OK; r++)
        status = accept_one(wire, listener, site);
    if (listener >= 0)
        close(listener);
    if (status == YK_OK)
        status = meet(wire, site);
    if (status != YK_OK)
        fake_wire_close(wire);
    return status;
}

void fake_wire_close(fake_wire *wire)
{
    for (int r = 0; r < wire->ranks; r++) {
        fake_peer *peer = &wire->peers[r];
        for (fake_frame *frame = peer->first, *next; frame; frame = next) {
            next = frame->next;
            free(frame);
        }
        if (peer->fd >= 0)
            close(peer->fd);
    }
}

/* ---- sending --------------------------------------------------------------------------------- */

yk_status fake_wire_send(fake_wire *wire, int to, const fake_header *header, const void *bytes,
                         int *unsent)
{
    fake_peer *peer = &wire->peers[to];
    size_t size = sizeof *header + header->bytes;
    fake_frame *frame = malloc(sizeof *frame + size);
    if (!frame)
        return yk_set_error(YK_ERROR_OUT_OF_MEMORY, "fake: no memory for a frame");
    *frame = (fake_frame){.unsent = unsent, .size = size};
    memcpy(frame->content, header, sizeof *header);
    if (header->bytes)
        memcpy(frame->content + sizeof *header, bytes, header->bytes);
    *peer->last = frame;
    peer->last = &frame->next;
    peer->queued += size;
    if (unsent)
        ++*unsent;
    return YK_OK;
}

static void drop_first(fake_peer *peer)
{
    fake_frame *frame = peer->first;
    if (frame->unsent)
        --*frame->unsent;
    peer->first = frame->next;
    if (!peer->first)
        peer->last = &peer->first;
    peer->queued -= frame->size;
    peer->written = 0;
    free(frame);
}

static void write_frames(fake_wire *wire, fake_peer *peer)
{
    while (peer->first && !peer->closed) {
        size_t left = peer->first->size - peer->written;
        size_t size = fake_at_most(wire->adversary, left);
        ssize_t sent =
            send(peer->fd, peer->first->content + peer->written, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0) {
            peer->closed = errno != EAGAIN && errno != EINTR;
            return;
        }
        peer->written += (size_t)sent;
        if (peer->written == peer->first->size)
            drop_first(peer);
        else if (size < left)
            return; /* a short write: the rest another time */
    }
}

void fake_wire_forget(fake_wire *wire, const int *unsent)
{
    for (int r = 0; r < wire->ranks; r++)
        for (fake_frame *frame = wire->peers[r].first; frame; frame = frame->next)
            if (frame->unsent == unsent)
                frame->unsent = NULL;
}

/* ---- receiving ------------------------------------------------------------------------------- */

/* Reads at most `size` bytes; returns how many, and notes the end of the connection. */
static size_t read_some(fake_wire *wire, fake_peer *peer, void *to, size_t size)
{
    ssize_t got = recv(peer->fd, to, fake_at_most(wire->adversary, size), MSG_DONTWAIT);
    if (got > 0)
        return (size_t)got;
    if (got == 0 || (errno != EAGAIN && errno != EINTR))
        peer->closed = true;
    return 0;
}

/* Reads one piece of the frame that arrives; whether there may be more. */
static bool read_piece(fake_wire *wire, int from)
{
    char discarded[4096];
    fake_peer *peer = &wire->peers[from];
    fake_header *header = &peer->header;
    if (peer->header_read < sizeof *header) {
        size_t got = read_some(wire, peer, (char *)header + peer->header_read,
                               sizeof *header - peer->header_read);
        peer->header_read += got;
        if (got == 0 || peer->header_read < sizeof *header)
            return got > 0;
    }
    size_t left = header->bytes - peer->payload_read;
    if (left > 0) {
        char *to = wire->locate(wire->context, from, header);
        size_t room = !to && left > sizeof discarded ? sizeof discarded : left;
        size_t got = read_some(wire, peer, to ? to + peer->payload_read : discarded, room);
        peer->payload_read += got;
        if (peer->payload_read < header->bytes)
            return got > 0;
    }
    wire->arrived(wire->context, from, header);
    peer->header_read = peer->payload_read = 0;
    return true;
}

void fake_wire_progress(fake_wire *wire)
{
    for (int i = 0; i < wire->ranks; i++) {
        int r = (wire->rank + i) % wire->ranks;
        fake_peer *peer = &wire->peers[r];
        if (peer->fd < 0 || peer->closed)
            continue;
        write_frames(wire, peer);
        while (!peer->closed && !fake_chance(wire->adversary, 6) && read_piece(wire, r))
            ;
    }
}

void fake_wire_wait(fake_wire *wire, double seconds)
{
    struct pollfd waiting[FAKE_RANKS_MAX];
    nfds_t count = 0;
    for (int r = 0; r < wire->ranks; r++)
        if (wire->peers[r].fd >= 0 && !wire->peers[r].closed)
            waiting[count++] =
                (struct pollfd){.fd = wire->peers[r].fd,
                                .events = (short)(POLLIN | (wire->peers[r].first ? POLLOUT : 0))};
    poll(waiting, count, seconds > 0 ? 1 + (int)(seconds * 1e3) : 0);
}

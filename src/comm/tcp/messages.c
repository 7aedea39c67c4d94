/*
 * Messages between two ranks: all of a call are under way at once.
 *
 * Both ranks of a message announce it to each other; where they match, its data follows. What a
 * rank sends another one is a stream of frames: announcements of what it sends and of what it
 * wants, and data. Data is sent in the order of the announcements. An announcement may come before
 * the other rank is in the call that it belongs to, and is kept.
 */
#include "comm/tcp/messages.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { TO, FROM }; /* channels */

struct tcp_message {
    const yk_backend_message *message;
    tcp_message *next; /* in its channel */
    bool matches;      /* once it is compared */
};

typedef struct messages {
    tcp_transfer base; /* first */
    yk_backend_call *call;
    tcp_message *all;     /* [call->message_count] */
    size_t mismatched;    /* the first that does not match, and ... */
    yk_mismatch mismatch; /* ... what it is; or that a rank is not in such a call */
} messages;

static const size_t start_bytes = sizeof(((tcp_frame *)0)->start);

static bool is_sent(const yk_backend_message *message)
{
    return message->what.operation == YK_OPERATION_SEND;
}

static size_t bytes_of(const yk_descriptor *what)
{
    return what->count * yk_dtype_size((yk_dtype)what->dtype);
}

static size_t left_of(const tcp_frame *frame)
{
    return frame->bytes - frame->moved;
}

static tcp_peer *peer_of(const messages *m, int other)
{
    return &m->base.links->peers[other];
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* What both ranks have announced of the next message of a channel. Of several that do not match,
 * the first of the call is reported. */
static void compare(messages *m, tcp_channel *channel, const yk_descriptor *theirs)
{
    tcp_message *next = channel->uncompared;
    yk_backend_call compared = {0};
    const yk_descriptor *mine = &next->message->what;
    int rank = m->base.links->rank, other = mine->root;
    yk_status status = is_sent(next->message)
                           ? yk_backend_compare_messages(&compared, rank, mine, other, theirs)
                           : yk_backend_compare_messages(&compared, other, theirs, rank, mine);
    size_t number = (size_t)(next - m->all);
    next->matches = status == YK_OK;
    if (!next->matches && number < m->mismatched) {
        m->mismatched = number;
        m->mismatch = compared.mismatch;
    }
    channel->uncompared = next->next;
    channel->ahead--;
}

static yk_status keep(tcp_channel *channel, const yk_descriptor *theirs)
{
    if (!channel->early)
        channel->early = yki_calloc(TCP_AHEAD, sizeof *channel->early);
    if (!channel->early || channel->early_count == TCP_AHEAD)
        return yki_error(YK_ERROR_NETWORK, "tcp: no room for the messages of another rank");
    channel->early[channel->early_count++] = *theirs;
    return YK_OK;
}

static void compare_early(messages *m, tcp_channel *channel)
{
    int count = 0;
    for (; count < channel->early_count && channel->uncompared; count++)
        compare(m, channel, &channel->early[count]);
    channel->early_count -= count;
    if (count > 0)
        memmove(channel->early, channel->early + count,
                (size_t)channel->early_count * sizeof *channel->early);
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* Skips messages that move nothing. Whether the data of the next one may move: both ranks know that
 * the other one calls the same. */
static bool moves_data(tcp_channel *channel)
{
    for (tcp_message *next = channel->unmoved;
         next && next != channel->unannounced && next != channel->uncompared; next = next->next) {
        channel->unmoved = next;
        if (next->matches && next->message->what.count > 0)
            return true;
        channel->unmoved = next->next;
    }
    return false;
}

static void put(tcp_frame *frame, int kind, const yk_backend_message *message)
{
    *frame = (tcp_frame){.start = {{kind, sizeof message->what}, message->what},
                         .data = message->data,
                         .bytes = start_bytes};
    if (kind == TCP_DATA)
        frame->bytes += bytes_of(&message->what);
}

/* Chooses what is sent next, if nothing is under way. Announcements come first, so that the data of
 * a message never comes before its announcement. */
static void choose_frame(tcp_peer *peer)
{
    tcp_channel *to = &peer->channels[TO];
    if (left_of(&peer->out) > 0)
        return;
    for (int c = TO; c <= FROM; c++) {
        tcp_channel *channel = &peer->channels[c];
        tcp_message *next = channel->unannounced;
        if (!next || channel->ahead >= TCP_AHEAD)
            continue;
        put(&peer->out, c == TO ? TCP_SENT : TCP_WANTED, next->message);
        channel->unannounced = next->next;
        channel->ahead++;
        return;
    }
    if (moves_data(to)) {
        put(&peer->out, TCP_DATA, to->unmoved->message);
        to->unmoved = to->unmoved->next;
    }
}

static yk_status unexpected(void)
{
    return yki_error(YK_ERROR_NETWORK, "tcp: another rank has sent what nobody awaits");
}

/* What is announced belongs to this call or to a later one. */
static yk_status hear(messages *m, tcp_channel *channel, const yk_descriptor *theirs)
{
    if (!channel->uncompared)
        return keep(channel, theirs);
    compare(m, channel, theirs);
    return YK_OK;
}

/* The other rank has called a collective meanwhile, in which nobody will join it. */
static yk_status out_of_step(messages *m, int other)
{
    m->mismatched = 0;
    m->mismatch = (yk_mismatch){.rank_a = m->base.links->rank,
                                .rank_b = other,
                                .what_a = m->call->what,
                                .what_b = peer_of(m, other)->in.start.what,
                                .out_of_step = true};
    return YK_ERROR_MISMATCH;
}

/* The start of a frame has arrived. */
static yk_status begin_frame(messages *m, int other)
{
    tcp_peer *peer = peer_of(m, other);
    tcp_channel *from = &peer->channels[FROM];
    switch (peer->in.start.head.kind) {
    case TCP_COLLECTIVE:
        return out_of_step(m, other);
    case TCP_SENT:
        return hear(m, from, &peer->in.start.what);
    case TCP_WANTED:
        return hear(m, &peer->channels[TO], &peer->in.start.what);
    case TCP_DATA:
        if (!moves_data(from))
            return unexpected();
        peer->in.data = from->unmoved->message->data;
        peer->in.bytes += bytes_of(&from->unmoved->message->what);
        return YK_OK;
    default:
        return unexpected();
    }
}

static void end_frame(tcp_peer *peer)
{
    tcp_channel *from = &peer->channels[FROM];
    if (peer->in.start.head.kind == TCP_DATA)
        from->unmoved = from->unmoved->next;
    peer->in = (tcp_frame){.bytes = start_bytes};
}

/* ---- the transfer ---------------------------------------------------------------------------- */

/* Whether the other rank will send something more of this call. */
static bool awaits(tcp_peer *peer)
{
    return peer->in.moved > 0 || peer->channels[TO].uncompared || peer->channels[FROM].uncompared ||
           moves_data(&peer->channels[FROM]);
}

static size_t incoming(const tcp_transfer *transfer, int other)
{
    tcp_peer *peer = &transfer->links->peers[other];
    return awaits(peer) ? left_of(&peer->in) : 0;
}

static size_t outgoing(const tcp_transfer *transfer, int other)
{
    return left_of(&transfer->links->peers[other].out);
}

static bool is_over(const tcp_transfer *transfer, int other)
{
    tcp_peer *peer = &transfer->links->peers[other];
    choose_frame(peer);
    return left_of(&peer->out) == 0 && !awaits(peer);
}

static yk_status receive(tcp_transfer *transfer, int other, const tcp_connection *from)
{
    messages *m = (messages *)transfer;
    tcp_frame *in = &peer_of(m, other)->in;
    for (size_t left = 0; left == 0 && incoming(transfer, other) > 0;) {
        bool starts = in->moved < start_bytes;
        char *to = starts ? (char *)&in->start + in->moved : in->data + (in->moved - start_bytes);
        YK_TRY(yki_tcp_receive(from, to, left_of(in), &in->moved));
        left = left_of(in);
        if (starts && left == 0)
            YK_TRY(begin_frame(m, other));
        if (left_of(in) == 0)
            end_frame(peer_of(m, other));
    }
    choose_frame(peer_of(m, other));
    return YK_OK;
}

static yk_status send(tcp_transfer *transfer, int other, const tcp_connection *to)
{
    tcp_peer *peer = &transfer->links->peers[other];
    tcp_frame *out = &peer->out;
    while (left_of(out) > 0) {
        size_t first = out->moved < start_bytes ? start_bytes - out->moved : 0;
        size_t past = out->moved + first - start_bytes;
        YK_TRY(
            yki_tcp_send_two(to,
                             (struct iovec[2]){{(char *)&out->start + (start_bytes - first), first},
                                               {out->data + past, out->bytes - start_bytes - past}},
                             &out->moved));
        if (left_of(out) > 0)
            break;
        choose_frame(peer);
    }
    return YK_OK;
}

/* ---- all messages of a call ------------------------------------------------------------------ */

/* Each channel's messages, in their order. Those that are matched need not be announced. */
static void line_up(messages *m)
{
    const yk_backend_call *call = m->call;
    for (int other = 0; other < m->base.links->ranks; other++) {
        tcp_peer *peer = peer_of(m, other);
        for (int c = TO; c <= FROM; c++)
            peer->channels[c] = (tcp_channel){.early = peer->channels[c].early,
                                              .early_count = peer->channels[c].early_count};
        peer->out = (tcp_frame){0};
        peer->in = (tcp_frame){.bytes = start_bytes};
    }
    for (size_t i = 0; i < call->message_count; i++) {
        tcp_message *next = &m->all[i];
        *next = (tcp_message){.message = &call->messages[i], .matches = call->matched};
        int c = is_sent(next->message) ? TO : FROM;
        tcp_channel *channel = &peer_of(m, next->message->what.root)->channels[c];
        if (channel->last)
            channel->last->next = next;
        else
            channel->unmoved = channel->unannounced = channel->uncompared = next;
        if (call->matched)
            channel->unannounced = channel->uncompared = NULL;
        channel->last = next;
    }
}

/* Begins with what has come before this call. */
static void begin(messages *m)
{
    line_up(m);
    for (int other = 0; other < m->base.links->ranks; other++) {
        tcp_peer *peer = peer_of(m, other);
        for (int c = TO; c <= FROM; c++)
            compare_early(m, &peer->channels[c]);
        choose_frame(peer);
    }
}

yk_status yki_tcp_messages(tcp_links *links, yk_backend_call *call)
{
    static const tcp_transfer_ops ops = {incoming, outgoing, receive, send, is_over};
    messages m = {.call = call,
                  .all = yki_calloc(call->message_count, sizeof *m.all),
                  .mismatched = call->message_count};
    if (!m.all)
        return yki_error(YK_ERROR_NETWORK, "tcp: no memory for %zu messages", call->message_count);
    yki_tcp_transfer_init(&m.base, &ops, links);
    begin(&m);
    yk_status status = yki_tcp_run(&m.base);
    if (status == YK_OK && m.mismatched < call->message_count)
        status = YK_ERROR_MISMATCH;
    if (status == YK_ERROR_MISMATCH)
        call->mismatch = m.mismatch;
    free(m.all);
    return status;
}

void yki_tcp_messages_free(tcp_links *links)
{
    for (int other = 0; other < links->ranks; other++)
        for (int c = TO; c <= FROM; c++)
            free(links->peers[other].channels[c].early);
}

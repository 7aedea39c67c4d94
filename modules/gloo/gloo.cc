/*
 * The gloo backend: collectives over TCP. This folder has the only C++ of yoke; no exception leaves
 * this file.
 *
 * Every rank is connected with every other twice (mesh.h): by links, on which descriptors are
 * exchanged, and data is gathered and reduced (links.h), and by gloo. Of what gloo lacks,
 * reduce_scatter, send and recv are built from its messages. comm/engine/engine.h says how a call
 * proceeds.
 *
 * The group decides how long to wait, so gloo itself waits nearly forever. A cancelled call is
 * ended by shutting down the sockets, which makes gloo and the links throw; then nothing touches
 * the buffers any more.
 */
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <future>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gloo/alltoall.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/scatter.h>
#include <gloo/types.h>

#include <yoke/backend.h>

#include "comm/engine/engine.h"
#include "comm/engine/operators.h"
#include "mesh.h"

namespace
{

using gloo::transport::UnboundBuffer;
using yoke::forever;
using yoke::Links;
using yoke::Mesh;
using BufferPointer = std::unique_ptr<UnboundBuffer>;

constexpr double cancelled_call_s = 1; // within which a cancelled call ends
constexpr int look_ms = 20;            // between two looks at the other ranks
// What a rank receives in a small call, at most. Measured between two hosts: with 2 ranks and with
// 4, small calls are faster than gloo's collectives up to 1 MiB, but their buffers cost memory.
constexpr size_t small_bytes = 512 * 1024;
constexpr size_t scatter_piece = 256 * 1024; // bytes for each rank, in reduce_scatter
constexpr size_t most_ahead = 64;            // messages that are announced before one is compared

// Slots of our own messages; gloo's collectives have the prefixes 1 to 8.
constexpr uint8_t scatter_slot = 0x21, data_slot = 0x22, sent_slot = 0x23, wanted_slot = 0x24;

// An error of this call with its line already set.
struct Refused {
    yk_status status;
};

void check(yk_status status)
{
    if (status != YK_OK)
        throw Refused{status};
}

// gloo begins its messages with "[FILE:LINE] ".
yk_status yki_engine_failed(const char *what)
{
    const char *end = what[0] == '[' ? std::strstr(what, "] ") : nullptr;
    return yk_set_error(YK_ERROR_NETWORK, "gloo: %s", end ? end + 2 : what);
}

// Runs body and turns what it throws into a status.
template <typename Body> yk_status guarded(Body body) noexcept
{
    try {
        body();
        return YK_OK;
    } catch (const Refused &refused) {
        return refused.status;
    } catch (const std::exception &error) {
        return yki_engine_failed(error.what());
    } catch (...) {
        return yki_engine_failed("unknown failure");
    }
}

size_t bytes_of(const yk_descriptor &what)
{
    return what.count * yk_dtype_size(static_cast<yk_dtype>(what.dtype));
}

gloo::Slot slot(uint8_t prefix, uint64_t number)
{
    return gloo::Slot::build(prefix, static_cast<uint32_t>(number));
}

// ---- the engine ---------------------------------------------------------------------------------

struct Engine {
    yki_engine_base common = {}; // first
    std::shared_ptr<Mesh> mesh;

    ~Engine()
    {
        yki_engine_fini(&common);
    }
};

Engine *yki_engine_of(yk_backend *backend)
{
    return reinterpret_cast<Engine *>(backend);
}

template <typename Options> void set_common(Options &options, const yk_backend_call *call)
{
    options.setTag(static_cast<uint32_t>(call->sequence));
    options.setTimeout(forever);
}

// To the root alone, or to all ranks where it is negative.
void reduce_to(int root, Engine *engine, yk_backend_call *call)
{
    auto dtype = static_cast<yk_dtype>(call->what.dtype);
    auto op = static_cast<yk_reduce_op>(call->what.reduce);
    engine->mesh->links.reduce(root, static_cast<char *>(call->out), call->what.count,
                               yk_dtype_size(dtype), yki_engine_operator_of(dtype, op));
}

void all_reduce(Engine *engine, yk_backend_call *call)
{
    reduce_to(-1, engine, call);
}

void reduce(Engine *engine, yk_backend_call *call)
{
    reduce_to(call->what.root, engine, call);
}

void broadcast(Engine *engine, yk_backend_call *call)
{
    gloo::BroadcastOptions options(engine->mesh);
    set_common(options, call);
    options.setRoot(call->what.root);
    options.setOutput(static_cast<char *>(call->out), bytes_of(call->what));
    gloo::broadcast(options);
}

char *input_of(const yk_backend_call *call)
{
    return static_cast<char *>(const_cast<void *>(call->in));
}

void all_gather(Engine *engine, yk_backend_call *call)
{
    size_t bytes = bytes_of(call->what);
    char *all = static_cast<char *>(call->out), *mine = all + engine->mesh->rank * bytes;
    if (call->in != mine)
        std::memcpy(mine, call->in, bytes);
    engine->mesh->links.all_gather(all, bytes);
}

void gather(Engine *engine, yk_backend_call *call)
{
    size_t bytes = bytes_of(call->what);
    gloo::GatherOptions options(engine->mesh);
    set_common(options, call);
    options.setRoot(call->what.root);
    options.setInput(input_of(call), bytes);
    if (engine->mesh->rank == call->what.root)
        options.setOutput(static_cast<char *>(call->out), bytes * engine->mesh->size);
    gloo::gather(options);
}

void scatter(Engine *engine, yk_backend_call *call)
{
    size_t bytes = bytes_of(call->what);
    gloo::ScatterOptions options(engine->mesh);
    set_common(options, call);
    options.setRoot(call->what.root);
    if (engine->mesh->rank == call->what.root) {
        std::vector<char *> inputs(static_cast<size_t>(engine->mesh->size));
        for (size_t r = 0; r < inputs.size(); r++)
            inputs[r] = input_of(call) + r * bytes;
        options.setInputs(inputs, bytes);
    }
    options.setOutput(static_cast<char *>(call->out), bytes);
    gloo::scatter(options);
}

void all_to_all(Engine *engine, yk_backend_call *call)
{
    size_t bytes = bytes_of(call->what) * engine->mesh->size;
    gloo::AlltoallOptions options(engine->mesh);
    set_common(options, call);
    options.setInput(input_of(call), bytes);
    options.setOutput(static_cast<char *>(call->out), bytes);
    gloo::alltoall(options);
}

// Sends each rank its piece, and receives this rank's piece of all others.
void trade_pieces(Engine *engine, yk_backend_call *call, UnboundBuffer &in, UnboundBuffer &scratch,
                  size_t start, size_t bytes)
{
    auto &mesh = *engine->mesh;
    auto place = slot(scatter_slot, call->sequence);
    for (int other = 0; other < mesh.size; other++)
        if (other != mesh.rank)
            scratch.recv(other, place, other * scatter_piece, bytes);
    for (int other = 0; other < mesh.size; other++)
        if (other != mesh.rank)
            in.send(other, place, other * bytes_of(call->what) + start, bytes);
    for (int i = 1; i < mesh.size; i++)
        scratch.waitRecv(forever);
    for (int i = 1; i < mesh.size; i++)
        in.waitSend(forever);
}

// Every rank sends each other its part, and adds those that it receives in the order of ranks.
void reduce_scatter(Engine *engine, yk_backend_call *call)
{
    auto dtype = static_cast<yk_dtype>(call->what.dtype);
    auto op = static_cast<yk_reduce_op>(call->what.reduce);
    auto reduce = yki_engine_operator_of(dtype, op);
    auto &mesh = *engine->mesh;
    size_t width = yk_dtype_size(dtype), total = bytes_of(call->what);
    std::vector<char> scratch(mesh.size * scatter_piece);
    auto in = mesh.createUnboundBuffer(input_of(call), total * mesh.size);
    auto received = mesh.createUnboundBuffer(scratch.data(), scratch.size());
    bool before = yki_engine_divides_before(dtype, op), after = yki_engine_divides_after(dtype, op);
    for (size_t start = 0, bytes; start < total; start += bytes) {
        bytes = std::min(scatter_piece, total - start);
        std::memcpy(&scratch[mesh.rank * scatter_piece], input_of(call) + mesh.rank * total + start,
                    bytes);
        trade_pieces(engine, call, *in, *received, start, bytes);
        char *out = static_cast<char *>(call->out) + start;
        for (int r = 0; r < mesh.size; r++) {
            char *piece = &scratch[r * scatter_piece];
            if (before)
                yki_engine_divide(piece, bytes / width, dtype, mesh.size);
            if (r > 0)
                reduce(scratch.data(), scratch.data(), piece, bytes / width);
        }
        if (after)
            yki_engine_divide(scratch.data(), bytes / width, dtype, mesh.size);
        std::memcpy(out, scratch.data(), bytes);
    }
}

// ---- messages -----------------------------------------------------------------------------------

bool is_sent(const yk_backend_message &message)
{
    return message.what.operation == YK_OPERATION_SEND;
}

// A message that is under way.
struct Transfer {
    const yk_backend_message *message = nullptr;
    yk_descriptor mine = {}, theirs = {};
    BufferPointer tell, hear, data;
};

// Tells the other rank what this one calls.
void announce(Mesh &mesh, Transfer &transfer, const yk_backend_message &message)
{
    bool sends = is_sent(message);
    int other = message.what.root;
    transfer.message = &message;
    transfer.mine = message.what;
    transfer.tell = mesh.createUnboundBuffer(&transfer.mine, sizeof transfer.mine);
    transfer.hear = mesh.createUnboundBuffer(&transfer.theirs, sizeof transfer.theirs);
    transfer.hear->recv(other, slot(sends ? wanted_slot : sent_slot, message.sequence));
    transfer.tell->send(other, slot(sends ? sent_slot : wanted_slot, message.sequence));
}

// Whether what the two ranks call of a message matches; otherwise call->mismatch is set.
bool compare(const Mesh &mesh, yk_backend_call *call, Transfer &transfer)
{
    int other = transfer.message->what.root;
    const yk_descriptor *mine = &transfer.mine, *theirs = &transfer.theirs;
    transfer.hear->waitRecv(forever);
    transfer.tell->waitSend(forever);
    return YK_OK == (is_sent(*transfer.message)
                         ? yk_backend_compare_messages(call, mesh.rank, mine, other, theirs)
                         : yk_backend_compare_messages(call, other, theirs, mesh.rank, mine));
}

BufferPointer begin_data(Mesh &mesh, const yk_backend_message &message)
{
    auto data = mesh.createUnboundBuffer(message.data, bytes_of(message.what));
    auto place = slot(data_slot, message.sequence);
    if (is_sent(message))
        data->send(message.what.root, place);
    else
        data->recv(message.what.root, place);
    return data;
}

void end_data(const yk_backend_message &message, UnboundBuffer &data)
{
    if (is_sent(message))
        data.waitSend(forever);
    else
        data.waitRecv(forever);
}

// The other ranks are known to do the same.
void move_all(Mesh &mesh, const yk_backend_call *call)
{
    std::vector<BufferPointer> buffers;
    for (size_t i = 0; i < call->message_count; i++)
        buffers.push_back(begin_data(mesh, call->messages[i]));
    for (size_t i = 0; i < call->message_count; i++)
        end_data(call->messages[i], *buffers[i]);
}

// Messages from one rank to another, in their order.
using Channel = std::vector<const yk_backend_message *>;

// Both ranks tell each other what they call, then the data follows. Returns the first mismatch.
// Several messages are on their way at once, because a wait for gloo's own thread is long: that
// thread asks the kernel again and again while this one writes, and where they share a core, it
// does so until the end of its time slice.
yk_mismatch run_channel(Engine *engine, const Channel &channel)
{
    Mesh &mesh = *engine->mesh;
    yk_backend_call compared = {};
    std::vector<Transfer> ring(2 * most_ahead);
    for (size_t i = 0; i < channel.size() + most_ahead; i++) {
        if (i < channel.size()) {
            Transfer &next = ring[i % ring.size()];
            if (next.data)
                end_data(*next.message, *std::exchange(next.data, nullptr));
            announce(mesh, next, *channel[i]);
        }
        if (i >= most_ahead) {
            Transfer &announced = ring[(i - most_ahead) % ring.size()];
            if (compare(mesh, &compared, announced) && announced.mine.count > 0)
                announced.data = begin_data(mesh, *announced.message);
        }
    }
    for (Transfer &last : ring)
        if (last.data)
            end_data(*last.message, *last.data);
    return compared.mismatch;
}

// Runs body; where it throws, all channels end.
template <typename Body> auto or_interrupt(Engine *engine, Body body)
{
    try {
        return body();
    } catch (...) {
        engine->mesh->interrupt();
        throw;
    }
}

// Each channel waits by itself. gloo cannot wait for any of several buffers, so each needs a
// thread.
void run_messages(Engine *engine, yk_backend_call *call)
{
    if (call->matched)
        return move_all(*engine->mesh, call);
    std::map<std::pair<int, bool>, Channel> channels;
    for (size_t i = 0; i < call->message_count; i++) {
        const yk_backend_message &message = call->messages[i];
        channels[{message.what.root, is_sent(message)}].push_back(&message);
    }
    std::vector<std::future<yk_mismatch>> running; // whose destruction waits for the threads
    auto pass = [=](const Channel &channel) {
        return or_interrupt(engine, [&] { return run_channel(engine, channel); });
    };
    or_interrupt(engine, [&] {
        for (auto channel = std::next(channels.begin()); channel != channels.end(); channel++)
            running.push_back(std::async(std::launch::async, pass, channel->second));
    });
    call->mismatch = pass(channels.begin()->second);
    for (auto &other : running) {
        yk_mismatch found = other.get();
        if (call->mismatch.rank_a == call->mismatch.rank_b)
            call->mismatch = found;
    }
    if (call->mismatch.rank_a != call->mismatch.rank_b)
        throw Refused{YK_ERROR_MISMATCH};
}

// ---- the calls ----------------------------------------------------------------------------------

template <void (*Body)(Engine *, yk_backend_call *)>
yk_status run(yki_engine_base *common, yk_backend_call *call)
{
    return guarded([&] { Body(reinterpret_cast<Engine *>(common), call); });
}

yk_status average_all(yki_engine_base *engine, yk_backend_call *call)
{
    return yki_engine_reduce(engine, call, run<all_reduce>);
}

yk_status average_to_root(yki_engine_base *engine, yk_backend_call *call)
{
    return yki_engine_reduce(engine, call, run<reduce>);
}

Links &links_of(yki_engine_base *common)
{
    return reinterpret_cast<Engine *>(common)->mesh->links;
}

char *messages_of(const yki_engine_base *common)
{
    return static_cast<char *>(yki_engine_message(common, 0));
}

yk_status exchange(yki_engine_base *common, yk_backend_call *, size_t bytes)
{
    return guarded([&] {
        links_of(common).exchange(messages_of(common), common->stride, sizeof(yk_descriptor),
                                  bytes);
    });
}

yk_status begin_exchange(yki_engine_base *common, size_t bytes)
{
    return guarded([&] {
        links_of(common).begin_exchange(messages_of(common), common->stride, sizeof(yk_descriptor),
                                        bytes);
    });
}

yk_status test_exchange(yki_engine_base *common, double wait_s, bool *done)
{
    *done = true; // also where it fails
    int wait_ms = static_cast<int>(std::ceil(1e3 * wait_s));
    return guarded([&] { *done = links_of(common).test_exchange(wait_ms); });
}

const yki_engine_calls calls = {exchange,        begin_exchange,      test_exchange,
                                average_all,     average_to_root,     run<broadcast>,
                                run<all_gather>, run<reduce_scatter>, run<gather>,
                                run<scatter>,    run<all_to_all>,     run<run_messages>};

// ---- opening ------------------------------------------------------------------------------------

bool not_reached(const void *wait, int rank)
{
    return !static_cast<const Mesh *>(wait)->reached[rank];
}

bool not_linked(const void *wait, int rank)
{
    return !static_cast<const Mesh *>(wait)->links.has(rank);
}

bool any(const void *, int)
{
    return true;
}

// Throws where another rank that is missing is dead or late.
void look(const Engine *engine, bool (*missing)(const void *mesh, int rank))
{
    check(engine->common.site->look(engine->common.site->context, missing, engine->mesh.get()));
}

std::string key_of(const char *what, int rank)
{
    return what + std::to_string(rank);
}

// Tells all ranks something, and waits for what each of them tells.
template <typename Told>
void tell_all(const Engine *engine, const char *what, const std::vector<char> &mine, Told told)
{
    const yk_backend_site *site = engine->common.site;
    std::vector<char> theirs(mine.size());
    check(site->set(site->context, key_of(what, site->rank).c_str(), mine.data(), mine.size()));
    for (int other = 0; other < site->ranks; other++)
        if (other != site->rank) {
            check(yki_engine_get(site, other, key_of(what, other).c_str(), theirs.data(),
                                 theirs.size(), "gloo"));
            told(other, theirs);
        }
}

// Connects on a thread of its own, which is left behind where another rank dies or is late: gloo
// cannot be interrupted before it is connected.
void connect_by_gloo(Engine *engine)
{
    std::promise<void> promise;
    std::future<void> connected = promise.get_future();
    std::thread thread(
        [mesh = engine->mesh](std::promise<void> result) {
            try {
                mesh->connect();
                result.set_value();
            } catch (...) {
                result.set_exception(std::current_exception());
            }
        },
        std::move(promise));
    thread.detach();
    while (connected.wait_for(std::chrono::milliseconds(look_ms)) != std::future_status::ready)
        look(engine, not_reached);
    connected.get();
}

void connect_while_looking(Engine *engine)
{
    Mesh &mesh = *engine->mesh;
    connect_by_gloo(engine);
    mesh.begin_links();
    while (!mesh.links.open(look_ms))
        look(engine, not_linked);
}

// A connection has failed. Whoever is gone is the cause, which may be known a moment later.
void look_for_cause(const Engine *engine)
{
    constexpr auto long_enough = std::chrono::milliseconds(1500);
    auto start = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - start < long_enough) {
        look(engine, any);
        std::this_thread::sleep_for(std::chrono::milliseconds(look_ms));
    }
}

void connect(Engine *engine)
{
    try {
        connect_while_looking(engine);
    } catch (const std::exception &) {
        look_for_cause(engine);
        throw;
    }
}

void open_engine(Engine *engine, const yk_backend_site *site)
{
    size_t small = site->ranks > 1 ? small_bytes / (site->ranks - 1) : 0;
    check(yki_engine_init(&engine->common, site, &calls, small));
    engine->mesh =
        std::make_shared<Mesh>(site->rank, site->ranks, site->members[site->rank].address);
    tell_all(engine, "gloo/", engine->mesh->card(),
             [&](int other, auto &card) { engine->mesh->read_card(other, card); });
    connect(engine);
    // A rank that leaves at once must not close connections that others still make.
    tell_all(engine, "gloo-open/", {1}, [](int, auto &) {});
    check(yk_backend_thread_create(&engine->common.thread, "yoke-gloo", yki_engine_run,
                                   &engine->common));
}

// ---- the table ----------------------------------------------------------------------------------

extern const yk_backend_ops ops;

yk_status open_backend(yk_backend **backend, const yk_backend_site *site)
{
    *backend = nullptr;
    std::unique_ptr<Engine> engine;
    yk_status status = guarded([&] {
        engine = std::make_unique<Engine>();
        engine->common.base.ops = &ops;
        open_engine(engine.get(), site);
    });
    if (status == YK_OK)
        *backend = &engine.release()->common.base;
    return status;
}

void close_backend(yk_backend *backend)
{
    Engine *engine = yki_engine_of(backend);
    bool abandoned = engine->common.abandoned;
    yk_backend_thread_destroy(engine->common.thread, abandoned);
    if (!abandoned)
        guarded([&] { delete engine; });
}

void cancel(yk_backend *backend, yk_backend_work *work)
{
    Engine *engine = yki_engine_of(backend);
    engine->mesh->interrupt();
    yki_engine_drop(&engine->common, work, cancelled_call_s);
}

const yk_backend_ops ops = {
    YK_BACKEND_VERSION,
    sizeof(yk_backend_ops),
    "gloo",
    0, // capabilities: sums in 16 bits are rounded after each addition
    4, // works
    open_backend,
    close_backend,
    yki_engine_post,
    yki_engine_test,
    cancel,
    nullptr, // memory is not registered
    nullptr,
    nullptr, // nothing else is needed
    nullptr, // a device's memory is not moved
    nullptr,
    nullptr,
};

} // namespace

extern "C" __attribute__((visibility("default"))) const yk_backend_ops yk_backend_module;
const yk_backend_ops yk_backend_module = ops;

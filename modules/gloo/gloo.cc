/*
 * The gloo backend: collectives over TCP, by libgloo. This folder has the only C++ of yoke; no
 * exception leaves this file.
 *
 * Every rank is connected with every other (mesh.h). comm/engine/engine.h says how a call proceeds.
 * What gloo lacks is built from its messages: the exchange of descriptors, reduce_scatter, send and
 * recv.
 *
 * The group decides how long to wait, so gloo itself waits nearly forever. A cancelled call is
 * ended by resetting the connections, which makes gloo throw; then nothing touches the buffers any
 * more.
 */
#include <algorithm>
#include <chrono>
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

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/reduce.h>
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
using yoke::Mesh;
using BufferPointer = std::unique_ptr<UnboundBuffer>;

constexpr double cancelled_call_s = 1; // within which a cancelled call ends
constexpr int look_ms = 20;            // between two looks at the other ranks
// What a rank receives in a small call, at most. Measured over loopback: sums of 1 MiB of 2 ranks
// take 1.1 ms so, and 4 ms by gloo's ring. The buffers of larger ones would cost memory.
constexpr size_t small_bytes = 1024 * 1024;
constexpr size_t scatter_piece = 256 * 1024; // bytes for each rank, in reduce_scatter
constexpr size_t most_ahead = 512;           // messages that are announced before one is compared

// Slots of our own messages; gloo's collectives have the prefixes 1 to 8.
constexpr uint8_t message_slot = 0x20, scatter_slot = 0x21, data_slot = 0x22, sent_slot = 0x23,
                  wanted_slot = 0x24;

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
yk_status engine_failed(const char *what)
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
        return engine_failed(error.what());
    } catch (...) {
        return engine_failed("unknown failure");
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
    std::vector<BufferPointer> messages[2]; // [ranks] each: those of common

    ~Engine()
    {
        for (auto &buffers : messages)
            buffers.clear();
        yki_engine_fini(&common);
    }
};

Engine *engine_of(void *base)
{
    return static_cast<Engine *>(base);
}

// ---- the exchange of messages -------------------------------------------------------------------

// Receives are posted two exchanges ahead: a message then needs no answer first, so that an
// exchange takes one way and not three. A rank that has left the group cannot be told that its next
// message is expected; whether that matters is known only when it is waited for.
void expect(Engine *engine, uint64_t number, int other)
{
    try {
        engine->messages[number & 1][other]->recv(other, slot(message_slot, number));
    } catch (const std::exception &) {
    }
}

void expect_first_messages(Engine *engine)
{
    const yki_engine_base &common = engine->common;
    for (uint64_t i = 0; i < 2; i++) {
        for (int r = 0; r < common.ranks; r++)
            engine->messages[i].push_back(engine->mesh->createUnboundBuffer(
                common.messages[i] + r * common.stride, common.stride));
        for (int other : engine->mesh->others)
            expect(engine, i, other);
    }
}

// Each rank sends its message, of `bytes` bytes, to every other.
void exchange_messages(Engine *engine, size_t bytes)
{
    const Mesh &mesh = *engine->mesh;
    uint64_t number = engine->common.exchanges;
    auto &buffers = engine->messages[number & 1];
    for (int other : mesh.others)
        buffers[mesh.rank]->send(other, slot(message_slot, number), 0, bytes);
    for (int other : mesh.others) {
        buffers[other]->waitRecv(forever);
        expect(engine, number + 2, other); // which is sent after the exchange in between
    }
    for (size_t i = 0; i < mesh.others.size(); i++)
        buffers[mesh.rank]->waitSend(forever);
}

// ---- collectives --------------------------------------------------------------------------------

// The options of one of gloo's collectives.
template <typename Options> struct OptionsOf : Options {
    OptionsOf(Engine *engine, const yk_backend_call *call) : Options(engine->mesh)
    {
        this->setTag(static_cast<uint32_t>(call->sequence));
        this->setTimeout(forever);
    }
};

// gloo's options are templates over the type of an element, of which only the size matters.
template <typename Options> void set_reduction(Options &options, const yk_backend_call *call)
{
    auto dtype = static_cast<yk_dtype>(call->what.dtype);
    size_t width = yk_dtype_size(dtype), count = call->what.count;
    if (width == 2)
        options.setOutput(static_cast<uint16_t *>(call->out), count);
    else if (width == 4)
        options.setOutput(static_cast<uint32_t *>(call->out), count);
    else
        options.setOutput(static_cast<uint64_t *>(call->out), count);
    options.setReduceFunction(
        yki_engine_operator_of(dtype, static_cast<yk_reduce_op>(call->what.reduce)));
}

// Measured over loopback and veth: with two ranks the ring is fastest at every size, with more of
// them bcube, whose steps grow with the logarithm of their number.
void all_reduce(Engine *engine, yk_backend_call *call)
{
    using Algorithm = gloo::AllreduceOptions::Algorithm;
    OptionsOf<gloo::AllreduceOptions> options(engine, call);
    set_reduction(options, call);
    options.setAlgorithm(engine->mesh->size == 2 ? Algorithm::RING : Algorithm::BCUBE);
    gloo::allreduce(options);
}

// gloo adds up parts on every rank, in the place of the data.
void reduce(Engine *engine, yk_backend_call *call)
{
    OptionsOf<gloo::ReduceOptions> options(engine, call);
    set_reduction(options, call);
    options.setRoot(call->what.root);
    gloo::reduce(options);
}

void broadcast(Engine *engine, yk_backend_call *call)
{
    OptionsOf<gloo::BroadcastOptions> options(engine, call);
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
    OptionsOf<gloo::AllgatherOptions> options(engine, call);
    options.setInput(input_of(call), bytes);
    options.setOutput(static_cast<char *>(call->out), bytes * engine->mesh->size);
    gloo::allgather(options);
}

void gather(Engine *engine, yk_backend_call *call)
{
    size_t bytes = bytes_of(call->what);
    OptionsOf<gloo::GatherOptions> options(engine, call);
    options.setRoot(call->what.root);
    options.setInput(input_of(call), bytes);
    if (engine->mesh->rank == call->what.root)
        options.setOutput(static_cast<char *>(call->out), bytes * engine->mesh->size);
    gloo::gather(options);
}

void scatter(Engine *engine, yk_backend_call *call)
{
    size_t bytes = bytes_of(call->what);
    OptionsOf<gloo::ScatterOptions> options(engine, call);
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
    OptionsOf<gloo::AlltoallOptions> options(engine, call);
    options.setInput(input_of(call), bytes);
    options.setOutput(static_cast<char *>(call->out), bytes);
    gloo::alltoall(options);
}

// Sends each rank its piece, and receives this rank's piece of all others.
void trade_pieces(const Mesh &mesh, const yk_backend_call *call, UnboundBuffer &in,
                  UnboundBuffer &pieces, size_t start, size_t bytes)
{
    auto place = slot(scatter_slot, call->sequence);
    for (int other : mesh.others)
        pieces.recv(other, place, other * scatter_piece, bytes);
    for (int other : mesh.others)
        in.send(other, place, other * bytes_of(call->what) + start, bytes);
    for (size_t i = 0; i < mesh.others.size(); i++)
        pieces.waitRecv(forever);
    for (size_t i = 0; i < mesh.others.size(); i++)
        in.waitSend(forever);
}

// Adds the pieces of all ranks in their order, in the place of the first.
void add_pieces(const yk_backend_call *call, char *pieces, int ranks, size_t bytes)
{
    auto dtype = static_cast<yk_dtype>(call->what.dtype);
    auto op = static_cast<yk_reduce_op>(call->what.reduce);
    size_t count = bytes / yk_dtype_size(dtype);
    for (int r = 0; r < ranks && yki_engine_divides_before(dtype, op); r++)
        yki_engine_divide(pieces + r * scatter_piece, count, dtype, ranks);
    for (int r = 1; r < ranks; r++)
        yki_engine_operator_of(dtype, op)(pieces, pieces, pieces + r * scatter_piece, count);
    if (yki_engine_divides_after(dtype, op))
        yki_engine_divide(pieces, count, dtype, ranks);
}

// Every rank sends each other its part, and adds those that it receives.
void reduce_scatter(Engine *engine, yk_backend_call *call)
{
    Mesh &mesh = *engine->mesh;
    size_t total = bytes_of(call->what);
    std::vector<char> pieces(mesh.size * scatter_piece);
    auto in = mesh.createUnboundBuffer(input_of(call), total * mesh.size);
    auto received = mesh.createUnboundBuffer(pieces.data(), pieces.size());
    for (size_t start = 0, bytes; start < total; start += bytes) {
        bytes = std::min(scatter_piece, total - start);
        std::memcpy(&pieces[mesh.rank * scatter_piece], input_of(call) + mesh.rank * total + start,
                    bytes);
        trade_pieces(mesh, call, *in, *received, start, bytes);
        add_pieces(call, pieces.data(), mesh.size, bytes);
        std::memcpy(static_cast<char *>(call->out) + start, pieces.data(), bytes);
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
    yk_descriptor theirs = {};
    BufferPointer tell, hear, data;
};

// Tells the other rank what this one calls.
void announce(Mesh &mesh, Transfer &transfer)
{
    const yk_backend_message &message = *transfer.message;
    bool sends = is_sent(message);
    int other = message.what.root;
    auto *mine = const_cast<yk_descriptor *>(&message.what);
    transfer.tell = mesh.createUnboundBuffer(mine, sizeof *mine);
    transfer.hear = mesh.createUnboundBuffer(&transfer.theirs, sizeof transfer.theirs);
    transfer.hear->recv(other, slot(sends ? wanted_slot : sent_slot, message.sequence));
    transfer.tell->send(other, slot(sends ? sent_slot : wanted_slot, message.sequence));
}

// Whether what the two ranks call of a message matches; otherwise call->mismatch is set.
bool compare(const Mesh &mesh, yk_backend_call *call, Transfer &transfer)
{
    const yk_descriptor *mine = &transfer.message->what, *theirs = &transfer.theirs;
    int other = mine->root;
    transfer.hear->waitRecv(forever);
    transfer.tell->waitSend(forever);
    return YK_OK == (is_sent(*transfer.message)
                         ? yk_backend_compare_messages(call, mesh.rank, mine, other, theirs)
                         : yk_backend_compare_messages(call, other, theirs, mesh.rank, mine));
}

void begin_data(Mesh &mesh, Transfer &transfer)
{
    const yk_backend_message &message = *transfer.message;
    auto place = slot(data_slot, message.sequence);
    transfer.data = mesh.createUnboundBuffer(message.data, bytes_of(message.what));
    if (is_sent(message))
        transfer.data->send(message.what.root, place);
    else
        transfer.data->recv(message.what.root, place);
}

void end_data(Transfer &transfer)
{
    if (is_sent(*transfer.message))
        transfer.data->waitSend(forever);
    else
        transfer.data->waitRecv(forever);
}

// Messages from one rank to another, in their order, or several of these.
using Channel = std::vector<const yk_backend_message *>;

// Messages that are under way at the same time. Both ranks of each tell each other what they call,
// unless it is known, then the data follows.
void run_some(Mesh &mesh, yk_backend_call *call, const Channel &channel)
{
    std::vector<Transfer> transfers(channel.size());
    for (size_t i = 0; i < channel.size(); i++) {
        transfers[i].message = channel[i];
        if (!call->matched)
            announce(mesh, transfers[i]);
    }
    for (Transfer &transfer : transfers)
        if ((call->matched || compare(mesh, call, transfer)) && transfer.message->what.count > 0)
            begin_data(mesh, transfer);
    for (Transfer &transfer : transfers)
        if (transfer.data)
            end_data(transfer);
}

// Returns the first mismatch. Many messages are announced before the first is compared, because a
// wait for gloo's own thread is long: that thread asks the kernel again and again while this one
// writes, and where they share a core, it does so until the end of its time slice. But gloo
// searches through all that are announced.
yk_mismatch run_channel(Mesh &mesh, const Channel &channel)
{
    yk_backend_call call = {};
    for (size_t start = 0; start < channel.size(); start += most_ahead) {
        auto first = channel.begin() + start;
        auto count = std::min(most_ahead, channel.size() - start);
        run_some(mesh, &call, Channel(first, first + count));
    }
    return call.mismatch;
}

// Runs body; where it throws, all channels end.
template <typename Body> auto or_interrupt(Mesh &mesh, Body body)
{
    try {
        return body();
    } catch (...) {
        mesh.interrupt();
        throw;
    }
}

// The messages from one rank to another wait by themselves. gloo cannot wait for any of several
// buffers, so each such channel needs a thread.
void run_messages(Engine *engine, yk_backend_call *call)
{
    Mesh &mesh = *engine->mesh;
    Channel all;
    std::map<std::pair<int, bool>, Channel> channels;
    for (size_t i = 0; i < call->message_count; i++) {
        const yk_backend_message &message = call->messages[i];
        all.push_back(&message);
        channels[{message.what.root, is_sent(message)}].push_back(&message);
    }
    if (call->matched) // none waits for what another rank calls
        return run_some(mesh, call, all);
    auto pass = [&](const Channel &channel) {
        return or_interrupt(mesh, [&] { return run_channel(mesh, channel); });
    };
    std::vector<std::future<yk_mismatch>> running; // whose destruction waits for the threads
    or_interrupt(mesh, [&] {
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
    return guarded([&] { Body(engine_of(common), call); });
}

yk_status average_all(yki_engine_base *engine, yk_backend_call *call)
{
    return yki_engine_reduce(engine, call, run<all_reduce>);
}

yk_status average_to_root(yki_engine_base *engine, yk_backend_call *call)
{
    return yki_engine_reduce(engine, call, run<reduce>);
}

yk_status exchange(yki_engine_base *common, yk_backend_call *, size_t bytes)
{
    return guarded([&] { exchange_messages(engine_of(common), bytes); });
}

// The caller cannot drive an exchange, because gloo cannot be asked whether a message has come.
const yki_engine_calls calls = {
    exchange,        nullptr,        nullptr,         average_all,
    average_to_root, run<broadcast>, run<all_gather>, run<reduce_scatter>,
    run<gather>,     run<scatter>,   run<all_to_all>, run<run_messages>};

// ---- opening ------------------------------------------------------------------------------------

// Throws where another rank that is missing is dead or late.
void look(const Engine *engine, bool (*missing)(const void *mesh, int rank))
{
    check(engine->common.site->look(engine->common.site->context, missing, engine->mesh.get()));
}

std::string key_of(const char *what, int from, int to)
{
    return what + std::to_string(from) + "/" + std::to_string(to);
}

void tell(const Engine *engine, const std::string &key, const std::vector<char> &value)
{
    const yk_backend_site *site = engine->common.site;
    check(site->set(site->context, key.c_str(), value.data(), value.size()));
}

// Waits for what another rank tells.
std::vector<char> hear(const Engine *engine, int other, const std::string &key, size_t bytes)
{
    std::vector<char> value(bytes);
    check(yki_engine_get(engine->common.site, other, key.c_str(), value.data(), bytes, "gloo"));
    return value;
}

std::vector<Mesh::Address> exchange_addresses(const Engine *engine)
{
    const Mesh &mesh = *engine->mesh;
    std::vector<Mesh::Address> theirs(mesh.size);
    for (int other : mesh.others)
        tell(engine, key_of("gloo/", mesh.rank, other), mesh.own[other]);
    for (int other : mesh.others)
        theirs[other] =
            hear(engine, other, key_of("gloo/", other, mesh.rank), mesh.own[other].size());
    return theirs;
}

// A connection has failed. Whoever is gone is the cause, which may be known a moment later.
void look_for_cause(const Engine *engine)
{
    constexpr int long_enough_ms = 1500;
    for (int waited_ms = 0; waited_ms < long_enough_ms; waited_ms += look_ms) {
        look(engine, [](const void *, int) { return true; });
        std::this_thread::sleep_for(std::chrono::milliseconds(look_ms));
    }
}

// Connects on a thread of its own, which is left behind where another rank dies or is late: gloo
// cannot be interrupted before it is connected.
void connect(const Engine *engine, const std::vector<Mesh::Address> &theirs)
{
    std::packaged_task<void()> task([mesh = engine->mesh, theirs] { mesh->connect(theirs); });
    std::future<void> connected = task.get_future();
    std::thread(std::move(task)).detach();
    while (connected.wait_for(std::chrono::milliseconds(look_ms)) != std::future_status::ready)
        look(engine, [](const void *mesh, int rank) -> bool {
            return !static_cast<const Mesh *>(mesh)->reached[rank];
        });
    try {
        connected.get();
    } catch (const std::exception &) {
        look_for_cause(engine);
        throw;
    }
}

// A rank that leaves at once must not close connections that others still make.
void await_others(const Engine *engine)
{
    const Mesh &mesh = *engine->mesh;
    tell(engine, key_of("gloo-open/", mesh.rank, 0), {1});
    for (int other : mesh.others)
        hear(engine, other, key_of("gloo-open/", other, 0), 1);
}

void open_engine(Engine *engine, const yk_backend_site *site)
{
    size_t small = site->ranks > 1 ? small_bytes / (site->ranks - 1) : 0;
    check(yki_engine_init(&engine->common, site, &calls, small));
    engine->mesh =
        std::make_shared<Mesh>(site->rank, site->ranks, site->members[site->rank].address);
    connect(engine, exchange_addresses(engine));
    expect_first_messages(engine);
    await_others(engine);
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
    Engine *engine = engine_of(backend);
    bool abandoned = engine->common.abandoned;
    yk_backend_thread_destroy(engine->common.thread, abandoned);
    if (!abandoned)
        guarded([&] { delete engine; });
}

void cancel(yk_backend *backend, yk_backend_work *work)
{
    Engine *engine = engine_of(backend);
    engine->mesh->interrupt();
    yki_engine_drop(&engine->common, work, cancelled_call_s);
}

const yk_backend_ops ops = {
    YK_BACKEND_VERSION,
    sizeof(yk_backend_ops),
    "gloo",
    0, // capabilities: gloo adds in the order of its steps
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

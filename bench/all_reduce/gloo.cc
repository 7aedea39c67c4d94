// The peer gloo: its ring over TCP on the loopback interface, what torch.distributed's gloo backend
// runs. Usage: gloo RANK WORLD_SIZE EMPTY_FOLDER, once per rank, at the same time.
#include <exception>
#include <memory>
#include <vector>

#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "measure.h"

static std::shared_ptr<gloo::rendezvous::Context> context;

static void all_reduce(float *data, size_t count)
{
    using reduce_fn = void (*)(void *, const void *, const void *, size_t);
    gloo::AllreduceOptions options(context);
    options.setOutput(data, count);
    options.setReduceFunction(static_cast<reduce_fn>(&gloo::sum<float>));
    gloo::allreduce(options);
}

int main(int argc, char **argv)
try {
    if (argc != 4) {
        fprintf(stderr, "usage: gloo RANK WORLD_SIZE EMPTY_FOLDER\n");
        return 2;
    }
    int rank = atoi(argv[1]), world = atoi(argv[2]);
    gloo::transport::tcp::attr loopback("127.0.0.1");
    gloo::rendezvous::FileStore store(argv[3]);
    context = std::make_shared<gloo::rendezvous::Context>(rank, world);
    auto device = gloo::transport::tcp::CreateDevice(loopback);
    context->connectFullMesh(store, device);
    std::vector<float> memory(MEASURED_MAX_BYTES / sizeof(float));
    measure_all_sizes(all_reduce, memory.data(), rank, world);
    return 0;
} catch (const std::exception &error) {
    fprintf(stderr, "gloo: %s\n", error.what());
    return 1;
}

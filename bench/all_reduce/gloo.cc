// The peer gloo over TCP, whose ring torch.distributed's gloo backend runs. Usage, once per rank,
// at the same time: gloo RANK WORLD_SIZE EMPTY_FOLDER [ADDRESS [ring|bcube|halving-doubling]].
// ADDRESS is that of the interface to use, 127.0.0.1 by default; the ring is the default algorithm.
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "measure.h"

static std::shared_ptr<gloo::rendezvous::Context> context;

static gloo::AllreduceOptions::Algorithm chosen = gloo::AllreduceOptions::Algorithm::RING;

static void all_reduce(float *data, size_t count)
{
    using reduce_fn = void (*)(void *, const void *, const void *, size_t);
    gloo::AllreduceOptions options(context);
    options.setAlgorithm(chosen);
    options.setOutput(data, count);
    options.setReduceFunction(static_cast<reduce_fn>(&gloo::sum<float>));
    gloo::allreduce(options);
}

// gloo's older algorithms prepare one buffer and then reduce it as often as asked. measure.h calls
// both through one type. NOLINTNEXTLINE(readability-non-const-parameter)
static void all_reduce_prepared(float *data, size_t count)
{
    static std::map<size_t, std::unique_ptr<gloo::AllreduceHalvingDoubling<float>>> prepared;
    auto &algorithm = prepared[count];
    if (!algorithm)
        algorithm = std::make_unique<gloo::AllreduceHalvingDoubling<float>>(
            context, std::vector<float *>{data}, static_cast<int>(count));
    algorithm->run();
}

int main(int argc, char **argv)
try {
    if (argc < 4 || argc > 6) {
        fprintf(stderr, "usage: gloo RANK WORLD_SIZE EMPTY_FOLDER "
                        "[ADDRESS [ring|bcube|halving-doubling]]\n");
        return 2;
    }
    int rank = atoi(argv[1]), world = atoi(argv[2]);
    std::string algorithm = argc > 5 ? argv[5] : "ring";
    if (algorithm == "bcube")
        chosen = gloo::AllreduceOptions::Algorithm::BCUBE;
    gloo::transport::tcp::attr interface(argc > 4 ? argv[4] : "127.0.0.1");
    gloo::rendezvous::FileStore store(argv[3]);
    context = std::make_shared<gloo::rendezvous::Context>(rank, world);
    auto device = gloo::transport::tcp::CreateDevice(interface);
    context->connectFullMesh(store, device);
    std::vector<float> memory(MEASURED_MAX_BYTES / sizeof(float));
    measure_all_sizes(algorithm == "halving-doubling" ? all_reduce_prepared : all_reduce,
                      memory.data(), rank, world);
    return 0;
} catch (const std::exception &error) {
    fprintf(stderr, "gloo: %s\n", error.what());
    return 1;
}

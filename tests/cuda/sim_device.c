/* See sim_device.h. */
#include "sim_device.h"

#include <stdlib.h>

#include "base/memory.h"
#include "conv/beside.h"
#include "harness.h"
#include "muon.h"
#include "simulator.h"

static uint64_t launches, seed = 1;
static yki_cuda_mistakes mistakes;
static bool flash = true;

static const void *find(const yki_cuda_launcher *launcher, const char *name)
{
    (void)launcher;
    return yk_sim_find(name);
}

static yk_status launch(const yki_cuda_launcher *launcher, const void *kernel, yki_cuda_grid grid,
                        const void *args, size_t bytes, yki_stream *stream)
{
    (void)launcher, (void)stream;
    const unsigned size[3] = {grid.x, grid.y, grid.z};
    const char *error = yk_sim_launch(kernel, size, args, bytes, seed + ++launches);
    return error ? yki_error(YK_ERROR_INTERNAL, "%s", error) : YK_OK;
}

static void *handle_of(yki_stream *stream)
{
    return stream;
}

static double (*next_seconds)(void);

static yk_status measure(yki_device *device, yk_status (*before)(const void *context),
                         yk_status (*work)(const void *context), const void *context,
                         double *seconds)
{
    (void)device;
    YK_TRY(before(context));
    *seconds = next_seconds();
    return work(context);
}

static const yki_cuda_launcher simulator = {.find = find, .launch = launch, .handle_of = handle_of};
static const yki_cuda_launcher stopwatch = {
    .find = find, .launch = launch, .handle_of = handle_of, .measure = measure};

void sim_device_measure(yki_device *device, double (*seconds)(void))
{
    next_seconds = seconds;
    ((yki_cuda_device *)device)->launcher = seconds ? &stopwatch : &simulator;
}

static yk_status create(yki_device **device, const yki_device_options *options)
{
    (void)options;
    yki_cuda_device *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "the simulated device");
    made->base.type = &sim_device_type;
    made->base.threads = 1;
    made->launcher = &simulator;
    made->mistakes = &mistakes;
    made->flash = flash;
    made->score_bytes = 20 << 10; /* of attention: several groups of heads */
    assert_ok(yki_cuda_head_open(made));
    *device = &made->base;
    return YK_OK;
}

static void destroy(yki_device *device)
{
    yki_cuda_head_close((yki_cuda_device *)device);
    free(device);
}

const yki_device_type sim_device_type = {.name = "simulated cuda",
                                         .create = create,
                                         .destroy = destroy,
                                         .layout = yki_cuda_layout,
                                         .foresee = yki_cuda_foresee,
                                         .beside = yki_cuda_beside,
                                         .kernels = yki_cuda_kernels,
                                         .sweep = yki_cuda_sweep,
                                         .pictures = yki_cuda_pictures,
                                         .muon = &yki_cuda_muon,
                                         .low_rank = yki_cuda_low_rank,
                                         .note_time = yki_cuda_note_time,
                                         .memory = &yki_host_memory};

void sim_device_flash(bool may)
{
    flash = may;
}

uint64_t sim_device_launches(void)
{
    return launches;
}

void sim_device_seed(uint64_t next)
{
    seed = next;
}

yki_cuda_mistakes sim_device_mistakes(void)
{
    yki_cuda_mistakes found = mistakes;
    mistakes = (yki_cuda_mistakes){0};
    return found;
}

void sim_launch(const char *kernel, yki_cuda_grid grid, const void *args, size_t bytes)
{
    const void *found = yk_sim_find(kernel);
    if (!found)
        fail_msg("there is no kernel %s", kernel);
    assert_ok(launch(&simulator, found, grid, args, bytes, NULL));
}

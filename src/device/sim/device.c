/* The simulated device itself; see sim.h. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#include "base/environment.h"
#include "base/memory.h"
#include "base/thread.h"
#include "device/sim/stream.h"

void yki_sim_release_device(yki_sim *sim)
{
    if (!yki_reference_release(&sim->references))
        return;
    pthread_cond_destroy(&sim->progress);
    pthread_mutex_destroy(&sim->lock);
    pthread_mutex_destroy(&sim->memory.lock);
    free(sim);
}

static void sim_destroy(yki_device *device)
{
    yki_sim *sim = (yki_sim *)device;
    pthread_mutex_lock(&sim->lock); /* the thread of a link may be looking for work */
    yki_sim_streams_close(sim);
    pthread_mutex_unlock(&sim->lock);
    yki_sim_memory_close(sim);
    yki_sim_release_device(sim);
}

static yk_status sim_create(yki_device **device, const yki_device_options *options)
{
    (void)options;
    long seed = 1;
    bool found;
    YK_TRY(yki_env_int("YOKE_SIM_SEED", 0, INT32_MAX, &seed, &found));
    yki_sim *sim = yki_calloc(1, sizeof *sim);
    if (!sim)
        return yki_error_memory(sizeof *sim, "the sim device");
    yki_sim_fill_kernels();
    yki_reference_init(&sim->references);
    sim->base.type = &yki_device_sim;
    sim->base.threads = 1;
    snprintf(sim->base.description, sizeof sim->base.description,
             "sim: a simulated accelerator for tests, seed %ld", seed);
    sim->draws = (uint64_t)seed << 32;
    pthread_mutex_init(&sim->lock, NULL);
    pthread_mutex_init(&sim->memory.lock, NULL);
    yki_cond_init(&sim->progress);
    yk_status status = yki_sim_create_stream(&sim->base, &sim->base.stream);
    if (status != YK_OK)
        sim_destroy(&sim->base);
    else
        *device = &sim->base;
    return status;
}

static yki_layout layout(const yki_device *device, const yki_operand *operand)
{
    (void)device, (void)operand;
    return YKI_PLAIN;
}

/* All that may, so that what is missing between two streams shows. */
static bool beside(yki_device *device, const yki_kernel *first, const yki_kernel *second)
{
    (void)device, (void)first, (void)second;
    return true;
}

static const yki_stream_ops streams = {.create = yki_sim_create_stream,
                                       .destroy = yki_sim_destroy_stream,
                                       .end = yki_sim_end_of_stream,
                                       .create_event = yki_sim_create_event,
                                       .destroy_event = yki_sim_destroy_event,
                                       .mark = yki_sim_mark,
                                       .follow = yki_sim_follow,
                                       .query = yki_sim_query,
                                       .wait = yki_sim_wait,
                                       .wait_for = yki_sim_wait_for,
                                       .between = yki_sim_between,
                                       .record_begin = yki_sim_record_begin,
                                       .record_end = yki_sim_record_end,
                                       .replay = yki_sim_replay,
                                       .destroy_recording = yki_sim_destroy_recording};

const yki_device_type yki_device_sim = {.name = "sim",
                                        .create = sim_create,
                                        .destroy = sim_destroy,
                                        .layout = layout,
                                        .beside = beside,
                                        .kernels = yki_sim_kernels,
                                        .sweep = yki_sim_sweep,
                                        .muon = &yki_sim_muon,
                                        .low_rank = yki_sim_low_rank,
                                        .note_time = yki_sim_note_time,
                                        .pictures = yki_sim_pictures,
                                        .memory = &yki_sim_memory_ops,
                                        .streams = &streams,
                                        .backend = "sim"};

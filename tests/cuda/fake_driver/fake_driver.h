/*
 * A CUDA driver for tests, built as a libcuda.so.1: its GPUs are simulated by the processor, as
 * unkindly as a real one may be.
 *
 * Memory: the host cannot touch it (protection keys, or else mprotect), it begins as NaNs, and what
 * is freed is unmapped. Time: streams, events and captures are those of the library's simulated
 * device (src/device/sim): nothing runs until someone waits, in an order drawn from YOKE_SIM_SEED;
 * a graph repeats the arguments that it was captured with. Kernels: the device's own, compiled for
 * cudasim.h, found by their names.
 *
 * The environment of a test:
 *     YK_FAKE_GPUS=2               how many there are (1); with 0, cuInit fails
 *     YK_FAKE_GPU_MEMORY=64        MiB on each (4096)
 *     YK_FAKE_DRIVER_VERSION=12040 the version of CUDA that the driver supports (13000)
 *     YK_FAKE_GPU_COMPUTE=70       the compute capability, times ten (90)
 *     YK_FAKE_FAULT=add_f32:3      the third launch of this kernel accesses an illegal address
 *     YK_FAKE_IMAGE=broken         no image can be loaded
 *
 * The functions below are for other fake libraries of NVIDIA's, which are linked with this one.
 */
#ifndef YK_FAKE_DRIVER_H
#define YK_FAKE_DRIVER_H

#include <stddef.h>

#define YK_FAKE_EXPORT __attribute__((visibility("default")))

enum { YK_FAKE_MOST_WORK = 4096 };

struct CUstream_st;
/* Enters work in a stream: run is called, with the device's memory within reach, on a copy of
 * `bytes` bytes, at most YK_FAKE_MOST_WORK. It returns NULL, or what was wrong. Returns a
 * CUresult. */
YK_FAKE_EXPORT int yk_fake_enter(struct CUstream_st *stream, const char *(*run)(void *work),
                                 const void *work, size_t bytes);
/* The GPU of this thread's context; -1 without one. NVIDIA's libraries would take the first GPU. */
YK_FAKE_EXPORT int yk_fake_current(void);
/* The stream of the simulated device behind one. */
struct yki_stream;
YK_FAKE_EXPORT struct yki_stream *yk_fake_stream(struct CUstream_st *stream);
/* For tests: how many fills in graphs have become kernels by now. */
YK_FAKE_EXPORT int yk_fake_replaced_fills(void);

#endif

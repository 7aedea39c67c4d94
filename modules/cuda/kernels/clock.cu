/* The time at which a stream comes to a point, by a clock that all streams of a GPU share. A kernel
 * can be a part of a recording, whose replays then note their own times. */
#include "kernel.cuh"

#ifndef __CUDA_ARCH__
#include <time.h>
#endif

DEVICE int64_t now()
{
#ifdef __CUDA_ARCH__
    int64_t nanoseconds;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
    return nanoseconds;
#else
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
#endif
}

DEVICE void do_note_time(const yki_cuda_note_time_args &args)
{
    if (threadIdx.x == 0)
        *args.nanoseconds = now();
}
KERNEL(note_time, yki_cuda_note_time_args, do_note_time)

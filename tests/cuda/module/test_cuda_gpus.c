/* Several GPUs in one process, on the fake driver: what NVIDIA's keeps apart, it keeps apart. */
#define _GNU_SOURCE
#include "harness.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../modules/cuda/cuda.h"
#include "device/sweep.h"

enum { NUMBERS = 4096 };

/* Two GPUs, and memory of each. */
typedef struct pair_of_gpus {
    yki_device *gpu[2];
    void *memory[2];
} pair_of_gpus;

static pair_of_gpus open_two(void)
{
    pair_of_gpus pair;
    setenv("YK_FAKE_GPUS", "2", 1);
    for (int i = 0; i < 2; i++) {
        assert_ok(yki_device_create(&pair.gpu[i], i == 0 ? "cuda:0" : "cuda:1",
                                    &(yki_device_options){.threads = 1}));
        assert_ok(yki_device_alloc(pair.gpu[i], NUMBERS * sizeof(float), &pair.memory[i]));
    }
    return pair;
}

static void close_two(const pair_of_gpus *pair)
{
    for (int i = 0; i < 2; i++) {
        yki_device_free(pair->gpu[i], pair->memory[i], NUMBERS * sizeof(float));
        yki_device_destroy(pair->gpu[i]);
    }
}

/* A kernel of the second GPU reads memory of GPU `from`. */
static void read_by_kernel(const pair_of_gpus *pair, int from)
{
    yki_device *gpu = pair->gpu[1];
    const yki_span span = {.at = {pair->memory[1], pair->memory[from]}, .count = NUMBERS / 2};
    yki_sweep *sweep;
    assert_ok(yki_sweep_create(&sweep, gpu, &span, 1));
    assert_ok(yki_sweep_run(sweep, YKI_SWEEP_COPY, NULL, NULL, yki_device_stream(gpu)));
    assert_ok(yki_stream_wait(gpu, yki_device_stream(gpu)));
    yki_sweep_destroy(sweep);
}

/* The signal by which a process dies whose kernel does that; 0: it does not. */
static int signal_of_reading(int from)
{
    fflush(NULL);
    pid_t child = yk_test_fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        pair_of_gpus pair = open_two();
        read_by_kernel(&pair, from);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

/* As without peer access, which yoke does not ask for. Only copies cross. */
YK_TEST(a_gpu_cannot_touch_the_memory_of_another)
{
    assert_int_equal(signal_of_reading(0), SIGSEGV);
    assert_int_equal(signal_of_reading(1), 0);
    pair_of_gpus pair = open_two();
    yki_stream *stream = yki_device_stream(pair.gpu[1]);
    assert_ok(yki_device_copy(pair.gpu[1], pair.memory[1], pair.memory[0], NUMBERS,
                              YKI_WITHIN_DEVICE, stream));
    assert_ok(yki_stream_wait(pair.gpu[1], stream));
    assert_status(YK_ERROR_INTERNAL,
                  yki_device_fill(pair.gpu[1], pair.memory[0], 0, NUMBERS, stream));
    close_two(&pair);
}

/* An event is recorded only in a stream of its own GPU. Streams of every GPU can wait for it. */
YK_TEST(an_event_belongs_to_a_gpu)
{
    yki_event *event;
    pair_of_gpus pair = open_two();
    assert_ok(yki_event_create(pair.gpu[0], &event));
    assert_status(YK_ERROR_INTERNAL,
                  yki_event_mark(pair.gpu[0], event, yki_device_stream(pair.gpu[1])));
    assert_ok(yki_event_mark(pair.gpu[0], event, yki_device_stream(pair.gpu[0])));
    assert_ok(yki_event_follow(pair.gpu[0], event, yki_device_stream(pair.gpu[1])));
    yki_event_destroy(pair.gpu[0], event);
    close_two(&pair);
}

/* What a context has loaded, no other one launches. */
YK_TEST(a_kernel_belongs_to_a_gpu)
{
    pair_of_gpus pair = open_two();
    yki_cuda_device *first = (yki_cuda_device *)pair.gpu[0];
    yki_cuda_device *second = (yki_cuda_device *)pair.gpu[1];
    const yki_span span = {.at = {pair.memory[1], pair.memory[1]}, .count = NUMBERS};
    yki_stream *stream = yki_device_stream(pair.gpu[1]);
    yki_sweep *sweep;
    assert_ptr_not_equal(first->sweeps[YKI_SWEEP_COPY].chunks,
                         second->sweeps[YKI_SWEEP_COPY].chunks);
    assert_ok(yki_sweep_create(&sweep, pair.gpu[1], &span, 1));
    second->sweeps[YKI_SWEEP_COPY].chunks = first->sweeps[YKI_SWEEP_COPY].chunks;
    assert_status(YK_ERROR_INTERNAL, yki_sweep_run(sweep, YKI_SWEEP_COPY, NULL, NULL, stream));
    assert_contains(yk_last_error(), "CUDA_ERROR_INVALID_HANDLE");
    yki_sweep_destroy(sweep);
    close_two(&pair);
}

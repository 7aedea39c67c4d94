/*
 * The 3x3 convolutions of ResNet-18, forward and both gradients: milliseconds, alone and while
 * another process keeps one of the cores busy. A kernel of two threads that shares its work
 * perfectly then takes 4/3 of its time; one that waits for the slower thread takes twice as long.
 *
 * usage: conv [threads] [batch] [f32|f16]. Medians of repeats that take turns: one alone, one
 * contended. The competitor is pinned to the last core that this process may use and is stopped
 * while it is not wanted. On a machine with other work the columns say nothing.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "device/device.h"

enum { REPEATS = 15, RUNS = 3, OPERANDS = 2 };

typedef struct shape {
    int64_t channels, filters, side, stride;
} shape;

static const shape shapes[] = {{64, 64, 32, 1},  {128, 128, 16, 1}, {256, 256, 8, 1},
                               {512, 512, 4, 1}, {64, 128, 32, 2},  {128, 256, 16, 2},
                               {256, 512, 8, 2}};

typedef enum direction { FORWARD, DATA, WEIGHT } direction;

static const char *const direction_names[] = {"forward", "data gradient", "weight gradient"};

/* A kernel with its operands in memory. */
typedef struct prepared {
    yki_attrs attrs;
    yki_kernel_desc desc;
    yki_kernel *kernel;
    void *in[YKI_MAX_IN], *out[YKI_MAX_OUT], *packed, *scratch;
} prepared;

static void check(yk_status status)
{
    if (status == YK_OK)
        return;
    fprintf(stderr, "conv: %s\n", yk_last_error());
    exit(1);
}

/* ---- the competitor -------------------------------------------------------------------------- */

static int last_cpu(void)
{
    cpu_set_t allowed;
    int last = 0;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, &allowed))
                last = cpu;
    return last;
}

/* Starts stopped, and ends with this process. */
static pid_t start_competitor(void)
{
    pid_t pid = fork();
    if (pid < 0) {
        perror("conv: fork");
        exit(1);
    }
    if (pid > 0) {
        waitpid(pid, NULL, WUNTRACED);
        return pid;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(last_cpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
    raise(SIGSTOP);
    for (volatile unsigned long turns = 0;; turns++) {
    }
}

/* ---- kernels --------------------------------------------------------------------------------- */

static void *fill(const yki_device *device, const yki_operand *operand)
{
    size_t bytes = yki_operand_bytes(device, operand);
    char *memory = yki_map(bytes);
    uint32_t state = 1;
    for (size_t i = 0; memory && i + 4 <= bytes; i += 4) {
        state = state * 1664525u + 1013904223u;
        float number = (float)(int32_t)state / 2147483648.0f;
        uint32_t bits = 0x30003000u | (state >> 24); /* two small numbers of 16 bit */
        memcpy(memory + i, operand->dtype == YK_F32 ? (void *)&number : (void *)&bits, 4);
    }
    return memory;
}

static void prepare(prepared *p, yki_device *device, const shape *s, direction d, int64_t batch,
                    yk_dtype dtype)
{
    int64_t half = s->side / s->stride;
    yki_operand x = {dtype, 4, {batch, s->channels, s->side, s->side}, YKI_BLOCKED};
    yki_operand y = {dtype, 4, {batch, s->filters, half, half}, YKI_BLOCKED};
    yki_operand w = {YK_F32, 4, {s->filters, s->channels, 3, 3}, YKI_PLAIN};
    yki_operand none = {.ndim = -1};
    const yki_op *ops[] = {&yki_op_conv2d, &yki_op_conv2d_backward_data,
                           &yki_op_conv2d_backward_weight};
    *p = (prepared){.attrs = {.stride = s->stride, .padding = 1, .dilation = 1, .groups = 1}};
    p->desc = (yki_kernel_desc){.op = ops[d],
                                .attrs = &p->attrs,
                                .training = true,
                                .in_count = d == FORWARD ? 3 : 2,
                                .in = {d == DATA ? y : x, d == WEIGHT ? y : w, none},
                                .out_count = d == WEIGHT ? 2 : 1,
                                .out = {d == FORWARD ? y
                                        : d == DATA  ? x
                                                     : w,
                                        none}};
    check(yki_kernel_create(device, &p->desc, &p->kernel));
    for (int i = 0; i < OPERANDS; i++)
        p->in[i] = fill(device, &p->desc.in[i]);
    p->out[0] = fill(device, &p->desc.out[0]);
    p->scratch = yki_map(p->kernel->scratch + YKI_ALIGNMENT);
    if (p->kernel->pack_bytes) {
        p->packed = yki_map(p->kernel->pack_bytes);
        check(p->kernel->impl->pack(p->kernel, p->in[1], p->packed, NULL));
    }
}

static void release(prepared *p, const yki_device *device)
{
    for (int i = 0; i < OPERANDS; i++)
        yki_unmap(p->in[i], yki_operand_bytes(device, &p->desc.in[i]));
    yki_unmap(p->out[0], yki_operand_bytes(device, &p->desc.out[0]));
    yki_unmap(p->scratch, p->kernel->scratch + YKI_ALIGNMENT);
    if (p->packed)
        yki_unmap(p->packed, p->kernel->pack_bytes);
    yki_kernel_destroy(p->kernel);
}

/* ---- measuring ------------------------------------------------------------------------------- */

static double time_once(const prepared *p)
{
    void *in[YKI_MAX_IN] = {p->in[0], p->packed ? p->packed : p->in[1]};
    yki_kernel_args args = {.in = in, .out = p->out, .scratch = p->scratch};
    double start = yki_now();
    for (int i = 0; i < RUNS; i++)
        check(p->kernel->impl->run(p->kernel, &args));
    return (yki_now() - start) * 1e3 / RUNS;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(const prepared *p, pid_t competitor, const shape *s, direction d)
{
    double alone[REPEATS], contended[REPEATS];
    time_once(p);
    for (int i = 0; i < REPEATS; i++) {
        alone[i] = time_once(p);
        kill(competitor, SIGCONT);
        contended[i] = time_once(p);
        kill(competitor, SIGSTOP);
    }
    qsort(alone, REPEATS, sizeof *alone, by_value);
    qsort(contended, REPEATS, sizeof *contended, by_value);
    printf("| %d -> %d at %dx%d%s | %s | %.1f | %.1f | %.2f |\n", (int)s->channels, (int)s->filters,
           (int)s->side, (int)s->side, s->stride == 2 ? ", stride 2" : "", direction_names[d],
           alone[REPEATS / 2], contended[REPEATS / 2], contended[REPEATS / 2] / alone[REPEATS / 2]);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 2;
    int64_t batch = argc > 2 ? atoll(argv[2]) : 128;
    yk_dtype dtype = argc > 3 && strcmp(argv[3], "f16") == 0 ? YK_F16 : YK_F32;
    pid_t competitor = start_competitor(); /* before OpenMP has threads */
    yki_device *device;
    check(yki_device_create(&device, "cpu",
                            &(yki_device_options){.threads = threads, .winograd = true}));
    device->type->enter(device);
    if (threads < 1 || batch < 1 || !device->block) {
        fprintf(stderr, "usage: conv [threads] [batch] [f32|f16], on a processor with AVX2\n");
        return 2;
    }
    printf("Convolutions of 3x3, batch %d, %s, %s\n\n", (int)batch, yk_dtype_name(dtype),
           device->description);
    printf("| shape | kernel | alone, ms | one core shared, ms | ratio |\n|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (direction d = FORWARD; d <= WEIGHT; d++) {
            prepared p;
            prepare(&p, device, &shapes[i], d, batch, dtype);
            measure(&p, competitor, &shapes[i], d);
            release(&p, device);
        }
    kill(competitor, SIGKILL);
    waitpid(competitor, NULL, 0);
    yki_device_destroy(device);
    return 0;
}

/*
 * The kernels of the networks that yoke brings, forward and gradients: milliseconds, alone and
 * while another process keeps one of the cores busy. A kernel of two threads that shares its work
 * perfectly then takes 4/3 of its time; one that waits for the slower thread takes twice as long.
 *
 * usage: layers [threads] [batch] [f32|bf16|f16] [only] [alone]. Prints the lines that contain
 * the text `only`; with `alone` nothing competes. Medians of repeats that take turns: one alone,
 * one contended. The competitor is pinned to the last core that this process may use and is stopped
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
#include "prepared.h"

enum { REPEATS = 7, LINE = 96 };

/* Of a repeat: several time slices of the scheduler, so that a share of a core is a share. */
static const double least_ms = 40;

typedef enum kind {
    CONV,
    DEPTHWISE,
    GROUPED, /* 32 groups, as in ResNeXt */
    LINEAR,
    MAX_POOL,
    GLOBAL_POOL,
    NORM,
    RESIDUAL,
    RELU,
    GELU
} kind;

typedef struct layer {
    kind kind;
    int64_t channels, filters, side, kernel, stride;
    int64_t divisor; /* of the batch: large images come in small batches */
} layer;

static const layer layers[] = {
    {CONV, 64, 64, 32, 3, 1, 1},           {CONV, 128, 128, 16, 3, 1, 1},
    {CONV, 256, 256, 8, 3, 1, 1},          {CONV, 512, 512, 4, 3, 1, 1},
    {CONV, 64, 128, 32, 3, 2, 1},          {CONV, 128, 256, 16, 3, 2, 1},
    {CONV, 256, 512, 8, 3, 2, 1},          {CONV, 64, 128, 32, 1, 2, 1},
    {CONV, 256, 512, 8, 1, 2, 1},          {CONV, 3, 64, 224, 7, 2, 8},
    {CONV, 64, 256, 56, 1, 1, 8},          {CONV, 256, 64, 56, 1, 1, 8},
    {CONV, 128, 512, 28, 1, 1, 8},         {CONV, 512, 128, 28, 1, 1, 8},
    {CONV, 256, 1024, 14, 1, 1, 8},        {CONV, 1024, 256, 14, 1, 1, 8},
    {CONV, 512, 2048, 7, 1, 1, 8},         {CONV, 2048, 512, 7, 1, 1, 8},
    {CONV, 256, 512, 56, 1, 2, 8},         {CONV, 1024, 2048, 14, 1, 2, 8},
    {CONV, 24, 144, 24, 1, 1, 4},          {CONV, 144, 24, 24, 1, 1, 4},
    {CONV, 96, 576, 6, 1, 1, 4},           {CONV, 576, 96, 6, 1, 1, 4},
    {DEPTHWISE, 96, 96, 48, 3, 2, 4},      {DEPTHWISE, 144, 144, 24, 3, 1, 4},
    {DEPTHWISE, 144, 144, 56, 3, 1, 16},   {DEPTHWISE, 144, 144, 56, 3, 2, 16},
    {DEPTHWISE, 576, 576, 14, 3, 1, 16},   {GROUPED, 128, 128, 56, 3, 1, 16},
    {GROUPED, 256, 256, 56, 3, 2, 16},     {GROUPED, 256, 256, 28, 3, 1, 16},
    {GROUPED, 512, 512, 28, 3, 2, 16},     {GROUPED, 512, 512, 14, 3, 1, 16},
    {GROUPED, 1024, 1024, 7, 3, 1, 16},    {LINEAR, 25088, 4096, 1, 1, 1, 2},
    {LINEAR, 4096, 4096, 1, 1, 1, 2},      {LINEAR, 512, 1000, 1, 1, 1, 1},
    {MAX_POOL, 64, 64, 112, 3, 2, 8},      {MAX_POOL, 64, 64, 31, 2, 2, 1},
    {MAX_POOL, 256, 256, 15, 2, 2, 1},     {MAX_POOL, 256, 256, 7, 2, 2, 1},
    {GLOBAL_POOL, 2048, 2048, 7, 7, 1, 1}, {NORM, 64, 64, 32, 1, 1, 1},
    {NORM, 256, 256, 56, 1, 1, 8},         {RESIDUAL, 64, 64, 32, 1, 1, 1},
    {RELU, 64, 64, 32, 1, 1, 1},           {GELU, 64, 64, 32, 1, 1, 1},
};

static const char *const direction_names[] = {"forward", "data gradient", "weight gradient"};

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
        perror("layers: fork");
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

/* ---- what a kernel works on ------------------------------------------------------------------ */

static yki_operand vector(int64_t count)
{
    return (yki_operand){YK_F32, 1, {count}, YKI_PLAIN};
}

static void describe_pool(yki_kernel_desc *d, bool global, direction way, yki_operand x,
                          yki_operand y)
{
    yki_operand index = y;
    index.dtype = yki_max_pool2d_index_dtype(d->attrs->kernel);
    if (global)
        d->op = way == FORWARD ? &yki_op_global_avg_pool2d : &yki_op_global_avg_pool2d_backward;
    else
        d->op = way == FORWARD ? &yki_op_max_pool2d : &yki_op_max_pool2d_backward;
    SET_IN(d, way == FORWARD ? x : y, way == FORWARD || global ? none : index);
    SET_OUT(d, way == FORWARD ? y : x, way == FORWARD && !global ? index : none);
}

static void describe_norm(yki_kernel_desc *d, bool residual, direction way, yki_operand x)
{
    yki_operand c = vector(x.dims[1]), r = residual ? x : none;
    if (way == FORWARD) {
        d->op = &yki_op_batch_norm;
        SET_IN(d, x, c, c, c, c, none, r);
        SET_OUT(d, x, c, c);
    } else {
        d->op = &yki_op_batch_norm_backward;
        SET_IN(d, x, x, c, c, c, c, r, none);
        SET_OUT(d, x, c, c, r);
    }
}

static void describe_activation(yki_kernel_desc *d, bool gelu, direction way, yki_operand x)
{
    static const yki_op *const ops[][2] = {{&yki_op_relu, &yki_op_relu_backward},
                                           {&yki_op_gelu, &yki_op_gelu_backward}};
    d->op = ops[gelu][way];
    SET_IN(d, x, x);
    d->in_count = way == FORWARD ? 1 : 2;
    SET_OUT(d, x);
}

/* False if the layer has no such kernel. */
static bool describe(prepared *p, const yki_device *device, const layer *l, direction way,
                     int64_t batch, yk_dtype dtype)
{
    int64_t padding = l->kind == GLOBAL_POOL || l->kernel == 2 ? 0 : l->kernel / 2;
    int64_t side = (l->side + 2 * padding - l->kernel) / l->stride + 1;
    int64_t groups = l->kind == DEPTHWISE ? l->channels : l->kind == GROUPED ? 32 : 1;
    yki_operand x = images(device, dtype, batch, l->channels, l->side);
    yki_operand y = images(device, dtype, batch, l->filters, side);
    yki_operand w = {
        YK_F32, 4, {l->filters, l->channels / groups, l->kernel, l->kernel}, YKI_PLAIN};
    bool weighs = l->kind <= LINEAR;
    if ((way == WEIGHT && !weighs) || (way == DATA && l->channels == 3))
        return false;
    *p = (prepared){.attrs = {.kernel = {l->kernel, l->kernel},
                              .stride = {l->stride, l->stride},
                              .padding = {padding, padding},
                              .dilation = {1, 1},
                              .groups = groups,
                              .eps = 1e-5,
                              .momentum = 0.1,
                              .activation = YKI_FUSED_RELU},
                    .desc = {.attrs = &p->attrs, .training = true}};
    if (l->kind == LINEAR)
        x.ndim = y.ndim = w.ndim = 2;
    if (weighs)
        describe_product(&p->desc, l->kind == LINEAR, way, x, w, y);
    else if (l->kind == MAX_POOL || l->kind == GLOBAL_POOL)
        describe_pool(&p->desc, l->kind == GLOBAL_POOL, way, x, y);
    else if (l->kind == NORM || l->kind == RESIDUAL)
        describe_norm(&p->desc, l->kind == RESIDUAL, way, x);
    else
        describe_activation(&p->desc, l->kind == GELU, way, x);
    return true;
}

/* ---- measuring ------------------------------------------------------------------------------- */

/* Milliseconds of a run. */
static double time_runs(const prepared *p, int runs)
{
    double start = yki_now();
    for (int i = 0; i < runs; i++)
        run(p);
    return (yki_now() - start) * 1e3 / runs;
}

/* competitor: -1 if there is none. */
static void measure(const prepared *p, pid_t competitor, const char *line)
{
    double alone[REPEATS], contended[REPEATS] = {0};
    time_runs(p, 1);
    int runs = (int)(least_ms / time_runs(p, 3)) + 1;
    for (int i = 0; i < REPEATS; i++) {
        alone[i] = time_runs(p, runs);
        if (competitor < 0)
            continue;
        kill(competitor, SIGCONT);
        contended[i] = time_runs(p, runs);
        kill(competitor, SIGSTOP);
    }
    qsort(alone, REPEATS, sizeof *alone, by_value);
    qsort(contended, REPEATS, sizeof *contended, by_value);
    if (competitor < 0) {
        printf("| %s | %.2f |\n", line, alone[REPEATS / 2]);
        return;
    }
    printf("| %s | %.2f | %.2f | %.2f |\n", line, alone[REPEATS / 2], contended[REPEATS / 2],
           contended[REPEATS / 2] / alone[REPEATS / 2]);
    fflush(stdout);
}

static void name_layer(char line[LINE], const layer *l, direction way, int64_t batch)
{
    static const char *const names[] = {"convolution",
                                        "depthwise",
                                        "grouped",
                                        "linear",
                                        "max pool",
                                        "global avg pool",
                                        "batch norm and relu",
                                        "batch norm, addition and relu",
                                        "relu",
                                        "gelu"};
    char shape[LINE] = "";
    if (l->kind <= MAX_POOL && l->kind != LINEAR)
        snprintf(shape, sizeof shape, " %dx%d%s", (int)l->kernel, (int)l->kernel,
                 l->stride == 2 ? " stride 2" : "");
    snprintf(line, LINE, "%s%s, %d -> %d at %dx%d, batch %d | %s", names[l->kind], shape,
             (int)l->channels, (int)l->filters, (int)l->side, (int)l->side, (int)batch,
             direction_names[way]);
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 2;
    int64_t batch = argc > 2 ? atoll(argv[2]) : 128;
    yk_dtype dtype = YK_F32;
    if (argc > 3)
        dtype = strcmp(argv[3], "f16") == 0    ? YK_F16
                : strcmp(argv[3], "bf16") == 0 ? YK_BF16
                                               : dtype;
    const char *only = argc > 4 ? argv[4] : "";
    if (threads < 1 || batch < 1) {
        fprintf(stderr, "usage: layers [threads] [batch] [f32|bf16|f16] [only] [alone]\n");
        return 2;
    }
    bool alone = argc > 5;
    pid_t competitor = alone ? -1 : start_competitor(); /* before OpenMP has threads */
    yki_device *device;
    check(yki_device_create(&device, "cpu",
                            &(yki_device_options){.threads = threads, .winograd = true}));
    device->type->enter(device);
    printf("Kernels in %s on %s\n\n| layer | kernel | alone, ms |%s\n|---|---|---|%s\n",
           yk_dtype_name(dtype), device->description, alone ? "" : " one core shared, ms | ratio |",
           alone ? "" : "---|---|");
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        for (direction d = FORWARD; d <= WEIGHT; d++) {
            prepared p;
            char line[LINE];
            int64_t images_of = batch / layers[i].divisor > 0 ? batch / layers[i].divisor : 1;
            name_layer(line, &layers[i], d, images_of);
            if (!strstr(line, only) || !describe(&p, device, &layers[i], d, images_of, dtype))
                continue;
            prepare(&p, device);
            measure(&p, competitor, line);
            release(&p, device);
        }
    if (!alone) {
        kill(competitor, SIGKILL);
        waitpid(competitor, NULL, 0);
    }
    yki_device_destroy(device);
    return 0;
}

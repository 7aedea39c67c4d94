/*
 * Batch norm against oneDNN's, on ResNet-18's shapes: forward and backward in training, with relu,
 * and with the residual addition between. oneDNN fuses relu; the addition is another primitive of
 * its own (binary with relu behind it; in backward eltwise).
 *
 * usage: norm [threads] [batch]. Medians of interleaved repeats, the sides taking turns at the
 * start; before each pass its input is written anew, untimed, as by the operator before it in
 * training. GB/s counts every tensor once: 2 or 3 forward, 3 or 5 backward.
 */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <oneapi/dnnl/dnnl.h>

#include "base/clock.h"
#include "base/memory.h"
#include "device/device.h"

enum { REPEATS = 31, TENSORS = 7, MAX_ARGS = 10 };
enum { X, OUT, RESIDUAL, DY, DX, DRESIDUAL, BETWEEN };
enum { WEIGHT, BIAS, MEAN, SPREAD, DWEIGHT, DBIAS, RUNNING_MEAN, RUNNING_VAR, VECTORS };

#define DNN(call)                                                                                  \
    do {                                                                                           \
        if ((call) != dnnl_success) {                                                              \
            fprintf(stderr, "%s failed\n", #call);                                                 \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* All memory of one shape; each side has its own tensors. */
typedef struct side {
    void *tensors[TENSORS];
    float *vectors[VECTORS];
    void *scratch, *workspace;
} side;

typedef struct shape {
    int64_t n, c, size; /* (n, c, size, size) */
    yk_dtype dtype;
    bool residual;
} shape;

static int64_t count_of(const shape *s)
{
    return s->n * s->c * s->size * s->size;
}

static void fill(void *memory, int64_t count, yk_dtype dtype, uint32_t state)
{
    for (int64_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        float value = (float)(int32_t)state / 2147483648.0f;
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        if (dtype == YK_F32)
            ((float *)memory)[i] = value;
        else
            ((uint16_t *)memory)[i] = (uint16_t)(bits >> 16);
    }
}

static void side_init(side *m, const shape *s)
{
    size_t bytes = (size_t)count_of(s) * yk_dtype_size(s->dtype);
    for (int i = 0; i < TENSORS; i++) {
        m->tensors[i] = yki_map(bytes);
        fill(m->tensors[i], count_of(s), s->dtype, (uint32_t)i);
    }
    for (int i = 0; i < VECTORS; i++) {
        m->vectors[i] = yki_map((size_t)s->c * sizeof(float));
        for (int64_t c = 0; c < s->c; c++)
            m->vectors[i][c] = 1;
    }
    m->scratch = yki_map((size_t)4 << 20);
    m->workspace = yki_map(bytes);
}

static void side_fini(side *m, const shape *s)
{
    size_t bytes = (size_t)count_of(s) * yk_dtype_size(s->dtype);
    for (int i = 0; i < TENSORS; i++)
        yki_unmap(m->tensors[i], bytes);
    for (int i = 0; i < VECTORS; i++)
        yki_unmap(m->vectors[i], (size_t)s->c * sizeof(float));
    yki_unmap(m->scratch, (size_t)4 << 20);
    yki_unmap(m->workspace, bytes);
}

/* ---- ours ------------------------------------------------------------------------------------ */

typedef struct ours {
    yki_kernel *forward, *backward;
} ours;

static void ours_init(ours *k, yki_device *device, const shape *s)
{
    yki_operand x = {.dtype = s->dtype,
                     .ndim = 4,
                     .dims = {s->n, s->c, s->size, s->size},
                     .layout = YKI_BLOCKED};
    yki_operand vector = {.dtype = YK_F32, .ndim = 1, .dims = {s->c}}, none = {.ndim = -1};
    yki_operand extra = s->residual ? x : none;
    yki_attrs attrs = {.eps = 1e-5, .momentum = 0.1, .activation = YKI_FUSED_RELU};
    yki_kernel_desc forward = {.op = &yki_op_batch_norm,
                               .attrs = &attrs,
                               .training = true,
                               .in_count = 7,
                               .out_count = 3,
                               .in = {x, vector, vector, vector, vector, none, extra},
                               .out = {x, vector, vector}};
    yki_kernel_desc backward = {.op = &yki_op_batch_norm_backward,
                                .attrs = &attrs,
                                .training = true,
                                .in_count = 8,
                                .out_count = 4,
                                .in = {x, x, vector, vector, vector, vector, extra, none},
                                .out = {x, vector, vector, extra}};
    YK_CHECK(yki_kernel_create(device, &forward, &k->forward));
    YK_CHECK(yki_kernel_create(device, &backward, &k->backward));
}

static void ours_forward(const ours *k, const side *m)
{
    float *const *v = m->vectors;
    void *in[] = {m->tensors[X], v[WEIGHT],           v[BIAS], v[RUNNING_MEAN], v[RUNNING_VAR],
                  NULL,          m->tensors[RESIDUAL]};
    void *out[] = {m->tensors[OUT], v[MEAN], v[SPREAD]};
    yki_kernel_args run = {.in = in, .out = out, .scratch = m->scratch};
    YK_CHECK(k->forward->impl->run(k->forward, &run));
}

static void ours_backward(const ours *k, const side *m)
{
    float *const *v = m->vectors;
    void *in[] = {m->tensors[X], m->tensors[DY], v[WEIGHT],       v[BIAS],
                  v[MEAN],       v[SPREAD],      m->tensors[OUT], NULL};
    void *out[] = {m->tensors[DX], v[DWEIGHT], v[DBIAS], m->tensors[DRESIDUAL]};
    yki_kernel_args run = {.in = in, .out = out, .scratch = m->scratch};
    YK_CHECK(k->backward->impl->run(k->backward, &run));
}

/* ---- oneDNN: the two versions differ in how a primitive is described ------------------------- */

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t memory_desc;
#define AS_POINTER(md) (md)
#else
typedef dnnl_memory_desc_t memory_desc;
#define AS_POINTER(md) (&(md))
#endif

typedef struct primitive {
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t handle;
    int count;
    dnnl_exec_arg_t args[MAX_ARGS];
} primitive;

typedef struct theirs {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    memory_desc data, vector;
    primitive forward, backward, add, mask;
} theirs;

static void bind(primitive *p, const theirs *t, int argument, memory_desc md, void *pointer)
{
    dnnl_memory_t memory;
    DNN(dnnl_memory_create(&memory, AS_POINTER(md), t->engine, pointer));
    p->args[p->count++] = (dnnl_exec_arg_t){argument, memory};
}

static void bind_workspace(primitive *p, const theirs *t, void *pointer)
{
    dnnl_memory_t memory;
    DNN(dnnl_memory_create(
        &memory, dnnl_primitive_desc_query_md(t->forward.desc, dnnl_query_workspace_md, 0),
        t->engine, pointer));
    p->args[p->count++] = (dnnl_exec_arg_t){DNNL_ARG_WORKSPACE, memory};
}

static dnnl_primitive_attr_t with_relu(void)
{
    dnnl_primitive_attr_t attr;
    dnnl_post_ops_t ops;
    DNN(dnnl_primitive_attr_create(&attr));
    DNN(dnnl_post_ops_create(&ops));
#if DNNL_VERSION_MAJOR >= 3
    DNN(dnnl_post_ops_append_eltwise(ops, dnnl_eltwise_relu, 0, 0));
#else
    DNN(dnnl_post_ops_append_eltwise(ops, 1, dnnl_eltwise_relu, 0, 0));
#endif
    DNN(dnnl_primitive_attr_set_post_ops(attr, ops));
    dnnl_post_ops_destroy(ops);
    return attr;
}

static void describe(theirs *t, bool residual)
{
    unsigned flags = dnnl_use_scale | dnnl_use_shift | (residual ? 0 : dnnl_fuse_norm_relu);
    dnnl_primitive_attr_t relu = with_relu();
#if DNNL_VERSION_MAJOR >= 3
    DNN(dnnl_batch_normalization_forward_primitive_desc_create(
        &t->forward.desc, t->engine, dnnl_forward_training, t->data, t->data, 1e-5f, flags, NULL));
    DNN(dnnl_batch_normalization_backward_primitive_desc_create(
        &t->backward.desc, t->engine, dnnl_backward, t->data, t->data, t->data, 1e-5f, flags,
        t->forward.desc, NULL));
    DNN(dnnl_binary_primitive_desc_create(&t->add.desc, t->engine, dnnl_binary_add, t->data,
                                          t->data, t->data, relu));
    dnnl_primitive_desc_t hint;
    DNN(dnnl_eltwise_forward_primitive_desc_create(&hint, t->engine, dnnl_forward_training,
                                                   dnnl_eltwise_relu_use_dst_for_bwd, t->data,
                                                   t->data, 0, 0, NULL));
    DNN(dnnl_eltwise_backward_primitive_desc_create(&t->mask.desc, t->engine,
                                                    dnnl_eltwise_relu_use_dst_for_bwd, t->data,
                                                    t->data, t->data, 0, 0, hint, NULL));
#else
    dnnl_batch_normalization_desc_t norm;
    DNN(dnnl_batch_normalization_forward_desc_init(&norm, dnnl_forward_training, &t->data, 1e-5f,
                                                   flags));
    DNN(dnnl_primitive_desc_create(&t->forward.desc, &norm, NULL, t->engine, NULL));
    DNN(dnnl_batch_normalization_backward_desc_init(&norm, dnnl_backward, &t->data, &t->data, 1e-5f,
                                                    flags));
    DNN(dnnl_primitive_desc_create(&t->backward.desc, &norm, NULL, t->engine, t->forward.desc));
    dnnl_binary_desc_t binary;
    DNN(dnnl_binary_desc_init(&binary, dnnl_binary_add, &t->data, &t->data, &t->data));
    DNN(dnnl_primitive_desc_create(&t->add.desc, &binary, relu, t->engine, NULL));
    dnnl_eltwise_desc_t eltwise;
    dnnl_primitive_desc_t hint;
    DNN(dnnl_eltwise_forward_desc_init(&eltwise, dnnl_forward_training,
                                       dnnl_eltwise_relu_use_dst_for_bwd, &t->data, 0, 0));
    DNN(dnnl_primitive_desc_create(&hint, &eltwise, NULL, t->engine, NULL));
    DNN(dnnl_eltwise_backward_desc_init(&eltwise, dnnl_eltwise_relu_use_dst_for_bwd, &t->data,
                                        &t->data, 0, 0));
    DNN(dnnl_primitive_desc_create(&t->mask.desc, &eltwise, NULL, t->engine, hint));
#endif
    dnnl_primitive_desc_destroy(hint);
    dnnl_primitive_attr_destroy(relu);
}

static void theirs_init(theirs *t, const side *m, const shape *s, int block)
{
    void *const *x = m->tensors;
    float *const *v = m->vectors;
    dnnl_data_type_t type = s->dtype == YK_F32 ? dnnl_f32 : dnnl_bf16;
    dnnl_format_tag_t tag = block == 16 ? dnnl_nChw16c : dnnl_nChw8c;
    dnnl_dims_t dims = {s->n, s->c, s->size, s->size}, channels = {s->c};
    DNN(dnnl_engine_create(&t->engine, dnnl_cpu, 0));
    DNN(dnnl_stream_create(&t->stream, t->engine, dnnl_stream_default_flags));
#if DNNL_VERSION_MAJOR >= 3
    DNN(dnnl_memory_desc_create_with_tag(&t->data, 4, dims, type, tag));
    DNN(dnnl_memory_desc_create_with_tag(&t->vector, 1, channels, dnnl_f32, dnnl_a));
#else
    DNN(dnnl_memory_desc_init_by_tag(&t->data, 4, dims, type, tag));
    DNN(dnnl_memory_desc_init_by_tag(&t->vector, 1, channels, dnnl_f32, dnnl_a));
#endif
    describe(t, s->residual);
    const struct {
        primitive *primitive;
        int argument, tensor, vector;
    } arguments[] = {
        {&t->forward, DNNL_ARG_SRC, X, -1},
        {&t->forward, DNNL_ARG_DST, s->residual ? BETWEEN : OUT, -1},
        {&t->forward, DNNL_ARG_MEAN, -1, MEAN},
        {&t->forward, DNNL_ARG_VARIANCE, -1, SPREAD},
        {&t->forward, DNNL_ARG_SCALE, -1, WEIGHT},
        {&t->forward, DNNL_ARG_SHIFT, -1, BIAS},
        {&t->add, DNNL_ARG_SRC_0, BETWEEN, -1},
        {&t->add, DNNL_ARG_SRC_1, RESIDUAL, -1},
        {&t->add, DNNL_ARG_DST, OUT, -1},
        {&t->mask, DNNL_ARG_DST, OUT, -1},
        {&t->mask, DNNL_ARG_DIFF_DST, DY, -1},
        {&t->mask, DNNL_ARG_DIFF_SRC, DRESIDUAL, -1},
        {&t->backward, DNNL_ARG_SRC, X, -1},
        {&t->backward, DNNL_ARG_MEAN, -1, MEAN},
        {&t->backward, DNNL_ARG_VARIANCE, -1, SPREAD},
        {&t->backward, DNNL_ARG_SCALE, -1, WEIGHT},
        {&t->backward, DNNL_ARG_SHIFT, -1, BIAS},
        {&t->backward, DNNL_ARG_DIFF_DST, s->residual ? DRESIDUAL : DY, -1},
        {&t->backward, DNNL_ARG_DIFF_SRC, DX, -1},
        {&t->backward, DNNL_ARG_DIFF_SCALE, -1, DWEIGHT},
        {&t->backward, DNNL_ARG_DIFF_SHIFT, -1, DBIAS},
    };
    for (size_t i = 0; i < sizeof arguments / sizeof *arguments; i++)
        bind(arguments[i].primitive, t, arguments[i].argument,
             arguments[i].tensor >= 0 ? t->data : t->vector,
             arguments[i].tensor >= 0 ? x[arguments[i].tensor] : v[arguments[i].vector]);
    if (!s->residual) {
        bind_workspace(&t->forward, t, m->workspace);
        bind_workspace(&t->backward, t, m->workspace);
    }
    primitive *const all[] = {&t->forward, &t->backward, &t->add, &t->mask};
    for (int i = 0; i < 4; i++)
        DNN(dnnl_primitive_create(&all[i]->handle, all[i]->desc));
}

static void theirs_fini(theirs *t)
{
    primitive *const all[] = {&t->forward, &t->backward, &t->add, &t->mask};
    for (int i = 0; i < 4; i++) {
        for (int a = 0; a < all[i]->count; a++)
            dnnl_memory_destroy(all[i]->args[a].memory);
        dnnl_primitive_destroy(all[i]->handle);
        dnnl_primitive_desc_destroy(all[i]->desc);
    }
    dnnl_stream_destroy(t->stream);
    dnnl_engine_destroy(t->engine);
}

static void execute(const theirs *t, const primitive *p)
{
    DNN(dnnl_primitive_execute(p->handle, t->stream, p->count, p->args));
    DNN(dnnl_stream_wait(t->stream));
}

/* ---- measuring ------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *times)
{
    qsort(times, REPEATS, sizeof *times, compare);
    return times[REPEATS / 2];
}

static void report(const shape *s, const char *what, int tensors, double *our, double *their)
{
    double a = median(our), b = median(their);
    double gigabytes = (double)count_of(s) * (double)yk_dtype_size(s->dtype) * tensors * 1e-9;
    printf("%4lld x %2lld^2  %-8s  %-9s%-10s  %7.3f ms %6.1f GB/s   %7.3f ms %6.1f GB/s   %.2f\n",
           (long long)s->c, (long long)s->size, yk_dtype_name(s->dtype), what,
           s->residual ? "+ residual" : "", 1e3 * a, gigabytes / a, 1e3 * b, gigabytes / b, b / a);
}

/* Runs one pass of one side; oneDNN's with the passes that it cannot fuse. */
static void pass(bool our, bool backward, const shape *s, const ours *k, const side *m,
                 const theirs *t)
{
    if (our) {
        backward ? ours_backward(k, m) : ours_forward(k, m);
    } else if (backward) {
        if (s->residual)
            execute(t, &t->mask);
        execute(t, &t->backward);
    } else {
        execute(t, &t->forward);
        if (s->residual)
            execute(t, &t->add);
    }
}

static void measure(yki_device *device, const shape *s)
{
    side a, b;
    ours k;
    theirs t = {0};
    double times[2][2][REPEATS]; /* [backward][our] */
    size_t bytes = (size_t)count_of(s) * yk_dtype_size(s->dtype);
    void *source[2] = {yki_map(bytes), yki_map(bytes)}; /* x, dy */
    fill(source[0], count_of(s), s->dtype, X);
    fill(source[1], count_of(s), s->dtype, DY);
    side_init(&a, s);
    side_init(&b, s);
    ours_init(&k, device, s);
    theirs_init(&t, &b, s, device->block);
    for (int r = -2; r < REPEATS; r++)
        for (int backward = 0; backward < 2; backward++)
            for (int turn = 0; turn < 2; turn++) {
                bool our = (turn + r) % 2 == 0;
                const side *m = our ? &a : &b;
                int input = backward ? DY : X;
                memcpy(m->tensors[input], source[backward], bytes);
                double start = yki_now();
                pass(our, backward, s, &k, m, &t);
                if (r >= 0)
                    times[backward][our][r] = yki_now() - start;
            }
    report(s, "forward", s->residual ? 3 : 2, times[0][1], times[0][0]);
    report(s, "backward", s->residual ? 5 : 3, times[1][1], times[1][0]);
    theirs_fini(&t);
    yki_kernel_destroy(k.forward);
    yki_kernel_destroy(k.backward);
    side_fini(&a, s);
    side_fini(&b, s);
    yki_unmap(source[0], bytes);
    yki_unmap(source[1], bytes);
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 2;
    int64_t batch = argc > 2 ? atoi(argv[2]) : 128;
    yki_device *device;
    YK_CHECK(yki_device_create(&device, "cpu",
                               &(yki_device_options){.threads = threads, .winograd = true}));
    omp_set_num_threads(threads);
    printf("batch %lld, %s\n", (long long)batch, device->description);
    printf("shape       dtype     what                 yoke                    oneDNN          "
           "        times\n");
    for (int bf16 = 0; bf16 < 2; bf16++)
        for (int residual = 0; residual < 2; residual++)
            for (int64_t c = 64; c <= 512; c *= 2)
                measure(device, &(shape){.n = batch,
                                         .c = c,
                                         .size = 2048 / c,
                                         .dtype = bf16 ? YK_BF16 : YK_F32,
                                         .residual = residual});
    yki_device_destroy(device);
    return 0;
}

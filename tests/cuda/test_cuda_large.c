/*
 * The kernels of the cuda device on operands of almost 2^31 elements, as many as they may have:
 * their grids have to be such that a GPU starts them, and their places must not overflow. Memory is
 * reserved, between gaps that may not be touched, and becomes real where a kernel touches it; of
 * each grid, the first blocks, the last and a few between them are run. What products and
 * convolutions compute is left out.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory.h"
#include "check/trial.h"
#include "families.h"
#include "harness.h"
#include "implementations.h"
#include "libraries.h"
#include "sim_device.h"
#include "simulator.h"

enum { BLOCKS = 3, CASES = 12 /* of a family, at most */, MOST = 16 /* families of a test */ };

/* On both sides of an operand: what an offset that has overflowed reaches. */
static const size_t gap = (size_t)16 << 30;

static char running[256]; /* for the handler */

static void say_where(int number)
{
    (void)number;
    ssize_t written = write(STDERR_FILENO, running, strlen(running));
    (void)written;
    _exit(1);
}

/* ---- memory ---------------------------------------------------------------------------------- */

typedef struct room {
    char *block;
    size_t bytes; /* of all of it */
} room;

/* What begins there ends where a gap does begin. */
static void *reserve(room *r, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), used = yki_align(bytes ? bytes : 1, page);
    r->bytes = used + 2 * gap;
    r->block = mmap(NULL, r->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (r->block == MAP_FAILED || mprotect(r->block + gap, used, PROT_READ | PROT_WRITE) != 0)
        skip_because("the system reserves no memory that is not used");
    return r->block + gap + used - yki_align(bytes, 256);
}

/* ---- the device ------------------------------------------------------------------------------ */

static int accept_product(void *handle, void *desc, const void *alpha, const void *a,
                          void *a_layout, const void *b, void *b_layout, const void *beta,
                          const void *c, void *c_layout, void *d, void *d_layout,
                          const cublas_algorithm *algorithm, void *workspace,
                          size_t workspace_bytes, void *stream)
{
    (void)handle, (void)desc, (void)alpha, (void)a, (void)a_layout, (void)b, (void)b_layout;
    (void)beta, (void)c, (void)c_layout, (void)d, (void)d_layout, (void)algorithm;
    (void)workspace, (void)workspace_bytes, (void)stream;
    return 0;
}

static int accept_plan(void *handle, cudnn_descriptor plan, cudnn_descriptor pack)
{
    (void)handle, (void)plan, (void)pack;
    return 0;
}

/* One that has room for all scores of attention. */
static yki_cuda_device *open_device(void)
{
    static const yki_device_options options = {.threads = 1};
    const yki_cudnn *cudnn;
    const yki_cublas *cublas;
    yki_device *made;
    assert_ok(sim_device_type.create(&made, &options));
    yki_cuda_device *device = (yki_cuda_device *)made;
    assert_ok(yki_cuda_need_cublas(device, &cublas));
    assert_ok(yki_cuda_need_cudnn(device, &cudnn));
    device->cublas->calls.multiply = accept_product;
    device->cudnn->calls.execute = accept_plan;
    device->score_bytes = SIZE_MAX;
    return device;
}

static bool is_of_device(const yki_kernel *kernel)
{
    const yki_kernel_impl *const *own = yki_cuda_kernels;
    while (*own && *own != kernel->impl)
        own++;
    return *own;
}

/* ---- a case whose batch is as large as can be ------------------------------------------------ */

typedef struct row {
    const conformance_family *family;
    const conformance_case *c;
} row;

static yk_value *build(yk_graph *graph, yk_dtype dtype, const void *data)
{
    const row *r = data;
    return r->family->build(graph, r->c, dtype);
}

/* A case, and the same without samples, which has 0 where the batch is. */
typedef struct large_case {
    yki_trial trial, empty;
} large_case;

static yki_operand operand_of(const large_case *c, const yk_value *value)
{
    if (!value)
        return (yki_operand){.ndim = -1};
    yki_operand operand = {.dtype = value->dtype, .ndim = value->ndim};
    memcpy(operand.dims, c->empty.graph->values[value->id]->dims, sizeof operand.dims);
    if (!c->trial.plain[value->id])
        operand.layout = yki_cuda_layout(NULL, &operand);
    return operand;
}

static bool has_batch(const yki_operand *operand)
{
    return operand->ndim > 0 && operand->dims[0] == 0;
}

static void find_most(const yki_operand *operand, int64_t *most)
{
    yki_operand one = *operand;
    if (!has_batch(operand))
        return;
    one.dims[0] = 1;
    if (INT32_MAX / yki_operand_count(&one) < *most)
        *most = INT32_MAX / yki_operand_count(&one);
}

/* False if no operand has a batch. */
static bool enlarge(yki_kernel_desc *desc)
{
    int64_t most = INT64_MAX;
    for (int i = 0; i < desc->in_count; i++)
        find_most(&desc->in[i], &most);
    for (int i = 0; i < desc->out_count; i++)
        find_most(&desc->out[i], &most);
    for (int i = 0; i < desc->in_count; i++)
        if (has_batch(&desc->in[i]))
            desc->in[i].dims[0] = most;
    for (int i = 0; i < desc->out_count; i++)
        if (has_batch(&desc->out[i]))
            desc->out[i].dims[0] = most;
    return most < INT64_MAX;
}

static size_t bytes_of(const yki_operand *operand)
{
    return (size_t)yki_operand_count(operand) * yk_dtype_size(operand->dtype);
}

static void run(const yki_kernel *kernel, const yki_kernel_desc *desc)
{
    static yki_scalars scalars;
    room rooms[YKI_MAX_IN + YKI_MAX_OUT + 1];
    void *in[YKI_MAX_IN] = {NULL}, *out[YKI_MAX_OUT] = {NULL};
    int used = 0;
    for (int i = 0; i < desc->in_count; i++)
        if (desc->in[i].ndim >= 0)
            in[i] = reserve(&rooms[used++], bytes_of(&desc->in[i]));
    for (int i = 0; i < desc->out_count; i++)
        if (desc->out[i].ndim >= 0)
            out[i] = reserve(&rooms[used++], bytes_of(&desc->out[i]));
    void *scratch = reserve(&rooms[used++], kernel->scratch);
    assert_ok(kernel->impl->run(
        kernel, &(yki_kernel_args){.in = in, .out = out, .scratch = scratch, .scalars = &scalars}));
    for (int i = 0; i < used; i++)
        munmap(rooms[i].block, rooms[i].bytes);
}

/* Whose blocks read all of an operand, or so much of it that the simulator takes minutes. */
static bool takes_long(const yki_op *op)
{
    static const yki_op *const ops[] = {&yki_op_cross_entropy, &yki_op_embedding_backward,
                                        &yki_op_group_norm_backward};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (op == ops[i])
            return true;
    return false;
}

static void run_node(yki_cuda_device *device, const large_case *c, const yki_node *node)
{
    yki_kernel *kernel;
    yki_kernel_desc desc = {.op = node->op,
                            .attrs = &node->attrs,
                            .training = true,
                            .in_count = node->in_count,
                            .out_count = node->out_count};
    for (int i = 0; i < node->in_count; i++)
        desc.in[i] = operand_of(c, node->in[i]);
    for (int i = 0; i < node->out_count; i++)
        desc.out[i] = operand_of(c, node->out[i]);
    if (!enlarge(&desc))
        return;
    assert_ok(yki_kernel_create(&device->base, &desc, &kernel));
    if (is_of_device(kernel))
        run(kernel, &desc);
    yki_kernel_destroy(kernel);
}

static void run_row(yki_cuda_device *device, const row *r, yk_dtype dtype)
{
    const yki_conformance_case one = {
        .label = "a large case", .build = build, .data = r, .classes = 1, .spread = 1};
    const int number = (int)(r->c - r->family->cases);
    large_case c;
    bool varies = yki_trial_init(&c.empty, &one, YK_F32, "ref", true) == YK_OK;
    assert_ok(yki_trial_init(&c.trial, &one, dtype, "ref", false));
    for (size_t n = 0; varies && n < c.trial.graph->node_count; n++) {
        const yki_node *node = c.trial.graph->nodes[n];
        snprintf(running, sizeof running,
                 "%s in %s, case %d of its family: memory of no operand is touched\n",
                 node->op->name, yk_dtype_name(dtype), number);
        if (!takes_long(node->op))
            run_node(device, &c, node);
    }
    yki_trial_fini(&c.trial);
    yki_trial_fini(&c.empty);
}

/* In f32, and in 16 bits too, whose vectors are longer. */
enum { FULL = 1, ALL };

static void run_all(const conformance_family *const families[], int dtype_count)
{
    static const yk_dtype dtypes[] = {YK_F32, YK_BF16};
#if defined __SANITIZE_ADDRESS__
    skip_because("the sanitizer has no room for so much memory");
#endif
    signal(SIGSEGV, say_where);
    signal(SIGBUS, say_where);
    yki_cuda_device *device = open_device();
    const uint64_t before = sim_device_launches();
    yk_sim_run_some(BLOCKS);
    for (int f = 0; families[f]; f++) {
        const size_t step = (families[f]->count + CASES - 1) / CASES;
        for (size_t i = 0; i < families[f]->count; i += step)
            for (int d = 0; d < dtype_count; d++)
                run_row(device, &(row){families[f], &families[f]->cases[i]}, dtypes[d]);
    }
    print_message("%d launches\n", (int)(sim_device_launches() - before));
    assert_true(sim_device_launches() > before);
    device->base.type->destroy(&device->base);
}

YK_TEST(elementwise)
{
    const conformance_family *families[FAMILIES_ELEMENTWISE + 1] = {NULL};
    for (int i = 0; i < FAMILIES_ELEMENTWISE; i++)
        families[i] = &families_elementwise[i];
    run_all(families, ALL);
}

YK_TEST(broadcasting)
{
    run_all((const conformance_family *[MOST]){&family_broadcast_add, &family_broadcast_divide,
                                               &family_compare, &family_masked_fill},
            ALL);
}

YK_TEST(norms)
{
    run_all((const conformance_family *[MOST]){&family_batch_norm, &family_group_norm,
                                               &family_layer_norm, &family_rms_norm},
            ALL);
}

YK_TEST(pools)
{
    run_all((const conformance_family *[MOST]){&family_max_pool2d, &family_avg_pool2d,
                                               &family_global, &family_adaptive,
                                               &family_interpolate},
            ALL);
}

YK_TEST(moves)
{
    run_all((const conformance_family *[MOST]){&family_flatten, &family_reshape, &family_permute,
                                               &family_slice, &family_pad, &family_take},
            ALL);
}

YK_TEST(softmaxes_and_maxima)
{
    run_all((const conformance_family *[MOST]){&family_softmax, &family_log_softmax, &family_rotary,
                                               &family_amax, &family_amin},
            ALL);
}

YK_TEST(embeddings)
{
    run_all((const conformance_family *[MOST]){&family_embedding}, FULL);
}

YK_TEST(losses)
{
    run_all((const conformance_family *[MOST]){&family_cross_entropy}, ALL);
    run_all((const conformance_family *[MOST]){&family_mse_loss, &family_bce, &family_reduce_loss,
                                               &family_sum, &family_randn_like},
            FULL);
}

YK_TEST(products)
{
    run_all((const conformance_family *[MOST]){&family_linear, &family_matmul, &family_conv2d,
                                               &family_conv_transpose2d, &family_lstm_cell,
                                               &family_gru_cell, &family_lstm, &family_gru},
            ALL);
}

YK_TEST(attention)
{
    run_all((const conformance_family *[MOST]){&family_attention, &family_flash_attention}, ALL);
}

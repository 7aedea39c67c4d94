/*
 * all_gather_batch and its gradient, on every device: the host enters the exchange, which moves the
 * device's memory.
 */
#include "device/ref/ref.h"

#include "base/memory.h"

typedef struct exchange_kernel {
    yki_kernel base;
    yki_device *device;
    yk_dtype dtype;
    size_t count; /* elements of a rank */
    int ranks;
    int64_t samples, expected; /* of the batch */
} exchange_kernel;

static yk_status prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    bool gathers = desc->op == &yki_op_all_gather_batch;
    const yki_operand *own =
        gathers ? &desc->in[YKI_ALL_GATHER_BATCH_X] : &desc->out[YKI_REDUCE_SCATTER_BATCH_DX];
    exchange_kernel *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a kernel");
    k->device = device;
    k->dtype = own->dtype;
    k->count = (size_t)yki_operand_count(own);
    k->ranks = desc->attrs->ranks;
    k->samples = own->dims[0];
    k->expected = desc->attrs->samples;
    *kernel = &k->base;
    return YK_OK;
}

/* Not before it runs: the other ranks wait for this one there. */
static yk_status check_samples(const exchange_kernel *k)
{
    if (k->samples == k->expected)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_SHAPE,
                     "the batch has %lld samples, expected %lld, as on every rank",
                     (long long)k->samples, (long long)k->expected);
}

/* Among no other ranks: what is there is the result. */
static yk_status copy_own(const exchange_kernel *k, const yki_kernel_args *run)
{
    return yki_device_copy(k->device, run->out[0], run->in[0], k->count * yk_dtype_size(k->dtype),
                           YKI_WITHIN_DEVICE, run->stream);
}

static yk_status expect_exchange(const exchange_kernel *k, const yki_kernel_args *run)
{
    if (run->exchange)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "it gathers the batches of %d ranks: give the model to yk_ddp_create first",
                     k->ranks);
}

static yk_status run_gather(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const exchange_kernel *k = (const exchange_kernel *)kernel;
    yk_status status = check_samples(k);
    if (status != YK_OK && run->exchange)
        return run->exchange->refuse(run->exchange, k->count, k->dtype, status);
    YK_TRY(status);
    if (k->ranks == 1)
        return copy_own(k, run);
    YK_TRY(expect_exchange(k, run));
    return run->exchange->all_gather(run->exchange, run->out[0], run->in[0], k->count, k->dtype,
                                     run->stream);
}

static yk_status run_scatter(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const exchange_kernel *k = (const exchange_kernel *)kernel;
    YK_TRY(check_samples(k));
    if (k->ranks == 1)
        return copy_own(k, run);
    YK_TRY(expect_exchange(k, run));
    return run->exchange->reduce_scatter(run->exchange, run->out[0], run->in[0], k->count, k->dtype,
                                         run->stream);
}

const yki_kernel_impl yki_ref_all_gather_batch = {.op = &yki_op_all_gather_batch,
                                                  .supports = yki_ref_supports,
                                                  .prepare = prepare,
                                                  .run = run_gather,
                                                  .on_host = true};
const yki_kernel_impl yki_ref_reduce_scatter_batch = {.op = &yki_op_reduce_scatter_batch,
                                                      .supports = yki_ref_supports,
                                                      .prepare = prepare,
                                                      .run = run_scatter,
                                                      .on_host = true};

/* See beside.h. */
#include "conv/beside.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "conv/plan.h"
#include "conv/trial.h"
#include "device/fan.h"
#include "implementations.h"

/* The gain that counts: less may be chance, and what both use lives longer. */
static const double least_gain = 0.03;

/* Both kernels, with operands of their own in one block of the device's memory. */
typedef struct pair {
    yki_cuda_device *device;
    const yki_cuda_kernel *kernels[2];
    struct {
        void *in[YKI_MAX_IN], *out[YKI_MAX_OUT], *scratch;
    } at[2];
    void *caches;
    size_t cache_bytes;
    yki_fan fan;
} pair;

/* ---- operands -------------------------------------------------------------------------------- */

static void *take(char *block, size_t *used, size_t bytes)
{
    size_t at = *used;
    *used = at + yki_align(bytes, YKI_SCRATCH_ALIGNMENT);
    return block ? block + at : NULL;
}

static size_t bytes_of(const yki_cuda_kernel *kernel, const yki_operand *operand)
{
    return operand->ndim < 0 ? 0 : yki_operand_bytes(&kernel->device->base, operand);
}

/* The second kernel reads the dy of the first. */
static size_t input_bytes(const pair *p, int k, int i)
{
    const yki_cuda_kernel *kernel = p->kernels[k];
    if (k == 1 && i == YKI_CONV2D_BACKWARD_DATA_DY)
        return 0;
    bool packed = kernel->base.pack_bytes && kernel->base.pack_input == i;
    return packed ? kernel->base.pack_bytes : bytes_of(kernel, &kernel->desc.in[i]);
}

/* Divides the block among the operands; returns how many bytes they take. */
static size_t lay_out(pair *p, char *block)
{
    size_t used = 0;
    for (int k = 0; k < 2; k++) {
        const yki_cuda_kernel *kernel = p->kernels[k];
        for (int i = 0; i < kernel->desc.in_count; i++)
            p->at[k].in[i] = take(block, &used, input_bytes(p, k, i));
        for (int i = 0; i < kernel->desc.out_count; i++)
            p->at[k].out[i] = take(block, &used, bytes_of(kernel, &kernel->desc.out[i]));
        p->at[k].scratch = take(block, &used, kernel->base.scratch);
    }
    p->at[1].in[YKI_CONV2D_BACKWARD_DATA_DY] = p->at[0].in[YKI_CONV2D_BACKWARD_WEIGHT_DY];
    p->caches = take(block, &used, p->cache_bytes);
    return used;
}

/* Without what empties the caches where memory is too short for it. */
static bool take_memory(pair *p, void **block, size_t *bytes)
{
    *bytes = lay_out(p, NULL);
    yk_status status = yki_device_alloc(&p->device->base, *bytes, block);
    if (status != YK_OK) {
        p->cache_bytes = 0;
        *bytes = lay_out(p, NULL);
        status = yki_device_alloc(&p->device->base, *bytes, block);
    }
    if (status == YK_OK)
        lay_out(p, *block);
    return status == YK_OK;
}

/* ---- measuring ------------------------------------------------------------------------------- */

static yk_status run_one(const pair *p, int k, yki_stream *stream)
{
    const yki_kernel *kernel = &p->kernels[k]->base;
    return kernel->impl->run(kernel, &(yki_kernel_args){.in = p->at[k].in,
                                                        .out = p->at[k].out,
                                                        .scratch = p->at[k].scratch,
                                                        .stream = stream});
}

static yk_status run_in_turn(const void *context)
{
    const pair *p = context;
    YK_TRY(run_one(p, 0, p->device->base.stream));
    return run_one(p, 1, p->device->base.stream);
}

static yk_status run_beside(const void *context)
{
    const pair *p = context;
    yki_fan fan = p->fan;
    YK_TRY(yki_fan_open(&fan));
    yk_status status = run_one(p, 0, yki_fan_stream(&fan));
    if (status == YK_OK)
        status = run_one(p, 1, yki_fan_stream(&fan));
    return yki_fan_close(&fan, status);
}

static double measure(const pair *p, yk_status (*run)(const void *context))
{
    return yki_cuda_try(&(yki_cuda_trial){.device = p->device,
                                          .run = run,
                                          .context = p,
                                          .caches = p->caches,
                                          .cache_bytes = p->cache_bytes});
}

/* With numbers of which none is zero: a GPU multiplies zeros faster. */
static yk_status measure_both(pair *p, char *block, size_t bytes, double *in_turn, double *beside)
{
    yki_device *device = &p->device->base;
    YK_TRY(yki_device_fill(device, block, 0x3c, bytes, device->stream));
    YK_TRY(yki_fan_create(&p->fan, device, 2));
    *in_turn = measure(p, run_in_turn);
    *beside = measure(p, run_beside);
    yki_fan_destroy(&p->fan);
    return YK_OK;
}

/* In seconds; false if they cannot be measured, as where memory is too short. */
static bool measure_pair(yki_cuda_device *device, const yki_cuda_kernel *first,
                         const yki_cuda_kernel *second, double *in_turn, double *beside)
{
    pair p = {.device = device, .kernels = {first, second}, .cache_bytes = device->cache_bytes};
    size_t bytes;
    void *block;
    if (!take_memory(&p, &block, &bytes))
        return false;
    yk_status status = measure_both(&p, block, bytes, in_turn, beside);
    yki_device_free(&device->base, block, bytes);
    return status == YK_OK && *in_turn > 0 && *beside > 0;
}

/* ---- choosing -------------------------------------------------------------------------------- */

static const char beside_text[] = "beside", in_turn_text[] = "in turn";

/* What the choice depends on besides the folder. */
static void write_problem(const yki_cuda_kernel *first, char text[YKI_CUDNN_CONV_TEXT])
{
    const yki_attrs *attrs = &first->attrs;
    yki_cudnn_conv conv = {.direction = YKI_CUDNN_BACKWARD_WEIGHT,
                           .dtype = first->desc.in[YKI_CONV2D_BACKWARD_WEIGHT_X].dtype,
                           .bias = first->desc.out[YKI_CONV2D_BACKWARD_WEIGHT_DBIAS].ndim >= 0,
                           .stride = {attrs->stride[0], attrs->stride[1]},
                           .padding = {attrs->padding[0], attrs->padding[1]},
                           .dilation = {attrs->dilation[0], attrs->dilation[1]}};
    memcpy(conv.x, first->desc.in[YKI_CONV2D_BACKWARD_WEIGHT_X].dims, sizeof conv.x);
    memcpy(conv.w, first->desc.out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT].dims, sizeof conv.w);
    yki_cudnn_conv_text(&conv, text);
}

static bool choose(yki_cuda_device *device, const yki_cuda_kernel *first,
                   const yki_cuda_kernel *second, const char *folder, const char *problem)
{
    double in_turn, beside;
    if (!measure_pair(device, first, second, &in_turn, &beside))
        return false;
    bool gains = beside < (1 - least_gain) * in_turn;
    YKI_DEBUG("%s: %.1f us in turn, %.1f us beside each other", problem, 1e6 * in_turn,
              1e6 * beside);
    if (*folder)
        yki_plan_cache_write(folder, problem, 1e6 * (gains ? beside : in_turn),
                             gains ? beside_text : in_turn_text);
    return gains;
}

static bool choose_or_recall(yki_cuda_device *device, const yki_cuda_kernel *first,
                             const yki_cuda_kernel *second)
{
    char folder[YKI_PLAN_PATH], problem[YKI_CUDNN_CONV_TEXT];
    double microseconds;
    write_problem(first, problem);
    yki_cuda_plan_folder(folder, device, device->cudnn, "-beside");
    char *kept = yki_plan_cache_read(folder, problem, &microseconds);
    bool known = kept && (strcmp(kept, beside_text) == 0 || strcmp(kept, in_turn_text) == 0);
    bool beside =
        known ? strcmp(kept, beside_text) == 0 : choose(device, first, second, folder, problem);
    free(kept);
    return beside;
}

/* Of one convolution, as far as shapes tell. */
static bool are_gradients(const yki_cuda_kernel *first, const yki_cuda_kernel *second)
{
    const yki_operand *dy = &first->desc.in[YKI_CONV2D_BACKWARD_WEIGHT_DY];
    const yki_operand *dw = &first->desc.out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT];
    const yki_operand *same_dy = &second->desc.in[YKI_CONV2D_BACKWARD_DATA_DY];
    const yki_operand *w = &second->desc.in[YKI_CONV2D_BACKWARD_DATA_WEIGHT];
    return dy->dtype == same_dy->dtype && memcmp(dy->dims, same_dy->dims, sizeof dy->dims) == 0 &&
           memcmp(dw->dims, w->dims, sizeof w->dims) == 0;
}

bool yki_cuda_beside(yki_device *device, const yki_kernel *first, const yki_kernel *second)
{
    yki_cuda_device *cuda = (yki_cuda_device *)device;
    const yki_cuda_kernel *a = (const yki_cuda_kernel *)first, *b = (const yki_cuda_kernel *)second;
    if (first->impl != &yki_cuda_conv2d_backward_weight ||
        second->impl != &yki_cuda_conv2d_backward_data || !are_gradients(a, b))
        return false;
    if (cuda->besides != YKI_CUDA_BESIDE_MEASURED)
        return cuda->besides == YKI_CUDA_BESIDE_ALWAYS;
    return cuda->measures && choose_or_recall(cuda, a, b);
}

/*
 * A thin layer over oneDNN: onednn.c is the only file that knows how 2.6 and 3.x differ (in the
 * descriptions of memory and primitives). Functions that are the same in both are called directly.
 */
#ifndef YKI_ONEDNN_H
#define YKI_ONEDNN_H

#include "device/cpu/cpu.h"

#include <oneapi/dnnl/dnnl.h>

typedef struct yki_cpu_device {
    yki_device base;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    yki_cpu_sizes sizes;
    bool winograd;
    bool has_amx;     /* our own kernels may use its bf16 tiles */
    bool has_bf16;    /* oneDNN has bf16 arithmetic here */
    bool native_bf16; /* and convolutions gain by it; else they are staged through f32 */
} yki_cpu_device;

/* Whether oneDNN's bf16 arithmetic is expected to beat products of matrices in f32. */
static inline bool yki_prefers_bf16(const yki_device *device, const yki_operand *activation)
{
    return activation->dtype == YK_BF16 && ((const yki_cpu_device *)device)->native_bf16;
}

/* Whether it is a depthwise convolution in bf16 that oneDNN computes directly. It moves more than
 * it computes, so that the rate of dot products does not matter. */
static inline bool yki_is_depthwise_bf16(const yki_device *device, const yki_attrs *attrs,
                                         const yki_operand *activation)
{
    return activation->dtype == YK_BF16 && ((const yki_cpu_device *)device)->has_bf16 &&
           attrs->groups > 1 && attrs->groups == activation->dims[1];
}

/* A failed oneDNN call as an error line. */
yk_status yki_dnn_error(dnnl_status_t status, const char *call);
#define YKI_DNN(call)                                                                              \
    do {                                                                                           \
        dnnl_status_t dnn_status_ = (call);                                                        \
        if (dnn_status_ != dnnl_success)                                                           \
            return yki_dnn_error(dnn_status_, #call);                                              \
    } while (0)

/* ---- memory descriptors: a pointer in both versions ---------------------------------------- */

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t yki_md;
typedef const_dnnl_memory_desc_t yki_const_md;
#else
typedef dnnl_memory_desc_t *yki_md;
typedef const dnnl_memory_desc_t *yki_const_md;
#endif

/* Shape, dtype and a layout: a tag, strides, or dnnl_format_tag_any. Free with yki_md_destroy. */
yk_status yki_md_with_tag(yki_md *md, int ndim, const int64_t *shape, yk_dtype dtype,
                          dnnl_format_tag_t tag);
yk_status yki_md_with_strides(yki_md *md, int ndim, const int64_t *shape, yk_dtype dtype,
                              const int64_t *strides);
/* An operand in its own layout: plain, or blocked by the device's b. */
yk_status yki_md_of(yki_md *md, const yki_device *device, const yki_operand *operand);
void yki_md_destroy(yki_md md);
size_t yki_md_size(yki_const_md md);
bool yki_md_equal(yki_const_md a, yki_const_md b);

/* ---- primitives ------------------------------------------------------------------------------ */

enum { YKI_DNN_ARGS = 6 };

/* A primitive with its memory objects, so that running it only takes pointers. Zeros are an empty
 * one. */
typedef struct yki_dnn_primitive {
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t primitive;
    int count;
    dnnl_exec_arg_t args[YKI_DNN_ARGS]; /* the scratchpad is the last */
    size_t scratch;
} yki_dnn_primitive;

typedef struct yki_dnn_conv_shape {
    dnnl_dims_t strides, dilates, padding; /* the first two; oneDNN counts dilation from 0 */
} yki_dnn_conv_shape;

/*
 * The descriptions. dnnl_unimplemented if oneDNN lacks the algorithm on this processor. `hint` is
 * the forward description that belongs to a backward one.
 */
dnnl_status_t yki_dnn_describe_forward(dnnl_primitive_desc_t *desc, dnnl_engine_t engine,
                                       dnnl_alg_kind_t algorithm, yki_md src, yki_md weights,
                                       yki_md bias, yki_md dst, const yki_dnn_conv_shape *shape);
dnnl_status_t yki_dnn_describe_backward_data(dnnl_primitive_desc_t *desc, dnnl_engine_t engine,
                                             dnnl_alg_kind_t algorithm, yki_md diff_src,
                                             yki_md weights, yki_md diff_dst,
                                             const yki_dnn_conv_shape *shape,
                                             dnnl_primitive_desc_t hint);
dnnl_status_t yki_dnn_describe_backward_weights(dnnl_primitive_desc_t *desc, dnnl_engine_t engine,
                                                dnnl_alg_kind_t algorithm, yki_md src,
                                                yki_md diff_weights, yki_md diff_bias,
                                                yki_md diff_dst, const yki_dnn_conv_shape *shape,
                                                dnnl_primitive_desc_t hint);
dnnl_status_t yki_dnn_describe_matmul(dnnl_primitive_desc_t *desc, dnnl_engine_t engine, yki_md src,
                                      yki_md weights, yki_md bias, yki_md dst);

/* Makes the primitive of primitive->desc, whose arguments are given as (DNNL_ARG_..., md) pairs. */
yk_status yki_dnn_prepare(yki_dnn_primitive *primitive, dnnl_engine_t engine, int count,
                          const int *arguments, const yki_const_md *mds);
/* A reorder from one layout (and dtype) to another. */
yk_status yki_dnn_prepare_reorder(yki_dnn_primitive *primitive, dnnl_engine_t engine,
                                  yki_const_md from, yki_const_md to);
/* Runs it on pointers in the order of its arguments, and waits. */
yk_status yki_dnn_run(const yki_dnn_primitive *primitive, dnnl_stream_t stream,
                      void *const *pointers, void *scratch);
void yki_dnn_destroy(yki_dnn_primitive *primitive);

yki_const_md yki_dnn_query(dnnl_primitive_desc_t desc, dnnl_query_t what);
/* Whether it is oneDNN's reference implementation, one number at a time. */
bool yki_dnn_is_reference(dnnl_primitive_desc_t desc);

/* ---- conv.c, conv/copied.c ------------------------------------------------------------------- */

/* The activations of a convolution's operator: two of x, y and their gradients. */
typedef struct yki_conv_activations {
    yki_operand *first, *second;
} yki_conv_activations;

static inline yki_conv_activations yki_conv_activations_of(yki_kernel_desc *desc)
{
    bool weight = desc->op == &yki_op_conv2d_backward_weight;
    return (yki_conv_activations){&desc->in[0], weight ? &desc->in[1] : &desc->out[0]};
}

/* Whether conv.c would run a convolution's operator by oneDNN's reference implementation. */
bool yki_conv_is_reference(const yki_device *device, const yki_kernel_desc *desc);
/* The same, but of the convolution in f32 where 16 bits are staged through it. */
bool yki_conv_lacks_kernel(const yki_device *device, const yki_kernel_desc *desc);

#endif

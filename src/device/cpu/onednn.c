/* The differences between oneDNN 2.6 and 3.x, and primitives with their memory objects. */
#include "device/cpu/onednn.h"

#include <stdlib.h>
#include <string.h>

yk_status yki_dnn_error(dnnl_status_t status, const char *call)
{
    static const char *const words[] = {"success",
                                        "out of memory",
                                        "invalid arguments",
                                        "unimplemented",
                                        "last implementation reached",
                                        "runtime error",
                                        "not required"};
    size_t index = (size_t)status;
    yk_status mapped = status == dnnl_out_of_memory   ? YK_ERROR_OUT_OF_MEMORY
                       : status == dnnl_unimplemented ? YK_ERROR_UNSUPPORTED
                                                      : YK_ERROR_INTERNAL;
    return yki_error(mapped, "oneDNN: %s in %.*s",
                     index < sizeof words / sizeof *words ? words[index] : "unknown error",
                     (int)strcspn(call, "("), call);
}

/* Dimensions in an array of the length that oneDNN's prototypes demand. */
typedef struct dims {
    dnnl_dims_t at;
} dims;

static dims full_dims(int ndim, const int64_t *from)
{
    dims full = {{0}};
    memcpy(full.at, from, (size_t)ndim * sizeof *from);
    return full;
}

static dnnl_data_type_t data_type(yk_dtype dtype)
{
    switch (dtype) {
    case YK_F32:
        return dnnl_f32;
    case YK_BF16:
        return dnnl_bf16;
    case YK_F16:
        return dnnl_f16;
    case YK_I32:
        return dnnl_s32;
    case YK_U8:
        return dnnl_u8;
    default:
        return dnnl_data_type_undef;
    }
}

/* ---- what differs between the versions ------------------------------------------------------- */

#if DNNL_VERSION_MAJOR >= 3

yk_status yki_md_with_tag(yki_md *md, int ndim, const int64_t *shape, yk_dtype dtype,
                          dnnl_format_tag_t tag)
{
    YKI_DNN(dnnl_memory_desc_create_with_tag(md, ndim, full_dims(ndim, shape).at, data_type(dtype),
                                             tag));
    return YK_OK;
}

yk_status yki_md_with_strides(yki_md *md, int ndim, const int64_t *shape, yk_dtype dtype,
                              const int64_t *strides)
{
    YKI_DNN(dnnl_memory_desc_create_with_strides(md, ndim, full_dims(ndim, shape).at,
                                                 data_type(dtype), full_dims(ndim, strides).at));
    return YK_OK;
}

void yki_md_destroy(yki_md md)
{
    if (md)
        dnnl_memory_desc_destroy(md);
}

/* Scratchpads come from the plan's arena. */
static dnnl_primitive_attr_t user_scratchpad(void)
{
    dnnl_primitive_attr_t attr = NULL;
    if (dnnl_primitive_attr_create(&attr) == dnnl_success)
        dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    return attr;
}

dnnl_status_t yki_dnn_describe_forward(dnnl_primitive_desc_t *desc, dnnl_engine_t engine,
                                       dnnl_alg_kind_t algorithm, yki_md src, yki_md weights,
                                       yki_md bias, yki_md dst, const yki_dnn_conv_shape *shape)
{
    dnnl_primitive_attr_t attr = user_scratchpad();
    dnnl_status_t status = dnnl_convolution_forward_primitive_desc_create(
        desc, engine, dnnl_forward_training, algorithm, src, weights, bias, dst, shape->strides,
        shape->dilates, shape->padding, shape->padding, attr);
    dnnl_primitive_attr_destroy(attr);
    return status;
}

dnnl_status_t yki_dnn_describe_backward_data(dnnl_primitive_desc_t *desc, dnnl_engine_t engine,
                                             dnnl_alg_kind_t algorithm, yki_md diff_src,
                                             yki_md weights, yki_md diff_dst,
                                             const yki_dnn_conv_shape *shape,
                                             dnnl_primitive_desc_t hint)
{
    dnnl_primitive_attr_t attr = user_scratchpad();
    dnnl_status_t status = dnnl_convolution_backward_data_primitive_desc_create(
        desc, engine, algorithm, diff_src, weights, diff_dst, shape->strides, shape->dilates,
        shape->padding, shape->padding, hint, attr);
    dnnl_primitive_attr_destroy(attr);
    return status;
}

dnnl_status_t yki_dnn_describe_backward_weights(dnnl_primitive_desc_t *desc, dnnl_engine_t engine,
                                                dnnl_alg_kind_t algorithm, yki_md src,
                                                yki_md diff_weights, yki_md diff_bias,
                                                yki_md diff_dst, const yki_dnn_conv_shape *shape,
                                                dnnl_primitive_desc_t hint)
{
    dnnl_primitive_attr_t attr = user_scratchpad();
    dnnl_status_t status = dnnl_convolution_backward_weights_primitive_desc_create(
        desc, engine, algorithm, src, diff_weights, diff_bias, diff_dst, shape->strides,
        shape->dilates, shape->padding, shape->padding, hint, attr);
    dnnl_primitive_attr_destroy(attr);
    return status;
}

dnnl_status_t yki_dnn_describe_matmul(dnnl_primitive_desc_t *desc, dnnl_engine_t engine, yki_md src,
                                      yki_md weights, yki_md bias, yki_md dst)
{
    dnnl_primitive_attr_t attr = user_scratchpad();
    dnnl_status_t status =
        dnnl_matmul_primitive_desc_create(desc, engine, src, weights, bias, dst, attr);
    dnnl_primitive_attr_destroy(attr);
    return status;
}

#else

static yk_status on_heap(yki_md *md, const dnnl_memory_desc_t *value)
{
    *md = malloc(sizeof **md);
    if (!*md)
        return yki_error_memory(sizeof **md, "a memory descriptor");
    **md = *value;
    return YK_OK;
}

yk_status yki_md_with_tag(yki_md *md, int ndim, const int64_t *shape, yk_dtype dtype,
                          dnnl_format_tag_t tag)
{
    dnnl_memory_desc_t value;
    YKI_DNN(dnnl_memory_desc_init_by_tag(&value, ndim, full_dims(ndim, shape).at, data_type(dtype),
                                         tag));
    return on_heap(md, &value);
}

yk_status yki_md_with_strides(yki_md *md, int ndim, const int64_t *shape, yk_dtype dtype,
                              const int64_t *strides)
{
    dnnl_memory_desc_t value;
    YKI_DNN(dnnl_memory_desc_init_by_strides(&value, ndim, full_dims(ndim, shape).at,
                                             data_type(dtype), full_dims(ndim, strides).at));
    return on_heap(md, &value);
}

void yki_md_destroy(yki_md md)
{
    free(md);
}

/* The description of an operation, with scratchpads from the plan's arena. */
static dnnl_status_t describe(dnnl_primitive_desc_t *desc, dnnl_engine_t engine,
                              const_dnnl_op_desc_t operation, dnnl_primitive_desc_t hint)
{
    dnnl_primitive_attr_t attr;
    dnnl_status_t status = dnnl_primitive_attr_create(&attr);
    if (status != dnnl_success)
        return status;
    dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    status = dnnl_primitive_desc_create(desc, operation, attr, engine, hint);
    dnnl_primitive_attr_destroy(attr);
    return status;
}

dnnl_status_t yki_dnn_describe_forward(dnnl_primitive_desc_t *desc, dnnl_engine_t engine,
                                       dnnl_alg_kind_t algorithm, yki_md src, yki_md weights,
                                       yki_md bias, yki_md dst, const yki_dnn_conv_shape *shape)
{
    dnnl_convolution_desc_t operation;
    dnnl_status_t status = dnnl_dilated_convolution_forward_desc_init(
        &operation, dnnl_forward_training, algorithm, src, weights, bias, dst, shape->strides,
        shape->dilates, shape->padding, shape->padding);
    return status == dnnl_success ? describe(desc, engine, &operation, NULL) : status;
}

dnnl_status_t yki_dnn_describe_backward_data(dnnl_primitive_desc_t *desc, dnnl_engine_t engine,
                                             dnnl_alg_kind_t algorithm, yki_md diff_src,
                                             yki_md weights, yki_md diff_dst,
                                             const yki_dnn_conv_shape *shape,
                                             dnnl_primitive_desc_t hint)
{
    dnnl_convolution_desc_t operation;
    dnnl_status_t status = dnnl_dilated_convolution_backward_data_desc_init(
        &operation, algorithm, diff_src, weights, diff_dst, shape->strides, shape->dilates,
        shape->padding, shape->padding);
    return status == dnnl_success ? describe(desc, engine, &operation, hint) : status;
}

dnnl_status_t yki_dnn_describe_backward_weights(dnnl_primitive_desc_t *desc, dnnl_engine_t engine,
                                                dnnl_alg_kind_t algorithm, yki_md src,
                                                yki_md diff_weights, yki_md diff_bias,
                                                yki_md diff_dst, const yki_dnn_conv_shape *shape,
                                                dnnl_primitive_desc_t hint)
{
    dnnl_convolution_desc_t operation;
    dnnl_status_t status = dnnl_dilated_convolution_backward_weights_desc_init(
        &operation, algorithm, src, diff_weights, diff_bias, diff_dst, shape->strides,
        shape->dilates, shape->padding, shape->padding);
    return status == dnnl_success ? describe(desc, engine, &operation, hint) : status;
}

dnnl_status_t yki_dnn_describe_matmul(dnnl_primitive_desc_t *desc, dnnl_engine_t engine, yki_md src,
                                      yki_md weights, yki_md bias, yki_md dst)
{
    dnnl_matmul_desc_t operation;
    dnnl_status_t status = dnnl_matmul_desc_init(&operation, src, weights, bias, dst);
    return status == dnnl_success ? describe(desc, engine, &operation, NULL) : status;
}

#endif

/* ---- what is the same in both ---------------------------------------------------------------- */

yk_status yki_md_of(yki_md *md, const yki_device *device, const yki_operand *operand)
{
    static const dnnl_format_tag_t plain[] = {dnnl_format_tag_undef, dnnl_a, dnnl_ab, dnnl_abc,
                                              dnnl_abcd};
    dnnl_format_tag_t tag = plain[operand->ndim];
    if (operand->layout == YKI_BLOCKED)
        tag = device->block == 16 ? dnnl_nChw16c : device->block == 8 ? dnnl_nChw8c : dnnl_nChw4c;
    return yki_md_with_tag(md, operand->ndim, operand->dims, operand->dtype, tag);
}

size_t yki_md_size(yki_const_md md)
{
    return dnnl_memory_desc_get_size(md);
}

bool yki_md_equal(yki_const_md a, yki_const_md b)
{
    return dnnl_memory_desc_equal(a, b);
}

yki_const_md yki_dnn_query(dnnl_primitive_desc_t desc, dnnl_query_t what)
{
    return dnnl_primitive_desc_query_md(desc, what, 0);
}

bool yki_dnn_is_reference(dnnl_primitive_desc_t desc)
{
    const char *name = NULL;
    return dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name) == dnnl_success &&
           name && strncmp(name, "ref", 3) == 0;
}

static yk_status add_argument(yki_dnn_primitive *p, dnnl_engine_t engine, int argument,
                              yki_const_md md)
{
    dnnl_exec_arg_t *slot = &p->args[p->count];
    YKI_DNN(dnnl_memory_create(&slot->memory, md, engine, DNNL_MEMORY_NONE));
    slot->arg = argument;
    p->count++;
    return YK_OK;
}

yk_status yki_dnn_prepare(yki_dnn_primitive *p, dnnl_engine_t engine, int count,
                          const int *arguments, const yki_const_md *mds)
{
    YKI_DNN(dnnl_primitive_create(&p->primitive, p->desc));
    for (int i = 0; i < count; i++)
        YK_TRY(add_argument(p, engine, arguments[i], mds[i]));
    yki_const_md scratchpad = yki_dnn_query(p->desc, dnnl_query_scratchpad_md);
    p->scratch = yki_md_size(scratchpad);
    return add_argument(p, engine, DNNL_ARG_SCRATCHPAD, scratchpad);
}

yk_status yki_dnn_prepare_reorder(yki_dnn_primitive *p, dnnl_engine_t engine, yki_const_md from,
                                  yki_const_md to)
{
    dnnl_primitive_attr_t attr;
    YKI_DNN(dnnl_primitive_attr_create(&attr));
    dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    dnnl_status_t status =
        dnnl_reorder_primitive_desc_create(&p->desc, from, engine, to, engine, attr);
    dnnl_primitive_attr_destroy(attr);
    YKI_DNN(status);
    return yki_dnn_prepare(p, engine, 2, (int[]){DNNL_ARG_FROM, DNNL_ARG_TO},
                           (yki_const_md[]){from, to});
}

yk_status yki_dnn_run(const yki_dnn_primitive *p, dnnl_stream_t stream, void *const *pointers,
                      void *scratch)
{
    for (int i = 0; i < p->count; i++)
        YKI_DNN(dnnl_memory_set_data_handle(p->args[i].memory,
                                            i < p->count - 1 ? pointers[i] : scratch));
    YKI_DNN(dnnl_primitive_execute(p->primitive, stream, p->count, p->args));
    YKI_DNN(dnnl_stream_wait(stream));
    return YK_OK;
}

void yki_dnn_destroy(yki_dnn_primitive *p)
{
    for (int i = 0; i < p->count; i++)
        dnnl_memory_destroy(p->args[i].memory);
    if (p->primitive)
        dnnl_primitive_destroy(p->primitive);
    if (p->desc)
        dnnl_primitive_desc_destroy(p->desc);
    *p = (yki_dnn_primitive){0};
}

/* See cudnn_conv.h. */
#include "libraries/cudnn_conv.h"

#include <stdio.h>

#include "base/text.h"
#include "device/memory.h"

/* The tensors of a graph. */
enum { X = 1, W, Y, BIAS, SUM, SQUARES, FULL };

static int data_type(yk_dtype dtype)
{
    switch (dtype) {
    case YK_F64:
        return CUDNN_DATA_DOUBLE;
    case YK_F16:
        return CUDNN_DATA_HALF;
    case YK_BF16:
        return CUDNN_DATA_BFLOAT16;
    default:
        return CUDNN_DATA_FLOAT;
    }
}

/* Of sums, biases and gradients of weights. */
static int full_type(const yki_cudnn_conv *conv)
{
    return conv->dtype == YK_F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
}

/* A virtual tensor has no memory: one operation gives it to the next. */
static cudnn_descriptor tensor(yki_cudnn_graph *graph, int64_t id, int type, const int64_t dims[4],
                               bool virtual)
{
    const int64_t strides[4] = {dims[1] * dims[2] * dims[3], 1, dims[1] * dims[3], dims[1]};
    const int64_t alignment = YKI_OPERAND_ALIGNMENT;
    cudnn_descriptor made = yki_cudnn_create(graph, CUDNN_TENSOR);
    yki_cudnn_set(graph, made, CUDNN_TENSOR_ID, CUDNN_TYPE_INT64, 1, &id);
    yki_cudnn_set(graph, made, CUDNN_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    yki_cudnn_set(graph, made, CUDNN_TENSOR_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    yki_cudnn_set(graph, made, CUDNN_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims);
    yki_cudnn_set(graph, made, CUDNN_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
    yki_cudnn_set(graph, made, CUDNN_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &virtual);
    yki_cudnn_finalize(graph, made);
    return made;
}

static cudnn_descriptor convolution(yki_cudnn_graph *graph, const yki_cudnn_conv *conv)
{
    const int mode = CUDNN_CROSS_CORRELATION, math = full_type(conv);
    const int64_t dims = 2;
    cudnn_descriptor made = yki_cudnn_create(graph, CUDNN_CONVOLUTION);
    yki_cudnn_set(graph, made, CUDNN_CONVOLUTION_MATH, CUDNN_TYPE_DATA_TYPE, 1, &math);
    yki_cudnn_set(graph, made, CUDNN_CONVOLUTION_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    yki_cudnn_set(graph, made, CUDNN_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &dims);
    yki_cudnn_set(graph, made, CUDNN_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, conv->padding);
    yki_cudnn_set(graph, made, CUDNN_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, conv->padding);
    yki_cudnn_set(graph, made, CUDNN_CONVOLUTION_STRIDES, CUDNN_TYPE_INT64, 2, conv->stride);
    yki_cudnn_set(graph, made, CUDNN_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, conv->dilation);
    yki_cudnn_finalize(graph, made);
    return made;
}

/* One operation: its type, and its attributes x, w, y, convolution, alpha, beta. */
static void append_convolution(yki_cudnn_graph *graph, const yki_cudnn_conv *conv,
                               const cudnn_descriptor operands[3])
{
    static const struct {
        int type, operands[3], convolution, alpha, beta;
    } kinds[] = {
        [YKI_CUDNN_FORWARD] = {CUDNN_OPERATION_FORWARD,
                               {CUDNN_FORWARD_X, CUDNN_FORWARD_W, CUDNN_FORWARD_Y},
                               CUDNN_FORWARD_CONVOLUTION,
                               CUDNN_FORWARD_ALPHA,
                               CUDNN_FORWARD_BETA},
        [YKI_CUDNN_BACKWARD_DATA] = {CUDNN_OPERATION_BACKWARD_DATA,
                                     {CUDNN_BACKWARD_DATA_DX, CUDNN_BACKWARD_DATA_W,
                                      CUDNN_BACKWARD_DATA_DY},
                                     CUDNN_BACKWARD_DATA_CONVOLUTION,
                                     CUDNN_BACKWARD_DATA_ALPHA,
                                     CUDNN_BACKWARD_DATA_BETA},
        [YKI_CUDNN_BACKWARD_WEIGHT] = {CUDNN_OPERATION_BACKWARD_FILTER,
                                       {CUDNN_BACKWARD_FILTER_X, CUDNN_BACKWARD_FILTER_DW,
                                        CUDNN_BACKWARD_FILTER_DY},
                                       CUDNN_BACKWARD_FILTER_CONVOLUTION,
                                       CUDNN_BACKWARD_FILTER_ALPHA,
                                       CUDNN_BACKWARD_FILTER_BETA},
    };
    static const double factors[] = {1, 0};
    static const float factors_f32[] = {1, 0};
    bool wide = conv->dtype == YK_F64;
    int type = wide ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT, kind = (int)conv->direction;
    cudnn_descriptor geometry = convolution(graph, conv);
    cudnn_descriptor made = yki_cudnn_create(graph, kinds[kind].type);
    for (int i = 0; i < 3; i++)
        yki_cudnn_set_descriptor(graph, made, kinds[kind].operands[i], operands[i]);
    yki_cudnn_set_descriptor(graph, made, kinds[kind].convolution, geometry);
    yki_cudnn_set(graph, made, kinds[kind].alpha, type, 1,
                  wide ? (const void *)&factors[0] : &factors_f32[0]);
    yki_cudnn_set(graph, made, kinds[kind].beta, type, 1,
                  wide ? (const void *)&factors[1] : &factors_f32[1]);
    yki_cudnn_append(graph, made);
}

/* y = x or y = x + b */
static void append_pointwise(yki_cudnn_graph *graph, const yki_cudnn_conv *conv, int mode,
                             cudnn_descriptor x, cudnn_descriptor b, cudnn_descriptor y)
{
    const int math = full_type(conv);
    cudnn_descriptor rule = yki_cudnn_create(graph, CUDNN_POINTWISE);
    yki_cudnn_set(graph, rule, CUDNN_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    yki_cudnn_set(graph, rule, CUDNN_POINTWISE_MATH, CUDNN_TYPE_DATA_TYPE, 1, &math);
    yki_cudnn_finalize(graph, rule);
    cudnn_descriptor made = yki_cudnn_create(graph, CUDNN_OPERATION_POINTWISE);
    yki_cudnn_set_descriptor(graph, made, CUDNN_OPERATION_POINTWISE_DESCRIPTOR, rule);
    yki_cudnn_set_descriptor(graph, made, CUDNN_OPERATION_POINTWISE_X, x);
    if (b)
        yki_cudnn_set_descriptor(graph, made, CUDNN_OPERATION_POINTWISE_B, b);
    yki_cudnn_set_descriptor(graph, made, CUDNN_OPERATION_POINTWISE_Y, y);
    yki_cudnn_append(graph, made);
}

/* The sum and the sum of squares of each channel of y. */
static void append_statistics(yki_cudnn_graph *graph, const yki_cudnn_conv *conv,
                              cudnn_descriptor y)
{
    const int mode = CUDNN_SUM_AND_SQUARES, math = full_type(conv);
    const int64_t vector[] = {1, conv->y[1], 1, 1};
    cudnn_descriptor made = yki_cudnn_create(graph, CUDNN_OPERATION_STATISTICS);
    yki_cudnn_set(graph, made, CUDNN_STATISTICS_MODE, CUDNN_TYPE_STATISTICS_MODE, 1, &mode);
    yki_cudnn_set(graph, made, CUDNN_STATISTICS_MATH, CUDNN_TYPE_DATA_TYPE, 1, &math);
    yki_cudnn_set_descriptor(graph, made, CUDNN_STATISTICS_X, y);
    yki_cudnn_set_descriptor(graph, made, CUDNN_STATISTICS_SUM,
                             tensor(graph, SUM, math, vector, false));
    yki_cudnn_set_descriptor(graph, made, CUDNN_STATISTICS_SQUARES,
                             tensor(graph, SQUARES, math, vector, false));
    yki_cudnn_append(graph, made);
}

static bool is_biased(const yki_cudnn_conv *conv)
{
    return conv->bias && conv->direction == YKI_CUDNN_FORWARD;
}

/* In 16 bits, the engines give the gradient of a weight in the type of x; one that is followed by
 * an identity gives it in f32. */
static bool is_widened(const yki_cudnn_conv *conv)
{
    return conv->direction == YKI_CUDNN_BACKWARD_WEIGHT && !conv->narrow &&
           data_type(conv->dtype) != full_type(conv);
}

/* With what follows it where it is not rounded yet: a bias is added before y is. */
static void append_to_y(yki_cudnn_graph *graph, const yki_cudnn_conv *conv, cudnn_descriptor x,
                        cudnn_descriptor w, cudnn_descriptor y)
{
    int full = full_type(conv);
    const int64_t vector[] = {1, conv->y[1], 1, 1};
    if (is_widened(conv)) {
        cudnn_descriptor dw = tensor(graph, FULL, full, conv->w, true);
        append_convolution(graph, conv, (cudnn_descriptor[]){x, dw, y});
        append_pointwise(graph, conv, CUDNN_POINTWISE_IDENTITY, dw, NULL, w);
    } else if (is_biased(conv)) {
        cudnn_descriptor before = tensor(graph, FULL, full, conv->y, true);
        append_convolution(graph, conv, (cudnn_descriptor[]){x, w, before});
        append_pointwise(graph, conv, CUDNN_POINTWISE_ADD, before,
                         tensor(graph, BIAS, full, vector, false), y);
    } else {
        append_convolution(graph, conv, (cudnn_descriptor[]){x, w, y});
    }
}

yk_status yki_cudnn_conv_graph(yki_cudnn_graph *graph, const yki_cudnn *cudnn,
                               const yki_cudnn_conv *conv)
{
    yki_cudnn_graph_init(graph, cudnn);
    graph->is_f32 = conv->dtype == YK_F32;
    int type = data_type(conv->dtype);
    cudnn_descriptor x = tensor(graph, X, type, conv->x, false);
    cudnn_descriptor w =
        tensor(graph, W, is_widened(conv) ? full_type(conv) : type, conv->w, false);
    cudnn_descriptor y = tensor(graph, Y, type, conv->y, false);
    append_to_y(graph, conv, x, w, y);
    if (conv->sums)
        append_statistics(graph, conv, y);
    return yki_cudnn_graph_finish(graph);
}

yk_status yki_cudnn_conv_execute(const yki_cudnn *cudnn, const yki_cudnn_plan *plan,
                                 const yki_cudnn_conv *conv, const yki_cudnn_conv_memory *memory,
                                 void *stream)
{
    int64_t ids[FULL] = {X, W, Y};
    void *pointers[FULL] = {memory->x, memory->w, memory->y};
    int count = 3;
    if (is_biased(conv)) {
        ids[count] = BIAS;
        pointers[count++] = memory->bias;
    }
    if (conv->sums) {
        ids[count] = SUM;
        pointers[count++] = memory->sum;
        ids[count] = SQUARES;
        pointers[count++] = memory->squares;
    }
    return yki_cudnn_execute(cudnn, plan, count, ids, pointers,
                             plan->workspace ? memory->workspace : NULL, stream);
}

void yki_cudnn_conv_text(const yki_cudnn_conv *conv, char text[YKI_CUDNN_CONV_TEXT])
{
    static const char *const names[] = {"conv2d", "conv2d_backward_data", "conv2d_backward_weight"};
    const int64_t *x = conv->x, *w = conv->w;
    char stride[YKI_PAIR_TEXT], padding[YKI_PAIR_TEXT], dilation[YKI_PAIR_TEXT];
    snprintf(text, YKI_CUDNN_CONV_TEXT,
             "%s%s%s%s %s x %lld,%lld,%lld,%lld w %lld,%lld,%lld,%lld stride %s padding %s "
             "dilation %s",
             names[conv->direction], conv->bias ? "+bias" : "", conv->narrow ? "+narrow" : "",
             conv->sums ? "+sums" : "", yk_dtype_name(conv->dtype), (long long)x[0],
             (long long)x[1], (long long)x[2], (long long)x[3], (long long)w[0], (long long)w[1],
             (long long)w[2], (long long)w[3], yki_pair_text(conv->stride, stride),
             yki_pair_text(conv->padding, padding), yki_pair_text(conv->dilation, dilation));
}

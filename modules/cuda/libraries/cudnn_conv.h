/*
 * Convolutions and their gradients as graphs of cuDNN. Tensors have their channels last; in memory
 * a filter is (R, S, C / groups).
 */
#ifndef YKI_CUDNN_CONV_H
#define YKI_CUDNN_CONV_H

#include "libraries/cudnn.h"

typedef enum yki_cudnn_direction {
    YKI_CUDNN_FORWARD,
    YKI_CUDNN_BACKWARD_DATA,
    YKI_CUDNN_BACKWARD_WEIGHT
} yki_cudnn_direction;

typedef struct yki_cudnn_conv {
    yki_cudnn_direction direction;
    yk_dtype dtype; /* the gradient of a weight and a bias are f32 where this has 16 bits */
    bool bias;      /* of the forward direction: added to y */
    bool narrow;    /* the gradient of the weight has this dtype, too */
    bool sums;      /* of the forward direction: y's channels are summed, in f32 */
    int64_t x[4];   /* N, C, H, W */
    int64_t w[4];   /* K, C / groups, R, S */
    int64_t y[4];   /* N, K, P, Q */
    int64_t stride[2], padding[2], dilation[2]; /* of rows, and of columns */
} yki_cudnn_conv;

/* Where the tensors are, or their gradients. What a convolution does not have is not looked at. */
typedef struct yki_cudnn_conv_memory {
    void *x, *w, *y, *bias;
    void *sum, *squares; /* (K): of each channel of y, and of its squares */
    void *workspace;
} yki_cudnn_conv_memory;

/* yki_cudnn_graph_fini() is needed after a failure too. */
yk_status yki_cudnn_conv_graph(yki_cudnn_graph *graph, const yki_cudnn *cudnn,
                               const yki_cudnn_conv *conv);

/* Enters a plan of the convolution's graph in a stream of the driver. */
yk_status yki_cudnn_conv_execute(const yki_cudnn *cudnn, const yki_cudnn_plan *plan,
                                 const yki_cudnn_conv *conv, const yki_cudnn_conv_memory *memory,
                                 void *stream);

/* "conv2d bf16 x 256,64,56,56 w 64,64,3,3 stride 1 padding 1 dilation 1": all that a plan depends
 * on. */
enum { YKI_CUDNN_CONV_TEXT = 256 };
void yki_cudnn_conv_text(const yki_cudnn_conv *conv, char text[YKI_CUDNN_CONV_TEXT]);

#endif

/*
 * What is used of cuDNN's graph API (its "backend" functions), with the numbers of cudnn_graph.h.
 * A status is 0, or what went wrong.
 */
#ifndef YKI_CUDNN_CALLS_H
#define YKI_CUDNN_CALLS_H

#include <stddef.h>
#include <stdint.h>

typedef void *cudnn_descriptor;

typedef struct yki_cudnn_calls {
    size_t (*get_version)(void);
    const char *(*get_error_string)(int status);
    void (*get_last_error)(char *message, size_t size);
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*set_stream)(void *handle, void *stream);
    int (*create_descriptor)(int type, cudnn_descriptor *descriptor);
    int (*destroy_descriptor)(cudnn_descriptor descriptor);
    int (*finalize)(cudnn_descriptor descriptor);
    int (*set_attribute)(cudnn_descriptor descriptor, int name, int type, int64_t count,
                         const void *values);
    int (*get_attribute)(cudnn_descriptor descriptor, int name, int type, int64_t room,
                         int64_t *count, void *values);
    int (*execute)(void *handle, cudnn_descriptor plan, cudnn_descriptor pack);
} yki_cudnn_calls;

/* Of the table, in its order. */
#define CUDNN_SYMBOLS                                                                              \
    "cudnnGetVersion", "cudnnGetErrorString", "cudnnGetLastErrorString", "cudnnCreate",            \
        "cudnnDestroy", "cudnnSetStream", "cudnnBackendCreateDescriptor",                          \
        "cudnnBackendDestroyDescriptor", "cudnnBackendFinalize", "cudnnBackendSetAttribute",       \
        "cudnnBackendGetAttribute", "cudnnBackendExecute", NULL

/* Types of descriptors. */
enum {
    CUDNN_POINTWISE = 0,
    CUDNN_CONVOLUTION = 1,
    CUDNN_ENGINE = 2,
    CUDNN_ENGINE_CONFIG = 3,
    CUDNN_HEURISTICS = 4,
    CUDNN_PLAN = 5,
    CUDNN_OPERATION_FORWARD = 10,
    CUDNN_OPERATION_BACKWARD_FILTER = 11,
    CUDNN_OPERATION_BACKWARD_DATA = 12,
    CUDNN_OPERATION_POINTWISE = 13,
    CUDNN_OPERATION_STATISTICS = 14,
    CUDNN_GRAPH = 15,
    CUDNN_VARIANT_PACK = 16,
    CUDNN_TENSOR = 17,
    CUDNN_DEVICE = 38
};

/* Types of attributes. */
enum {
    CUDNN_TYPE_HANDLE = 0,
    CUDNN_TYPE_DATA_TYPE = 1,
    CUDNN_TYPE_BOOLEAN = 2,
    CUDNN_TYPE_INT64 = 3,
    CUDNN_TYPE_FLOAT = 4,
    CUDNN_TYPE_DOUBLE = 5,
    CUDNN_TYPE_VOID_PTR = 6,
    CUDNN_TYPE_CONVOLUTION_MODE = 7,
    CUDNN_TYPE_HEUR_MODE = 8,
    CUDNN_TYPE_NUMERICAL_NOTE = 11,
    CUDNN_TYPE_POINTWISE_MODE = 14,
    CUDNN_TYPE_DESCRIPTOR = 15,
    CUDNN_TYPE_STATISTICS_MODE = 16,
    CUDNN_TYPE_BEHAVIOR_NOTE = 19,
    CUDNN_TYPE_CHAR = 24
};

/* Attributes. */
enum {
    CUDNN_POINTWISE_MODE = 0,
    CUDNN_POINTWISE_MATH = 1,
    CUDNN_CONVOLUTION_MATH = 100,
    CUDNN_CONVOLUTION_MODE = 101,
    CUDNN_CONVOLUTION_DILATIONS = 102,
    CUDNN_CONVOLUTION_STRIDES = 103,
    CUDNN_CONVOLUTION_POST_PADDINGS = 104,
    CUDNN_CONVOLUTION_PRE_PADDINGS = 105,
    CUDNN_CONVOLUTION_SPATIAL_DIMS = 106,
    CUDNN_HEURISTICS_MODE = 200,
    CUDNN_HEURISTICS_GRAPH = 201,
    CUDNN_HEURISTICS_RESULTS = 202,
    CUDNN_HEURISTICS_DEVICE = 204,
    CUDNN_CONFIG_ENGINE = 300,
    CUDNN_PLAN_HANDLE = 400,
    CUDNN_PLAN_CONFIG = 401,
    CUDNN_PLAN_WORKSPACE = 402,
    CUDNN_PLAN_JSON = 405,
    CUDNN_PLAN_DEVICE = 407,
    CUDNN_FORWARD_ALPHA = 700,
    CUDNN_FORWARD_BETA = 701,
    CUDNN_FORWARD_CONVOLUTION = 702,
    CUDNN_FORWARD_W = 703,
    CUDNN_FORWARD_X = 704,
    CUDNN_FORWARD_Y = 705,
    CUDNN_BACKWARD_DATA_ALPHA = 706,
    CUDNN_BACKWARD_DATA_BETA = 707,
    CUDNN_BACKWARD_DATA_CONVOLUTION = 708,
    CUDNN_BACKWARD_DATA_W = 709,
    CUDNN_BACKWARD_DATA_DX = 710,
    CUDNN_BACKWARD_DATA_DY = 711,
    CUDNN_BACKWARD_FILTER_ALPHA = 712,
    CUDNN_BACKWARD_FILTER_BETA = 713,
    CUDNN_BACKWARD_FILTER_CONVOLUTION = 714,
    CUDNN_BACKWARD_FILTER_DW = 715,
    CUDNN_BACKWARD_FILTER_X = 716,
    CUDNN_BACKWARD_FILTER_DY = 717,
    CUDNN_OPERATION_POINTWISE_DESCRIPTOR = 750,
    CUDNN_OPERATION_POINTWISE_X = 751,
    CUDNN_OPERATION_POINTWISE_B = 752,
    CUDNN_OPERATION_POINTWISE_Y = 753,
    CUDNN_STATISTICS_MODE = 770,
    CUDNN_STATISTICS_MATH = 771,
    CUDNN_STATISTICS_X = 772,
    CUDNN_STATISTICS_SUM = 773,
    CUDNN_STATISTICS_SQUARES = 774,
    CUDNN_GRAPH_HANDLE = 800,
    CUDNN_GRAPH_OPERATIONS = 801,
    CUDNN_TENSOR_ALIGNMENT = 900,
    CUDNN_TENSOR_DATA_TYPE = 901,
    CUDNN_TENSOR_DIMENSIONS = 902,
    CUDNN_TENSOR_STRIDES = 903,
    CUDNN_TENSOR_ID = 906,
    CUDNN_TENSOR_IS_VIRTUAL = 907,
    CUDNN_PACK_IDS = 1000,
    CUDNN_PACK_POINTERS = 1001,
    CUDNN_PACK_WORKSPACE = 1003,
    CUDNN_ENGINE_GLOBAL_INDEX = 1301,
    CUDNN_ENGINE_NUMERICAL_NOTE = 1303,
    CUDNN_ENGINE_BEHAVIOR_NOTE = 1305,
    CUDNN_DEVICE_JSON = 2702
};

/* Values. */
enum {
    CUDNN_DATA_FLOAT = 0,
    CUDNN_DATA_DOUBLE = 1,
    CUDNN_DATA_HALF = 2,
    CUDNN_DATA_BFLOAT16 = 9,
    CUDNN_CROSS_CORRELATION = 1,
    CUDNN_POINTWISE_ADD = 0,
    CUDNN_POINTWISE_IDENTITY = 21,
    CUDNN_SUM_AND_SQUARES = 0,
    CUDNN_HEURISTICS_FALLBACK = 2,
    CUDNN_HEURISTICS_A = 3,
    CUDNN_NOTE_TENSOR_CORE = 0,
    CUDNN_NOTE_DOWN_CONVERT_INPUTS = 1,
    CUDNN_NOTE_REDUCED_PRECISION = 2,
    CUDNN_NOTE_FFT = 3,
    CUDNN_NOTE_NONDETERMINISTIC = 4,
    CUDNN_NOTE_WINOGRAD = 5,
    CUDNN_NOTE_WINOGRAD_LAST = 8, /* 6 to 8 are Winograd's algorithm of certain tiles */
    CUDNN_NOTES = 10,
    CUDNN_BEHAVIOR_RUNTIME_COMPILATION = 0
};

#endif

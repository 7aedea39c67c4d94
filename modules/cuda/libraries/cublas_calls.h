/* What is used of cuBLASLt, with the numbers of cublasLt.h and library_types.h. A status is 0, or
 * what went wrong. */
#ifndef YKI_CUBLAS_CALLS_H
#define YKI_CUBLAS_CALLS_H

#include <stddef.h>
#include <stdint.h>

/* What a multiplication runs with, as the heuristics choose it. */
typedef struct cublas_algorithm {
    uint64_t data[8];
} cublas_algorithm;

typedef struct cublas_choice {
    cublas_algorithm algorithm;
    size_t workspace;
    int state; /* a status */
    float waves;
    int reserved[4];
} cublas_choice;

/* Pointers to void are handles, descriptors (desc), layouts of matrices, and preferences. */
typedef struct yki_cublas_calls {
    size_t (*get_version)(void);
    const char *(*get_status_name)(int status);
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*create_desc)(void **desc, int compute_type, int scale_type);
    int (*destroy_desc)(void *desc);
    int (*set_desc)(void *desc, int attribute, const void *value, size_t bytes);
    int (*create_layout)(void **layout, int type, uint64_t rows, uint64_t columns, int64_t pitch);
    int (*destroy_layout)(void *layout);
    int (*set_layout)(void *layout, int attribute, const void *value, size_t bytes);
    int (*create_preference)(void **preference);
    int (*destroy_preference)(void *preference);
    int (*set_preference)(void *preference, int attribute, const void *value, size_t bytes);
    int (*choose)(void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference,
                  int room, cublas_choice *choices, int *count);
    int (*multiply)(void *handle, void *desc, const void *alpha, const void *a, void *a_layout,
                    const void *b, void *b_layout, const void *beta, const void *c, void *c_layout,
                    void *d, void *d_layout, const cublas_algorithm *algorithm, void *workspace,
                    size_t workspace_bytes, void *stream);
} yki_cublas_calls;

/* Of the table, in its order. */
#define CUBLAS_SYMBOLS                                                                             \
    "cublasLtGetVersion", "cublasLtGetStatusName", "cublasLtCreate", "cublasLtDestroy",            \
        "cublasLtMatmulDescCreate", "cublasLtMatmulDescDestroy", "cublasLtMatmulDescSetAttribute", \
        "cublasLtMatrixLayoutCreate", "cublasLtMatrixLayoutDestroy",                               \
        "cublasLtMatrixLayoutSetAttribute", "cublasLtMatmulPreferenceCreate",                      \
        "cublasLtMatmulPreferenceDestroy", "cublasLtMatmulPreferenceSetAttribute",                 \
        "cublasLtMatmulAlgoGetHeuristic", "cublasLtMatmul", NULL

enum {
    CUBLAS_R_32F = 0,
    CUBLAS_R_64F = 1,
    CUBLAS_R_16F = 2,
    CUBLAS_R_16BF = 14,
    CUBLAS_COMPUTE_32F = 68,
    CUBLAS_COMPUTE_64F = 70,
    CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
    CUBLAS_LAYOUT_BATCH = 5,    /* count, of 32 bits */
    CUBLAS_LAYOUT_DISTANCE = 6, /* in elements, of 64 bits */
    CUBLAS_OP_N = 0,
    CUBLAS_OP_T = 1,
    CUBLAS_DESC_TRANSPOSE_A = 3,
    CUBLAS_DESC_TRANSPOSE_B = 4,
    CUBLAS_DESC_EPILOGUE = 7,
    CUBLAS_DESC_BIAS_POINTER = 8,
    CUBLAS_EPILOGUE_DEFAULT = 1,
    CUBLAS_EPILOGUE_BIAS = 4,
    CUBLAS_PREFERENCE_WORKSPACE = 1,
    CUBLAS_PREFERENCE_ALIGNMENT_A = 5, /* B, C and D follow */
    CUBLAS_PREFERENCE_ALIGNMENT_D = 8
};

#endif

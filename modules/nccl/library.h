/*
 * The part of NCCL's interface that the backend uses, found in libnccl.so.2 when it is first asked
 * for. Its types and functions are declared here, so that yoke is built without NCCL.
 */
#ifndef NCCL_LIBRARY_H
#define NCCL_LIBRARY_H

#include <stddef.h>

#include <yoke/status.h>

enum { NCCL_ID_BYTES = 128, NCCL_OLDEST = 21800 };

typedef enum nccl_result {
    NCCL_SUCCESS = 0,
    NCCL_SYSTEM_ERROR = 2,
    NCCL_INVALID_USAGE = 5,
    NCCL_REMOTE_ERROR = 6,
    NCCL_IN_PROGRESS = 7
} nccl_result;
typedef enum nccl_dtype {
    NCCL_UINT8 = 1,
    NCCL_INT32 = 2,
    NCCL_INT64 = 4,
    NCCL_FLOAT16 = 6,
    NCCL_FLOAT32 = 7,
    NCCL_FLOAT64 = 8,
    NCCL_BFLOAT16 = 9
} nccl_dtype;
typedef enum nccl_op { NCCL_SUM, NCCL_PROD, NCCL_MAX, NCCL_MIN, NCCL_AVG } nccl_op;

typedef struct nccl_id {
    char bytes[NCCL_ID_BYTES];
} nccl_id;
typedef struct nccl_comm nccl_comm;
typedef void *nccl_stream;

/* As of 2.18; later versions have more, and know by `size` and `version` what is not there. Their
 * next member lies where 2.18 has padding, which they read as well. */
typedef struct nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking, cga_cluster_size, min_ctas, max_ctas;
    const char *net_name;
    int split_share, traffic_class;
} nccl_config;

/* X(name without "nccl", arguments): each returns an nccl_result. */
#define NCCL_FUNCTIONS(X)                                                                          \
    X(GetVersion, (int *version))                                                                  \
    X(GetUniqueId, (nccl_id * id))                                                                 \
    X(CommInitRankConfig,                                                                          \
      (nccl_comm * *comm, int ranks, nccl_id id, int rank, nccl_config *config))                   \
    X(CommGetAsyncError, (nccl_comm * comm, nccl_result * error))                                  \
    X(CommFinalize, (nccl_comm * comm))                                                            \
    X(CommDestroy, (nccl_comm * comm))                                                             \
    X(CommAbort, (nccl_comm * comm))                                                               \
    X(AllReduce, (const void *in, void *out, size_t count, nccl_dtype dtype, nccl_op op,           \
                  nccl_comm *comm, nccl_stream stream))                                            \
    X(Reduce, (const void *in, void *out, size_t count, nccl_dtype dtype, nccl_op op, int root,    \
               nccl_comm *comm, nccl_stream stream))                                               \
    X(Broadcast, (const void *in, void *out, size_t count, nccl_dtype dtype, int root,             \
                  nccl_comm *comm, nccl_stream stream))                                            \
    X(AllGather, (const void *in, void *out, size_t count, nccl_dtype dtype, nccl_comm *comm,      \
                  nccl_stream stream))                                                             \
    X(ReduceScatter, (const void *in, void *out, size_t count, nccl_dtype dtype, nccl_op op,       \
                      nccl_comm *comm, nccl_stream stream))                                        \
    X(Send, (const void *in, size_t count, nccl_dtype dtype, int to, nccl_comm *comm,              \
             nccl_stream stream))                                                                  \
    X(Recv,                                                                                        \
      (void *out, size_t count, nccl_dtype dtype, int from, nccl_comm *comm, nccl_stream stream))  \
    X(GroupStart, (void))                                                                          \
    X(GroupEnd, (void))

typedef struct nccl_library {
#define NCCL_POINTER(name, arguments) nccl_result(*name) arguments;
    NCCL_FUNCTIONS(NCCL_POINTER)
#undef NCCL_POINTER
    /* Of 2.19 and newer; otherwise NULL. */
    nccl_result (*MemAlloc)(void **memory, size_t bytes);
    nccl_result (*MemFree)(void *memory);
    const char *(*GetErrorString)(nccl_result result);
    const char *(*GetLastError)(nccl_comm *comm);
    int version;   /* 22809 is 2.28.9 */
    char name[16]; /* "2.28.9" */
} nccl_library;

/* Opens the library, once. YK_ERROR_UNSUPPORTED tells what to install. */
yk_status nccl_open_library(const nccl_library **library);

#endif

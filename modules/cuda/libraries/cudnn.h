/*
 * Plans of cuDNN: a graph of operations on tensors, the engines that cuDNN's heuristics propose for
 * it, and one of them made ready to run.
 *
 * Engines whose results vary from run to run are never used, nor are those that compute with less
 * precision than the operands have; an f32 convolution uses TF32 only if YOKE_CUDA_TF32 is 1.
 */
#ifndef YKI_CUDNN_H
#define YKI_CUDNN_H

#include <stdbool.h>

#include <yoke/tensor.h>

#include "libraries/cudnn_calls.h"
#include "libraries/library.h"

typedef struct yki_cudnn {
    yki_cudnn_calls calls;
    void *handle;               /* of the GPU in whose context it was opened, or NULL ... */
    cudnn_descriptor described; /* ... and a GPU that need not be here */
    size_t version;             /* e.g. 91900 */
    bool tf32, winograd;        /* what engines of f32 may use; FFTs count as Winograd's */
} yki_cudnn;

/* For the GPU whose context is current. */
yk_status yki_cudnn_open(yki_cudnn **cudnn);
/* For a GPU that is described by cuDNN's JSON; its plans can be built and not executed. */
yk_status yki_cudnn_open_described(yki_cudnn **cudnn, const char *json);
void yki_cudnn_close(yki_cudnn *cudnn); /* accepts NULL */
/* Whether the compiler has been found that some engines need: known after cuDNN was asked for one.
 */
bool yki_cudnn_has_compiler(void);
/* "9.19.0" */
void yki_cudnn_version_text(const yki_cudnn *cudnn, char text[16]);

/* ---- graphs: a call after one that failed does nothing; finishing reports the failure -------- */

enum { YKI_CUDNN_DESCRIPTORS = 24, YKI_CUDNN_OPERATIONS = 4 };

typedef struct yki_cudnn_graph {
    const yki_cudnn *cudnn;
    int status;
    char failure[256];
    bool is_f32; /* its operands are: see the top of this file */
    int count, operation_count;
    cudnn_descriptor descriptors[YKI_CUDNN_DESCRIPTORS]; /* all that there are */
    cudnn_descriptor operations[YKI_CUDNN_OPERATIONS], whole;
} yki_cudnn_graph;

void yki_cudnn_graph_init(yki_cudnn_graph *graph, const yki_cudnn *cudnn);
void yki_cudnn_graph_fini(yki_cudnn_graph *graph);
cudnn_descriptor yki_cudnn_create(yki_cudnn_graph *graph, int type);
void yki_cudnn_set(yki_cudnn_graph *graph, cudnn_descriptor descriptor, int name, int type,
                   int64_t count, const void *values);
void yki_cudnn_set_descriptor(yki_cudnn_graph *graph, cudnn_descriptor descriptor, int name,
                              cudnn_descriptor value);
void yki_cudnn_finalize(yki_cudnn_graph *graph, cudnn_descriptor descriptor);
/* Finalizes an operation and appends it. */
void yki_cudnn_append(yki_cudnn_graph *graph, cudnn_descriptor operation);
yk_status yki_cudnn_graph_finish(yki_cudnn_graph *graph);

/* ---- plans ----------------------------------------------------------------------------------- */

enum { YKI_CUDNN_PROPOSALS = 64 };

/* What the heuristics propose for a graph and may be used, best first. */
typedef struct yki_cudnn_proposals {
    const yki_cudnn *cudnn;
    int count;
    struct {
        cudnn_descriptor config;
        int engine;
        bool compiled; /* making a plan of it takes a compiler, and seconds */
    } list[YKI_CUDNN_PROPOSALS];
} yki_cudnn_proposals;

typedef struct yki_cudnn_plan {
    cudnn_descriptor descriptor; /* NULL: there is no plan */
    cudnn_descriptor config;     /* what it was made of, or NULL */
    size_t workspace;
    double microseconds; /* a run took when it was chosen; 0: not measured */
} yki_cudnn_plan;

void yki_cudnn_propose(const yki_cudnn_graph *graph, yki_cudnn_proposals *proposals);
void yki_cudnn_proposals_fini(yki_cudnn_proposals *proposals);
/* Whether there is a plan of the proposal with no more workspace than this. The plan keeps the
 * proposal, from which no other can be made. */
bool yki_cudnn_plan_make(yki_cudnn_proposals *proposals, int proposal, size_t most_workspace,
                         yki_cudnn_plan *plan);
void yki_cudnn_plan_fini(const yki_cudnn *cudnn, yki_cudnn_plan *plan);

/* A plan as text, from which the same version makes the same plan for the same GPU. The caller
 * frees it; NULL if there is none. */
char *yki_cudnn_plan_save(const yki_cudnn *cudnn, const yki_cudnn_plan *plan);
bool yki_cudnn_plan_load(const yki_cudnn *cudnn, const char *text, yki_cudnn_plan *plan);

/* Enters the plan in a stream of the driver. ids are those of the tensors at the pointers. */
yk_status yki_cudnn_execute(const yki_cudnn *cudnn, const yki_cudnn_plan *plan, int count,
                            const int64_t *ids, void *const *pointers, void *workspace,
                            void *stream);

#endif

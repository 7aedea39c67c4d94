/* What the files of the fake driver share. */
#ifndef YK_FAKE_DRIVER_INTERNAL_H
#define YK_FAKE_DRIVER_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "device/sim/stream.h"
#include "gpu/driver.h"

enum {
    CU_INVALID_VALUE = 1,
    CU_INVALID_CONTEXT = 201,
    CU_INVALID_HANDLE = 400,
    CU_ILLEGAL_ADDRESS = 700,
    CU_LAUNCH_FAILED = 719,
    CU_CAPTURE_UNSUPPORTED = 900,
    CU_CAPTURE_INVALID = 901
};
enum { FAKE_GPUS = 8 };

struct CUctx_st {
    int gpu;
};

struct CUstream_st {
    yki_stream *of;
    int gpu;
};

struct CUevent_st {
    yki_event *of;
    int gpu;
    bool is_timed;
};

/* The kernels of the simulator, of which each GPU has its own. */
struct CUmod_st {
    int gpu;
};

struct CUfunc_st {
    const struct yk_sim_kernel *kernel;
    int gpu;
    struct CUfunc_st *next;
};

/* A graph has its recording until it is instantiated. */
struct CUgraph_st {
    yki_recording *recording;
};

/* ---- state.c: what there is, and what has failed -------------------------------------------- */

/* A number in the environment, or what it is otherwise. */
long fake_setting(const char *name, long otherwise);
int fake_gpu_count(void);
/* The simulated device whose streams these are; made by cuInit. */
yki_sim *fake_sim(void);
bool fake_start(void);
/* The GPU of this thread's context, -1 without one. */
int fake_current(void);
void fake_set_current(const struct CUctx_st *context);
/* The first failure of the context, which every later call returns; 0 if there is none. */
int fake_failure(void);
void fake_fail(int result, const char *text);
/* A GPU's function of this name, which lives as long as the program; NULL if there is none. */
yki_cu_function fake_function(int gpu, const char *name);

/* ---- memory.c ------------------------------------------------------------------------------- */

/* Opens the memory of these GPUs, by their bits, to this thread, and that of no other: before work
 * is run, and of none at the end of every call that may have run some. */
void fake_memory_open(unsigned gpus);
enum { FAKE_NO_GPU = 0, FAKE_ALL_GPUS = (1 << FAKE_GPUS) - 1 };
/* The GPU whose memory all of it is, or -1. */
int fake_memory_gpu(uint64_t address, size_t bytes);
/* Whether any of it is a GPU's. */
bool fake_memory_meets(const void *host, size_t bytes);
int fake_memory_alloc(yki_cu_address *address, size_t bytes);
int fake_memory_free(yki_cu_address address);
void fake_memory_info(size_t *available, size_t *total);
int fake_pinned_alloc(void **memory, size_t bytes);
void fake_pinned_free(void *memory);
/* Whether all of it is pinned memory of the host. */
bool fake_pinned_has(const void *host, size_t bytes);

/* For what uses the simulated device itself, as collectives do. */
extern const yki_sim_foreign fake_memory;

/* ---- stream.c ------------------------------------------------------------------------------- */

int fake_copy(void *to, const void *from, size_t bytes, yki_direction direction,
              yki_cu_stream stream);
int fake_fill(yki_cu_address to, unsigned char byte, size_t bytes, yki_cu_stream stream);
int fake_launch(yki_cu_function function, const unsigned grid[3], unsigned threads,
                const void *args, yki_cu_stream stream);
int fake_synchronize(yki_cu_stream stream);

/* Operations of recordings: whether one is a fill, and of what; a launch that is in no stream, or
 * NULL; and the work of one that another takes over. */
bool fake_is_fill(const yki_sim_operation *operation, yki_cu_memset *fill);
yki_sim_operation *fake_new_launch(yki_cu_function function, const unsigned grid[3],
                                   unsigned threads, const void *args);
void fake_move_work(yki_sim_operation *to, const yki_sim_operation *from);

/* ---- graph.c: as the driver's calls of similar names ---------------------------------------- */

int fake_graph_nodes(yki_cu_graph graph, yki_cu_node *nodes, size_t *count);
int fake_graph_before(yki_cu_node node, yki_cu_node *nodes, size_t *count);
int fake_graph_after(yki_cu_node node, yki_cu_node *nodes, size_t *count);
int fake_graph_add(yki_cu_node *node, yki_cu_graph graph, const yki_cu_node *before, size_t count,
                   const yki_cu_kernel_node *parameters);
int fake_graph_join(yki_cu_graph graph, const yki_cu_node *before, const yki_cu_node *after,
                    size_t count);
int fake_graph_destroy_node(yki_cu_node node);

#endif

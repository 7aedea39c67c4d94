/*
 * Runs CUDA kernels on a processor: nvcc's language as far as the kernels of modules/cuda use it.
 * Included in front of a .cu file that g++ compiles.
 *
 * Blocks run one after the other, in an order shuffled from a seed. The threads of a block are
 * fibers: one runs until it must wait for others, at __syncthreads() or in an operation of its
 * warp, and then another one does, in an order that is shuffled every time; warps overtake each
 * other. What lies between two barriers therefore runs in many orders, and a missing barrier gives
 * wrong results. Memory shared by a block is allocated to the byte, so that AddressSanitizer sees
 * its bounds, and begins as NaN.
 *
 * Errors: a barrier or an operation of a warp that some threads do not reach, or that they reach at
 * different places; a matrix for tensor cores that is not aligned.
 */
#ifndef YK_CUDASIM_H
#define YK_CUDASIM_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmath>

using std::erf;
using std::exp;
using std::log;
using std::sqrt;

namespace sim
{

struct index {
    unsigned x, y, z;
};

/* The thread and block that run now; see cudasim.cc. */
extern const index *thread;
extern index block, grid;

struct place {
    const char *file;
    int line;
};

void barrier(place at);
/* Hands a value to the warp, and returns those of all its lanes once they are there. */
const uint64_t *exchange(place at, uint64_t mine);
int lane();
/* Fails the launch unless `holds`. */
void check(place at, bool holds, const char *mistake);
/* The block's memory of this key, the same for all its threads. */
void *shared(const void *key, size_t bytes);

/* A kernel that can be launched by its name. */
struct kernel {
    kernel(const char *name, void (*run)(const void *args), size_t bytes);
    const char *name;
    void (*run)(const void *args);
    size_t bytes;
    kernel *next;
};

template <typename T> T shuffle(place at, T value, int from)
{
    static_assert(sizeof(T) <= sizeof(uint64_t), "values of up to 8 bytes");
    uint64_t word = 0;
    memcpy(&word, &value, sizeof value);
    const uint64_t *all = exchange(at, word);
    memcpy(&value, &all[from & 31], sizeof value);
    return value;
}

static inline unsigned vote(place at, int predicate)
{
    const uint64_t *all = exchange(at, predicate != 0);
    unsigned mask = 0;
    for (int i = 0; i < 32; i++)
        mask |= (unsigned)(all[i] != 0) << i;
    return mask;
}

/* ldmatrix and mma: see matrix.cuh, whose words these are. */

template <typename PAIR>
void load_matrices(place at, const void *row, bool transposed, PAIR (&to)[4])
{
    const uint64_t *all = exchange(at, (uint64_t)(uintptr_t)row);
    for (int i = 0; i < 4; i++) {
        uint16_t found[2];
        for (int j = 0; j < 2; j++) {
            const int major = lane() / 4, minor = lane() % 4 * 2 + j;
            const char *from = (const char *)(uintptr_t)all[i * 8 + (transposed ? minor : major)];
            check(at, (uintptr_t)from % 16 == 0, "a row does not begin at a multiple of 16 bytes");
            memcpy(&found[j], from + 2 * (transposed ? major : minor), sizeof found[j]);
        }
        to[i].bits = found[0] | (uint32_t)found[1] << 16;
    }
}

/* Four lanes have a row of a, or a column of b: the words of each, its columns 0 to 7 in the lower
 * half and 8 to 15 in the upper one. */
struct line {
    uint64_t words[4];
};

static inline line line_of(const uint64_t *all, int number)
{
    line l;
    memcpy(l.words, all + 4 * number, sizeof l.words);
    return l;
}

static inline uint16_t element_of(const line &l, int k)
{
    return (uint16_t)(l.words[k % 8 / 2] >> (k / 8 * 32 + k % 2 * 16));
}

template <typename PAIR, typename WIDEN>
void multiply_add(place at, float (&c)[4], const PAIR (&a)[4], PAIR b0, PAIR b1, WIDEN widen)
{
    const int g = lane() / 4, t = lane() % 4;
    line rows[2], columns[2];
    for (int i = 0; i < 2; i++)
        rows[i] = line_of(exchange(at, a[i].bits | (uint64_t)a[i + 2].bits << 32), g);
    const uint64_t *all = exchange(at, b0.bits | (uint64_t)b1.bits << 32);
    for (int i = 0; i < 2; i++)
        columns[i] = line_of(all, 2 * t + i);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 16; k++)
            c[i] += widen(element_of(rows[i / 2], k)) * widen(element_of(columns[i % 2], k));
}

} // namespace sim

struct __attribute__((may_alias, aligned(4))) uchar4 {
    unsigned char x, y, z, w;
};

struct __attribute__((may_alias, aligned(8))) uint2 {
    unsigned x, y;
};

struct __attribute__((may_alias, aligned(16))) uint4 {
    unsigned x, y, z, w;
};

#define __host__
#define __device__
#define threadIdx (*sim::thread)
#define blockIdx  sim::block
#define gridDim   sim::grid
#define SIM_HERE                                                                                   \
    sim::place                                                                                     \
    {                                                                                              \
        __FILE__, __LINE__                                                                         \
    }

#define __syncthreads()                 sim::barrier(SIM_HERE)
#define __shfl_xor_sync(mask, value, m) sim::shuffle(SIM_HERE, value, sim::lane() ^ (m))
#define __shfl_sync(mask, value, from)  sim::shuffle(SIM_HERE, value, from)
#define __ballot_sync(mask, predicate)  sim::vote(SIM_HERE, predicate)
#define __any_sync(mask, predicate)     (sim::vote(SIM_HERE, predicate) != 0)

/* The place of the lowest bit, from 1; 0 if there is none. */
static inline int __ffs(int bits)
{
    return __builtin_ffs(bits);
}

static inline int __popc(unsigned bits)
{
    return __builtin_popcount(bits);
}

static inline int atomicMax(int *at, int value)
{
    int old = *at;
    *at = value > old ? value : old;
    return old;
}

#define DEVICE static inline
#define KERNEL_OF(blocks, name, args, ...)                                                         \
    static sim::kernel kernel_##name(                                                              \
        #name,                                                                                     \
        [](const void *given) {                                                                    \
            args a;                                                                                \
            memcpy(&a, given, sizeof a);                                                           \
            __VA_ARGS__(a);                                                                        \
        },                                                                                         \
        sizeof(args));
#define SHARED(type, name, count)                                                                  \
    static const char key_##name = 0;                                                              \
    type *name = (type *)sim::shared(&key_##name, sizeof(type) * (count))

#endif

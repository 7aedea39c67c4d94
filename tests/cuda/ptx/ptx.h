/*
 * What translated PTX is made of (translate, instructions.py), beside the simulator. The library of
 * all kernels is loaded before a test program, whose own kernels it replaces.
 */
#ifndef YK_PTX_H
#define YK_PTX_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cfenv>
#include <cmath>
#include <limits>

#include "cudasim.h"
#include "simulator.h"
#include "tensor/bf16.h"
#include "tensor/f16.h"

/* The shell that a test starts has no simulator: it must not load the library, too. */
static const int loaded_once = unsetenv("LD_PRELOAD");

/* The program must have this one, which it finds by its name, or its tests have shown nothing. */
struct kernel : sim::kernel {
    using sim::kernel::kernel;
    ~kernel()
    {
        if (yk_sim_find(name) == (const yk_sim_kernel *)(const sim::kernel *)this)
            return;
        fprintf(stderr, "ptx: the program has run another kernel %s\n", name);
        _exit(1);
    }
};

/* The bits of a value as one of another type. */
template <typename TO, typename FROM> static inline TO bits_as(FROM from)
{
    static_assert(sizeof(TO) == sizeof(FROM), "registers of the same size");
    TO to;
    memcpy(&to, &from, sizeof to);
    return to;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* A block's shared memory, and the addresses that it has in PTX. */
struct window {
    char *memory;
    int64_t begin, end;
};

/* Ends the program: in the simulator, the thread could go on and access memory that is not its
 * own. */
static inline void die(sim::place at, const char *mistake)
{
    fprintf(stderr, "%s:%d: thread %u of block (%u, %u, %u): %s\n", at.file, at.line, threadIdx.x,
            blockIdx.x, blockIdx.y, blockIdx.z, mistake);
    abort();
}

static inline char *aligned(uint64_t address, unsigned bytes, sim::place at)
{
    if (address % bytes != 0)
        die(at, "a misaligned address");
    return (char *)(uintptr_t)address;
}

static inline char *in_shared(const window &shared, int64_t address, unsigned bytes, sim::place at)
{
    if (address < shared.begin || address + bytes > shared.end)
        die(at, "an address outside of shared memory");
    return aligned((uint64_t)(uintptr_t)(shared.memory + (address - shared.begin)), bytes, at);
}

template <typename T> static inline T load(const char *from)
{
    T value;
    memcpy(&value, from, sizeof value);
    return value;
}

template <typename T> static inline void store(char *to, T value)
{
    memcpy(to, &value, sizeof value);
}

/* Two values of 16 bits, as tensor cores have them. */
struct pair {
    uint32_t bits;
};

/* %globaltimer: nanoseconds, which pass from call to call. */
static inline uint64_t global_timer()
{
    static uint64_t now;
    return now += 1000;
}

/* ---- integers -------------------------------------------------------------------------------- */

/* A part of a sum or difference of wide integers: what it carries goes to the next part. */
static inline uint32_t add_parts(uint32_t a, uint32_t b, uint32_t carry, uint32_t *carries)
{
    const uint64_t sum = (uint64_t)a + b + carry;
    *carries = (uint32_t)(sum >> 32);
    return (uint32_t)sum;
}

static inline uint32_t subtract_parts(uint32_t a, uint32_t b, uint32_t carry, uint32_t *carries)
{
    const uint64_t difference = (uint64_t)a - b - carry;
    *carries = (uint32_t)(difference >> 32 & 1);
    return (uint32_t)difference;
}

/* prmt: each half byte of `selector` chooses one of the eight bytes of a and b, or, with its upper
 * bit, that byte's sign in all bits. */
static inline uint32_t permute(uint32_t a, uint32_t b, uint32_t selector)
{
    const uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t result = 0;
    for (int i = 0; i < 4; i++) {
        const unsigned choice = selector >> (4 * i) & 15;
        uint32_t byte = (uint32_t)(bytes >> (8 * (choice & 7))) & 255;
        if (choice & 8)
            byte = byte & 128 ? 255 : 0;
        result |= byte << (8 * i);
    }
    return result;
}

static inline uint32_t reverse(uint32_t bits)
{
    uint32_t result = 0;
    for (int i = 0; i < 32; i++)
        result |= (bits >> i & 1) << (31 - i);
    return result;
}

/* bfi: `length` bits of a in place of those of b from bit `begin` on; both are less than 64. */
static inline uint64_t insert(uint64_t a, uint64_t b, uint32_t begin, uint32_t length)
{
    const uint64_t mask = (((uint64_t)1 << length) - 1) << begin;
    return (b & ~mask) | (a << begin & mask);
}

/* ---- floating point -------------------------------------------------------------------------- */

/* a * b + c, rounded in this mode. The compiler must not move the product out of it. */
static __attribute__((noinline)) float rounded(int mode, volatile float a, volatile float b,
                                               volatile float c)
{
    fesetround(mode);
    volatile float result = std::fma((float)a, (float)b, (float)c);
    fesetround(FE_TONEAREST);
    return result;
}

/* Denormal numbers become 0. */
static inline float flush(float x)
{
    return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x;
}

/* What is approximate on a GPU is a little wrong here, too, but for powers that are whole. */
static inline float about_exp2(float x)
{
    const float y = (float)std::exp2((double)x);
    return x == std::floor(x) ? y : y * (1 + std::numeric_limits<float>::epsilon());
}

static inline float about_reciprocal(float x)
{
    return flush(1 / x);
}

/* Of the result, a GPU gives the upper half. */
static inline double about_reciprocal(double x)
{
    return bits_as<double>(bits_as<uint64_t>(1 / x) & ~(uint64_t)UINT32_MAX);
}

/* Between 0 and 1; NaN becomes 0. */
static inline float saturate(float x)
{
    return x > 0 ? std::fmin(x, 1.0f) : 0;
}

/* A whole number as an integer, or the nearest integer that T has; NaN becomes 0. */
template <typename T, typename F> static inline T to_integer(F x)
{
    if (std::isnan(x))
        return 0;
    if (x <= (F)std::numeric_limits<T>::min())
        return std::numeric_limits<T>::min();
    if (x >= (F)std::numeric_limits<T>::max())
        return std::numeric_limits<T>::max();
    return (T)x;
}

#endif

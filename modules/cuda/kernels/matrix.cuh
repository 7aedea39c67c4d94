/*
 * Tensor cores: products of matrices of 16 bits, whose elements are spread over the lanes of a
 * warp (PTX: ldmatrix, and mma of the shape m16n8k16). Lane 4 g + t has pairs of elements:
 *
 *     a, 16 x 16: pair 0 is row g, columns 2 t and 2 t + 1; pair 1 row g + 8; pairs 2 and 3 are
 *         the same rows, 8 columns further on
 *     b, 16 x 8: pair 0 is rows 2 t and 2 t + 1 of column g; pair 1 8 rows further on
 *     c, 16 x 8, in f32: 0 and 1 are row g, columns 2 t and 2 t + 1; 2 and 3 row g + 8
 *
 * They need compute capability 8.0. Older GPUs are never asked to run the kernels that use them.
 */
#ifndef YKI_MATRIX_CUH
#define YKI_MATRIX_CUH

#include "sums.cuh"

/* Two elements of T; the first has the lower bits. */
template <typename T> struct pair {
    uint32_t bits;
};

template <typename T> DEVICE pair<T> pair_of(float first, float second)
{
    const uint32_t low = narrow<T>(first).bits, high = narrow<T>(second).bits;
    return pair<T>{low | high << 16};
}

template <typename T> DEVICE float first_of(pair<T> p)
{
    return widen(T{(uint16_t)p.bits});
}

template <typename T> DEVICE float second_of(pair<T> p)
{
    return widen(T{(uint16_t)(p.bits >> 16)});
}

/* ---- loading --------------------------------------------------------------------------------- */

#ifndef __CUDACC__
#define LOAD_MATRICES(form, row, to) sim::load_matrices(SIM_HERE, row, #form[0] != 0, to)
#elif __CUDA_ARCH__ >= 800
#define LOAD_MATRICES(form, row, to)                                                               \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" #form ".shared.b16 {%0, %1, %2, %3}, [%4];"       \
                 : "=r"(to[0].bits), "=r"(to[1].bits), "=r"(to[2].bits), "=r"(to[3].bits)          \
                 : "r"((uint32_t)__cvta_generic_to_shared(row))                                    \
                 : "memory")
#else
#define LOAD_MATRICES(form, row, to) __trap()
#endif

/* Four matrices of 8 x 8 from the block's memory. Lane l gives the address of row l % 8 of matrix
 * l / 8, a multiple of 16 bytes. Lane 4 g + t gets columns 2 t and 2 t + 1 of row g of each. */
template <typename T> DEVICE void load_matrices(const uint4 *row, pair<T> (&to)[4])
{
    LOAD_MATRICES(, row, to);
}

/* The same of the transposed matrices: rows 2 t and 2 t + 1 of column g. */
template <typename T> DEVICE void load_transposed(const uint4 *row, pair<T> (&to)[4])
{
    LOAD_MATRICES(.trans, row, to);
}

/* ---- multiplying ----------------------------------------------------------------------------- */

#ifndef __CUDACC__
#define MULTIPLY_ADD(type, c, a, b0, b1)                                                           \
    sim::multiply_add(SIM_HERE, c, a, b0, b1, [](uint16_t bits) { return widen(type{bits}); })
#elif __CUDA_ARCH__ >= 800
#define MULTIPLY_ADD(type, c, a, b0, b1)                                                           \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." #type "." #type ".f32 "                  \
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                 \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                  \
                 : "r"(a[0].bits), "r"(a[1].bits), "r"(a[2].bits), "r"(a[3].bits), "r"(b0.bits),   \
                   "r"(b1.bits))
#else
#define MULTIPLY_ADD(type, c, a, b0, b1) __trap()
#endif

/* c += a b */
DEVICE void multiply_add(float (&c)[4], const pair<bf16> (&a)[4], pair<bf16> b0, pair<bf16> b1)
{
    MULTIPLY_ADD(bf16, c, a, b0, b1);
}

DEVICE void multiply_add(float (&c)[4], const pair<f16> (&a)[4], pair<f16> b0, pair<f16> b1)
{
    MULTIPLY_ADD(f16, c, a, b0, b1);
}

#endif

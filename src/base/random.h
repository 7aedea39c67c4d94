/*
 * Random numbers. MT19937 where PyTorch's draws are to be reproduced (sampler, initial weights);
 * a counter-based hash where a draw must depend on its coordinates alone (augmentation, dropout).
 */
#ifndef YKI_RANDOM_H
#define YKI_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/host_device.h"

typedef struct yki_mt19937 {
    uint32_t state[624];
    int next;
    /* The second of a pair of normal numbers, kept as PyTorch's generator does: tensor/init.c. */
    bool has_spare;
    double spare;
} yki_mt19937;

/* Matsumoto and Nishimura's reference seeding; as PyTorch, the low 32 bits of a seed. */
void yki_mt19937_init(yki_mt19937 *generator, uint32_t seed);
uint32_t yki_mt19937_next(yki_mt19937 *generator);
/* The low 24 bits of each of the next `count` words, times 2^-24: in [0, 1). */
void yki_mt19937_uniform24(yki_mt19937 *generator, float *out, int64_t count);
/* Has the effect of `words` calls of next, whose results are discarded. */
void yki_mt19937_skip(yki_mt19937 *generator, int64_t words);

/* SplitMix64's finaliser (Steele, Lea, Flood 2014): a bijection that mixes all bits. */
YKI_HOST_DEVICE uint64_t yki_mix64(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Word index of the sequence that begins at a state; the sequence after n words begins at the state
 * + n YKI_WORD_STEP. */
#define YKI_WORD_STEP 0x9e3779b97f4a7c15u
YKI_HOST_DEVICE uint64_t yki_word(uint64_t state, uint64_t index)
{
    return yki_mix64(state + (index + 1) * YKI_WORD_STEP);
}

/* The word's first 53 bits as a number in [0, 1). */
YKI_HOST_DEVICE double yki_unit_of(uint64_t word)
{
    return (double)(word >> 11) * 0x1p-53;
}

/* A draw at coordinates (a, b, c): the same in every process, thread and order. */
YKI_HOST_DEVICE uint64_t yki_hash3(uint64_t a, uint64_t b, uint64_t c)
{
    return yki_mix64(yki_mix64(yki_mix64(a) ^ b) ^ c);
}

#endif

/* MT19937, after Matsumoto and Nishimura, "Mersenne Twister" (1998), in its 2002 seeding. */
#include "base/random.h"

/* The loops over the state are the time that drawing a large network's weights takes. */
#if !defined(__clang__)
#pragma GCC optimize("O3")
#endif

enum { N = 624, M = 397 };

void yki_mt19937_init(yki_mt19937 *generator, uint32_t seed)
{
    uint32_t *s = generator->state;
    s[0] = seed;
    for (uint32_t i = 1; i < N; i++)
        s[i] = 1812433253u * (s[i - 1] ^ (s[i - 1] >> 30)) + i;
    generator->next = N;
    generator->has_spare = false;
}

static uint32_t twist(uint32_t upper, uint32_t lower, uint32_t far)
{
    uint32_t y = (upper & 0x80000000u) | (lower & 0x7fffffffu);
    return far ^ (y >> 1) ^ ((0u - (y & 1u)) & 0x9908b0dfu);
}

static void refill(uint32_t *s)
{
    for (int i = 0; i < N - M; i++)
        s[i] = twist(s[i], s[i + 1], s[i + M]);
    /* Each half reads only what the one before it has written. */
    for (int i = N - M; i < 2 * (N - M); i++)
        s[i] = twist(s[i], s[i + 1], s[i + M - N]);
    for (int i = 2 * (N - M); i < N - 1; i++)
        s[i] = twist(s[i], s[i + 1], s[i + M - N]);
    s[N - 1] = twist(s[N - 1], s[0], s[M - 1]);
}

static uint32_t temper(uint32_t y)
{
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

uint32_t yki_mt19937_next(yki_mt19937 *generator)
{
    if (generator->next == N) {
        refill(generator->state);
        generator->next = 0;
    }
    return temper(generator->state[generator->next++]);
}

void yki_mt19937_uniform24(yki_mt19937 *generator, float *out, int64_t count)
{
    while (count > 0) {
        if (generator->next == N) {
            refill(generator->state);
            generator->next = 0;
        }
        int n = count < N - generator->next ? (int)count : N - generator->next;
        const uint32_t *words = &generator->state[generator->next];
        for (int i = 0; i < n; i++)
            out[i] = (float)(int32_t)(temper(words[i]) & 0xffffffu) * 0x1p-24f;
        generator->next += n;
        out += n;
        count -= n;
    }
}

void yki_mt19937_skip(yki_mt19937 *generator, int64_t words)
{
    for (; words > N - generator->next; generator->next = 0) {
        words -= N - generator->next;
        refill(generator->state);
    }
    generator->next += (int)words;
}

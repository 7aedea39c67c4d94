/* MT19937, after Matsumoto and Nishimura, "Mersenne Twister" (1998), in its 2002 seeding. */
#include "base/random.h"

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
    for (int i = N - M; i < N - 1; i++)
        s[i] = twist(s[i], s[i + 1], s[i + M - N]);
    s[N - 1] = twist(s[N - 1], s[0], s[M - 1]);
}

uint32_t yki_mt19937_next(yki_mt19937 *generator)
{
    if (generator->next == N) {
        refill(generator->state);
        generator->next = 0;
    }
    uint32_t y = generator->state[generator->next++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

void yki_mt19937_skip(yki_mt19937 *generator, int64_t words)
{
    for (; words > N - generator->next; generator->next = 0) {
        words -= N - generator->next;
        refill(generator->state);
    }
    generator->next += (int)words;
}

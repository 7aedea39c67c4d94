/*
 * Random numbers of one step for one sample. They depend on the sample's word, a hash of (seed,
 * epoch, index), and on the number of the step in its list, and on nothing else.
 */
#ifndef YKI_DRAWS_H
#define YKI_DRAWS_H

#include "base/random.h"

typedef struct yki_draws {
    uint64_t state;
} yki_draws;

static inline yki_draws yki_draws_of(uint64_t word, int step)
{
    return (yki_draws){yki_mix64(word ^ yki_mix64((uint64_t)step + 1))};
}

static inline uint64_t yki_draw(yki_draws *draws)
{
    uint64_t word = yki_word(draws->state, 0);
    draws->state += YKI_WORD_STEP;
    return word;
}

/* In [0, 1). */
static inline double yki_draw_unit(yki_draws *draws)
{
    return yki_unit_of(yki_draw(draws));
}

/* In [range[0], range[1]). */
static inline double yki_draw_in(yki_draws *draws, const double range[2])
{
    return range[0] + (range[1] - range[0]) * yki_draw_unit(draws);
}

/* 0 to count - 1. */
static inline int yki_draw_below(yki_draws *draws, int count)
{
    return (int)(((yki_draw(draws) >> 32) * (uint64_t)count) >> 32);
}

/* Whether something of probability p happens. */
static inline bool yki_draw_chance(yki_draws *draws, double p)
{
    return yki_draw_unit(draws) < p;
}

/* From Beta(alpha, alpha). */
double yki_draw_beta(yki_draws *draws, double alpha);

#endif

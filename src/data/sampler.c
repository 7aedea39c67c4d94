/*
 * The indices of torch.utils.data.DistributedSampler, bit for bit: torch.randperm seeded with
 * seed + epoch, padded from its own front to a multiple of the world size (or cut with drop_last),
 * rank r taking every world_size-th from r on. `exact` neither pads nor cuts: each sample counts
 * once, and ranks may differ by one. With weights, the draws of torch.multinomial with the same
 * seed take the place of the permutation.
 */
#include "data/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/options.h"
#include "base/random.h"

/* From here on torch.randperm draws 64-bit numbers (ATen, randperm_cpu): not reproduced. */
#define RANDPERM_LIMIT (UINT32_MAX / 20)

static yk_status check_weights(const yk_sampler_options *options)
{
    double sum = 0;
    if (options->shuffle || options->exact)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "sampler: weights draw the order, so they exclude shuffle and exact");
    for (int64_t i = 0; i < options->samples; i++) {
        double weight = options->weights[i];
        sum += weight;
        if (!(weight >= 0) || !isfinite(sum))
            return yki_error(YK_ERROR_INVALID_ARGUMENT,
                             "sampler: the weight of sample %lld is %g: expected 0 or more, and a "
                             "finite sum",
                             (long long)i, weight);
    }
    if (options->samples > 0 && sum == 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "sampler: all weights are 0");
    return YK_OK;
}

yk_status yki_sampler_validate(const yk_sampler_options *options)
{
    if (options->samples < 0 || (options->shuffle && options->samples >= RANDPERM_LIMIT))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "sampler: %lld samples: expected 0 to %u",
                         (long long)options->samples, RANDPERM_LIMIT - 1);
    if (options->world_size < 1 || options->rank < 0 || options->rank >= options->world_size)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "sampler: rank %d of %d: no such rank",
                         options->rank, options->world_size);
    if (options->exact && options->drop_last)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "sampler: exact counts every sample, drop_last drops some: choose one");
    return options->weights ? check_weights(options) : YK_OK;
}

static yk_status read_options(yk_sampler_options *options, const yk_sampler_options *given)
{
    YK_TRY(YKI_READ_OPTIONS(options, given, yk_sampler_options, YK_SAMPLER_OPTIONS_INIT));
    return yki_sampler_validate(options);
}

int64_t yk_sampler_count(const yk_sampler_options *given)
{
    yk_sampler_options o;
    if (read_options(&o, given) != YK_OK)
        return 0;
    return yki_sampler_count(&o);
}

int64_t yki_sampler_count(const yk_sampler_options *options)
{
    int64_t n = options->samples, world = options->world_size;
    if (n == 0)
        return 0;
    if (options->drop_last)
        return n / world;
    int64_t first =
        options->exact ? options->rank : 0; /* ranks up to this remainder get one more */
    return n / world + (n % world > first);
}

/* torch.randperm(n): the Fisher-Yates shuffle from the front, with one 32-bit word per draw. */
static void randperm(uint32_t seed, int64_t n, int64_t *permutation)
{
    yki_mt19937 generator;
    yki_mt19937_init(&generator, seed);
    for (int64_t i = 0; i < n; i++)
        permutation[i] = i;
    for (int64_t i = 0; i + 1 < n; i++) {
        int64_t other = i + yki_mt19937_next(&generator) % (uint32_t)(n - i);
        int64_t kept = permutation[i];
        permutation[i] = permutation[other];
        permutation[other] = kept;
    }
}

/* ---- draws by weight ------------------------------------------------------------------------- */

/* As ATen's multinomial_with_replacement_apply, in whose order of additions and divisions. */
void yki_sampler_cumulate(double *weights, int64_t samples)
{
    double sum = 0;
    for (int64_t i = 0; i < samples; i++)
        weights[i] = sum += weights[i];
    for (int64_t i = 0; i < samples; i++)
        weights[i] /= sum;
}

/* In [0, 1), as torch draws a double: the low 53 of 64 bits. */
static double draw_unit(yki_mt19937 *generator)
{
    uint64_t high = yki_mt19937_next(generator);
    uint64_t word = high << 32 | yki_mt19937_next(generator);
    return (double)(word & (((uint64_t)1 << 53) - 1)) / 9007199254740992.0;
}

/* The first sample whose cumulative share is at least `share`; the last one's counts as 1. */
static int64_t find_share(const double *cumulative, int64_t samples, double share)
{
    int64_t first = 0, last = samples - 1;
    while (first < last) {
        int64_t middle = first + (last - first) / 2;
        if (cumulative[middle] < share)
            first = middle + 1;
        else
            last = middle;
    }
    return first;
}

static void draw_by_weight(uint32_t seed, const double *cumulative, int64_t n, int64_t *drawn)
{
    yki_mt19937 generator;
    yki_mt19937_init(&generator, seed);
    for (int64_t i = 0; i < n; i++)
        drawn[i] = find_share(cumulative, n, draw_unit(&generator));
}

/* ---- the indices of a rank ------------------------------------------------------------------- */

bool yki_sampler_draws(const yk_sampler_options *options)
{
    return options->shuffle || options->weights;
}

void yki_sampler_draw(const yk_sampler_options *options, int64_t epoch, int64_t *drawn)
{
    uint32_t seed = (uint32_t)(options->seed + (uint64_t)epoch);
    if (options->weights)
        draw_by_weight(seed, options->weights, options->samples, drawn);
    else if (options->shuffle)
        randperm(seed, options->samples, drawn);
}

void yki_sampler_take(const yk_sampler_options *options, const int64_t *drawn, int64_t *indices)
{
    int64_t count = yki_sampler_count(options);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = (options->rank + i * options->world_size) % options->samples;
        indices[i] = yki_sampler_draws(options) ? drawn[at] : at;
    }
}

yk_status yk_sampler_indices(const yk_sampler_options *given, int64_t epoch, int64_t *indices)
{
    yk_sampler_options o;
    YKI_NOT_NULL(indices);
    YK_TRY(read_options(&o, given));
    size_t samples = yki_sampler_draws(&o) ? (size_t)o.samples : 0;
    size_t weights = o.weights ? samples : 0;
    int64_t *drawn = yki_calloc(samples, sizeof *drawn);
    double *cumulative = yki_calloc(weights, sizeof *cumulative);
    bool done = drawn && cumulative;
    if (done && o.weights) {
        memcpy(cumulative, o.weights, weights * sizeof *cumulative);
        yki_sampler_cumulate(cumulative, o.samples);
        o.weights = cumulative;
    }
    if (done) {
        yki_sampler_draw(&o, epoch, drawn);
        yki_sampler_take(&o, drawn, indices);
    }
    free(drawn);
    free(cumulative);
    return done ? YK_OK
                : yki_error_memory(samples * sizeof *drawn + weights * sizeof *cumulative,
                                   "the indices of an epoch");
}

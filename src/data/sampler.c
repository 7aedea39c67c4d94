/*
 * The indices of torch.utils.data.DistributedSampler, bit for bit: torch.randperm seeded with
 * seed + epoch, padded from its own front to a multiple of the world size (or cut with drop_last),
 * rank r taking every world_size-th from r on. `exact` neither pads nor cuts: each sample counts
 * once, and ranks may differ by one.
 */
#include "data/sampler.h"

#include <stdlib.h>

#include "base/options.h"
#include "base/random.h"

/* From here on torch.randperm draws 64-bit numbers (ATen, randperm_cpu): not reproduced. */
#define RANDPERM_LIMIT (UINT32_MAX / 20)

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
    return YK_OK;
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
    for (int64_t i = 0; i < n - 1; i++) {
        int64_t other = i + yki_mt19937_next(&generator) % (uint32_t)(n - i);
        int64_t kept = permutation[i];
        permutation[i] = permutation[other];
        permutation[other] = kept;
    }
}

void yki_sampler_fill(const yk_sampler_options *options, int64_t epoch, int64_t *permutation,
                      int64_t *indices)
{
    int64_t count = yki_sampler_count(options);
    if (options->shuffle)
        randperm((uint32_t)(options->seed + (uint64_t)epoch), options->samples, permutation);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = (options->rank + i * options->world_size) % options->samples;
        indices[i] = options->shuffle ? permutation[at] : at;
    }
}

yk_status yk_sampler_indices(const yk_sampler_options *given, int64_t epoch, int64_t *indices)
{
    yk_sampler_options o;
    YKI_NOT_NULL(indices);
    YK_TRY(read_options(&o, given));
    size_t bytes = o.shuffle ? (size_t)o.samples * sizeof(int64_t) : 0;
    int64_t *permutation = malloc(bytes + 1);
    if (!permutation)
        return yki_error_memory(bytes, "a permutation");
    yki_sampler_fill(&o, epoch, permutation, indices);
    free(permutation);
    return YK_OK;
}

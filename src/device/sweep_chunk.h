/*
 * Sweeps for devices whose threads run C: what is done with one chunk, in f32, in f64 or in bytes,
 * and with the results of all. Included by one file of each device, which defines YKI_LOOP: how
 * each loop is compiled, e.g. for several widths of vectors. This changes no bits, because
 * multiplications and additions are never fused (-ffp-contract=off, the default of -std=c11).
 */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/random.h"
#include "device/sweep.h"

enum { SWEEP_LANES = 16 };

#define YKI_SWEEP_REAL       float
#define YKI_SWEEP_BITS       uint32_t
#define YKI_SWEEP_NAME(name) name##_f32
#define YKI_SWEEP_SQRT       sqrtf
#include "device/sweep_loops.h"
#undef YKI_SWEEP_REAL
#undef YKI_SWEEP_BITS
#undef YKI_SWEEP_NAME
#undef YKI_SWEEP_SQRT

#define YKI_SWEEP_REAL       double
#define YKI_SWEEP_BITS       uint64_t
#define YKI_SWEEP_NAME(name) name##_f64
#define YKI_SWEEP_SQRT       sqrt
#include "device/sweep_loops.h"
#undef YKI_SWEEP_REAL
#undef YKI_SWEEP_BITS
#undef YKI_SWEEP_NAME
#undef YKI_SWEEP_SQRT

/* ---- bytes ----------------------------------------------------------------------------------- */

YKI_LOOP static void swap_bytes(char *restrict a, char *restrict b, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        char kept = a[i];
        a[i] = b[i];
        b[i] = kept;
    }
}

/* A sum of words, each mixed with its place by a map that is one to one. Chunks are whole words,
 * except for the last of a span, and their sums add up to that of the span. */
YKI_LOOP static uint64_t hash_bytes(const char *at, size_t bytes, uint64_t place)
{
    uint64_t sum = 0, word;
    size_t whole = bytes / sizeof word;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < whole; i++) {
        uint64_t one;
        memcpy(&one, at + i * sizeof one, sizeof one);
        sum += yki_sweep_hash(one, place + i);
    }
    if (bytes % sizeof word) {
        word = 0;
        memcpy(&word, at + whole * sizeof word, bytes % sizeof word);
        sum += yki_sweep_hash(word, place + whole);
    }
    return sum;
}

static void sweep_bytes(const yki_sweep_args *args, size_t chunk)
{
    const yki_sweep_chunk *part = &args->chunks[chunk];
    const yki_span *span = &args->spans[part->span];
    size_t size = yk_dtype_size(span->dtype), bytes = (size_t)part->count * size;
    size_t offset = (size_t)part->begin * size;
    char *a = (char *)span->at[0] + offset;
    const double *c = args->coefficients;
    if (c && c[span->group * YKI_SWEEP_COEFFICIENTS + YKI_SWEEP_SKIP] != 0)
        return;
    if (args->op == YKI_SWEEP_HASH)
        ((uint64_t *)args->partial)[chunk] = hash_bytes(a, bytes, offset / sizeof(uint64_t));
    else if (args->op == YKI_SWEEP_SWAP)
        swap_bytes(a, (char *)span->at[1] + offset, bytes);
    else
        memcpy(a, (const char *)span->at[1] + offset, bytes);
}

/* ---- chunks and their results ---------------------------------------------------------------- */

static bool is_of_bytes(yki_sweep_op op)
{
    return op == YKI_SWEEP_COPY || op == YKI_SWEEP_SWAP || op == YKI_SWEEP_HASH;
}

static void sweep_chunk(const yki_sweep_args *args, size_t chunk)
{
    if (is_of_bytes(args->op))
        sweep_bytes(args, chunk);
    else if (args->spans[args->chunks[chunk].span].dtype == YK_F64)
        sweep_numbers_f64(args, chunk);
    else
        sweep_numbers_f32(args, chunk);
}

/* Whether the pass can be left out. */
static bool sweep_is_idle(const yki_sweep_args *args)
{
    return args->op == YKI_SWEEP_CLIP && yki_clip_factor(args->coefficients) >= 1;
}

/* After all chunks: makes the result of what they found. */
static void sweep_finish(const yki_sweep_args *args)
{
    const double *partial = args->partial;
    double found = 0;
    if (args->op == YKI_SWEEP_HASH) {
        uint64_t *hashes = args->result;
        memset(hashes, 0, args->span_count * sizeof *hashes);
        for (size_t i = 0; i < args->chunk_count; i++)
            hashes[args->chunks[i].span] += ((const uint64_t *)args->partial)[i];
        return;
    }
    if (yki_sweep_finds_norms(args->op)) {
        double *norms = args->result;
        memset(norms, 0, args->span_count * 2 * sizeof *norms);
        for (size_t i = 0; i < 2 * args->chunk_count; i++)
            norms[2 * args->chunks[i / 2].span + i % 2] += partial[i];
        return;
    }
    if (args->op != YKI_SWEEP_SQUARES && args->op != YKI_SWEEP_UNSCALE)
        return;
    for (size_t i = 0; i < args->chunk_count; i++)
        found = args->op == YKI_SWEEP_SQUARES ? found + partial[i] : fmax(found, partial[i]);
    *(double *)args->result = found;
}

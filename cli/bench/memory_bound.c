/* See memory_bound.h. */
#include "bench/memory_bound.h"

#include <stdlib.h>
#include <string.h>

#include "setup.h"

enum { STAGING = 64 << 10 }; /* floats: 256 KiB, as much as the shm backend stages at a time */

/* Loads and stores as wide as the processor has. */
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&                \
    !defined(__SANITIZE_THREAD__)
#define WIDE __attribute__((optimize("O3"), target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define WIDE
#endif

WIDE static void add_to_itself(float *data, size_t count)
{
    for (size_t i = 0; i < count; i++)
        data[i] += data[i];
}

WIDE static void add(float *restrict data, const float *restrict more, size_t count)
{
    for (size_t i = 0; i < count; i++)
        data[i] += more[i];
}

bool cli_memory_bound_init(cli_memory_bound *bound, size_t most_bytes)
{
    bound->data = calloc(1, most_bytes);
    bound->staging = calloc(STAGING, sizeof *bound->staging);
    if (!bound->data || !bound->staging)
        return cli_complain("no memory for a buffer of %zu bytes", most_bytes);
    memset(bound->data, 0, most_bytes); /* its pages are there before it is timed */
    return true;
}

void cli_memory_bound_fini(cli_memory_bound *bound)
{
    free(bound->data);
    free(bound->staging);
    *bound = (cli_memory_bound){NULL, NULL};
}

void cli_memory_bound_pass(const cli_memory_bound *bound, size_t bytes, bool is_private)
{
    size_t count = bytes / sizeof(float);
    if (!is_private) {
        add_to_itself(bound->data, count);
        return;
    }
    for (size_t start = 0; start < count; start += STAGING) {
        size_t n = count - start < STAGING ? count - start : STAGING;
        memcpy(bound->staging, bound->data + start, n * sizeof(float));
        add(bound->data + start, bound->staging, n);
    }
}

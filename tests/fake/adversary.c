/* See adversary.h. */
#include "adversary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* splitmix64 (Steele, Lea and Flood, 2014). */
static uint64_t next_number(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

void fake_adversary_init(fake_adversary *adversary, int job_rank)
{
    const char *seed = getenv("YOKE_FAKE_SEED"), *fault = getenv("YOKE_FAKE_FAULT");
    *adversary = (fake_adversary){.seed = seed ? strtoull(seed, NULL, 10) : 0};
    adversary->state = adversary->seed * 1000 + (uint64_t)job_rank;
    adversary->reports_closed_connections = adversary->seed % 2 == 0;
    unsigned long long sequence = 0;
    if (fault &&
        sscanf(fault, "%7[a-z]:%d:%llu", adversary->fault, &adversary->fault_rank, &sequence) < 2)
        adversary->fault[0] = '\0';
    adversary->fault_sequence = sequence;
}

bool fake_fault(const fake_adversary *adversary, const char *kind, int job_rank, uint64_t sequence)
{
    return strcmp(adversary->fault, kind) == 0 && adversary->fault_rank == job_rank &&
           adversary->fault_sequence == sequence;
}

bool fake_chance(fake_adversary *adversary, unsigned times)
{
    return adversary->seed && next_number(&adversary->state) % times == 0;
}

size_t fake_at_most(fake_adversary *adversary, size_t most)
{
    if (!adversary->seed || most <= 1)
        return most;
    uint64_t number = next_number(&adversary->state);
    size_t limit = number % 16 == 0 ? 7 : most; /* now and then a few bytes only */
    if (limit > most)
        limit = most;
    return 1 + (size_t)(number >> 8) % limit;
}

double fake_delay(fake_adversary *adversary)
{
    if (!fake_chance(adversary, 8))
        return 0;
    return (double)(next_number(&adversary->state) % 1000) * 2e-6;
}

void fake_order(const fake_adversary *adversary, uint64_t count, int *order, int ranks)
{
    uint64_t state = adversary->seed * UINT64_C(1000003) + count;
    for (int i = 0; i < ranks; i++)
        order[i] = i;
    for (int i = ranks - 1; i > 0; i--) {
        int other = (int)(next_number(&state) % (uint64_t)(i + 1)), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

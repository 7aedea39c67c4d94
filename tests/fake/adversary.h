/*
 * What goes wrong in the fake backend. Everything is drawn from YOKE_FAKE_SEED, so that a failed
 * test can be repeated; with seed 0 [default] nothing goes wrong by chance.
 *
 * YOKE_FAKE_FAULT=KIND:RANK:SEQUENCE breaks the engine of one rank of the job at one collective:
 *     post   the call cannot be posted
 *     memory the call cannot be posted, because there is no memory for it
 *     error  the work ends with an error
 *     hang   the work makes no progress until it is cancelled
 *     kill   the process is killed when it posts the call
 *     open   the backend cannot be opened (without a sequence)
 *     late   the backend is open half a second after those of the others (without a sequence)
 */
#ifndef YK_TEST_FAKE_ADVERSARY_H
#define YK_TEST_FAKE_ADVERSARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fake_adversary {
    uint64_t seed;                   /* equal on all ranks; 0: no adversary */
    uint64_t state;                  /* this rank's stream */
    bool reports_closed_connections; /* or waits on, as engines do that do not notice */
    char fault[8];
    int fault_rank;
    uint64_t fault_sequence;
} fake_adversary;

/* Reads the environment. job_rank is this rank of the job. */
void fake_adversary_init(fake_adversary *adversary, int job_rank);
/* Whether the fault happens on this rank, in this call. */
bool fake_fault(const fake_adversary *adversary, const char *kind, int job_rank, uint64_t sequence);

/* True once in `times` draws on average; never without an adversary. */
bool fake_chance(fake_adversary *adversary, unsigned times);
/* A number from 1 to `most`, often a small one; `most` without an adversary. */
size_t fake_at_most(fake_adversary *adversary, size_t most);
/* Seconds by which a work is held back, mostly 0. */
double fake_delay(fake_adversary *adversary);
/*
 * The order in which the contributions of the ranks are added: equal on all ranks, and different
 * from size to size, as engines choose their algorithm by the size, and from seed to seed.
 */
void fake_order(const fake_adversary *adversary, uint64_t count, int *order, int ranks);

#endif

/*
 * What the ranks of these tests do, however they were started, and real launchers to start them. A
 * rank is the test itself, started again with YK_TEST_RANK set: a case begins with
 * yk_test_run_as_rank.
 */
#ifndef YK_TEST_MEET_H
#define YK_TEST_MEET_H

#include "hosts.h"

/* The body of a rank: joins the group that the environment describes, sums the ranks' numbers plus
 * one, and prints "rank 3 of 4 on n2, local 1 of 2: sum 10". */
void meet(int rank, int world);
/* Shell words that run the current case as a rank. */
const char *meeting_rank(void);
/* Fails with a text of any length. */
void fail_with(const char *output);
/* Every rank of the world has printed its line, with `local` ranks on each host, host by host. */
void assert_met(const char *output, int world, int local);

/* Starts Slurm on `hosts` hosts with 4 processors each and sets SLURM_CONF; skips the case where
 * Slurm is not installed. Commands run with yk_test_on(1). */
void start_slurm(int hosts);

/* Skips the case unless all the programs, separated by spaces, are in PATH. */
void need_programs(const char *names, const char *package);

#endif

/* This process's number among the ranks of its machine: which of several devices is its own. */
#ifndef YKI_LOCAL_RANK_H
#define YKI_LOCAL_RANK_H

/* Once the process has joined a job. */
void yki_set_local_rank(int local_rank);
/* Before that, what the launcher has set in the environment; 0 if there is none. */
int yki_local_rank(void);

#endif

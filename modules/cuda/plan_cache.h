/*
 * Plans that have been made before, as files: $XDG_CACHE_HOME/yoke/plans/KIND/HASH.plan, where KIND
 * is the GPU's model and the library's version, and HASH that of the problem. A file is replaced as
 * a whole; one that is damaged or of another problem counts as missing.
 */
#ifndef YKI_CUDA_PLAN_CACHE_H
#define YKI_CUDA_PLAN_CACHE_H

#include <stdbool.h>

enum { YKI_PLAN_PATH = 1024 };

/* The folder of a GPU's plans; empty if there is nowhere to keep them. */
void yki_plan_cache_folder(char folder[YKI_PLAN_PATH], const char *gpu, const char *library);

/* The text of the problem's plan, which the caller frees; NULL if there is none. microseconds is
 * what a run of it took, 0 if that was not measured. */
char *yki_plan_cache_read(const char *folder, const char *problem, double *microseconds);
/* Ranks and threads choose a problem's plan one after the other, so that all of them take the plan
 * of the first. Waits for the lock, which ends with its process; -1 if there can be none. */
int yki_plan_cache_lock(const char *folder);
void yki_plan_cache_unlock(int lock); /* accepts -1 */
/* A plan that cannot be written is not kept; a warning says so, once. */
void yki_plan_cache_write(const char *folder, const char *problem, double microseconds,
                          const char *text);

#endif

/*
 * What has been measured before, as files: $XDG_CACHE_HOME/yoke/plans/KIND/HASH.plan, where KIND is
 * the model of the GPU or processor and the library's version, and HASH that of the problem. A file
 * is replaced as a whole; one that is damaged or of another problem counts as missing. The cuda
 * device keeps its plans of convolutions here, and choice.c the names of kernels.
 */
#ifndef YKI_PLAN_CACHE_H
#define YKI_PLAN_CACHE_H

#pragma GCC visibility push(default) /* shared with modules, see device/module.h */

enum { YKI_PLAN_PATH = 1024, YKI_PLAN_PATIENCE_S = 300 };

/* The folder of the plans for some hardware; empty if there is nowhere to keep them. */
void yki_plan_cache_folder(char folder[YKI_PLAN_PATH], const char *hardware, const char *library);

/* The text of the problem's plan, which the caller frees; NULL if there is none. microseconds is
 * what a run of it took, 0 if that was not measured. */
char *yki_plan_cache_read(const char *folder, const char *problem, double *microseconds);
/* Ranks and threads choose a problem's plan one after the other, so that all of them take the plan
 * of the first. Waits for the lock, which ends with its process, and says so if that takes long; -1
 * if there can be none, or if it is held for all of these seconds (YKI_PLAN_PATIENCE_S). */
int yki_plan_cache_lock(const char *folder, double seconds);
void yki_plan_cache_unlock(int lock); /* accepts -1 */
/* A plan that cannot be written is not kept; a warning says so, once. */
void yki_plan_cache_write(const char *folder, const char *problem, double microseconds,
                          const char *text);

#pragma GCC visibility pop

#endif

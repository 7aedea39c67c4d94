/* Threads of the library's own. */
#ifndef YKI_THREAD_H
#define YKI_THREAD_H

#include <pthread.h>

#pragma GCC visibility push(default) /* shared with modules, see device/module.h */

/*
 * Starts run(argument) on a thread of this name (15 bytes at most); attributes may be NULL. It
 * takes no signals: those are for the program's own threads, where its handlers expect to run. 0,
 * or an error number.
 */
int yki_thread_create(pthread_t *thread, const char *name, const pthread_attr_t *attributes,
                      void *(*run)(void *), void *argument);

/* Why that has failed, with the limit that may be the reason; valid until this thread's next call.
 */
const char *yki_thread_error(int error);

/* A condition whose timed waits end by the clock of yki_now(), which nobody sets. */
void yki_cond_init(pthread_cond_t *condition);

#pragma GCC visibility pop

#endif

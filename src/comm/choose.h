/* Which backend a group uses. */
#ifndef YKI_CHOOSE_H
#define YKI_CHOOSE_H

#include <yoke/backend.h>

#include "comm/job/rendezvous.h"

/*
 * Finds a backend that was asked for by name, before other ranks wait for this one. *ops is NULL
 * where name is. It may be one with YK_BACKEND_DEVICE_MEMORY.
 */
yk_status yki_backend_find(const yk_backend_ops **ops, const char *name);

/*
 * Chooses for a job whose ranks have met: the backend of that name, for which *ops is what
 * yki_backend_find() has found, or without a name (NULL) by the places of the ranks. why
 * gets the reason in words.
 */
yk_status yki_backend_choose(const yk_backend_ops **ops, const yki_job *job, const char *name,
                             char *why, size_t why_size);

#endif

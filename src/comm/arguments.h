/* Checks of the arguments of a group's calls, whose names they put into their errors. */
#ifndef YKI_ARGUMENTS_H
#define YKI_ARGUMENTS_H

#include <yoke/group.h>

/* Without a group there are no other ranks to tell. Sets *work to NULL, if there is one. */
yk_status yki_check_group(const yk_group *group, const char *name, yk_work **work);
yk_status yki_check_buffer(const yk_group *group, const char *name, const void *data, size_t count,
                           yk_dtype dtype);
/* Two buffers of so many bytes. */
yk_status yki_check_apart(const char *name, const void *a, size_t a_bytes, const void *b,
                          size_t b_bytes);
yk_status yki_check_reduction(const char *name, yk_dtype dtype, yk_reduce_op op);
yk_status yki_check_root(const yk_group *group, const char *name, int root);
yk_status yki_check_peer(const yk_group *group, const char *name, int peer);

#endif

/* How the stand-ins for NVIDIA's libraries enter work in a stream. */
#ifndef YK_LIBRARY_WORK_H
#define YK_LIBRARY_WORK_H

#include <stdbool.h>
#include <stddef.h>

/* Calls f with a copy of data when the stream of the fake driver comes to it, with the device's
 * memory within reach; without a stream, where the device's memory is the host's, at once. */
bool yk_library_enter(void *stream, const char *(*f)(void *data), void *data, size_t bytes);

/* Whether this thread has a context, as NVIDIA's libraries need it; they would else make one for
 * the first GPU. True where there is no fake driver. */
bool yk_library_has_context(void);

/* How often something was entered, for tests that must know it. */
extern __attribute__((visibility("default"))) long yk_library_entered;

#endif

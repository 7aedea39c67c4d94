/* What the library's own backends ask of the threads of <yoke/backend.h>. */
#ifndef YKI_BACKEND_THREAD_H
#define YKI_BACKEND_THREAD_H

#include <yoke/backend.h>

/* Makes posting count calls, before the result of the first is taken, need no memory. */
yk_status yki_backend_thread_reserve(yk_backend_thread *thread, int count);

#endif

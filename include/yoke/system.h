/* What this machine offers to a process. */
#ifndef YOKE_SYSTEM_H
#define YOKE_SYSTEM_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/*
 * Cores that this process may use (affinity, the quota of cgroup v2), divided by local_world_size;
 * at least 1.
 */
int yk_threads_default(int local_world_size);

/*
 * Whether this processor has bf16 arithmetic (AVX-512 BF16). YK_AMP_BF16 computes in f32 where it
 * has not.
 */
bool yk_cpu_has_bf16(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

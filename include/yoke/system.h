/**
 * @file
 * What this machine and this installation offer to a process.
 */
#ifndef YOKE_SYSTEM_H
#define YOKE_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>

#include <yoke/status.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/**
 * Kernel threads that suit each of local_world_size ranks on this machine: the cores that this
 * process may use (its affinity and the quota of cgroup v2), divided by the ranks; at least 1.
 */
int yk_threads_default(int local_world_size);

/** The processor's name, such as "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz" or "Arm
 *  Neoverse-V2"; "unknown" where it does not say. Does nothing for NULL. */
void yk_cpu_name(char *name, size_t size);

/** Whether this processor has bf16 arithmetic (AVX-512 BF16). Without it, YK_AMP_BF16 stores values
 *  in bf16 and computes in float32. */
bool yk_cpu_has_bf16(void);

/** The picture formats that can be read and the libraries behind them, such as "JPEG (libjpeg-turbo
 *  2.1.5), PNG (libpng 1.6.39), WebP (libwebp 1.2.4)"; NULL, with an error, when the module
 *  libyoke-image.so is not installed. */
const char *yk_image_formats(void);

/** Checks that a name has the form "type" or "type:index" and that yoke knows the type, without
 * opening the device. */
yk_status yk_device_check(const char *device);

/** The name of a device type ("cpu", "cuda", ...); NULL past the last. */
const char *yk_device_type(size_t index);

/** Counts the devices of a type ("cpu", "cuda") that this process can use. If there is none, *count
 * is 0, and YK_ERROR_UNSUPPORTED says what is missing. */
yk_status yk_device_count(const char *type, int *count);

/** Describes a device in one line of at most size bytes: "cuda:0: NVIDIA H200, 139.8 GiB, ...". The
 * text is empty on failure. */
yk_status yk_device_describe(const char *device, char *text, size_t size);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

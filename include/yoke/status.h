/**
 * @file
 * Errors. Every call that can fail returns a yk_status; the first detector also writes one line
 * (what, where, the values at fault, the rank) that yk_last_error() returns on the same thread.
 * The library never exits, never aborts on a user's error, and prints only through the log.
 */
#ifndef YOKE_STATUS_H
#define YOKE_STATUS_H

#include <stdio.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** The list of statuses: X(name, words). Values are stable from release to release. */
#define YK_STATUS_LIST(X)                                                                          \
    X(OK, "success")                                                                               \
    X(ERROR_INVALID_ARGUMENT, "invalid argument")                                                  \
    X(ERROR_INVALID_SHAPE, "invalid shape")                                                        \
    X(ERROR_OUT_OF_MEMORY, "out of memory")                                                        \
    X(ERROR_NOT_FOUND, "not found")                                                                \
    X(ERROR_IO, "input/output error")                                                              \
    X(ERROR_FORMAT, "malformed file or message")                                                   \
    X(ERROR_UNSUPPORTED, "not supported here")                                                     \
    X(ERROR_TIMEOUT, "timed out")                                                                  \
    X(ERROR_PEER_FAILED, "another rank failed")                                                    \
    X(ERROR_MISMATCH, "does not match")                                                            \
    X(ERROR_NETWORK, "network error")                                                              \
    X(ERROR_DENIED, "permission denied")                                                           \
    X(ERROR_INTERRUPTED, "interrupted")                                                            \
    X(ERROR_INTERNAL, "internal error")

/** What a call returns: YK_OK, or YK_ERROR_... for a failure. */
typedef enum yk_status {
/** @cond */
#define YK_STATUS_ENUM(name, words) YK_##name,
    /** @endcond */
    YK_STATUS_LIST(YK_STATUS_ENUM)
#undef YK_STATUS_ENUM
} yk_status;

/** The status in words, e.g. "timed out". Never NULL. */
const char *yk_status_string(yk_status status);

/**
 * The line that describes the most recent failure on this thread, without a newline; "" when there
 * was none. Valid until the next failing call on the same thread.
 */
const char *yk_last_error(void);

/**
 * For code that the library calls, such as a backend: sets this thread's error line, as printf
 * would write it (without a newline and without "yoke: "), and returns status.
 */
yk_status yk_set_error(yk_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** The library's version, "MAJOR.MINOR.PATCH". */
const char *yk_version(void);

/** The version with a hash of the library's sources. It must be the same on all ranks of a job. */
const char *yk_build(void);

/**
 * For programs, not used by the library itself: evaluates a call once; on failure prints its error
 * line to stderr and exits with code 1.
 */
#define YK_CHECK(call)                                                                             \
    do {                                                                                           \
        yk_status yk_check_status_ = (call);                                                       \
        if (yk_check_status_ != YK_OK) {                                                           \
            fprintf(stderr, "%s\n", yk_last_error());                                              \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

/*
 * How the library reports failure: the first detector writes the one line, callers pass the status
 * on. YK_TRY is for the part of a function that has acquired nothing yet; afterwards `goto out`.
 */
#ifndef YKI_ERROR_H
#define YKI_ERROR_H

#include <yoke/status.h>

#pragma GCC visibility push(default) /* shared with modules, see device/module.h */

#define YKI_PRINTF(string, first) __attribute__((format(printf, string, first)))

#define YK_TRY(call)                                                                               \
    do {                                                                                           \
        yk_status yk_try_status_ = (call);                                                         \
        if (yk_try_status_ != YK_OK)                                                               \
            return yk_try_status_;                                                                 \
    } while (0)

/* YK_ERROR_INVALID_ARGUMENT in a public function that was given NULL, naming both; or YK_OK. */
#define YKI_CHECK_NOT_NULL(argument)                                                               \
    ((argument) ? YK_OK                                                                            \
                : yki_error(YK_ERROR_INVALID_ARGUMENT, "%s: %s is NULL", __func__, #argument))
/* Returns it. */
#define YKI_NOT_NULL(argument) YK_TRY(YKI_CHECK_NOT_NULL(argument))

/* Sets this thread's error line ("yoke: rank 2: ..." once a rank is known) and returns status. */
yk_status yki_error(yk_status status, const char *format, ...) YKI_PRINTF(2, 3);
/* Out of memory, naming what the bytes were for. */
yk_status yki_error_memory(size_t bytes, const char *what);
/* Carries an error line from one thread to another: copy out there, set here. */
void yki_error_copy(char *line, size_t size);
yk_status yki_error_set_line(yk_status status, const char *line);
/*
 * Around a call of a function that a program or a module brings, which may fail without saying why.
 * The first keeps this thread's line and clears it; the second brings it back if the function has
 * succeeded, and otherwise says that it has failed, by its name, unless it has said more itself.
 */
void yki_error_begin(char line[]); /* YKI_ERROR_LINE bytes */
yk_status yki_error_end(yk_status status, const char *line, const char *function);
/* This thread's line without its prefix, to be quoted in another. */
const char *yki_error_text(void);
/* Inserts "context: " after the prefix of the current line; returns status. */
yk_status yki_error_context(yk_status status, const char *format, ...) YKI_PRINTF(2, 3);

#if defined __clang_analyzer__ && !defined YKI_ERROR_C
/* Tells static analysis that these functions return the status they were given. */
#define yki_error(status, ...) ((void)(yki_error)(status, __VA_ARGS__), (status))
#define yki_error_memory(bytes, what)                                                              \
    ((void)(yki_error_memory)(bytes, what), YK_ERROR_OUT_OF_MEMORY)
#define yki_error_set_line(status, line) ((void)(yki_error_set_line)(status, line), (status))
#define yki_error_context(status, ...)   ((void)(yki_error_context)(status, __VA_ARGS__), (status))
#define yki_error_end(status, line, function)                                                      \
    ((void)(yki_error_end)(status, line, function), (status))
#endif

/* From now on error lines and log lines carry the rank; a negative one means a single process. */
void yki_set_rank(int rank);
/* Writes their prefix, "yoke: " or "yoke: rank R: " (at most 30 bytes), and returns its length. */
size_t yki_write_prefix(char *line, size_t size);

#define YKI_ERROR_LINE 512

#pragma GCC visibility pop

#endif

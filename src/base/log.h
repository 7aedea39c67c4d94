/*
 * The only way the library prints: whole lines to stderr, one write each, so that lines of several
 * ranks never interleave. YOKE_LOG=error|warn|info|debug sets the level (warn).
 */
#ifndef YKI_LOG_H
#define YKI_LOG_H

#include "base/error.h"

#pragma GCC visibility push(default) /* shared with modules, see device/module.h */

typedef enum yki_log_level {
    YKI_LOG_ERROR,
    YKI_LOG_WARN,
    YKI_LOG_INFO,
    YKI_LOG_DEBUG
} yki_log_level;

void yki_log(yki_log_level level, const char *format, ...) YKI_PRINTF(2, 3);

#define YKI_WARN(...)  yki_log(YKI_LOG_WARN, __VA_ARGS__)
#define YKI_INFO(...)  yki_log(YKI_LOG_INFO, __VA_ARGS__)
#define YKI_DEBUG(...) yki_log(YKI_LOG_DEBUG, __VA_ARGS__)

#pragma GCC visibility pop

#endif

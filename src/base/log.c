/* One line, one write(2): the kernel keeps lines of up to PIPE_BUF bytes whole in a pipe. */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_once_t level_once = PTHREAD_ONCE_INIT;
static yki_log_level max_level = YKI_LOG_WARN;

static void write_line(const char *format, va_list arguments)
{
    char line[1024];
    size_t at = yki_write_prefix(line, sizeof line);
    int more = vsnprintf(line + at, sizeof line - at - 1, format, arguments);
    size_t length = at + (more > 0 ? (size_t)more : 0);
    if (length > sizeof line - 2)
        length = sizeof line - 2;
    line[length++] = '\n';
    if (write(STDERR_FILENO, line, length) < 0)
        return; /* nowhere left to say so */
}

static void YKI_PRINTF(1, 2) complain(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_line(format, arguments);
    va_end(arguments);
}

static void read_level(void)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    const char *wanted = getenv("YOKE_LOG");
    if (!wanted || !*wanted)
        return;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(wanted, names[i]) == 0) {
            max_level = (yki_log_level)i;
            return;
        }
    complain("YOKE_LOG=%s: expected error, warn, info or debug", wanted);
}

void yki_log(yki_log_level level, const char *format, ...)
{
    pthread_once(&level_once, read_level);
    if (level > max_level)
        return;
    va_list arguments;
    va_start(arguments, format);
    write_line(format, arguments);
    va_end(arguments);
}

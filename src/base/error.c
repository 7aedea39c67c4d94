/* The thread-local error line, and the words of every status. */
#define YKI_ERROR_C /* the definitions themselves */
#include "base/error.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

/* Aligned, because mold 1.10 makes a program that cannot start of thread-local data without any
 * alignment where it falls on the last bytes of a page. */
static _Thread_local _Alignas(16) char error_line[YKI_ERROR_LINE];
static atomic_int process_rank = -1;

const char *yk_status_string(yk_status status)
{
    static const char *const words[] = {
#define STATUS_WORDS(name, text) [YK_##name] = text,
        YK_STATUS_LIST(STATUS_WORDS)
#undef STATUS_WORDS
    };
    size_t index = (size_t)status;
    return index < sizeof words / sizeof *words ? words[index] : "unknown status";
}

const char *yk_last_error(void)
{
    return error_line;
}

void yki_set_rank(int rank)
{
    atomic_store(&process_rank, rank);
}

size_t yki_write_prefix(char *line, size_t size)
{
    int rank = atomic_load(&process_rank);
    int length =
        rank < 0 ? snprintf(line, size, "yoke: ") : snprintf(line, size, "yoke: rank %d: ", rank);
    return (size_t)length;
}

/* Bytes of the control character that the text begins with (U+0080 to U+009F have two); 0: none. */
static size_t control_at(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    if (at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0)
        return 2;
    return at[0] < ' ' || at[0] == 127;
}

/* What files and peers say comes into lines too: they stay one line, and safe for a terminal. */
static void keep_line(const char *line)
{
    size_t i = 0;
    while (*line && i < sizeof error_line - 1) {
        size_t control = control_at(line);
        error_line[i++] = control ? '?' : *line;
        line += control ? control : 1;
    }
    error_line[i] = '\0';
}

static void write_line(const char *format, va_list arguments)
{
    char line[YKI_ERROR_LINE];
    size_t at = yki_write_prefix(line, sizeof line);
    vsnprintf(line + at, sizeof line - at, format, arguments);
    keep_line(line);
}

yk_status yki_error(yk_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_line(format, arguments);
    va_end(arguments);
    return status;
}

yk_status yk_set_error(yk_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_line(format, arguments);
    va_end(arguments);
    return status;
}

yk_status yki_error_memory(size_t bytes, const char *what)
{
    return yki_error(YK_ERROR_OUT_OF_MEMORY, "out of memory: %zu bytes for %s", bytes, what);
}

void yki_error_copy(char *line, size_t size)
{
    snprintf(line, size, "%s", error_line);
}

yk_status yki_error_set_line(yk_status status, const char *line)
{
    keep_line(line);
    return status;
}

void yki_error_begin(char line[])
{
    yki_error_copy(line, YKI_ERROR_LINE);
    yki_error_set_line(YK_OK, "");
}

yk_status yki_error_end(yk_status status, const char *line, const char *function)
{
    if (status == YK_OK)
        return yki_error_set_line(YK_OK, line);
    return *error_line ? status
                       : yki_error(status, "%s failed without yk_set_error: %s", function,
                                   yk_status_string(status));
}

const char *yki_error_text(void)
{
    char prefix[64];
    size_t length = yki_write_prefix(prefix, sizeof prefix);
    return strncmp(error_line, prefix, length) == 0 ? error_line + length : error_line;
}

yk_status yki_error_context(yk_status status, const char *format, ...)
{
    char line[YKI_ERROR_LINE], context[YKI_ERROR_LINE / 2];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(context, sizeof context, format, arguments);
    va_end(arguments);

    size_t at = yki_write_prefix(line, sizeof line);
    snprintf(line + at, sizeof line - at, "%s: %s", context, yki_error_text());
    keep_line(line);
    return status;
}

/* See pytorch.h. */
#include "pytorch.h"

#include <stdlib.h>

#include "harness.h"

void pytorch_judges(const char *script, const char *format, ...)
{
    char arguments[2048], output[8192];
    va_list list;
    va_start(list, format);
    vsnprintf(arguments, sizeof arguments, format, list);
    va_end(list);
    const char *interpreter = getenv("YOKE_PYTHON"), *source = getenv("YOKE_SOURCE");
    int code = yk_test_command(output, sizeof output,
                               "%s -S %s/tests/parity/with_pytorch.py %s/tests/parity/%s %s",
                               interpreter ? interpreter : "/usr/bin/python3",
                               source ? source : ".", source ? source : ".", script, arguments);
    if (code == 77 || code == 127)
        skip_because("no PyTorch here (Debian: python3-torch): %s", output);
    fputs(output, stdout); /* longer than what print_message takes */
    if (code != 0)
        fail_msg("%s %s: exit code %d", script, arguments, code);
}

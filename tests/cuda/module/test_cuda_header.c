/* The calls of the driver as driver.h declares them, against NVIDIA's list of their versions, where
 * it is installed. A driver gives what a call was in the version of CUDA that it is asked for. */
#include <stdio.h>
#include <stdlib.h>

#include "../../../modules/cuda/gpu/driver.h"
#include "harness.h"

enum { AS_OF = 12000 };

static int arguments_of(const char *list, char end)
{
    int count = 1;
    for (; *list != end; list++)
        count += *list == ',';
    return count;
}

/* How many arguments the newest version up to AS_OF has; 0 if there is none. */
static int expected_arguments(const char *header, const char *name)
{
    char prefix[64];
    long newest = 0;
    int count = 0;
    snprintf(prefix, sizeof prefix, "*PFN_cu%s_v", name);
    for (const char *at = header; (at = strstr(at, prefix));) {
        char *end;
        long version = strtol(at += strlen(prefix), &end, 10);
        if (*end != ')' || version > AS_OF || version < newest) /* another, or of other streams */
            continue;
        newest = version;
        count = arguments_of(end + 2, ';');
    }
    return count;
}

YK_TEST(calls_are_declared_as_the_driver_has_them)
{
    static const struct {
        const char *name, *arguments;
    } calls[] = {
#define CALL(name_, arguments_) {#name_, #arguments_},
        YKI_CUDA_CALLS(CALL)
#undef CALL
    };
    FILE *file = fopen("/usr/local/cuda/include/cudaTypedefs.h", "re");
    if (!file)
        skip_because("NVIDIA's cudaTypedefs.h is not installed");
    static char header[1 << 20];
    header[fread(header, 1, sizeof header - 1, file)] = '\0';
    fclose(file);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        int expected = expected_arguments(header, calls[i].name);
        int declared = arguments_of(calls[i].arguments, '\0');
        if (declared != expected)
            fail_msg("cu%s has %d arguments in CUDA %d.%d, not %d", calls[i].name, expected,
                     AS_OF / 1000, AS_OF % 1000 / 10, declared);
    }
}

/* Files of data sets made by commands of the shell, and the names of their samples. */
#ifndef SHELL_H
#define SHELL_H

#include "harness.h"

#include <stdlib.h>

/* Runs commands in the test's folder, with SEEDS naming the folder of the pictures. */
static inline void shell(const char *commands)
{
    char output[4096];
    const char *source = getenv("YOKE_SOURCE");
    int code =
        yk_test_command(output, sizeof output, "set -e; SEEDS=%s/tests/fuzz/corpus; cd %s; %s",
                        source ? source : ".", yk_test_directory(), commands);
    if (code != 0)
        fail_msg("%s", output);
}

/* Valid until the next call. */
static inline const char *sample_name(const yk_dataset *dataset, int64_t index)
{
    static char name[512];
    yk_dataset_sample_name(dataset, index, name, sizeof name);
    return name;
}

#endif

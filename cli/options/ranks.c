#include "options/ranks.h"

#include <stdlib.h>
#include <string.h>

#include <yoke/system.h>

cli_ranks cli_ranks_read(const char *text, int most)
{
    int gpus = 0;
    if (strcmp(text, "auto") == 0 || strcmp(text, "cpu") == 0)
        return (cli_ranks){yk_threads_default(1), true};
    if (strcmp(text, "gpu") == 0) {
        bool found = yk_device_count("cuda", &gpus) == YK_OK && gpus <= most;
        return (cli_ranks){found ? gpus : 0, true};
    }
    char *end;
    long count = strtol(text, &end, 10);
    bool good = end != text && !*end && count >= 1 && count <= most;
    return (cli_ranks){good ? (int)count : 0, false};
}

/* Which process is which rank, how many threads it gets, and small messages between ranks. */
#define _GNU_SOURCE
#include "setup/setup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <yoke/backend.h>

#include "cli.h"
#include "launch/launch.h"
#include "options/options.h"

static int64_t environment_number(const char *name)
{
    const char *text = getenv(name);
    return text ? atoll(text) : 0;
}

bool cli_is_rank(void)
{
    yk_place place;
    return yk_group_place(&place) != YK_OK || place.source;
}

int64_t cli_ranks_expected(cli_ranks nproc)
{
    yk_place place;
    if (yk_group_place(&place) == YK_OK && place.source)
        return place.world_size;
    return nproc.count > 0 ? nproc.count : 1;
}

bool cli_check_backends(const char *name, const char *backends)
{
    char names[256];
    snprintf(names, sizeof names, "%s", backends ? backends : "");
    for (char *rest = names, *backend; backends && (backend = strsep(&rest, ","));)
        if (yk_backend_check(backend) != YK_OK) {
            cli_usage_error(name, "--backend %s: %s", backends, cli_reason());
            return false;
        }
    return true;
}

int cli_launch_self(const char *name, cli_ranks nproc, double grace_s, bool prints_result, int argc,
                    char **argv)
{
    yk_place place;
    if (!cli_ok(yk_group_place(&place)))
        return CLI_EXIT_FAILED;
    if (place.source && nproc.count > 0 && !nproc.counted && nproc.count != place.world_size)
        return cli_usage_error(name, "--nproc %d, but %s says that there are %d ranks", nproc.count,
                               place.source, place.world_size);
    if (place.source || nproc.count <= 1)
        return -1;

    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    char **program = calloc((size_t)argc + 2, sizeof *program);
    if (length < 0 || !program) {
        cli_complain("cannot start this program again: /proc/self/exe cannot be read");
        free(program);
        return 1;
    }
    self[length] = '\0';
    program[0] = self;
    memcpy(program + 1, argv, (size_t)argc * sizeof *program); /* argv[0] names the command */
    cli_launch launch = cli_launch_defaults();
    launch.name = name;
    launch.ranks = nproc.count;
    launch.program = program;
    launch.grace_s = grace_s;
    launch.rank0_speaks = true;
    launch.prints_result = prints_result;
    int code = cli_launch_run(&launch);
    free(program);
    return code;
}

int cli_threads(int64_t wanted, int local_ranks, const char **source)
{
    int64_t from_environment = environment_number("OMP_NUM_THREADS");
    if (wanted > 0) {
        *source = "--threads";
        return (int)wanted;
    }
    if (from_environment > 0 && from_environment <= CLI_MAX_THREADS) {
        *source = cli_threads_are_chosen() ? "cores / local ranks" : "OMP_NUM_THREADS";
        return (int)from_environment;
    }
    *source = "cores / local ranks";
    return yk_threads_default(local_ranks);
}

bool cli_share_text(yk_group *world, char *text, size_t size)
{
    return cli_ok(yk_broadcast(world, text, size, YK_U8, 0, NULL));
}

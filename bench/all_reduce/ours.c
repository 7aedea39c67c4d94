/*
 * yoke's all-reduce on buffers that all ranks can read, as DDP uses it. Start it with
 * `yoke run --nproc-per-node N -- ours [BACKEND]`; rank 0 prints microseconds by size as JSON. With
 * `ours BACKEND BYTES ROUNDS` it reduces that often, for who counts what is sent, and with
 * `ours BACKEND BYTES ROUNDS all_gather` it gathers so many bytes of all ranks.
 */
#define _GNU_SOURCE
#include <yoke/yoke.h>

#include "measure.h"

static yk_group *group;

static void all_reduce(float *data, size_t count)
{
    YK_CHECK(yk_all_reduce(group, data, count, YK_F32, YK_REDUCE_SUM, NULL));
}

static void all_gather(float *data, size_t count)
{
    size_t each = count / (size_t)yk_group_size(group);
    YK_CHECK(
        yk_all_gather(group, data, data + (size_t)yk_group_rank(group) * each, each, YK_F32, NULL));
}

int main(int argc, char **argv)
{
    yk_group_options options = YK_GROUP_OPTIONS_INIT;
    options.backend = argc > 1 ? argv[1] : NULL;
    YK_CHECK(yk_group_init(&group, &options));
    void *memory;
    YK_CHECK(yk_group_alloc(group, MEASURED_MAX_BYTES, &memory));
    if (argc > 3)
        for (int left = atoi(argv[3]); left > 0; left--)
            (argc > 4 ? all_gather : all_reduce)(memory,
                                                 strtoul(argv[2], NULL, 10) / sizeof(float));
    else
        measure_all_sizes(all_reduce, memory, yk_group_rank(group), yk_group_size(group));
    yk_group_destroy(group);
    return 0;
}

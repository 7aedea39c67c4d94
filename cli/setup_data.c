/*
 * Opening data. Only rank 0 looks for CIFAR-10 and downloads it. This may take longer than the
 * timeout of a collective, so it runs on a thread while the ranks synchronise every second.
 */
#define _GNU_SOURCE
#include "setup.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "download.h"

enum { PATH_SIZE = 4096 };

typedef struct search {
    char path[PATH_SIZE], error[512];
    yk_status status;
    atomic_int done;
} search;

static void *look_for_cifar10(void *argument)
{
    search *found = argument;
    found->status = cli_cifar10_download(found->path, sizeof found->path);
    snprintf(found->error, sizeof found->error, "%s", yk_last_error());
    atomic_store(&found->done, 1);
    return NULL;
}

/* What the ranks agree on about once a second: the largest of each. */
typedef struct progress {
    int32_t done, stop_signal;
} progress;

/* Waits up to a second for rank 0's thread, then tells all ranks whether it has ended. */
static bool agree_on_data(search *found, yk_group *world, progress *now)
{
    for (int i = 0; yk_group_rank(world) == 0 && i < 200 && !atomic_load(&found->done); i++)
        nanosleep(&(struct timespec){.tv_nsec = i < 20 ? 200000 : 5000000}, NULL);
    *now = (progress){.done = atomic_load(&found->done), .stop_signal = yk_stop_signal()};
    return cli_ok(yk_all_reduce(world, now, 2, YK_I32, YK_REDUCE_MAX, NULL));
}

/* Writes the folder of CIFAR-10 to path, on all ranks. */
static bool find_cifar10(char path[PATH_SIZE], yk_group *world, int *stop_signal)
{
    static search found; /* outlives a search that is given up */
    progress now = {.done = 0};
    pthread_t thread;
    found = (search){.done = 0};
    bool here = yk_group_rank(world) == 0, fine = true;
    if (here && pthread_create(&thread, NULL, look_for_cifar10, &found))
        return cli_complain("cannot start a thread");
    while (fine && !now.done && !now.stop_signal)
        fine = agree_on_data(&found, world, &now);
    if (!now.done && now.stop_signal) {
        *stop_signal = now.stop_signal;
        return here ? cli_complain("stopped before the data was there; no step was trained")
                    : false;
    }
    if (here) {
        pthread_join(thread, NULL);
        if (fine && found.status) {
            fprintf(stderr, "%s\n", found.error);
            found.path[0] = '\0';
        }
    }
    fine = fine && cli_share_text(world, found.path, sizeof found.path);
    memcpy(path, found.path, PATH_SIZE);
    if (fine && !path[0] && !here) /* rank 0 has said why and leaves: that is what we wait for */
        return cli_ok(yk_barrier(world)) && false;
    return fine && path[0];
}

bool cli_open_data(yk_dataset **train, yk_dataset **test, yk_group *world, const char *data,
                   int *stop_signal)
{
    *train = *test = NULL;
    *stop_signal = 0;
    if (strcmp(data, "synthetic") == 0)
        return cli_ok(yk_synthetic_create(train, YK_SPLIT_TRAIN, NULL)) &&
               cli_ok(yk_synthetic_create(test, YK_SPLIT_TEST, NULL));
    char path[PATH_SIZE];
    if (strcmp(data, "cifar10") == 0) {
        if (!find_cifar10(path, world, stop_signal))
            return false;
        data = path;
    }
    return cli_ok(yk_cifar10_open(train, data, YK_SPLIT_TRAIN)) &&
           cli_ok(yk_cifar10_open(test, data, YK_SPLIT_TEST));
}

int cli_field_index(const yk_dataset *dataset, const char *name)
{
    for (int i = 0; i < yk_dataset_field_count(dataset); i++)
        if (strcmp(yk_dataset_field(dataset, i)->name, name) == 0)
            return i;
    return -1;
}

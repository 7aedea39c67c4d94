/*
 * Opening data. Only rank 0 downloads. This may take longer than the timeout of a collective, so it
 * runs on a thread while the ranks synchronise every second.
 */
#define _GNU_SOURCE
#include "setup/setup.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/plural.h"
#include "setup/download.h"

/* ---- downloading ----------------------------------------------------------------------------- */

typedef struct search {
    const cli_data_kind *kind;
    char path[CLI_DATA_PATH], error[512];
    yk_status status;
    atomic_int done;
} search;

static void *download(void *argument)
{
    search *found = argument;
    found->status = cli_download(found->path, sizeof found->path, found->kind->name);
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

/* Writes the folder of the kind's data to path, on all ranks. */
static bool download_data(char path[CLI_DATA_PATH], const cli_data_kind *kind, yk_group *world,
                          int *stop_signal)
{
    static search found; /* outlives a search that is given up */
    progress now = {.done = 0};
    pthread_t thread;
    found = (search){.kind = kind};
    bool here = yk_group_rank(world) == 0, fine = true;
    if (here && pthread_create(&thread, NULL, download, &found))
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
    memcpy(path, found.path, CLI_DATA_PATH);
    if (fine && !path[0] && !here) /* rank 0 has said why and leaves: that is what we wait for */
        return cli_ok(yk_barrier(world)) && false;
    return fine && path[0];
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Holds out the given part of the training data, the same samples in every run. */
static bool split_data(yk_dataset **train, yk_dataset **test, yk_dataset *whole, double part)
{
    int64_t size = yk_dataset_size(whole), count = llround(part * (double)size);
    if (count == 0 || count == size)
        return cli_complain("--val-split %g: of %lld %s in %s none would be left for %s", part,
                            (long long)size, cli_plural(size, "image", "images"),
                            yk_dataset_name(whole), count == 0 ? "validation" : "training");
    return cli_ok(yk_dataset_random_split(train, test, whole, size - count, 0));
}

/* Behind training data. Those who name their validation data in the same text need no advice. */
static bool open_validation(yk_dataset **test, const char *data, const char *path)
{
    yk_status status = cli_data_open(test, data, path, YK_SPLIT_TEST);
    if (status != YK_ERROR_NOT_FOUND || strstr(data, "::"))
        return cli_ok(status);
    fprintf(stderr, "%s (--val-split keeps part of the training images for validation)\n",
            yk_last_error());
    return false;
}

static bool open_splits(yk_dataset **train, yk_dataset **test, const cli_data_setup *setup,
                        const char *path)
{
    yk_dataset *whole = NULL;
    if (setup->val_split > 0) {
        bool fine = cli_ok(cli_data_open(&whole, setup->data, path, YK_SPLIT_TRAIN)) &&
                    split_data(train, test, whole, setup->val_split);
        yk_dataset_destroy(whole); /* its parts keep it alive */
        return fine;
    }
    return cli_ok(cli_data_open(train, setup->data, path, YK_SPLIT_TRAIN)) &&
           open_validation(test, setup->data, path);
}

bool cli_open_data(yk_dataset **train, yk_dataset **test, yk_group *world,
                   const cli_data_setup *setup, int *stop_signal)
{
    char path[CLI_DATA_PATH];
    const char *detail, *downloaded = NULL;
    const cli_data_kind *kind = cli_data_kind_of(setup->data, &detail);
    yk_dataset *unused = NULL;
    if (train)
        *train = NULL;
    *test = NULL;
    *stop_signal = 0;
    if (cli_data_is_download(kind, detail)) {
        if (!download_data(path, kind, world, stop_signal))
            return false;
        downloaded = path;
    }
    bool fine = !train && setup->val_split == 0
                    ? cli_ok(cli_data_open(test, setup->data, downloaded, YK_SPLIT_TEST))
                    : open_splits(train ? train : &unused, test, setup, downloaded);
    yk_dataset_destroy(unused);
    if (fine && yk_dataset_size(*test) == 0)
        return cli_complain("%s: there are 0 images for validation", setup->data);
    return fine;
}

bool cli_find_images(yk_field *images, const yk_dataset *dataset)
{
    const yk_field *found = yk_dataset_find_field(dataset, "images");
    const yk_field *labels = yk_dataset_find_field(dataset, "labels");
    const char *name = yk_dataset_name(dataset);
    if (!found || !labels || labels->dtype != YK_I32 || labels->ndim != 0)
        return cli_complain("%s has no images with labels: the program trains classifiers", name);
    if (yk_dataset_classes(dataset) < 1)
        return cli_complain("%s does not say how many classes it has", name);
    if (found->kind == YK_FIELD_TENSOR && found->dtype != YK_F32)
        return cli_complain("%s: images are numbers of type %s, and networks take float32: save "
                            "x.astype(\"float32\")",
                            name, yk_dtype_name(found->dtype));
    *images = *found;
    return true;
}

int cli_field_index(const yk_dataset *dataset, const char *name)
{
    for (int i = 0; i < yk_dataset_field_count(dataset); i++)
        if (strcmp(yk_dataset_field(dataset, i)->name, name) == 0)
            return i;
    return -1;
}

const char *cli_class_text(const yk_dataset *dataset, int64_t label)
{
    static char number[24];
    const char *name = yk_dataset_class_name(dataset, label);
    snprintf(number, sizeof number, "%lld", (long long)label);
    return name ? name : number;
}

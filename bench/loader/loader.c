/*
 * How many pictures per second one worker of a loader prepares; or, for comparison, how many
 * memcpy moves, if each picture is read once and written once. Prints one line of JSON: pictures
 * per second, and pictures per second of processor time, after an epoch of warming up.
 *
 * usage: loader folder|pack PATH TRANSFORMS EPOCHS
 *        loader memcpy BYTES_READ BYTES_WRITTEN EPOCHS
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <yoke/readers.h>
#include <yoke/system.h>

enum { BATCH = 64, RING = 3 * BATCH };

static double seconds(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- a loader -------------------------------------------------------------------------------- */

static yk_loader *make_loader(char **argv)
{
    yk_dataset *dataset;
    yk_loader *loader;
    YK_CHECK((strcmp(argv[1], "pack") == 0 ? yk_pack_open : yk_folder_open)(&dataset, argv[2],
                                                                            YK_SPLIT_TRAIN));
    yk_loader_options options = YK_LOADER_OPTIONS_INIT;
    options.batch_size = BATCH;
    options.shuffle = true;
    options.transforms = argv[3];
    YK_CHECK(yk_loader_create(&loader, dataset, &options));
    yk_dataset_destroy(dataset);
    return loader;
}

static int64_t read_epoch(yk_loader *loader)
{
    int64_t count = 0;
    for (const yk_batch *batch; (batch = yk_loader_next(loader));)
        count += batch->size;
    YK_CHECK(yk_loader_status(loader));
    return count;
}

/* ---- memcpy ---------------------------------------------------------------------------------- */

typedef struct copies {
    size_t read, written;                  /* bytes of a picture */
    uint8_t *source, *scratch, *from, *to; /* RING pictures, one, one, RING */
} copies;

static copies make_copies(char **argv)
{
    copies c = {.read = (size_t)atol(argv[2]), .written = (size_t)atol(argv[3])};
    c.source = calloc(RING, c.read);
    c.scratch = calloc(1, c.read);
    c.from = calloc(1, c.written);
    c.to = calloc(RING, c.written);
    if (!c.source || !c.scratch || !c.from || !c.to)
        exit(1);
    memset(c.source, 1, RING * c.read);
    return c;
}

static int64_t copy_epoch(const copies *c)
{
    for (size_t i = 0; i < RING; i++) {
        memcpy(c->scratch, c->source + i * c->read, c->read);
        memcpy(c->to + i * c->written, c->from, c->written);
        __asm__ volatile("" ::: "memory");
    }
    return RING;
}

/* ---- measuring ------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    int epochs = argc == 5 ? atoi(argv[4]) : 0;
    if (epochs < 1) {
        fprintf(stderr, "usage: loader folder|pack PATH TRANSFORMS EPOCHS\n"
                        "       loader memcpy BYTES_READ BYTES_WRITTEN EPOCHS\n");
        return 2;
    }
    bool copying = strcmp(argv[1], "memcpy") == 0;
    yk_loader *loader = copying ? NULL : make_loader(argv);
    copies moved = {.read = 0};
    if (copying)
        moved = make_copies(argv);
    int64_t count = 0;
    double wall = 0, cpu = 0;
    for (int i = -1; i < epochs; i++) {
        if (i == 0) {
            wall = seconds(CLOCK_MONOTONIC);
            cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
            count = 0;
        }
        count += copying ? copy_epoch(&moved) : read_epoch(loader);
    }
    wall = seconds(CLOCK_MONOTONIC) - wall;
    cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    printf("{\"wall\": %.1f, \"cpu\": %.1f}\n", (double)count / wall, (double)count / cpu);
    yk_loader_destroy(loader);
    return 0;
}

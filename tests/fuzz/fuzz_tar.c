/* CIFAR-10's archive as it is unpacked: nothing else may come out of it, and nowhere else. */
#define _GNU_SOURCE
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/download/download.h"

static char folder[64];

static void remove_folder(void)
{
    rmdir(folder);
}

/* Deletes what has been unpacked. */
static void empty_folder(void)
{
    DIR *entries = opendir(folder);
    if (!entries)
        abort();
    for (const struct dirent *entry; (entry = readdir(entries));)
        if (entry->d_name[0] != '.' && unlinkat(dirfd(entries), entry->d_name, 0) != 0)
            abort();
    closedir(entries);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int version;
    if (!folder[0]) {
        snprintf(folder, sizeof folder, "/dev/shm/yoke-fuzz-XXXXXX"); /* where syncing is free */
        if (!mkdtemp(folder) || atexit(remove_folder) != 0)
            abort();
    }
    const char *path = fuzz_file(data, size);
    fuzz_begin(size);
    fuzz_check(yki_unpack(&yki_cifar10_archive, path, folder, &version));
    empty_folder();
    fuzz_end();
    return 0;
}

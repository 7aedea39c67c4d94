/*
 * Feeds a target every file of the folders given, and 200 damaged copies of each: the corpus as a
 * test, where there is no clang.
 */
#define _GNU_SOURCE
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DAMAGED = 200 };

/* Copies that end early, and others of which up to three bytes are changed, every other time near
 * the beginning. Each has memory of its own size, so that a sanitizer sees reads beyond. */
static void replay_damaged(const uint8_t *data, size_t size)
{
    uint32_t random = 1;
    for (size_t i = 0; i < DAMAGED && size > 0; i++) {
        size_t left = i % 4 ? size : size * i / DAMAGED, near = i % 8 < 4 && left > 64 ? 64 : left;
        uint8_t *copy = malloc(left ? left : 1);
        if (!copy)
            abort();
        memcpy(copy, data, left);
        for (size_t k = 0; k < i % 4; k++) {
            random = random * 1664525 + 1013904223;
            copy[(random >> 8) % near] ^= (uint8_t)(1 + (random >> 25));
        }
        LLVMFuzzerTestOneInput(copy, left);
        free(copy);
    }
}

/* A file's bytes, exactly as many as it has, so that a sanitizer sees reads beyond. */
static int replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0)
        return perror(path), 1;
    size_t size = (size_t)ftell(file);
    uint8_t *data = malloc(size ? size : 1);
    rewind(file);
    int failed = !data || fread(data, 1, size, file) != size;
    fclose(file);
    if (failed) {
        perror(path);
    } else {
        LLVMFuzzerTestOneInput(data, size);
        replay_damaged(data, size);
    }
    free(data);
    return failed;
}

static int replay_folder(const char *folder, int *count)
{
    int failed = 0;
    DIR *entries = opendir(folder);
    if (!entries)
        return perror(folder), 1;
    for (const struct dirent *entry; (entry = readdir(entries));) {
        char path[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        failed |= replay_file(path);
        ++*count;
    }
    closedir(entries);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0, count = 0;
    for (int i = 1; i < argc; i++)
        failed |= replay_folder(argv[i], &count);
    printf("%d inputs, and %d damaged copies of each\n", count, DAMAGED);
    return failed || count == 0;
}

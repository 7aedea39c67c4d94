/* See fuzz.h. Files are memfds, so that millions of them cost no disk. */
#define _GNU_SOURCE
#include "fuzz.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- memory --------------------------------------------------------------------------------- */

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define COUNTS_MEMORY 1
#endif
#endif

#ifdef COUNTS_MEMORY
#include <sanitizer/allocator_interface.h>

static _Thread_local bool counting;
static _Thread_local size_t held, limit;

static void allocated(const volatile void *memory, size_t size)
{
    (void)memory;
    held += counting ? size : 0;
    if (counting && held > limit) {
        fprintf(stderr, "holds %zu bytes where the input allows %zu\n", held, limit);
        abort();
    }
}

/* Memory from before the target began may be freed too: what is held stays above zero. */
static void freed(const volatile void *memory)
{
    size_t size = memory && counting ? __sanitizer_get_allocated_size(memory) : 0;
    held -= size < held ? size : held;
}

void fuzz_begin(size_t size)
{
    static bool installed;
    if (!installed)
        __sanitizer_install_malloc_and_free_hooks(allocated, freed);
    installed = true;
    held = 0;
    limit = size * FUZZ_FACTOR + FUZZ_SLACK;
    counting = true;
}

void fuzz_end(void)
{
    counting = false;
}
#else
void fuzz_begin(size_t size)
{
    (void)size;
}

void fuzz_end(void)
{
}
#endif

/* ---- files ---------------------------------------------------------------------------------- */

static void fail(const char *what)
{
    perror(what);
    abort();
}

const char *fuzz_file(const uint8_t *data, size_t size)
{
    static char path[64];
    static int fd = -1;
    if (fd < 0) {
        fd = memfd_create("fuzz", MFD_CLOEXEC);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        fail("a file for the input");
    return path;
}

static char folder[64];

static void remove_folder(void)
{
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0)
        perror(command);
}

const char *fuzz_folder(const char *name)
{
    char link[128];
    if (folder[0])
        return folder;
    snprintf(folder, sizeof folder, "/tmp/yoke-fuzz-XXXXXX");
    if (!mkdtemp(folder))
        fail("a folder for the input");
    atexit(remove_folder);
    snprintf(link, sizeof link, "%s/%s", folder, name);
    if (symlink(fuzz_file(NULL, 0), link) != 0)
        fail(link);
    return folder;
}

/* ---- errors --------------------------------------------------------------------------------- */

void fuzz_check(yk_status status)
{
    const char *line = yk_last_error();
    if (status == YK_OK)
        return;
    if (!*line || strchr(line, '\n') || status == YK_ERROR_INTERNAL) {
        fprintf(stderr, "status %d with the line \"%s\"\n", (int)status, line);
        abort();
    }
}

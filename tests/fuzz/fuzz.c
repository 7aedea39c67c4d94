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

#if defined(__has_feature) /* clang's; gcc defines a macro */
#if __has_feature(address_sanitizer)
#define SANITIZES_ADDRESSES 1
#endif
#if __has_feature(thread_sanitizer)
#define SANITIZES_THREADS 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define SANITIZES_ADDRESSES 1
#endif
#ifdef __SANITIZE_THREAD__
#define SANITIZES_THREADS 1
#endif

static _Thread_local bool counting;
static _Thread_local size_t held, limit;

static void allocated(size_t size)
{
    held += counting ? size : 0;
    if (counting && held > limit) {
        counting = false;
        fprintf(stderr, "holds %zu bytes where the input allows %zu\n", held, limit);
        abort();
    }
}

/* Memory from before the target began may be freed too: what is held stays above zero. */
static void freed(size_t size)
{
    if (counting)
        held -= size < held ? size : held;
}

#ifdef SANITIZES_ADDRESSES
/* As in <sanitizer/allocator_interface.h>, which comes with clang but not with gcc. */
size_t __sanitizer_get_allocated_size(const volatile void *memory);
int __sanitizer_install_malloc_and_free_hooks(void (*see_malloc)(const volatile void *, size_t),
                                              void (*see_free)(const volatile void *));

static void see_malloc(const volatile void *memory, size_t size)
{
    (void)memory;
    allocated(size);
}

static void see_free(const volatile void *memory)
{
    freed(memory ? __sanitizer_get_allocated_size(memory) : 0);
}

static void see_memory(void)
{
    static bool installed;
    if (!installed)
        __sanitizer_install_malloc_and_free_hooks(see_malloc, see_free);
    installed = true;
}
#else
static void see_memory(void)
{
}
#ifndef SANITIZES_THREADS /* else it has functions of its own */
#include <malloc.h>

/* The C library's functions. Those below take their place, in shared libraries, too. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void __libc_free(void *memory);

#define EXPORTED __attribute__((visibility("default")))

EXPORTED void *malloc(size_t size)
{
    void *memory = __libc_malloc(size);
    allocated(malloc_usable_size(memory));
    return memory;
}

EXPORTED void *calloc(size_t count, size_t size)
{
    void *memory = __libc_calloc(count, size);
    allocated(malloc_usable_size(memory));
    return memory;
}

/* While a block moves, both are held. */
EXPORTED void *realloc(void *memory, size_t size)
{
    size_t before = malloc_usable_size(memory);
    void *moved = __libc_realloc(memory, size);
    if (moved)
        allocated(malloc_usable_size(moved));
    if (moved || size == 0)
        freed(before);
    return moved;
}

EXPORTED void free(void *memory)
{
    freed(malloc_usable_size(memory));
    __libc_free(memory);
}
#endif
#endif

void fuzz_begin(size_t size)
{
    see_memory();
    held = 0;
    limit = size * FUZZ_FACTOR + FUZZ_SLACK;
    counting = true;
}

void fuzz_end(void)
{
    counting = false;
}

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

/*
 * The fake driver's memory. Each block has pages of its own, between two that are not mapped, and
 * ends where they do, as far as alignment permits; what is left over is checked when the block is
 * freed. The host has no access: a thread gets it while it waits for the device, and runs its work,
 * by protection keys; without them, blocks are opened and closed by mprotect. Work in a stream of
 * one GPU has no access to the memory of another: yoke does not ask for peer access.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "fake_driver.h"
#include "internal.h"

enum { POISON = 0xff, ALIGNMENT = 256 };

typedef struct block {
    struct block *next;
    char *pages;
    size_t span; /* of the pages */
    char *address;
    size_t bytes;
    int gpu;
} block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static block *blocks;
static size_t used[FAKE_GPUS];
static int keys[FAKE_GPUS];

static size_t page(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t total(void)
{
    return (size_t)fake_setting("YK_FAKE_GPU_MEMORY", 4096) << 20;
}

/* ---- access --------------------------------------------------------------------------------- */

static bool all_have_keys;

static void make_keys(void)
{
    all_have_keys = true;
    for (int gpu = 0; gpu < fake_gpu_count(); gpu++) {
        keys[gpu] = pkey_alloc(0, PKEY_DISABLE_ACCESS);
        all_have_keys = all_have_keys && keys[gpu] >= 0;
    }
}

static bool has_keys(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_keys);
    return all_have_keys;
}

/* The GPUs to whose memory this thread has access, by their bits, and how many threads have. */
static _Thread_local unsigned opened;
static int open_count[FAKE_GPUS];

static void protect_blocks(int gpu, int protection)
{
    for (block *b = blocks; b; b = b->next)
        if (b->gpu == gpu)
            mprotect(b->pages, b->span, protection);
}

static void set_access(int gpu, bool access)
{
    pthread_mutex_lock(&lock);
    bool changes = access ? open_count[gpu]++ == 0 : --open_count[gpu] == 0;
    if (changes && !has_keys())
        protect_blocks(gpu, access ? PROT_READ | PROT_WRITE : PROT_NONE);
    pthread_mutex_unlock(&lock);
    if (has_keys())
        pkey_set(keys[gpu], access ? 0 : PKEY_DISABLE_ACCESS);
}

void fake_memory_open(unsigned gpus)
{
    for (int gpu = 0; gpu < fake_gpu_count(); gpu++) {
        bool has = opened >> gpu & 1, wanted = gpus >> gpu & 1;
        if (has != wanted)
            set_access(gpu, wanted);
    }
    opened = gpus;
}

/* ---- blocks --------------------------------------------------------------------------------- */

static bool map_pages(block *b)
{
    size_t whole = b->span + 2 * page();
    char *reserved =
        mmap(NULL, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED)
        return false;
    b->pages = reserved + page();
    mprotect(b->pages, b->span, PROT_READ | PROT_WRITE);
    memset(b->pages, POISON, b->span);
    if (has_keys())
        pkey_mprotect(b->pages, b->span, PROT_READ | PROT_WRITE, keys[b->gpu]);
    else if (open_count[b->gpu] == 0)
        mprotect(b->pages, b->span, PROT_NONE);
    return true;
}

int fake_memory_alloc(yki_cu_address *address, size_t bytes)
{
    int gpu = fake_current();
    if (gpu < 0 || bytes == 0)
        return gpu < 0 ? CU_INVALID_CONTEXT : CU_INVALID_VALUE;
    block *b = calloc(1, sizeof *b);
    pthread_mutex_lock(&lock);
    bool fits = b && bytes <= total() - used[gpu];
    if (fits) {
        *b = (block){.bytes = bytes, .gpu = gpu, .span = yki_align(bytes, page())};
        fits = map_pages(b);
    }
    if (fits) {
        b->address = b->pages + b->span - yki_align(bytes, ALIGNMENT);
        b->next = blocks;
        blocks = b;
        used[gpu] += bytes;
        *address = (yki_cu_address)(uintptr_t)b->address;
    } else {
        free(b);
    }
    pthread_mutex_unlock(&lock);
    return fits ? YKI_CU_SUCCESS : YKI_CU_OUT_OF_MEMORY;
}

static _Noreturn void give_up(const char *what, uint64_t address)
{
    fprintf(stderr, "fake CUDA driver: %s (%#llx)\n", what, (unsigned long long)address);
    abort();
}

static void check_rest(const block *b)
{
    mprotect(b->pages, b->span, PROT_READ | PROT_WRITE);
    if (has_keys())
        pkey_mprotect(b->pages, b->span, PROT_READ | PROT_WRITE, 0);
    for (const char *at = b->pages; at < b->pages + b->span; at++)
        if ((at < b->address || at >= b->address + b->bytes) && (unsigned char)*at != POISON)
            give_up("something has written next to this memory", (uint64_t)(uintptr_t)b->address);
}

int fake_memory_free(yki_cu_address address)
{
    pthread_mutex_lock(&lock);
    block **at = &blocks;
    while (*at && (yki_cu_address)(uintptr_t)(*at)->address != address)
        at = &(*at)->next;
    block *b = *at;
    if (!b)
        give_up("what is freed was not allocated", address);
    *at = b->next;
    used[b->gpu] -= b->bytes;
    check_rest(b);
    if (mmap(b->pages, b->span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
             -1, 0) == MAP_FAILED)
        give_up("its pages cannot be unmapped", address);
    pthread_mutex_unlock(&lock);
    free(b);
    return YKI_CU_SUCCESS;
}

void fake_memory_info(size_t *available, size_t *all)
{
    pthread_mutex_lock(&lock);
    *all = total();
    *available = total() - used[fake_current()];
    pthread_mutex_unlock(&lock);
}

/* ---- pinned memory of the host --------------------------------------------------------------- */

typedef struct pinned_block {
    struct pinned_block *next;
    char *memory;
    size_t bytes;
} pinned_block;

static pinned_block *pinned;
/* How often it was allocated. */
YK_FAKE_EXPORT int yk_fake_pinned;

int fake_pinned_alloc(void **memory, size_t bytes)
{
    pinned_block *made = calloc(1, sizeof *made);
    char *at = bytes ? malloc(bytes) : NULL;
    if (!made || !at) {
        free(made);
        free(at);
        return bytes ? YKI_CU_OUT_OF_MEMORY : CU_INVALID_VALUE;
    }
    memset(at, POISON, bytes);
    *memory = at;
    pthread_mutex_lock(&lock);
    *made = (pinned_block){.next = pinned, .memory = at, .bytes = bytes};
    pinned = made;
    yk_fake_pinned++;
    pthread_mutex_unlock(&lock);
    return YKI_CU_SUCCESS;
}

void fake_pinned_free(void *memory)
{
    pthread_mutex_lock(&lock);
    pinned_block **at = &pinned;
    while (*at && (*at)->memory != memory)
        at = &(*at)->next;
    pinned_block *found = *at;
    if (!found)
        give_up("what is freed was not pinned", (uint64_t)(uintptr_t)memory);
    *at = found->next;
    pthread_mutex_unlock(&lock);
    free(found->memory);
    free(found);
}

bool fake_pinned_has(const void *host, size_t bytes)
{
    const char *begin = host;
    pthread_mutex_lock(&lock);
    const pinned_block *b = pinned;
    while (b && !(begin >= b->memory && begin + bytes <= b->memory + b->bytes))
        b = b->next;
    pthread_mutex_unlock(&lock);
    return b;
}

/* ---- addresses ------------------------------------------------------------------------------ */

static const block *first_that_meets(const char *begin, const char *end)
{
    const block *b = blocks;
    while (b && (end <= b->address || begin >= b->address + b->bytes))
        b = b->next;
    return b;
}

int fake_memory_gpu(uint64_t address, size_t bytes)
{
    const char *begin = (const char *)(uintptr_t)address;
    pthread_mutex_lock(&lock);
    const block *b = first_that_meets(begin, begin + bytes);
    bool inside = b && begin >= b->address && begin + bytes <= b->address + b->bytes;
    int gpu = inside ? b->gpu : -1;
    pthread_mutex_unlock(&lock);
    return gpu;
}

bool fake_memory_meets(const void *host, size_t bytes)
{
    pthread_mutex_lock(&lock);
    bool meets = first_that_meets(host, (const char *)host + bytes);
    pthread_mutex_unlock(&lock);
    return meets;
}

/* ---- for collectives in the streams ---------------------------------------------------------- */

static yk_status find(const void *address, size_t bytes, void **host)
{
    int gpu = fake_memory_gpu((uint64_t)(uintptr_t)address, bytes);
    *host = (void *)(uintptr_t)address;
    if (gpu < 0)
        return yki_error(YK_ERROR_INTERNAL, "fake CUDA driver: %zu bytes at %p are not a GPU's",
                         bytes, address);
    fake_memory_open(1u << gpu);
    return YK_OK;
}

static void leave(void)
{
    fake_memory_open(FAKE_NO_GPU);
}

const yki_sim_foreign fake_memory = {.find = find, .leave = leave};

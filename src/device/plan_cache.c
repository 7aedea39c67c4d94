/*
 * See plan_cache.h. A file is
 *
 *     yoke plan 1
 *     PROBLEM
 *     MICROSECONDS CHECKSUM
 *     TEXT
 */
#define _GNU_SOURCE
#include "device/plan_cache.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/c_locale.h"
#include "base/clock.h"
#include "base/folder.h"
#include "base/log.h"
#include "base/memory.h"

#define PATIENT_S 2.0       /* before a wait is reported */
#define PAUSE_NS  50000000L /* between two looks at the lock */

static const char magic[] = "yoke plan 1\n";
static const long most_bytes = 64 << 20;

/* FNV-1a */
static uint64_t checksum(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    return hash;
}

void yki_plan_cache_folder(char folder[YKI_PLAN_PATH], const char *hardware, const char *library)
{
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    bool xdg = base && base[0] == '/';
    *folder = '\0';
    if (!*hardware || (!xdg && (!home || !*home)))
        return;
    int begin = snprintf(folder, YKI_PLAN_PATH, "%s%s/yoke/plans/", xdg ? base : home,
                         xdg ? "" : "/.cache");
    if (begin + 128 > YKI_PLAN_PATH)
        begin = 0;
    folder[begin] = '\0';
    if (begin == 0)
        return;
    snprintf(folder + begin, 128, "%s-%s", hardware, library);
    for (char *at = folder + begin; *at; at++)
        if (!isalnum((unsigned char)*at) && *at != '.')
            *at = '-';
}

static bool path_of(char path[YKI_PLAN_PATH], const char *folder, const char *problem)
{
    return snprintf(path, YKI_PLAN_PATH, "%s/%016" PRIx64 ".plan", folder, checksum(problem)) <
           YKI_PLAN_PATH;
}

/* ---- reading --------------------------------------------------------------------------------- */

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "re");
    char *text = NULL;
    long bytes = -1;
    if (file && fseek(file, 0, SEEK_END) == 0)
        bytes = ftell(file);
    if (bytes > 0 && bytes < most_bytes && fseek(file, 0, SEEK_SET) == 0)
        text = yki_calloc((size_t)bytes + 1, 1);
    if (text && fread(text, 1, (size_t)bytes, file) != (size_t)bytes) {
        free(text);
        text = NULL;
    }
    if (file)
        fclose(file);
    return text;
}

/* What follows the prefix; NULL if text does not begin with it. */
static char *after(char *text, const char *prefix)
{
    size_t length = strlen(prefix);
    return text && strncmp(text, prefix, length) == 0 ? text + length : NULL;
}

/* The line of numbers; its length, or 0 if it is none. */
static int read_numbers(const char *line, double *microseconds, uint64_t *sum)
{
    int length = 0;
    void *before = yki_c_locale_begin();
    bool read = sscanf(line, "%lf %" SCNx64 "%n", microseconds, sum, &length) == 2;
    yki_c_locale_end(before);
    return read && line[length] == '\n' ? length : 0;
}

/* Where the plan's text begins; NULL if the file is not what it should be. */
static char *check(char *file, const char *problem, double *microseconds)
{
    uint64_t expected;
    char *at = after(after(after(file, magic), problem), "\n");
    int length = at ? read_numbers(at, microseconds, &expected) : 0;
    if (length == 0)
        return NULL;
    at += length + 1;
    return checksum(at) == expected ? at : NULL;
}

char *yki_plan_cache_read(const char *folder, const char *problem, double *microseconds)
{
    char path[YKI_PLAN_PATH];
    *microseconds = 0;
    if (!*folder || !path_of(path, folder, problem))
        return NULL;
    char *file = read_file(path), *text = check(file, problem, microseconds);
    if (text) {
        memmove(file, text, strlen(text) + 1);
        return file;
    }
    free(file);
    return NULL;
}

/* ---- locking --------------------------------------------------------------------------------- */

/* Its holder may be stopped, or on another host that shares the folder. */
static bool wait_for_lock(int lock, const char *path, double seconds)
{
    double begin = yki_now(), waited = 0;
    for (bool said = false; flock(lock, LOCK_EX | LOCK_NB) != 0; waited = yki_now() - begin) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return false;
        if (waited >= seconds) {
            YKI_WARN(
                "%s has been locked by another process for %.0f s: this process chooses for itself",
                path, seconds);
            return false;
        }
        if (waited >= PATIENT_S && !said) {
            YKI_INFO("waiting for another process, which chooses kernels and has locked %s", path);
            said = true;
        }
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
    return true;
}

int yki_plan_cache_lock(const char *folder, double seconds)
{
    char path[YKI_PLAN_PATH + 8];
    if (!*folder || yki_make_folders(folder) != YK_OK)
        return -1;
    snprintf(path, sizeof path, "%s/.lock", folder);
    int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (lock < 0 || wait_for_lock(lock, path, seconds))
        return lock;
    close(lock);
    return -1;
}

void yki_plan_cache_unlock(int lock)
{
    if (lock < 0)
        return;
    flock(lock, LOCK_UN); /* a child process may have inherited it */
    close(lock);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Creates the file, whose name ends with XXXXXX, under a name that no other rank or thread uses. */
static bool write_file(char *path, const char *problem, double microseconds, const char *text)
{
    int fd = mkostemp(path, O_CLOEXEC);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!file) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    void *before = yki_c_locale_begin();
    fprintf(file, "%s%s\n%.3f %016" PRIx64 "\n%s", magic, problem, microseconds, checksum(text),
            text);
    yki_c_locale_end(before);
    bool written = fflush(file) == 0 && !ferror(file);
    return fclose(file) == 0 && written;
}

static void warn(const char *path)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&warned))
        YKI_WARN("%s cannot be written (%s): the next run has to measure its convolutions again",
                 path, strerror(errno));
}

void yki_plan_cache_write(const char *folder, const char *problem, double microseconds,
                          const char *text)
{
    char path[YKI_PLAN_PATH], whole[YKI_PLAN_PATH + 32];
    if (!*folder || !path_of(path, folder, problem))
        return;
    snprintf(whole, sizeof whole, "%s.XXXXXX", path);
    if (yki_make_folders(folder) == YK_OK && write_file(whole, problem, microseconds, text) &&
        rename(whole, path) == 0)
        return;
    warn(path);
    unlink(whole);
}

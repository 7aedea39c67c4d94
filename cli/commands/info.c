/* `yoke info`: what this machine and build offer; for what is missing, why, and how to get it. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <yoke/backend.h>
#include <yoke/system.h>

#include "cli.h"
#include "common/errors.h"
#include "common/plural.h"
#include "options/help.h"
#include "options/options.h"
#include "setup/setup.h"

enum { PATH_BYTES = 4096 };

static void print_vectors(void)
{
    printf("  vectors      ");
#if defined(__x86_64__)
    __builtin_cpu_init();
    printf("%s%s%s%s", __builtin_cpu_supports("avx2") ? " AVX2" : "",
           __builtin_cpu_supports("fma") ? " FMA" : "",
           __builtin_cpu_supports("avx512f") ? " AVX-512" : "",
           yk_cpu_has_bf16() ? " AVX-512-BF16" : "");
#elif defined(__aarch64__)
    printf(" NEON");
#else
    printf(" unknown");
#endif
    printf("\n");
}

static void print_processor(void)
{
    char name[80];
    yk_cpu_name(name, sizeof name);
    printf("  processor     %s\n", name);
    print_vectors();
    printf("  bf16          %s\n",
           yk_cpu_has_bf16() ? "native arithmetic, where it is faster than f32"
                             : "storage only, computed in f32: this processor has no AVX-512 BF16");
    printf("  fp16          storage only, computed in f32\n");
}

static void print_cores(void)
{
    const char *threads = getenv("OMP_NUM_THREADS");
    printf("  cores         %d of %ld may be used (affinity and cgroup limits)\n",
           yk_threads_default(1), sysconf(_SC_NPROCESSORS_ONLN));
    printf("  threads       %d on one rank, %d on each of two%s%s\n", yk_threads_default(1),
           yk_threads_default(2), threads ? "; OMP_NUM_THREADS=" : "", threads ? threads : "");
}

/* The reason why a device is missing, without the word "device" in front. */
static const char *reason_of_device(void)
{
    const char *reason = cli_reason();
    return strncmp(reason, "device ", 7) == 0 ? reason + 7 : reason;
}

/* Prints each device of a type, or why there is none. */
static void print_devices_of(const char *type)
{
    char name[32], text[256];
    int count;
    if (yk_device_count(type, &count) != YK_OK)
        printf("  %s\n", reason_of_device());
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, count > 1 ? "%s:%d" : "%s", type, i);
        bool found = yk_device_describe(name, text, sizeof text) == YK_OK;
        printf("  %s\n", found ? text : reason_of_device());
    }
}

static void print_devices(void)
{
    const char *type;
    for (size_t i = 0; (type = yk_device_type(i)); i++)
        print_devices_of(type);
}

/* The memory for gradients and messages between ranks. */
static void print_shared_memory(void)
{
    struct statvfs space;
    const char *folder = getenv("YOKE_SHM_DIR");
    if (!folder || !*folder)
        printf("  shared memory limited by free RAM, not by the size of /dev/shm\n");
    else if (statvfs(folder, &space))
        printf("  shared memory %s (YOKE_SHM_DIR): %s\n", folder, strerror(errno));
    else
        printf("  shared memory %s (YOKE_SHM_DIR): %.1f of %.1f GiB free\n", folder,
               (double)space.f_bavail * (double)space.f_frsize / (1 << 30),
               (double)space.f_blocks * (double)space.f_frsize / (1 << 30));
}

/* $XDG_CACHE_HOME/yoke or ~/.cache/yoke; false if there is neither. */
static bool find_cache(char *path, size_t size)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    bool xdg = cache && cache[0] == '/';
    if (!xdg && (!home || !*home))
        return false;
    snprintf(path, size, "%s%s/yoke", xdg ? cache : home, xdg ? "" : "/.cache");
    return true;
}

static void print_cache(void)
{
    char path[PATH_BYTES];
    if (find_cache(path, sizeof path))
        printf("  data cache    %s\n", path);
    else
        printf("  data cache    none: neither XDG_CACHE_HOME nor HOME is set\n");
}

static int count_plans(const char *folder)
{
    int count = 0;
    DIR *open = opendir(folder);
    for (struct dirent *entry; open && (entry = readdir(open));) {
        size_t length = strlen(entry->d_name);
        count += length > 5 && strcmp(entry->d_name + length - 5, ".plan") == 0;
    }
    if (open)
        closedir(open);
    return count;
}

/* Prints for how many convolutions the fastest plan is known, for each GPU or processor and version
 * of its library. */
static void print_plans(void)
{
    char cache[PATH_BYTES], path[PATH_BYTES + 8], folder[2 * PATH_BYTES];
    if (!find_cache(cache, sizeof cache))
        return;
    snprintf(path, sizeof path, "%s/plans", cache);
    DIR *open = opendir(path);
    for (struct dirent *entry; open && (entry = readdir(open));) {
        snprintf(folder, sizeof folder, "%s/%s", path, entry->d_name);
        int count = entry->d_name[0] == '.' ? 0 : count_plans(folder);
        if (count > 0)
            printf("  plans         %s: %d %s\n", entry->d_name, count,
                   cli_plural(count, "convolution", "convolutions"));
    }
    if (open)
        closedir(open);
}

static void print_backends(void)
{
    printf("\nBackends\n"
           "  self: one rank\n"
           "  shm: ranks of one machine, through shared memory\n"
           "  tcp: ranks of several machines, over TCP\n");
    const char *file, *backend;
    for (size_t i = 0; (file = yk_backend_module_file(i, &backend)); i++) {
        bool gpus = strcmp(backend, "nccl") == 0;
        const char *what = gpus ? "memory of NVIDIA GPUs" : "ranks of several machines";
        printf("  %s (%s): %s\n", backend, file,
               yk_backend_module_check(i) == YK_OK ? what : cli_reason());
    }
}

/* The mixed-precision policy of each operator, and how to override it. */
static int print_autocast(void)
{
    const char *op, *policy;
    for (size_t i = 0; yk_autocast_policy(i, &op, &policy); i++)
        printf("%-18s %s\n", op, policy);
    printf("\nWith --amp bf16|fp16: low runs in 16 bit, full in f32, follow in 16 bit where all\n"
           "its inputs are; weights, their gradients and norms' statistics stay in f32.\n"
           "Exceptions: --autocast OP=low|full|follow,...\n");
    return CLI_EXIT_OK;
}

/* The optional parts of the build and, for missing ones, how to get them. */
static void print_build(void)
{
    printf("\nBuild\n");
    printf("  downloads     %s\n",
           yk_download_supported()
               ? "yes (libcurl, libarchive)"
               : "no: install libcurl and libarchive, configure with -DYOKE_DOWNLOAD=ON");
    const char *formats = yk_image_formats();
    printf("  image files   %s%s\n", formats ? "" : "no: ", formats ? formats : cli_reason());
}

int cli_cmd_info(const char *name, int argc, char **argv)
{
    bool autocast = false;
    const cli_option options[] = {
        CLI_SWITCH(0, "autocast", "list the mixed-precision policy of each operator", &autocast),
    };
    const cli_command command = {.name = name,
                                 .operands = "",
                                 .summary =
                                     "Shows what this machine and this build of yoke support.",
                                 .options = options,
                                 .option_count = sizeof options / sizeof *options};
    int code = cli_options_parse(&command, argc, argv, NULL, NULL);
    if (code >= 0)
        return code;
    if (autocast)
        return print_autocast();
    struct utsname system;
    uname(&system);
    printf("yoke %s\n\nMachine\n  system        %s %s, %s\n", yk_build(), system.sysname,
           system.release, system.machine);
    print_processor();
    print_cores();
    print_shared_memory();
    print_cache();
    print_plans();
    print_build();
    printf("\nDevices\n");
    print_devices();
    print_backends();
    printf("\nNetworks\n");
    cli_print_choices(cli_arch_choices(), 2);
    return CLI_EXIT_OK;
}

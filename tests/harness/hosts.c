/* See hosts.h. `hosts make` runs as a child of the test and is killed with it. */
#define _GNU_SOURCE
#include "hosts.h"
#include "clock.h"
#include "processes.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_RANKS = 256, START_DEADLINE_S = 20, PORT = 29500 };

static char folder[128], script[512];
static pid_t maker;

static void run_script(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void find_script(void)
{
    const char *source = getenv("YOKE_SOURCE");
    if (!source)
        fail_msg("YOKE_SOURCE does not say where the sources are");
    snprintf(script, sizeof script, "%.400s/tests/hosts/hosts", source);
}

static void run_script(const char *format, ...)
{
    char arguments[256], output[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(arguments, sizeof arguments, format, list);
    va_end(list);
    if (yk_test_command(output, sizeof output, "%s %s", script, arguments))
        fail_msg("hosts %s: %s", arguments, output);
}

static void remove_hosts(void)
{
    kill(maker, SIGKILL);
    waitpid(maker, NULL, 0);
    maker = 0;
}

static void await_ready(void)
{
    char ready[160];
    snprintf(ready, sizeof ready, "%s/ready", folder);
    for (double deadline = yk_test_now() + START_DEADLINE_S; access(ready, F_OK);) {
        if (waitpid(maker, NULL, WNOHANG) != 0 || yk_test_now() > deadline)
            fail_msg("the hosts could not be made");
        usleep(2000);
    }
}

void yk_test_hosts(int count)
{
    static int made;
    char why[1024], number[16];
    find_script();
    if (yk_test_command(why, sizeof why, "%s check", script))
        skip_because("%s", why);
    if (maker)
        remove_hosts();
    else
        atexit(remove_hosts);
    snprintf(folder, sizeof folder, "%s/hosts-%d", yk_test_directory(), made++);
    snprintf(number, sizeof number, "%d", count);
    maker = yk_test_fork();
    if (maker == 0) {
        execl(script, "hosts", "make", folder, number, (char *)NULL);
        _exit(127);
    }
    await_ready();
}

const char *yk_test_on(int host)
{
    static char words[700];
    snprintf(words, sizeof words, "%s on %s n%d ", script, folder, host);
    return words;
}

const char *yk_test_hosts_folder(void)
{
    return folder;
}

const char *yk_test_address(int host)
{
    static char address[32];
    snprintf(address, sizeof address, "10.77.0.%d", host);
    return address;
}

const char *yk_test_ssh(void)
{
    static char path[160];
    char output[1024];
    if (access("/usr/sbin/sshd", X_OK))
        skip_because("sshd is missing (openssh-server)");
    if (yk_test_command(output, sizeof output, "%s ssh %s", script, folder))
        fail_msg("sshd does not start: %s", output);
    snprintf(path, sizeof path, "%s/ssh", folder);
    return path;
}

void yk_test_only_ipv6(void)
{
    run_script("ipv6 %s", folder);
}

void yk_test_cut(int host)
{
    run_script("cut %s n%d", folder, host);
}

void yk_test_restore(int host)
{
    run_script("restore %s n%d", folder, host);
}

void yk_test_limit_rate(int host, const char *rate)
{
    run_script("rate %s n%d %s", folder, host, rate);
}

void yk_test_kill_host(int host)
{
    run_script("cut %s n%d", folder, host); /* the kernel of a host without power sends no FIN */
    run_script("kill %s n%d", folder, host);
}

uint64_t yk_test_bytes_sent(int host)
{
    char output[64];
    assert_int_equal(yk_test_command(output, sizeof output, "%s sent %s n%d", script, folder, host),
                     0);
    return strtoull(output, NULL, 10);
}

/* The first rank of a host: hosts have equal numbers of ranks, or the last ones have one less. */
static int first_rank(int host, int hosts, int world)
{
    return (world * (host - 1) + hosts - 1) / hosts;
}

static pid_t start_rank(int rank, int host, int hosts, int world)
{
    int first = first_rank(host, hosts, world), next = first_rank(host + 1, hosts, world);
    const yk_test_place place = {.rank = rank,
                                 .local_rank = rank - first,
                                 .world = world,
                                 .local_world = next - first,
                                 .host = host - 1,
                                 .master = yk_test_address(1),
                                 .port = PORT};
    pid_t pid = yk_test_fork_rank(&place);
    if (pid > 0)
        return pid;
    char name[16], program[512] = "";
    snprintf(name, sizeof name, "n%d", host);
    if (readlink("/proc/self/exe", program, sizeof program - 1) > 0)
        execl(script, "hosts", "on", folder, name, program, yk_test_running_case(), (char *)NULL);
    _exit(127);
}

void yk_test_spread_ranks(int hosts, int world, pid_t *pids)
{
    yk_test_hosts(hosts);
    for (int host = 1; host <= hosts; host++)
        for (int rank = first_rank(host, hosts, world); rank < first_rank(host + 1, hosts, world);
             rank++)
            pids[rank] = start_rank(rank, host, hosts, world);
}

void yk_test_host_ranks(int hosts, int local, void (*body)(int rank, int world), int *statuses,
                        void (*after_start)(void))
{
    yk_test_run_as_rank(body, hosts * local);
    assert_true(hosts * local <= MAX_RANKS);
    pid_t pids[MAX_RANKS];
    int own[MAX_RANKS];
    yk_test_spread_ranks(hosts, hosts * local, pids);
    if (after_start)
        after_start();
    yk_test_await_ranks(hosts * local, pids, statuses ? statuses : own);
    if (!statuses)
        yk_test_assert_ranks(hosts * local, own);
}

static ino_t process_namespace(const char *pid)
{
    char path[300];
    struct stat info;
    snprintf(path, sizeof path, "/proc/%s/ns/pid", pid);
    return stat(path, &info) ? 0 : info.st_ino;
}

/* host 0: on any. `nsenter`, which has the environment of what it starts, is on none. */
static bool runs_on(int host, const char *pid)
{
    char path[300], first[16] = "";
    if (host == 0)
        return process_namespace(pid) != process_namespace("self");
    snprintf(path, sizeof path, "%s/n%d.pid", folder, host);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    if (fgets(first, sizeof first, file))
        first[strcspn(first, "\n")] = '\0';
    fclose(file);
    return process_namespace(pid) == process_namespace(first);
}

/* What yk_test_find_process looks for. */
typedef struct sought {
    int host;
    const char *mark, *entry;
} sought;

static bool is_sought(const char *pid, const void *context)
{
    const sought *of = context;
    return runs_on(of->host, pid) && yk_test_environment_contains(pid, of->mark) &&
           yk_test_environment_has(pid, of->entry);
}

pid_t yk_test_find_process(int host, const char *mark, const char *entry)
{
    sought of = {host, mark, entry};
    return yk_test_first_process(is_sought, &of);
}

pid_t yk_test_pid_on_host(pid_t pid)
{
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    pid_t inner = pid;
    while (fgets(line, sizeof line, file))
        if (strncmp(line, "NSpid:", 6) == 0)
            inner = atoi(strrchr(line, '\t'));
    fclose(file);
    return inner;
}

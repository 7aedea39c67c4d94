/* See harness.h. A rank is this program again: /proc/self/exe CASE with YK_TEST_RANK set. */
#define _GNU_SOURCE
#include "harness.h"

#include "clock.h"
#include "deadline.h"
#include "hosts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* Three fourths of the time that a case has, under a sanitizer, too (tests/CMakeLists.txt). */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { RANKS_DEADLINE_S = 450 };
#else
enum { RANKS_DEADLINE_S = 90 };
#endif

enum { MAX_CASES = 256, MAX_RANKS = 64 };

static struct CMUnitTest cases[MAX_CASES];
static size_t case_count;
static const char *running_case;
static char directory[64];

void yk_test_register(const char *name, yk_test_fn run)
{
    if (case_count == MAX_CASES)
        abort();
    cases[case_count++] = (struct CMUnitTest){.name = name, .test_func = run};
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *ftw)
{
    (void)info, (void)type, (void)ftw;
    return remove(path);
}

static void remove_directory(void)
{
    if (directory[0])
        nftw(directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

const char *yk_test_directory(void)
{
    if (!directory[0]) {
        const char *base = getenv("TMPDIR");
        snprintf(directory, sizeof directory, "%.40s/yoke-test-XXXXXX", base ? base : "/tmp");
        assert_non_null(mkdtemp(directory));
        atexit(remove_directory);
    }
    return directory;
}

const char *yk_test_path(const char *name)
{
    static char paths[8][512];
    static int turn;
    turn = (turn + 1) % 8;
    snprintf(paths[turn], sizeof paths[turn], "%s/%s", yk_test_directory(), name);
    return paths[turn];
}

static bool is_free(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool bound = bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    return bound;
}

/* A test may need a port at which nothing listens yet, or ever. While this process lives, no other
 * test gets it, or binds it for a moment to see whether it is free: it has taken a name of abstract
 * Unix sockets. */
static bool claim(int port)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "yoke-test-port-%d", port);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool bound = bind(fd, (struct sockaddr *)&name, sizeof name) == 0;
    if (!bound)
        close(fd);
    return bound;
}

/* Ports below those that the system gives out by itself, so that no connection takes one before it
 * is used, and above those of `yoke run --hosts`. */
int yk_test_free_port(void)
{
    enum { FIRST = 30000, ALL = 2752, EACH = 16 };
    static int drawn;
    for (int tries = 0; tries < ALL; tries++) {
        int port = FIRST + (int)(((int64_t)getpid() * EACH + drawn++) % ALL);
        if (claim(port) && is_free(port))
            return port;
    }
    fail_msg("no port from %d to %d is free", FIRST, FIRST + ALL - 1);
    return -1;
}

int yk_test_command(char *output, size_t size, const char *format, ...)
{
    char command[4096], line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    char whole[sizeof command + 16];
    snprintf(whole, sizeof whole, "( %s ) 2>&1", command);
    FILE *pipe = popen(whole, "re");
    assert_non_null(pipe);
    size_t at = 0;
    output[0] = '\0';
    while (fgets(line, sizeof line, pipe)) {
        size_t length = strlen(line);
        if (at + length < size) {
            memcpy(output + at, line, length + 1);
            at += length;
        }
    }
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

char *yk_test_read_file(char *text, size_t size, const char *path)
{
    FILE *file = fopen(path, "re");
    if (!file)
        fail_msg("%s: %s", path, strerror(errno));
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
    return text;
}

void yk_test_write_file(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "we");
    if (!file)
        fail_msg("%s: %s", path, strerror(errno));
    assert_int_equal(fwrite(data, 1, size, file), size);
    fclose(file);
}

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

/* The parent may have died before the kernel knows about the child's wish. */
pid_t yk_test_fork(void)
{
    pid_t parent = getpid(), pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    return 0;
}

/* The folder of a rank is within that of its parent, which is still there if the rank is killed. */
pid_t yk_test_fork_rank(const yk_test_place *place)
{
    const char *parent = yk_test_directory();
    pid_t pid = yk_test_fork();
    if (pid > 0)
        return pid;
    set_number("YK_TEST_RANK", place->rank);
    set_number("RANK", place->rank);
    set_number("LOCAL_RANK", place->local_rank);
    set_number("WORLD_SIZE", place->world);
    set_number("LOCAL_WORLD_SIZE", place->local_world);
    set_number("GROUP_RANK", place->host);
    set_number("MASTER_PORT", place->port);
    setenv("TMPDIR", parent, 1);
    setenv("MASTER_ADDR", place->master, 1);
    setenv("OMP_NUM_THREADS", "1", 1);
    return 0;
}

static pid_t start_rank(int rank, int world, int port)
{
    const yk_test_place place = {.rank = rank,
                                 .local_rank = rank,
                                 .world = world,
                                 .local_world = world,
                                 .master = "127.0.0.1",
                                 .port = port};
    pid_t pid = yk_test_fork_rank(&place);
    if (pid > 0)
        return pid;
    execl("/proc/self/exe", "rank", running_case, (char *)NULL);
    _exit(127);
}

static void start_ranks(int world, pid_t *pids)
{
    const char *hosts = getenv("YK_TEST_HOSTS");
    if (hosts) {
        yk_test_spread_ranks(atoi(hosts) < world ? atoi(hosts) : world, world, pids);
        return;
    }
    int port = yk_test_free_port();
    for (int i = 0; i < world; i++)
        pids[i] = start_rank(i, world, port);
}

const char *yk_test_running_case(void)
{
    return running_case;
}

void yk_test_run_as_rank(void (*body)(int rank, int world), int world)
{
    const char *rank = getenv("YK_TEST_RANK");
    if (!rank)
        return;
    body(atoi(rank), world);
    fflush(NULL);
    remove_directory();
    if (getenv("YK_TEST_MPIRUN"))
        exit(0); /* which ends MPI, as mpirun demands */
    _exit(0);
}

void yk_test_await_ranks(int world, pid_t *pids, int *statuses)
{
    double deadline = yk_test_now() + RANKS_DEADLINE_S;
    for (int left = world, late = 0; left > 0;) {
        int found = 0;
        for (int i = 0; i < world; i++)
            if (pids[i] && waitpid(pids[i], &statuses[i], WNOHANG) > 0) {
                pids[i] = 0;
                found++;
            }
        left -= found;
        if (!found)
            usleep(2000);
        if (!late && yk_test_now() > deadline) {
            late = 1;
            for (int i = 0; i < world; i++)
                if (pids[i])
                    kill(pids[i], SIGKILL);
        }
    }
}

void yk_test_ranks_status(int world, void (*body)(int rank, int world), int *statuses,
                          void (*after_start)(const pid_t *pids, int world))
{
    yk_test_run_as_rank(body, world);
    assert_true(world <= MAX_RANKS);
    pid_t pids[MAX_RANKS];
    start_ranks(world, pids);
    if (after_start)
        after_start(pids, world);
    yk_test_await_ranks(world, pids, statuses);
}

void yk_test_assert_ranks(int world, const int *statuses)
{
    for (int i = 0; i < world; i++)
        if (statuses[i])
            fail_msg("rank %d of %d: %s %d", i, world,
                     WIFSIGNALED(statuses[i]) ? "killed by signal" : "exit code",
                     WIFSIGNALED(statuses[i]) ? WTERMSIG(statuses[i]) : WEXITSTATUS(statuses[i]));
}

void yk_test_openmpi(void)
{
    static int started;
    char name[64];
    snprintf(name, sizeof name, "openmpi-%d-%d", (int)getpid(), started++);
    const char *folder = yk_test_path(name);
    assert_int_equal(mkdir(folder, 0700), 0);
    setenv("OMPI_MCA_orte_tmpdir_base", folder, 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
}

/* The ranks are started by mpirun, and its exit code tells whether one has failed. */
static void start_mpi_ranks(const char *mpirun, int world)
{
    char program[512] = "", output[16 * 1024];
    assert_true(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
    yk_test_openmpi();
    int code = yk_test_command(output, sizeof output,
                               "timeout -k 5 %d %s -n %d sh -c 'YK_TEST_RANK=$OMPI_COMM_WORLD_RANK "
                               "exec \"%s\" %s' </dev/null",
                               RANKS_DEADLINE_S, mpirun, world, program, running_case);
    if (code)
        fail_msg("%s ended with %d:\n%s", mpirun, code, output);
}

void yk_test_ranks(int world, void (*body)(int rank, int world))
{
    int statuses[MAX_RANKS] = {0};
    const char *mpirun = getenv("YK_TEST_MPIRUN");
    if (mpirun && !getenv("YK_TEST_RANK")) {
        start_mpi_ranks(mpirun, world);
        return;
    }
    yk_test_ranks_status(world, body, statuses, NULL);
    yk_test_assert_ranks(world, statuses);
}

static int run_case(struct CMUnitTest *unit)
{
    running_case = unit->name;
    yk_test_watch_deadline();
    if (!getenv("YK_TEST_RANK"))
        return _cmocka_run_group_tests(unit->name, unit, 1, NULL, NULL);
    /* A rank: cmocka's report would only repeat the parent's; a failed assertion still exits 1. */
    cmocka_set_message_output(CM_OUTPUT_SUBUNIT);
    return _cmocka_run_group_tests(unit->name, unit, 1, NULL, NULL);
}

/* A test needs its memory for a moment only, and zeroing huge pages for it takes longer than faults
 * of small ones; in a virtual machine whose host has to find them, several times as long. */
static void do_without_huge_pages(void)
{
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* children inherit this */
}

int main(int argc, char **argv)
{
    do_without_huge_pages();
    int run = 0, failed = 0;
    for (size_t i = 0; i < case_count; i++)
        if (argc < 2 || strcmp(argv[1], cases[i].name) == 0) {
            run++;
            failed += run_case(&cases[i]) != 0;
        }
    if (run == 0)
        fprintf(stderr, "no case%s%s\n", argc < 2 ? "s" : " ", argc < 2 ? "" : argv[1]);
    return run == 0 || failed ? 1 : 0;
}

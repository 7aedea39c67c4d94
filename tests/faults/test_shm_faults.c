/* What groups promise of shared memory: none is left behind, and too little of it is an error. */
#define _GNU_SOURCE
#include "rank_lines.h"

#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

static int entries_of(const char *dir)
{
    char output[256];
    yk_test_command(output, sizeof output, "ls %s | wc -l", dir);
    return atoi(output);
}

static void in_directory_body(int rank, int world)
{
    (void)rank;
    yk_group *group = join(60);
    void *memory;
    int32_t one = 1;
    assert_ok(yk_group_alloc(group, 1 << 20, &memory));
    assert_ok(yk_all_reduce(group, &one, 1, YK_I32, YK_REDUCE_SUM, NULL));
    assert_int_equal(one, world);
    leave_text("running", rank, "yes");
    assert_ok(yk_recv(group, memory, 1, YK_F32, 1 - rank)); /* until it is killed */
}

static void kill_all(const pid_t *pids, int world)
{
    await_texts("running", world);
    assert_int_equal(entries_of(getenv("YOKE_SHM_DIR")), 0);
    for (int r = 0; r < world; r++)
        kill(pids[r], SIGKILL);
}

/* Shared memory never has a name that could be left behind, not even while the job runs. */
YK_TEST(promise_03_no_entries_are_left)
{
    char dir[160];
    int statuses[2];
    open_lines();
    if (!getenv("YK_TEST_RANK")) {
        snprintf(dir, sizeof dir, "%s/shm", getenv("YK_TEST_LINES"));
        assert_int_equal(mkdir(dir, 0700), 0);
        setenv("YOKE_SHM_DIR", dir, 1);
    }
    yk_test_ranks_status(2, in_directory_body, statuses, kill_all);
    assert_int_equal(entries_of(dir), 0);
    assert_true(WIFSIGNALED(statuses[0]) && WIFSIGNALED(statuses[1]));
    unsetenv("YOKE_SHM_DIR");
}

static void full_body(int rank, int world)
{
    (void)world;
    yk_group *group = join(60);
    void *memory = NULL;
    double start = yk_test_now();
    yk_status status = yk_group_alloc(group, 512 << 20, &memory);
    leave_line(rank);
    assert_true(yk_test_now() - start < 20);
    assert_ok(yk_barrier(group)); /* the group itself is whole */
    yk_group_destroy(group);
    exit(status == YK_ERROR_OUT_OF_MEMORY ? 3 : 4);
}

/* A tmpfs of 16 MiB has room for the group but not for the gradients. */
YK_TEST(promise_28_full_shared_memory)
{
    int statuses[2];
    char dir[160];
    open_lines();
    if (!getenv("YK_TEST_RANK")) {
        snprintf(dir, sizeof dir, "%s/small", getenv("YK_TEST_LINES"));
        assert_int_equal(mkdir(dir, 0700), 0);
        if (mount("tmpfs", dir, "tmpfs", MS_NOSUID | MS_NODEV, "size=16m"))
            skip_because("cannot mount a small tmpfs: not root, or not allowed to");
        setenv("YOKE_SHM_DIR", dir, 1);
    }
    yk_test_ranks_status(2, full_body, statuses, NULL);
    umount2(dir, MNT_DETACH);
    unsetenv("YOKE_SHM_DIR");
    for (int r = 0; r < 2; r++) {
        assert_int_equal(WEXITSTATUS(statuses[r]), 3);
        assert_contains(line_of(r), "536870912 bytes needed");
        assert_contains(line_of(r), " free");
        assert_contains(line_of(r), dir);
    }
}

/* The same without any file system: more than the machine has. */
static void huge_body(int rank, int world)
{
    (void)rank, (void)world;
    yk_group *group = join(60);
    void *memory = NULL;
    assert_status(YK_ERROR_OUT_OF_MEMORY, yk_group_alloc(group, (size_t)1 << 50, &memory));
    assert_contains(yk_last_error(), "1125899906842624 bytes needed");
    assert_ok(yk_barrier(group));
    yk_group_destroy(group);
}

YK_TEST(promise_28_more_than_there_is)
{
    yk_test_ranks(2, huge_body);
}

/* A limit of file sizes counts for shared memory. It used to end the process with SIGXFSZ. */
YK_TEST_RANKS(promise_28_memory_beyond_the_limit_of_files_is_an_error, 2)
{
    (void)world;
    void *memory;
    const struct rlimit limit = {1 << 20, RLIM_INFINITY};
    yk_group *group = join(20);
    if (rank == 0)
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_status(YK_ERROR_OUT_OF_MEMORY, yk_group_alloc(group, 2 << 20, &memory));
    if (rank == 0)
        assert_contains(yk_last_error(), " (ulimit -f): File too large");
    assert_ok(yk_group_alloc(group, 1 << 19, &memory));
    yk_group_destroy(group);
}

/* ---- passing memory on ---------------------------------------------------------------------- */

/* Of a process that may not be dumped, or of another user's program, /proc/PID/fd is closed. */
YK_TEST_RANKS(ranks_that_may_not_be_dumped_share_memory, 3)
{
    if (geteuid() == 0) { /* whom nothing is denied */
        assert_int_equal(setgid(65534), 0);
        assert_int_equal(setuid(65534), 0);
    }
    prctl(PR_SET_DUMPABLE, 0);
    yk_group *group = join(20);
    void *memory;
    assert_ok(yk_group_alloc(group, 1000 * sizeof(int32_t), &memory));
    int32_t *numbers = memory;
    numbers[999] = rank;
    assert_ok(yk_all_reduce(group, numbers, 1000, YK_I32, YK_REDUCE_SUM, NULL));
    assert_int_equal(numbers[999], world * (world - 1) / 2);
    yk_group_destroy(group);
}

/* A new pid namespace under the old /proc, whose numbers are others. */
YK_TEST(a_pid_namespace_without_its_own_proc_shares_memory)
{
    char output[4096];
    if (yk_test_command(output, sizeof output, "unshare -pf true"))
        skip_because("no new pid namespace here: %s", output);
    int code = yk_test_command(output, sizeof output,
                               "cd %s && unshare -pf --kill-child %s train --data synthetic --arch "
                               "mlp --lr 0.01 --epochs 1 --max-steps 2 --nproc 2 --output run",
                               yk_test_directory(), getenv("YOKE_PROGRAM"));
    if (code)
        fail_msg("exit code %d: %s", code, output);
}

/* Sends what looks like a letter of a rank to a socket of the abstract namespace. */
static void knock_at(const char *name, int as_rank)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int32_t letter[2] = {as_rank, 0};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control = {.header = {.cmsg_level = SOL_SOCKET,
                            .cmsg_type = SCM_RIGHTS,
                            .cmsg_len = CMSG_LEN(2 * sizeof(int))}};
    struct iovec part = {letter, sizeof letter};
    const struct msghdr message = {.msg_iov = &part,
                                   .msg_iovlen = 1,
                                   .msg_control = &control,
                                   .msg_controllen = sizeof control};
    int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    assert_true(zero >= 0);
    memcpy(CMSG_DATA(&control.header), (int[]){zero, zero}, 2 * sizeof(int));
    size_t length = strlen(name);
    memcpy(address.sun_path + 1, name + 1, length - 1); /* after '@', which stands for a zero */
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (connect(fd, (struct sockaddr *)&address,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)) == 0)
        assert_int_equal(sendmsg(fd, &message, MSG_NOSIGNAL), sizeof letter);
    close(fd);
    close(zero);
}

/* How many descriptors of this process are of that file. Other threads may close theirs. */
static int count_open(const char *path)
{
    struct stat wanted, info;
    char name[32];
    int count = 0;
    assert_int_equal(stat(path, &wanted), 0);
    for (int fd = 0; fd < 1024; fd++) {
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        count +=
            stat(name, &info) == 0 && info.st_ino == wanted.st_ino && info.st_dev == wanted.st_dev;
    }
    return count;
}

static bool is_own_socket(unsigned long inode)
{
    struct stat info;
    for (int fd = 0; fd < 1024; fd++)
        if (fstat(fd, &info) == 0 && S_ISSOCK(info.st_mode) && info.st_ino == inode)
            return true;
    return false;
}

/* At the mailboxes of this process only: other jobs run on this machine, too. */
static void knock_at_own(int as_rank)
{
    char line[256], path[128];
    unsigned long inode;
    int knocks = 0;
    FILE *sockets = fopen("/proc/net/unix", "re");
    assert_non_null(sockets);
    while (fgets(line, sizeof line, sockets))
        if (sscanf(line, "%*s %*s %*s %*s %*s %*s %lu %127s", &inode, path) == 2 &&
            strncmp(path, "@yoke-", 6) == 0 && is_own_socket(inode)) {
            knock_at(path, as_rank);
            knocks++;
        }
    fclose(sockets);
    assert_true(knocks > 0);
}

/* What comes from processes other than the rank that it claims to come from is dropped, with the
 * descriptors that are in it. */
YK_TEST_RANKS(allocations_survive_letters_of_strangers, 2)
{
    yk_group *group = join(20);
    for (int i = 0; i < 3; i++) {
        void *memory;
        knock_at_own(1 - rank);
        assert_ok(yk_barrier(group));
        assert_ok(yk_group_alloc(group, 5000, &memory));
    }
    assert_int_equal(count_open("/dev/zero"), 0);
    yk_group_destroy(group);
}

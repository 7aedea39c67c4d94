/*
 * Random faults in a training on two hosts with two ranks each, which may be restarted. With
 * virtual ranks the result does not depend on the number of ranks, so a training that completes, on
 * whatever is left, must give the bits of one that was never disturbed. One that does not complete
 * must name the cause. None may hang.
 *
 * `make inject-faults N=300 SEED=1` injects many; a failure prints the seed that repeats it (times
 * aside).
 */
#define _GNU_SOURCE
#include "../cli/going_on.h"
#include "disk.h"
#include "host_job.h"

#define TRAINING                                                                                   \
    "--data synthetic --arch mlp --lr 0.02 --threads 1 --batch-size 120 --epochs 2 "               \
    "--virtual-ranks 4 --save-every 10 --timeout 10"

enum {
    DISK = 64 << 20, /* of the checkpoints of a run, which all hosts share */
    LONGEST_S = 100, /* a training takes seconds, but the machine may be slow */
    PATIENCE_S = 600 /* where no deadline of ctest follows */
};

typedef struct fault {
    const char *name;
    void (*inject)(void);
    int lost; /* the host that is no longer asked how the job ended; 0: none */
} fault;

static unsigned random_state;

static int draw(int low, int high)
{
    random_state = random_state * 1664525 + 1013904223;
    return low + (int)((random_state >> 8) % (unsigned)(high - low + 1));
}

/* Neighbouring seeds give sequences that have nothing in common. */
static void seed_draws(unsigned seed)
{
    random_state = (seed ^ (seed >> 16)) * 0x45d9f3bu;
    random_state = (random_state ^ (random_state >> 16)) * 0x45d9f3bu;
    random_state ^= random_state >> 16;
}

/* A process that may have ended, or not begun, by now: the fault hits nothing then. */
static void signal_if_there(int host, int rank, int number)
{
    pid_t pid = find_rank(host, rank);
    if (pid > 0)
        kill(pid, number);
}

/* ---- the faults ------------------------------------------------------------------------------ */

static void kill_a_rank(void)
{
    int rank = draw(0, 3);
    signal_if_there(1 + rank / 2, rank, SIGKILL);
}

static void stop_a_rank_for_a_while(void)
{
    int rank = draw(0, 3);
    signal_if_there(1 + rank / 2, rank, SIGSTOP);
    usleep((unsigned)draw(200, 3000) * 1000);
    signal_if_there(1 + rank / 2, rank, SIGCONT);
}

static void stop_a_rank_for_ever(void)
{
    int rank = draw(0, 3);
    signal_if_there(1 + rank / 2, rank, SIGSTOP);
}

static void kill_the_launcher_of_n2(void)
{
    signal_if_there(2, -1, SIGKILL);
}

static void kill_the_launcher_of_n1(void)
{
    signal_if_there(1, -1, SIGKILL);
}

/* nsenter, by which the launcher has been started, stops when that does, and may do so late. */
static void resume_host(int host)
{
    for (int i = 0; i < 20; i++) {
        test_job_signal_all(&host_jobs[host], SIGCONT);
        usleep(10000);
    }
}

/* As a scheduler does. */
static void suspend_a_host_for_a_while(void)
{
    int host = draw(1, 2);
    test_job_signal_all(&host_jobs[host], SIGSTOP);
    usleep((unsigned)draw(200, 5000) * 1000);
    resume_host(host);
}

static void kill_a_rank_beside_a_suspended_host(void)
{
    int host = draw(1, 2), other = 3 - host;
    test_job_signal_all(&host_jobs[host], SIGSTOP);
    signal_if_there(other, 2 * (other - 1) + draw(0, 1), SIGKILL);
    usleep((unsigned)draw(200, 5000) * 1000);
    resume_host(host);
}

static void cut_the_power_of_n2(void)
{
    yk_test_kill_host(2);
}

static void cut_the_power_of_n1(void)
{
    yk_test_kill_host(1);
}

static void cut_the_network(void)
{
    yk_test_cut(2);
}

static void cut_the_network_for_a_while(void)
{
    yk_test_cut(2);
    usleep((unsigned)draw(100, 5000) * 1000);
    yk_test_restore(2);
}

static void fill_the_disk(void)
{
    yk_test_fill_disk();
}

static const fault faults[] = {
    {"kill a rank", kill_a_rank, 0},
    {"stop a rank for a while", stop_a_rank_for_a_while, 0},
    {"stop a rank for ever", stop_a_rank_for_ever, 0},
    {"kill the launcher of n2", kill_the_launcher_of_n2, 2},
    {"kill the launcher of n1", kill_the_launcher_of_n1, 1},
    {"cut the power of n2", cut_the_power_of_n2, 2},
    {"cut the power of n1", cut_the_power_of_n1, 1},
    {"cut the network", cut_the_network, 0},
    {"cut the network for a while", cut_the_network_for_a_while, 0},
    {"fill the disk", fill_the_disk, 0},
    {"suspend a host for a while", suspend_a_host_for_a_while, 0},
    {"kill a rank beside a suspended host", kill_a_rank_beside_a_suspended_host, 0},
};
enum { FAULTS = sizeof faults / sizeof *faults };

/* ---- a run ----------------------------------------------------------------------------------- */

static void start_training(int number)
{
    char arguments[2048];
    snprintf(
        arguments, sizeof arguments,
        "--nnodes 1:2 --max-restarts 3 --rdzv-conf last_call_timeout=2,join_timeout=10 --grace 5 "
        "--nproc-per-node 2 -- env -u YK_TEST_LAUNCHER %s train --output %s/disk/run-%d " TRAINING,
        test_program(), yk_test_directory(), number);
    for (int host = 1; host <= 2; host++)
        start_on(host, "YOKE_HEARTBEAT_TIMEOUT=3", "10.77.0.1:29400", arguments);
}

/* Words of which one is in the last lines of every job that ends in an error. */
static bool names_a_cause(const char *output)
{
    static const char *const causes[] = {
        "is dead",          "is lost", "killed by signal", "is gone", "No space left",
        "exited with code", "within ", "cannot connect",   "timeout", "unclean stop"};
    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++)
        if (strstr(output, causes[i]))
            return true;
    return false;
}

static void describe_failure(unsigned seed, const fault *injected, int after_ms, const char *what)
{
    for (int host = 1; host <= 2; host++)
        print_message("n%d: \"%s\"\n", host, test_job_output(&host_jobs[host]));
    fail_msg("seed %u: %s after %d ms: %s", seed, injected->name, after_ms, what);
}

/* Everything that this fault leaves alive ends, and as it should. Returns whether the job
 * completed. */
static bool check_end(unsigned seed, const fault *injected, int after_ms, int number)
{
    bool completed = false;
    char run[32];
    double deadline = yk_test_now() + (getenv("YK_TEST_FAULTS") ? PATIENCE_S : LONGEST_S);
    snprintf(run, sizeof run, "disk/run-%d", number);
    for (int host = 1; host <= 2; host++) {
        if (host == injected->lost)
            continue;
        int code = test_job_wait(&host_jobs[host], deadline - yk_test_now());
        if (code < 0)
            describe_failure(seed, injected, after_ms, "it hangs");
        if (code && !names_a_cause(host_jobs[host].output))
            describe_failure(seed, injected, after_ms, "the cause is not named");
        completed = completed || code == 0;
        test_job_gone(&host_jobs[host], 10);
    }
    if (completed)
        assert_same_file("reference", run, "model.pth");
    return completed;
}

static bool inject(unsigned seed, const fault *injected, int number)
{
    char output[256];
    seed_draws(seed);
    yk_test_hosts(2);
    start_training(number);
    int after_ms = draw(100, 2500);
    usleep((unsigned)after_ms * 1000);
    injected->inject();
    bool completed = check_end(seed, injected, after_ms, number);
    yk_test_command(output, sizeof output, "rm -rf %s/disk/*", yk_test_directory());
    return completed;
}

/* The hosts share the disk, which is there before them. */
static void prepare(void)
{
    yk_test_disk(DISK);
    yk_test_hosts(2); /* skips */
    assert_int_equal(train("reference", "--batch-size 120 --epochs 2 --virtual-ranks 4"), 0);
}

static void inject_one(int index, unsigned seed)
{
    prepare();
    print_message("%s: %s\n", faults[index].name,
                  inject(seed, &faults[index], 0) ? "completed" : "ended with its cause");
}

YK_TEST(a_killed_rank)
{
    inject_one(0, 1);
}

YK_TEST(a_rank_that_pauses)
{
    inject_one(1, 2);
}

YK_TEST(a_stopped_rank)
{
    inject_one(2, 3);
}

YK_TEST(a_killed_launcher)
{
    inject_one(3, 4);
}

YK_TEST(a_killed_launcher_that_serves_the_store)
{
    inject_one(4, 5);
}

YK_TEST(a_host_without_power)
{
    inject_one(5, 6);
}

YK_TEST(a_store_host_without_power)
{
    inject_one(6, 7);
}

YK_TEST(a_cut_network)
{
    inject_one(7, 8);
}

YK_TEST(a_network_that_is_cut_for_a_while)
{
    inject_one(8, 9);
}

YK_TEST(a_full_disk)
{
    inject_one(9, 10);
}

YK_TEST(a_host_that_is_suspended)
{
    inject_one(10, 11);
}

YK_TEST(a_killed_rank_beside_a_suspended_host)
{
    inject_one(11, 12);
}

/* YK_TEST_FAULTS of them, from YK_TEST_SEED on. */
YK_TEST(random_faults)
{
    const char *many = getenv("YK_TEST_FAULTS"), *from = getenv("YK_TEST_SEED");
    int count = many ? atoi(many) : 2, completed = 0;
    unsigned seed = from ? (unsigned)atoi(from) : 100;
    prepare();
    for (int i = 0; i < count; i++, seed++) {
        seed_draws(~seed);
        const fault *injected = &faults[draw(0, FAULTS - 1)];
        bool done = inject(seed, injected, i);
        completed += done;
        fprintf(stderr, "seed %u: %s: %s\n", seed, injected->name, done ? "completed" : "ended");
    }
    fprintf(stderr, "%d faults, %d trainings completed, all others named the cause\n", count,
            completed);
}

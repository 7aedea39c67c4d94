/* `yoke run --numa-binding` with real ranks: what they are bound to, and how many threads they get.
 * Machines of several nodes, and GPUs, are tested in tests/cli/test_numa.c. */
#define _GNU_SOURCE
#include "job.h"

#include <sched.h>

static test_job job;

static int run(const char *arguments)
{
    unsetenv("OMP_NUM_THREADS");
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    test_job_start(&job, arguments);
    return test_job_wait(&job, 60);
}

static const char print[] = "sh -c 'echo $(grep Cpus_allowed_list: /proc/self/status) "
                            "threads: $OMP_NUM_THREADS'";

/* Runs ranks that print their affinity. */
static void run_printing(const char *options)
{
    char arguments[512];
    snprintf(arguments, sizeof arguments, "run %s %s", options, print);
    assert_job_code(&job, run(arguments), 0);
}

static cpu_set_t read_list(const char *at)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (char *end; *at >= '0' && *at <= '9'; at = *end == ',' ? end + 1 : "") {
        long first = strtol(at, &end, 10), last = first;
        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        for (long i = first; i <= last && i < CPU_SETSIZE; i++)
            CPU_SET((size_t)i, &set);
    }
    return set;
}

/* What a rank has printed behind a word. */
static const char *printed(int rank, const char *word)
{
    char prefix[32];
    snprintf(prefix, sizeof prefix, "[rank %d] ", rank);
    const char *line = strstr(job.output, prefix);
    assert_non_null(line);
    const char *found = strstr(line, word);
    assert_non_null(found);
    return found + strlen(word);
}

static cpu_set_t processors_of(int rank)
{
    return read_list(printed(rank, "Cpus_allowed_list: "));
}

static cpu_set_t own_affinity(void)
{
    cpu_set_t own;
    assert_int_equal(sched_getaffinity(0, sizeof own, &own), 0);
    return own;
}

static cpu_set_t read_system_list(const char *path)
{
    char text[8192];
    return read_list(yk_test_read_file(text, sizeof text, path));
}

/* Skips the case unless there is one node, as small machines have it, with so many cores. */
static void needs_one_node_with_cores(int least)
{
    cpu_set_t own = own_affinity(), cores;
    if (access("/sys/devices/system/node/node1", F_OK) == 0)
        skip_because("this machine has several NUMA nodes");
    CPU_ZERO(&cores);
    for (int i = 0; i < CPU_SETSIZE; i++) {
        char path[128];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                 i);
        if (!CPU_ISSET(i, &own) || access(path, R_OK))
            continue;
        cpu_set_t siblings = read_system_list(path);
        int first = 0;
        while (!CPU_ISSET(first, &siblings))
            first++;
        CPU_SET(first, &cores);
    }
    if (CPU_COUNT(&cores) < least)
        skip_because("this machine has fewer than %d physical cores", least);
}

YK_TEST(ranks_are_bound_to_their_node)
{
    needs_one_node_with_cores(1);
    cpu_set_t own = own_affinity();
    static const char *const modes[] = {"node", "socket"};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        char options[64], threads[32];
        snprintf(options, sizeof options, "-n 2 --numa-binding %s", modes[i]);
        snprintf(threads, sizeof threads, "%d\n", yk_threads_default(2));
        run_printing(options);
        for (int rank = 0; rank < 2; rank++) {
            cpu_set_t bound = processors_of(rank);
            assert_true(CPU_EQUAL(&bound, &own));
            assert_memory_equal(printed(rank, "threads: "), threads, strlen(threads));
        }
    }
}

/* Two ranks of a job have no core in common. */
static void assert_disjoint(int a, int b)
{
    cpu_set_t first = processors_of(a), second = processors_of(b), common;
    CPU_AND(&common, &first, &second);
    assert_int_equal(CPU_COUNT(&common), 0);
    assert_true(CPU_COUNT(&first) > 0 && CPU_COUNT(&second) > 0);
}

YK_TEST(exclusive_ranks_have_cores_of_their_own)
{
    needs_one_node_with_cores(2);
    run_printing("-n 2 --numa-binding exclusive");
    assert_disjoint(0, 1);
    setenv("PET_NUMA_BINDING", "exclusive", 1);
    run_printing("-n 2");
    assert_disjoint(0, 1);
}

YK_TEST(ranks_of_a_core_complex_share_a_cache)
{
    run_printing("-n 2 --numa-binding core-complex");
    for (int rank = 0; rank < 2; rank++) {
        cpu_set_t own = own_affinity(), bound = processors_of(rank), both;
        CPU_AND(&both, &own, &bound);
        assert_true(CPU_COUNT(&bound) > 0 && CPU_EQUAL(&both, &bound));
    }
}

YK_TEST(the_binding_is_kept_when_ranks_are_restarted)
{
    needs_one_node_with_cores(2);
    assert_job_code(&job,
                    run("run -n 2 --max-restarts 1 --numa-binding exclusive sh -c 'grep "
                        "Cpus_allowed_list: /proc/self/status; test $TORCHELASTIC_RESTART_COUNT = "
                        "1'"),
                    0);
    char line[64];
    for (int rank = 0; rank < 2; rank++) {
        snprintf(line, sizeof line, "[rank %d] %.20s", rank, printed(rank, "] "));
        line[strcspn(line, "\n") + 1] = '\0';
        assert_int_equal(count(job.output, line), 2);
    }
}

YK_TEST(the_launchers_on_hosts_bind_their_ranks)
{
    needs_one_node_with_cores(2);
    run_printing("--hosts localhost:2,127.0.0.1:1 --numa-binding exclusive");
    assert_disjoint(0, 1);
    cpu_set_t bound = processors_of(2), own = own_affinity();
    assert_true(CPU_EQUAL(&bound, &own));
}

YK_TEST(bindings_that_cannot_be_made_are_refused)
{
    assert_job_code(&job, run("run --numa-binding node --no-pin true"), 2);
    assert_contains(job.output, "--numa-binding and --no-pin exclude each other");
    assert_int_equal(count(job.output, "\n"), 1);
    assert_job_code(&job, run("run --hosts localhost --numa-binding node --no-pin true"), 2);
    assert_contains(job.output, "--numa-binding and --no-pin exclude each other");
    assert_job_code(&job, run("run --numa-binding far true"), 2);
    assert_contains(job.output, "--numa-binding far: expected one of node|socket|exclusive|"
                                "core-complex");
    assert_job_code(&job, run("run -n 1024 --numa-binding exclusive true"), 2);
    assert_contains(job.output, "--numa-binding exclusive: no core is left for local rank ");
    assert_int_equal(count(job.output, "\n"), 1);
}

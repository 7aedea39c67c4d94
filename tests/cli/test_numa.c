/* Topologies of machines that are not here, as trees of sysfs, and what --numa-binding makes of
 * them (cli/launch/topology.h, cli/launch/numa.h). */
#define _GNU_SOURCE
#include "harness.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "launch/numa.h"

enum { PROCESSORS = 32, RANKS = 64 };

static cli_topology topology;
static cli_binding bindings[RANKS];
static char why[256];

/* ---- trees ---------------------------------------------------------------------------------- */

/* Writes a file of the test's sysfs, with the folders above it. */
static void put(const char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(const char *text, const char *format, ...)
{
    char path[1024];
    int start = snprintf(path, sizeof path, "%s/sys/", yk_test_directory());
    va_list list;
    va_start(list, format);
    vsnprintf(path + start, sizeof path - (size_t)start, format, list);
    va_end(list);
    for (char *slash = path + start - 1; slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static const char *number(int value)
{
    static char text[16];
    snprintf(text, sizeof text, "%d\n", value);
    return text;
}

static void put_cache(int processor, int index, int level, const char *type, const char *shared)
{
    put(number(level), "devices/system/cpu/cpu%d/cache/index%d/level", processor, index);
    put(type, "devices/system/cpu/cpu%d/cache/index%d/type", processor, index);
    put(shared, "devices/system/cpu/cpu%d/cache/index%d/shared_cpu_list", processor, index);
}

/* Processor c and c + 16 are the threads of physical core c, which is in complex c / 2. */
static void put_processor(int processor)
{
    char text[64], own[16];
    int core = processor % 16, first = core / 2 * 2;
    put(number(core / 8), "devices/system/cpu/cpu%d/topology/physical_package_id", processor);
    snprintf(text, sizeof text, "%d,%d\n", core, core + 16);
    put(text, "devices/system/cpu/cpu%d/topology/thread_siblings_list", processor);
    snprintf(own, sizeof own, "%d\n", processor);
    put_cache(processor, 0, 1, "Data\n", text);
    put_cache(processor, 1, 1, "Instruction\n", own);
    snprintf(text, sizeof text, "%d-%d,%d-%d\n", first, first + 1, first + 16, first + 17);
    put_cache(processor, 2, 3, "Unified\n", text);
    put_cache(processor, 3, 2, "Unified\n", own);
}

/* 2 sockets of 2 nodes with 4 physical cores of 2 threads, and a node that has only memory. */
static void put_machine(void)
{
    put("0-4\n", "devices/system/node/online");
    put("0-3,16-19\n", "devices/system/node/node0/cpulist");
    put("4-7,20-23\n", "devices/system/node/node1/cpulist");
    put("8-11,24-27\n", "devices/system/node/node2/cpulist");
    put("12-15,28-31\n", "devices/system/node/node3/cpulist");
    put("\n", "devices/system/node/node4/cpulist");
    for (int i = 0; i < PROCESSORS; i++)
        put_processor(i);
}

static void put_gpu(const char *address, int node)
{
    put(number(node), "bus/pci/drivers/nvidia/%s/numa_node", address);
}

/* 4 GPUs in the nodes 3, 0, 2 and 0 (unknown), in the order of their addresses. */
static void put_gpus(void)
{
    put_gpu("10000:01:00.0", -1);
    put_gpu("0000:c1:00.0", 2);
    put_gpu("0000:18:00.0", 0);
    put_gpu("0000:17:00.0", 3);
    put("", "bus/pci/drivers/nvidia/bind");
}

/* ---- bindings ------------------------------------------------------------------------------- */

/* Reads the tree of a process that may use these processors. */
static void read_tree(const cpu_set_t *allowed)
{
    cli_topology_read(&topology, yk_test_path("sys"), allowed);
}

static cpu_set_t range(int first, int last)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = first; i <= last; i++)
        CPU_SET(i, &set);
    return set;
}

static bool bind_with(cli_numa_mode mode, int ranks, const char *visible, int cores)
{
    const cli_numa_request request = {.mode = mode,
                                      .topology = &topology,
                                      .visible_gpus = visible,
                                      .ranks = ranks,
                                      .cores = cores};
    memset(bindings, 0xff, sizeof bindings);
    why[0] = '\0';
    return cli_numa_bind(&request, bindings, why, sizeof why);
}

static void must_bind(cli_numa_mode mode, int ranks)
{
    if (!bind_with(mode, ranks, NULL, CPU_COUNT(&topology.allowed)))
        fail_msg("%s", why);
}

/* The processors of a rank must be these, as in "0,1,16". */
static void assert_processors(int rank, const char *expected)
{
    char text[256] = "";
    for (int i = 0, at = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &bindings[rank].processors))
            at += snprintf(text + at, sizeof text - (size_t)at, "%s%d", at ? "," : "", i);
    if (strcmp(text, expected) != 0)
        fail_msg("rank %d has the processors %s, expected %s", rank, text, expected);
}

static void read_machine(void)
{
    cpu_set_t all = range(0, PROCESSORS - 1);
    put_machine();
    read_tree(&all);
}

YK_TEST(the_topology_is_read)
{
    put_gpus();
    read_machine();
    const cli_processor expected = {.node = 2, .socket = 1, .core = 11, .cache = 10};
    assert_memory_equal(&topology.processors[27], &expected, sizeof expected);
    assert_int_equal(topology.gpus, 4);
    const int nodes[] = {3, 0, 2, 0};
    assert_memory_equal(topology.gpu_nodes, nodes, sizeof nodes);
}

YK_TEST(a_rank_without_a_gpu_gets_the_node_of_its_block)
{
    read_machine();
    must_bind(CLI_NUMA_NODE, 4);
    assert_processors(0, "0,1,2,3,16,17,18,19");
    assert_processors(1, "4,5,6,7,20,21,22,23");
    assert_processors(3, "12,13,14,15,28,29,30,31");
    must_bind(CLI_NUMA_NODE, 2);
    assert_processors(0, "0,1,2,3,16,17,18,19");
    assert_processors(1, "8,9,10,11,24,25,26,27");
    must_bind(CLI_NUMA_NODE, 6);
    const int nodes[] = {0, 0, 1, 2, 2, 3};
    for (int rank = 0; rank < 6; rank++)
        assert_int_equal(bindings[rank].node, nodes[rank]);
}

YK_TEST(a_socket_has_all_its_nodes)
{
    read_machine();
    must_bind(CLI_NUMA_SOCKET, 4);
    for (int rank = 0; rank < 4; rank++)
        assert_processors(rank, rank < 2 ? "0,1,2,3,4,5,6,7,16,17,18,19,20,21,22,23"
                                         : "8,9,10,11,12,13,14,15,24,25,26,27,28,29,30,31");
}

YK_TEST(exclusive_ranks_have_physical_cores_of_their_own)
{
    read_machine();
    must_bind(CLI_NUMA_EXCLUSIVE, 12);
    assert_processors(0, "0,1,16,17"); /* 4 cores for 3 ranks */
    assert_processors(1, "2,18");
    assert_processors(2, "3,19");
    assert_processors(3, "4,5,20,21");
    assert_processors(11, "15,31");
    assert_false(bind_with(CLI_NUMA_EXCLUSIVE, 20, NULL, PROCESSORS));
    assert_string_equal(why, "no core is left for local rank 4 on NUMA node 0 (ranks there: 5; "
                             "physical cores that the launcher may use: 4)");
}

YK_TEST(ranks_get_different_core_complexes_while_there_are_some)
{
    read_machine();
    must_bind(CLI_NUMA_CORE_COMPLEX, 12);
    assert_processors(0, "0,1,16,17");
    assert_processors(1, "2,3,18,19");
    assert_processors(2, "0,1,16,17");
    assert_processors(3, "4,5,20,21");
}

YK_TEST(larger_core_complexes_come_first)
{
    cpu_set_t allowed = range(1, 7);
    put_machine();
    read_tree(&allowed);
    must_bind(CLI_NUMA_CORE_COMPLEX, 4);
    assert_processors(0, "2,3");
    assert_processors(1, "1");
    assert_processors(2, "4,5");
    assert_processors(3, "6,7");
}

YK_TEST(a_rank_gets_the_node_of_its_gpu)
{
    put_gpus();
    read_machine();
    must_bind(CLI_NUMA_NODE, 6);
    const int nodes[] = {3, 0, 2, 0, 3, 0}; /* the last two ranks share the first two GPUs */
    for (int rank = 0; rank < 6; rank++)
        assert_int_equal(bindings[rank].node, nodes[rank]);
    assert_processors(2, "8,9,10,11,24,25,26,27");
    must_bind(CLI_NUMA_EXCLUSIVE, 4);
    assert_processors(0, "12,13,14,15,28,29,30,31");
    assert_processors(1, "0,1,16,17");
    assert_processors(3, "2,3,18,19");
}

YK_TEST(hidden_gpus_do_not_count)
{
    put_gpus();
    read_machine();
    assert_true(bind_with(CLI_NUMA_NODE, 2, "2,0", PROCESSORS));
    assert_int_equal(bindings[0].node, 2);
    assert_int_equal(bindings[1].node, 3);
    assert_true(bind_with(CLI_NUMA_NODE, 2, "2,-1,0", PROCESSORS)); /* CUDA stops at -1 */
    assert_int_equal(bindings[1].node, 2);
    static const char *const none[] = {"", "-1", "NoDevFiles", "4"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        assert_true(bind_with(CLI_NUMA_NODE, 4, none[i], PROCESSORS));
        for (int rank = 0; rank < 4; rank++)
            assert_int_equal(bindings[rank].node, rank);
    }
}

YK_TEST(gpus_cannot_be_found_by_uuid)
{
    put_gpus();
    read_machine();
    assert_false(bind_with(CLI_NUMA_NODE, 2, "0,GPU-8f6a", PROCESSORS));
    assert_string_equal(why, "CUDA_VISIBLE_DEVICES=0,GPU-8f6a: expected indices of GPUs, not "
                             "UUIDs");
}

YK_TEST(processors_that_may_not_be_used_are_left_out)
{
    cpu_set_t allowed = range(2, 9);
    put_machine();
    put_gpus();
    read_tree(&allowed);
    assert_true(bind_with(CLI_NUMA_NODE, 3, "", 8)); /* nodes 0 to 2 */
    assert_processors(0, "2,3");
    assert_processors(2, "8,9");
    assert_true(bind_with(CLI_NUMA_SOCKET, 3, "", 8));
    assert_processors(0, "2,3,4,5,6,7");
    assert_false(bind_with(CLI_NUMA_NODE, 4, NULL, 8)); /* the GPU of rank 0 is in node 3 */
    assert_string_equal(why, "no core is left for local rank 0 on NUMA node 3 (ranks there: 1; "
                             "physical cores that the launcher may use: 0)");
}

/* The kernel leaves them out of all lists, and they have no topology. */
YK_TEST(processors_that_are_offline_are_left_out)
{
    cpu_set_t allowed = range(0, PROCESSORS - 1);
    put_machine();
    put("0,2-3,16-19\n", "devices/system/node/node0/cpulist");
    put("17\n", "devices/system/cpu/cpu17/topology/thread_siblings_list");
    CPU_CLR(1, &allowed);
    read_tree(&allowed);
    must_bind(CLI_NUMA_EXCLUSIVE, 8);
    assert_processors(0, "0,2,16,18"); /* what is left of core 1 comes last */
    assert_processors(1, "3,17,19");
}

YK_TEST(a_kernel_that_tells_nothing_has_one_node)
{
    cpu_set_t allowed = range(3, 6);
    read_tree(&allowed);
    static const cli_numa_mode whole[] = {CLI_NUMA_NODE, CLI_NUMA_SOCKET, CLI_NUMA_CORE_COMPLEX};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        must_bind(whole[i], 2);
        assert_processors(0, "3,4,5,6");
        assert_processors(1, "3,4,5,6");
    }
    must_bind(CLI_NUMA_EXCLUSIVE, 2);
    assert_processors(0, "3,4");
    assert_processors(1, "5,6");
}

YK_TEST(damaged_files_are_harmless)
{
    cpu_set_t allowed = range(0, 3);
    put("0,x\n", "devices/system/node/online");
    put("-5,9999999999\n", "devices/system/node/node0/cpulist");
    put("many\n", "devices/system/cpu/cpu0/topology/physical_package_id");
    put("2-1,\n", "devices/system/cpu/cpu0/topology/thread_siblings_list");
    put_cache(0, 0, 1, "", "1023-2000000000\n");
    put_gpu("0000:17:00.0", -7);
    read_tree(&allowed);
    must_bind(CLI_NUMA_EXCLUSIVE, 2);
    assert_processors(0, "0,1");
    assert_processors(1, "2,3");
}

YK_TEST(threads_are_divided_where_processors_are_shared)
{
    read_machine();
    must_bind(CLI_NUMA_NODE, 6); /* in the nodes 0, 0, 1, 2, 2, 3 */
    const int threads[] = {4, 4, 8, 4, 4, 8};
    for (int rank = 0; rank < 6; rank++)
        assert_int_equal(bindings[rank].threads, threads[rank]);
    must_bind(CLI_NUMA_SOCKET, 6); /* 3 ranks share 16 processors */
    assert_int_equal(bindings[0].threads, 5);
    must_bind(CLI_NUMA_CORE_COMPLEX, 12);
    assert_int_equal(bindings[0].threads, 2);
    assert_int_equal(bindings[1].threads, 4);
    must_bind(CLI_NUMA_NODE, 64); /* more ranks than processors */
    assert_int_equal(bindings[0].threads, 1);
    assert_true(bind_with(CLI_NUMA_NODE, 4, NULL, 8)); /* a quota of 8 cores */
    assert_int_equal(bindings[0].threads, 2);
}

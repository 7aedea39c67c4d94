/* A process's place in its job, from the environments that launchers really set. */
#define _GNU_SOURCE
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/job/meeting_point.h"
#include "comm/job/place.h"

/* What launchers set, and what yoke reads of it. */
static const char *const known[] = {"RANK",
                                    "WORLD_SIZE",
                                    "LOCAL_RANK",
                                    "LOCAL_WORLD_SIZE",
                                    "MASTER_ADDR",
                                    "MASTER_PORT",
                                    "GROUP_RANK",
                                    "GROUP_WORLD_SIZE",
                                    "TORCHELASTIC_RUN_ID",
                                    "TORCHELASTIC_USE_AGENT_STORE",
                                    "YOKE_USE_LAUNCHER_STORE",
                                    "YOKE_SEPARATE",
                                    "OMPI_COMM_WORLD_SIZE",
                                    "OMPI_COMM_WORLD_RANK",
                                    "OMPI_COMM_WORLD_LOCAL_SIZE",
                                    "OMPI_COMM_WORLD_LOCAL_RANK",
                                    "OMPI_MCA_ess_base_jobid",
                                    "MV2_COMM_WORLD_SIZE",
                                    "MV2_COMM_WORLD_RANK",
                                    "MV2_COMM_WORLD_LOCAL_SIZE",
                                    "MV2_COMM_WORLD_LOCAL_RANK",
                                    "PMI_SIZE",
                                    "PMI_RANK",
                                    "PMI_FD",
                                    "PMI_JOBID",
                                    "PMIX_RANK",
                                    "PMIX_NAMESPACE",
                                    "MPI_LOCALRANKID",
                                    "MPI_LOCALNRANKS",
                                    "SLURM_JOB_ID",
                                    "SLURM_ARRAY_TASK_ID",
                                    "SLURM_STEP_ID",
                                    "SLURM_STEP_NUM_TASKS",
                                    "SLURM_STEP_NUM_NODES",
                                    "SLURM_STEP_NODELIST",
                                    "SLURM_STEP_TASKS_PER_NODE",
                                    "SLURM_TASKS_PER_NODE",
                                    "SLURM_JOB_NODELIST",
                                    "SLURM_HET_SIZE",
                                    "SLURM_PROCID",
                                    "SLURM_LOCALID",
                                    "SLURM_NODEID",
                                    "SLURMD_NODENAME",
                                    "SLURM_NTASKS",
                                    "SLURM_LAUNCH_NODE_IPADDR",
                                    "SLURM_SRUN_COMM_HOST",
                                    "JOB_COMPLETION_INDEX",
                                    "PET_NNODES",
                                    "PET_NPROC_PER_NODE",
                                    "PET_NODE_RANK",
                                    "PET_MASTER_ADDR",
                                    "PET_MASTER_PORT"};

/* Sets "NAME=VALUE NAME=VALUE ..." and forgets what the environment held of the kind. */
static void set_environment(const char *text)
{
    char name[64], value[64];
    int used;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        unsetenv(known[i]);
    for (; sscanf(text, " %63[^=]=%63s%n", name, value, &used) == 2; text += used) {
        bool listed = false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            listed = listed || strcmp(known[i], name) == 0;
        assert_true(listed);
        setenv(name, value, 1);
    }
}

#define OPEN_MPI                                                                                   \
    "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1 "                  \
    "OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_MCA_ess_base_jobid=1545142273 "
#define MPICH "PMI_RANK=3 PMI_SIZE=4 PMI_FD=8 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2 "
#define SRUN                                                                                       \
    "SLURM_JOB_ID=12 SLURM_STEP_ID=0 SLURM_PROCID=3 SLURM_LOCALID=0 SLURM_NODEID=1 "               \
    "SLURM_NTASKS=4 SLURM_STEP_NUM_TASKS=4 SLURM_STEP_NUM_NODES=2 SLURM_STEP_NODELIST=n[1-2] "     \
    "SLURM_STEP_TASKS_PER_NODE=3,1 SLURM_TASKS_PER_NODE=4(x2) SLURM_SRUN_COMM_HOST=127.0.0.1 "
/* Of the tasks that run torchrun, one on each of two nodes. */
#define SRUN_OF_AGENTS                                                                             \
    "SLURM_JOB_ID=12 SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_LOCALID=0 SLURM_NODEID=1 "               \
    "SLURM_NTASKS=2 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NUM_NODES=2 SLURM_STEP_NODELIST=n[1-2] "     \
    "SLURM_STEP_TASKS_PER_NODE=1(x2) "
#define TORCHRUN                                                                                   \
    "RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 GROUP_RANK=1 GROUP_WORLD_SIZE=2 "         \
    "MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 TORCHELASTIC_RUN_ID=none "                            \
    "TORCHELASTIC_USE_AGENT_STORE=True "

typedef struct row {
    const char *environment, *source;
    int rank, world, local_rank, local_world;
} row;

static const row rows[] = {
    {"", NULL, 0, 1, -1, -1},
    {TORCHRUN, "the environment", 3, 4, 1, 2},
    {OPEN_MPI, "mpirun of Open MPI", 3, 4, 1, 2},
    {MPICH, "mpiexec of MPICH", 3, 4, 1, 2},
    {"MV2_COMM_WORLD_RANK=3 MV2_COMM_WORLD_SIZE=4 MV2_COMM_WORLD_LOCAL_RANK=1 "
     "MV2_COMM_WORLD_LOCAL_SIZE=2",
     "mpirun of MVAPICH2", 3, 4, 1, 2},
    {SRUN, "srun", 3, 4, 0, 1},
    /* Two components of a heterogeneous job, whose nodes are numbered in their order, but listed by
     * their names. */
    {"SLURM_JOB_ID=12 SLURM_STEP_ID=0 SLURM_PROCID=2 SLURM_LOCALID=1 SLURM_NODEID=1 "
     "SLURM_STEP_NUM_TASKS=3 SLURM_STEP_NUM_NODES=2 SLURM_STEP_NODELIST=n[1,3] "
     "SLURM_STEP_TASKS_PER_NODE=2,1 SLURMD_NODENAME=n1 SLURM_HET_SIZE=2",
     "srun", 2, 3, 1, 2},
    /* srun --mpi=pmi2, and srun --mpi=pmix: the same task, told twice. */
    {SRUN "PMI_RANK=3 PMI_SIZE=4 PMI_JOBID=12.0", "mpiexec of MPICH", 3, 4, 0, 1},
    {SRUN "PMIX_RANK=3 PMIX_NAMESPACE=slurm.pmix.12.0", "srun", 3, 4, 0, 1},
    /* Launchers inside launchers. */
    {SRUN_OF_AGENTS TORCHRUN, "the environment", 3, 4, 1, 2},
    {SRUN_OF_AGENTS OPEN_MPI, "mpirun of Open MPI", 3, 4, 1, 2},
    {SRUN_OF_AGENTS MPICH, "mpiexec of MPICH", 3, 4, 1, 2},
    {OPEN_MPI "RANK=0 WORLD_SIZE=2 TORCHELASTIC_RUN_ID=x", "the environment", 0, 2, -1, -1},
    {"JOB_COMPLETION_INDEX=1 PET_NNODES=2 PET_NPROC_PER_NODE=2 " TORCHRUN, "the environment", 3, 4,
     1, 2},
    /* A batch script that sets RANK and WORLD_SIZE from Slurm's, or only WORLD_SIZE. */
    {SRUN "RANK=3 WORLD_SIZE=4", "the environment", 3, 4, 0, 1},
    {SRUN "WORLD_SIZE=4", "srun", 3, 4, 0, 1},
    /* sbatch sets SLURM_PROCID and SLURM_NTASKS for scripts; salloc's shell is a special step. */
    {"SLURM_JOB_ID=12 SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_NODEID=0", NULL, 0, 1, -1, -1},
    {"SLURM_STEP_ID=4294967291 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=4", NULL, 0, 1, -1, -1},
    {"SLURM_STEP_ID=4294967290 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=4", NULL, 0, 1, -1, -1},
    /* A single task is no job. */
    {"SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0", NULL, 0, 1, -1, -1},
    {"OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0", NULL, 0, 1, -1, -1},
    /* A PyTorchJob of Kubeflow's operator v1: RANK is the pod. */
    {"MASTER_ADDR=job-master-0 MASTER_PORT=23456 WORLD_SIZE=3 RANK=2 PET_NODE_RANK=2 "
     "PET_NPROC_PER_NODE=1 PET_NNODES=3",
     "the environment", 2, 3, -1, -1},
    /* Kubeflow Trainer v2, and an indexed Job of one's own. */
    {"JOB_COMPLETION_INDEX=1 PET_NNODES=2 PET_NPROC_PER_NODE=1 PET_NODE_RANK=1 "
     "PET_MASTER_ADDR=job-node-0-0.job PET_MASTER_PORT=29500",
     "an indexed Job of Kubernetes", 1, 2, -1, -1},
    {"JOB_COMPLETION_INDEX=5 WORLD_SIZE=8 MASTER_ADDR=train-0.train MASTER_PORT=29500",
     "an indexed Job of Kubernetes", 5, 8, -1, -1},
    {"JOB_COMPLETION_INDEX=1", NULL, 0, 1, -1, -1},
    {"JOB_COMPLETION_INDEX=1 PET_NNODES=1:4", NULL, 0, 1, -1, -1},
    {OPEN_MPI "YOKE_SEPARATE=1", NULL, 0, 1, -1, -1},
    {SRUN "YOKE_SEPARATE=1 RANK=0 WORLD_SIZE=2", "the environment", 0, 2, -1, -1},
};

YK_TEST(every_environment_gives_its_place)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        yki_place place;
        yk_place seen;
        set_environment(rows[i].environment);
        assert_ok(yki_place_read(&place, -1, -1));
        assert_int_equal(place.rank, rows[i].rank);
        assert_int_equal(place.world, rows[i].world);
        assert_int_equal(place.local_rank, rows[i].local_rank);
        assert_int_equal(place.local_world, rows[i].local_world);
        if (rows[i].source)
            assert_string_equal(place.source, rows[i].source);
        else
            assert_null(place.source);
        assert_ok(yk_group_place(&seen));
        assert_int_equal(seen.rank, rows[i].rank);
        assert_int_equal(seen.world_size, rows[i].world);
    }
}

YK_TEST(contradictions_name_both_sources)
{
    static const struct {
        const char *environment, *first, *second;
    } wrong[] = {
        {SRUN "RANK=0 WORLD_SIZE=8", "the environment says rank 0 of 8 (RANK, WORLD_SIZE)",
         "srun says rank 3 of 4 (SLURM_PROCID, SLURM_STEP_NUM_TASKS)"},
        {OPEN_MPI "RANK=0 WORLD_SIZE=1", "rank 0 of 1", "mpirun of Open MPI says rank 3 of 4"},
        {OPEN_MPI "RANK=2 WORLD_SIZE=4", "rank 2 of 4", "mpirun of Open MPI says rank 3 of 4"},
        {OPEN_MPI "PMI_RANK=1 PMI_SIZE=2", "mpirun of Open MPI says", "mpiexec of MPICH says"},
        {SRUN "WORLD_SIZE=8", "WORLD_SIZE is 8", "srun says rank 3 of 4"},
        {SRUN "RANK=2", "RANK is 2", "srun says rank 3 of 4"},
        {"RANK=1 WORLD_SIZE=2 JOB_COMPLETION_INDEX=0", "rank 1 of 2",
         "an indexed Job of Kubernetes says rank 0 of 2"},
        {"RANK=1", "RANK is set but WORLD_SIZE is not", ""},
        {"WORLD_SIZE=2", "WORLD_SIZE is set but RANK is not", ""},
        {"RANK=2 WORLD_SIZE=2", "rank 2 of a world of 2", "RANK counts from 0"},
        {"RANK=x WORLD_SIZE=2", "RANK", "x"},
        {"PMI_RANK=4 PMI_SIZE=4", "rank 4 of a world of 4", "PMI_RANK counts from 0"},
        {"RANK=1 WORLD_SIZE=2 LOCAL_RANK=2 LOCAL_WORLD_SIZE=2",
         "LOCAL_RANK 2: expected less than LOCAL_WORLD_SIZE, 2", ""},
        {"RANK=1 WORLD_SIZE=8 PET_NNODES=2 PET_NPROC_PER_NODE=4", "PET_NPROC_PER_NODE=4",
         "yoke run PROGRAM"},
        {"JOB_COMPLETION_INDEX=1 PET_NNODES=2 PET_NPROC_PER_NODE=4", "PET_NPROC_PER_NODE=4",
         "yoke run PROGRAM"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        yki_place place;
        set_environment(wrong[i].environment);
        assert_status(YK_ERROR_INVALID_ARGUMENT, yki_place_read(&place, -1, -1));
        assert_contains(yk_last_error(), wrong[i].first);
        assert_contains(yk_last_error(), wrong[i].second);
    }
}

YK_TEST(options_come_first)
{
    yki_place place;
    set_environment(TORCHRUN);
    assert_ok(yki_place_read(&place, 1, 2));
    assert_string_equal(place.source, "the options");
    assert_int_equal(place.rank, 1);
    assert_int_equal(place.world, 2);
    set_environment(SRUN);
    assert_ok(yki_place_read(&place, 1, 2));
    assert_false(place.slurm);
    assert_ok(yki_place_read(&place, 3, 4));
    assert_true(place.slurm);
    set_environment("");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yki_place_read(&place, 1, -1));
}

/* ---- where they meet ------------------------------------------------------------------------- */

static yki_meeting_point meet_in(const char *environment)
{
    yki_place place;
    yki_meeting_point point;
    set_environment(environment);
    assert_ok(yki_place_read(&place, -1, -1));
    assert_ok(yki_meeting_point_derive(&point, &place, 5));
    return point;
}

YK_TEST(tasks_of_a_step_meet_on_its_first_node)
{
    yki_meeting_point point = meet_in(SRUN), other;
    assert_int_equal(point.hosts, 2);
    assert_string_equal(point.host[0], "n1");
    assert_string_equal(point.host[1], "127.0.0.1");
    assert_in_range(point.port, 10000, 29999);
    assert_int_equal(point.ports, YKI_MEETING_PORTS);
    other = meet_in(SRUN "PMI_RANK=3 PMI_SIZE=4");
    assert_string_equal(point.identity, other.identity);
    other = meet_in(SRUN "SLURM_ARRAY_TASK_ID=1");
    assert_string_not_equal(point.identity, other.identity);
    assert_int_not_equal(point.port, other.port);
    other = meet_in(SRUN "SLURM_STEP_ID=1");
    assert_string_not_equal(point.identity, other.identity);
    point = meet_in(SRUN "SLURM_STEP_NUM_NODES=1");
    assert_string_equal(point.host[0], "127.0.0.1");
}

YK_TEST(ranks_of_mpirun_meet_on_their_host)
{
    yki_place place;
    yki_meeting_point point =
        meet_in("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 "
                "OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_MCA_ess_base_jobid=77");
    assert_string_equal(point.host[0], "127.0.0.1");
    assert_string_equal(point.identity, "mpi 77");
    set_environment(OPEN_MPI); /* on two hosts */
    assert_ok(yki_place_read(&place, -1, -1));
    assert_int_equal(yki_meeting_point_derive(&point, &place, 60), YK_ERROR_NOT_FOUND);
}

YK_TEST(without_an_address_it_says_what_to_set)
{
    yk_group *group;
    set_environment("RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_group_init(&group, NULL));
    assert_contains(yk_last_error(), "MASTER_PORT is not set");
    set_environment("RANK=1 WORLD_SIZE=2 MASTER_PORT=1");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_group_init(&group, NULL));
    assert_contains(yk_last_error(), "MASTER_ADDR is not set");
    set_environment(OPEN_MPI);
    setenv("YOKE_MODULES", "/nowhere", 1); /* and this process is none of mpirun's */
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_group_init(&group, NULL));
    assert_contains(yk_last_error(), "mpirun of Open MPI tells of 4 ranks on several hosts "
                                     "(OMPI_COMM_WORLD_SIZE), but not where rank 0 is: yoke's "
                                     "module for this MPI is missing");
}

/* ---- jobs without any address ---------------------------------------------------------------- */

static void expect_sum(int world)
{
    yk_group *group;
    int32_t one = 1;
    assert_ok(
        yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.timeout_s = 20)));
    assert_int_equal(yk_group_size(group), world);
    assert_int_equal(yk_group_local_size(group), world);
    assert_int_equal(yk_group_local_rank(group), yk_group_rank(group));
    assert_ok(yk_all_reduce(group, &one, 1, YK_I32, YK_REDUCE_SUM, NULL));
    assert_int_equal(one, world);
    yk_group_destroy(group);
}

/*
 * An address without its interface leads nowhere, so that they meet at the address of srun's host.
 * The step is named after the test's process, so that tests at the same time do not meet.
 */
static void become_task(int rank, int job, int world)
{
    char text[512];
    snprintf(text, sizeof text,
             "SLURM_JOB_ID=%d SLURM_ARRAY_TASK_ID=%d SLURM_STEP_ID=0 SLURM_PROCID=%d "
             "SLURM_STEP_NUM_TASKS=%d SLURM_STEP_NUM_NODES=2 SLURM_STEP_NODELIST=fe80::[1-2] "
             "SLURM_SRUN_COMM_HOST=127.0.0.1",
             getppid(), job, rank, world);
    set_environment(text);
}

YK_TEST_RANKS(tasks_of_srun_find_each_other, 3)
{
    become_task(rank, 0, world);
    expect_sum(world);
}

/* Another job of the array, whose ranks look for each other at some of the ports of job 0. */
static int find_rival(void)
{
    yki_place place;
    yki_meeting_point first, other = {.port = 0};
    int job = 0;
    become_task(0, 0, 2);
    assert_ok(yki_place_read(&place, -1, -1));
    assert_ok(yki_meeting_point_derive(&first, &place, 5));
    while (abs(other.port - first.port) >= YKI_MEETING_PORTS / 2) {
        char text[16];
        snprintf(text, sizeof text, "%d", ++job);
        setenv("SLURM_ARRAY_TASK_ID", text, 1);
        assert_ok(yki_meeting_point_derive(&other, &place, 5));
    }
    return job;
}

YK_TEST_RANKS(jobs_with_the_same_ports_do_not_mix, 4)
{
    become_task(rank / 2, rank % 2 ? find_rival() : 0, world / 2);
    expect_sum(world / 2);
}

YK_TEST_RANKS(ranks_of_torchrun_on_several_hosts_avoid_its_port, 3)
{
    char text[512];
    snprintf(text, sizeof text,
             "RANK=%d WORLD_SIZE=%d GROUP_WORLD_SIZE=%d MASTER_ADDR=127.0.0.1 MASTER_PORT=%s "
             "TORCHELASTIC_RUN_ID=%d TORCHELASTIC_USE_AGENT_STORE=True",
             rank, world, world, getenv("MASTER_PORT"), getppid());
    set_environment(text);
    expect_sum(world);
}

/* ---- launchers inside mpirun ----------------------------------------------------------------- */

YK_TEST(launchers_refuse_to_start_a_job_in_each_process)
{
    static const char *const commands[] = {
        "run -n 2 true", "train --nproc 2 --data synthetic --arch mlp --lr 0.01 --epochs 1"};
    set_environment("OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=1");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char output[4096];
        assert_int_not_equal(yk_test_command(output, sizeof output, "cd %s && %s %s",
                                             yk_test_directory(), getenv("YOKE_PROGRAM"),
                                             commands[i]),
                             0);
        assert_contains(output, "mpirun of Open MPI");
        assert_contains(output, "4 ");
    }
}

/* Processes that srun or mpirun has started together must not train alone unnoticed. */
#define _GNU_SOURCE
#include "harness.h"

#include <stdlib.h>
#include <string.h>

/* Sets "NAME=VALUE NAME=VALUE ..." and forgets what the environment held of the kind. */
static void set_environment(const char *text)
{
    static const char *const known[] = {
        "SLURM_STEP_ID",        "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_NTASKS",
        "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE",     "PMI_RANK",
        "MV2_COMM_WORLD_SIZE",  "MV2_COMM_WORLD_RANK",  "WORLD_SIZE",   "RANK",
        "YOKE_SEPARATE"};
    char name[64], value[64];
    int used;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        unsetenv(known[i]);
    for (; sscanf(text, " %63[^=]=%63s%n", name, value, &used) == 2; text += used)
        setenv(name, value, 1);
}

static void expect_refusal(const char *environment, const char *seen)
{
    yk_group *group;
    set_environment(environment);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_group_init(&group, NULL));
    assert_contains(yk_last_error(), seen);
    assert_contains(yk_last_error(), "yoke run -n 4 PROGRAM");
    assert_contains(yk_last_error(), "YOKE_SEPARATE=1");
}

static void expect_group_of_one(const char *environment)
{
    yk_group *group;
    set_environment(environment);
    assert_ok(yk_group_init(&group, NULL));
    assert_int_equal(yk_group_size(group), 1);
    yk_group_destroy(group);
}

YK_TEST(processes_of_srun_and_mpirun_are_refused)
{
    expect_refusal("SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=2 SLURM_NTASKS=4",
                   "srun has started 4 processes (SLURM_PROCID=2, SLURM_STEP_NUM_TASKS=4)");
    expect_refusal("OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=0",
                   "mpirun has started 4 processes (OMPI_COMM_WORLD_RANK=0, "
                   "OMPI_COMM_WORLD_SIZE=4)");
    expect_refusal("PMI_SIZE=4 PMI_RANK=3", "(PMI_RANK=3, PMI_SIZE=4)");
    expect_refusal("MV2_COMM_WORLD_SIZE=4 MV2_COMM_WORLD_RANK=3", "(MV2_COMM_WORLD_RANK=3, ");
}

YK_TEST(a_single_task_is_a_group_of_one)
{
    expect_group_of_one("SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0 SLURM_NTASKS=1");
    expect_group_of_one("OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0");
}

/* sbatch sets SLURM_PROCID and SLURM_NTASKS for the script; salloc's shell is a special step. */
YK_TEST(batch_scripts_and_interactive_shells_of_slurm_are_no_steps)
{
    expect_group_of_one("SLURM_PROCID=0 SLURM_NTASKS=4");
    expect_group_of_one("SLURM_STEP_ID=4294967291 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=4");
    expect_group_of_one("SLURM_STEP_ID=4294967290 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 "
                        "SLURM_NTASKS=4");
    expect_group_of_one("SLURM_NTASKS=4");
}

YK_TEST(a_world_size_or_an_explicit_wish_overrides)
{
    expect_group_of_one("SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=2 YOKE_SEPARATE=1");
    expect_group_of_one("OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=1 RANK=0 WORLD_SIZE=1");
}

YK_TEST(launchers_refuse_to_start_a_job_in_each_process)
{
    static const char *const commands[] = {
        "run -n 2 true", "train --nproc 2 --data synthetic --arch mlp --lr 0.01 --epochs 1",
        "train --data synthetic --arch mlp --lr 0.01 --epochs 1"};
    set_environment("OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=1");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char output[4096];
        assert_int_equal(yk_test_command(output, sizeof output, "cd %s && %s %s",
                                         yk_test_directory(), getenv("YOKE_PROGRAM"), commands[i]),
                         1);
        assert_contains(output, "mpirun has started 4 processes");
    }
}

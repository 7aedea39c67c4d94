/* Real Slurm: slurmctld, a slurmd on each of two hosts, srun and sbatch. */
#define _GNU_SOURCE
#include "meet.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char output[64 * 1024];

/* Runs a command on n1 with a deadline; returns its exit code. */
static int on_n1(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int on_n1(const char *format, ...)
{
    char command[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    return yk_test_command(output, sizeof output, "%s timeout 60 %s", yk_test_on(1), command);
}

/* Submits a script and waits for the end of its job, whose output it reads; its exit code. */
static int submit(const char *options, const char *script)
{
    char path[256], command[512];
    snprintf(path, sizeof path, "%s/script", yk_test_directory());
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "#!/bin/bash\n%s\n", script);
    fclose(file);
    snprintf(command, sizeof command, "sbatch --wait --output %s/job-%%A-%%a.out %s %s",
             yk_test_directory(), options, path);
    int code = on_n1("%s", command);
    char waited[1024];
    snprintf(waited, sizeof waited, "%.1000s", output);
    yk_test_command(output, sizeof output, "cat %s/job-*.out", yk_test_directory());
    if (code)
        print_message("%s%s\n", waited, output);
    return code;
}

/* Ranks that this starts on two nodes meet, and say so. */
static void meet_by(const char *srun)
{
    yk_test_run_as_rank(meet, 0);
    start_slurm(2);
    if (on_n1("%s %s", srun, meeting_rank()))
        fail_with(output);
}

YK_TEST(srun_starts_ranks_on_two_nodes)
{
    meet_by("srun -N2 -n4 --ntasks-per-node=2");
    assert_met(output, 4, 2);
}

YK_TEST(srun_measures_scaling_on_two_nodes)
{
    start_slurm(2);
    if (on_n1("srun -N2 -n4 --ntasks-per-node=2 %s bench scaling --data synthetic --arch mlp "
              "--lr 0.02 --max-steps 4 --repeats 1 --amp off",
              getenv("YOKE_PROGRAM")))
        fail_with(output);
    assert_contains(output, "\nDDP x2 ");
    assert_contains(output, "\nDDP x4 ");
}

YK_TEST(nodes_may_have_different_numbers_of_tasks)
{
    meet_by("srun -N2 -n4 --distribution=arbitrary --nodelist=n1,n1,n1,n2");
    for (int rank = 0; rank < 4; rank++) {
        char line[128];
        snprintf(line, sizeof line, "rank %d of 4 on n%d, local %d of %d: sum 10\n", rank,
                 rank < 3 ? 1 : 2, rank % 3, rank < 3 ? 3 : 1);
        assert_contains(output, line);
    }
}

/* Task 0 is not on the first node, by name. */
YK_TEST(tasks_are_placed_as_a_file_of_hosts_says)
{
    static const char places[] = "n2\nn1\nn2\n";
    yk_test_run_as_rank(meet, 0);
    start_slurm(2);
    char path[256];
    snprintf(path, sizeof path, "%s", yk_test_path("places"));
    yk_test_write_file(path, places, sizeof places - 1);
    for (int i = 0; i < 2; i++) {
        if (on_n1("env SLURM_HOSTFILE=%s %s srun -n3 %s", path, i ? "MASTER_PORT=29477" : "",
                  meeting_rank()))
            fail_with(output);
        assert_contains(output, "rank 0 of 3 on n2, local 0 of 2: sum 6\n");
        assert_contains(output, "rank 1 of 3 on n1, local 0 of 1: sum 6\n");
        assert_contains(output, "rank 2 of 3 on n2, local 1 of 2: sum 6\n");
    }
}

YK_TEST(a_port_may_be_given_without_an_address)
{
    meet_by("env MASTER_PORT=29477 srun -N2 -n2");
    assert_met(output, 2, 1);
}

YK_TEST(a_step_of_a_larger_allocation_counts_its_own_tasks)
{
    char script[1024];
    yk_test_run_as_rank(meet, 0);
    start_slurm(2);
    snprintf(script, sizeof script, "srun -N1 -n2 --exact %s & srun -N1 -n2 --exact %s & wait",
             meeting_rank(), meeting_rank());
    assert_int_equal(submit("-N2 -n8", script), 0);
    assert_contains(output, "rank 0 of 2 on n");
    assert_contains(output, "rank 1 of 2 on n");
    assert_null(strstr(output, " of 8"));
}

/* Of a heterogeneous job. Slurm counts the tasks and nodes of all of them. */
YK_TEST(components_of_one_srun_are_one_job)
{
    char script[1024];
    yk_test_run_as_rank(meet, 0);
    start_slurm(2);
    snprintf(script, sizeof script, "srun --het-group=0,1 %s", meeting_rank());
    assert_int_equal(submit("-N1 -n1 : -N1 -n3", script), 0);
    for (int rank = 0; rank < 4; rank++) {
        char line[128];
        snprintf(line, sizeof line, "rank %d of 4 on n%d, local %d of %d: sum 10\n", rank,
                 rank < 1 ? 1 : 2, rank < 1 ? 0 : rank - 1, rank < 1 ? 1 : 3);
        assert_contains(output, line);
    }
}

YK_TEST(components_may_come_in_another_order_than_the_names_of_their_nodes)
{
    char script[1024];
    yk_test_run_as_rank(meet, 0);
    start_slurm(2);
    snprintf(script, sizeof script, "srun --het-group=0,1 %s", meeting_rank());
    assert_int_equal(submit("-w n2 -n1 : -w n1 -n2", script), 0);
    assert_contains(output, "rank 0 of 3 on n2, local 0 of 1: sum 6\n");
    assert_contains(output, "rank 1 of 3 on n1, local 0 of 2: sum 6\n");
    assert_contains(output, "rank 2 of 3 on n1, local 1 of 2: sum 6\n");
}

YK_TEST(components_of_their_own_sruns_are_jobs_of_their_own)
{
    char script[1024];
    yk_test_run_as_rank(meet, 0);
    start_slurm(2);
    snprintf(script, sizeof script, "srun --het-group=0 %s & srun --het-group=1 %s & wait",
             meeting_rank(), meeting_rank());
    assert_int_equal(submit("-N1 -n2 : -N1 -n2", script), 0);
    for (int node = 1; node <= 2; node++)
        for (int rank = 0; rank < 2; rank++) {
            char line[128];
            snprintf(line, sizeof line, "rank %d of 2 on n%d, local %d of 2: sum 3\n", rank, node,
                     rank);
            assert_contains(output, line);
        }
}

YK_TEST(rank_0_says_on_which_host_it_is_where_the_address_is_that_of_another)
{
    yk_test_run_as_rank(meet, 0);
    start_slurm(2);
    assert_int_not_equal(on_n1("env MASTER_ADDR=n2 timeout 8 srun -N2 -n2 %s", meeting_rank()), 0);
    assert_contains(output, "rank 0: still waiting for its own store, on host n1, at n2:");
}

YK_TEST(array_tasks_on_one_node_do_not_meet_each_other)
{
    yk_test_run_as_rank(meet, 0);
    start_slurm(1);
    char script[1024];
    snprintf(script, sizeof script, "srun -n2 --overlap %s", meeting_rank());
    assert_int_equal(submit("--array=1-3 -N1 -n2 --oversubscribe", script), 0);
    int met = 0;
    for (const char *at = output; (at = strstr(at, "of 2 on n1, local")); at++)
        met++;
    assert_int_equal(met, 6);
}

YK_TEST(a_batch_script_without_srun_is_one_process)
{
    yk_test_run_as_rank(meet, 0);
    start_slurm(1);
    assert_int_equal(submit("-N1 -n4", meeting_rank()), 0);
    assert_contains(output, "rank 0 of 1 on n1");
}

/* ---- examples/slurm/train.sbatch ------------------------------------------------------------ */

#define TRAINING "--data synthetic --arch mlp --lr 0.02 --threads 1 --batch-size 120 "

/* Submits the example from the test's folder; returns the job's number. */
static int submit_example(const char *options)
{
    if (on_n1("sh -c 'cd %s && PATH=$(dirname $YOKE_PROGRAM):$PATH && exec sbatch --parsable "
              "--ntasks-per-node=2 --time=10 %s/examples/slurm/train.sbatch " TRAINING "%s'",
              yk_test_directory(), getenv("YOKE_SOURCE"), options))
        fail_with(output);
    return atoi(output);
}

static const char *read_output(int job)
{
    yk_test_command(output, sizeof output, "cat %s/yoke-%d.out 2>/dev/null", yk_test_directory(),
                    job);
    return output;
}

/* Waits until the job's output has these words, or until the job has ended (NULL). */
static void await_job(int job, const char *words)
{
    for (int i = 0; i < 600; i++) {
        char state[256];
        yk_test_command(state, sizeof state,
                        "%s squeue --noheader --states all --format %%T --jobs %d", yk_test_on(1),
                        job);
        bool ended =
            strstr(state, "COMPLETED") || strstr(state, "FAILED") || strstr(state, "CANCELLED");
        if (words ? strstr(read_output(job), words) != NULL : ended)
            return;
        usleep(100000);
    }
    fail_with(read_output(job));
}

YK_TEST(promise_15_the_example_is_requeued_and_resumes_to_the_bit)
{
    char paths[512];
    start_slurm(2);
    int whole = submit_example("--epochs 6");
    await_job(whole, NULL);
    int parts = submit_example("--epochs 6 --save-every 5");
    await_job(parts, "  output ");
    on_n1("scancel --signal=USR1 %d", parts);
    await_job(parts, "back in the queue");
    on_n1("sh -c 'sleep 1; scontrol update JobId=%d StartTime=now'", parts);
    await_job(parts, NULL);
    assert_contains(read_output(parts), "resum");
    snprintf(paths, sizeof paths, "%s/runs/%d/model.pth %s/runs/%d/model.pth", yk_test_directory(),
             whole, yk_test_directory(), parts);
    assert_int_equal(yk_test_command(output, sizeof output, "cmp %s", paths), 0);
}

/* Its ranks stop and save as at the end of the job's time, but it is over. */
YK_TEST(a_cancelled_job_saves_and_is_not_requeued)
{
    start_slurm(2);
    int cancelled = submit_example("--epochs 100000 --save-every 100000");
    await_job(cancelled, "  output ");
    on_n1("scancel %d", cancelled);
    await_job(cancelled, "is not requeued: Slurm is ending it already");
    await_job(cancelled, "Stopped after step ");
    await_job(cancelled, NULL);
    if (on_n1("scontrol show job --oneliner %d", cancelled))
        fail_with(output);
    assert_contains(output, " JobState=CANCELLED ");
    assert_contains(output, " Restarts=0 ");
    yk_test_command(output, sizeof output, "ls %s/runs/%d", yk_test_directory(), cancelled);
    assert_contains(output, "manifest.json");
}

/*
 * The mpi backend under the real mpiruns. Each case starts itself again in ranks; those that call
 * exit() end MPI as a program does.
 */
#define _GNU_SOURCE
#include "../faults/rank_lines.h"
#include "engine.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct mpi_kind {
    const char *launcher, *options, *module;
} mpi_kind;

static const mpi_kind openmpi = {"mpirun.openmpi", "--oversubscribe", "libyoke-mpi-openmpi.so"};
static const mpi_kind mpich = {"mpirun.mpich", "", "libyoke-mpi-mpich.so"};

static yk_group *open_mpi(double timeout_s)
{
    yk_group *group;
    assert_ok(yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT,
                                            o.backend = "mpi", o.timeout_s = timeout_s)));
    assert_string_equal(yk_group_backend(group), "mpi");
    return group;
}

/* The same for calls that are given up after so long. MPI itself may take longer to start. */
static yk_group *open_impatient_mpi(double timeout_s)
{
    yk_group *group = open_mpi(60);
    assert_ok(yk_barrier(group));
    set_timeout(group, timeout_s);
    return group;
}

/* In a rank runs body; otherwise starts the ranks, and returns mpirun's exit code. */
static int run_ranks(const mpi_kind *mpi, int world, void (*body)(void), char *output, size_t size)
{
    char program[512] = "";
    if (getenv("YK_TEST_RANK")) {
        body();
        exit(0);
    }
    require_module(mpi->module);
    if (yk_test_command(output, size, "command -v %s", mpi->launcher))
        skip_because("%s is not installed", mpi->launcher);
    assert_true(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
    yk_test_openmpi();
    setenv("OMP_NUM_THREADS", "1", 1);
    return yk_test_command(output, size,
                           "YK_TEST_RANK=0 timeout -k 5 100 %s %s -n %d '%s' %s </dev/null",
                           mpi->launcher, mpi->options, world, program, yk_test_running_case());
}

static void expect_success(const mpi_kind *mpi, int world, void (*body)(void))
{
    char output[8192];
    int code = run_ranks(mpi, world, body, output, sizeof output);
    if (code)
        fail_msg("%s ended with %d:\n%s", mpi->launcher, code, output);
}

static void every_call(void)
{
    yk_group *group = open_mpi(60);
    check_collectives(group);
    check_messages(group);
    check_mismatches(group);
    yk_group_destroy(group);
}

YK_TEST(two_ranks_of_openmpi_run_every_call)
{
    expect_success(&openmpi, 2, every_call);
}

YK_TEST(two_ranks_of_mpich_run_every_call)
{
    expect_success(&mpich, 2, every_call);
}

YK_TEST(three_ranks_of_openmpi_run_every_call)
{
    expect_success(&openmpi, 3, every_call);
}

YK_TEST(three_ranks_of_mpich_run_every_call)
{
    expect_success(&mpich, 3, every_call);
}

/* ---- groups that are created at the same time ------------------------------------------------ */

static void *duplicate_often(void *group)
{
    for (int i = 0; i < 20; i++) {
        yk_group *copy;
        float x = 1;
        assert_ok(yk_group_duplicate(&copy, group));
        assert_ok(yk_all_reduce(copy, &x, 1, YK_F32, YK_REDUCE_SUM, NULL));
        assert_true(x == (float)yk_group_size(group));
        yk_group_destroy(copy);
    }
    return NULL;
}

/* By two threads of each rank; another rank is the first of each group, and all three are in both.
 * Meanwhile the ranks create groups in pairs, so that they have not created equally many. */
static void create_at_the_same_time(void)
{
    yk_group *group = open_mpi(60), *turned, *part;
    int rank = yk_group_rank(group);
    pthread_t thread;
    assert_ok(yk_group_split(&turned, group, 0, (rank + 2) % 3));
    for (int i = 0; i < 97; i++) {
        assert_ok(yk_group_split(&part, group, rank == 1 ? YK_COLOR_NONE : 0, 0));
        yk_group_destroy(part);
    }
    assert_int_equal(pthread_create(&thread, NULL, duplicate_often, turned), 0);
    duplicate_often(group);
    assert_int_equal(pthread_join(thread, NULL), 0);
    yk_group_destroy(turned);
    yk_group_destroy(group);
}

YK_TEST(groups_of_openmpi_are_created_at_the_same_time)
{
#ifdef __SANITIZE_THREAD__
    skip_because("ThreadSanitizer does not know how Open MPI orders what its threads do");
#endif
    expect_success(&openmpi, 3, create_at_the_same_time);
}

YK_TEST(groups_of_mpich_are_created_at_the_same_time)
{
    expect_success(&mpich, 3, create_at_the_same_time);
}

/* Among so many ranks, the exchange does not carry the sizes of the parts, which are gathered in
 * the place of the result. */
static void trade_parts(void)
{
    enum { RANKS = 9 };
    yk_group *group = open_mpi(60);
    int rank = yk_group_rank(group);
    int32_t in[RANKS], out[RANKS];
    size_t counts[RANKS];
    for (int r = 0; r < RANKS; r++) {
        in[r] = 100 * rank + r;
        counts[r] = 1;
    }
    assert_ok(yk_all_to_all_v(group, out, counts, in, counts, YK_I32, NULL));
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(out[r], 100 * r + rank);
    yk_group_destroy(group);
}

YK_TEST(nine_ranks_of_mpich_trade_parts)
{
    expect_success(&mpich, 9, trade_parts);
}

/* As if MPI's largest count were so small that buffers of 9,001 elements were split, of every type.
 * Each piece takes a turn of all ranks, which lasts long where they share cores. */
static void in_pieces(void)
{
    setenv("YOKE_TEST_MPI_COUNT", "7000", 1);
    yk_group *group = open_mpi(60);
    check_collectives(group);
    check_messages(group);
    yk_group_destroy(group);
}

YK_TEST(counts_beyond_those_of_mpi_are_split)
{
    expect_success(&openmpi, 3, in_pieces);
}

/* Rank 1 comes too late: the call is cancelled, and the process still ends. */
static void one_is_late(void)
{
    yk_group *group = open_impatient_mpi(2);
    float data = 1;
    if (yk_group_rank(group) == 1)
        pause(); /* until mpirun ends it */
    assert_status(YK_ERROR_TIMEOUT, yk_all_reduce(group, &data, 1, YK_F32, YK_REDUCE_SUM, NULL));
    assert_contains(yk_last_error(), "rank 1");
    yk_group_destroy(group);
    fprintf(stderr, "the late rank was noticed\n");
    _exit(3);
}

YK_TEST(a_late_rank_ends_the_call_under_openmpi)
{
    char output[8192];
    assert_int_not_equal(run_ranks(&openmpi, 2, one_is_late, output, sizeof output), 0);
    assert_contains(output, "the late rank was noticed");
}

YK_TEST(a_late_rank_ends_the_call_under_mpich)
{
    char output[8192];
    assert_int_not_equal(run_ranks(&mpich, 2, one_is_late, output, sizeof output), 0);
    assert_contains(output, "the late rank was noticed");
}

/* ---- ranks that are lost while the others drive a call -------------------------------------- */

static void reduce_until_lost(yk_group *group, size_t count, int calls)
{
    float *data = calloc(count, sizeof *data);
    yk_status status = YK_OK;
    for (int i = 0; status == YK_OK; i++) {
        if (i == calls)
            raise(SIGKILL);
        status = yk_all_reduce(group, data, count, YK_F32, YK_REDUCE_MAX, NULL);
    }
    leave_line(yk_group_rank(group));
    await_text("line", 2 - yk_group_rank(group)); /* mpirun ends them all when one has ended */
    yk_group_destroy(group);
    free(data);
    _exit(3);
}

/* mpirun may end before the others do. */
static void expect_loss(const mpi_kind *mpi, void (*body)(void), const char *words)
{
    char output[8192];
    open_lines();
    int code = run_ranks(mpi, 3, body, output, sizeof output);
    if (code == 124 || code == 137) /* of timeout */
        fail_msg("%s did not end:\n%s", mpi->launcher, output);
    for (int r = 0; r < 3; r += 2) {
        await_text("line", r);
        assert_contains(line_of(r), words);
    }
}

/* Open MPI's mpirun then leaves it to the ranks to notice a death; MPICH's ends all at once. */
static const mpi_kind patient = {"mpirun.openmpi", "--oversubscribe --enable-recovery",
                                 "libyoke-mpi-openmpi.so"};

static void one_dies_before_a_small_call(void)
{
    yk_group *group = open_mpi(60);
    reduce_until_lost(group, 1, yk_group_rank(group) == 1 ? 20 : -1);
}

static void one_dies_before_a_large_call(void)
{
    yk_group *group = open_mpi(60);
    reduce_until_lost(group, 100000, yk_group_rank(group) == 1 ? 20 : -1);
}

YK_TEST(a_rank_that_dies_before_a_small_call_is_named)
{
    expect_loss(&patient, one_dies_before_a_small_call, "max), operation 21: rank 1 is dead");
}

YK_TEST(a_rank_that_dies_before_a_large_call_is_named)
{
    expect_loss(&patient, one_dies_before_a_large_call, "max), operation 21: rank 1 is dead");
}

static void *stop_later(void *unused)
{
    usleep(500000);
    kill(getpid(), SIGSTOP);
    return unused;
}

/* Rank 1 stops somewhere in a stream of calls, most likely while their data moves. */
static void one_stops(void)
{
    pthread_t thread;
    yk_group *group = open_impatient_mpi(3);
    if (yk_group_rank(group) == 1)
        assert_int_equal(pthread_create(&thread, NULL, stop_later, NULL), 0);
    reduce_until_lost(group, 1 << 20, -1);
}

YK_TEST(a_rank_of_openmpi_that_stops_while_data_moves_is_named)
{
    expect_loss(&openmpi, one_stops, "timed out after 3 s: rank 1 did not take part");
}

YK_TEST(a_rank_of_mpich_that_stops_while_data_moves_is_named)
{
    expect_loss(&mpich, one_stops, "timed out after 3 s: rank 1 did not take part");
}

/* ---- meeting --------------------------------------------------------------------------------- */

/* Each rank believes that it is alone on its own. */
static void as_on_several_hosts(void)
{
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "1", 1);
    setenv("OMPI_COMM_WORLD_LOCAL_RANK", "0", 1);
    setenv("MPI_LOCALNRANKS", "1", 1);
    setenv("MPI_LOCALRANKID", "0", 1);
}

static void meet_through_mpi(void)
{
    as_on_several_hosts();
    yk_group *group = open_mpi(60);
    assert_ok(yk_barrier(group));
    yk_group_destroy(group);
}

YK_TEST(ranks_of_openmpi_meet_through_mpi)
{
    expect_success(&openmpi, 3, meet_through_mpi);
}

YK_TEST(ranks_of_mpich_meet_through_mpi)
{
    expect_success(&mpich, 3, meet_through_mpi);
}

/* ---- ranks that do not come ------------------------------------------------------------------ */

/* Whether a thread of this process has this name. */
static bool has_thread(const char *name)
{
    char path[64], text[32];
    bool found = false;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (struct dirent *each; !found && (each = readdir(tasks));) {
        snprintf(path, sizeof path, "/proc/self/task/%.20s/comm", each->d_name);
        FILE *file = fopen(path, "re");
        found = file && fgets(text, sizeof text, file) && strcmp(text, name) == 0;
        if (file)
            fclose(file);
    }
    closedir(tasks);
    return found;
}

/* MPI_Init begins in a thread of this name. */
static void *stop_when_mpi_starts(void *unused)
{
    while (!has_thread("yoke-mpi\n"))
        ;
    kill(getpid(), SIGSTOP);
    return unused;
}

static bool is_second(void)
{
    const char *open_mpi_rank = getenv("OMPI_COMM_WORLD_RANK");
    return atoi(open_mpi_rank ? open_mpi_rank : getenv("PMI_RANK")) == 1;
}

/* Rank 1 stops at once. */
static void one_never_meets(void)
{
    setenv("YOKE_TIMEOUT", "3", 1);
    if (is_second())
        raise(SIGSTOP);
    as_on_several_hosts();
    yk_group *group;
    assert_int_not_equal(
        yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.backend = "mpi")),
        YK_OK);
    fprintf(stderr, "%s\n", yk_last_error());
    exit(3);
}

/* Rank 1 stops in MPI_Init. */
static void one_never_starts(void)
{
    pthread_t thread;
    if (is_second())
        assert_int_equal(pthread_create(&thread, NULL, stop_when_mpi_starts, NULL), 0);
    yk_group *group;
    assert_status(YK_ERROR_TIMEOUT,
                  yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT,
                                                o.backend = "mpi", o.timeout_s = 3)));
    fprintf(stderr, "%s\n", yk_last_error());
    exit(3);
}

/* Rank 1 stops after its work, so MPI_Finalize of rank 0 waits for it. */
static void one_never_ends(void)
{
    yk_group *group = open_mpi(60);
    yk_group_destroy(group);
    if (is_second())
        raise(SIGSTOP);
}

static void expect_end(const mpi_kind *mpi, void (*body)(void), const char *words)
{
    char output[8192];
    int code = run_ranks(mpi, 2, body, output, sizeof output);
    if (code == 124 || code == 137 || !strstr(output, words)) /* of timeout */
        fail_msg("%s ended with %d:\n%s", mpi->launcher, code, output);
}

YK_TEST(a_rank_that_openmpi_misses_is_not_awaited_for_ever)
{
    expect_end(&openmpi, one_never_meets,
               "did not meet within 3 s: MPI_Init of Open MPI has not returned");
}

YK_TEST(a_rank_that_mpich_misses_is_not_awaited_for_ever)
{
    expect_end(&mpich, one_never_meets,
               "did not meet within 3 s: MPI_Init of MPICH has not returned");
}

YK_TEST(a_rank_that_stops_in_the_start_of_openmpi_is_named)
{
    expect_end(&openmpi, one_never_starts, "rank 1 did not take part");
}

YK_TEST(a_rank_that_stops_in_the_start_of_mpich_is_named)
{
    expect_end(&mpich, one_never_starts, "rank 1 did not take part");
}

YK_TEST(a_rank_that_stops_before_the_end_of_openmpi_is_not_awaited_for_ever)
{
    expect_end(&openmpi, one_never_ends, "MPI_Finalize did not return within 10 s");
}

YK_TEST(a_rank_that_stops_before_the_end_of_mpich_is_not_awaited_for_ever)
{
    expect_end(&mpich, one_never_ends, "MPI_Finalize did not return within 10 s");
}

/* Without any mpirun the error says what to do. */
YK_TEST_RANKS(without_mpirun_the_launcher_is_named, 2)
{
    yk_group *group;
    require_module("libyoke-mpi-openmpi.so");
    assert_status(YK_ERROR_UNSUPPORTED,
                  yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT,
                                                o.backend = "mpi", o.timeout_s = 30)));
    assert_contains(yk_last_error(), "use mpirun.openmpi");
}

/* ---- one mpirun for each rank ---------------------------------------------------------------- */

enum { EXPECTED = 7 };

/* The rank whose MPI starts later may only see that the other, which has been told, is gone. */
static void believe_in_two_ranks(void)
{
    yk_group *group;
    yk_status status = yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT,
                                                     o.backend = "mpi", o.timeout_s = 30));
    if (status != YK_ERROR_PEER_FAILED) {
        assert_status(YK_ERROR_UNSUPPORTED, status);
        assert_contains(yk_last_error(),
                        "knows of 1 rank, but the job has 2: start them all with one");
        leave_text("told", atoi(getenv("RANK")), "yes");
    }
    exit(EXPECTED); /* as a program does that fails: mpirun passes the code on */
}

/* Each MPI then knows of one rank only, whatever the environment says. */
static void run_one_each(const mpi_kind *mpi)
{
    char output[8192], port[16];
    open_lines();
    if (!getenv("YK_TEST_RANK")) {
        snprintf(port, sizeof port, "%d", yk_test_free_port());
        setenv("MASTER_ADDR", "127.0.0.1", 1);
        setenv("MASTER_PORT", port, 1);
        setenv("WORLD_SIZE", "2", 1);
        setenv("YOKE_SEPARATE", "1", 1);
        yk_test_directory(); /* of both, which the parent removes */
    }
    fflush(stdout);
    pid_t other = getenv("YK_TEST_RANK") ? 0 : fork();
    if (!getenv("YK_TEST_RANK"))
        setenv("RANK", other ? "0" : "1", 1);
    int code = run_ranks(mpi, 1, believe_in_two_ranks, output, sizeof output);
    if (code != EXPECTED)
        print_message("%s ended with %d:\n%s", mpi->launcher, code, output);
    if (other == 0)
        _exit(code);
    int status = -1;
    waitpid(other, &status, 0);
    assert_int_equal(code, EXPECTED);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == EXPECTED);
    assert_true(*text_of("told", 0) || *text_of("told", 1));
}

YK_TEST(an_mpirun_of_openmpi_for_each_rank_is_told)
{
    run_one_each(&openmpi);
}

YK_TEST(an_mpirun_of_mpich_for_each_rank_is_told)
{
    run_one_each(&mpich);
}

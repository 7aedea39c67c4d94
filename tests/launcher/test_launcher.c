/* `yoke run` and its processes: environment, exit codes, causes, output, cores, ports. */
#define _GNU_SOURCE
#include "job.h"
#include "small_group.h"

#include <sched.h>
#include <sys/stat.h>

static test_job job;

static int run(const char *arguments)
{
    test_job_start(&job, arguments);
    return test_job_wait(&job, 60);
}

YK_TEST(ranks_get_the_environment_of_torchrun)
{
    assert_job_code(&job,
                    run("run --nproc_per_node 2 --rdzv-id=job7 --role trainer -- sh -c 'echo "
                        "=$RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK "
                        "$GROUP_WORLD_SIZE $ROLE_RANK $ROLE_NAME $ROLE_WORLD_SIZE $MASTER_ADDR "
                        "$TORCHELASTIC_RESTART_COUNT $TORCHELASTIC_MAX_RESTARTS "
                        "$TORCHELASTIC_RUN_ID=; test $MASTER_PORT -gt 0 && echo port; "
                        "test ${#YOKE_SECRET} -eq 32 && echo secret'"),
                    0);
    assert_contains(job.output, "[rank 0] =0 0 2 2 0 1 0 trainer 2 127.0.0.1 0 0 job7=\n");
    assert_contains(job.output, "[rank 1] =1 1 2 2 0 1 1 trainer 2 127.0.0.1 0 0 job7=\n");
    assert_int_equal(count(job.output, "] port\n"), 2);
    assert_int_equal(count(job.output, "] secret\n"), 2);
}

YK_TEST(long_names_reach_the_ranks_whole)
{
    assert_job_code(
        &job, run("run --rdzv-id $(printf %0400d 0) sh -c 'echo ${#TORCHELASTIC_RUN_ID}.'"), 0);
    assert_string_equal(job.output, "[rank 0] 400.\n");
}

YK_TEST(two_jobs_have_different_secrets)
{
    assert_job_code(&job, run("run sh -c 'echo $YOKE_SECRET'"), 0);
    char *first = strdup(job.output);
    assert_job_code(&job, run("run sh -c 'echo $YOKE_SECRET'"), 0);
    assert_string_not_equal(first, job.output);
    free(first);
}

YK_TEST(the_program_gets_its_arguments_untouched)
{
    assert_job_code(&job,
                    run("run -n 1 -- sh -c 'printf \"<%s>\" \"$@\"; echo' sh --my_option -n -- 'a "
                        "b' --help"),
                    0);
    assert_string_equal(job.output, "[rank 0] <--my_option><-n><--><a b><--help>\n");
}

YK_TEST(a_program_that_is_not_there_gives_127)
{
    assert_job_code(&job, run("run -n 2 ./no-such-program"), 127);
    assert_contains(job.output, "cannot start ./no-such-program: No such file or directory");
    assert_int_equal(count(job.output, "\n"), 1);
    assert_job_code(&job, run("run -n 2 /etc/passwd"), 126);
}

/* Such as one whose lines end as on Windows. */
YK_TEST(an_interpreter_that_is_not_there_is_named_as_the_reason)
{
    char command[256];
    const char *script = yk_test_path("script");
    FILE *file = fopen(script, "we");
    assert_non_null(file);
    fputs("#!/bin/sh\r\necho hello\r\n", file);
    fclose(file);
    assert_int_equal(chmod(script, 0700), 0);
    snprintf(command, sizeof command, "run %s", script);
    assert_job_code(&job, run(command), 127);
    assert_contains(job.output, "script: the interpreter that it names was not found\n");
}

YK_TEST(promise_10_the_exit_code_is_the_first_failing_ranks)
{
    assert_job_code(&job, run("run -n 3 sh -c 'test $RANK = 1 && exit 42; sleep 30'"), 42);
    assert_job_code(&job, run("run -n 3 sh -c 'test $RANK = 2 && kill -9 $$; sleep 30'"),
                    128 + SIGKILL);
    assert_job_code(&job, run("run -n 2 sh -c 'test $RANK = 0 && kill -SEGV $$; sleep 30'"),
                    128 + SIGSEGV);
    assert_job_code(&job, run("run -n 3 true"), 0);
}

YK_TEST(promise_11_the_cause_is_what_failed_first)
{
    assert_int_equal(
        run("run -n 3 sh -c 'if [ $RANK = 1 ]; then echo early >&2; echo the real reason >&2; "
            "exit 7; fi; trap \"echo victim of another >&2; exit 1\" TERM; sleep 30 & wait'"),
        7);
    assert_contains(job.output, "rank 1 (pid ");
    assert_contains(job.output, "exited with code 7");
    const char *verdict = strstr(job.output, "first to fail");
    assert_non_null(verdict);
    assert_contains(verdict, "[rank 1] early\n[rank 1] the real reason\n");
    assert_null(strstr(verdict, "victim"));
}

/* Rank 1 leaves its group: rank 0 fails and ends first, without any words of the library. */
static void leave_and_fail_late(int rank)
{
    yk_group *group;
    int32_t one = 1;
    assert_ok(yk_group_init(&group, NULL));
    if (rank == 1) {
        yk_group_destroy(group);
        usleep(400000);
        fprintf(stderr, "my fault\n");
        _exit(5);
    }
    assert_status(YK_ERROR_PEER_FAILED, yk_all_reduce(group, &one, 1, YK_I32, YK_REDUCE_SUM, NULL));
    fprintf(stderr, "es ging nicht\n");
    _exit(1);
}

YK_TEST(promise_11_a_survivor_that_ends_first_is_not_the_cause)
{
    if (getenv("RANK"))
        leave_and_fail_late(atoi(getenv("RANK")));
    char self[256], command[512];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(length > 0);
    self[length] = '\0';
    snprintf(command, sizeof command,
             "run -n 2 %s promise_11_a_survivor_that_ends_first_is_not_the_cause", self);
    assert_job_code(&job, run(command), 5);
    assert_contains(strstr(job.output, "first to fail"), "[rank 1] my fault\n");
    const char *died = strstr(job.output, "es ging nicht");
    assert_true(died && died < strstr(job.output, "first to fail"));
}

/* Rank 1 fails as soon as rank 0 is gone. */
YK_TEST(promise_11_words_of_a_rank_do_not_accuse_another)
{
    setenv("FIRST", yk_test_path("first"), 1);
    assert_job_code(&job,
                    run("run -n 2 sh -c 'if [ $RANK = 0 ]; then echo \"all_reduce: rank 1 is "
                        "dead: pid 1\" >&2; echo $$ >$FIRST; exit 3; fi; "
                        "until [ -s $FIRST ]; do sleep 0.01; done; "
                        "while kill -0 $(cat $FIRST); do sleep 0.01; done; exit 5'"),
                    3);
    assert_contains(job.output, "rank 0 (pid ");
}

YK_TEST(help_lists_the_exit_codes)
{
    static const char *const commands[] = {"run --help", "train --help"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        assert_job_code(&job, run(commands[i]), 0);
        assert_contains(job.output, "\nExit codes:\n  0 ");
        assert_contains(job.output, "  121 ");
        assert_contains(job.output, "  122 ");
    }
}

YK_TEST(survivors_are_ended_within_two_seconds)
{
    test_job_start(&job, "run -n 3 sh -c 'trap \"\" TERM; test $RANK = 2 && echo fails && exit 9; "
                         "while :; do sleep 1; done'");
    test_job_await(&job, "fails");
    double start = yk_test_now();
    assert_job_ends(&job, 60, 9);
    assert_true(yk_test_now() - start < 4);
}

YK_TEST(promise_12_lines_never_interleave_and_carry_the_rank)
{
    test_job_start(&job, "run -n 4 sh -c 'i=0; while [ $i -lt 200 ]; do printf \"<$RANK.\"; printf "
                         "\"$i.\"; printf \"$RANK>\\n\"; i=$((i+1)); done'");
    assert_job_ends(&job, 60, 0);
    int next[4] = {0}, lines = 0;
    for (char *line = job.output, *end; (end = strchr(line, '\n')); line = end + 1, lines++) {
        int rank = -1, first, number, second, used = 0;
        *end = '\0';
        sscanf(line, "[rank %d] <%d.%d.%d>%n", &rank, &first, &number, &second, &used);
        if (used != end - line || rank < 0 || rank > 3)
            fail_msg("a mixed line: \"%s\"", line);
        assert_int_equal(rank, first);
        assert_int_equal(rank, second);
        assert_int_equal(number, next[rank]++);
    }
    assert_int_equal(lines, 800);
}

/* Both are one pipe, whose reader lets lines of both wait. */
YK_TEST(promise_12_stderr_does_not_cut_lines_of_stdout)
{
    char output[64];
    yk_test_command(output, sizeof output,
                    "%s run -n 2 sh -c 'seq 8000 & seq 8000 >&2 & wait' 2>&1 | "
                    "(sleep 0.5; grep -cxE '\\[rank [01]\\] [0-9]+')",
                    test_program());
    assert_string_equal(output, "32000\n");
}

/* Of more than a pipe takes at once. */
YK_TEST(promise_12_stderr_does_not_cut_long_lines_of_stdout)
{
    char output[64];
    yk_test_command(
        output, sizeof output,
        "%s run sh -c 'x=$(printf %%06000d 0); seq 100 | sed \"s/.*/$x/\" & seq 20000 >&2 "
        "& wait' 2>&1 | (sleep 0.5; grep -cxE '\\[rank 0\\] (0{6000}|[1-9][0-9]*)')",
        test_program());
    assert_string_equal(output, "20100\n");
}

YK_TEST(an_unfinished_last_line_is_printed)
{
    assert_job_code(&job, run("run -n 2 sh -c 'printf end$RANK'"), 0);
    assert_contains(job.output, "[rank 0] end0\n");
    assert_contains(job.output, "[rank 1] end1\n");
}

YK_TEST(what_a_carriage_return_overwrote_is_not_printed)
{
    assert_job_code(&job,
                    run("run sh -c 'printf \"10 %%\\r\"; printf \"99 %%\\rdone\\n\"; printf "
                        "\"dos\\r\\n\"'"),
                    0);
    assert_string_equal(job.output, "[rank 0] done\n[rank 0] dos\n");
}

YK_TEST(a_very_long_line_arrives_whole)
{
    assert_job_code(&job, run("run sh -c 'head -c 50000 /dev/zero | tr \"\\0\" x; echo'"), 0);
    assert_int_equal(strlen(job.output), strlen("[rank 0] \n") + 50000);
}

/* Others print meanwhile. A longest line is 1 MiB. */
YK_TEST(lines_that_are_longer_still_are_not_mixed_with_others)
{
    char output[64];
    yk_test_command(
        output, sizeof output,
        "%s run -n 2 sh -c 'head -c 900000 /dev/zero | tr \"\\0\" $RANK; echo; seq 1000' "
        "| awk 'length($0) == 900009 { long++ } "
        "/^.rank (0. 0+|1. 1+|[01]. [1-9][0-9]*)$/ { fine++ } END { print long, fine }'",
        test_program());
    assert_string_equal(output, "2 2002\n");
    yk_test_command(output, sizeof output,
                    "%s run sh -c 'head -c 2500000 /dev/zero | tr \"\\0\" x; echo' | wc -lc",
                    test_program());
    int lines, bytes, prefix = (int)strlen("[rank 0] \n");
    assert_int_equal(sscanf(output, "%d %d", &lines, &bytes), 2);
    assert_int_equal(lines, 3);
    assert_int_equal(bytes, 2500000 + lines * prefix);
}

YK_TEST(a_reader_that_leaves_does_not_stop_the_job)
{
    char output[4096], path[256];
    snprintf(path, sizeof path, "%s/ended", yk_test_directory());
    yk_test_command(output, sizeof output,
                    "%s run -n 2 sh -c 'for i in 1 2 3 4 5 6; do echo $i; sleep 0.05; done; "
                    "echo rank $RANK >> %s' | head -n 1",
                    test_program(), path);
    assert_contains(output, "] 1\n");
    double deadline = yk_test_now() + 20;
    do
        yk_test_command(output, sizeof output, "cat %s", path);
    while (!(strstr(output, "rank 0") && strstr(output, "rank 1")) && yk_test_now() < deadline);
    assert_contains(output, "rank 0\n");
    assert_contains(output, "rank 1\n");
}

YK_TEST(promise_09_twenty_jobs_at_once)
{
    enum { JOBS = 20 };
    static test_job jobs[JOBS];
    char command[256];
    snprintf(command, sizeof command,
             "run -n 2 sh -c 'echo port=$MASTER_PORT.; while [ ! -e %s/go ]; do sleep 0.05; done'",
             yk_test_directory());
    for (int i = 0; i < JOBS; i++)
        test_job_start(&jobs[i], command);
    int ports[JOBS];
    for (int i = 0; i < JOBS; i++) { /* all run at the same time from here on */
        test_job_await(&jobs[i], "[rank 1] port=");
        ports[i] = test_job_number(&jobs[i], "port=");
        for (int k = 0; k < i; k++)
            assert_int_not_equal(ports[i], ports[k]);
    }
    char output[64];
    yk_test_command(output, sizeof output, "touch %s/go", yk_test_directory());
    for (int i = 0; i < JOBS; i++)
        assert_job_ends(&jobs[i], 60, 0);
}

YK_TEST(output_that_a_full_disk_does_not_take_is_missed_once)
{
    assert_job_code(&job, run("run -n 2 sh -c 'seq 3000; exit 3' >/dev/full"), 3);
    assert_int_equal(count(job.output, "cannot write to stdout: No space left on device; the job "
                                       "continues, and lines are lost\n"),
                     1);
}

YK_TEST(promise_11_a_rank_killed_for_lack_of_memory_is_told_from_others)
{
    char group[512], command[2048], output[64];
    make_small_group(group, sizeof group);
    snprintf(command, sizeof command,
             "sh -c 'echo $$ >%s/cgroup.procs; exec %s run -n 2 sh -c \"test \\$RANK = 0 && exec "
             "sleep 20; " TAKES_300_MB "\"'",
             group, test_program());
    test_job_start_command(&job, command);
    int code = test_job_wait(&job, 30);
    yk_test_command(output, sizeof output, "rmdir %s", group);
    assert_int_equal(code, 128 + SIGKILL);
    assert_contains(job.output, "killed by signal 9 (SIGKILL), probably by the kernel because "
                                "memory ran out after ");
}

/* ---- cores ---------------------------------------------------------------------------------- */

YK_TEST(promise_27_cores_are_shared_out_and_pinned)
{
    cpu_set_t all;
    sched_getaffinity(0, sizeof all, &all);
    int cores = CPU_COUNT(&all);
    if (cores < 2)
        skip_because("one core: nothing to share out");
    unsetenv("OMP_NUM_THREADS");
    assert_job_code(&job, run("run -n 2 sh -c 'echo threads=$OMP_NUM_THREADS. cores=$(nproc).'"),
                    0);
    char expected[64];
    snprintf(expected, sizeof expected, "[rank 0] threads=%d. ", yk_threads_default(2));
    assert_contains(job.output, expected);
    unsetenv("OMP_NUM_THREADS");
    assert_job_code(&job, run("run -n 2 sh -c 'taskset -cp $$'"), 0);
    char *first = strstr(job.output, "[rank 0]"), *second = strstr(job.output, "[rank 1]");
    assert_non_null(first);
    assert_non_null(second);
    assert_int_not_equal(atoi(strchr(first, ':') + 1), atoi(strchr(second, ':') + 1));
}

YK_TEST(promise_27_affinity_of_the_launcher_is_respected)
{
    cpu_set_t all, one;
    sched_getaffinity(0, sizeof all, &all);
    CPU_ZERO(&one);
    int last = CPU_SETSIZE - 1;
    while (!CPU_ISSET(last, &all))
        last--;
    CPU_SET(last, &one);
    sched_setaffinity(0, sizeof one, &one);
    unsetenv("OMP_NUM_THREADS");
    assert_job_code(&job, run("run -n 2 sh -c 'echo threads=$OMP_NUM_THREADS.; taskset -cp $$'"),
                    0);
    sched_setaffinity(0, sizeof all, &all);
    char expected[64];
    snprintf(expected, sizeof expected, "affinity list: %d\n", last);
    assert_int_equal(count(job.output, expected), 2); /* more ranks than cores share them */
    assert_int_equal(count(job.output, "threads=1."), 2);
}

YK_TEST(threads_that_the_user_has_set_are_kept)
{
    setenv("OMP_NUM_THREADS", "5", 1);
    assert_job_code(&job, run("run -n 2 sh -c 'echo threads=$OMP_NUM_THREADS.'"), 0);
    assert_int_equal(count(job.output, "threads=5."), 2);
}

/* Each launcher divides the cores that it has been given. */
YK_TEST(threads_that_a_launcher_has_chosen_are_divided_by_the_next)
{
    char command[512];
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
        skip_because("there is only one core");
    unsetenv("OMP_NUM_THREADS");
    unsetenv("OMP_THREAD_LIMIT"); /* which nproc obeys, too */
    snprintf(command, sizeof command,
             "run %s run -n $(nproc) sh -c 'echo threads=$OMP_NUM_THREADS.'", test_program());
    assert_job_code(&job, run(command), 0);
    assert_contains(job.output, "threads=1.");
    assert_null(strstr(job.output, "threads=2."));
    snprintf(command, sizeof command,
             "run sh -c 'OMP_NUM_THREADS=5 %s run -n 2 sh -c \"echo threads=\\$OMP_NUM_THREADS.\"'",
             test_program());
    assert_job_code(&job, run(command), 0);
    assert_int_equal(count(job.output, "threads=5."), 2);
}

/* ---- limits of the system -------------------------------------------------------------------- */

static void run_with_stack(const char *limit)
{
    char command[512];
    snprintf(command, sizeof command, "sh -c 'ulimit %s; exec %s run -n 1 sh -c \"ulimit -s\"'",
             limit, test_program());
    test_job_start_command(&job, command);
    test_job_wait(&job, 20);
}

YK_TEST(a_small_stack_is_raised)
{
    run_with_stack("-S -s 32");
    assert_contains(job.output, "[rank 0] 8192\n");
    run_with_stack("-S -s 48 && ulimit -H -s 4096");
    assert_contains(job.output, "[rank 0] 4096\n");
}

/* Some users may raise even that. */
YK_TEST(a_stack_that_stays_too_small_is_named)
{
    run_with_stack("-s 32");
    if (!strstr(job.output, "[rank 0] 8192\n"))
        assert_string_equal(job.output,
                            "yoke: the stack is limited to 32 KiB (ulimit -s), and yoke "
                            "needs 128\n");
}

/* Limits of processes do not hold for root. */
YK_TEST(a_limit_of_processes_is_named)
{
    char command[512];
    const char *user = geteuid() ? "" : "setpriv --reuid 65533 --clear-groups --bounding-set -all ";
    snprintf(command, sizeof command,
             "%ssh -c 'ulimit -p 1 2>/dev/null || ulimit -u 1; exec %s run true'", user,
             test_program());
    test_job_start_command(&job, command);
    assert_job_ends(&job, 20, 1);
    assert_string_equal(job.output,
                        "yoke run: cannot start a process: Resource temporarily "
                        "unavailable; the user may have 1 processes and threads (ulimit "
                        "-u)\n");
}

/* ---- how threads wait ------------------------------------------------------------------------ */

static const char show_spinning[] = "run -n 2 sh -c 'echo spin=$GOMP_SPINCOUNT.'";

YK_TEST(threads_of_ranks_do_not_spin_for_long)
{
    unsetenv("OMP_WAIT_POLICY");
    unsetenv("GOMP_SPINCOUNT");
    assert_job_code(&job, run(show_spinning), 0);
    assert_int_equal(count(job.output, "spin=10000."), 2);
}

YK_TEST(how_threads_wait_is_left_to_a_user_who_says_it)
{
    unsetenv("GOMP_SPINCOUNT");
    setenv("OMP_WAIT_POLICY", "active", 1);
    assert_job_code(&job, run(show_spinning), 0);
    assert_int_equal(count(job.output, "spin=."), 2);
    unsetenv("OMP_WAIT_POLICY");
    setenv("GOMP_SPINCOUNT", "7", 1);
    assert_job_code(&job, run(show_spinning), 0);
    assert_int_equal(count(job.output, "spin=7."), 2);
}

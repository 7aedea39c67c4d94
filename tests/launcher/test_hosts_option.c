/* `yoke run --hosts`: lists of hosts, what the launchers are given, causes, signals, ends. */
#define _GNU_SOURCE
#include "job.h"

#include <sys/stat.h>

static test_job job;

static int run(const char *arguments)
{
    test_job_start(&job, arguments);
    return test_job_wait(&job, 60);
}

static void write_file(const char *name, const char *text, int mode)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", yk_test_directory(), name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    chmod(path, (mode_t)mode);
}

/* A stand-in for ssh, which writes down what it was asked to run. */
static void use_own_rsh(void)
{
    char path[256], rsh[300];
    write_file("rsh",
               "#!/bin/sh\necho \"$*\" >\"$(dirname \"$0\")/asked\"\nshift 2\n"
               "exec sh -c \"$*\"\n",
               0700);
    snprintf(path, sizeof path, "%s/rsh", yk_test_directory());
    snprintf(rsh, sizeof rsh, "%s -q", path);
    setenv("YOKE_RSH", rsh, 1);
}

YK_TEST(hosts_are_started_with_their_ranks)
{
    assert_job_code(&job,
                    run("run --hosts localhost:2,127.0.0.1:1 --rdzv-id seven sh -c 'echo "
                        "=$RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK "
                        "$TORCHELASTIC_RUN_ID \"$0\" $1=' \"it's a\" '$b'"),
                    0);
    assert_contains(job.output, "[rank 1] =1 3 2 0 seven it's a $b=\n");
    assert_contains(job.output, "[rank 2] =2 3 1 1 seven it's a $b=\n");
}

YK_TEST(launchers_on_hosts_are_given_the_options_of_ranks)
{
    assert_job_code(&job,
                    run("run --hosts localhost:2,127.0.0.1:1 --virtual-local-rank sh -c 'echo "
                        "=$RANK $LOCAL_RANK='"),
                    0);
    assert_contains(job.output, "[rank 1] =1 0=\n");
    assert_contains(job.output, "[rank 2] =2 0=\n");
    char command[256], files[256];
    snprintf(command, sizeof command,
             "run --hosts localhost:1,127.0.0.1:1 --log-dir %s/logs "
             "--duplicate-stdout-filters 'x,,y' sh -c 'echo x,y; echo x'",
             yk_test_directory());
    assert_job_code(&job, run(command), 0);
    yk_test_command(files, sizeof files, "cd %s/logs && sort */attempt_0/filtered_stdout.log",
                    yk_test_directory());
    assert_string_equal(files, "[rank 0] x,y\n[rank 1] x,y\n");
}

/* --nproc-per-node is 1, but hosts have as many ranks as the list says. */
YK_TEST(local_ranks_are_those_of_the_list)
{
    assert_job_code(&job,
                    run("run --hosts localhost:2,127.0.0.1:1 --local-ranks-filter 1 sh -c 'echo "
                        "=$RANK='"),
                    0);
    assert_string_equal(job.output, "[rank 1] =1=\n");
    assert_job_code(&job, run("run --hosts localhost:2,127.0.0.1:1 --tee 2:3 true"), 2);
    assert_contains(job.output, "--tee 2:3: expected");
}

YK_TEST(launchers_on_hosts_are_given_variables_but_the_address_of_this_host)
{
    use_own_rsh();
    setenv("GOMP_SPINCOUNT", "7", 1);
    setenv("YOKE_LOCAL_ADDR", "127.0.0.1", 1);
    setenv("YOKE_HEARTBEAT_TIMEOUT", "7", 1);
    test_job_start(&job, "run --hosts 127.0.0.1:1,no.such.host:1 true");
    char asked[4096] = "";
    for (double deadline = yk_test_now() + 20; !strstr(asked, "YOKE_"); usleep(10000)) {
        assert_true(yk_test_now() < deadline);
        yk_test_command(asked, sizeof asked, "cat %s/asked 2>&1", yk_test_directory());
    }
    assert_contains(asked, "YOKE_HEARTBEAT_TIMEOUT=7");
    assert_contains(asked, "GOMP_SPINCOUNT=7");
    assert_null(strstr(asked, "YOKE_LOCAL_ADDR"));
    test_job_wait(&job, 60);
}

YK_TEST(a_module_is_started_with_python_on_all_hosts)
{
    char python[256];
    write_file("python", "#!/bin/sh\necho \"$RANK: $*\"\n", 0700);
    snprintf(python, sizeof python, "%s/python", yk_test_directory());
    setenv("PYTHON_EXEC", python, 1);
    assert_job_code(&job, run("run --hosts localhost:1,127.0.0.1:1 -m package.module -x"), 0);
    assert_contains(job.output, "[rank 0] 0: -u -m package.module -x\n");
    assert_contains(job.output, "[rank 1] 1: -u -m package.module -x\n");
}

YK_TEST(host_files_of_mpi_and_deepspeed_are_read)
{
    char command[512], hosts[4096];
    snprintf(hosts, sizeof hosts,
             "#%3000s\n\nlocalhost slots=2 max_slots=4\n127.0.0.1:1 # b\n127.0.0.2\n",
             "the cluster");
    write_file("hosts", hosts, 0600);
    snprintf(command, sizeof command,
             "run -n 3 --hostfile %s/hosts sh -c 'echo "
             "$RANK/$WORLD_SIZE'",
             yk_test_directory());
    assert_job_code(&job, run(command), 0);
    assert_contains(job.output, "[rank 5] 5/6\n");
}

YK_TEST(wrong_host_lists_are_named)
{
    static const char *const wrong[][2] = {
        {"--hosts a:0", "\"a:0\": expected HOST:RANKS, with 1 to 1024 ranks"},
        {"--hosts a,,b", "\"\": expected HOST:RANKS"},
        {"--hosts=-oProxyCommand=x", "expected HOST:RANKS"},
        {"--hosts a:1,a:2", "host a is listed twice"},
        {"--hosts me@a:1,a:2", "host a is listed twice"},
        {"--hosts me@:1", "\"me@:1\": expected HOST:RANKS"},
        {"--hosts @a", "\"@a\": expected HOST:RANKS"},
        {"--hostfile /nowhere", "No such file"},
        {"--hostfile /dev/null", "it lists no host"},
        {"--hosts a --nnodes 2", "--nnodes, --node-rank, --rdzv-backend, --rdzv-endpoint"},
        {"--hosts a --rdzv-conf join_timeout=9", "--rdzv-conf and --local-addr do not apply"},
        {"--hosts a --local-addr 127.0.0.1", "--rdzv-conf and --local-addr do not apply"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char command[256];
        snprintf(command, sizeof command, "run %s true", wrong[i][0]);
        assert_job_code(&job, run(command), 2);
        assert_contains(job.output, wrong[i][1]);
        assert_int_equal(count(job.output, "\n"), 1);
    }
}

YK_TEST(a_wrong_number_of_slots_is_named)
{
    char command[512];
    write_file("hosts", "a\nb slots=two\n", 0600);
    snprintf(command, sizeof command, "run --hostfile %s/hosts true", yk_test_directory());
    assert_job_code(&job, run(command), 2);
    assert_contains(job.output,
                    "line 2: \"slots=two\": expected slots=RANKS, with 1 to 1024 ranks");
}

/* The name of the first host is also where the others look for the rendezvous. */
YK_TEST(hosts_may_have_users)
{
    char asked[4096];
    use_own_rsh();
    assert_job_code(&job,
                    run("run --hosts me@127.0.0.1:1,you@[127.0.0.2]:2 sh -c 'echo "
                        "=$RANK of $WORLD_SIZE at $MASTER_ADDR='"),
                    0);
    assert_contains(job.output, "[rank 0] =0 of 3 at 127.0.0.1=\n");
    assert_contains(job.output, "[rank 2] =2 of 3 at 127.0.0.1=\n");
    yk_test_command(asked, sizeof asked, "cat %s/asked", yk_test_directory());
    assert_contains(asked, "@127.0.0.");
}

YK_TEST(a_folder_that_has_been_deleted_is_the_reason_that_is_given)
{
    char command[512];
    snprintf(command, sizeof command,
             "sh -c 'mkdir %s/gone && cd %s/gone && rmdir ../gone && exec %s run --hosts "
             "127.0.0.1:1 -- true'",
             yk_test_directory(), yk_test_directory(), test_program());
    test_job_start_command(&job, command);
    assert_job_ends(&job, 20, 1);
    assert_contains(job.output, "yoke run: cannot name the folder it was started in: No such file");
}

YK_TEST(promise_32_the_secret_is_not_on_the_command_line)
{
    char asked[8192];
    use_own_rsh();
    setenv("YOKE_SECRET", "very-secret", 1);
    setenv("YOKE_TEST_WORD", "passed on", 1);
    assert_job_code(&job,
                    run("run --hosts 127.0.0.1:1,192.0.2.9:1 sh -c 'echo $YOKE_SECRET "
                        "$YOKE_TEST_WORD'"),
                    0);
    assert_int_equal(count(job.output, "] very-secret passed on\n"), 2);
    assert_int_equal(yk_test_command(asked, sizeof asked, "cat %s/asked", yk_test_directory()), 0);
    assert_contains(asked, "-q 192.0.2.9 cd '");
    assert_null(strstr(asked, "very-secret"));
}

YK_TEST(promise_11_the_cause_is_printed_once)
{
    assert_job_code(&job,
                    run("run --hosts localhost:2,127.0.0.1:2 sh -c 'test $RANK = 3 || exec sleep "
                        "30; echo a reason >&2; exit 7'"),
                    7);
    assert_int_equal(count(job.output, "yoke run: "), 2);
    assert_contains(job.output, "yoke run: rank 3 (host ");
    assert_contains(job.output, "its last lines on stderr:\n[rank 3] a reason\n");
}

YK_TEST(a_host_that_cannot_be_reached_ends_the_job)
{
    char rsh[256];
    write_file("unreachable", "#!/bin/sh\nexit 255\n", 0700); /* as ssh */
    snprintf(rsh, sizeof rsh, "%s/unreachable", yk_test_directory());
    setenv("YOKE_RSH", rsh, 1);
    assert_job_code(&job, run("run --hosts 127.0.0.1:1,192.0.2.9:1 sleep 30"), 1);
    assert_contains(job.output, "the launcher on host 192.0.2.9, or the connection to it, exited "
                                "with code 255");
    setenv("YOKE_RSH", "./no-such-rsh", 1);
    assert_job_code(&job, run("run --hosts 127.0.0.1:1,192.0.2.9:1 sleep 30"), 1);
    assert_contains(job.output, "cannot run ./no-such-rsh: No such file");
    test_job_gone(&job, 2);
}

/* A stand-in for ssh: a script whose arguments are the host and the command. */
static void use_rsh(const char *script)
{
    char rsh[256];
    snprintf(rsh, sizeof rsh, "%s/rsh", yk_test_directory());
    write_file("rsh", script, 0700);
    setenv("YOKE_RSH", rsh, 1);
}

YK_TEST(a_host_without_the_folder_or_yoke_ends_the_job)
{
    static const char *const scripts[][2] = {
        {"#!/bin/sh\nexec sh -c \"$(echo \"$2\" | sed \"s,^cd ',&/nowhere,\")\"\n", "can't cd"},
        {"#!/bin/sh\nexec sh -c \"$(echo \"$2\" | sed \"s,/yoke',/nowhere',g\")\"\n", "not found"},
    };
    for (int i = 0; i < 2; i++) {
        use_rsh(scripts[i][0]);
        assert_job_code(&job, run("run --hosts 127.0.0.1:1,192.0.2.9:1 sleep 30"), 1);
        assert_contains(job.output, scripts[i][1]);
        assert_contains(job.output, "the launcher on host 192.0.2.9, or the connection to it, "
                                    "exited with code 255");
        assert_null(strstr(job.output, "waiting"));
    }
}

YK_TEST(a_host_without_the_program_is_named_and_no_other)
{
    char command[512];
    use_rsh("#!/bin/sh\nexec sh -c \"$(echo \"$2\" | sed \"s,^cd '[^']*,cd '/,\")\"\n");
    write_file("program", "#!/bin/sh\nexec sleep 30\n", 0700);
    snprintf(command, sizeof command,
             "sh -c 'cd %s && exec %s run --hosts 127.0.0.1:1,192.0.2.9:1 ./program'",
             yk_test_directory(), test_program());
    test_job_start_command(&job, command);
    assert_job_ends(&job, 20, 127);
    assert_contains(job.output, "cannot start ./program: No such file");
    assert_contains(job.output, "could not start its ranks\n");
    assert_null(strstr(job.output, "the launcher on host"));
}

YK_TEST(a_launcher_that_ends_alone_is_named)
{
    use_rsh("#!/bin/sh\necho not available\nexit 3\n");
    assert_job_code(&job, run("run --hosts 127.0.0.1:1,192.0.2.9:1 sleep 30"), 3);
    assert_contains(job.output, "not available\n");
    assert_contains(job.output, "yoke run: the launcher on host 192.0.2.9 exited with code 3, but "
                                "not the other one: stopping it\n");
}

YK_TEST(a_connection_that_runs_nothing_is_named)
{
    use_rsh("#!/bin/sh\n");
    assert_job_code(&job, run("run --hosts 127.0.0.1:1,192.0.2.9:1 sleep 30"), 1);
    assert_contains(job.output,
                    "yoke run: no launcher has run on host 192.0.2.9: YOKE_RSH must run "
                    "the command");
    assert_null(strstr(job.output, "waiting"));
}

/* The first attempt of rank 1 kills its launcher. */
YK_TEST(a_launcher_that_was_killed_is_started_again)
{
    use_rsh("#!/bin/sh\nexec sh -c \"$2\"\n");
    assert_job_code(
        &job,
        run("run --hosts 127.0.0.1:1,192.0.2.9:1 --max-restarts 1 sh -c 'echo up $RANK "
            "$TORCHELASTIC_RESTART_COUNT; test $RANK$TORCHELASTIC_RESTART_COUNT = 10 && "
            "kill -KILL $PPID; test $TORCHELASTIC_RESTART_COUNT = 1 || exec sleep 30'"),
        0);
    assert_contains(job.output, "(rank 1) is lost: its launcher (pid ");
    assert_contains(job.output, "[rank 1] up 1 1\n");
    assert_null(strstr(job.output, "ready"));
}

YK_TEST(a_connection_that_passes_no_input_is_named)
{
    use_rsh("#!/bin/sh\nexec sh -c \"$2\" </dev/null\n");
    assert_job_code(&job, run("run --hosts 127.0.0.1:1,192.0.2.9:1 sleep 30"), 1);
    assert_contains(job.output, "the secret of the job has not come through stdin: YOKE_RSH must "
                                "pass it on");
    assert_contains(job.output, "the launcher on host 192.0.2.9, or the connection to it, ");
}

static const char *const obedient =
    "run --hosts localhost:1,127.0.0.1:1 --grace 20 sh -c 'trap \"echo stopped $RANK; exit 143\" "
    "TERM;"
    " trap \"echo heard $RANK\" USR1; echo ready $RANK; while :; do sleep 0.05; done'";

static void start(const char *arguments)
{
    test_job_start(&job, arguments);
    test_job_await(&job, "ready 0");
    test_job_await(&job, "ready 1");
}

YK_TEST(promise_13_signals_reach_the_ranks_of_all_hosts)
{
    start(obedient);
    kill(job.pid, SIGUSR1);
    test_job_await(&job, "heard 0");
    test_job_await(&job, "heard 1");
    kill(job.pid, SIGINT);
    assert_job_ends(&job, 20, 128 + SIGINT);
    assert_contains(job.output, "SIGINT: stopping 2 hosts; signal again to kill");
    assert_int_equal(count(job.output, "heard 0"), 1);
    assert_int_equal(count(job.output, "] stopped "), 2);
}

/* A network cuts them as it likes. */
YK_TEST(orders_are_obeyed_when_they_are_whole)
{
    char command[1024];
    const char *orders = yk_test_path("orders");
    assert_int_equal(mkfifo(orders, 0600), 0);
    snprintf(command, sizeof command,
             "env YOKE_CONTROL_STDIN=1 %s run -n 1 --grace 20 sh -c 'trap \"exit 130\" INT; trap "
             "\"echo heard\" USR1; trap \"echo hung up\" HUP; echo ready; while :; do sleep 0.05; "
             "done' <%s",
             test_program(), orders);
    test_job_start_command(&job, command);
    int fd = open(orders, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    dprintf(fd, "secret\n");
    test_job_await(&job, "ready");
    dprintf(fd, "forward 1");
    usleep(300000);
    dprintf(fd, "0\nsto");
    test_job_await(&job, "heard");
    dprintf(fd, "p 2\n");
    assert_job_ends(&job, 20, 130);
    assert_null(strstr(job.output, "hung up"));
    close(fd);
}

YK_TEST(a_second_signal_kills_on_all_hosts)
{
    start(
        "run --hosts localhost:1,127.0.0.1:1 sh -c 'trap \"\" TERM; echo ready $RANK; while :; do "
        "sleep 0.05; done'");
    kill(job.pid, SIGINT);
    test_job_await(&job, "SIGINT: stopping 2 hosts; signal again to kill");
    test_job_signal_again(&job, SIGINT);
    assert_job_ends(&job, 20, 122);
    test_job_gone(&job, 2);
}

YK_TEST(promise_03_nothing_is_left_when_the_first_launcher_is_killed)
{
    start(obedient);
    kill(-job.pid, SIGKILL);
    test_job_wait(&job, 5);
    test_job_gone(&job, 10);
}

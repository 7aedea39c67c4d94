/* torchrun's options and variables of `yoke run`: PET_ variables, log files, restarts, signals. */
#define _GNU_SOURCE
#include "job.h"

#include <sys/stat.h>

#include <yoke/system.h>

static test_job job;

static int run(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int run(const char *format, ...)
{
    char arguments[4096];
    va_list list;
    va_start(list, format);
    vsnprintf(arguments, sizeof arguments, format, list);
    va_end(list);
    test_job_start(&job, arguments);
    return test_job_wait(&job, 60);
}

/* Runs a shell command in the test's folder; its output is in `text`. */
static const char *shell(const char *command)
{
    static char text[8192];
    assert_int_equal(
        yk_test_command(text, sizeof text, "cd '%s' && %s", yk_test_directory(), command), 0);
    return text;
}

YK_TEST(pet_variables_set_options)
{
    setenv("PET_NPROC_PER_NODE", "2", 1);
    setenv("PET_RDZV_ID", "fromenv", 1);
    setenv("PET_STANDALONE", "", 1); /* as Kubeflow sets it */
    setenv("PET_NO_PYTHON", "true", 1);
    setenv("PET_MAX_RESTARTS", "", 1);
    assert_job_code(&job, run("run --rdzv_id mine sh -c 'echo $WORLD_SIZE $TORCHELASTIC_RUN_ID'"),
                    0);
    assert_contains(job.output, "[rank 1] 2 mine\n");
    assert_job_code(&job, run("run -n 1 sh -c 'echo $WORLD_SIZE $TORCHELASTIC_RUN_ID'"), 0);
    assert_string_equal(job.output, "[rank 0] 1 fromenv\n");
}

YK_TEST(an_invalid_pet_variable_is_named)
{
    setenv("PET_MAX_RESTARTS", "many", 1);
    assert_job_code(&job, run("run true"), 2);
    assert_contains(job.output, "PET_MAX_RESTARTS many: expected a whole number");
    setenv("PET_MAX_RESTARTS", "1", 1);
    setenv("PET_STANDALONE", "maybe", 1);
    assert_job_code(&job, run("run true"), 2);
    assert_contains(job.output, "PET_STANDALONE maybe: expected 0, 1, true or false");
}

YK_TEST(options_are_never_abbreviated_and_end_at_the_program)
{
    assert_job_code(&job, run("run --nproc 2 true"), 2);
    assert_contains(job.output, "unknown option '--nproc'");
    assert_job_code(&job, run("run sh -c 'echo $0 $1' --r=16 -t"), 0);
    assert_string_equal(job.output, "[rank 0] --r=16 -t\n");
}

YK_TEST(options_without_effect_are_accepted_and_told)
{
    assert_job_code(&job,
                    run("run --monitor-interval 0.1 --start-method spawn --event-log-handler null "
                        "true"),
                    0);
    assert_string_equal(
        job.output,
        "yoke run: --monitor-interval has no effect: the end of a rank is seen at once\n"
        "yoke run: --start-method has no effect: ranks are always separate programs\n"
        "yoke run: --event-log-handler has no effect: events are not recorded\n");
    assert_job_code(&job, run("run --logs-specs default true"), 0);
    assert_string_equal(job.output, "");
}

YK_TEST(spaces_in_lists_mean_nothing)
{
    assert_job_code(&job,
                    run("run -n 3 --local-ranks-filter ' 0, 2 ' --signals-to-handle 'SIGTERM, "
                        "SIGUSR1 ' --rdzv-conf 'join_timeout = 5 , is_host=1' sh -c 'echo $RANK'"),
                    0);
    assert_contains(job.output, "[rank 0] 0\n");
    assert_contains(job.output, "[rank 2] 2\n");
    assert_null(strstr(job.output, "[rank 1]"));
    assert_job_code(&job, run("run --signals-to-handle 'SIGTERM SIGUSR1' true"), 2);
    assert_job_code(&job, run("run -n 2 --local-ranks-filter '0 1' true"), 2);
    assert_job_code(&job, run("run --rdzv-conf 'join_timeout=5 5' true"), 2);
}

YK_TEST(options_of_torchrun_that_cannot_be_honoured_are_refused)
{
    assert_job_code(&job, run("run --logs-specs mine true"), 2);
    assert_string_equal(job.output, "yoke run: --logs-specs mine: there are no plug-ins; use "
                                    "--log-dir, --redirects and --tee (see yoke run --help)\n");
    assert_job_code(&job, run("run --print-completion bash"), 2);
    assert_contains(job.output, "--print-completion: the completions of bash, zsh and fish are "
                                "installed with yoke");
    assert_job_code(&job, run("run --nproc-per-node xpu true"), 2);
    assert_contains(job.output, "expected a number from 1 to 1024, auto, cpu or gpu");
}

/* ---- programs in Python --------------------------------------------------------------------- */

/* The tests start a shell script in Python's place, which prints its arguments. */
static void use_a_false_python(void)
{
    static char path[512];
    shell("printf '#!/bin/sh\\necho \"arguments: $*\"\\n' >python && chmod +x python");
    snprintf(path, sizeof path, "%s/python", yk_test_directory());
    setenv("PYTHON_EXEC", path, 1);
}

static void write_script(const char *name, int mode, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", yk_test_directory(), name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(chmod(path, (mode_t)mode), 0);
}

YK_TEST(a_module_is_started_with_python)
{
    use_a_false_python();
    assert_job_code(&job, run("run -m package.module --its own"), 0);
    assert_string_equal(job.output, "[rank 0] arguments: -u -m package.module --its own\n");
    setenv("PET_MODULE", "1", 1);
    assert_job_code(&job, run("run package.module"), 0);
    assert_string_equal(job.output, "[rank 0] arguments: -u -m package.module\n");
    assert_job_code(&job, run("run --no-python package.module"), 2);
    assert_contains(job.output, "--module and --no-python exclude each other");
    assert_job_code(&job, run("run --run-path package.module"), 2);
    assert_contains(job.output, "--module and --run-path exclude each other");
}

YK_TEST(a_script_is_started_with_python)
{
    use_a_false_python();
    assert_job_code(&job, run("run --run-path /some/script -t 3"), 0);
    assert_string_equal(job.output, "[rank 0] arguments: -u /some/script -t 3\n");
    assert_job_code(&job, run("run --run-path --no-python /some/script"), 0);
    assert_string_equal(job.output, "[rank 0] arguments: -u /some/script\n");
}

YK_TEST(a_python_file_that_cannot_be_started_itself_is_started_with_python)
{
    static const char program[] = "#!/bin/sh\necho itself\n";
    use_a_false_python();
    assert_int_equal(chdir(yk_test_directory()), 0);
    write_script("plain.py", 0644, "");
    write_script("locked.py", 0644, program);
    write_script("marked.py", 0755, "");
    write_script("program.py", 0755, program);
    assert_job_code(&job, run("run plain.py 1"), 0);
    assert_string_equal(job.output, "[rank 0] arguments: -u plain.py 1\n");
    assert_job_code(&job, run("run ./locked.py"), 0);
    assert_string_equal(job.output, "[rank 0] arguments: -u ./locked.py\n");
    assert_job_code(&job, run("run ./marked.py"), 0);
    assert_string_equal(job.output, "[rank 0] arguments: -u ./marked.py\n");
    assert_job_code(&job, run("run program.py"), 0);
    assert_string_equal(job.output, "[rank 0] arguments: -u program.py\n");
    assert_job_code(&job, run("run ./program.py"), 0);
    assert_string_equal(job.output, "[rank 0] itself\n");
    assert_job_code(&job, run("run --no-python ./locked.py"), 126);
    assert_contains(job.output, "cannot start ./locked.py: Permission denied");
    assert_job_code(&job, run("run missing.py"), 127);
    assert_contains(job.output, "cannot start missing.py: No such file or directory");
}

/* ---- output --------------------------------------------------------------------------------- */

YK_TEST(a_template_replaces_the_prefix_of_lines)
{
    char host[64] = "", line[256];
    gethostname(host, sizeof host - 1);
    snprintf(line, sizeof line, "%s/trainer1 1 $5 ${no}: said\n", host);
    assert_job_code(&job,
                    run("run -n 2 --role trainer --log-line-prefix-template '${hostname}/"
                        "${role_name}$local_rank ${rank} $$5 ${no}: ' sh -c 'echo said'"),
                    0);
    assert_contains(job.output, line);
    assert_null(strstr(job.output, "[rank"));
    setenv("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "<${rank}>", 1);
    assert_job_code(&job, run("run sh -c 'echo said'"), 0);
    assert_string_equal(job.output, "<0>said\n");
    setenv("PET_LOG_LINE_PREFIX_TEMPLATE", "(${rank})", 1);
    assert_job_code(&job, run("run sh -c 'echo said'"), 0);
    assert_string_equal(job.output, "(0)said\n");
}

YK_TEST(the_grace_period_may_come_from_torchruns_variable)
{
    static const char *const ignore = "run %s sh -c 'trap \"\" TERM; echo ready; sleep 30'";
    char words[256];
    setenv("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "0.5", 1);
    snprintf(words, sizeof words, ignore, "");
    test_job_start(&job, words);
    test_job_await(&job, "ready");
    kill(job.pid, SIGTERM);
    assert_int_equal(test_job_wait(&job, 15), 122);
    assert_contains(job.output, "still running 0.5 s after SIGTERM");
    snprintf(words, sizeof words, ignore, "--shutdown-timeout 1");
    test_job_start(&job, words);
    test_job_await(&job, "ready");
    kill(job.pid, SIGTERM);
    assert_int_equal(test_job_wait(&job, 15), 122);
    assert_contains(job.output, "still running 1 s after SIGTERM");
    setenv("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "soon", 1);
    assert_job_code(&job, run("run true"), 2);
    assert_contains(job.output, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT soon: expected 0 to 86400 seconds");
}

/* As in a pod of Kubeflow's Trainer, which sets what the others mean. */
YK_TEST(standalone_overrides_what_is_said_about_hosts)
{
    setenv("PET_NNODES", "2", 1);
    setenv("PET_NODE_RANK", "1", 1);
    setenv("PET_MASTER_ADDR", "job-node-0-0.job", 1);
    setenv("PET_MASTER_PORT", "29500", 1);
    assert_job_code(
        &job,
        run("run --standalone sh -c 'echo $WORLD_SIZE $MASTER_ADDR; test $MASTER_PORT != "
            "29500'"),
        0);
    assert_string_equal(job.output, "[rank 0] 1 127.0.0.1\n");
}

/* As in a job of Kubernetes with a single pod, whose name may not be known yet. */
YK_TEST(one_host_needs_no_address_of_another)
{
    assert_job_code(&job, run("run --master-addr 192.0.2.1 sh -c 'echo $MASTER_ADDR'"), 0);
    assert_string_equal(job.output, "yoke run: --master-addr 192.0.2.1 is not this host, and "
                                    "--nnodes is 1: using 127.0.0.1\n[rank 0] 127.0.0.1\n");
}

YK_TEST(addresses_may_be_in_brackets)
{
    assert_job_code(&job,
                    run("run --master-addr '[::1]' --local-addr '[::1]' sh -c 'echo "
                        "=$MASTER_ADDR=$YOKE_LOCAL_ADDR='"),
                    0);
    assert_string_equal(job.output, "[rank 0] =::1=::1=\n");
}

YK_TEST(a_port_for_programs_that_is_taken_names_its_owner)
{
    int port = YK_PORT_ANY;
    yk_store_server *server;
    char words[128];
    assert_ok(yk_store_serve(&server, "127.0.0.1", &port, "a secret"));
    assert_job_code(&job, run("run --master-port %d true", port), 1);
    snprintf(words, sizeof words, "port %d of 127.0.0.1 is in use by pid %d", port, (int)getpid());
    assert_contains(job.output, words);
    yk_store_server_destroy(server);
    assert_job_code(&job, run("run --master-port %d sh -c 'echo $MASTER_PORT'", port), 0);
    snprintf(words, sizeof words, "[rank 0] %d\n", port);
    assert_string_equal(job.output, words);
}

YK_TEST(the_rendezvous_is_read_on_one_host_too)
{
    assert_job_code(&job, run("run --rdzv-conf is_host=tru true"), 2);
    assert_contains(job.output, "--rdzv-conf is_host=tru: unknown key or invalid value; ");
    assert_job_code(&job, run("run --rdzv-conf is_host=T true"), 0);
    assert_job_code(&job, run("run --rdzv-conf is_host=False true"), 0);
    assert_job_code(&job, run("run --rdzv-conf retries=3 true"), 2);
    assert_contains(job.output,
                    "--rdzv-conf retries=3: unknown key or invalid value; there are secret, ");
}

YK_TEST(ranks_may_be_counted_by_gpus)
{
    int gpus = 0;
    yk_device_count("cuda", &gpus);
    if (gpus > 0)
        skip_because("this machine has GPUs");
    assert_job_code(&job, run("run --nproc-per-node gpu true"), 2);
    assert_contains(job.output, "--nproc-per-node gpu: ");
}

YK_TEST(a_virtual_local_rank_has_one_device)
{
    static const char *const print = "sh -c 'echo $RANK $LOCAL_RANK $CUDA_VISIBLE_DEVICES'";
    unsetenv("CUDA_VISIBLE_DEVICES");
    assert_job_code(&job, run("run -n 2 --virtual-local-rank %s", print), 0);
    assert_contains(job.output, "[rank 0] 0 0 0\n");
    assert_contains(job.output, "[rank 1] 1 0 1\n");
    setenv("CUDA_VISIBLE_DEVICES", "5,7", 1);
    assert_job_code(&job, run("run -n 2 --virtual-local-rank %s", print), 0);
    assert_contains(job.output, "[rank 0] 0 0 5\n");
    assert_contains(job.output, "[rank 1] 1 0 7\n");
    assert_job_code(&job, run("run -n 3 --virtual-local-rank %s", print), 2); /* not device 2 */
    assert_contains(job.output, "CUDA_VISIBLE_DEVICES=5,7 has no device for local rank 2 (");
    setenv("CUDA_VISIBLE_DEVICES", "", 1); /* all are hidden, and stay so */
    assert_job_code(&job, run("run -n 2 --virtual-local-rank %s", print), 0);
    assert_contains(job.output, "[rank 0] 0 0\n");
    assert_contains(job.output, "[rank 1] 1 0\n");
}

YK_TEST(outputs_go_to_torchelastics_log_files)
{
    assert_job_code(&job,
                    run("run -n 2 --log-dir %s/logs --rdzv-id job/7 -r 0:3 -t 1:1 -- sh -c "
                        "'echo out$RANK; echo err$RANK >&2'",
                        yk_test_directory()),
                    0);
    assert_null(strstr(job.output, "out0"));
    assert_null(strstr(job.output, "err0"));
    assert_contains(job.output, "[rank 1] out1\n");
    assert_contains(job.output, "[rank 1] err1\n");
    const char *files = shell("cd logs/job_7_*/attempt_0 && head -v -n 9 */*.log");
    assert_string_equal(files, "==> 0/stderr.log <==\nerr0\n\n==> 0/stdout.log <==\nout0\n\n"
                               "==> 1/stdout.log <==\nout1\n");
}

YK_TEST(a_failed_rank_leaves_an_error_file)
{
    assert_job_code(&job,
                    run("run -n 2 --log-dir %s/logs -- sh -c 'test $RANK = 0 && exec sleep 9; "
                        "echo \"a \\\"reason\\\"\" >&2; exit 5'",
                        yk_test_directory()),
                    5);
    const char *file = shell("cat logs/none_*/attempt_0/1/error.json");
    assert_contains(file, "{\"message\": {\"message\": \"rank 1 (pid ");
    assert_contains(file, "exited with code 5\", \"errorCode\": 5, ");
    assert_contains(file, "\"py_callstack\": \"a \\\"reason\\\"\\u000a\", \"timestamp\": \"1");
    shell("! test -e logs/none_*/attempt_0/0/error.json");
}

YK_TEST(a_program_that_goes_elsewhere_finds_its_error_file)
{
    assert_int_equal(chdir(yk_test_directory()), 0);
    assert_job_code(&job,
                    run("run --log-dir logs -- sh -c 'cd /; echo mine >$TORCHELASTIC_ERROR_FILE; "
                        "exit 5'"),
                    5);
    char content[256];
    yk_test_command(content, sizeof content, "cat logs/none_*/attempt_0/0/error.json");
    assert_string_equal(content, "mine\n");
}

YK_TEST(a_programs_own_error_file_is_kept)
{
    assert_job_code(&job,
                    run("run --log-dir %s/logs -- sh -c 'echo mine >$TORCHELASTIC_ERROR_FILE; "
                        "exit 5'",
                        yk_test_directory()),
                    5);
    assert_string_equal(shell("cat logs/*/attempt_0/0/error.json"), "mine\n");
}

YK_TEST(promise_11_last_lines_are_repeated_although_they_are_redirected)
{
    assert_job_code(&job,
                    run("run -n 2 --log-dir %s/logs -r 3 -- sh -c 'test $RANK = 0 && exec sleep "
                        "9; echo a reason >&2; exit 5'",
                        yk_test_directory()),
                    5);
    assert_contains(job.output, "its last lines on stderr:\n[rank 1] a reason\n");
}

YK_TEST(a_log_folder_that_cannot_be_made_is_an_error)
{
    assert_job_code(&job, run("run --log-dir /proc/nowhere true"), 1);
    assert_contains(job.output, "cannot create the log folder /proc/nowhere");
}

YK_TEST(the_filter_of_local_ranks_hides_the_others)
{
    assert_job_code(&job, run("run -n 3 --local-ranks-filter 0,2 sh -c 'echo I am $RANK'"), 0);
    assert_null(strstr(job.output, "I am 1"));
    assert_contains(job.output, "[rank 2] I am 2\n");
}

YK_TEST(a_log_folder_dev_null_means_no_files)
{
    assert_job_code(&job,
                    run("run --log-dir /dev/null -r 3 --duplicate-stdout-filters said -- sh -c "
                        "'echo said$TORCHELASTIC_ERROR_FILE'"),
                    0);
    assert_string_equal(job.output, "[rank 0] said\n");
}

YK_TEST(lines_with_one_of_the_texts_go_to_another_file)
{
    assert_job_code(&job,
                    run("run -n 2 --log-dir %s/logs -t 3 --max-restarts 1 "
                        "--duplicate-stdout-filters 'one,a,,b,' --duplicate-stderr-filters w -- "
                        "sh -c 'echo one $RANK; echo two; echo a,b; echo b; echo w >&2; "
                        "test $RANK$TORCHELASTIC_RESTART_COUNT != 10'",
                        yk_test_directory()),
                    0);
    assert_contains(job.output, "[rank 0] two\n");
    for (int attempt = 0; attempt < 2; attempt++) {
        char command[128];
        snprintf(command, sizeof command, "cd logs/none_*/attempt_%d && sort filtered_stdout.log",
                 attempt);
        assert_contains(shell(command), "[rank 1] a,b\n[rank 1] one 1\n");
        assert_null(strstr(shell(command), "two"));
    }
    assert_string_equal(shell("sort logs/none_*/attempt_1/filtered_stdout.log"),
                        "[rank 0] a,b\n[rank 0] one 0\n[rank 1] a,b\n[rank 1] one 1\n");
    assert_string_equal(shell("sort logs/none_*/attempt_1/filtered_stderr.log"),
                        "[rank 0] w\n[rank 1] w\n");
}

YK_TEST(only_printed_lines_are_filtered)
{
    assert_job_code(&job,
                    run("run -n 3 --log-dir %s/logs -r 1:1 --local-ranks-filter 0,1 "
                        "--log-line-prefix-template '${rank}: ' --duplicate-stdout-filters said "
                        "-- sh -c 'echo said'",
                        yk_test_directory()),
                    0);
    assert_string_equal(shell("cat logs/none_*/attempt_0/filtered_stdout.log"), "0: said\n");
    shell("! test -e logs/none_*/attempt_0/filtered_stderr.log");
}

YK_TEST(failed_ranks_are_restarted)
{
    assert_job_code(&job,
                    run("run -n 2 --max-restarts 3 --log-dir %s/logs -t 1 -- sh -c 'echo attempt "
                        "$TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS; test $RANK = "
                        "0 || exit $((4 - 2 * $TORCHELASTIC_RESTART_COUNT))'",
                        yk_test_directory()),
                    0);
    assert_contains(job.output, "exited with code 4");
    assert_contains(job.output, "exited with code 2"); /* in the second attempt */
    assert_contains(job.output, "restarting all ranks (restart 1 of 3)");
    assert_contains(job.output, "restarting all ranks (restart 2 of 3)");
    assert_int_equal(count(job.output, "[rank 1] attempt"), 3);
    assert_string_equal(shell("cat logs/*/attempt_2/1/stdout.log"), "attempt 2 of 3\n");
}

YK_TEST(wrong_options_are_not_tried_again)
{
    assert_job_code(&job, run("run -n 2 --max-restarts 3 sh -c 'echo attempt; exit 2'"), 2);
    assert_int_equal(count(job.output, "] attempt"), 2);
    assert_contains(job.output, "; not restarted, because exit code 2 means wrong options\n");
}

YK_TEST(the_last_restart_gives_the_exit_code)
{
    assert_job_code(
        &job, run("run --max-restarts 2 sh -c 'exit $((40 + $TORCHELASTIC_RESTART_COUNT))'"), 42);
}

YK_TEST(a_stop_that_was_asked_for_is_not_restarted)
{
    test_job_start(&job, "run --max-restarts 9 sh -c 'echo ready; exec sleep 30'");
    test_job_await(&job, "ready");
    kill(job.pid, SIGTERM);
    assert_job_ends(&job, 20, 128 + SIGTERM);
    assert_int_equal(count(job.output, "ready"), 1);
}

YK_TEST(signals_to_handle_replace_the_default_ones)
{
    test_job_start(&job, "run --signals-to-handle SIGUSR2 sh -c 'trap \"echo asked; exit 0\" TERM; "
                         "echo ready; sleep 30 & wait'");
    test_job_await(&job, "ready");
    kill(job.pid, SIGUSR2);
    assert_job_ends(&job, 20, 128 + SIGUSR2);
    assert_contains(job.output, "asked");
}

/* PyTorch's torchrun as the launcher of ranks in C, and yoke run as that of PyTorch's programs, on
 * two hosts with two ranks each. */
#define _GNU_SOURCE
#include "meet.h"

#include <stdlib.h>

static char output[64 * 1024];

/* torchrun on n1 and n2 at once. Debian's (Python 3.11) needs the redirection and a log folder. */
static int torchrun(const char *options, const char *program)
{
    char first[700], arguments[1500];
    need_programs("torchrun", "python3-torch");
    yk_test_hosts(2);
    snprintf(first, sizeof first, "%s", yk_test_on(1));
    snprintf(arguments, sizeof arguments,
             "--nnodes 2 --nproc_per_node 2 %s -r 1 -t 1 --log_dir %s/logs --no_python %s", options,
             yk_test_directory(), program);
    return yk_test_command(output, sizeof output,
                           "%s timeout 80 torchrun --node_rank 0 %s & first=$!; "
                           "%s timeout 80 torchrun --node_rank 1 %s; second=$?; "
                           "wait $first && exit $second",
                           first, arguments, yk_test_on(2), arguments);
}

YK_TEST(torchrun_starts_ranks_on_two_hosts)
{
    yk_test_run_as_rank(meet, 0);
    if (torchrun("--master_addr 10.77.0.1 --master_port 29555", meeting_rank()))
        fail_with(output);
    assert_met(output, 4, 2);
}

YK_TEST(torchrun_measures_scaling_on_two_hosts)
{
    char command[1024];
    snprintf(command, sizeof command,
             "%s bench scaling --data synthetic --arch mlp --lr 0.02 --max-steps 4 --repeats 1 "
             "--amp off",
             getenv("YOKE_PROGRAM"));
    if (torchrun("--master_addr 10.77.0.1 --master_port 29556", command))
        fail_with(output);
    assert_contains(output, "DDP x4 ");
}

/* ---- yoke run -------------------------------------------------------------------------------- */

/* Returns the words that start the program all_reduce.py; skips the case without PyTorch. */
static const char *pytorch_program(void)
{
    static char script[1024];
    const char *python = getenv("YOKE_PYTHON");
    if (!python)
        setenv("YOKE_PYTHON", python = "/usr/bin/python3", 1);
    snprintf(script, sizeof script, "%s -c 'import torch.distributed' 2>&1", python);
    if (yk_test_command(output, sizeof output, "%s", script))
        skip_because("PyTorch is not installed (python3-torch)");
    setenv("PYTHON_EXEC", python, 1);
    snprintf(script, sizeof script, "%s/tests/launchers/all_reduce.py", getenv("YOKE_SOURCE"));
    return script;
}

YK_TEST(a_program_of_pytorch_runs_under_yoke_run)
{
    const char *script = pytorch_program();
    if (yk_test_command(output, sizeof output,
                        "timeout 80 %s run -n 2 --max-restarts 1 --run-path %s 2>&1",
                        getenv("YOKE_PROGRAM"), script))
        fail_with(output);
    assert_contains(output, "restarting all ranks (restart 1 of 1)");
    assert_contains(output, "[rank 0] rank 0 of 2: sum 3");
    assert_contains(output, "[rank 1] rank 1 of 2: sum 3");
}

YK_TEST(a_program_of_pytorch_runs_under_yoke_run_on_two_hosts)
{
    char first[700], arguments[2048];
    const char *script = pytorch_program();
    yk_test_hosts(2);
    snprintf(first, sizeof first, "%s", yk_test_on(1));
    snprintf(arguments, sizeof arguments,
             "env YOKE_SECRET=a-secret GLOO_SOCKET_IFNAME=eth0 timeout 80 %s run --nnodes 2 -n 2 "
             "--rdzv-endpoint 10.77.0.1:29400 %s 2>&1",
             getenv("YOKE_PROGRAM"), script);
    if (yk_test_command(output, sizeof output,
                        "%s %s & first=$!; %s %s; second=$?; wait $first && exit $second", first,
                        arguments, yk_test_on(2), arguments))
        fail_with(output);
    for (int rank = 0; rank < 4; rank++) {
        char line[64];
        snprintf(line, sizeof line, "[rank %d] rank %d of 4: sum 10", rank, rank);
        assert_contains(output, line);
    }
}

/* PyTorch's torchrun as the launcher of ranks in C: two hosts with two ranks each. */
#define _GNU_SOURCE
#include "meet.h"

#include <stdlib.h>
#include <string.h>

static char output[64 * 1024];

/* torchrun on n1 and n2 at once. Debian's, on Python 3.11, needs the redirection and a log folder.
 */
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

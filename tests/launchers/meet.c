/* See meet.h. */
#define _GNU_SOURCE
#include "meet.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void meet(int rank, int world)
{
    (void)rank, (void)world;
    yk_group *group;
    char host[64];
    YK_CHECK(
        yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.timeout_s = 40)));
    double sum = yk_group_rank(group) + 1;
    YK_CHECK(yk_all_reduce(group, &sum, 1, YK_F64, YK_REDUCE_SUM, NULL));
    gethostname(host, sizeof host);
    printf("rank %d of %d on %s, local %d of %d: sum %g\n", yk_group_rank(group),
           yk_group_size(group), host, yk_group_local_rank(group), yk_group_local_size(group), sum);
    yk_group_destroy(group);
    exit(0); /* as programs do: MPI is finalized then */
}

const char *meeting_rank(void)
{
    static char words[700];
    char program[512] = "";
    assert_true(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
    snprintf(words, sizeof words, "env YK_TEST_RANK=0 %s %s", program, yk_test_running_case());
    return words;
}

void fail_with(const char *output)
{
    fprintf(stderr, "%s\n", output);
    fail();
}

void assert_met(const char *output, int world, int local)
{
    char line[128];
    for (int rank = 0; rank < world; rank++) {
        snprintf(line, sizeof line, "rank %d of %d on n%d, local %d of %d: sum %d\n", rank, world,
                 rank / local + 1, rank % local, local, world * (world + 1) / 2);
        assert_contains(output, line);
    }
}

void start_slurm(int hosts)
{
    char output[4096], conf[256];
    need_programs("srun sbatch slurmctld slurmd munged", "slurm-wlm, munge");
    yk_test_hosts(hosts);
    if (yk_test_command(output, sizeof output, "%s/tests/launchers/slurm %s 4",
                        getenv("YOKE_SOURCE"), yk_test_hosts_folder()))
        fail_with(output);
    snprintf(conf, sizeof conf, "%s/slurm/slurm.conf", yk_test_hosts_folder());
    setenv("SLURM_CONF", conf, 1);
}

void need_programs(const char *names, const char *package)
{
    char output[256];
    if (yk_test_command(output, sizeof output,
                        "PATH=$PATH:/usr/sbin; for name in %s; do command -v $name >/dev/null || { "
                        "echo $name; exit 1; }; done",
                        names))
        skip_because("%.*s is missing (%s)", (int)strcspn(output, "\n"), output, package);
}

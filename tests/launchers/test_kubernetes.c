/*
 * The manifests of examples/kubernetes: what Kubernetes makes of them, pod by pod, is run on two
 * hosts (kubernetes.py), with the names that its DNS would give the pods.
 */
#define _GNU_SOURCE
#include "../launcher/job.h"
#include "meet.h"

static test_job pods[2];

/* Names of the first pod are added to the hosts; on its own host too, as a pod's address. */
static void name_first_pod(const char *name)
{
    char path[256];
    for (int host = 1; host <= 2; host++) {
        snprintf(path, sizeof path, "%s/n%d.etc_hosts", yk_test_hosts_folder(), host);
        FILE *file = fopen(path, "ae");
        assert_non_null(file);
        fprintf(file, "10.77.0.1 %s\n", name);
        fclose(file);
    }
}

/* The command of a pod, for the shell. */
static void command_of(const char *manifest, int index, char *command, size_t size)
{
    int code = yk_test_command(command, size,
                               "/usr/bin/python3 %s/tests/launchers/kubernetes.py "
                               "%s/examples/kubernetes/%s %d 2",
                               getenv("YOKE_SOURCE"), getenv("YOKE_SOURCE"), manifest, index);
    if (code)
        fail_msg("%s: %s", manifest, command);
    command[strcspn(command, "\n")] = '\0';
}

static void train_in_pods(const char *manifest, const char *first_pod)
{
    char pod[2048], words[4096], path[4096], output[128];
    if (yk_test_command(output, sizeof output, "/usr/bin/python3 -c 'import yaml'"))
        skip_because("python3-yaml is missing");
    yk_test_hosts(2);
    name_first_pod(first_pod);
    snprintf(path, sizeof path, "%.*s:%.3900s",
             (int)(strrchr(test_program(), '/') - test_program()), test_program(), getenv("PATH"));
    setenv("PATH", path, 1); /* the image has yoke in its PATH */
    for (int i = 1; i >= 0; i--) {
        command_of(manifest, i, pod, sizeof pod);
        snprintf(
            words, sizeof words,
            "%s %s --data synthetic --arch mlp --lr 0.02 --threads 1 --epochs 1 --output %s/run "
            "--resume auto",
            yk_test_on(i + 1), pod, yk_test_directory());
        test_job_start_command(&pods[i], words);
    }
    for (int i = 0; i < 2; i++)
        if (test_job_wait(&pods[i], 60))
            fail_with(pods[i].output);
    assert_contains(pods[0].output, "4 ranks");
    snprintf(path, sizeof path, "%s/run/model.pth", yk_test_directory());
    assert_int_equal(access(path, R_OK), 0);
}

YK_TEST(an_indexed_job_trains_on_two_pods)
{
    train_in_pods("indexed-job.yaml", "yoke-train-0.yoke-train");
}

YK_TEST(a_trainjob_of_kubeflow_trains_on_two_nodes)
{
    train_in_pods("trainjob.yaml", "yoke-train-node-0-0.yoke-train");
}

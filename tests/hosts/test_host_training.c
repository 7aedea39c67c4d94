/* `yoke train` on two hosts with two ranks each: promises that hold on one machine hold across
 * hosts. */
#define _GNU_SOURCE
#include "../cli/going_on.h"
#include "host_job.h"

#include <math.h>

#define DATA "--data synthetic --arch mlp --lr 0.02 --threads 1 --batch-size 120 "

static void start_training(const char *name, int hosts, int local, const char *options)
{
    char arguments[2048];
    snprintf(arguments, sizeof arguments,
             "--nproc-per-node %d --grace 20 -- env -u YK_TEST_LAUNCHER %s train --output %s/%s %s",
             local, test_program(), yk_test_directory(), name, options);
    start_job(hosts, arguments);
}

/* Trains to the end; returns the exit code. */
static int train_on(const char *name, int hosts, int local, const char *options)
{
    start_training(name, hosts, local, options);
    return end_of_job(hosts, 100);
}

static void expect_success(int code)
{
    if (code)
        fail_msg("exit code %d: \"%s\" \"%s\"", code, host_jobs[1].output, host_jobs[2].output);
}

/* Starts a training without an end and waits until it has saved an epoch. */
static void start_endless(const char *options)
{
    char all[512];
    snprintf(all, sizeof all, DATA "--epochs 100000 %s", options);
    start_training("trained", 2, 2, all);
    double deadline = yk_test_now() + 60;
    while (access(path_of("trained", "manifest.json"), R_OK)) {
        if (yk_test_now() > deadline)
            fail_msg("no checkpoint appeared: \"%s\"", test_job_output(&host_jobs[1]));
        usleep(5000);
    }
}

static void assert_on_both(const char *words)
{
    assert_contains(host_jobs[1].output, words);
    assert_contains(host_jobs[2].output, words);
}

/* ---- deaths and stops ----------------------------------------------------------------------- */

YK_TEST(promise_01_survivors_on_all_hosts_name_a_killed_rank)
{
    char words[128];
    yk_test_hosts(2);
    start_endless("");
    int pid = signal_rank(2, 3, SIGKILL);
    assert_int_equal(end_of_job(2, 20), 128 + SIGKILL);
    snprintf(words, sizeof words, "rank 3 (host n2, pid %d) ", pid);
    assert_on_both(words);
    assert_on_both("killed by signal 9 (SIGKILL)");
    test_job_gone(&host_jobs[1], 5);
    test_job_gone(&host_jobs[2], 5);
}

YK_TEST(promise_13_a_signal_on_any_host_stops_all_ranks_after_the_same_step)
{
    static const int signals[] = {SIGTERM, SIGUSR1};
    yk_test_hosts(2);
    for (int i = 0; i < 2; i++) {
        start_endless(i ? "--resume auto" : "");
        test_job_await(&host_jobs[1], "  output ");
        signal_rank(2, i ? 2 : -1, signals[i]);
        assert_int_equal(end_of_job(2, 30), 128 + signals[i]);
        assert_contains(host_jobs[1].output, "Stopped after step ");
        test_job_gone(&host_jobs[1], 5);
        test_job_gone(&host_jobs[2], 5);
    }
}

YK_TEST(promise_01_a_training_ends_when_the_network_is_cut)
{
    yk_test_hosts(2);
    start_endless("");
    yk_test_cut(2);
    assert_int_not_equal(test_job_wait(&host_jobs[1], 20), 0);
    assert_int_not_equal(test_job_wait(&host_jobs[2], 20), 0);
    assert_contains(host_jobs[1].output, "n2");
    test_job_gone(&host_jobs[1], 5);
    test_job_gone(&host_jobs[2], 5);
}

/* ---- local SGD ------------------------------------------------------------------------------- */

YK_TEST(hosts_average_weights_and_their_ranks_gradients)
{
    yk_test_hosts(2);
    expect_success(train_on("two", 2, 2, DATA "--epochs 1 --sync-every 4 --sync-between hosts"));
    assert_contains(host_jobs[1].output, "averaged in every step by the 2 ranks of this host");
    expect_success(train_on("ddp", 2, 2, DATA "--epochs 1"));
    double apart = last_value("two", "val_loss") - last_value("ddp", "val_loss");
    assert_true(apart != 0 && fabs(apart) < 0.05);
}

/* ---- IPv6 ------------------------------------------------------------------------------------ */

/* Hosts that have no IPv4 address but the loopback's train over TCP, at one level and at two. */
YK_TEST(hosts_without_ipv4_train)
{
    static const char *const backends[] = {"", "--backend tcp"};
    char output[1024], arguments[2048];
    yk_test_hosts(2);
    for (int host = 1; host <= 2; host++)
        assert_int_equal(yk_test_command(output, sizeof output, "%s ip -4 address flush dev eth0",
                                         yk_test_on(host)),
                         0);
    for (int i = 0; i < 2; i++) {
        snprintf(arguments, sizeof arguments,
                 "--nnodes 2 --nproc-per-node 2 -- env -u YK_TEST_LAUNCHER %s train "
                 "--output %s/over_ipv6_%d " DATA "--max-steps 4 %s",
                 test_program(), yk_test_directory(), i, backends[i]);
        for (int host = 1; host <= 2; host++)
            start_on(host, "", "[fd77::1]:29400", arguments);
        expect_success(end_of_job(2, 60));
        assert_contains(host_jobs[1].output, "tcp");
    }
}

/* ---- the same bits -------------------------------------------------------------------------- */

static void stop_and_resume(const char *options)
{
    char all[512];
    yk_test_hosts(2);
    snprintf(all, sizeof all, DATA "--epochs 3 %s", options);
    expect_success(train_on("whole", 2, 2, all));
    int stops = 0;
    for (int i = 0; i < 2; i++) {
        start_training("parts", 2, 2, i ? "--resume auto" : all);
        test_job_await(&host_jobs[1], "  output ");
        int after_ms = i ? random_between(50, 300) : 20; /* the first before a fast run is over */
        usleep((unsigned)after_ms * 1000);
        pid_t launcher = find_rank(1 + i, -1);
        if (launcher)
            kill(launcher, SIGTERM);
        int code = end_of_job(2, 60);
        assert_true(code == 0 || code == 128 + SIGTERM);
        stops += code != 0;
    }
    assert_true(stops > 0);
    expect_success(train_on("parts", 2, 2, "--resume auto"));
    assert_same_file("whole", "parts", "checkpoint-3.pth");
    assert_same_metrics("whole", "parts");
}

YK_TEST(promise_15_a_job_stopped_on_several_hosts_resumes_to_the_bit)
{
    stop_and_resume("");
}

YK_TEST(promise_15_zero_and_powersgd_resume_to_the_bit)
{
    stop_and_resume("--zero --comm-hook powersgd --powersgd-start 7");
}

YK_TEST(promise_20_virtual_ranks_give_the_same_bits_on_any_hosts)
{
    yk_test_hosts(2);
    expect_success(train_on("hosts", 2, 2, DATA "--epochs 1 --virtual-ranks 4"));
    assert_contains(host_jobs[1].output, "4 virtual ranks, one on each rank");
    expect_success(train_on("across", 2, 1, DATA "--epochs 1 --virtual-ranks 4"));
    assert_int_equal(train("alone", "--batch-size 120 --epochs 1 --virtual-ranks 4"), 0);
    assert_same_file("hosts", "across", "model.pth");
    assert_same_file("hosts", "alone", "model.pth");
}

YK_TEST(promise_17_an_epoch_continues_on_fewer_hosts)
{
    yk_test_hosts(2);
    expect_success(train_on("run", 2, 2, DATA "--epochs 1 --max-steps 7"));
    char command[512];
    snprintf(command, sizeof command,
             "train --output %s/run --resume auto --nproc 2 --max-steps 100", yk_test_directory());
    test_job_start(&job, command);
    assert_job_ends(&job, 60, 0);
    assert_true(last_value("run", "val_accuracy") > 0);
}

/* ---- numbers that do not depend on the hosts ------------------------------------------------ */

/* Both evaluate every sample once, so the same weights give the same accuracy and loss. */
YK_TEST(promise_19_evaluation_counts_every_sample_once_on_all_hosts)
{
    char output[4096];
    yk_test_hosts(2);
    expect_success(train_on("run", 2, 2, DATA "--epochs 1"));
    assert_int_equal(yk_test_command(output, sizeof output,
                                     "%s evaluate %s/run/model.pth --data synthetic --threads 1",
                                     test_program(), yk_test_directory()),
                     0);
    char accuracy[32];
    snprintf(accuracy, sizeof accuracy, "%.2f", 100 * last_value("run", "val_accuracy"));
    assert_contains(output, accuracy);
}

YK_TEST(promise_25_no_divergence_between_hosts)
{
    yk_test_hosts(2);
    expect_success(train_on("run", 2, 2,
                            "--data synthetic --arch resnet9 --threads 1 --batch-size 16 "
                            "--max-steps 4 --sync-bn --check-divergence 1"));
}

YK_TEST(promise_20_two_hosts_train_what_one_process_trains)
{
    yk_test_hosts(2);
    expect_success(train_on("hosts", 2, 2, DATA "--epochs 1"));
    assert_int_equal(train("alone", "--batch-size 120 --epochs 1"), 0);
    double hosts = last_value("hosts", "val_loss"), alone = last_value("alone", "val_loss");
    assert_true(hosts > alone * 0.99 && hosts < alone * 1.01);
}

/* ---- times ----------------------------------------------------------------------------------- */

/* The newest number of this name in the metrics of a run. */
static double newest(const char *run, const char *name)
{
    char text[64], output[256];
    yk_test_command(output, sizeof output, "grep -o '\"%s\": [0-9.e-]*' %s | tail -n 1", name,
                    path_of(run, "metrics.jsonl"));
    snprintf(text, sizeof text, "\"%s\": ", name);
    if (strncmp(output, text, strlen(text)) != 0)
        fail_msg("no %s: \"%s\"", name, output);
    return strtod(output + strlen(text), NULL);
}

YK_TEST(the_exchange_of_updates_is_no_computation)
{
    yk_test_hosts(2);
    yk_test_limit_rate(1, "20mbit");
    yk_test_limit_rate(2, "20mbit");
    expect_success(train_on("trained", 2, 1, DATA "--max-steps 4 --log-every 1 --zero"));
    double compute_s = newest("trained", "compute_s");
    double exchange_s = newest("trained", "exposed_comm_s");
    if (!(exchange_s > 5 * compute_s))
        fail_msg("compute %g s, exposed communication %g s", compute_s, exchange_s);
}

/* `yoke bench all-reduce` with one backend and with several. */
#define _GNU_SOURCE
#include "../launcher/job.h"

static test_job job;

YK_TEST(several_backends_share_a_table)
{
    test_job_start(&job, "bench all-reduce --nproc 2 --backend shm,shm");
    assert_int_equal(test_job_wait(&job, 100), 0);
    assert_contains(job.output, "2 ranks, backend shm, shm, buffers");
    assert_contains(job.output, "bytes microseconds         GB/s of bound microseconds");
    long bytes = 0;
    double first = 0, second = 0, bound = 0, share = 0;
    const char *last = strstr(job.output, "\n    67108864 ");
    assert_non_null(last);
    assert_int_equal(sscanf(last, "%ld %lf %*f %*f %% %lf %*f %lf %% %lf", &bytes, &first, &second,
                            &share, &bound),
                     5);
    assert_true(first > 0 && second > 0 && share > 0 && bound > 0);
}

YK_TEST(private_buffers_as_json)
{
    char command[512], path[256], text[4096];
    snprintf(path, sizeof path, "%s/all_reduce.json", yk_test_directory());
    snprintf(command, sizeof command, "bench all-reduce --nproc 2 --private --json %s", path);
    test_job_start(&job, command);
    assert_int_equal(test_job_wait(&job, 100), 0);
    assert_contains(job.output, "backend shm, private buffers\n");
    yk_test_read_file(text, sizeof text, path);
    assert_contains(text, "\"ranks\": 2,\n  \"buffers\": \"private\",\n  \"backends\": [\"shm\"],");
    assert_contains(text, "{\"bytes\": 4, \"microseconds\": [");
    assert_contains(text, "\"bound_microseconds\": null}");
    assert_contains(text, "{\"bytes\": 67108864, \"microseconds\": [");
}

/* Which moves nothing: it would reach thousands of per cent of any bound. */
YK_TEST(one_rank_has_no_bound)
{
    test_job_start(&job, "bench all-reduce --nproc 1");
    assert_int_equal(test_job_wait(&job, 100), 0);
    assert_contains(job.output, "1 rank, backend self");
    assert_null(strstr(job.output, "%"));
}

YK_TEST(a_full_disk_is_named)
{
    test_job_start(&job, "bench all-reduce --nproc 1 --json /dev/full");
    assert_int_equal(test_job_wait(&job, 100), 1);
    assert_contains(job.output, "yoke: /dev/full: cannot write: No space left on device\n");
}

/* As in two containers on one machine: the ranks cannot map each other's memory, so there is no
 * bound to compare with. */
YK_TEST(private_buffers_in_pid_namespaces)
{
    char command[1024], output[256];
    const char *apart = "unshare --user --map-root-user --pid --fork --kill-child --mount-proc";
    if (yk_test_command(output, sizeof output, "%s true", apart))
        skip_because("pid namespaces cannot be made here: %s", output);
    snprintf(command, sizeof command, "run -n 2 -- %s %s bench all-reduce --private", apart,
             test_program());
    test_job_start(&job, command);
    test_job_await(&job, "private buffers\n");
    test_job_await(&job, "      1024 "); /* the larger ones are no different */
    kill(job.pid, SIGTERM); /* unshare and the first process of a namespace ignore it */
    test_job_await(&job, "signal again to kill");
    test_job_signal_again(&job, SIGTERM);
    assert_int_equal(test_job_wait(&job, 20), 122); /* docs/launcher.md */
}

YK_TEST(a_backend_that_is_not_known_is_refused)
{
    test_job_start(&job, "bench all-reduce --nproc 2 --backend shm,carrier-pigeon");
    assert_int_equal(test_job_wait(&job, 100), 2);
    assert_contains(job.output, "unknown backend \"carrier-pigeon\"");
}

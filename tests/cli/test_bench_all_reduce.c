/* `yoke bench all-reduce` with one backend and with several. */
#define _GNU_SOURCE
#include "../launcher/job.h"

static test_job job;

YK_TEST(several_backends_share_a_table)
{
    test_job_start(&job, "bench all-reduce --nproc 2 --backend shm,shm");
    assert_int_equal(test_job_wait(&job, 100), 0);
    assert_contains(job.output, "2 ranks, backend shm, shm, buffers");
    assert_contains(job.output, "bytes microseconds         GB/s microseconds         GB/s\n");
    long bytes = 0;
    double first = 0, second = 0;
    const char *last = strstr(job.output, "\n    67108864 ");
    assert_non_null(last);
    assert_int_equal(sscanf(last, "%ld %lf %*f %lf", &bytes, &first, &second), 3);
    assert_true(first > 0 && second > 0);
}

YK_TEST(a_backend_that_is_not_known_is_refused)
{
    test_job_start(&job, "bench all-reduce --nproc 2 --backend shm,carrier-pigeon");
    assert_int_equal(test_job_wait(&job, 100), 1);
    assert_contains(job.output, "carrier-pigeon");
}

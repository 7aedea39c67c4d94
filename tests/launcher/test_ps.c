/* `yoke ps`: the ranks of a job on one host or several, and what they wait for. */
#define _GNU_SOURCE
#include "agents.h"

static char listing[8192];

static yk_group *join(void)
{
    yk_group *group;
    yk_group_options options = YK_GROUP_OPTIONS_INIT;
    const char *method = getenv("YOKE_TEST_METHOD");
    options.init_method = method ? method : options.init_method;
    assert_ok(yk_group_init(&group, &options));
    return group;
}

/* A group of an earlier training, after whose last step nobody asks. */
static void train_before(void)
{
    yk_group *group = join();
    yk_group_note_step(group, 77);
    sleep(1); /* the step has been published */
    assert_ok(yk_barrier(group));
    yk_group_destroy(group);
}

/* Rank 0 waits for rank 1, which sleeps until it is stopped. */
static void wait_in_vain(void)
{
    float values[4] = {0};
    train_before();
    yk_group *group = join();
    for (int step = 1; step <= 3 + yk_group_rank(group); step++)
        yk_group_note_step(group, step);
    printf("met\n");
    fflush(stdout);
    if (yk_group_rank(group) == 1)
        sleep(100);
    (void)yk_all_reduce(group, values, 4, YK_F32, YK_REDUCE_SUM, NULL);
    yk_group_destroy(group);
}

static const char *own_case(const char *name)
{
    static char words[512];
    char self[256];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(length > 0);
    self[length] = '\0';
    snprintf(words, sizeof words, "%s %s", self, name);
    return words;
}

/* Whether a line has this rank, and the number of its step. */
static bool lists_step(int rank, int step)
{
    int listed, at;
    for (const char *line = listing; line; line = strchr(line + 1, '\n'))
        if (sscanf(line, "%d %*s %*d %d", &listed, &at) == 2 && listed == rank && at == step)
            return true;
    return false;
}

/* Lists until rank 0 is seen to wait, and the steps of both. Without a place, jobs of other tests
 * are listed as well, and may end meanwhile. */
static void await_listing(const char *where)
{
    for (double deadline = yk_test_now() + 20; yk_test_now() < deadline; usleep(50000)) {
        int code = yk_test_command(listing, sizeof listing, "%s ps %s", test_program(), where);
        if ((code == 0 || !*where) && strstr(listing, "all_reduce(float32 x 4") &&
            lists_step(0, 3) && lists_step(1, 4))
            return;
    }
    fail_msg("\"%s\"", listing);
}

YK_TEST(ranks_of_this_host_and_what_they_wait_for)
{
    char arguments[600];
    if (getenv("RANK")) {
        wait_in_vain();
        return;
    }
    snprintf(arguments, sizeof arguments, "run -n 2 %s",
             own_case("ranks_of_this_host_and_what_they_wait_for"));
    test_job_start(&agents[0], arguments);
    test_job_await(&agents[0], "[rank 1] met");
    await_listing("");
    assert_contains(listing, "Job at 127.0.0.1:");
    kill(agents[0].pid, SIGTERM);
    test_job_wait(&agents[0], 20);
}

/* The launcher's variables are its last. */
YK_TEST(ranks_with_a_large_environment_are_listed)
{
    static char large[100000];
    char name[16];
    memset(large, 'x', sizeof large - 1);
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "LARGE_%d", i);
        setenv(name, large, 1);
    }
    test_job_start(&agents[0], "run sh -c 'echo port=$YOKE_STORE_PORT.; exec sleep 60'");
    snprintf(name, sizeof name, ":%d\n", test_job_number(&agents[0], "port="));
    yk_test_command(listing, sizeof listing, "%s ps", test_program());
    assert_contains(listing, name);
    kill(agents[0].pid, SIGTERM);
    test_job_wait(&agents[0], 20);
}

/* Its store has a port and a secret that nobody has been told. */
YK_TEST(ranks_without_a_launcher_are_listed)
{
    static test_job ranks[2];
    char command[1200];
    if (getenv("RANK")) {
        wait_in_vain();
        return;
    }
    for (int rank = 0; rank < 2; rank++) {
        snprintf(command, sizeof command,
                 "env RANK=%d WORLD_SIZE=2 YOKE_TEST_METHOD=file://%s/meet %s", rank,
                 yk_test_directory(), own_case("ranks_without_a_launcher_are_listed"));
        test_job_start_command(&ranks[rank], command);
    }
    test_job_await(&ranks[0], "met");
    test_job_await(&ranks[1], "met");
    await_listing("");
    for (int rank = 0; rank < 2; rank++) {
        kill(ranks[rank].pid, SIGKILL);
        test_job_wait(&ranks[rank], 20);
    }
}

YK_TEST(ranks_of_all_hosts_are_listed_through_the_rendezvous)
{
    char where[64];
    if (getenv("RANK")) {
        wait_in_vain();
        return;
    }
    setenv("YOKE_SECRET", "of this job", 1);
    for (int i = 0; i < 2; i++)
        start_agent(i, "2", own_case("ranks_of_all_hosts_are_listed_through_the_rendezvous"));
    test_job_await(&agents[0], "met");
    test_job_await(&agents[1], "met");
    snprintf(where, sizeof where, "localhost:%d", rendezvous_port);
    await_listing(where);
    assert_contains(listing, " rank  host ");
    setenv("YOKE_SECRET", "another", 1);
    assert_int_equal(yk_test_command(listing, sizeof listing, "%s ps %s", test_program(), where),
                     1);
    assert_contains(listing, "YOKE_SECRET");
    kill(agents[0].pid, SIGTERM);
    test_job_wait(&agents[0], 20);
    test_job_wait(&agents[1], 20);
}

/* The launchers of other hosts keep empty stores ready. */
YK_TEST(a_store_without_ranks_may_be_that_of_another_host)
{
    int port = YK_PORT_ANY;
    yk_store_server *server;
    setenv("YOKE_SECRET", "of this job", 1);
    assert_ok(yk_store_serve(&server, "127.0.0.1", &port, "of this job"));
    assert_int_equal(
        yk_test_command(listing, sizeof listing, "%s ps 127.0.0.1:%d", test_program(), port), 0);
    assert_contains(listing, "or this is not the host of --rdzv-endpoint");
    yk_store_server_destroy(server);
}

YK_TEST(no_job_and_no_store_are_told)
{
    assert_int_equal(yk_test_command(listing, sizeof listing, "%s ps localhost:%d", test_program(),
                                     yk_test_free_port()),
                     1);
    assert_int_equal(yk_test_command(listing, sizeof listing, "%s ps a:b:", test_program()), 1);
    assert_int_equal(yk_test_command(listing, sizeof listing, "%s ps host:port", test_program()),
                     2);
    assert_contains(listing, "host:port: expected HOST:PORT");
}

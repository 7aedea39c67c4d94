/* A launcher whose ranks' store, or rendezvous, does not answer. The test is the coordinator; the
 * keys are those of cli/launch/bus.h, the texts those of coordinator.c and orders.h. */
#define _GNU_SOURCE
#include "job.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <yoke/store.h>

/* Accepts connections, but never answers. */
static int listen_mutely(int *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

static void set_text(yk_store *store, const char *key, const char *text)
{
    assert_ok(yk_store_set(store, key, text, strlen(text)));
}

static void give_order(yk_store *store, const char *text)
{
    char key[64];
    int64_t number;
    assert_ok(yk_store_add(store, "orders", 1, &number));
    snprintf(key, sizeof key, "orders/%d", (int)number - 1);
    set_text(store, key, text);
}

/* The launcher's next report must begin with this. */
static void expect_report(yk_store *store, int number, const char *begin)
{
    char key[64], text[4096];
    size_t used;
    snprintf(key, sizeof key, "reports/%d", number);
    assert_ok(yk_store_get(store, key, text, sizeof text - 1, &used, 40));
    text[used] = '\0';
    if (strncmp(text, begin, strlen(begin)) != 0)
        fail_msg("\"%s\" does not begin with \"%s\"", text, begin);
}

/* A launcher, and the store of its coordinator. */
typedef struct stalled {
    test_job job;
    yk_store *store;
    yk_store_server *server;
} stalled;

/* Returns when the launcher is connecting to the store of its ranks. */
static void begin(stalled *s)
{
    char words[256], order[256];
    int port = YK_PORT_ANY, mute_port, mute = listen_mutely(&mute_port);
    unsetenv("YOKE_SECRET");
    assert_ok(yk_store_serve(&s->server, "127.0.0.1", &port, ""));
    assert_ok(yk_store_connect(&s->store, "127.0.0.1", port, "", 20));
    set_text(s->store, "coordinator", "");
    snprintf(words, sizeof words,
             "run --nnodes 2 --node-rank 1 --master-addr 127.0.0.1 --master-port %d echo started",
             port);
    test_job_start(&s->job, words);
    expect_report(s->store, 0, "join 1 ");
    snprintf(order, sizeof order,
             "round 0 0 2 2 %d %d -\n9 0 1 1 127.0.0.1 other\n1 1 1 1 127.0.0.1 here\n", mute_port,
             mute_port);
    give_order(s->store, order);
    assert_true(accept4(mute, NULL, NULL, SOCK_CLOEXEC) >= 0); /* the connection stays open */
}

/* The job is to end with this code, without having started a rank. */
static void end(stalled *s, int code)
{
    char order[64];
    snprintf(order, sizeof order, "end %d -1\n\n", code);
    give_order(s->store, order);
    assert_job_ends(&s->job, 20, code);
    assert_null(strstr(s->job.output, "started"));
    yk_store_destroy(s->store);
    yk_store_server_destroy(s->server);
}

YK_TEST(a_signal_is_obeyed_while_the_store_does_not_answer)
{
    stalled s;
    begin(&s);
    kill(s.job.pid, SIGTERM);
    expect_report(s.store, 1, "stop 1 15");
    expect_report(s.store, 2, "ended 1 0 s 143 ");
    end(&s, 143);
}

YK_TEST(an_order_is_obeyed_while_the_store_does_not_answer)
{
    stalled s;
    begin(&s);
    give_order(s.store, "fail");
    expect_report(s.store, 1, "ended 1 0 s 143 ");
    end(&s, 7);
}

YK_TEST(a_store_that_does_not_answer_is_named)
{
    stalled s;
    begin(&s);
    expect_report(s.store, 1, "ended 1 0 f 1 1 ");
    end(&s, 1);
    assert_contains(s.job.output, "no store within 10 s");
}

/* What has the port of the rendezvous may be another launcher, which is asked. */
YK_TEST(a_signal_is_obeyed_while_the_rendezvous_does_not_answer)
{
    test_job job;
    char words[256];
    int port, mute = listen_mutely(&port);
    snprintf(words, sizeof words, "run --nnodes 2 --rdzv-endpoint 127.0.0.1:%d echo started", port);
    test_job_start(&job, words);
    assert_true(accept4(mute, NULL, NULL, SOCK_CLOEXEC) >= 0);
    kill(job.pid, SIGTERM);
    assert_job_ends(&job, 20, 128 + SIGTERM);
    assert_null(strstr(job.output, "started"));
}

/* The connection between an agent of a job and the rendezvous. */
#define _GNU_SOURCE
#include "harness.h"

#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launch/link.h"

#define SECRET "0123456789abcdef"

/* Shuts down this process's connections to the port but for the `first` oldest. Returns their
 * number. */
static int shut_down(int port, int first)
{
    int found = 0;
    for (int fd = 3; fd < 256; fd++) {
        struct sockaddr_in peer = {.sin_family = AF_UNSPEC};
        socklen_t size = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &size) || ntohs(peer.sin_port) != port)
            continue;
        if (found++ >= first)
            shutdown(fd, SHUT_RDWR);
    }
    return found;
}

static cli_link *open_link(const char *host, int port)
{
    static char word[] = "program", *program[] = {word, NULL};
    static const cli_launch launch = {
        .name = "yoke run", .ranks = 1, .program = program, .run_id = "job"};
    cli_link *link = cli_link_open(&(cli_link_options){
        .launch = &launch, .host = host, .port = port, .secret = SECRET, .join_s = 10});
    assert_non_null(link);
    return link;
}

static cli_link *join(int port)
{
    cli_link *link = open_link("127.0.0.1", port);
    while (cli_link_id(link) < 0)
        usleep(1000);
    return link;
}

/* The next order; to be freed. */
static char *await_order(cli_link *link)
{
    assert_int_equal(poll(&(struct pollfd){.fd = cli_link_fd(link), .events = POLLIN}, 1, -1), 1);
    char *order = cli_link_next(link);
    assert_non_null(order);
    return order;
}

/* Reads reports until this one arrives. */
static void expect_report(yk_store *store, const char *report)
{
    static char text[CLI_MESSAGE_SIZE];
    cli_bus_reader reader = {.stream = CLI_BUS_REPORTS};
    while (strcmp(text, report) != 0) {
        yk_status status = cli_bus_next(&reader, store, text, 1);
        assert_true(status == YK_OK || status == YK_ERROR_TIMEOUT);
    }
}

YK_TEST(a_report_survives_the_loss_of_its_connection)
{
    int port = YK_PORT_ANY;
    yk_store_server *server;
    yk_store *store;
    assert_int_equal(yk_store_serve(&server, "127.0.0.1", &port, SECRET), YK_OK);
    cli_link *link = join(port);
    cli_link_report(link, "failed 0 0"); /* once it is there, so is the connection for reports */
    assert_int_equal(yk_store_connect(&store, "127.0.0.1", port, SECRET, 5), YK_OK);
    expect_report(store, "failed 0 0");
    yk_store_destroy(store);
    assert_int_equal(shut_down(port, 1), 2); /* orders, reports */
    cli_link_report(link, "ended 0 0 o 0 -1 0");
    assert_int_equal(yk_store_connect(&store, "127.0.0.1", port, SECRET, 5), YK_OK);
    expect_report(store, "ended 0 0 o 0 -1 0");
    cli_link_close(link);
    yk_store_destroy(store);
    yk_store_server_destroy(server);
}

YK_TEST(a_report_that_cannot_arrive_means_that_the_rendezvous_is_lost)
{
    int port = YK_PORT_ANY;
    yk_store_server *server;
    assert_int_equal(yk_store_serve(&server, "127.0.0.1", &port, SECRET), YK_OK);
    cli_link *link = join(port);
    yk_store_server_destroy(server);
    cli_link_report(link, "ended 0 0 o 0 -1 0");
    char *order = await_order(link);
    assert_int_equal(strncmp(order, "lost ", 5), 0);
    free(order);
    cli_link_close(link);
}

/* With the brackets without which --rdzv-endpoint would take the port for a part of the address. */
YK_TEST(the_notice_of_waiting_names_an_endpoint_as_the_option_takes_it)
{
    char begin[80];
    int port = yk_test_free_port();
    cli_link *link = open_link("::1", port);
    char *order = await_order(link);
    snprintf(begin, sizeof begin, "say waiting for the rendezvous at [::1]:%d", port);
    if (strncmp(order, begin, strlen(begin)) != 0)
        fail_msg("%s", order);
    free(order);
    cli_link_close(link);
}

/* The system lets a host have any name. */
YK_TEST(the_name_of_a_host_is_one_line_of_what_it_reports)
{
    static const char name[] = "my\nhost";
    char report[512];
    size_t size;
    int port = YK_PORT_ANY;
    yk_store_server *server;
    yk_store *store;
    if (unshare(CLONE_NEWUTS) || sethostname(name, sizeof name - 1))
        skip_because("this process may not name a host");
    assert_ok(yk_store_serve(&server, "127.0.0.1", &port, SECRET));
    assert_ok(yk_store_connect(&store, "127.0.0.1", port, SECRET, 5));
    cli_link *link = join(port);
    assert_ok(yk_store_get(store, "reports/0", report, sizeof report - 1, &size, 5));
    report[size] = '\0';
    assert_contains(report, "\nmy?host\n127.0.0.1\njob\nprogram\n");
    cli_link_close(link);
    yk_store_destroy(store);
    yk_store_server_destroy(server);
}

/* ---- messages (cli/launch/bus.h) ------------------------------------------------------------ */

static void expect_message(cli_bus_reader *reader, yk_store *store, const char *message)
{
    static char text[CLI_MESSAGE_SIZE];
    yk_status status;
    while ((status = cli_bus_next(reader, store, text, 0.1)) == YK_ERROR_TIMEOUT)
        ;
    assert_int_equal(status, YK_OK);
    assert_string_equal(text, message);
}

/* A job that is restarted for days must not fill its store. What was read is not read again, and
 * its number is not free again. */
YK_TEST(the_only_reader_empties_what_it_has_read)
{
    int port = YK_PORT_ANY;
    bool set;
    char rest[32];
    size_t size;
    yk_store_server *server;
    yk_store *store;
    cli_bus_reader reader = {.stream = CLI_BUS_REPORTS, .forgets = true};
    cli_bus_reader other = {.stream = CLI_BUS_ORDERS};
    assert_ok(yk_store_serve(&server, "127.0.0.1", &port, SECRET));
    assert_ok(yk_store_connect(&store, "127.0.0.1", port, SECRET, 5));
    for (int i = 0; i < 2; i++) {
        assert_ok(cli_bus_post(store, CLI_BUS_REPORTS, "a report"));
        assert_ok(cli_bus_post(store, CLI_BUS_ORDERS, "an order"));
        expect_message(&reader, store, "a report");
        expect_message(&other, store, "an order");
    }
    assert_ok(yk_store_get(store, "reports/1", rest, sizeof rest, &size, 0));
    assert_int_equal(size, 0);
    assert_ok(yk_store_get(store, "orders/1", rest, sizeof rest, &size, 0));
    assert_int_equal(size, strlen("an order"));
    assert_ok(yk_store_compare_set(store, "reports/0", NULL, 0, "late", 4, &set));
    assert_false(set);
    yk_store_destroy(store);
    yk_store_server_destroy(server);
}

/* What all readers have read is emptied by the writer, unless it is short. */
YK_TEST(long_messages_before_a_number_are_emptied)
{
    enum { MESSAGES = 6, END = 4 };
    int port = YK_PORT_ANY;
    int64_t first = 0, count;
    char text[2 * CLI_MESSAGE_SHORT + 1];
    yk_store_server *server;
    yk_store *store;
    assert_ok(yk_store_serve(&server, "127.0.0.1", &port, SECRET));
    assert_ok(yk_store_connect(&store, "127.0.0.1", port, SECRET, 5));
    for (int i = 0; i < MESSAGES; i++) {
        memset(text, 'a' + i, sizeof text - 1);
        text[i % 2 ? CLI_MESSAGE_SHORT : 2 * CLI_MESSAGE_SHORT] = '\0';
        if (i == 2) /* whose writer has died */
            assert_ok(yk_store_add(store, CLI_BUS_ORDERS, 1, &count));
        else
            assert_ok(cli_bus_post(store, CLI_BUS_ORDERS, text));
    }
    for (int i = 0; i < 2; i++)
        assert_ok(cli_bus_empty_long(store, CLI_BUS_ORDERS, &first, END));
    assert_int_equal(first, END);
    for (int i = 0; i < MESSAGES; i++) {
        char key[32];
        size_t size, whole = i % 2 ? CLI_MESSAGE_SHORT : 2 * CLI_MESSAGE_SHORT;
        snprintf(key, sizeof key, "orders/%d", i);
        yk_status status = yk_store_get(store, key, text, sizeof text, &size, 0);
        assert_status(i == 2 ? YK_ERROR_TIMEOUT : YK_OK, status);
        if (i != 2)
            assert_int_equal(size, i < END && i % 2 == 0 ? 0 : whole);
    }
    yk_store_destroy(store);
    yk_store_server_destroy(server);
}

/* Of the writers, one dies between taking its number and writing; another is slow there, and finds
 * its number closed by the reader. */
YK_TEST(messages_arrive_although_a_writer_dies_or_is_slow)
{
    int port = YK_PORT_ANY;
    int64_t count;
    bool set;
    yk_store_server *server;
    yk_store *store;
    cli_bus_reader reader = {.stream = CLI_BUS_REPORTS};
    assert_ok(yk_store_serve(&server, "127.0.0.1", &port, SECRET));
    assert_ok(yk_store_connect(&store, "127.0.0.1", port, SECRET, 5));
    assert_ok(yk_store_add(store, CLI_BUS_REPORTS, 1, &count));
    assert_ok(cli_bus_post(store, CLI_BUS_REPORTS, "after a death"));
    expect_message(&reader, store, "after a death");
    assert_ok(yk_store_compare_set(store, "reports/0", NULL, 0, "late", 4, &set));
    assert_false(set);
    assert_ok(yk_store_set(store, "reports/2", "", 0));
    assert_ok(cli_bus_post(store, CLI_BUS_REPORTS, "slow"));
    expect_message(&reader, store, "slow");
    yk_store_destroy(store);
    yk_store_server_destroy(server);
}

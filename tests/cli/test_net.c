/* The launcher's questions about hosts and ports (cli/launch/net.h). */
#define _GNU_SOURCE
#include "harness.h"

#include <sys/wait.h>
#include <unistd.h>

#include "launch/net.h"

/* Two ports that are free. */
static int two_ports(void)
{
    int port;
    do
        port = yk_test_free_port();
    while (yk_test_free_port() != port + 1);
    return port;
}

YK_TEST(a_port_is_claimed_once)
{
    int first = two_ports(), one = cli_net_claim_port(first, 2), other;
    assert_in_range(one, first, first + 1);
    other = cli_net_claim_port(first, 2);
    assert_in_range(other, first, first + 1);
    assert_int_not_equal(one, other);
    assert_int_equal(cli_net_claim_port(first, 2), 0);
}

YK_TEST(a_port_that_is_in_use_is_not_claimed)
{
    int first = two_ports();
    yk_store_server *server;
    assert_ok(yk_store_serve(&server, "127.0.0.1", &first, ""));
    for (int i = 0; i < 2; i++)
        assert_int_equal(cli_net_claim_port(first, 2), i ? 0 : first + 1);
    yk_store_server_destroy(server);
}

YK_TEST(a_claim_ends_with_its_process)
{
    int port = yk_test_free_port(), status;
    pid_t child = yk_test_fork();
    if (child == 0)
        _exit(cli_net_claim_port(port, 1) == port ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(cli_net_claim_port(port, 1), port);
}

YK_TEST(an_endpoint_has_an_ipv6_address_in_brackets)
{
    char text[CLI_NET_ENDPOINT], host[64];
    int port = 0;
    assert_string_equal(cli_net_endpoint(text, "head", 29400), "head:29400");
    assert_string_equal(cli_net_endpoint(text, "10.0.0.1", 1), "10.0.0.1:1");
    assert_string_equal(cli_net_endpoint(text, "[fd77::1]", 1), "[fd77::1]:1");
    assert_string_equal(cli_net_endpoint(text, "fd77::1", 29400), "[fd77::1]:29400");
    assert_true(cli_net_split(text, host, sizeof host, &port));
    assert_string_equal(host, "fd77::1");
    assert_int_equal(port, 29400);
}

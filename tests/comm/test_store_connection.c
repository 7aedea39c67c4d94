/* Connections to the store: addresses, ports, servers that do not answer or go away. */
#define _GNU_SOURCE
#include "store_fixture.h"

#include <arpa/inet.h>
#include <math.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/prctl.h>

/* ---- serving -------------------------------------------------------------------------------- */

YK_TEST(a_senseless_heartbeat_timeout_is_refused)
{
    yk_store_server *server;
    int port = YK_PORT_ANY;
    setenv("YOKE_HEARTBEAT_TIMEOUT", "soon", 1);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_store_serve(&server, "127.0.0.1", &port, "s"));
    assert_contains(yk_last_error(), "YOKE_HEARTBEAT_TIMEOUT");
    unsetenv("YOKE_HEARTBEAT_TIMEOUT");
}

YK_TEST(a_port_in_use_is_named_with_its_owner)
{
    fixture f = begin("s");
    yk_store_server *second = NULL;
    assert_status(YK_ERROR_NETWORK, yk_store_serve(&second, "127.0.0.1", &f.port, "s"));
    char owner[80], me[16];
    prctl(PR_GET_NAME, me);
    snprintf(owner, sizeof owner, "port %d of 127.0.0.1 is in use by pid %d (%s)", f.port, getpid(),
             me);
    assert_contains(yk_last_error(), owner);
    end(&f);
}

/* ---- the end of the process ----------------------------------------------------------------- */

static int served_port;

static void connect_at_exit(void)
{
    yk_store *store;
    _exit(yk_store_connect(&store, "127.0.0.1", served_port, "s", 10) == YK_OK ? 0 : 3);
}

/* As a launcher's thread does that connects while main returns. What is registered first runs
 * last, so OpenSSL would have been taken down before. */
YK_TEST(a_connection_can_be_made_while_the_process_ends)
{
    yk_store_server *server;
    yk_store *store;
    int status;
    pid_t child = yk_test_fork();
    if (child == 0) {
        served_port = YK_PORT_ANY;
        atexit(connect_at_exit);
        if (yk_store_serve(&server, "127.0.0.1", &served_port, "s") != YK_OK ||
            yk_store_connect(&store, "127.0.0.1", served_port, "s", 10) != YK_OK)
            _exit(2);
        exit(1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_true(WIFEXITED(status));
}

static void *release(void *context)
{
    usleep(30000);
    close(*(const int *)context);
    return NULL;
}

/* As by a test that tries whether the port is free, or a launcher that serves it at the same time.
 * The store used to give up, and then no process served the port. */
YK_TEST(a_port_that_is_bound_for_a_moment_is_waited_for)
{
    yk_store_server *server;
    pthread_t other;
    int port = yk_test_free_port(), fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(pthread_create(&other, NULL, release, &fd), 0);
    assert_ok(yk_store_serve(&server, "127.0.0.1", &port, "s"));
    pthread_join(other, NULL);
    yk_store_server_destroy(server);
}

YK_TEST(a_port_beyond_all_ports_is_refused)
{
    const int ports[] = {-1, 65536, 70000};
    for (size_t i = 0; i < sizeof ports / sizeof *ports; i++) {
        yk_store_server *server = NULL;
        yk_store *store = NULL;
        int port = ports[i];
        assert_status(YK_ERROR_INVALID_ARGUMENT, yk_store_serve(&server, "127.0.0.1", &port, "s"));
        assert_contains(yk_last_error(), "0 to 65535");
        assert_status(YK_ERROR_INVALID_ARGUMENT,
                      yk_store_connect(&store, "127.0.0.1", port, "s", 0.1));
    }
}

/* Debian maps a host's own name to 127.0.1.1, where other hosts do not reach it. */
YK_TEST(a_star_serves_all_interfaces)
{
    yk_store_server *server;
    yk_store *store;
    int port = YK_PORT_ANY;
    assert_ok(yk_store_serve(&server, "*", &port, "s"));
    assert_ok(yk_store_connect(&store, "127.0.0.1", port, "s", 5));
    assert_string_equal(yk_store_local_address(store), "127.0.0.1");
    yk_store_destroy(store);
    assert_ok(yk_store_connect(&store, "127.0.1.1", port, "s", 5));
    yk_store_destroy(store);
    yk_store_server_destroy(server);
}

YK_TEST(errors_show_ipv6_addresses_in_brackets)
{
    yk_store *store;
    int port = yk_test_free_port();
    char at[64];
    snprintf(at, sizeof at, "[::1]:%d", port);
    for (int i = 0; i < 2; i++) {
        const char *host = i ? "::1" : "[::1]";
        assert_int_not_equal(yk_store_connect(&store, host, port, "", 0.01), YK_OK);
        assert_contains(yk_last_error(), at);
    }
}

/* As in URLs, and in the MASTER_ADDR of those who copy from them. */
YK_TEST(an_ipv6_address_may_have_brackets)
{
    yk_store_server *server;
    yk_store *store;
    int port = YK_PORT_ANY;
    if (yk_store_serve(&server, "::1", &port, "s3cret") != YK_OK)
        skip_because("no IPv6 here: %s", yk_last_error());
    assert_ok(yk_store_connect(&store, "[::1]", port, "s3cret", 5));
    yk_store_destroy(store);
    yk_store_server_destroy(server);
    port = YK_PORT_ANY;
    assert_ok(yk_store_serve(&server, "[::1]", &port, "s3cret"));
    yk_store_server_destroy(server);
}

YK_TEST(a_connection_knows_its_own_address)
{
    fixture f = begin("s");
    assert_string_equal(yk_store_local_address(f.store), "127.0.0.1");
    assert_string_equal(yk_store_local_address(NULL), "");
    end(&f);
}

/* ---- nobody there --------------------------------------------------------------------------- */

/* A label of more than 63 letters is not looked up anywhere. */
YK_TEST(an_unknown_host_is_told_from_a_refused_connection)
{
    char host[80] = "";
    yk_store *store;
    memset(host, 'x', sizeof host - 1);
    assert_status(YK_ERROR_TIMEOUT, yk_store_connect(&store, host, 29500, "s", 0.1));
    assert_contains(yk_last_error(), "cannot resolve the host name");
    assert_status(YK_ERROR_TIMEOUT,
                  yk_store_connect(&store, "127.0.0.1", yk_test_free_port(), "s", 0.1));
    assert_contains(yk_last_error(), "Connection refused");
}

YK_TEST(nobody_listens)
{
    yk_store *store = NULL;
    assert_status(YK_ERROR_TIMEOUT,
                  yk_store_connect(&store, "127.0.0.1", yk_test_free_port(), "s", 0.1));
}

/* A host that drops what is sent to it, as behind a firewall: here by a full queue of connections.
 * The system itself would go on trying for minutes. */
YK_TEST(nobody_answers)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), waiting[8];
    assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(listener, 0), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    for (int i = 0; i < 8; i++) {
        waiting[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(waiting[i], (struct sockaddr *)&address, size);
    }
    yk_store *store = NULL;
    assert_status(YK_ERROR_TIMEOUT,
                  yk_store_connect(&store, "127.0.0.1", ntohs(address.sin_port), "s", 0.1));
    for (int i = 0; i < 8; i++)
        close(waiting[i]);
    close(listener);
}

/* ---- a server that goes away ---------------------------------------------------------------- */

YK_TEST(server_gone)
{
    fixture f = begin("s");
    yk_store_server_destroy(f.server);
    f.server = NULL;
    assert_status(YK_ERROR_NETWORK, yk_store_set(f.store, "a", "b", 1));
    assert_status(YK_ERROR_NETWORK, yk_store_set(f.store, "a", "b", 1));
    end(&f);
}

static void *request_until_lost(void *store)
{
    bool found;
    while (yk_store_check(store, "key", &found) == YK_OK)
        ;
    return NULL;
}

/* Other threads may interrupt while the one that requests finds out that the server is gone. */
YK_TEST(a_connection_may_be_interrupted_while_it_is_lost)
{
    for (int round = 0; round < 20; round++) {
        fixture f = begin(NULL);
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, request_until_lost, f.store), 0);
        usleep(500);
        yk_store_server_destroy(f.server);
        f.server = NULL;
        for (int i = 0; i < 10; i++)
            yk_store_interrupt(f.store);
        pthread_join(thread, NULL);
        assert_true(yki_store_was_closed(f.store));
        end(&f);
    }
}

/* A process that is stopped keeps its connections. */
YK_TEST(a_server_that_is_stopped_is_waited_for_as_long_as_one_likes)
{
    yk_store *patient, *other;
    pid_t server;
    int status, port = serve_apart(&server, 64);
    assert_ok(yk_store_connect(&patient, "127.0.0.1", port, "s", 5));
    assert_ok(yk_store_connect(&other, "127.0.0.1", port, "s", 5));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_store_set_patience(other, NAN));
    assert_ok(yk_store_set_patience(other, 0.2));
    assert_ok(yk_store_set_patience(patient, INFINITY));
    kill(server, SIGSTOP);
    assert_int_equal(waitpid(server, &status, WUNTRACED), server);
    assert_status(YK_ERROR_NETWORK, yk_store_set(other, "a", "", 0));
    assert_contains(yk_last_error(), "no answer");
    assert_true(yki_store_was_silent(other));
    assert_false(yki_store_was_closed(other));
    kill(server, SIGCONT);
    assert_ok(yk_store_set(patient, "a", "", 0));
    yk_store_destroy(other);
    yk_store_destroy(patient);
    stop(server);
}

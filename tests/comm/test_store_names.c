/* Stores on hosts whose names have several addresses. */
#define _GNU_SOURCE
#include "outer_address.h"
#include "store_fixture.h"

#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>

/* ---- a name service -------------------------------------------------------------------------- */

enum { NO_FAMILY = 200 }; /* no kernel has it, as some have no AF_INET6 */

static const char *names[2]; /* the addresses of the host "several"; "": of NO_FAMILY */

typedef int get_addresses(const char *host, const char *service, const struct addrinfo *hints,
                          struct addrinfo **found);

/* Takes the place of the C library's function. */
int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                struct addrinfo **found)
{
    get_addresses *real = (get_addresses *)dlsym(RTLD_NEXT, "getaddrinfo");
    if (!host || strcmp(host, "several") != 0)
        return real(host, service, hints, found);
    for (int i = 0; i < 2; i++) {
        int error = real(*names[i] ? names[i] : "127.0.0.1", service, hints, found);
        if (error)
            return error;
        if (!*names[i])
            (*found)->ai_family = NO_FAMILY;
        found = &(*found)->ai_next;
    }
    return 0;
}

/* ---- cases ----------------------------------------------------------------------------------- */

/* A host with several networks, each of which has hosts that know no other. */
YK_TEST(all_addresses_of_a_name_are_served)
{
    char outer[INET_ADDRSTRLEN];
    if (!find_outer_address(outer))
        skip_because("this host has no address but that of its loopback interface");
    names[0] = outer;
    names[1] = "127.0.0.1";
    yk_store_server *server;
    int port = YK_PORT_ANY;
    assert_ok(yk_store_serve(&server, "several", &port, "s"));
    for (int i = 0; i < 2; i++) {
        yk_store *store;
        assert_ok(yk_store_connect(&store, names[i], port, "s", 0.1));
        yk_store_destroy(store);
    }
    yk_store_server_destroy(server);
}

static void *serve_late(void *port)
{
    yk_store_server *server;
    usleep(200000);
    assert_ok(yk_store_serve(&server, "127.0.0.1", &(int){*(const int *)port}, "s"));
    return server;
}

/* localhost is 127.0.0.1 and ::1 also where there is no IPv6, as in many containers. */
YK_TEST(a_store_is_awaited_though_an_address_of_its_host_never_works)
{
    names[0] = "127.0.0.1";
    names[1] = "";
    int port = yk_test_free_port();
    yk_store *store;
    assert_status(YK_ERROR_TIMEOUT, yk_store_connect(&store, "several", port, "s", 0.1));
    assert_contains(yk_last_error(), "Connection refused");
    pthread_t thread;
    void *server;
    assert_int_equal(pthread_create(&thread, NULL, serve_late, &port), 0);
    assert_ok(yk_store_connect(&store, "several", port, "s", 10));
    pthread_join(thread, &server);
    yk_store_destroy(store);
    yk_store_server_destroy(server);
}

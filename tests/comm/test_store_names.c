/* Stores on hosts whose names have several addresses, and a name service that does not answer. */
#define _GNU_SOURCE
#include "outer_address.h"
#include "store_fixture.h"

#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "clock.h"
#include "comm/store/resolve.h"

/* ---- a name service -------------------------------------------------------------------------- */

enum { NO_FAMILY = 200 }; /* no kernel has it, as some have no AF_INET6 */

static const char *names[2]; /* the addresses of the host "several"; "": of NO_FAMILY */
static sem_t answers;        /* the calls for the host "late" that may return */
static atomic_int questions; /* the calls for it so far */

typedef int get_addresses(const char *host, const char *service, const struct addrinfo *hints,
                          struct addrinfo **found);

/* Takes the place of the C library's function. */
int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                struct addrinfo **found)
{
    get_addresses *real = (get_addresses *)dlsym(RTLD_NEXT, "getaddrinfo");
    if (host && strcmp(host, "late") == 0 && !(hints->ai_flags & AI_NUMERICHOST)) {
        atomic_fetch_add(&questions, 1);
        while (sem_wait(&answers))
            ;
        return real("127.0.0.1", service, hints, found);
    }
    if (!host || strcmp(host, "several") != 0 || hints->ai_flags & AI_NUMERICHOST)
        return real(host, service, hints, found);
    for (int i = 0; i < 2; i++) {
        int error = real(*names[i] ? names[i] : "127.0.0.1", service, hints, found);
        if (error)
            return error;
        if (!*names[i])
            (*found)->ai_addr->sa_family = NO_FAMILY;
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

/* ---- a silent name service ------------------------------------------------------------------- */

static void expect_silence(double patience_s)
{
    yki_addresses found;
    bool again = false;
    double begin_s = yki_now();
    assert_status(YK_ERROR_NOT_FOUND, yki_resolve(&found, "late", 0, patience_s, &again));
    assert_contains(yk_last_error(), "\"late\": the name service does not answer");
    assert_true(again);
    assert_true(yki_now() - begin_s >= patience_s);
}

static void expect_answer(void)
{
    yki_addresses found;
    bool again = true;
    assert_ok(yki_resolve(&found, "late", 4711, 20, &again));
    assert_false(again);
    assert_int_equal(found.count, 1);
    const struct sockaddr_in *at = (const struct sockaddr_in *)&found.list[0];
    assert_int_equal(at->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    assert_int_equal(ntohs(at->sin_port), 4711);
}

YK_TEST(a_name_is_asked_for_once_and_its_answer_is_taken_later)
{
    assert_int_equal(sem_init(&answers, 0, 0), 0);
    for (int i = 0; i < 3; i++)
        expect_silence(0.05);
    assert_int_equal(atomic_load(&questions), 1);
    sem_post(&answers);
    expect_answer();
    assert_int_equal(atomic_load(&questions), 1);
    sem_post(&answers);
    expect_answer(); /* names get other addresses */
    assert_int_equal(atomic_load(&questions), 2);
}

static void *take_answer(void *unused)
{
    (void)unused;
    expect_answer();
    return NULL;
}

YK_TEST(threads_that_ask_for_the_same_name_share_the_answer)
{
    pthread_t threads[4];
    assert_int_equal(sem_init(&answers, 0, 0), 0);
    expect_silence(0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_answer, NULL), 0);
    usleep(100000);
    sem_post(&answers);
    for (int i = 0; i < 4; i++)
        sem_post(&answers); /* for a thread that has come too late */
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

/* It has not got the thread that waits for the answer. */
YK_TEST(a_fork_asks_for_the_name_itself)
{
    int status;
    assert_int_equal(sem_init(&answers, 1, 0), 0);
    expect_silence(0.05);
    pid_t child = yk_test_fork();
    if (child == 0) {
        sem_post(&answers);
        expect_answer();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

YK_TEST(a_store_is_tried_for_its_time_though_the_name_service_is_silent)
{
    yk_store *store;
    assert_int_equal(sem_init(&answers, 0, 0), 0);
    double begin_s = yk_test_now();
    assert_status(YK_ERROR_TIMEOUT, yk_store_connect(&store, "late", 1, "s", 0.1));
    assert_contains(yk_last_error(), "the name service does not answer");
    assert_true(yk_test_now() - begin_s < 30);
}

YK_TEST(a_store_is_served_though_the_name_service_is_silent)
{
    yk_store_server *server;
    yk_store *store;
    int port = YK_PORT_ANY;
    assert_int_equal(sem_init(&answers, 0, 0), 0);
    assert_ok(yk_store_serve(&server, "late", &port, "s"));
    assert_ok(yk_store_connect(&store, "127.0.0.1", port, "s", 10));
    yk_store_destroy(store);
    yk_store_server_destroy(server);
}

/* ---- what a name means ----------------------------------------------------------------------- */

static void expect_name(const char *host, yk_host_name expected)
{
    yk_host_name name = {true, true, true};
    assert_ok(yk_host_look_up(&name, host, 20));
    assert_int_equal(name.known, expected.known);
    assert_int_equal(name.own, expected.own);
    assert_int_equal(name.loopback, expected.loopback);
}

YK_TEST(names_and_addresses_are_looked_up)
{
    char outer[INET_ADDRSTRLEN];
    yk_host_name name;
    expect_name("localhost", (yk_host_name){.known = true, .own = true, .loopback = true});
    expect_name("127.8.9.1", (yk_host_name){.known = true, .own = true, .loopback = true});
    expect_name("[::1]", (yk_host_name){.known = true, .own = true, .loopback = true});
    expect_name("192.0.2.7", (yk_host_name){.known = true}); /* for documentation: RFC 5737 */
    expect_name("no such host", (yk_host_name){0});
    if (find_outer_address(outer)) {
        expect_name(outer, (yk_host_name){.known = true, .own = true});
        names[0] = "127.0.0.1";
        names[1] = outer;
        expect_name("several", (yk_host_name){.known = true, .own = true});
    }
    assert_int_equal(sem_init(&answers, 0, 0), 0);
    assert_ok(yk_host_look_up(&name, "late", 0));
    assert_false(name.known);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_host_look_up(&name, NULL, 1));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_host_look_up(NULL, "localhost", 1));
}

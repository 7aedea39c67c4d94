/* For the tests of the store: a server with a client, a server in a process of its own, and clients
 * that speak its protocol by hand. */
#ifndef YK_TEST_STORE_FIXTURE_H
#define YK_TEST_STORE_FIXTURE_H

#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/store/client.h"
#include "comm/store/wire.h"
#include "harness.h"

typedef struct fixture {
    yk_store_server *server;
    yk_store *store;
    int port;
} fixture;

static inline fixture begin(const char *secret)
{
    fixture f = {0};
    assert_ok(yk_store_serve(&f.server, "127.0.0.1", &f.port, secret));
    assert_true(f.port > 0);
    assert_ok(yk_store_connect(&f.store, "127.0.0.1", f.port, secret, 5));
    return f;
}

static inline void end(fixture *f)
{
    yk_store_destroy(f->store);
    yk_store_server_destroy(f->server);
}

static inline void expect_text(yk_store *store, const char *key, const char *expected)
{
    char value[64] = "";
    size_t used;
    assert_ok(yk_store_get(store, key, value, sizeof value - 1, &used, 10));
    assert_string_equal(value, expected);
}

/* ---- a process of its own ------------------------------------------------------------------- */

/* A server in a process of its own that may have so many files open; its port. */
static inline int serve_with(pid_t *server, struct rlimit files)
{
    int ends[2], port = 0;
    assert_int_equal(pipe(ends), 0);
    *server = yk_test_fork();
    if (*server == 0) {
        yk_store_server *store;
        if (setrlimit(RLIMIT_NOFILE, &files) ||
            yk_store_serve(&store, "127.0.0.1", &port, "s") != YK_OK ||
            write(ends[1], &port, sizeof port) != (ssize_t)sizeof port)
            _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ends[0], &port, sizeof port), sizeof port);
    close(ends[0]);
    close(ends[1]);
    return port;
}

/* The same with a limit that the server may raise. */
static inline int serve_apart(pid_t *server, rlim_t files)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = files;
    return serve_with(server, limit);
}

static inline void stop(pid_t server)
{
    kill(server, SIGKILL);
    assert_int_equal(waitpid(server, NULL, 0), server);
}

/* ---- clients by hand ------------------------------------------------------------------------ */

static inline int raw_connection(int port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* What a client sends to prove that it knows the secret. */
static inline void answer_hello(unsigned char answer[YKI_STORE_ANSWER],
                                const unsigned char hello[YKI_STORE_HELLO], const char *secret)
{
    unsigned char server[YKI_STORE_NONCE];
    yki_store_answer mine = {.nonce = "chosen by the client"};
    assert_true(yki_store_unpack_hello(server, hello));
    assert_true(yki_store_prove(mine.proof, secret, YKI_STORE_CLIENT,
                                (yki_store_nonces){server, mine.nonce}));
    yki_store_pack_answer(answer, &mine);
}

/* A connection whose client has proved itself. */
static inline int admitted_connection(int port, const char *secret)
{
    unsigned char hello[YKI_STORE_HELLO], answer[YKI_STORE_ANSWER];
    unsigned char reply[YKI_STORE_HEADER + YKI_STORE_PROOF];
    int fd = raw_connection(port);
    assert_int_equal(recv(fd, hello, sizeof hello, MSG_WAITALL), sizeof hello);
    answer_hello(answer, hello, secret);
    assert_int_equal(send(fd, answer, sizeof answer, 0), sizeof answer);
    assert_int_equal(recv(fd, reply, sizeof reply, MSG_WAITALL), sizeof reply);
    return fd;
}

#endif

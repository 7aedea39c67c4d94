/* The key-value store: its operations, its waiting, wills, who is refused, and malformed frames. */
#define _GNU_SOURCE
#include "harness.h"

#include <arpa/inet.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/store_client.h"

typedef struct fixture {
    yk_store_server *server;
    yk_store *store;
    int port;
} fixture;

static fixture begin(const char *secret)
{
    fixture f = {0};
    assert_ok(yk_store_serve(&f.server, "127.0.0.1", &f.port, secret));
    assert_true(f.port > 0);
    assert_ok(yk_store_connect(&f.store, "127.0.0.1", f.port, secret, 5));
    return f;
}

static void end(fixture *f)
{
    yk_store_destroy(f->store);
    yk_store_server_destroy(f->server);
}

YK_TEST(set_and_get)
{
    fixture f = begin("s3cret");
    char value[64];
    size_t used;
    bool found;
    assert_ok(yk_store_check(f.store, "a", &found));
    assert_false(found);
    assert_ok(yk_store_set(f.store, "a", "first", 5));
    assert_ok(yk_store_set(f.store, "a", "second one", 10));
    assert_ok(yk_store_set(f.store, "b", NULL, 0));
    assert_ok(yk_store_get(f.store, "a", value, sizeof value, &used, 0));
    assert_int_equal(used, 10);
    assert_memory_equal(value, "second one", 10);
    assert_ok(yk_store_get(f.store, "b", value, sizeof value, &used, 0));
    assert_int_equal(used, 0);
    assert_ok(yk_store_check(f.store, "a", &found));
    assert_true(found);
    end(&f);
}

YK_TEST(largest_value_and_beyond)
{
    fixture f = begin("");
    size_t size = YKI_STORE_MAX_VALUE, used;
    char *out = malloc(size + 1), *in = malloc(size + 1);
    for (size_t i = 0; i <= size; i++)
        out[i] = (char)(i * 31);
    assert_ok(yk_store_set(f.store, "big", out, size));
    assert_ok(yk_store_get(f.store, "big", in, size, &used, 0));
    assert_int_equal(used, size);
    assert_memory_equal(in, out, size);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_store_set(f.store, "big", out, size + 1));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_store_set(f.store, "", out, 1));
    free(out);
    free(in);
    end(&f);
}

YK_TEST(get_times_out)
{
    fixture f = begin("s");
    char value[8];
    size_t used;
    double start = yki_now();
    assert_status(YK_ERROR_TIMEOUT,
                  yk_store_get(f.store, "never", value, sizeof value, &used, 0.05));
    assert_true(yki_now() - start >= 0.045);
    assert_contains(yk_last_error(), "never");
    assert_status(YK_ERROR_TIMEOUT, yk_store_wait(f.store, "never", 0));
    assert_ok(yk_store_set(f.store, "now", "1", 1)); /* the connection is still in step */
    assert_ok(yk_store_wait(f.store, "now", 1));
    end(&f);
}

YK_TEST(a_value_without_room_leaves_the_connection_in_step)
{
    fixture f = begin("s");
    static char out[100000];
    char in[8];
    size_t used;
    assert_ok(yk_store_set(f.store, "long", out, sizeof out));
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_store_get(f.store, "long", in, sizeof in, &used, 1));
    assert_contains(yk_last_error(), "\"long\" has 100000 bytes, but the buffer only 8");
    assert_ok(yk_store_set(f.store, "short", "1", 1));
    assert_ok(yk_store_get(f.store, "short", in, sizeof in, &used, 1));
    assert_int_equal(used, 1);
    end(&f);
}

YK_TEST(a_negative_wait_is_none)
{
    fixture f = begin("s");
    char value[8];
    size_t used;
    assert_status(YK_ERROR_TIMEOUT,
                  yk_store_get(f.store, "never", value, sizeof value, &used, -100));
    assert_status(YK_ERROR_TIMEOUT, yk_store_wait(f.store, "never", NAN));
    assert_ok(yk_store_set(f.store, "now", "1", 1));
    end(&f);
}

/* Waits that no int of milliseconds holds: of weeks, for ever. */
static const double long_waits[] = {10, 3e6, 1e9, INFINITY};

static void *set_later(void *argument)
{
    fixture *f = argument;
    yk_store *store;
    if (yk_store_connect(&store, "127.0.0.1", f->port, "s", 5) == YK_OK) {
        usleep(30000);
        yk_store_set(store, "later", "here", 4);
        yk_store_destroy(store);
    }
    return NULL;
}

YK_TEST(get_waits_for_another_client)
{
    pthread_t thread;
    char value[8];
    size_t used;
    for (size_t i = 0; i < sizeof long_waits / sizeof *long_waits; i++) {
        fixture f = begin("s");
        assert_int_equal(pthread_create(&thread, NULL, set_later, &f), 0);
        assert_ok(yk_store_get(f.store, "later", value, sizeof value, &used, long_waits[i]));
        assert_int_equal(used, 4);
        assert_memory_equal(value, "here", 4);
        pthread_join(thread, NULL);
        end(&f);
    }
}

enum { ADDERS = 4, ADDS = 200 };

static void *add_many(void *argument)
{
    fixture *f = argument;
    yk_store *store;
    int64_t sum;
    if (yk_store_connect(&store, "127.0.0.1", f->port, "s", 5) != YK_OK)
        return NULL;
    for (int i = 0; i < ADDS; i++)
        yk_store_add(store, "n", 3, &sum);
    yk_store_destroy(store);
    return NULL;
}

YK_TEST(add_is_indivisible)
{
    fixture f = begin("s");
    pthread_t threads[ADDERS];
    int64_t sum;
    for (int i = 0; i < ADDERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_many, &f), 0);
    for (int i = 0; i < ADDERS; i++)
        pthread_join(threads[i], NULL);
    assert_ok(yk_store_add(f.store, "n", -1, &sum));
    assert_int_equal(sum, 3 * ADDERS * ADDS - 1);
    end(&f);
}

/* Promise 32 in small: without the secret nothing can be read or written. */
YK_TEST(promise_32_wrong_secret_is_refused)
{
    fixture f = begin("right");
    yk_store *store = NULL;
    assert_status(YK_ERROR_DENIED, yk_store_connect(&store, "127.0.0.1", f.port, "wrong", 5));
    assert_contains(yk_last_error(), "YOKE_SECRET");
    assert_status(YK_ERROR_DENIED, yk_store_connect(&store, "127.0.0.1", f.port, NULL, 5));
    end(&f);
}

static int raw_connection(int port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* Bytes that are no yoke client's: the server drops them and serves the others on. */
YK_TEST(garbage_is_dropped)
{
    fixture f = begin("s");
    for (int i = 0; i < 20; i++) {
        int fd = raw_connection(f.port);
        char bytes[300];
        memset(bytes, 0x40 + i, sizeof bytes);
        send(fd, bytes, sizeof bytes - (size_t)i * 13, MSG_NOSIGNAL);
        if (i % 2) { /* wait to be thrown out; else leave at once */
            while (recv(fd, bytes, sizeof bytes, 0) > 0)
                ;
        }
        close(fd);
    }
    assert_ok(yk_store_set(f.store, "still", "alive", 5));
    end(&f);
}

/* What a client sends to prove that it knows the secret. */
static void answer_hello(unsigned char answer[YKI_STORE_ANSWER],
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
static int admitted_connection(int port, const char *secret)
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

/* An admitted client that sends oversized or senseless frames is dropped, too. */
YK_TEST(malformed_frames_are_dropped)
{
    fixture f = begin("s");
    const yki_store_header bad[] = {{YKI_STORE_SET, 0, 4, 0},
                                    {YKI_STORE_SET, YKI_STORE_MAX_KEY + 1, 4, 0},
                                    {YKI_STORE_SET, 4, YKI_STORE_MAX_VALUE + 1, 0},
                                    {YKI_STORE_SET, UINT32_MAX, UINT32_MAX, 0},
                                    {YKI_STORE_WILL, 4, YKI_STORE_MAX_WILL + 1, 0},
                                    {YKI_STORE_COMPARE_SET, 4, 0, 1},
                                    {YKI_STORE_COMPARE_SET, 4, 0, -2},
                                    {YKI_STORE_COMPARE_SET, 4, 0, INT64_MAX},
                                    {99, 4, 0, 0}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        unsigned char frame[64] = "";
        int fd = admitted_connection(f.port, "s");
        yki_store_pack_header(frame, &bad[i]);
        memcpy(frame + YKI_STORE_HEADER, "name", 4);
        assert_true(send(fd, frame, YKI_STORE_HEADER + 4, MSG_NOSIGNAL) > 0);
        assert_true(recv(fd, frame, sizeof frame, 0) <= 0);
        close(fd);
    }
    assert_ok(yk_store_set(f.store, "still", "alive", 5));
    end(&f);
}

/* An answer that was overheard is of no use on another connection. */
YK_TEST(promise_32_a_replayed_answer_is_refused)
{
    fixture f = begin("s");
    unsigned char hello[YKI_STORE_HELLO], answer[YKI_STORE_ANSWER], bytes[256];
    int first = raw_connection(f.port), second = raw_connection(f.port);
    assert_int_equal(recv(first, hello, sizeof hello, MSG_WAITALL), sizeof hello);
    answer_hello(answer, hello, "s");
    for (int i = 0; i < 2; i++) {
        yki_store_header reply;
        int fd = i == 0 ? first : second;
        if (fd == second)
            assert_int_equal(recv(fd, hello, sizeof hello, MSG_WAITALL), sizeof hello);
        assert_int_equal(send(fd, answer, sizeof answer, 0), sizeof answer);
        assert_int_equal(recv(fd, bytes, YKI_STORE_HEADER, MSG_WAITALL), YKI_STORE_HEADER);
        yki_store_unpack_header(&reply, bytes);
        assert_int_equal(reply.code, i == 0 ? YK_OK : YK_ERROR_DENIED);
        close(fd);
    }
    end(&f);
}

static void *serve_without_secret(void *argument)
{
    unsigned char hello[YKI_STORE_HELLO], bytes[256];
    int fd = accept(*(int *)argument, NULL, NULL);
    yki_store_pack_hello(hello, (const unsigned char *)"a nonce of thirty-two bytes size");
    send(fd, hello, sizeof hello, MSG_NOSIGNAL);
    recv(fd, bytes, YKI_STORE_ANSWER, MSG_WAITALL);
    memset(bytes, 7, sizeof bytes);
    yki_store_pack_header(bytes, &(yki_store_header){.value_size = YKI_STORE_PROOF});
    send(fd, bytes, YKI_STORE_HEADER + YKI_STORE_PROOF, MSG_NOSIGNAL);
    recv(fd, bytes, sizeof bytes, 0); /* until the client hangs up */
    close(fd);
    return NULL;
}

/* A stranger who listens on the port cannot pass for the store. */
YK_TEST(promise_32_a_server_must_know_the_secret_too)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pthread_t thread;
    yk_store *store;
    assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    assert_int_equal(pthread_create(&thread, NULL, serve_without_secret, &listener), 0);
    assert_status(YK_ERROR_DENIED,
                  yk_store_connect(&store, "127.0.0.1", ntohs(address.sin_port), "s", 5));
    assert_contains(yk_last_error(), "does not know YOKE_SECRET");
    assert_null(store);
    pthread_join(thread, NULL);
    close(listener);
}

/* ---- wills ----------------------------------------------------------------------------------- */

static void expect_text(yk_store *store, const char *key, const char *expected)
{
    char value[64] = "";
    size_t used;
    assert_ok(yk_store_get(store, key, value, sizeof value - 1, &used, 10));
    assert_string_equal(value, expected);
}

/* A process that makes a will and waits to be killed. */
static pid_t start_testator(int port)
{
    int ends[2];
    char ready;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        yk_store *store;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (yk_store_connect(&store, "127.0.0.1", port, "s", 5) != YK_OK ||
            yk_store_set_will(store, "gone/2", "first", 5) != YK_OK ||
            yk_store_set_will(store, "gone/1", "killed", 6) != YK_OK || write(ends[1], "", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ends[0], &ready, 1), 1);
    close(ends[0]);
    close(ends[1]);
    return child;
}

YK_TEST(the_will_of_a_killed_client_is_executed)
{
    fixture f = begin("s");
    bool found;
    pid_t child = start_testator(f.port);
    assert_ok(yk_store_check(f.store, "gone/1", &found));
    assert_false(found);
    kill(child, SIGSTOP); /* a stopped process is not gone */
    assert_status(YK_ERROR_TIMEOUT, yk_store_wait(f.store, "gone/1", 0.2));
    kill(child, SIGKILL);
    expect_text(f.store, "gone/1", "killed");
    assert_ok(yk_store_check(f.store, "gone/2", &found)); /* the second will has replaced it */
    assert_false(found);
    assert_int_equal(waitpid(child, NULL, 0), child);
    end(&f);
}

YK_TEST(the_will_of_a_client_that_leaves_does_not_count)
{
    fixture f = begin("s");
    yk_store *store;
    bool found;
    assert_ok(yk_store_connect(&store, "127.0.0.1", f.port, "s", 5));
    assert_ok(yk_store_set_will(store, "gone", "1", 1));
    yk_store_destroy(store);
    for (int i = 0; i < 20; i++) { /* the server has seen the end of that connection by now */
        assert_ok(yk_store_check(f.store, "gone", &found));
        assert_false(found);
        usleep(1000);
    }
    static char large[YKI_STORE_MAX_WILL + 1];
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_store_set_will(f.store, "gone", large, sizeof large));
    assert_ok(yk_store_set_will(f.store, "gone", large, sizeof large - 1));
    end(&f);
}

/* A client that breaks the protocol does not leave in order. */
YK_TEST(the_will_of_a_client_that_is_dropped_is_executed)
{
    fixture f = begin("s");
    unsigned char frame[64];
    int fd = admitted_connection(f.port, "s");
    yki_store_pack_header(
        frame, &(yki_store_header){.code = YKI_STORE_WILL, .key_size = 4, .value_size = 3});
    memcpy(frame + YKI_STORE_HEADER, "goneyes", 7);
    assert_true(send(fd, frame, YKI_STORE_HEADER + 7, 0) > 0);
    assert_int_equal(recv(fd, frame, YKI_STORE_HEADER, MSG_WAITALL), YKI_STORE_HEADER);
    memset(frame, 0xff, sizeof frame);
    assert_true(send(fd, frame, YKI_STORE_HEADER, MSG_NOSIGNAL) > 0);
    expect_text(f.store, "gone", "yes");
    close(fd);
    end(&f);
}

/* ---- keys that are compared, deleted, listed and prefixed ------------------------------------ */

YK_TEST(compare_set_changes_what_is_as_expected)
{
    fixture f = begin("s");
    bool changed;
    assert_ok(yk_store_compare_set(f.store, "state", "x", 1, "a", 1, &changed));
    assert_false(changed); /* there is no such key */
    assert_ok(yk_store_compare_set(f.store, "state", NULL, 0, "one", 3, &changed));
    assert_true(changed);
    assert_ok(yk_store_compare_set(f.store, "state", NULL, 0, "two", 3, &changed));
    assert_false(changed);
    assert_ok(yk_store_compare_set(f.store, "state", "on", 2, "two", 3, &changed));
    assert_false(changed);
    expect_text(f.store, "state", "one");
    assert_ok(yk_store_compare_set(f.store, "state", "one", 3, NULL, 0, &changed));
    assert_true(changed);
    assert_ok(yk_store_compare_set(f.store, "state", "", 0, "three", 5, &changed));
    assert_true(changed);
    expect_text(f.store, "state", "three");
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_store_compare_set(f.store, "state", "", 0, "three", 5, NULL));
    end(&f);
}

static void *count_up(void *argument)
{
    fixture *f = argument;
    yk_store *store;
    if (yk_store_connect(&store, "127.0.0.1", f->port, "s", 5) != YK_OK)
        return NULL;
    for (int i = 0; i < ADDS; i++) {
        char before[16] = "", after[16];
        size_t used;
        bool changed = false;
        while (!changed) {
            if (yk_store_get(store, "n", before, sizeof before - 1, &used, 0) != YK_OK)
                return NULL;
            before[used] = '\0';
            int size = snprintf(after, sizeof after, "%d", atoi(before) + 1);
            if (yk_store_compare_set(store, "n", before, used, after, (size_t)size, &changed))
                return NULL;
        }
    }
    yk_store_destroy(store);
    return NULL;
}

YK_TEST(compare_set_is_indivisible)
{
    fixture f = begin("s");
    pthread_t threads[ADDERS];
    char expected[16];
    assert_ok(yk_store_set(f.store, "n", "0", 1));
    for (int i = 0; i < ADDERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_up, &f), 0);
    for (int i = 0; i < ADDERS; i++)
        pthread_join(threads[i], NULL);
    snprintf(expected, sizeof expected, "%d", ADDERS * ADDS);
    expect_text(f.store, "n", expected);
    end(&f);
}

YK_TEST(deleted_keys_are_gone)
{
    fixture f = begin("s");
    bool found;
    assert_ok(yk_store_set(f.store, "a", "1", 1));
    assert_ok(yk_store_delete(f.store, "a", &found));
    assert_true(found);
    assert_ok(yk_store_check(f.store, "a", &found));
    assert_false(found);
    assert_ok(yk_store_delete(f.store, "a", &found));
    assert_false(found);
    assert_ok(yk_store_delete(f.store, "a", NULL));
    end(&f);
}

YK_TEST(keys_are_listed_by_prefix)
{
    fixture f = begin("s");
    char keys[64];
    size_t used;
    const char *const all[] = {"rank/1", "rank/0", "other", "rank/10", "ran"};
    assert_ok(yk_store_list(f.store, "", keys, sizeof keys, &used));
    assert_int_equal(used, 0);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        assert_ok(yk_store_set(f.store, all[i], "", 0));
    assert_ok(yk_store_list(f.store, "rank/", keys, sizeof keys, &used));
    assert_int_equal(used, sizeof "rank/0\0rank/1\0rank/10");
    assert_memory_equal(keys, "rank/0\0rank/1\0rank/10", used);
    assert_ok(yk_store_list(f.store, "", keys, sizeof keys, &used));
    assert_int_equal(used, sizeof "other\0ran\0rank/0\0rank/1\0rank/10");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_store_list(f.store, "rank/", keys, 5, &used));
    assert_contains(yk_last_error(), "\"rank/\" take 22 bytes");
    assert_ok(yk_store_set(f.store, "still", "in step", 7));
    end(&f);
}

YK_TEST(prefixes_keep_jobs_apart)
{
    fixture f = begin("s");
    yk_store *other;
    char keys[64];
    size_t used;
    bool found;
    assert_ok(yk_store_connect(&other, "127.0.0.1", f.port, "s", 5));
    assert_ok(yk_store_set_prefix(f.store, "job/1/"));
    assert_ok(yk_store_set_prefix(other, "job/2/"));
    assert_ok(yk_store_set(f.store, "a", "1", 1));
    assert_ok(yk_store_set(other, "b", "2", 1));
    assert_ok(yk_store_check(other, "a", &found));
    assert_false(found);
    assert_ok(yk_store_list(other, "", keys, sizeof keys, &used));
    assert_int_equal(used, 2);
    assert_string_equal(keys, "b");
    assert_ok(yk_store_set_prefix(other, ""));
    expect_text(other, "job/1/a", "1");
    static char long_prefix[600];
    memset(long_prefix, 'x', sizeof long_prefix - 1);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_store_set_prefix(other, long_prefix));
    yk_store_destroy(other);
    end(&f);
}

YK_TEST(a_connection_knows_its_own_address)
{
    fixture f = begin("s");
    assert_string_equal(yk_store_local_address(f.store), "127.0.0.1");
    assert_string_equal(yk_store_local_address(NULL), "");
    end(&f);
}

YK_TEST(a_senseless_heartbeat_timeout_is_refused)
{
    yk_store_server *server;
    int port = YK_PORT_ANY;
    setenv("YOKE_HEARTBEAT_TIMEOUT", "soon", 1);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_store_serve(&server, "127.0.0.1", &port, "s"));
    assert_contains(yk_last_error(), "YOKE_HEARTBEAT_TIMEOUT");
    unsetenv("YOKE_HEARTBEAT_TIMEOUT");
}

/* ---- strangers ------------------------------------------------------------------------------- */

/* A server that may have few files open, in a process of its own; its port. */
static int serve_with_few_files(pid_t *server)
{
    int ends[2], port = 0;
    assert_int_equal(pipe(ends), 0);
    *server = fork();
    assert_true(*server >= 0);
    if (*server == 0) {
        yk_store_server *store;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (setrlimit(RLIMIT_NOFILE, &(struct rlimit){24, 24}) ||
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

/* Connections that never prove anything give way to one that does. */
YK_TEST(promise_32_strangers_do_not_use_up_the_store)
{
    enum { STRANGERS = 40 };
    pid_t server;
    int strangers[STRANGERS], port = serve_with_few_files(&server);
    yk_store *store;
    for (int i = 0; i < STRANGERS; i++)
        strangers[i] = raw_connection(port);
    assert_ok(yk_store_connect(&store, "127.0.0.1", port, "s", 2));
    assert_ok(yk_store_set(store, "still", "alive", 5));
    yk_store_destroy(store);
    for (int i = 0; i < STRANGERS; i++)
        close(strangers[i]);
    kill(server, SIGKILL);
    assert_int_equal(waitpid(server, NULL, 0), server);
}

YK_TEST(a_port_in_use_is_named_with_its_owner)
{
    fixture f = begin("s");
    yk_store_server *second = NULL;
    assert_status(YK_ERROR_NETWORK, yk_store_serve(&second, "127.0.0.1", &f.port, "s"));
    char owner[80];
    snprintf(owner, sizeof owner, "port %d of 127.0.0.1 is in use by pid %d (test_store)", f.port,
             getpid());
    assert_contains(yk_last_error(), owner);
    end(&f);
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
        connect(waiting[i], (struct sockaddr *)&address, size);
    }
    yk_store *store = NULL;
    assert_status(YK_ERROR_TIMEOUT,
                  yk_store_connect(&store, "127.0.0.1", ntohs(address.sin_port), "s", 0.1));
    for (int i = 0; i < 8; i++)
        close(waiting[i]);
    close(listener);
}

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
            yki_store_interrupt(f.store);
        pthread_join(thread, NULL);
        assert_true(yki_store_was_closed(f.store));
        end(&f);
    }
}

YK_TEST(missing_stores_keys_and_values_are_errors)
{
    fixture f = begin(NULL);
    yk_store *store = (yk_store *)(uintptr_t)1;
    yk_store_server *server = (yk_store_server *)(uintptr_t)1;
    int64_t sum;
    size_t used;
    char value[8];
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_store_set(NULL, "a", "b", 1));
    assert_contains(yk_last_error(), "store is NULL");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_store_set(f.store, NULL, "b", 1));
    assert_contains(yk_last_error(), "key is NULL");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_store_set(f.store, "a", NULL, 1));
    assert_contains(yk_last_error(), "value is NULL");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_store_get(f.store, "a", NULL, 0, &used, 0));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_store_get(f.store, "a", value, 8, NULL, 0));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_store_add(f.store, "a", 1, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_store_check(f.store, "a", NULL));
    assert_ok(yk_store_add(f.store, "a", 1, &sum));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_store_connect(&store, NULL, 1, NULL, 0));
    assert_null(store);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_store_serve(&server, "127.0.0.1", NULL, NULL));
    assert_null(server);
    end(&f);
}

YK_TEST(secrets_are_drawn)
{
    char first[YK_STORE_SECRET_SIZE], second[YK_STORE_SECRET_SIZE];
    assert_ok(yk_store_secret(first, sizeof first));
    assert_ok(yk_store_secret(second, sizeof second));
    assert_int_equal(strlen(first), YK_STORE_SECRET_SIZE - 1);
    assert_int_equal(strspn(first, "0123456789abcdef"), YK_STORE_SECRET_SIZE - 1);
    assert_string_not_equal(first, second);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_store_secret(first, sizeof first - 1));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_store_secret(NULL, 100));
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

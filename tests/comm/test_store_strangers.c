/* Clients and servers that do not know the secret, and frames that are malformed. */
#define _GNU_SOURCE
#include "store_fixture.h"

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

static void *serve_another_version(void *argument)
{
    unsigned char hello[YKI_STORE_HELLO], bytes[256];
    int fd = accept(*(int *)argument, NULL, NULL);
    yki_store_pack_hello(hello, (const unsigned char *)"a nonce of thirty-two bytes size");
    hello[4] = 77;
    send(fd, hello, sizeof hello, MSG_NOSIGNAL);
    recv(fd, bytes, sizeof bytes, 0); /* until the client hangs up */
    close(fd);
    return NULL;
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

/* Connects to a server that `serve` is; it must fail. */
static void connect_to(void *(*serve)(void *), yk_status expected)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pthread_t thread;
    yk_store *store;
    assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    assert_int_equal(pthread_create(&thread, NULL, serve, &listener), 0);
    assert_status(expected, yk_store_connect(&store, "127.0.0.1", ntohs(address.sin_port), "s", 5));
    assert_null(store);
    pthread_join(thread, NULL);
    close(listener);
}

/* A stranger who listens on the port cannot pass for the store. */
YK_TEST(promise_32_a_server_must_know_the_secret_too)
{
    connect_to(serve_without_secret, YK_ERROR_DENIED);
    assert_contains(yk_last_error(), "does not know YOKE_SECRET");
}

YK_TEST(a_store_of_another_version_is_told_from_a_stranger)
{
    connect_to(serve_another_version, YK_ERROR_FORMAT);
    assert_contains(yk_last_error(), "is of another version of yoke, with protocol 77; yoke ");
}

/* Connections that never prove anything give way to one that does. */
YK_TEST(promise_32_strangers_do_not_use_up_the_store)
{
    enum { STRANGERS = 40 };
    pid_t server;
    int strangers[STRANGERS], port = serve_with(&server, (struct rlimit){24, 24});
    yk_store *store;
    for (int i = 0; i < STRANGERS; i++)
        strangers[i] = raw_connection(port);
    assert_ok(yk_store_connect(&store, "127.0.0.1", port, "s", 2));
    assert_ok(yk_store_set(store, "still", "alive", 5));
    yk_store_destroy(store);
    for (int i = 0; i < STRANGERS; i++)
        close(strangers[i]);
    stop(server);
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
                                    {YKI_STORE_LIST, 4, 0, 5},
                                    {YKI_STORE_LIST, 4, 0, -1},
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

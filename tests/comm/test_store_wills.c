/* Wills: what the store sets when a client is lost, and does not when a client leaves. */
#define _GNU_SOURCE
#include "store_fixture.h"

/* A process that makes a will and waits to be killed. */
static pid_t start_testator(int port)
{
    int ends[2];
    char ready;
    assert_int_equal(pipe(ends), 0);
    pid_t child = yk_test_fork();
    if (child == 0) {
        yk_store *store;
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

/* The store under load and attack: whatever others do, an admitted client is served. */
#define _GNU_SOURCE
#include "store_fixture.h"

#include <fcntl.h>

#include "base/clock.h"
#include "comm/job/meeting.h"

static yk_store *connect_to(int port)
{
    yk_store *store;
    assert_ok(yk_store_connect(&store, "127.0.0.1", port, "s", 20));
    return store;
}

static void send_request(int fd, const yki_store_header *header, const char *key)
{
    unsigned char frame[64];
    yki_store_pack_header(frame, header);
    memcpy(frame + YKI_STORE_HEADER, key, strlen(key));
    size_t size = YKI_STORE_HEADER + strlen(key);
    assert_int_equal(send(fd, frame, size, MSG_NOSIGNAL), size);
}

static bool may_open(rlim_t files)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= files;
}

/* ---- load ------------------------------------------------------------------------------------ */

/* The server starts with few files, as most systems give a process 1,024 at first. */
YK_TEST(a_thousand_clients_are_served)
{
    enum { CLIENTS = 1000 };
    static yk_store *clients[CLIENTS];
    static char keys[CLIENTS * 16];
    pid_t server;
    int64_t sum = 0;
    size_t used;
    if (!may_open(CLIENTS + 64))
        skip_because("fewer than %d open files are allowed", CLIENTS + 64);
    int port = serve_apart(&server, 64);
    for (int i = 0; i < CLIENTS; i++) {
        char key[16];
        clients[i] = connect_to(port);
        snprintf(key, sizeof key, "client/%d", i);
        assert_ok(yk_store_set(clients[i], key, "here", 4));
        assert_ok(yk_store_add(clients[i], "sum", i, &sum));
    }
    assert_int_equal(sum, CLIENTS * (CLIENTS - 1) / 2);
    assert_ok(yk_store_list(clients[0], "client/", keys, sizeof keys, &used));
    int count = 0;
    for (size_t at = 0; at < used; at += strlen(keys + at) + 1)
        count++;
    assert_int_equal(count, CLIENTS);
    for (int i = 0; i < CLIENTS; i++)
        yk_store_destroy(clients[i]);
    stop(server);
}

/* Only those that have not proved themselves are limited in number. */
YK_TEST(more_clients_are_served_than_strangers_may_wait)
{
    enum { CLIENTS = YKI_STORE_MAX_STRANGERS + 100 };
    static int clients[CLIENTS];
    pid_t server;
    if (!may_open(CLIENTS + 64))
        skip_because("fewer than %d open files are allowed", CLIENTS + 64);
    int port = serve_apart(&server, CLIENTS + 64);
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = admitted_connection(port, "s");
    yk_store *late = connect_to(port);
    assert_ok(yk_store_set(late, "late", "1", 1));
    yk_store_destroy(late);
    for (int i = 0; i < CLIENTS; i++)
        close(clients[i]);
    late = connect_to(port);
    assert_ok(yk_store_set(late, "later", "1", 1));
    yk_store_destroy(late);
    stop(server);
}

enum { MANY = 256 };

typedef struct participant {
    pthread_t thread;
    int rank, port;
    yk_status status;
    bool complete;
} participant;

/* A rank as yki_job_join() makes it, but with a made-up pid. */
static void *take_part(void *argument)
{
    participant *me = argument;
    yki_peer *peers = calloc(MANY, sizeof *peers);
    yki_job job = {.rank = me->rank, .world = MANY, .timeout_s = 60, .peers = peers};
    yki_init_method m = {.deadline = yki_now() + 60, .next_notice = yki_now() + 60};
    for (int r = 0; r < MANY; r++)
        peers[r].job_rank = r;
    peers[me->rank].pid = 1000 + me->rank;
    snprintf(peers[me->rank].machine, sizeof peers->machine, "m");
    snprintf(peers[me->rank].host, sizeof peers->host, "h%d", me->rank / 32);
    me->status = yk_store_connect(&job.store, "127.0.0.1", me->port, "s", 20);
    if (me->status == YK_OK)
        me->status = yki_meeting_hold(&job, &m);
    me->complete = true;
    for (int r = 0; r < MANY; r++)
        me->complete = me->complete && peers[r].pid == 1000 + r;
    yk_store_destroy(job.store);
    free(peers);
    return NULL;
}

YK_TEST(two_hundred_and_fifty_six_ranks_meet)
{
    static participant all[MANY];
    pthread_attr_t small;
    pid_t server;
    int port = serve_apart(&server, 1024);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 << 10);
    for (int r = 0; r < MANY; r++) {
        all[r] = (participant){.rank = r, .port = port};
        assert_int_equal(pthread_create(&all[r].thread, &small, take_part, &all[r]), 0);
    }
    for (int r = 0; r < MANY; r++) {
        pthread_join(all[r].thread, NULL);
        assert_int_equal(all[r].status, YK_OK);
        assert_true(all[r].complete);
    }
    pthread_attr_destroy(&small);
    stop(server);
}

/* ---- attacks --------------------------------------------------------------------------------- */

/* A stranger who sends his answer byte by byte, to keep the connection busy, is thrown out. */
YK_TEST(promise_32_a_stranger_cannot_dawdle)
{
    pid_t server;
    char bytes[YKI_STORE_HELLO];
    int port = serve_apart(&server, 1024), stranger = raw_connection(port);
    yk_store *store = connect_to(port);
    assert_int_equal(recv(stranger, bytes, sizeof bytes, MSG_WAITALL), sizeof bytes);
    for (int i = 0; send(stranger, "x", 1, MSG_NOSIGNAL) == 1; i++) {
        assert_true(i < 600); /* a minute */
        assert_ok(yk_store_set(store, "still", "alive", 5));
        usleep(100000);
    }
    close(stranger);
    yk_store_destroy(store);
    stop(server);
}

/* All places taken by strangers are given back when clients come. */
YK_TEST(promise_32_strangers_do_not_take_all_places)
{
    enum { STRANGERS = YKI_STORE_MAX_STRANGERS + 100 };
    static int strangers[STRANGERS];
    pid_t server;
    if (!may_open(STRANGERS + 64))
        skip_because("fewer than %d open files are allowed", STRANGERS + 64);
    int port = serve_apart(&server, STRANGERS + 64);
    yk_store *early = connect_to(port);
    for (int i = 0; i < STRANGERS; i++)
        strangers[i] = raw_connection(port);
    yk_store *late = connect_to(port);
    assert_ok(yk_store_set(late, "late", "1", 1));
    assert_ok(yk_store_wait(early, "late", 5));
    for (int i = 0; i < STRANGERS; i++)
        close(strangers[i]);
    yk_store_destroy(early);
    yk_store_destroy(late);
    stop(server);
}

/* A client for whom no file is left waits for its timeout, and the server says why. */
YK_TEST(a_limit_on_the_servers_files_is_named)
{
    enum { FILES = 24 };
    yk_store *clients[FILES + 1], *refused;
    const char *said = yk_test_path("said");
    char text[4096] = "";
    pid_t server;
    int count = 0, own = dup(STDERR_FILENO), file = open(said, O_RDWR | O_CREAT, 0600);
    assert_true(own >= 0 && dup2(file, STDERR_FILENO) >= 0);
    int port = serve_with(&server, (struct rlimit){FILES, FILES});
    assert_true(dup2(own, STDERR_FILENO) >= 0);
    while (count <= FILES && yk_store_connect(&clients[count], "127.0.0.1", port, "s", 1) == YK_OK)
        count++;
    assert_in_range(count, 1, FILES);
    assert_status(YK_ERROR_TIMEOUT, yk_store_connect(&refused, "127.0.0.1", port, "s", 0.2));
    assert_true(pread(file, text, sizeof text - 1, 0) > 0);
    const char *line = strstr(text, "Too many open files; the limit is 24: raise it with");
    assert_non_null(line);
    assert_null(strstr(line + 1, "Too many open files")); /* once */
    while (count > 0)
        yk_store_destroy(clients[--count]);
    stop(server);
    close(own);
    close(file);
}

/* Half a request, and replies that nobody reads, hold up only the client itself. */
YK_TEST(clients_that_stop_midway_hold_up_nobody)
{
    static char large[YKI_STORE_MAX_VALUE];
    enum { CLIENTS = 20 };
    pid_t server;
    int port = serve_apart(&server, 1024), half[CLIENTS], deaf[CLIENTS];
    yk_store *store = connect_to(port);
    assert_ok(yk_store_set(store, "large", large, sizeof large));
    for (int i = 0; i < CLIENTS; i++) {
        half[i] = admitted_connection(port, "s");
        send_request(half[i],
                     &(yki_store_header){
                         .code = YKI_STORE_SET, .key_size = 5, .value_size = YKI_STORE_MAX_VALUE},
                     "large");
        deaf[i] = admitted_connection(port, "s");
        send_request(deaf[i], &(yki_store_header){.code = YKI_STORE_GET, .key_size = 5}, "large");
    }
    for (int i = 0; i < 100; i++)
        assert_ok(yk_store_set(store, "still", "alive", 5));
    for (int i = 0; i < CLIENTS; i++) {
        close(half[i]);
        close(deaf[i]);
    }
    yk_store_destroy(store);
    stop(server);
}

/* Whoever sends on without reading the replies is dropped, so that they do not pile up. */
YK_TEST(a_client_that_never_reads_is_dropped)
{
    static char large[YKI_STORE_MAX_VALUE];
    pid_t server;
    int port = serve_apart(&server, 1024), deaf = admitted_connection(port, "s");
    yk_store *store = connect_to(port);
    unsigned char frame[YKI_STORE_HEADER + 5];
    assert_ok(yk_store_set(store, "large", large, sizeof large));
    yki_store_pack_header(frame, &(yki_store_header){.code = YKI_STORE_GET, .key_size = 5});
    memcpy(frame + YKI_STORE_HEADER, "large", 5);
    bool dropped = false;
    for (int i = 0; i < 1000 && !dropped; i++) {
        dropped = send(deaf, frame, sizeof frame, MSG_NOSIGNAL) < 0;
        assert_ok(yk_store_set(store, "still", "alive", 5));
        usleep(1000);
    }
    assert_true(dropped);
    close(deaf);
    yk_store_destroy(store);
    stop(server);
}

/* What a TrainJob's controller is told, by a server that stands for it. */
#define _GNU_SOURCE
#include "harness.h"

#include <arpa/inet.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"

enum { MOST = 16, ROOM = 4096 };

/* Answers each request, and keeps it. */
static struct {
    int listener;
    const char *answer;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    char requests[MOST][ROOM];
    int count;
} server = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* Reads a request to the end of its body, which is JSON. */
static void read_request(int fd, char request[ROOM])
{
    size_t size = 0;
    ssize_t got;
    while (size < ROOM - 1 && (got = read(fd, request + size, ROOM - 1 - size)) > 0) {
        size += (size_t)got;
        request[size] = '\0';
        const char *body = strstr(request, "\r\n\r\n"), *length = strstr(request, "Content-Length");
        if (body && length && strlen(body + 4) >= (size_t)atoi(length + 16))
            return;
    }
}

static void *serve(void *argument)
{
    (void)argument;
    static char request[ROOM];
    for (int fd; (fd = accept(server.listener, NULL, NULL)) >= 0; close(fd)) {
        request[0] = '\0';
        read_request(fd, request);
        pthread_mutex_lock(&server.lock);
        if (server.count < MOST)
            memcpy(server.requests[server.count++], request, ROOM);
        dprintf(fd, "HTTP/1.1 %s\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}",
                server.answer);
        pthread_cond_signal(&server.changed);
        pthread_mutex_unlock(&server.lock);
    }
    return NULL;
}

static void write_token(const char *token)
{
    yk_test_write_file(yk_test_path("token"), token, strlen(token));
}

/* The answer is a status, such as "200 OK". */
static void start_server(const char *answer)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    char url[128];
    server.answer = answer;
    server.count = 0;
    server.listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(server.listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(server.listener, 8), 0);
    assert_int_equal(getsockname(server.listener, (struct sockaddr *)&address, &size), 0);
    assert_int_equal(pthread_create(&server.thread, NULL, serve, NULL), 0);
    snprintf(url, sizeof url, "http://127.0.0.1:%d/trainjobs/a/status", ntohs(address.sin_port));
    setenv("KUBEFLOW_TRAINER_SERVER_URL", url, 1);
    setenv("KUBEFLOW_TRAINER_SERVER_TOKEN", yk_test_path("token"), 1);
    setenv("KUBEFLOW_TRAINER_SERVER_CA_CERT", "/etc/ssl/certs/ca-certificates.crt", 1);
    write_token("first\n");
}

static void stop_server(void)
{
    shutdown(server.listener, SHUT_RDWR);
    pthread_join(server.thread, NULL);
    close(server.listener);
}

/* The number-th request, once it has come. */
static const char *request_at(int number)
{
    pthread_mutex_lock(&server.lock);
    while (server.count <= number)
        pthread_cond_wait(&server.changed, &server.lock);
    pthread_mutex_unlock(&server.lock);
    return server.requests[number];
}

static yk_step_record step_at(int64_t step)
{
    return (yk_step_record){.epoch = 1, .step = step, .loss = 0.5, .lr = 0.1, .images_per_s = 1e3};
}

static void skip_without_libcurl(void)
{
    if (!yk_download_supported())
        skip_because("this build has no libcurl");
}

YK_TEST(outside_of_a_train_job_nothing_is_reported)
{
    yk_kubeflow *kubeflow = (yk_kubeflow *)&server;
    unsetenv("KUBEFLOW_TRAINER_SERVER_URL");
    assert_ok(yk_kubeflow_open(&kubeflow, 10));
    assert_null(kubeflow);
    setenv("KUBEFLOW_TRAINER_SERVER_URL", "", 1);
    setenv("KUBEFLOW_TRAINER_SERVER_TOKEN", "token", 1);
    setenv("KUBEFLOW_TRAINER_SERVER_CA_CERT", "ca", 1);
    kubeflow = (yk_kubeflow *)&server;
    assert_ok(yk_kubeflow_open(&kubeflow, 10));
    assert_null(kubeflow);
    yk_step_record record = step_at(1);
    yk_kubeflow_step(kubeflow, &record);
    yk_kubeflow_epoch(kubeflow, &(yk_epoch_record){.epoch = 1});
    yk_kubeflow_finish(kubeflow);
    yk_kubeflow_close(kubeflow);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_kubeflow_open(&kubeflow, 0));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_kubeflow_open(NULL, 1));
}

/* One request at once, and the last one when it closes: what comes between waits for 5 s, which
 * this takes on a very busy machine alone. */
YK_TEST(a_train_job_learns_how_far_training_is)
{
    yk_kubeflow *kubeflow;
    skip_without_libcurl();
    const double begin = yk_test_now();
    start_server("200 OK");
    assert_ok(yk_kubeflow_open(&kubeflow, 8));
    assert_non_null(kubeflow);
    yk_step_record record = step_at(3);
    yk_kubeflow_step(kubeflow, &record);
    const char *first = request_at(0);
    assert_contains(first, "POST /trainjobs/a/status HTTP/1.1\r\n");
    assert_contains(first, "\r\nAuthorization: Bearer first\r\n");
    assert_contains(first, "\r\nContent-Type: application/json\r\n");
    assert_contains(first, "{\"trainerStatus\":{\"progressPercentage\":37,\"metrics\":["
                           "{\"name\":\"loss\",\"value\":\"0.5\"},"
                           "{\"name\":\"learning_rate\",\"value\":\"0.1\"},"
                           "{\"name\":\"images_per_second\",\"value\":\"1000\"}],"
                           "\"lastUpdatedTime\":\"20");
    write_token("second");
    for (int step = 4; step <= 8; step++) {
        record = step_at(step);
        yk_kubeflow_step(kubeflow, &record);
    }
    yk_kubeflow_epoch(kubeflow, &(yk_epoch_record){.epoch = 1, .val_loss = NAN, .val_accuracy = 1});
    yk_kubeflow_close(kubeflow);
    stop_server();
    assert_in_range(server.count, 2, 2 + (int)((yk_test_now() - begin) / 5));
    const char *last = request_at(server.count - 1);
    assert_contains(last, "\r\nAuthorization: Bearer second\r\n");
    assert_contains(last, "\"progressPercentage\":99,\"estimatedRemainingSeconds\":0,");
    assert_contains(last, "{\"name\":\"validation_loss\",\"value\":\"nan\"},"
                          "{\"name\":\"validation_accuracy\",\"value\":\"1\"}]");
}

YK_TEST(the_end_of_training_is_100_percent)
{
    yk_kubeflow *kubeflow;
    skip_without_libcurl();
    start_server("200 OK");
    assert_ok(yk_kubeflow_open(&kubeflow, 1000));
    yk_kubeflow_finish(kubeflow); /* a resumed run may have nothing left to do */
    yk_kubeflow_close(kubeflow);
    stop_server();
    assert_int_equal(server.count, 1);
    assert_contains(request_at(0), "{\"progressPercentage\":100,\"estimatedRemainingSeconds\":0,"
                                   "\"metrics\":[],");
}

/* Six steps of a small network; returns what is printed. */
static const char *train(void)
{
    static char output[1 << 16];
    assert_int_equal(yk_test_command(output, sizeof output,
                                     "cd %s && $YOKE_PROGRAM train --data synthetic --arch mlp "
                                     "--max-steps 6 --output run",
                                     yk_test_directory()),
                     0);
    assert_contains(output, "Done after step 6");
    return output;
}

YK_TEST(yoke_train_reports_to_its_train_job)
{
    skip_without_libcurl();
    start_server("200 OK");
    assert_null(strstr(train(), "Kubeflow"));
    stop_server();
    const char *last = request_at(server.count - 1);
    assert_contains(last, "{\"progressPercentage\":100,\"estimatedRemainingSeconds\":0,");
    assert_contains(last, "{\"name\":\"validation_accuracy\",\"value\":\"0.");
}

YK_TEST(training_continues_when_reports_are_refused)
{
    skip_without_libcurl();
    start_server("403 Forbidden");
    const char *output = train(), *warning = strstr(output, "Kubeflow does not learn how far");
    stop_server();
    assert_non_null(warning);
    assert_contains(warning, "/trainjobs/a/status: The requested URL returned error: 403\n");
    assert_null(strstr(warning + 1, "Kubeflow does not"));
    assert_true(server.count > 0);
}

/* Nobody answers in a file, although it can be read. */
YK_TEST(a_url_of_no_server_is_named)
{
    char url[512];
    skip_without_libcurl();
    snprintf(url, sizeof url, "file://%s", yk_test_path("token"));
    write_token("token");
    setenv("KUBEFLOW_TRAINER_SERVER_URL", url, 1);
    setenv("KUBEFLOW_TRAINER_SERVER_TOKEN", yk_test_path("token"), 1);
    setenv("KUBEFLOW_TRAINER_SERVER_CA_CERT", "/etc/ssl/certs/ca-certificates.crt", 1);
    const char *output = train(), *warning = strstr(output, "Kubeflow does not learn how far");
    assert_non_null(warning);
    assert_contains(warning, "/token: Protocol \"file\" not supported");
    assert_null(strstr(warning + 1, "Kubeflow does not"));
}

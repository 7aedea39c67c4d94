/* The timeline: one JSON document of all ranks, well nested, complete at every moment. */
#define _GNU_SOURCE
#include "../launcher/job.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/time.h>

#include <cjson/cJSON.h>

#include "base/lock.h"
#include "base/trace.h"
#include "disk.h"

enum { MAX_SPANS = 8192, FIRST_STEP = 2, LAST_STEP = 4 };

typedef struct span {
    char name[64];
    int process, thread;
    double begin, end;
    int64_t bytes;
} span;

static span spans[MAX_SPANS];
static const span none;
static int span_count;

static const char *trace_path(void)
{
    static char path[128];
    if (getenv("YK_TEST_TRACE")) /* in a rank: the parent's */
        return getenv("YK_TEST_TRACE");
    snprintf(path, sizeof path, "%s/trace.json", yk_test_directory());
    return path;
}

static cJSON *read_trace(void)
{
    static char text[4 << 20];
    cJSON *events = cJSON_Parse(yk_test_read_file(text, sizeof text, trace_path()));
    if (!cJSON_IsArray(events))
        fail_msg("no JSON array: \"%.2000s\"", text);
    return events;
}

static double number(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : -1;
}

static const char *words(const cJSON *object, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    return text ? text : "";
}

/* All spans; those of a row "b" to "e" by id too, as thread 0. */
static void collect_spans(const cJSON *events)
{
    const cJSON *event, *args;
    span_count = 0;
    cJSON_ArrayForEach(event, events)
    {
        const char *phase = words(event, "ph");
        assert_true(span_count < MAX_SPANS);
        span *next = &spans[span_count];
        args = cJSON_GetObjectItemCaseSensitive(event, "args");
        *next = (span){.process = (int)number(event, "pid"),
                       .thread = (int)number(event, "tid"),
                       .begin = number(event, "ts"),
                       .bytes = (int64_t)number(args, "bytes")};
        snprintf(next->name, sizeof next->name, "%.63s", words(event, "name"));
        next->end = next->begin + number(event, "dur");
        if (strcmp(phase, "X") == 0) {
            span_count++;
        } else if (strcmp(phase, "b") == 0) {
            next->thread = 0;
            next->end = -1;
            for (const cJSON *e = event; e && next->end < 0; e = e->next)
                if (words(e, "ph")[0] == 'e' && strcmp(words(e, "id"), words(event, "id")) == 0)
                    next->end = number(e, "ts");
            assert_true(next->end >= next->begin);
            span_count++;
        }
    }
}

static const span *find(int process, const char *name, double from)
{
    const span *first = &none;
    for (int i = 0; i < span_count; i++)
        if (spans[i].process == process && strcmp(spans[i].name, name) == 0 &&
            spans[i].begin >= from && (first == &none || spans[i].begin < first->begin))
            first = &spans[i];
    if (first == &none)
        fail_msg("process %d has no \"%s\" after %.0f", process, name, from);
    return first;
}

/* The process that metadata calls by this name. */
static int process_of(const cJSON *events, const char *name)
{
    const cJSON *event;
    cJSON_ArrayForEach(event, events)
    {
        const cJSON *args = cJSON_GetObjectItemCaseSensitive(event, "args");
        if (strcmp(words(event, "name"), "process_name") == 0 &&
            strcmp(words(args, "name"), name) == 0)
            return (int)number(event, "pid");
    }
    fail_msg("no process is called %s", name);
    return -1;
}

static bool has_thread(const cJSON *events, int process, const char *name)
{
    const cJSON *event;
    cJSON_ArrayForEach(event, events)
    {
        const cJSON *args = cJSON_GetObjectItemCaseSensitive(event, "args");
        if (strcmp(words(event, "name"), "thread_name") == 0 &&
            (int)number(event, "pid") == process && strcmp(words(args, "name"), name) == 0)
            return true;
    }
    return false;
}

static bool within(const span *inner, const span *outer)
{
    const double slack = 0.0005; /* times are whole nanoseconds */
    return inner->begin >= outer->begin - slack && inner->end <= outer->end + slack;
}

/* Two spans of one thread are apart, or one lies in the other. */
static void check_nesting(void)
{
    for (int i = 0; i < span_count; i++)
        for (int j = i + 1; j < span_count; j++) {
            const span *a = &spans[i], *b = &spans[j];
            if (a->thread == 0 || a->thread != b->thread || a->process != b->process)
                continue;
            bool apart = a->end <= b->begin + 0.0005 || b->end <= a->begin + 0.0005;
            if (!apart && !within(a, b) && !within(b, a))
                fail_msg("%s [%.3f, %.3f] and %s [%.3f, %.3f] cross", a->name, a->begin, a->end,
                         b->name, b->begin, b->end);
        }
}

/* The events that a step of the compute thread must have, in this order. */
static void check_step(int process, const span *step, const char *kernel)
{
    static const char *const parts[] = {"data wait", "forward", "backward", "share the loss",
                                        "optimizer step"};
    double from = step->begin;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const span *part = find(process, parts[i], from);
        assert_true(within(part, step));
        assert_int_equal(part->thread, step->thread);
        from = part->end - 0.01;
    }
    const span *backward = find(process, "backward", step->begin);
    assert_true(within(find(process, "exposed wait", step->begin), backward));
    assert_true(within(find(process, kernel, step->begin), backward));
}

/* Bucket b of a step: launched within backward, on the wire on the communication thread. */
static const span *check_bucket(int process, const span *step, const char *name)
{
    const span *backward = find(process, "backward", step->begin), *launch = &none, *wire = &none;
    for (int i = 0; i < span_count; i++)
        if (spans[i].process == process && within(&spans[i], step) &&
            strcmp(spans[i].name, name) == 0)
            *(spans[i].thread ? &wire : &launch) = &spans[i];
    if (launch == &none || wire == &none)
        fail_msg("%s is not on the timeline of %s", name, step->name);
    assert_true(within(launch, backward) && within(wire, launch));
    assert_true(launch->bytes > 0 && launch->bytes == wire->bytes);
    assert_int_not_equal(wire->thread, backward->thread);
    return wire;
}

/* Every step that was asked for, on both ranks; returns how often the first bucket was on its way
 * before backward had nothing left to compute. */
static int check_trace(const cJSON *events, const char *kernel)
{
    int overlaps = 0;
    collect_spans(events);
    check_nesting();
    for (int rank = 0; rank < 2; rank++) {
        int process = process_of(events, rank ? "rank 1" : "rank 0");
        assert_true(has_thread(events, process, "compute"));
        assert_true(has_thread(events, process, "communication"));
        assert_true(has_thread(events, process, "data loading"));
        for (int number = FIRST_STEP; number <= LAST_STEP; number++) {
            char name[32];
            snprintf(name, sizeof name, "step %d", number);
            const span *step = find(process, name, 0);
            check_step(process, step, kernel);
            const span *first = check_bucket(process, step, "bucket 0");
            check_bucket(process, step, "bucket 1");
            overlaps += first->begin < find(process, "exposed wait", step->begin)->begin;
        }
    }
    for (int i = 0; i < span_count; i++)
        assert_true(strcmp(spans[i].name, "step 1") != 0 && strcmp(spans[i].name, "step 5") != 0);
    return overlaps;
}

YK_TEST(trace_of_a_training_run)
{
    test_job job;
    char command[512];
    snprintf(command, sizeof command,
             "train --data synthetic --arch mlp --nproc 2 --threads 1 --max-steps 6 --trace %s "
             "--trace-steps %d:%d --output %s/run",
             trace_path(), FIRST_STEP, LAST_STEP, yk_test_directory());
    test_job_start(&job, command);
    int code = test_job_wait(&job, 110);
    if (code)
        fail_msg("exit code %d: %s", code, job.output);
    assert_contains(job.output, "Timeline in ");
    cJSON *events = read_trace();
    check_trace(events, "fc1.linear_backward_weight");
    cJSON_Delete(events);
}

/* ResNet-18, whose backward is long enough to hide a bucket in. */
static void train_resnet(int rank, int world)
{
    yk_group *group;
    yk_dataset *dataset;
    yk_loader *loader;
    yk_model *model;
    yk_ddp *ddp;
    yk_optimizer *optimizer;
    yk_trace *trace;
    (void)rank, (void)world;
    assert_ok(yk_group_init(&group, NULL));
    assert_ok(yk_synthetic_create(&dataset, YK_SPLIT_TRAIN, NULL));
    assert_ok(yk_loader_create(
        &loader, dataset,
        YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT, o.group = group, o.batch_size = 4)));
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 32, 32});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *loss = yk_cross_entropy(yk_resnet18_cifar(images, 10), labels, NULL);
    assert_ok(yk_model_create(&model, loss,
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.threads = 1)));
    assert_ok(yk_ddp_create(&ddp, model, group, NULL));
    assert_ok(yk_sgd_create(&optimizer, model,
                            YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.01)));
    assert_ok(
        yk_trace_open(&trace, trace_path(), group,
                      YK_WITH(yk_trace_options, YK_TRACE_OPTIONS_INIT, o.first_step = FIRST_STEP,
                              o.steps = LAST_STEP - FIRST_STEP + 1)));
    for (int64_t step = 1; step <= LAST_STEP + 1; step++) {
        yk_trace_step_begin(trace, step);
        const yk_batch *batch = yk_loader_next(loader);
        assert_ok(yk_model_forward(model, batch));
        assert_ok(yk_model_backward(model));
        yk_trace_begin("share the loss");
        yk_trace_end();
        assert_ok(yk_optimizer_step(optimizer));
        yk_trace_step_end(trace);
    }
    assert_ok(yk_trace_close(trace));
    yk_optimizer_destroy(optimizer);
    yk_ddp_destroy(ddp);
    yk_model_destroy(model);
    yk_loader_destroy(loader);
    yk_dataset_destroy(dataset);
    yk_group_destroy(group);
}

YK_TEST(promise_30_every_step_is_seen_bucket_by_bucket)
{
    setenv("YK_TEST_TRACE", trace_path(), 0);
    yk_test_ranks(2, train_resnet);
    cJSON *events = read_trace();
    int overlaps = check_trace(events, "conv1.conv2d_backward_weight");
    assert_int_equal(overlaps, 2 * (LAST_STEP - FIRST_STEP + 1));
    cJSON_Delete(events);
}

/* ---- the library ---------------------------------------------------------------------------- */

static void run_steps(yk_trace *trace, int64_t first, int64_t last)
{
    for (int64_t step = first; step <= last; step++) {
        yk_trace_step_begin(trace, step);
        yk_trace_begin("work \"quoted\" \\ and \n more");
        yk_trace_end();
        yk_trace_step_end(trace);
    }
}

static int count_named(const char *prefix)
{
    int count = 0;
    for (int i = 0; i < span_count; i++)
        count += strncmp(spans[i].name, prefix, strlen(prefix)) == 0;
    return count;
}

YK_TEST(trace_shows_fifty_steps_unless_told_otherwise)
{
    yk_trace *trace;
    assert_ok(yk_trace_open(&trace, trace_path(), NULL, NULL));
    run_steps(trace, 11, 80);
    assert_false(yki_trace_on()); /* after the last step nothing is recorded any more */
    assert_ok(yk_trace_close(trace));
    cJSON *events = read_trace();
    collect_spans(events);
    assert_int_equal(count_named("step "), 50);
    assert_int_equal(count_named("work \"quoted\" \\ and ? more"), 50);
    cJSON_Delete(events);
}

YK_TEST(trace_may_be_none)
{
    run_steps(NULL, 1, 3);
    assert_ok(yk_trace_close(NULL));
    for (int i = 0; i < 40; i++)
        yk_trace_begin("deeper than can be kept");
    for (int i = 0; i < 50; i++)
        yk_trace_end();
}

YK_TEST(trace_is_one_at_a_time)
{
    yk_trace *trace, *second;
    assert_ok(yk_trace_open(&trace, trace_path(), NULL, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_trace_open(&second, trace_path(), NULL, NULL));
    assert_contains(yk_last_error(), "another timeline is open");
    assert_ok(yk_trace_close(trace));
    assert_status(YK_ERROR_IO, yk_trace_open(&trace, "/dev/null/trace.json", NULL, NULL));
    assert_ok(yk_trace_open(&trace, trace_path(), NULL, NULL));
    assert_ok(yk_trace_close(trace));
}

YK_TEST(trace_counts_what_does_not_fit)
{
    yki_trace_start();
    for (int i = 0; i < 20000; i++)
        yki_trace_record(YKI_TRACE_SPAN, 1, 2, YKI_NO_ARGS, "%d", i);
    yki_trace_stop();
    assert_int_equal(yki_trace_dropped(), 20000 + 1 - 16384);
    yki_trace_event event;
    int taken = 0;
    while (yki_trace_take(&event))
        taken++;
    assert_int_equal(taken, 16384);
    yki_trace_start(); /* and starts again */
    yki_trace_record(YKI_TRACE_SPAN, 1, 2, YKI_NO_ARGS, "again");
    yki_trace_stop();
    assert_int_equal(yki_trace_dropped(), 0);
    assert_true(yki_trace_take(&event) && event.kind == YKI_TRACE_THREAD);
    assert_true(yki_trace_take(&event) && strcmp(event.name, "again") == 0);
}

/* The nanoseconds of a number of microseconds with three decimals. */
static long long nanoseconds(const char *line, const char *key)
{
    long long whole, rest;
    const char *at = strstr(line, key);
    assert_non_null(at);
    assert_int_equal(sscanf(at + strlen(key), "%lld.%3lld", &whole, &rest), 2);
    return 1000 * whole + rest;
}

/* On a host that has run for years, too, a span ends within the one around it. */
YK_TEST(spans_nest_to_the_last_digit_whenever_the_host_was_started)
{
    enum { PAIRS = 200 };
    static char text[1 << 20];
    long long ends[2 * PAIRS];
    int count = 0;
    yk_trace *trace;
    assert_ok(yk_trace_open(&trace, trace_path(), NULL, NULL));
    yk_trace_step_begin(trace, 1);
    for (int i = 0; i < PAIRS; i++) {
        double begin = 1e8 + i, inner = begin + 1.234567e-4 * i,
               end = begin + 0.3 + 7.654321e-4 * i;
        yki_trace_record(YKI_TRACE_SPAN, inner, end, YKI_NO_ARGS, "one");
        yki_trace_record(YKI_TRACE_SPAN, begin, end, YKI_NO_ARGS, "one around it");
    }
    yk_trace_step_end(trace);
    assert_ok(yk_trace_close(trace));
    char *rest, *line = strtok_r(yk_test_read_file(text, sizeof text, trace_path()), "\n", &rest);
    for (; line; line = strtok_r(NULL, "\n", &rest))
        if (strstr(line, "\"name\": \"one"))
            ends[count++] = nanoseconds(line, "\"ts\": ") + nanoseconds(line, "\"dur\": ");
    assert_int_equal(count, 2 * PAIRS);
    for (int i = 0; i < count; i += 2)
        assert_int_equal(ends[i], ends[i + 1]);
}

YK_TEST(trace_says_where_it_cannot_write)
{
    yk_trace *trace;
    assert_status(YK_ERROR_IO, yk_trace_open(&trace, "/dev/null/trace.json", NULL, NULL));
    assert_null(trace);
    assert_contains(yk_last_error(), "/dev/null/trace.json: cannot create");
    assert_status(YK_ERROR_IO, yk_trace_open(&trace, "/dev/null", NULL, NULL));
    assert_contains(yk_last_error(), "/dev/null: is not a file");
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_trace_open(&trace, trace_path(), NULL,
                                YK_WITH(yk_trace_options, YK_TRACE_OPTIONS_INIT, o.first_step = 5,
                                        o.steps = 0)));
}

/* Such as the run's own metrics.jsonl: it would wait for itself. */
YK_TEST(a_file_that_somebody_writes_is_refused)
{
    yk_trace *trace;
    char text[16];
    int fd = open(trace_path(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    assert_true(fd >= 0 && yki_lock(fd));
    assert_int_equal(write(fd, "kept", 4), 4);
    assert_status(YK_ERROR_IO, yk_trace_open(&trace, trace_path(), NULL, NULL));
    assert_contains(yk_last_error(), ": this run or another program is writing it");
    assert_string_equal(yk_test_read_file(text, sizeof text, trace_path()), "kept");
    close(fd);
}

/* ---- ends before the end -------------------------------------------------------------------- */

/* Two ranks; what rank 1 has not written when it dies is lost, the file is whole all the same. */
static void dying_rank(int rank, int world)
{
    yk_group *group;
    yk_trace *trace;
    assert_int_equal(world, 2);
    assert_ok(yk_group_init(&group, NULL));
    assert_ok(yk_trace_open(&trace, trace_path(), group, NULL));
    run_steps(trace, 1, 10);
    usleep(1010000); /* so long that the next step writes what is there */
    run_steps(trace, 11, 20);
    if (rank == 1)
        kill(getpid(), SIGKILL);
    assert_ok(yk_trace_close(trace));
    yk_group_destroy(group);
}

YK_TEST(trace_of_a_job_that_dies_can_be_read)
{
    int statuses[2];
    setenv("YK_TEST_TRACE", trace_path(), 0);
    yk_test_ranks_status(2, dying_rank, statuses, NULL);
    assert_int_equal(statuses[0], 0);
    assert_int_equal(statuses[1], SIGKILL);
    cJSON *events = read_trace();
    collect_spans(events);
    find(process_of(events, "rank 0"), "step 20", 0);
    find(process_of(events, "rank 1"), "step 11", 0);
    assert_int_equal(count_named("step "), 20 + 11);
    cJSON_Delete(events);
}

YK_TEST(trace_goes_on_behind_a_torn_write)
{
    yk_trace *trace;
    assert_ok(yk_trace_open(&trace, trace_path(), NULL, NULL));
    run_steps(trace, 1, 4);
    usleep(1010000);
    run_steps(trace, 5, 5); /* writes */
    struct stat before;
    assert_int_equal(stat(trace_path(), &before), 0);
    assert_int_equal(truncate(trace_path(), before.st_size - 20), 0);
    run_steps(trace, 6, 6);
    assert_ok(yk_trace_close(trace));
    cJSON *events = read_trace();
    collect_spans(events);
    assert_int_equal(count_named("step "), 5); /* the torn one is gone */
    find((int)getpid(), "step 6", 0);
    cJSON_Delete(events);
}

/* A disk that fills up while events are written: those before remain. */
YK_TEST(trace_stays_complete_on_a_full_disk)
{
    yk_trace *trace;
    assert_ok(yk_trace_open(&trace, trace_path(), NULL, NULL));
    run_steps(trace, 1, 4);
    usleep(1010000);
    run_steps(trace, 5, 5); /* writes */
    yk_test_limit_files(trace_path(), 50);
    run_steps(trace, 6, 9);
    usleep(1010000);
    run_steps(trace, 10, 10); /* this fails, and then another call */
    assert_status(YK_ERROR_IO, yk_metrics_open(&(yk_metrics *){NULL}, "/dev/null/metrics.jsonl"));
    assert_status(YK_ERROR_IO, yk_trace_close(trace));
    yk_test_limit_files(NULL, 0);
    assert_contains(yk_last_error(), "trace.json: cannot write: File too large");
    cJSON *events = read_trace();
    collect_spans(events);
    assert_int_equal(count_named("step "), 5);
    cJSON_Delete(events);
}

static void take_signal(int number)
{
    (void)number;
}

/* Another rank writes, and a signal comes whose handler does not restart what it interrupts. */
YK_TEST(trace_waits_through_a_signal)
{
    yk_trace *trace;
    struct sigaction action = {.sa_handler = take_signal}, before;
    struct itimerval soon = {.it_value = {.tv_usec = 50000}};
    assert_ok(yk_trace_open(&trace, trace_path(), NULL, NULL));
    run_steps(trace, 1, 1);
    int fd = open(trace_path(), O_RDWR | O_CLOEXEC), gate[2];
    assert_int_equal(pipe(gate), 0);
    pid_t pid = yk_test_fork();
    if (pid == 0) {
        int failed = flock(fd, LOCK_EX); /* goes with the last of its descriptors: the child's */
        char byte = 0;
        failed |= write(gate[1], &byte, 1) != 1;
        usleep(300000);
        _exit(failed != 0);
    }
    close(fd);
    char byte;
    assert_int_equal(read(gate[0], &byte, 1), 1);
    sigaction(SIGALRM, &action, &before);
    setitimer(ITIMER_REAL, &soon, NULL);
    assert_ok(yk_trace_close(trace));
    sigaction(SIGALRM, &before, NULL);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(gate[0]);
    close(gate[1]);
    cJSON_Delete(read_trace());
}

/* As another rank has it that is stopped while it writes. All ranks used to wait for it for ever.
 */
YK_TEST(a_file_that_stays_locked_ends_the_timeline_alone)
{
    yk_trace *trace;
    assert_ok(yk_trace_open(&trace, trace_path(), NULL, NULL));
    run_steps(trace, 1, 1);
    int fd = open(trace_path(), O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0 && yki_lock(fd));
    assert_status(YK_ERROR_IO, yk_trace_close(trace));
    assert_contains(yk_last_error(), "trace.json: another process, which may be stopped, keeps it");
    close(fd);
    cJSON_Delete(read_trace());
}

/* ---- the command line ----------------------------------------------------------------------- */

YK_TEST(trace_options_are_checked)
{
    static const char *const wrong[][2] = {
        {"--trace-steps 1:2", "--trace"},
        {"--trace /tmp/never --trace-steps 5", "expected A:B"},
        {"--trace /tmp/never --trace-steps 5:4", "expected A:B"},
        {"--trace /tmp/never --trace-steps 0:4", "expected A:B"},
        {"--trace /tmp/never --trace-steps 1:2x", "expected A:B"},
    };
    char output[4096];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(yk_test_command(output, sizeof output, "%s train --data synthetic %s",
                                         test_program(), wrong[i][0]),
                         2);
        assert_contains(output, wrong[i][1]);
        assert_null(strchr(strchr(output, '\n') + 1, '\n')); /* one line */
    }
}

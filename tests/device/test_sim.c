/* The simulated device: order and its seeds, failures, threads. */
#define _GNU_SOURCE
#include "sim_device.h"

#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "device/sim_link.h"

YK_TEST(kernels_have_the_bits_of_ref)
{
    yki_device *device = open_sim(1);
    yki_stream *stream = yki_device_stream(device);
    float host[COUNT], *x = new_tensor(device), *y = new_tensor(device);
    for (int i = 0; i < COUNT; i++)
        host[i] = (float)i / 3;
    write_all(device, x, host, stream);
    yki_kernel *kernel = new_add(device);
    assert_ok(add(kernel, y, x, x, stream));
    float got[COUNT];
    assert_ok(yki_device_copy(device, got, y, BYTES, YKI_TO_HOST, stream));
    assert_ok(yki_stream_wait(device, stream));
    for (int i = 0; i < COUNT; i++)
        assert_true(got[i] == host[i] + host[i]);
    yki_kernel_destroy(kernel);
    yki_device_destroy(device);
}

YK_TEST(a_malformed_seed_is_an_error)
{
    yki_device *device;
    setenv("YOKE_SIM_SEED", "x", 1);
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yki_device_create(&device, "sim", &(yki_device_options){.threads = 1}));
    assert_contains(yk_last_error(), "YOKE_SIM_SEED=x");
}

static yk_status no_event(yki_device *device, bool timed, yki_event **event)
{
    (void)device, (void)timed, (void)event;
    return yki_error_memory(1, "an event");
}

/* What follows a wait is often freed, after a failure too. */
YK_TEST(a_wait_for_a_stream_needs_no_memory)
{
    yki_device *device = open_sim(1);
    yki_stream *stream = yki_device_stream(device);
    yki_stream_ops streams = *device->type->streams;
    yki_device_type type = *device->type;
    const yki_device_type *kept = device->type;
    streams.create_event = no_event;
    type.streams = &streams;
    device->type = &type;
    char bytes[BYTES] = "", *x = (char *)new_tensor(device);
    assert_ok(yki_device_fill(device, x, 7, BYTES, stream));
    assert_ok(yki_device_copy(device, bytes, x, BYTES, YKI_TO_HOST, stream));
    assert_ok(yki_stream_wait(device, stream));
    assert_int_equal(bytes[BYTES - 1], 7);
    device->type = kept;
    yki_device_destroy(device);
}

/* ---- what belongs to the caller -------------------------------------------------------------- */

enum { CHANNELS = 8, ROWS = COUNT / CHANNELS, VECTOR_BYTES = (2 * CHANNELS + 1) * sizeof(double) };

typedef struct alone {
    yki_sync base;
    yki_device *device;
} alone;

static yk_status gather_alone(const yki_sync *sync, int64_t channels, yki_stream *stream)
{
    assert_int_equal(channels, CHANNELS);
    return yki_device_copy(((const alone *)sync)->device, (void *)(uintptr_t)sync->all, sync->mine,
                           VECTOR_BYTES, YKI_WITHIN_DEVICE, stream);
}

static yki_kernel *new_norm(yki_device *device)
{
    static const yki_attrs attrs = {.eps = 1e-5, .momentum = 0.1};
    yki_operand x = {.dtype = YK_F32, .ndim = 2, .dims = {ROWS, CHANNELS}};
    yki_operand vector = {.dtype = YK_F32, .ndim = 1, .dims = {CHANNELS}}, absent = {.ndim = -1};
    yki_kernel_desc desc = {.op = &yki_op_batch_norm,
                            .attrs = &attrs,
                            .training = true,
                            .in_count = YKI_BATCH_NORM_INPUTS,
                            .out_count = YKI_BATCH_NORM_OUTPUTS,
                            .in = {x, vector, vector, vector, vector, absent, absent, absent},
                            .out = {x, vector, vector}};
    yki_kernel *kernel;
    assert_ok(yki_kernel_create(device, &desc, &kernel));
    return kernel;
}

/* A model fills the struct for the next kernel before the stream has come to the first one. */
YK_TEST(a_kernel_keeps_how_it_exchanges_statistics)
{
    yki_device *device = open_sim(1);
    yki_stream *stream = yki_device_stream(device);
    float host[COUNT], *x = new_tensor(device), *y = new_tensor(device), *mean = new_tensor(device);
    void *in[YKI_BATCH_NORM_INPUTS] = {x}, *out[] = {y, mean, new_tensor(device)};
    for (int i = YKI_BATCH_NORM_WEIGHT; i <= YKI_BATCH_NORM_RUNNING_VAR; i++)
        in[i] = new_tensor(device);
    alone sync = {.base = {.world = 1,
                           .mine = (double *)new_tensor(device),
                           .all = (double *)new_tensor(device),
                           .gather = gather_alone},
                  .device = device};
    for (int row = 0; row < ROWS; row++)
        for (int channel = 0; channel < CHANNELS; channel++)
            host[row * CHANNELS + channel] = (float)row;
    write_all(device, x, host, stream);
    yki_kernel *kernel = new_norm(device);
    assert_ok(kernel->impl->run(
        kernel, &(yki_kernel_args){.in = in, .out = out, .stream = stream, .sync = &sync.base}));
    memset(&sync, 0xff, sizeof sync);
    assert_true(2 * read_first(device, mean) == ROWS - 1);
    yki_kernel_destroy(kernel);
    yki_device_destroy(device);
}

/* ---- order ----------------------------------------------------------------------------------- */

YK_TEST(a_stream_keeps_its_order)
{
    for (int seed = 0; seed < SEEDS; seed++) {
        yki_device *device = open_sim(seed);
        yki_stream *stream = yki_device_stream(device);
        float *x = new_tensor(device), one[COUNT] = {1};
        yki_kernel *kernel = new_add(device);
        write_all(device, x, one, stream);
        for (int i = 0; i < 10; i++)
            assert_ok(add(kernel, x, x, x, stream));
        assert_true(read_first(device, x) == 1024);
        yki_kernel_destroy(kernel);
        yki_device_destroy(device);
    }
}

YK_TEST(nothing_happens_before_a_wait)
{
    yki_device *device = open_sim(1);
    yki_stream *stream = yki_device_stream(device);
    float *x = new_tensor(device), host[COUNT] = {1}, back = -1;
    write_all(device, x, host, stream);
    assert_ok(yki_device_copy(device, &back, x, sizeof back, YKI_TO_HOST, stream));
    host[0] = 2; /* too early: the copy has not been made */
    assert_true(back == -1);
    assert_ok(yki_stream_wait(device, stream));
    assert_true(back == 2);
    yki_device_destroy(device);
}

/* a: x = 1; b: y = x + x, with or without following a. What y is in the end. */
static float race(int seed, bool follow, bool wait_for_a)
{
    yki_device *device = open_sim(seed);
    yki_stream *a = new_stream(device), *b = new_stream(device);
    yki_event *written = new_event(device), *read = new_event(device);
    float *x = new_tensor(device), *y = new_tensor(device), one[COUNT] = {1}, result;
    yki_kernel *kernel = new_add(device);
    write_all(device, x, one, a);
    assert_ok(yki_event_mark(device, written, a));
    if (follow)
        assert_ok(yki_event_follow(device, written, b));
    assert_ok(add(kernel, y, x, x, b));
    assert_ok(yki_device_copy(device, &result, y, sizeof result, YKI_TO_HOST, b));
    assert_ok(yki_event_mark(device, read, b));
    if (wait_for_a) { /* both are wanted: the order is drawn */
        yki_stream *both = new_stream(device);
        assert_ok(yki_event_follow(device, written, both));
        assert_ok(yki_event_follow(device, read, both));
        assert_ok(yki_stream_wait(device, both));
    }
    assert_ok(yki_event_wait(device, read));
    yki_kernel_destroy(kernel);
    yki_event_destroy(device, written);
    yki_event_destroy(device, read);
    yki_stream_destroy(device, a);
    yki_stream_destroy(device, b);
    yki_device_destroy(device);
    return result;
}

YK_TEST(a_missing_follow_gives_wrong_results)
{
    int wrong = 0;
    for (int seed = 0; seed < SEEDS; seed++) {
        assert_true(race(seed, true, false) == 2);
        assert_true(race(seed, true, true) == 2);
        assert_true(race(seed, false, false) == 0); /* a is not wanted, so it comes late */
        float drawn = race(seed, false, true);
        assert_true(drawn == race(seed, false, true)); /* the same seed, the same order */
        wrong += drawn == 0;
    }
    assert_in_range(wrong, 1, SEEDS - 1);
}

YK_TEST(an_event_is_the_point_of_its_last_mark)
{
    yki_device *device = open_sim(1);
    yki_stream *a = new_stream(device), *b = new_stream(device);
    yki_event *event = new_event(device);
    float *x = new_tensor(device), one[COUNT] = {1}, two[COUNT] = {2};
    bool reached;
    assert_ok(yki_event_query(device, event, &reached)); /* never marked */
    assert_true(reached);
    assert_ok(yki_event_wait(device, event));
    assert_ok(yki_event_follow(device, event, a));

    write_all(device, x, one, a);
    assert_ok(yki_event_mark(device, event, a));
    assert_ok(yki_event_follow(device, event, b));
    float seen;
    assert_ok(yki_device_copy(device, &seen, x, sizeof seen, YKI_TO_HOST, b));
    write_all(device, x, two, a); /* after the mark: b need not wait for it */
    assert_ok(yki_event_mark(device, event, a));
    assert_ok(yki_stream_wait(device, b));
    assert_true(seen == 1);
    assert_ok(yki_event_wait(device, event));
    assert_true(read_first(device, x) == 2);
    yki_event_destroy(device, event);
    yki_device_destroy(device);
}

YK_TEST(polling_gets_there)
{
    yki_device *device = open_sim(1);
    yki_stream *stream = yki_device_stream(device);
    yki_event *event = new_event(device);
    float *x = new_tensor(device);
    for (int i = 0; i < 5; i++)
        assert_ok(yki_device_fill(device, x, i, BYTES, stream));
    assert_ok(yki_event_mark(device, event, stream));
    bool reached = false;
    int polls = 0;
    for (; !reached; polls++)
        assert_ok(yki_event_query(device, event, &reached));
    assert_int_equal(polls, 5);
    yki_event_destroy(device, event);
    yki_device_destroy(device);
}

YK_TEST(timed_events_keep_when_they_were_reached)
{
    yki_device *device = open_sim(1);
    yki_stream *stream = yki_device_stream(device);
    yki_event *first, *second, *untimed = new_event(device);
    yki_recording *recording;
    float *x = new_tensor(device);
    double seconds, before = yki_now();
    assert_ok(yki_event_create_timed(device, &first));
    assert_ok(yki_event_create_timed(device, &second));
    assert_ok(yki_event_mark(device, first, stream));
    assert_ok(yki_device_fill(device, x, 1, BYTES, stream));
    assert_ok(yki_event_mark(device, second, stream));
    assert_ok(yki_event_wait(device, first));
    assert_status(YK_ERROR_INTERNAL, yki_event_between(device, first, second, &seconds));
    assert_contains(yk_last_error(), "have not been reached");
    assert_ok(yki_event_wait(device, second));
    assert_ok(yki_event_between(device, first, second, &seconds));
    assert_true(seconds > 0 && seconds < yki_now() - before);

    assert_ok(yki_event_mark(device, untimed, stream));
    assert_ok(yki_event_wait(device, untimed));
    assert_status(YK_ERROR_INTERNAL, yki_event_between(device, first, untimed, &seconds));
    assert_contains(yk_last_error(), "not timed");
    assert_ok(yki_record_begin(device, stream));
    assert_status(YK_ERROR_INTERNAL, yki_event_mark(device, first, stream));
    assert_contains(yk_last_error(), "a timed event is marked in a recording");
    assert_ok(yki_record_end(device, stream, &recording));
    yki_recording_destroy(device, recording);

    assert_ok(yki_event_mark(device, first, stream)); /* and destroyed before it is reached */
    yki_event_destroy(device, first);
    assert_true(read_first(device, x) != 0);
    yki_event_destroy(device, second);
    yki_event_destroy(device, untimed);
    yki_device_destroy(device);
}

/* ---- failures ------------------------------------------------------------------------------- */

/* cross_entropy of one sample of COUNT classes: fails when it is run with a label beyond them. */
typedef struct loss {
    yki_kernel *kernel;
    float *logits, *out;
    void *label;
} loss;

static loss new_loss(yki_device *device)
{
    static const yki_attrs attrs = {.ignore_index = -100};
    loss l = {.logits = new_tensor(device), .out = new_tensor(device)};
    l.label = new_tensor(device);
    yki_kernel_desc desc = {
        .op = &yki_op_cross_entropy, .attrs = &attrs, .in_count = 2, .out_count = 1};
    desc.in[0] = (yki_operand){.dtype = YK_F32, .ndim = 2, .dims = {1, COUNT}};
    desc.in[1] = (yki_operand){.dtype = YK_I32, .ndim = 1, .dims = {1}};
    desc.out[0] = (yki_operand){.dtype = YK_F32, .ndim = 0};
    assert_ok(yki_kernel_create(device, &desc, &l.kernel));
    return l;
}

static void enter_loss(yki_device *device, const loss *l, int byte, yki_stream *stream)
{
    void *in[] = {l->logits, l->label}, *out[YKI_MAX_OUT] = {l->out};
    assert_ok(yki_device_fill(device, l->label, byte, sizeof(int32_t), stream));
    assert_ok(l->kernel->impl->run(l->kernel,
                                   &(yki_kernel_args){.in = in, .out = out, .stream = stream}));
}

YK_TEST(a_failure_is_reported_by_the_waits_after_it)
{
    yki_device *device = open_sim(1);
    yki_stream *stream = yki_device_stream(device), *other = new_stream(device);
    yki_event *before = new_event(device), *failed = new_event(device);
    float *x = new_tensor(device), one[COUNT] = {1};
    loss l = new_loss(device);
    assert_ok(yki_event_mark(device, before, stream));
    enter_loss(device, &l, 0x7f, stream);
    assert_ok(yki_event_mark(device, failed, stream));
    write_all(device, x, one, stream); /* not done any more */
    assert_ok(yki_event_follow(device, failed, other));
    assert_ok(yki_device_fill(device, x, 0x7f, BYTES, other));
    assert_ok(yki_event_wait(device, before));
    for (int i = 0; i < 2; i++) {
        assert_status(YK_ERROR_INVALID_ARGUMENT, yki_event_wait(device, failed));
        assert_contains(yk_last_error(), "label");
    }
    assert_status(YK_ERROR_INVALID_ARGUMENT, yki_stream_wait(device, other));
    assert_contains(yk_last_error(), "label");

    /* What is entered after the report is done. */
    assert_ok(yki_device_fill(device, l.label, 0, sizeof(int32_t), stream));
    assert_true(read_first(device, x) == 0);
    enter_loss(device, &l, 0, stream);
    assert_ok(yki_stream_wait(device, stream));
    assert_ok(yki_device_fill(device, x, 0, BYTES, other));
    assert_ok(yki_stream_wait(device, other));
    yki_kernel_destroy(l.kernel);
    yki_event_destroy(device, before);
    yki_event_destroy(device, failed);
    yki_device_destroy(device);
}

static yk_status run_exclusive(yki_sim *sim, void *work)
{
    (void)sim, (void)work;
    return YK_OK;
}

/* Enters what stands for a collective of a communicator. */
static void enter_exclusive(yki_device *device, yki_stream *stream)
{
    static const yki_sim_work kind = {
        .run = run_exclusive, .bytes = sizeof(char), .exclusive = true};
    assert_ok(yki_sim_enter((yki_sim *)device, stream, &kind, ""));
}

/* Two collectives in either order: one GPU could begin with this one, another with that. */
YK_TEST(collectives_whose_order_is_free_are_an_error)
{
    yki_device *device = open_sim(1);
    yki_stream *own = yki_device_stream(device), *other = new_stream(device),
               *between = new_stream(device);
    yki_event *first = new_event(device), *second = new_event(device);
    enter_exclusive(device, own);
    enter_exclusive(device, own);
    assert_ok(yki_event_mark(device, first, own));
    assert_ok(yki_event_follow(device, first, between));
    assert_ok(yki_event_mark(device, second, between));
    assert_ok(yki_event_follow(device, second, other));
    enter_exclusive(device, other);
    assert_ok(yki_stream_wait(device, other));
    enter_exclusive(device, own);
    enter_exclusive(device, other);
    assert_status(YK_ERROR_INTERNAL, yki_stream_wait(device, other));
    assert_contains(yk_last_error(), "two collectives are entered that no event orders");
    assert_ok(yki_stream_wait(device, own));
    enter_exclusive(device, other); /* the earlier ones are done */
    assert_ok(yki_stream_wait(device, other));
    yki_event_destroy(device, first);
    yki_event_destroy(device, second);
    yki_stream_destroy(device, other);
    yki_stream_destroy(device, between);
    yki_device_destroy(device);
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { ROUNDS = 200 };

typedef struct relay {
    yki_device *device;
    float *value;
    yki_stream *mine;
    yki_kernel *kernel;
    pthread_barrier_t *barrier;
    yki_event *ready, *landed;
} relay;

/* As the thread of a group does: waits for what the other thread has entered, adds, marks. */
static void *double_it(void *argument)
{
    relay *r = argument;
    for (int i = 0; i < ROUNDS; i++) {
        pthread_barrier_wait(r->barrier); /* ready is marked */
        assert_ok(yki_event_follow(r->device, r->ready, r->mine));
        assert_ok(add(r->kernel, r->value, r->value, r->value, r->mine));
        assert_ok(yki_event_mark(r->device, r->landed, r->mine));
        if (i % 2)
            assert_ok(yki_event_wait(r->device, r->landed));
        pthread_barrier_wait(r->barrier); /* landed is marked */
    }
    return NULL;
}

YK_TEST(two_threads_use_the_device_at_once)
{
    yki_device *device = open_sim(3);
    yki_stream *stream = yki_device_stream(device);
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, 2);
    relay r = {device,   new_tensor(device), new_stream(device), new_add(device),
               &barrier, new_event(device),  new_event(device)};
    float one[COUNT] = {1}, got[ROUNDS];
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, double_it, &r), 0);
    for (int i = 0; i < ROUNDS; i++) {
        write_all(device, r.value, one, stream);
        assert_ok(yki_event_mark(device, r.ready, stream));
        pthread_barrier_wait(&barrier);
        if (i % 3 == 0) /* both may be waiting now */
            assert_ok(yki_stream_wait(device, stream));
        pthread_barrier_wait(&barrier);
        assert_ok(yki_event_follow(device, r.landed, stream));
        assert_ok(yki_device_copy(device, &got[i], r.value, sizeof *got, YKI_TO_HOST, stream));
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_ok(yki_stream_wait(device, stream));
    for (int i = 0; i < ROUNDS; i++)
        assert_true(got[i] == 2);
    yki_kernel_destroy(r.kernel);
    yki_event_destroy(device, r.ready);
    yki_event_destroy(device, r.landed);
    pthread_barrier_destroy(&barrier);
    yki_device_destroy(device);
}

/* ---- links ----------------------------------------------------------------------------------- */

static void add_ranks(void *const *to, int copies, const void *const *from, int ranks, size_t count,
                      yk_dtype dtype, yk_reduce_op op)
{
    (void)to, (void)copies, (void)from, (void)ranks, (void)count, (void)dtype, (void)op;
}

/* Its thread looks for work of the device; ASan sees whether the device is still there. */
YK_TEST(a_link_may_outlive_the_device)
{
    yki_device *device = open_sim(1);
    yki_sim_link *link;
    float *data = new_tensor(device);
    assert_ok(yki_sim_link_create(&link, 0, 2, add_ranks));
    const yk_backend_call call = {
        .what = {.operation = YK_OPERATION_ALL_REDUCE, .dtype = YK_F32, .count = COUNT},
        .sequence = 1,
        .in = data,
        .out = data};
    assert_ok(yki_sim_link_enter(link, &call, yki_device_stream(device)));
    yki_device_destroy(device);
    yki_sim_link_abort(link, YK_ERROR_NETWORK, "the other rank is gone");
    yki_sim_link_destroy(link);
}

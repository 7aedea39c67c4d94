/*
 * Streams, events, recordings and failures of the cuda device on the fake driver, which does
 * nothing before somebody waits for it, and then only what must come before.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

#include "device/device.h"
#include "device/sweep.h"
#include "device/times.h"
#include "harness.h"

enum { BYTES = 64 };

/* A device, its own stream and another, and memory that begins as zeros. */
typedef struct fixture {
    yki_device *device;
    yki_stream *stream, *other;
    yki_event *event;
    void *x, *y;
    char *pinned;
} fixture;

static void begin(fixture *f)
{
    assert_ok(yki_device_create(&f->device, "cuda", &(yki_device_options){.threads = 1}));
    f->stream = yki_device_stream(f->device);
    assert_ok(yki_stream_create(f->device, &f->other));
    assert_ok(yki_event_create(f->device, &f->event));
    assert_ok(yki_device_alloc(f->device, BYTES, &f->x));
    assert_ok(yki_device_alloc(f->device, BYTES, &f->y));
    void *pinned;
    assert_ok(yki_device_alloc_pinned(f->device, BYTES, &pinned));
    f->pinned = pinned;
}

static void end(fixture *f)
{
    yki_device_free(f->device, f->x, BYTES);
    yki_device_free(f->device, f->y, BYTES);
    yki_device_free_pinned(f->device, f->pinned, BYTES);
    yki_event_destroy(f->device, f->event);
    yki_stream_destroy(f->device, f->other);
    yki_device_destroy(f->device);
}

static void fill(const fixture *f, void *memory, int byte, yki_stream *stream)
{
    assert_ok(yki_device_fill(f->device, memory, byte, BYTES, stream));
}

static void copy_x_to_y(const fixture *f, yki_stream *stream)
{
    assert_ok(yki_device_copy(f->device, f->y, f->x, BYTES, YKI_WITHIN_DEVICE, stream));
}

/* What y holds once all that is in the stream is done. */
static int byte_of_y(const fixture *f, yki_stream *stream)
{
    char bytes[BYTES];
    assert_ok(yki_device_copy(f->device, bytes, f->y, BYTES, YKI_TO_HOST, stream));
    assert_ok(yki_stream_wait(f->device, stream));
    for (int i = 1; i < BYTES; i++)
        assert_int_equal(bytes[i], bytes[0]);
    return bytes[0];
}

static yk_status no_event(yki_device *device, bool timed, yki_event **event)
{
    (void)device, (void)timed, (void)event;
    return yki_error_memory(1, "an event");
}

/* What follows a wait is often freed, after a failure too. */
YK_TEST(a_wait_for_a_stream_needs_no_memory)
{
    fixture f;
    begin(&f);
    yki_stream_ops streams = *f.device->type->streams;
    yki_device_type type = *f.device->type;
    const yki_device_type *kept = f.device->type;
    streams.create_event = no_event;
    type.streams = &streams;
    f.device->type = &type;
    fill(&f, f.y, 7, f.other);
    assert_int_equal(byte_of_y(&f, f.other), 7);
    f.device->type = kept;
    end(&f);
}

/* ---- events --------------------------------------------------------------------------------- */

YK_TEST(streams_wait_for_events_and_for_nothing_else)
{
    fixture f;
    begin(&f);
    fill(&f, f.x, 1, f.stream);
    copy_x_to_y(&f, f.other); /* nothing makes it wait for the fill */
    assert_int_equal(byte_of_y(&f, f.other), 0);
    assert_ok(yki_event_mark(f.device, f.event, f.stream));
    assert_ok(yki_event_follow(f.device, f.event, f.other));
    copy_x_to_y(&f, f.other);
    assert_int_equal(byte_of_y(&f, f.other), 1);
    end(&f);
}

YK_TEST(events_can_be_polled)
{
    fixture f;
    bool reached;
    begin(&f);
    assert_ok(yki_event_query(f.device, f.event, &reached)); /* never marked */
    assert_true(reached);
    for (int i = 0; i < 3; i++)
        fill(&f, f.x, i, f.stream);
    assert_ok(yki_event_mark(f.device, f.event, f.stream));
    int asked = 0;
    do {
        assert_ok(yki_event_query(f.device, f.event, &reached));
        asked++;
    } while (!reached);
    assert_true(asked > 1);
    end(&f);
}

/* The fake driver's operations take a microsecond each. */
YK_TEST(timed_events_measure_what_is_between_them)
{
    fixture f;
    yki_event *timed[2];
    double seconds;
    begin(&f);
    for (int i = 0; i < 2; i++)
        assert_ok(yki_event_create_timed(f.device, &timed[i]));
    assert_ok(yki_event_mark(f.device, timed[0], f.stream));
    for (int i = 0; i < 3; i++)
        fill(&f, f.x, i, f.stream);
    assert_ok(yki_event_mark(f.device, timed[1], f.stream));
    assert_ok(yki_event_wait(f.device, timed[1]));
    assert_ok(yki_event_between(f.device, timed[0], timed[1], &seconds));
    assert_float_equal(seconds, 3e-6, 1e-9);
    assert_ok(yki_event_mark(f.device, f.event, f.stream));
    assert_ok(yki_event_wait(f.device, f.event));
    assert_status(YK_ERROR_INTERNAL, yki_event_between(f.device, timed[0], f.event, &seconds));
    assert_contains(yk_last_error(), "cuEventElapsedTime failed with CUDA_ERROR_INVALID_HANDLE");
    for (int i = 0; i < 2; i++)
        yki_event_destroy(f.device, timed[i]);
    end(&f);
}

YK_TEST(copies_read_the_host_when_they_are_done)
{
    fixture f;
    begin(&f);
    memset(f.pinned, 1, BYTES);
    assert_ok(yki_device_copy(f.device, f.y, f.pinned, BYTES, YKI_TO_DEVICE, f.stream));
    memset(f.pinned, 2, BYTES); /* too early */
    assert_int_equal(byte_of_y(&f, f.stream), 2);
    end(&f);
}

/* ---- recordings ----------------------------------------------------------------------------- */

YK_TEST(recordings_are_done_when_they_are_replayed)
{
    fixture f;
    yki_recording *recording;
    begin(&f);
    assert_true(yki_device_records(f.device));
    assert_ok(yki_record_begin(f.device, f.stream));
    copy_x_to_y(&f, f.stream);
    assert_ok(yki_record_end(f.device, f.stream, &recording));
    fill(&f, f.x, 1, f.stream);
    assert_int_equal(byte_of_y(&f, f.stream), 0);
    for (int i = 2; i < 5; i++) {
        fill(&f, f.x, i, f.stream);
        assert_ok(yki_replay(f.device, recording, f.stream));
        assert_int_equal(byte_of_y(&f, f.stream), i);
    }
    yki_recording_destroy(f.device, recording);
    end(&f);
}

static int replaced_fills(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    int (*count)(void) = (int (*)(void))dlsym(driver, "yk_fake_replaced_fills");
    assert_non_null(count);
    dlclose(driver);
    return count();
}

/* Kernels take the places of small fills, and large ones stay. */
YK_TEST(small_fills_of_a_recording_become_kernels)
{
    enum { LARGE = 1 << 17 };
    fixture f;
    yki_recording *recording;
    void *large;
    char *found = malloc(LARGE);
    begin(&f);
    assert_ok(yki_device_alloc(f.device, LARGE, &large));
    assert_ok(yki_record_begin(f.device, f.stream));
    fill(&f, f.x, 5, f.stream);
    copy_x_to_y(&f, f.stream);
    fill(&f, f.x, 7, f.stream);
    assert_ok(yki_device_fill(f.device, large, 3, LARGE, f.stream));
    assert_ok(yki_record_end(f.device, f.stream, &recording));
    assert_int_equal(replaced_fills(), 2);
    for (int i = 0; i < 2; i++) {
        assert_ok(yki_replay(f.device, recording, f.stream));
        assert_int_equal(byte_of_y(&f, f.stream), 5);
        copy_x_to_y(&f, f.stream);
        assert_int_equal(byte_of_y(&f, f.stream), 7);
        assert_ok(yki_device_copy(f.device, found, large, LARGE, YKI_TO_HOST, f.stream));
        assert_ok(yki_stream_wait(f.device, f.stream));
        for (int b = 0; b < LARGE; b++)
            assert_int_equal(found[b], 3);
        assert_ok(yki_device_fill(f.device, large, 0, LARGE, f.stream));
    }
    yki_recording_destroy(f.device, recording);
    yki_device_free(f.device, large, LARGE);
    free(found);
    end(&f);
}

YK_TEST(streams_join_recordings_by_events)
{
    fixture f;
    yki_recording *recording;
    begin(&f);
    assert_ok(yki_record_begin(f.device, f.stream));
    fill(&f, f.x, 7, f.stream);
    assert_ok(yki_event_mark(f.device, f.event, f.stream));
    assert_ok(yki_event_follow(f.device, f.event, f.other));
    copy_x_to_y(&f, f.other);
    assert_ok(yki_event_mark(f.device, f.event, f.other));
    assert_ok(yki_event_follow(f.device, f.event, f.stream));
    assert_ok(yki_record_end(f.device, f.stream, &recording));
    assert_ok(yki_replay(f.device, recording, f.stream));
    assert_int_equal(byte_of_y(&f, f.stream), 7);
    yki_recording_destroy(f.device, recording);
    end(&f);
}

YK_TEST(recordings_that_a_stream_has_not_left_fail)
{
    fixture f;
    yki_recording *recording;
    begin(&f);
    assert_ok(yki_record_begin(f.device, f.stream));
    assert_ok(yki_event_mark(f.device, f.event, f.stream));
    assert_ok(yki_event_follow(f.device, f.event, f.other));
    copy_x_to_y(&f, f.other);
    assert_status(YK_ERROR_INTERNAL, yki_record_end(f.device, f.stream, &recording));
    assert_null(recording);
    assert_contains(yk_last_error(), "device cuda: cuStreamEndCapture failed with CUDA_ERROR_");
    assert_contains(yk_last_error(), "; with YOKE_CUDA_GRAPHS=0, nothing is recorded");
    fill(&f, f.y, 3, f.stream); /* the streams are as before */
    assert_int_equal(byte_of_y(&f, f.stream), 3);
    end(&f);
}

/* ---- failures ------------------------------------------------------------------------------- */

/* relu of 16 floats in x, cross_entropy of 4 rows of x with labels in y, or embedding of 4 rows of
 * y with indices in x. */
static yki_kernel *kernel_of(const fixture *f, const yki_op *op)
{
    static const yki_attrs attrs = {.reduction = YK_LOSS_MEAN, .ignore_index = -100};
    const yki_operand absent = {.ndim = -1};
    yki_kernel_desc desc = {.op = op, .attrs = &attrs, .training = true};
    for (int i = 0; i < YKI_MAX_IN; i++)
        desc.in[i] = absent;
    for (int i = 0; i < YKI_MAX_OUT; i++)
        desc.out[i] = absent;
    desc.in_count = op == &yki_op_relu ? 1 : 2;
    desc.out_count = op == &yki_op_cross_entropy ? 2 : 1;
    const yki_operand rows = {.dtype = YK_F32, .ndim = 2, .dims = {4, 4}};
    const yki_operand numbers = {.dtype = YK_I32, .ndim = 1, .dims = {4}};
    desc.in[0] = op == &yki_op_embedding ? numbers : rows;
    if (desc.in_count > 1)
        desc.in[1] = op == &yki_op_embedding ? rows : numbers;
    desc.out[0] = op == &yki_op_cross_entropy ? (yki_operand){.dtype = YK_F32} : rows;
    yki_kernel *kernel;
    assert_ok(yki_kernel_create(f->device, &desc, &kernel));
    return kernel;
}

static yk_status run(const fixture *f, const yki_kernel *kernel, void *out, void *scratch)
{
    void *in[YKI_MAX_IN] = {f->x, f->y}, *outs[YKI_MAX_OUT] = {out};
    const yki_kernel_args args = {.in = in, .out = outs, .stream = f->stream, .scratch = scratch};
    return kernel->impl->run(kernel, &args);
}

/* The wait that follows reports it in one line; the GPU's context is lost with it. */
YK_TEST(a_fault_in_a_kernel_is_reported_by_the_next_wait_and_by_all_others)
{
    fixture f;
    setenv("YK_FAKE_FAULT", "relu_f32:2", 1);
    begin(&f);
    yki_kernel *relu = kernel_of(&f, &yki_op_relu);
    assert_ok(run(&f, relu, f.y, NULL));
    assert_ok(yki_stream_wait(f.device, f.stream));
    assert_ok(run(&f, relu, f.y, NULL));
    assert_status(YK_ERROR_INTERNAL, yki_stream_wait(f.device, f.stream));
    assert_contains(yk_last_error(),
                    "device cuda: the work before this event (cuEventSynchronize) failed with "
                    "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered");
    void *memory;
    assert_status(YK_ERROR_INTERNAL, yki_device_alloc(f.device, BYTES, &memory));
    assert_contains(yk_last_error(), "CUDA_ERROR_ILLEGAL_ADDRESS");
    assert_status(YK_ERROR_INTERNAL, run(&f, relu, f.y, NULL));
    yki_kernel_destroy(relu);
    end(&f);
}

/* Numbers of which one is none, and then right ones; `at`: where the kernel reads them. */
static void assert_reported(const fixture *f, const yki_op *op, void *at, const char *text)
{
    const int32_t wrong[4] = {0, 3, 4, 1}, right[4] = {0, 3, 2, 1};
    yki_kernel *kernel = kernel_of(f, op);
    void *out, *scratch;
    assert_ok(yki_device_alloc(f->device, BYTES, &out));
    assert_ok(yki_device_alloc(f->device, kernel->scratch + 1, &scratch));
    for (int i = 0; i < 2; i++) {
        memcpy(f->pinned, i ? right : wrong, sizeof wrong);
        assert_ok(
            yki_device_copy(f->device, at, f->pinned, sizeof wrong, YKI_TO_DEVICE, f->stream));
        assert_ok(run(f, kernel, out, scratch));
        assert_status(i ? YK_OK : YK_ERROR_INVALID_ARGUMENT, yki_stream_wait(f->device, f->stream));
        if (i == 0)
            assert_contains(yk_last_error(), text);
    }
    yki_device_free(f->device, out, BYTES);
    yki_device_free(f->device, scratch, kernel->scratch + 1);
    yki_kernel_destroy(kernel);
}

/* Moving a tensor of a sweep waits for the device, and cannot fail itself. */
YK_TEST(a_sweep_reports_what_a_move_has_learnt)
{
    fixture f;
    begin(&f);
    yki_sweep *sweep;
    const yki_span span = {.at = {f.x, f.y}, .count = 4, .dtype = YK_F32};
    const int32_t wrong[4] = {0, 3, 4, 1};
    yki_kernel *kernel = kernel_of(&f, &yki_op_cross_entropy);
    void *out, *scratch;
    assert_ok(yki_device_alloc(f.device, BYTES, &out));
    assert_ok(yki_device_alloc(f.device, kernel->scratch + 1, &scratch));
    assert_ok(yki_sweep_create(&sweep, f.device, &span, 1));
    memcpy(f.pinned, wrong, sizeof wrong);
    assert_ok(yki_device_copy(f.device, f.y, f.pinned, sizeof wrong, YKI_TO_DEVICE, f.stream));
    assert_ok(run(&f, kernel, out, scratch));
    assert_ok(yki_sweep_run(sweep, YKI_SWEEP_COPY, NULL, NULL, f.stream));
    yki_sweep_move(sweep, 0, 0, out);
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yki_sweep_run(sweep, YKI_SWEEP_COPY, NULL, NULL, f.stream));
    assert_contains(yk_last_error(), "the label of sample 2 is none of the classes");
    assert_ok(yki_sweep_run(sweep, YKI_SWEEP_COPY, NULL, NULL, f.stream));
    assert_ok(yki_stream_wait(f.device, f.stream));
    yki_sweep_destroy(sweep);
    yki_device_free(f.device, out, BYTES);
    yki_device_free(f.device, scratch, kernel->scratch + 1);
    yki_kernel_destroy(kernel);
    end(&f);
}

/* The device remains usable after such a mistake. */
YK_TEST(labels_and_indices_that_are_none_are_reported)
{
    fixture f;
    begin(&f);
    assert_reported(&f, &yki_op_cross_entropy, f.y,
                    "cross_entropy: the label of sample 2 is none of the classes");
    assert_reported(&f, &yki_op_embedding, f.x,
                    "embedding: an index of sample 2 is no row of the weight");
    end(&f);
}

/* ---- clocks ---------------------------------------------------------------------------------- */

YK_TEST(each_replay_notes_its_own_times)
{
    fixture f;
    yki_times times;
    const double *seconds;
    yki_recording *recording;
    double before = 0;
    begin(&f);
    assert_ok(yki_times_create(&times, f.device));
    assert_ok(yki_record_begin(f.device, f.stream));
    assert_ok(yki_times_note(&times, 0, f.stream));
    fill(&f, f.x, 1, f.stream);
    assert_ok(yki_times_note(&times, 1, f.stream));
    assert_ok(yki_record_end(f.device, f.stream, &recording));
    for (int i = 0; i < 3; i++) {
        assert_ok(yki_replay(f.device, recording, f.stream));
        assert_ok(yki_times_take(&times, f.stream));
        assert_ok(yki_stream_wait(f.device, f.stream));
        assert_ok(yki_times_read(&times, &seconds));
        assert_non_null(seconds);
        assert_true(seconds[0] == 0 && seconds[1] > 0 && seconds[1] < 60 && seconds[1] != before);
        before = seconds[1];
        assert_ok(yki_times_read(&times, &seconds));
        assert_null(seconds);
    }
    /* A host that is too far ahead takes no more until some are known. */
    for (int i = 0; i < YKI_TIMES_SLOTS + 2; i++) {
        assert_ok(yki_replay(f.device, recording, f.stream));
        assert_ok(yki_times_take(&times, f.stream));
    }
    assert_ok(yki_stream_wait(f.device, f.stream));
    assert_ok(yki_times_read(&times, &seconds));
    assert_non_null(seconds);
    yki_recording_destroy(f.device, recording);
    yki_times_destroy(&times);
    end(&f);
}

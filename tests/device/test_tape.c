/* Tapes: work that is walked once, recorded once and then replayed, with calls of the host. */
#include "base/trace.h"
#include "device/device.h"
#include "device/tape.h"
#include "harness.h"

enum { RUNS = 5, BYTES = 64 };

/* Bytes of a device that go from x to y to z, and what the host sees of y on the way. */
typedef struct line {
    yki_device *device;
    yki_tape tape;
    char *x, *y, *z, *host;
    int entered, noted, seen; /* seen: the first byte of y, the last time that the host looked */
    bool fails;
} line;

static char *new_bytes(yki_device *device)
{
    void *memory;
    assert_ok(yki_device_alloc(device, BYTES, &memory));
    return memory;
}

static void begin(line *l, const char *device)
{
    void *pinned;
    *l = (line){.fails = false};
    assert_ok(yki_device_create(&l->device, device, &(yki_device_options){.threads = 1}));
    assert_ok(yki_device_alloc_pinned(l->device, BYTES, &pinned));
    l->host = pinned;
    l->x = new_bytes(l->device);
    l->y = new_bytes(l->device);
    l->z = new_bytes(l->device);
}

static void end(line *l)
{
    assert_ok(yki_tape_drop(&l->tape));
    char *const memory[] = {l->x, l->y, l->z};
    for (int i = 0; i < 3; i++)
        yki_device_free(l->device, memory[i], BYTES);
    yki_device_free_pinned(l->device, l->host, BYTES);
    yki_device_destroy(l->device);
}

static yk_status copy(line *l, char *to, const char *from, yki_direction direction)
{
    return yki_device_copy(l->device, to, from, BYTES, direction, yki_device_stream(l->device));
}

static yk_status look(line *l, const char *from, int *seen)
{
    YK_TRY(copy(l, l->host, from, YKI_TO_HOST));
    YK_TRY(yki_stream_wait(l->device, yki_device_stream(l->device)));
    *seen = (unsigned char)l->host[0];
    return YK_OK;
}

static yk_status note(void *context, int64_t subject)
{
    line *l = context;
    l->noted = 10 * l->noted + (int)subject;
    return YK_OK;
}

/* What has been entered before it is in the stream, what comes after it is not. */
static yk_status look_at_y(void *context, int64_t subject)
{
    line *l = context;
    YK_TRY(note(context, subject));
    YK_TRY(look(l, l->y, &l->seen));
    return l->fails ? yki_error(YK_ERROR_INTERNAL, "the host has failed") : YK_OK;
}

static yk_status enter(void *context)
{
    line *l = context;
    l->entered++;
    YK_TRY(copy(l, l->y, l->x, YKI_WITHIN_DEVICE));
    YK_TRY(yki_tape_call(&l->tape, note, l, 1, false));
    YK_TRY(yki_tape_call(&l->tape, look_at_y, l, 2, true));
    YK_TRY(copy(l, l->z, l->y, YKI_WITHIN_DEVICE));
    return yki_tape_call(&l->tape, note, l, 3, false);
}

/* One run, after which z is to hold `value`. */
static void run(line *l, uint64_t moves, int value)
{
    int found;
    l->noted = 0;
    assert_ok(yki_device_fill(l->device, l->x, value, BYTES, yki_device_stream(l->device)));
    assert_ok(yki_tape_run(&l->tape, l->device, moves, enter, l));
    assert_int_equal(l->noted, 123);
    assert_int_equal(l->seen, value);
    assert_ok(look(l, l->z, &found));
    assert_int_equal(found, value);
}

YK_TEST(work_is_walked_recorded_and_replayed)
{
    line l;
    begin(&l, "sim");
    for (int i = 1; i <= RUNS; i++) {
        run(&l, 0, i);
        assert_int_equal(l.entered, i < 2 ? i : 2);
    }
    end(&l);
}

YK_TEST(a_host_device_always_walks)
{
    line l;
    begin(&l, "cpu");
    for (int i = 1; i <= RUNS; i++) {
        run(&l, 0, i);
        assert_int_equal(l.entered, i);
    }
    end(&l);
}

YK_TEST(what_has_moved_is_recorded_again)
{
    line l;
    begin(&l, "sim");
    for (int i = 1; i <= RUNS; i++)
        run(&l, 0, i);
    char *before = l.y;
    l.y = new_bytes(l.device);
    for (int i = 1; i <= RUNS; i++) {
        run(&l, 1, 10 * i);
        assert_int_equal(l.entered, i < 2 ? 3 : 4);
        if (i == 1)
            yki_device_free(l.device, before, BYTES); /* nothing uses it any longer */
    }
    end(&l);
}

/* So that the timeline shows each part of it. */
YK_TEST(work_is_walked_while_a_timeline_is_recorded)
{
    line l;
    begin(&l, "sim");
    for (int i = 1; i <= RUNS; i++)
        run(&l, 0, i);
    yki_trace_start();
    run(&l, 0, 7);
    assert_int_equal(l.entered, 3);
    yki_trace_stop();
    run(&l, 0, 8);
    assert_int_equal(l.entered, 3);
    end(&l);
}

/* In any of the first runs; those after it are as if it had not been. */
YK_TEST(a_call_that_fails_ends_the_run)
{
    for (int at = 1; at <= RUNS; at++) {
        line l;
        begin(&l, "sim");
        for (int i = 1; i < at; i++)
            run(&l, 0, i);
        l.fails = true;
        assert_status(YK_ERROR_INTERNAL, yki_tape_run(&l.tape, l.device, 0, enter, &l));
        assert_contains(yk_last_error(), "the host has failed");
        l.fails = false;
        for (int i = 1; i <= RUNS; i++)
            run(&l, 0, 10 * i);
        end(&l);
    }
}

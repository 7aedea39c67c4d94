/* What ranks exchange is in order with the compute stream, in each of the three ways. */
#include "device/device.h"
#include "harness.h"
#include "parallel/staging.h"

enum { PARTS = 3, ELEMENTS = 1024, BYTES = ELEMENTS * sizeof(float), ROUNDS = 3 };

/* A device, and the backend that is asked for, if any. */
static const struct way {
    const char *device, *backend;
} ways[] = {{"cpu", NULL}, {"sim", NULL}, {"sim", "shm"}};
enum { WAYS = sizeof ways / sizeof *ways };

/* Parts that are exchanged, and other memory of the device. */
typedef struct fixture {
    yk_group *group;
    yki_device *device;
    yki_staging staging;
    yki_staged_part part[PARTS];
    char *other; /* (ROUNDS, PARTS, BYTES) */
} fixture;

static char *part_at(const fixture *f, int part)
{
    return (char *)f->staging.memory + part * BYTES;
}

static char *other_at(const fixture *f, int round, int part)
{
    return f->other + (round * PARTS + part) * BYTES;
}

static void begin(fixture *f, const struct way *way)
{
    yk_group *group;
    assert_ok(yk_group_init(
        &group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.backend = way->backend)));
    *f = (fixture){.group = group};
    assert_ok(yki_device_create(&f->device, way->device, &(yki_device_options){.threads = 1}));
    assert_ok(yki_staging_create(&f->staging, group, f->device, PARTS * BYTES));
    assert_int_equal(f->staging.plane != NULL, !yki_device_is_host(f->device) && !way->backend);
    assert_string_equal(yk_group_exchange(group), yki_device_is_host(f->device) ? ""
                                                  : way->backend
                                                      ? "staged through shm: as asked for"
                                                      : "sim, in the device's streams");
    assert_ok(yki_staging_open_host(&f->staging));
    for (int part = 0; part < PARTS; part++)
        assert_ok(yki_staged_part_create(&f->part[part], &f->staging, part_at(f, part), ELEMENTS,
                                         YK_F32));
    void *other;
    assert_ok(yki_device_alloc(f->device, ROUNDS * PARTS * BYTES, &other));
    f->other = other;
}

static void end(fixture *f)
{
    for (int part = 0; part < PARTS; part++)
        yki_staged_part_destroy(&f->part[part]);
    yki_staging_destroy(&f->staging);
    yki_device_free(f->device, f->other, ROUNDS * PARTS * BYTES);
    yki_device_destroy(f->device);
    yk_group_destroy(f->group);
}

/* Enters a copy in the compute stream. */
static void copy(const fixture *f, void *to, const void *from)
{
    assert_ok(yki_device_copy(f->device, to, from, BYTES, YKI_WITHIN_DEVICE,
                              yki_device_stream(f->device)));
}

static yk_tensor tensor_at(const fixture *f, void *data)
{
    return (yk_tensor){
        .data = data, .dtype = YK_F32, .ndim = 1, .dims = {ELEMENTS}, .device = f->device};
}

/* Elements are value + i. */
static void set(const fixture *f, void *data, int value)
{
    float values[ELEMENTS];
    yk_tensor tensor = tensor_at(f, data);
    for (int i = 0; i < ELEMENTS; i++)
        values[i] = (float)(value + i);
    assert_ok(yk_tensor_write(&tensor, values));
}

/* Elements are to be value + scale i. */
static void expect(const fixture *f, void *data, int value, int scale)
{
    float values[ELEMENTS];
    yk_tensor tensor = tensor_at(f, data);
    assert_ok(yk_tensor_read(&tensor, values));
    for (int i = 0; i < ELEMENTS; i++)
        if (values[i] != (float)(value + scale * i))
            fail_msg("%s: [%d] is %g, expected %d", f->device->type->name, i, (double)values[i],
                     value + scale * i);
}

typedef struct hook {
    yk_group *group;
    float *buffer;
} hook;

/* Sums, and negates the sum. */
static yk_status exchange(void *context)
{
    hook *h = context;
    YK_TRY(yk_all_reduce(h->group, h->buffer, ELEMENTS, YK_F32, YK_REDUCE_SUM, NULL));
    for (int i = 0; i < ELEMENTS; i++)
        h->buffer[i] = -h->buffer[i];
    return YK_OK;
}

/* Parts come from elsewhere just before they are exchanged, and go elsewhere just after. */
static void exchange_parts(fixture *f, int rank, int world, int round)
{
    yk_work *work[PARTS] = {NULL};
    hook h = {f->group, yki_staging_host(&f->staging, part_at(f, 2))};
    int sum = round * world + world * (world - 1) / 2;
    for (int part = 0; part < PARTS; part++)
        set(f, other_at(f, 0, part), round + rank);
    for (int part = 0; part < PARTS; part++) {
        copy(f, part_at(f, part), other_at(f, 0, part));
        if (part == 2)
            assert_ok(yki_staged_run(&f->part[part], exchange, &h, &work[part]));
        else
            assert_ok(yki_staged_all_reduce(&f->part[part], &work[part]));
    }
    for (int part = 0; part < PARTS; part++) {
        if (work[part])
            assert_ok(yk_work_wait(work[part]));
        assert_ok(yki_staged_part_land(&f->part[part]));
        copy(f, other_at(f, 1, part), part_at(f, part));
    }
    for (int part = 0; part < PARTS; part++)
        expect(f, other_at(f, 1, part), part == 2 ? -sum : sum, part == 2 ? -world : world);
}

YK_TEST_RANKS(parts_are_exchanged_in_order_with_the_compute_stream, 3)
{
    for (int i = 0; i < WAYS; i++) {
        fixture f;
        begin(&f, &ways[i]);
        for (int round = 0; round < ROUNDS; round++)
            exchange_parts(&f, rank, world, round);
        end(&f);
    }
}

/* Several in a row, each from another rank, before anyone looks. */
YK_TEST_RANKS(broadcasts_are_in_order_with_the_compute_stream, 3)
{
    for (int i = 0; i < WAYS; i++) {
        fixture f;
        begin(&f, &ways[i]);
        for (int part = 0; part < PARTS; part++)
            set(&f, other_at(&f, 0, part), 10 * rank + part);
        for (int round = 0; round < ROUNDS; round++) {
            for (int part = 0; part < PARTS; part++)
                copy(&f, part_at(&f, part), other_at(&f, 0, part));
            assert_ok(yki_staging_broadcast(&f.staging, round));
            for (int part = 0; round > 0 && part < PARTS; part++)
                copy(&f, other_at(&f, round, part), part_at(&f, part));
        }
        for (int round = 1; round < ROUNDS; round++)
            for (int part = 0; part < PARTS; part++)
                expect(&f, other_at(&f, round, part), 10 * round + part, 1);
        end(&f);
    }
}

/* Each rank's share is the part of its number. */
YK_TEST_RANKS(shares_are_gathered_in_order_with_the_compute_stream, PARTS)
{
    for (int i = 0; i < WAYS; i++) {
        fixture f;
        begin(&f, &ways[i]);
        for (int round = 0; round < ROUNDS; round++)
            set(&f, other_at(&f, round, rank), 100 * round + rank);
        for (int round = 0; round < ROUNDS; round++) {
            copy(&f, part_at(&f, rank), other_at(&f, round, rank));
            assert_ok(yki_staging_all_gather(&f.staging));
            for (int part = 0; part < PARTS; part++)
                copy(&f, other_at(&f, round, part), part_at(&f, part));
        }
        for (int round = 0; round < ROUNDS; round++)
            for (int part = 0; part < PARTS; part++)
                expect(&f, other_at(&f, round, part), 100 * round + part, 1);
        end(&f);
    }
}

/* The key-value store: its operations, and how long they wait. */
#define _GNU_SOURCE
#include "store_fixture.h"

#include <math.h>

#include "base/clock.h"

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
    assert_status(YK_ERROR_TIMEOUT, yk_store_connect(&store, "127.0.0.1", 1, NULL, (double)NAN));
    assert_null(store);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_store_serve(&server, "127.0.0.1", NULL, NULL));
    assert_null(server);
    end(&f);
}

/* ---- waits ---------------------------------------------------------------------------------- */

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

/* ---- sums ----------------------------------------------------------------------------------- */

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

/* ---- keys that are compared, deleted, listed and prefixed ----------------------------------- */

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
    assert_ok(yk_store_list(other, "job/1/", keys, sizeof keys, &used));
    assert_int_equal(used, sizeof "job/1/a");
    assert_string_equal(keys, "job/1/a");
    static char long_prefix[600];
    memset(long_prefix, 'x', sizeof long_prefix - 1);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_store_set_prefix(other, long_prefix));
    yk_store_destroy(other);
    end(&f);
}

/* A list has no prefix, and so takes no room for it: with a long one, a job did not learn which of
 * its ranks on other hosts had died or left. */
YK_TEST(a_long_prefix_takes_no_room_in_lists)
{
    fixture f = begin("s");
    char keys[4], prefix[512 + 1];
    size_t used;
    memset(prefix, 'x', sizeof prefix - 1);
    prefix[sizeof prefix - 1] = '\0';
    assert_ok(yk_store_set_prefix(f.store, prefix));
    assert_ok(yk_store_set(f.store, "b", "", 0));
    assert_ok(yk_store_set(f.store, "a", "", 0));
    assert_ok(yk_store_list(f.store, "", keys, sizeof keys, &used));
    assert_int_equal(used, 4);
    assert_memory_equal(keys, "a\0b", 4);
    end(&f);
}

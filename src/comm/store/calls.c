/* The requests of <yoke/store.h>. */
#define _GNU_SOURCE
#include "comm/store/client.h"

#include "base/error.h"

/* A wait as the server takes it; very long ones, and infinity, are capped. */
static int64_t milliseconds(double seconds)
{
    if (!(seconds > 0))
        return 0;
    return seconds < 1e12 ? (int64_t)(seconds * 1e3) : INT64_C(1000000000000000);
}

yk_status yk_store_set(yk_store *store, const char *key, const void *value, size_t size)
{
    return yki_store_run(
        store, &(yki_store_request){
                   .operation = YKI_STORE_SET, .key = key, .put = {value}, .put_size = {size}});
}

yk_status yk_store_get(yk_store *store, const char *key, void *value, size_t size, size_t *used,
                       double timeout_s)
{
    YKI_NOT_NULL(value);
    YKI_NOT_NULL(used);
    *used = 0;
    yki_store_request request = {.operation = YKI_STORE_GET,
                                 .key = key,
                                 .number = milliseconds(timeout_s),
                                 .wait_s = timeout_s,
                                 .value = value,
                                 .size = size};
    YK_TRY(yki_store_run(store, &request));
    *used = request.reply.value_size;
    return YK_OK;
}

yk_status yk_store_add(yk_store *store, const char *key, int64_t delta, int64_t *result)
{
    YKI_NOT_NULL(result);
    yki_store_request request = {.operation = YKI_STORE_ADD, .key = key, .number = delta};
    YK_TRY(yki_store_run(store, &request));
    *result = request.reply.number;
    return YK_OK;
}

yk_status yk_store_check(yk_store *store, const char *key, bool *found)
{
    YKI_NOT_NULL(found);
    yki_store_request request = {.operation = YKI_STORE_CHECK, .key = key};
    YK_TRY(yki_store_run(store, &request));
    *found = request.reply.number != 0;
    return YK_OK;
}

yk_status yk_store_wait(yk_store *store, const char *key, double timeout_s)
{
    return yki_store_run(store, &(yki_store_request){.operation = YKI_STORE_WAIT,
                                                     .key = key,
                                                     .number = milliseconds(timeout_s),
                                                     .wait_s = timeout_s});
}

yk_status yk_store_compare_set(yk_store *store, const char *key, const void *expected,
                               size_t expected_size, const void *desired, size_t desired_size,
                               bool *changed)
{
    YKI_NOT_NULL(changed);
    *changed = false;
    yki_store_request request = {.operation = YKI_STORE_COMPARE_SET,
                                 .key = key,
                                 .number = expected ? (int64_t)expected_size : YKI_STORE_ABSENT,
                                 .put = {expected, desired},
                                 .put_size = {expected ? expected_size : 0, desired_size}};
    YK_TRY(yki_store_run(store, &request));
    *changed = request.reply.number != 0;
    return YK_OK;
}

yk_status yk_store_delete(yk_store *store, const char *key, bool *found)
{
    yki_store_request request = {.operation = YKI_STORE_DELETE, .key = key};
    YK_TRY(yki_store_run(store, &request));
    if (found)
        *found = request.reply.number != 0;
    return YK_OK;
}

yk_status yk_store_list(yk_store *store, const char *prefix, char *keys, size_t size, size_t *used)
{
    YKI_NOT_NULL(store);
    YKI_NOT_NULL(keys);
    YKI_NOT_NULL(used);
    *used = 0;
    yki_store_request request = {.operation = YKI_STORE_LIST,
                                 .key = prefix,
                                 .number = (int64_t)yki_store_prefix_size(store),
                                 .size = size};
    request.value = keys;
    YK_TRY(yki_store_run(store, &request));
    *used = request.reply.value_size;
    return YK_OK;
}

yk_status yk_store_set_will(yk_store *store, const char *key, const void *value, size_t size)
{
    return yki_store_run(
        store, &(yki_store_request){
                   .operation = YKI_STORE_WILL, .key = key, .put = {value}, .put_size = {size}});
}

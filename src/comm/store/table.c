/* FNV-1a over the key; a few hundred keys a job, so 1,024 chains are plenty. */
#define _GNU_SOURCE
#include "comm/store/table.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "comm/store/wire.h"

static size_t bucket_of(const char *key)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *key; key++)
        hash = (hash ^ (unsigned char)*key) * 0x100000001b3u;
    return (size_t)(hash % YKI_STORE_BUCKETS);
}

const yki_store_entry *yki_store_table_find(const yki_store_table *table, const char *key)
{
    const yki_store_entry *entry = table->buckets[bucket_of(key)];
    while (entry && strcmp(entry->key, key) != 0)
        entry = entry->next;
    return entry;
}

static yki_store_entry *insert(yki_store_table *table, const char *key)
{
    size_t size = strlen(key) + 1;
    yki_store_entry *entry = calloc(1, sizeof *entry + size);
    if (!entry)
        return NULL;
    memcpy(entry->key, key, size);
    yki_store_entry **bucket = &table->buckets[bucket_of(key)];
    entry->next = *bucket;
    *bucket = entry;
    table->bytes += sizeof *entry + size;
    return entry;
}

yk_status yki_store_table_set(yki_store_table *table, const char *key, const void *value,
                              size_t size)
{
    if (table->bytes + size + strlen(key) > YKI_STORE_MAX_TOTAL)
        return yki_error(YK_ERROR_OUT_OF_MEMORY, "the store is full: %d bytes",
                         YKI_STORE_MAX_TOTAL);
    char *copy = malloc(size ? size : 1);
    if (!copy)
        return yki_error_memory(size, "a value of the store");
    yki_store_entry *entry = (yki_store_entry *)yki_store_table_find(table, key);
    if (!entry)
        entry = insert(table, key);
    if (!entry) {
        free(copy);
        return yki_error_memory(sizeof *entry, "a key of the store");
    }
    if (size)
        memcpy(copy, value, size);
    table->bytes += size - entry->value_size;
    free(entry->value);
    entry->value = copy;
    entry->value_size = size;
    return YK_OK;
}

bool yki_store_table_delete(yki_store_table *table, const char *key)
{
    yki_store_entry **link = &table->buckets[bucket_of(key)];
    while (*link && strcmp((*link)->key, key) != 0)
        link = &(*link)->next;
    yki_store_entry *entry = *link;
    if (!entry)
        return false;
    *link = entry->next;
    table->bytes -= sizeof *entry + strlen(key) + 1 + entry->value_size;
    free(entry->value);
    free(entry);
    return true;
}

static int compare_keys(const void *a, const void *b)
{
    const char *const *first = a, *const *second = b;
    return strcmp(*first, *second);
}

/* The entries whose keys begin with prefix, at most `size` of them; how many there are. */
static size_t collect(const yki_store_table *table, const char *prefix, const char **keys,
                      size_t size)
{
    size_t count = 0, length = strlen(prefix);
    for (size_t i = 0; i < YKI_STORE_BUCKETS; i++)
        for (const yki_store_entry *entry = table->buckets[i]; entry; entry = entry->next) {
            if (strncmp(entry->key, prefix, length) != 0)
                continue;
            if (count < size)
                keys[count] = entry->key;
            count++;
        }
    return count;
}

yk_status yki_store_table_list(const yki_store_table *table, const char *prefix, size_t skip,
                               char **list, size_t *size)
{
    size_t count = collect(table, prefix, NULL, 0);
    const char **keys = calloc(count ? count : 1, sizeof *keys);
    *list = NULL;
    *size = 0;
    if (!keys)
        return yki_error_memory(count * sizeof *keys, "the keys of the store");
    collect(table, prefix, keys, count);
    qsort(keys, count, sizeof *keys, compare_keys);
    for (size_t i = 0; i < count; i++)
        *size += strlen(keys[i]) - skip + 1;
    char *at = *list = malloc(*size ? *size : 1);
    for (size_t i = 0; at && i < count; i++)
        at = stpcpy(at, keys[i] + skip) + 1;
    free(keys);
    return *list ? YK_OK : yki_error_memory(*size, "the keys of the store");
}

void yki_store_table_fini(yki_store_table *table)
{
    for (size_t i = 0; i < YKI_STORE_BUCKETS; i++)
        for (yki_store_entry *entry = table->buckets[i], *next; entry; entry = next) {
            next = entry->next;
            free(entry->value);
            free(entry);
        }
    *table = (yki_store_table){0};
}

/* The store's keys and values: a chained hash table, bounded in bytes. Not thread-safe. */
#ifndef YKI_STORE_TABLE_H
#define YKI_STORE_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum { YKI_STORE_BUCKETS = 1024 };

typedef struct yki_store_entry {
    struct yki_store_entry *next;
    size_t value_size;
    char *value;
    char key[];
} yki_store_entry;

/* All zero is an empty table. */
typedef struct yki_store_table {
    yki_store_entry *buckets[YKI_STORE_BUCKETS];
    size_t bytes;
} yki_store_table;

/* NULL when the key is not there. */
const yki_store_entry *yki_store_table_find(const yki_store_table *table, const char *key);
yk_status yki_store_table_set(yki_store_table *table, const char *key, const void *value,
                              size_t size);
/* Whether the key was there. */
bool yki_store_table_delete(yki_store_table *table, const char *key);
/* The sorted keys that begin with prefix, without its first `skip` bytes, each followed by a zero;
 * *list is to be freed. */
yk_status yki_store_table_list(const yki_store_table *table, const char *prefix, size_t skip,
                               char **list, size_t *size);
void yki_store_table_fini(yki_store_table *table);

#endif

/*
 * A copy in host memory of many tensors, each of them once: what a file is written from while the
 * originals change. The copies' memory is kept from one snapshot to the next.
 */
#ifndef YKI_SNAPSHOT_H
#define YKI_SNAPSHOT_H

#include <stddef.h>

#include <yoke/tensor.h>

#include "base/error.h"

typedef struct yki_snapshot_block {
    yk_tensor from;
    size_t at; /* its place in the snapshot's memory */
} yki_snapshot_block;

/* Zeros make an empty one. */
typedef struct yki_snapshot {
    yki_snapshot_block *blocks;
    size_t count, capacity;
    size_t next;  /* where the next search begins: blocks are mostly asked for in order */
    size_t bytes; /* of all blocks */
    char *memory;
    size_t memory_bytes;
} yki_snapshot;

/* Adds a tensor, unless it is in already. */
yk_status yki_snapshot_add(yki_snapshot *snapshot, const yk_tensor *from);
/* Copies all tensors, wherever they are. */
yk_status yki_snapshot_take(yki_snapshot *snapshot);
/* The copy of a tensor that was added before the snapshot was taken. */
void *yki_snapshot_find(yki_snapshot *snapshot, const yk_tensor *from);
/* Forgets the blocks and keeps the memory for the next ones. */
void yki_snapshot_clear(yki_snapshot *snapshot);
void yki_snapshot_fini(yki_snapshot *snapshot);

#endif

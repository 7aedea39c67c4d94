/*
 * The manifest of a folder of checkpoints, DIR/manifest.json:
 *
 *     {"version": 1, "checkpoints": [{"file": "checkpoint-1.pth", "epoch": 1, "step": 391,
 *      "bytes": 89423616, "sha256": "9f86...", "saved_at": 1700000000.25,
 *      "run_id": "none", "agent": "/tmp/torchelastic_ab/none_cd"}, ...]}
 *
 * in the order of saving; "slurm_job", "run_id" and "agent", the origin, where there are any. It is
 * a help, not an authority: a checkpoint that it does not list is still a checkpoint. While one
 * gets its name, "saving" has its entry, by which the next save knows a checkpoint whose writer
 * died before it was listed from a file of somebody else.
 */
#ifndef YKI_MANIFEST_H
#define YKI_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "checkpoint/origin.h"
#include "io/hash.h"

enum { YKI_MANIFEST_NAME = 64 };

typedef struct yki_manifest_entry {
    char file[YKI_MANIFEST_NAME]; /* of a checkpoint, without a folder */
    int64_t epoch, step, bytes;
    char sha256[YKI_SHA256_TEXT];
    double saved_at; /* seconds since 1970 */
    yki_origin origin;
} yki_manifest_entry;

typedef struct yki_manifest {
    yki_manifest_entry *entries;
    size_t count, room;
    yki_manifest_entry saving; /* without a name: none */
} yki_manifest;

/* Whether a file's name is one that a checkpoint is given, checkpoint-NUMBER.pth or
 * checkpoint-step-NUMBER.pth: copies under other names, as checkpoint-best.pth, are the user's. */
bool yki_is_checkpoint_name(const char *name);

/* An absent manifest is an empty one. Free it with fini, also after an error. */
yk_status yki_manifest_read(yki_manifest *manifest, const char *dir);
/* Atomically. */
yk_status yki_manifest_write(const yki_manifest *manifest, const char *dir);
void yki_manifest_fini(yki_manifest *manifest);

yki_manifest_entry *yki_manifest_find(const yki_manifest *manifest, const char *file);
yk_status yki_manifest_append(yki_manifest *manifest, const yki_manifest_entry *entry);
/* False when it was not there. */
bool yki_manifest_remove(yki_manifest *manifest, const char *file);

#endif

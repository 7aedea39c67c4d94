/*
 * Output folders that are not shared: one path may name another folder on each host. Rank 0 writes
 * the checkpoints; in every other folder, the lowest rank that sees it keeps a copy of them.
 */
#ifndef YKI_FOLDERS_H
#define YKI_FOLDERS_H

#include <yoke/group.h>

#include "base/error.h"

typedef struct yki_folder_view {
    int keepers;      /* ranks that keep copies; 0: the folder is shared */
    bool keeps;       /* this rank is one of them */
    yk_status denied; /* not YK_OK: rank 0 cannot create files there, for the last error */
} yki_folder_view;

/*
 * Collective: finds out who sees which folder, by files that exist for a moment. group is NULL for
 * one process. A folder that rank 0 cannot write to counts as shared.
 */
yk_status yki_folder_look(yki_folder_view *view, const char *folder, yk_group *group);

/* Collective: copies the checkpoint that rank 0 has saved last to the folders of the keepers. */
yk_status yki_folder_copy(const yki_folder_view *view, const char *folder, int keep,
                          yk_group *group);

#endif

/* See folders.h. */
#define _GNU_SOURCE
#include "train/folders.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <yoke/train.h>

#include "base/folder.h"
#include "base/log.h"
#include "base/memory.h"
#include "checkpoint/checkpoint_dir.h"
#include "comm/group_internal.h"
#include "io/input_file.h"
#include "train/sums.h"

enum { CHUNK = 4 << 20, STALE_S = 3600 };

/* ---- who sees which folder ------------------------------------------------------------------- */

/* The file by which a rank shows which folder it sees. */
static yk_status name_token(char path[PATH_MAX], const char *folder, uint64_t nonce, int rank)
{
    char name[64];
    snprintf(name, sizeof name, ".yoke-%016llx-%d", (unsigned long long)nonce, rank);
    return yki_join_path(path, folder, name);
}

static yk_status create_token(const char *folder, uint64_t nonce, int rank)
{
    char path[PATH_MAX];
    YK_TRY(name_token(path, folder, nonce, rank));
    YK_TRY(yki_make_folders(folder));
    int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
    if (fd < 0)
        return yki_error(YK_ERROR_IO, "%s: cannot create files there: %s", folder, strerror(errno));
    close(fd);
    return YK_OK;
}

/* Opening asks the server of a network file system; access() may ask a cache. */
static bool sees_token(const char *folder, uint64_t nonce, int rank)
{
    char path[PATH_MAX];
    int fd = name_token(path, folder, nonce, rank) == YK_OK ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static void remove_token(const char *folder, uint64_t nonce, int rank)
{
    char path[PATH_MAX];
    if (name_token(path, folder, nonce, rank) == YK_OK)
        unlink(path);
}

static bool is_token(const char *name)
{
    unsigned long long nonce;
    int rank, used = 0;
    return sscanf(name, ".yoke-%16llx-%d%n", &nonce, &rank, &used) == 2 && !name[used];
}

/* Removes what ranks that were killed while they looked have left. Files are as old as the clock of
 * their file system says, which has also dated this rank's token. */
static void remove_stale_tokens(const char *folder, uint64_t nonce, int rank)
{
    char path[PATH_MAX];
    struct stat own, other;
    const struct dirent *entry;
    DIR *entries = opendir(folder);
    if (!entries)
        return;
    bool dated = name_token(path, folder, nonce, rank) == YK_OK && stat(path, &own) == 0;
    while (dated && (entry = readdir(entries)))
        if (is_token(entry->d_name) && yki_join_path(path, folder, entry->d_name) == YK_OK &&
            lstat(path, &other) == 0 && own.st_mtime - other.st_mtime > STALE_S)
            unlink(path);
    closedir(entries);
}

/* Ranks whose tokens exist: the lowest one in each folder keeps the copies. */
static yk_status choose_lowest(yki_folder_view *view, const char *folder, uint64_t nonce,
                               bool sees_rank0, yk_group *group)
{
    int rank = yk_group_rank(group), lowest = 1;
    YK_TRY(yk_barrier(group));
    while (!sees_rank0 && lowest < rank && !sees_token(folder, nonce, lowest))
        lowest++;
    view->keeps = !sees_rank0 && lowest == rank;
    int32_t keepers = view->keeps;
    YK_TRY(yk_all_reduce(group, &keepers, 1, YK_I32, YK_REDUCE_SUM, NULL));
    view->keepers = keepers;
    return YK_OK;
}

/* The same, of the ranks that do not see rank 0's folder. */
static yk_status choose_keepers(yki_folder_view *view, const char *folder, uint64_t nonce,
                                bool sees_rank0, yk_group *group)
{
    int rank = yk_group_rank(group);
    if (!sees_rank0 && create_token(folder, nonce, rank) != YK_OK)
        return yki_error(YK_ERROR_IO,
                         "%s: is not shared with rank 0, and cannot be written to here", folder);
    yk_status status = choose_lowest(view, folder, nonce, sees_rank0, group);
    if (!sees_rank0)
        remove_token(folder, nonce, rank);
    return status;
}

/* Rank 0 creates its token, and tells the others its number and whether it could: *denied. */
static yk_status tell_token(yk_status *denied, const char *folder, uint64_t *nonce, yk_group *group)
{
    char line[YKI_ERROR_LINE];
    bool creates = yk_group_rank(group) == 0;
    yk_status created = creates ? create_token(folder, *nonce, 0) : YK_OK;
    uint64_t told[2] = {*nonce, (uint64_t)created};
    yki_error_copy(line, sizeof line);
    YK_TRY(yk_broadcast(group, told, sizeof told, YK_U8, 0, NULL));
    *nonce = told[0];
    *denied = (yk_status)told[1];
    if (*denied != YK_OK && creates)
        yki_error_set_line(*denied, line);
    else if (*denied != YK_OK)
        yki_error(*denied, "%s: rank 0 cannot create files there", folder);
    return YK_OK;
}

/* Whether this rank sees rank 0's token, and whether all ranks do; unless *denied. */
static yk_status look_for_token(yki_folder_view *view, const char *folder, uint64_t *nonce,
                                bool *sees, bool *all_see, yk_group *group)
{
    YK_TRY(tell_token(&view->denied, folder, nonce, group));
    if (view->denied != YK_OK)
        return YK_OK;
    *sees = sees_token(folder, *nonce, 0);
    int32_t unseen = !*sees;
    YK_TRY(yki_max_over_ranks_i32(group, &unseen));
    *all_see = !unseen;
    return YK_OK;
}

yk_status yki_folder_look(yki_folder_view *view, const char *folder, yk_group *group)
{
    struct timespec now;
    *view = (yki_folder_view){.keepers = 0};
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t nonce = (uint64_t)now.tv_nsec << 32 ^ (uint64_t)now.tv_sec << 20 ^ (uint64_t)getpid();
    bool alone = !group || yk_group_size(group) == 1, sees = true, all_see = true;
    yk_status status = YK_OK;
    if (alone)
        view->denied = create_token(folder, nonce, 0);
    else
        status = look_for_token(view, folder, &nonce, &sees, &all_see, group);
    if (view->denied == YK_OK && (alone || yk_group_rank(group) == 0)) {
        remove_stale_tokens(folder, nonce, 0);
        remove_token(folder, nonce, 0);
    }
    return status != YK_OK || all_see ? status : choose_keepers(view, folder, nonce, sees, group);
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* What a copy is made of; from the root to all ranks, chunk by chunk. */
typedef struct copy {
    yki_manifest_entry entry;
    int root;
    yki_input_file from; /* open on the root alone */
    bool receives;
    yki_atomic_file file; /* of a rank that receives */
    char *chunk;          /* [CHUNK] */
} copy;

static yk_status move_chunks(const copy *c, yk_group *group)
{
    bool reads = yk_group_rank(group) == c->root;
    size_t bytes = (size_t)c->entry.bytes;
    for (size_t at = 0, size; at < bytes; at += size) {
        size = bytes - at < CHUNK ? bytes - at : CHUNK;
        if (reads)
            YK_TRY(yki_input_file_read(&c->from, at, c->chunk, size));
        YK_TRY(yk_broadcast(group, c->chunk, size, YK_U8, c->root, NULL));
        if (c->receives)
            YK_TRY(yki_write_all(c->file.fd, c->file.path, c->chunk, size));
    }
    return YK_OK;
}

/* The file has arrived. */
static yk_status check_copy(const copy *c)
{
    char hash[YKI_SHA256_TEXT];
    int64_t bytes;
    YK_TRY(yki_sha256_fd(c->file.fd, c->file.path, hash, &bytes));
    return strcmp(hash, c->entry.sha256) == 0
               ? YK_OK
               : yki_error(YK_ERROR_IO, "%s: the copy has arrived damaged", c->file.path);
}

/* Collective: the root's file to the receivers, which check and keep it. */
static yk_status transfer(copy *c, const char *folder, int keep, yk_group *group)
{
    char to[PATH_MAX];
    if (c->receives) {
        YK_TRY(yki_join_path(to, folder, c->entry.file));
        YK_TRY(yki_make_folders(folder));
        YK_TRY(yki_atomic_open(&c->file, to));
    }
    YK_TRY(move_chunks(c, group));
    if (!c->receives)
        return YK_OK;
    YK_TRY(check_copy(c));
    return yki_dir_publish(folder, keep, &c->entry, &c->file);
}

/* Collective: the root's file, which the entry describes, into the folder of each receiver. */
static yk_status copy_checkpoint(copy *c, const char *path, const char *folder, int keep,
                                 yk_group *group)
{
    YK_TRY(yk_broadcast(group, &c->entry, sizeof c->entry, YK_U8, c->root, NULL));
    if (path)
        YK_TRY(yki_input_file_open(&c->from, path));
    c->chunk = malloc(CHUNK);
    c->file.fd = -1;
    yk_status status = c->chunk ? transfer(c, folder, keep, group)
                                : yki_error_memory(CHUNK, "a copy of a checkpoint");
    yki_atomic_abandon(&c->file);
    free(c->chunk);
    yki_input_file_close(&c->from);
    return status;
}

yk_status yki_folder_copy(const yki_folder_view *view, const char *folder, int keep,
                          yk_group *group)
{
    char path[PATH_MAX];
    copy c = {.receives = view->keeps};
    if (view->keepers == 0)
        return YK_OK;
    bool sends = yk_group_rank(group) == 0;
    if (sends)
        YK_TRY(yki_dir_last_saved(folder, &c.entry, path));
    YK_TRY(copy_checkpoint(&c, sends ? path : NULL, folder, keep, group));
    return yk_barrier(group); /* none leaves before all have it */
}

/* ---- the newest of all folders --------------------------------------------------------------- */

/* When each rank's newest checkpoint was saved; -1 where it has none, or keeps none. */
static yk_status gather_newest(double *saved_at, const copy *own, yk_group *group)
{
    double mine = own->entry.file[0] ? own->entry.saved_at : -1;
    return yk_all_gather(group, saved_at, &mine, 1, YK_F64, NULL);
}

/* The ranks that have an older one, or none, receive the newest. */
static yk_status spread_newest(copy *c, const yki_folder_view *view, const char *path,
                               const char *folder, const double *saved_at, yk_group *group)
{
    int rank = yk_group_rank(group), ranks = yk_group_size(group);
    for (int r = 1; r < ranks; r++)
        if (saved_at[r] > saved_at[c->root])
            c->root = r;
    if (saved_at[c->root] < 0)
        return YK_OK;
    bool receives = (rank == 0 || view->keeps) && saved_at[rank] < saved_at[c->root];
    int32_t missing = receives;
    YK_TRY(yki_max_over_ranks_i32(group, &missing));
    if (!missing)
        return YK_OK;
    c->receives = receives;
    if (rank == 0)
        YKI_WARN("%s: the newest checkpoint is in rank %d's folder; other hosts get a copy", folder,
                 yki_group_job_rank(group, c->root));
    return copy_checkpoint(c, rank == c->root ? path : NULL, folder, YK_KEEP_ALL, group);
}

yk_status yk_checkpoint_dir_share(const char *dir, yk_group *group)
{
    char path[PATH_MAX];
    yki_folder_view view;
    copy own = {.root = 0};
    YKI_NOT_NULL(dir);
    if (!group || yk_group_size(group) == 1)
        return YK_OK;
    YK_TRY(yki_folder_look(&view, dir, group));
    if (view.keepers == 0)
        return YK_OK;
    bool looks = yk_group_rank(group) == 0 || view.keeps;
    if (looks && yki_dir_newest(dir, &own.entry, path) != YK_OK)
        own.entry.file[0] = '\0';
    double *saved_at = yki_calloc((size_t)yk_group_size(group), sizeof *saved_at);
    if (!saved_at)
        return yki_error_memory((size_t)yk_group_size(group) * sizeof *saved_at, "a list of ranks");
    yk_status status = gather_newest(saved_at, &own, group);
    if (status == YK_OK)
        status = spread_newest(&own, &view, path, dir, saved_at, group);
    free(saved_at);
    return status == YK_OK ? yk_barrier(group) : status;
}

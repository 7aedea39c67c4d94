/*
 * A folder of checkpoints. Saving takes these steps, and the process may die between any two:
 *
 *     1. write and sync checkpoint-E.pth.tmp, hash it
 *     2. write model.pth, the weights alone, for users of the trained model
 *     3. remove an older file of this name from the manifest, and note there what is being saved
 *     4. rename it to checkpoint-E.pth
 *     5. add it to the manifest, then delete all but the newest `keep`
 *
 * A file under its final name is always complete. Between 4 and 5 it is not listed, so the search
 * for the newest checkpoint also looks at the folder, and accepts an unlisted file if the CRC-32 of
 * every member is right. Where the process died there, the next save lists the file, if it is the
 * one that was noted, and so it is deleted in its turn. If model.pth cannot be written, as on a
 * full disk, the save ends after 4, and all that is complete stays. A run that has no step left to
 * take repeats a save that has not come to its end. Newest means saved last, not trained longest: a
 * run may have been restarted from the beginning. It is told by the time of saving, which only
 * grows in a folder.
 */
#define _GNU_SOURCE
#include "checkpoint/checkpoint_dir.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/log.h"
#include "base/memory.h"
#include "checkpoint/tensor_file/dcp.h"

/* Between the times of two checkpoints, where the clock has none. */
static const double STEP_S = 1e-3;

static double time_in_seconds(struct timespec time)
{
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Without a readable manifest the folder's files are enough. */
static void read_manifest(yki_manifest *manifest, const char *dir)
{
    if (yki_manifest_read(manifest, dir) == YK_OK)
        return;
    YKI_WARN("continuing without the manifest: %s", yki_error_text());
    yki_manifest_fini(manifest);
}

/* By its hash. */
static yk_status verify_listed(const char *path, const yki_manifest_entry *entry)
{
    char hash[YKI_SHA256_TEXT];
    int64_t bytes;
    YK_TRY(yki_sha256_file(path, hash, &bytes));
    if (bytes != entry->bytes)
        return yki_error(YK_ERROR_FORMAT, "%s: expected %lld bytes, found %lld", path,
                         (long long)entry->bytes, (long long)bytes);
    if (strcmp(hash, entry->sha256) != 0)
        return yki_error(YK_ERROR_FORMAT, "%s: expected SHA-256 %.16s..., found %.16s...", path,
                         entry->sha256, hash);
    return YK_OK;
}

/* ---- saving --------------------------------------------------------------------------------- */

static void name_checkpoint(yki_manifest_entry *entry, const yk_training_state *state)
{
    *entry = (yki_manifest_entry){
        .epoch = state->epoch, .step = state->step, .origin = yki_origin_here()};
    if (state->epoch_batch == 0)
        snprintf(entry->file, sizeof entry->file, "checkpoint-%lld.pth", (long long)state->epoch);
    else
        snprintf(entry->file, sizeof entry->file, "checkpoint-step-%lld.pth",
                 (long long)state->step);
}

/* Deletes all but the newest `keep`. An entry is removed only after its file. */
static yk_status prune(yki_manifest *manifest, const char *dir, int keep)
{
    if (manifest->count <= (size_t)keep)
        return YK_OK;
    while (manifest->count > (size_t)keep) {
        char path[PATH_MAX];
        YK_TRY(yki_join_path(path, dir, manifest->entries[0].file));
        if (unlink(path) != 0 && errno != ENOENT)
            YKI_WARN("%s: cannot delete the old checkpoint: %s", path, strerror(errno));
        yki_manifest_remove(manifest, manifest->entries[0].file);
    }
    return yki_manifest_write(manifest, dir);
}

/* The time that the entry gets, and its file with it: later than those of the checkpoints saved
 * before, also where the clock has been set back since. */
static double time_of_saving(const yki_manifest *manifest, const yki_manifest_entry *entry, int fd)
{
    double last = entry->saved_at;
    for (size_t i = 0; i < manifest->count; i++)
        if (manifest->entries[i].saved_at >= last)
            last = manifest->entries[i].saved_at + STEP_S;
    const struct timespec time = {(time_t)last, (long)(1e9 * (last - floor(last)))};
    if (last > entry->saved_at && futimens(fd, (struct timespec[2]){time, time}) != 0)
        YKI_DEBUG("%s: cannot set its time: %s", entry->file, strerror(errno));
    return last;
}

/* Lists the checkpoint whose writer died between steps 4 and 5, if there is one. */
static yk_status list_unfinished(yki_manifest *manifest, const char *dir)
{
    const yki_manifest_entry *saving = &manifest->saving;
    char path[PATH_MAX];
    if (!saving->file[0])
        return YK_OK;
    YK_TRY(yki_join_path(path, dir, saving->file));
    return verify_listed(path, saving) == YK_OK ? yki_manifest_append(manifest, saving) : YK_OK;
}

/* Steps 3 and 4. */
static yk_status put_in_place(yki_manifest *manifest, const char *dir,
                              const yki_manifest_entry *entry, yki_atomic_file *file)
{
    YK_TRY(list_unfinished(manifest, dir));
    YK_TRY(yki_make_folders(dir)); /* somebody may have removed it while the file was written */
    yki_manifest_remove(manifest, entry->file);
    manifest->saving = *entry;
    manifest->saving.saved_at = time_of_saving(manifest, entry, file->fd);
    YK_TRY(yki_manifest_write(manifest, dir));
    return yki_atomic_commit(file);
}

static yk_status publish_checkpoint(yki_manifest *manifest, const char *dir, int keep,
                                    const yki_manifest_entry *entry, yki_atomic_file *file)
{
    YK_TRY(put_in_place(manifest, dir, entry, file));
    YK_TRY(yki_manifest_append(manifest, &manifest->saving));
    manifest->saving = (yki_manifest_entry){.file = ""};
    YK_TRY(yki_manifest_write(manifest, dir));
    return prune(manifest, dir, keep);
}

yk_status yki_dir_publish(const char *dir, int keep, const yki_manifest_entry *entry,
                          yki_atomic_file *file)
{
    yki_manifest manifest;
    read_manifest(&manifest, dir);
    yk_status status = publish_checkpoint(&manifest, dir, keep, entry, file);
    yki_manifest_fini(&manifest);
    return status;
}

yk_status yki_check_keep(const char *dir, int keep)
{
    if (keep < 1)
        return yki_error(
            YK_ERROR_INVALID_ARGUMENT,
            "%s: cannot keep %d checkpoints: expected at least 1 (YK_KEEP_ALL deletes none)", dir,
            keep);
    return YK_OK;
}

/* Opens both files. */
static yk_status prepare_files(yki_dir_save *save, const yk_model *model,
                               const yk_optimizer *optimizer, const yk_training_state *state)
{
    char path[PATH_MAX], weights[PATH_MAX];
    YK_TRY(yki_make_folders(save->dir));
    YK_TRY(yki_join_path(path, save->dir, save->entry.file));
    YK_TRY(yki_join_path(weights, save->dir, "model.pth"));
    yki_atomic_clean(save->dir, "checkpoint-");
    YK_TRY(yki_checkpoint_prepare(&save->checkpoint, path, model, optimizer, state));
    yk_status status = yki_weights_prepare(&save->weights, weights, model);
    if (status != YK_OK)
        yki_pth_file_abandon(&save->checkpoint);
    return status;
}

yk_status yki_dir_save_prepare(yki_dir_save *save, const char *dir, const yk_model *model,
                               const yk_optimizer *optimizer, const yk_training_state *state,
                               int keep)
{
    YK_TRY(yki_check_keep(dir, keep));
    if (!state)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "%s: a checkpoint in a folder needs a training state", dir);
    *save = (yki_dir_save){.dir = yki_strdup(dir), .keep = keep};
    if (!save->dir)
        return yki_error_memory(strlen(dir) + 1, "a folder's name");
    name_checkpoint(&save->entry, state);
    yk_status status = prepare_files(save, model, optimizer, state);
    if (status != YK_OK)
        free(save->dir);
    return status;
}

static yk_status write_checkpoint(yki_dir_save *save)
{
    struct stat info;
    yki_manifest_entry *entry = &save->entry;
    const yki_atomic_file *file = &save->checkpoint.file;
    YK_TRY(yki_pth_file_write(&save->checkpoint));
    YK_TRY(yki_sha256_fd(file->fd, file->path, entry->sha256, &entry->bytes));
    if (fstat(file->fd, &info) == 0)
        entry->saved_at = time_in_seconds(info.st_mtim);
    return YK_OK;
}

static yk_status write_weights(yki_dir_save *save)
{
    YK_TRY(yki_pth_file_write(&save->weights));
    return yki_atomic_commit(&save->weights.file);
}

/* The error of a save that has not written its checkpoint. */
static yk_status tell_kept(const yki_dir_save *save, yk_status status)
{
    char line[YKI_ERROR_LINE], path[PATH_MAX];
    yki_manifest_entry entry;
    yki_error_copy(line, sizeof line);
    bool any = yki_dir_last_saved(save->dir, &entry, path) == YK_OK;
    yki_error_set_line(status, line);
    return any ? yki_error_context(status, "%s is not saved, %s is kept", save->entry.file,
                                   entry.file)
               : status;
}

/* Keeps the checkpoint, for which there is room, although the weights could not be written. */
static yk_status keep_without_weights(yki_dir_save *save, yk_status status)
{
    char line[YKI_ERROR_LINE];
    yki_manifest manifest;
    yki_error_copy(line, sizeof line);
    yki_pth_file_abandon(&save->weights); /* which makes room for the manifest */
    read_manifest(&manifest, save->dir);
    bool kept = put_in_place(&manifest, save->dir, &save->entry, &save->checkpoint.file) == YK_OK;
    yki_manifest_fini(&manifest);
    yki_error_set_line(status, line);
    return kept ? yki_error_context(status, "%s is saved, but without model.pth", save->entry.file)
                : status;
}

yk_status yki_dir_save_write(yki_dir_save *save)
{
    yk_status status = write_checkpoint(save);
    if (status != YK_OK)
        status = tell_kept(save, status);
    else if ((status = write_weights(save)) != YK_OK)
        status = keep_without_weights(save, status);
    else
        status = yki_dir_publish(save->dir, save->keep, &save->entry, &save->checkpoint.file);
    yki_dir_save_abandon(save);
    return status;
}

void yki_dir_save_abandon(yki_dir_save *save)
{
    yki_pth_file_abandon(&save->weights);
    yki_pth_file_abandon(&save->checkpoint);
    free(save->dir);
    save->dir = NULL;
}

yk_status yk_checkpoint_dir_save(const char *dir, const yk_model *model,
                                 const yk_optimizer *optimizer, const yk_training_state *state,
                                 int keep)
{
    yki_dir_save save;
    YKI_NOT_NULL(dir);
    YKI_NOT_NULL(model);
    YK_TRY(yki_dir_save_prepare(&save, dir, model, optimizer, state, keep));
    return yki_dir_save_write(&save);
}

/* ---- finding the newest --------------------------------------------------------------------- */

typedef struct candidate {
    char file[YKI_MANIFEST_NAME];
    double saved_at;
} candidate;

static int newest_first(const void *a, const void *b)
{
    const candidate *left = a, *right = b;
    if (left->saved_at != right->saved_at)
        return left->saved_at > right->saved_at ? -1 : 1;
    return strverscmp(right->file, left->file);
}

/* What the manifest says, and for a file that it does not list the time of its last change. False
 * where the file is gone: a run that is still training deletes its oldest. */
static bool time_of(const yki_manifest *manifest, DIR *folder, const char *file, double *time)
{
    const yki_manifest_entry *entry = yki_manifest_find(manifest, file);
    struct stat info;
    if (fstatat(dirfd(folder), file, &info, 0) != 0)
        return false;
    *time = entry ? entry->saved_at : time_in_seconds(info.st_mtim);
    return true;
}

static yk_status list_candidates(const char *dir, const yki_manifest *manifest,
                                 candidate **candidates, size_t *count)
{
    *candidates = NULL;
    *count = 0;
    DIR *folder = opendir(dir);
    if (!folder)
        return yki_error(errno == ENOENT ? YK_ERROR_NOT_FOUND : YK_ERROR_IO,
                         "%s: cannot open the folder: %s", dir, strerror(errno));
    yk_status status;
    const struct dirent *entry;
    while ((status = yki_read_folder(&entry, folder, dir)) == YK_OK && entry) {
        double saved_at;
        if (!yki_is_checkpoint_name(entry->d_name) ||
            !time_of(manifest, folder, entry->d_name, &saved_at))
            continue;
        candidate *larger = realloc(*candidates, (*count + 1) * sizeof *larger);
        if (!larger) {
            status = yki_error_memory((*count + 1) * sizeof *larger, "a list of checkpoints");
            break;
        }
        *candidates = larger;
        candidate *made = &larger[(*count)++];
        snprintf(made->file, sizeof made->file, "%.*s", YKI_MANIFEST_NAME - 1, entry->d_name);
        made->saved_at = saved_at;
    }
    closedir(folder);
    if (*count)
        qsort(*candidates, *count, sizeof **candidates, newest_first);
    return status;
}

/* By its hash where the manifest has one, else by its CRCs. */
static yk_status verify_checkpoint(const char *path, const yki_manifest_entry *entry)
{
    yk_training_state state;
    return entry ? verify_listed(path, entry) : yki_checkpoint_verify(path, &state);
}

/* *gone: whether one has been deleted since they were listed. */
static yk_status first_sound(const char *dir, const yki_manifest *manifest,
                             const candidate *candidates, size_t count, bool warns, bool *gone,
                             char found[PATH_MAX])
{
    for (size_t i = 0; i < count; i++) {
        YK_TRY(yki_join_path(found, dir, candidates[i].file));
        yk_status status =
            verify_checkpoint(found, yki_manifest_find(manifest, candidates[i].file));
        /* One that may not be read may be whole: an older one would lose what it has. */
        if (status == YK_OK || status == YK_ERROR_OUT_OF_MEMORY || status == YK_ERROR_DENIED)
            return status;
        bool exists = access(found, F_OK) == 0;
        *gone |= !exists;
        if (warns && exists)
            YKI_WARN("skipping a damaged checkpoint: %s", yki_error_text());
    }
    if (count == 0)
        YK_TRY(yki_refuse_dcp(dir));
    if (count == 0)
        return yki_error(YK_ERROR_NOT_FOUND, "%s: holds no checkpoint", dir);
    return yki_error(YK_ERROR_FORMAT, "%s: no complete checkpoint among %zu", dir, count);
}

static yk_status find_among_listed(const char *dir, bool warns, bool *gone, char found[PATH_MAX])
{
    candidate *candidates;
    size_t count;
    yki_manifest manifest;
    *gone = false;
    read_manifest(&manifest, dir);
    yk_status status = list_candidates(dir, &manifest, &candidates, &count);
    if (status == YK_OK)
        status = first_sound(dir, &manifest, candidates, count, warns, gone, found);
    free(candidates);
    yki_manifest_fini(&manifest);
    return status;
}

/* One that is deleted in front of us has made room for a newer one, which was not listed yet. */
static yk_status find_latest(const char *dir, bool warns, char found[PATH_MAX])
{
    bool gone;
    yk_status status;
    do
        status = find_among_listed(dir, warns, &gone, found);
    while (status != YK_OK && gone);
    return status;
}

yk_status yk_checkpoint_dir_read_state(const char *dir, yk_training_state *state)
{
    char found[PATH_MAX];
    YKI_NOT_NULL(dir);
    YKI_NOT_NULL(state);
    YK_TRY(find_latest(dir, false, found));
    return yk_checkpoint_read_state(found, state);
}

yk_status yk_checkpoint_dir_latest(const char *dir, char *path, size_t path_size)
{
    char found[PATH_MAX];
    YKI_NOT_NULL(path);
    if (path_size > 0)
        path[0] = '\0';
    YKI_NOT_NULL(dir);
    YK_TRY(find_latest(dir, true, found));
    size_t needed = strlen(found) + 1;
    if (needed > path_size)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "%s: this path takes %zu bytes, and there is room for %zu", found, needed,
                         path_size);
    memcpy(path, found, needed);
    return YK_OK;
}

/* Whether the path's file would be in the folder itself. */
static bool leads_into(const char *dir, const char *path)
{
    char above[PATH_MAX];
    struct stat found, expected;
    const char *slash = strrchr(path, '/');
    int length = slash ? (int)(slash + 1 - path) : 0;
    return snprintf(above, sizeof above, "%.*s.", length, path) < PATH_MAX &&
           stat(above, &found) == 0 && stat(dir, &expected) == 0 &&
           found.st_dev == expected.st_dev && found.st_ino == expected.st_ino;
}

/* The entry of the one that was noted counts, too: it may not have been listed any more. */
bool yk_checkpoint_dir_is_restarted(const char *dir, const char *path)
{
    yki_manifest manifest;
    if (!dir || !path || !leads_into(dir, path))
        return false;
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    read_manifest(&manifest, dir);
    const yki_manifest_entry *entry = yki_manifest_find(&manifest, file);
    if (!entry && strcmp(manifest.saving.file, file) == 0)
        entry = &manifest.saving;
    const bool restarted = entry && yki_origin_is_restarted(&entry->origin);
    yki_manifest_fini(&manifest);
    return restarted;
}

bool yki_dir_is_saved(const char *dir, const char *path)
{
    yki_manifest manifest;
    const char *slash = strrchr(path, '/');
    bool listed = yki_manifest_read(&manifest, dir) == YK_OK &&
                  yki_manifest_find(&manifest, slash ? slash + 1 : path);
    yki_manifest_fini(&manifest);
    return listed;
}

/* ---- copies ---------------------------------------------------------------------------------- */

yk_status yki_dir_last_saved(const char *dir, yki_manifest_entry *entry, char path[PATH_MAX])
{
    yki_manifest manifest;
    yk_status status = yki_manifest_read(&manifest, dir);
    if (status == YK_OK && manifest.count == 0)
        status = yki_error(YK_ERROR_NOT_FOUND, "%s: its manifest lists no checkpoint", dir);
    if (status == YK_OK) {
        *entry = manifest.entries[manifest.count - 1];
        status = yki_join_path(path, dir, entry->file);
    }
    yki_manifest_fini(&manifest);
    return status;
}

/* For a file that the manifest does not list. */
static yk_status describe_checkpoint(yki_manifest_entry *entry, const char *path)
{
    yk_training_state state;
    struct stat info;
    YK_TRY(yk_checkpoint_read_state(path, &state));
    YK_TRY(yki_sha256_file(path, entry->sha256, &entry->bytes));
    entry->epoch = state.epoch;
    entry->step = state.step;
    entry->saved_at = stat(path, &info) == 0 ? time_in_seconds(info.st_mtim) : 0;
    return YK_OK;
}

yk_status yki_dir_newest(const char *dir, yki_manifest_entry *entry, char path[PATH_MAX])
{
    yki_manifest manifest;
    *entry = (yki_manifest_entry){.epoch = 0};
    YK_TRY(yk_checkpoint_dir_latest(dir, path, PATH_MAX));
    snprintf(entry->file, sizeof entry->file, "%s", strrchr(path, '/') + 1);
    read_manifest(&manifest, dir);
    const yki_manifest_entry *listed = yki_manifest_find(&manifest, entry->file);
    yk_status status = YK_OK;
    if (listed)
        *entry = *listed;
    else
        status = describe_checkpoint(entry, path);
    yki_manifest_fini(&manifest);
    return status;
}

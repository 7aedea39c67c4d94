/*
 * Saving in the background. The caller's thread opens the files, describes their contents and
 * copies the tensors; the saver's thread writes them from the copy. There is one copy, so the next
 * save first waits until the copy is free.
 */
#define _GNU_SOURCE
#include "checkpoint/checkpoint_dir.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/thread.h"

enum { NICE = 10 }; /* the thread's: training goes first */

struct yk_checkpoint_saver {
    char *dir;
    int keep;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool busy, ending; /* busy: save is the thread's; the rest is always the caller's */
    yki_dir_save save;
    yki_snapshot snapshot;
    yk_status status; /* of the last save, until it is asked for */
    char line[YKI_ERROR_LINE];
};

/* ---- the thread ------------------------------------------------------------------------------ */

/* Waits for a save; false when there are no more. */
static bool next_save(yk_checkpoint_saver *saver)
{
    pthread_mutex_lock(&saver->lock);
    while (!saver->busy && !saver->ending)
        pthread_cond_wait(&saver->changed, &saver->lock);
    bool found = saver->busy;
    pthread_mutex_unlock(&saver->lock);
    return found;
}

static void *write_saves(void *argument)
{
    yk_checkpoint_saver *saver = argument;
    setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
    while (next_save(saver)) {
        yk_status status = yki_dir_save_write(&saver->save);
        pthread_mutex_lock(&saver->lock);
        saver->status = status;
        yki_error_copy(saver->line, sizeof saver->line);
        saver->busy = false;
        pthread_cond_broadcast(&saver->changed);
        pthread_mutex_unlock(&saver->lock);
    }
    return NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void free_saver(yk_checkpoint_saver *saver)
{
    pthread_cond_destroy(&saver->changed);
    pthread_mutex_destroy(&saver->lock);
    yki_snapshot_fini(&saver->snapshot);
    free(saver->dir);
    free(saver);
}

yk_status yk_checkpoint_saver_create(yk_checkpoint_saver **saver, const char *dir, int keep)
{
    YKI_NOT_NULL(saver);
    *saver = NULL;
    YKI_NOT_NULL(dir);
    YK_TRY(yki_check_keep(dir, keep));
    yk_checkpoint_saver *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "a checkpoint saver");
    made->keep = keep;
    made->dir = yki_strdup(dir);
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->changed, NULL);
    int error =
        !made->dir ? -1 : yki_thread_create(&made->thread, "yoke-saver", NULL, write_saves, made);
    if (error) {
        free_saver(made);
        return error < 0 ? yki_error_memory(strlen(dir) + 1, "a folder's name")
                         : yki_error(YK_ERROR_OUT_OF_MEMORY,
                                     "cannot start the thread that writes checkpoints: %s",
                                     yki_thread_error(error));
    }
    *saver = made;
    return YK_OK;
}

void yk_checkpoint_saver_destroy(yk_checkpoint_saver *saver)
{
    if (!saver)
        return;
    pthread_mutex_lock(&saver->lock);
    saver->ending = true;
    pthread_cond_broadcast(&saver->changed);
    pthread_mutex_unlock(&saver->lock);
    pthread_join(saver->thread, NULL);
    free_saver(saver);
}

/* ---- saving ---------------------------------------------------------------------------------- */

/* Copies the tensors of the prepared files. */
static yk_status take_snapshot(yk_checkpoint_saver *saver)
{
    yki_pth_writer *checkpoint = saver->save.checkpoint.writer;
    yki_pth_writer *weights = saver->save.weights.writer;
    yki_snapshot_clear(&saver->snapshot);
    YK_TRY(yki_pth_writer_add_to(checkpoint, &saver->snapshot));
    YK_TRY(yki_pth_writer_add_to(weights, &saver->snapshot));
    YK_TRY(yki_snapshot_take(&saver->snapshot));
    yki_pth_writer_use(checkpoint, &saver->snapshot);
    yki_pth_writer_use(weights, &saver->snapshot);
    return YK_OK;
}

yk_status yk_checkpoint_saver_save(yk_checkpoint_saver *saver, const yk_model *model,
                                   const yk_optimizer *optimizer, const yk_training_state *state)
{
    YKI_NOT_NULL(saver);
    YKI_NOT_NULL(model);
    YK_TRY(yk_checkpoint_saver_wait(saver));
    YK_TRY(yki_dir_save_prepare(&saver->save, saver->dir, model, optimizer, state, saver->keep));
    yk_status status = take_snapshot(saver);
    if (status != YK_OK) {
        yki_dir_save_abandon(&saver->save);
        return status;
    }
    pthread_mutex_lock(&saver->lock);
    saver->busy = true;
    pthread_cond_broadcast(&saver->changed);
    pthread_mutex_unlock(&saver->lock);
    return YK_OK;
}

yk_status yk_checkpoint_saver_wait(yk_checkpoint_saver *saver)
{
    char line[YKI_ERROR_LINE];
    YKI_NOT_NULL(saver);
    pthread_mutex_lock(&saver->lock);
    while (saver->busy)
        pthread_cond_wait(&saver->changed, &saver->lock);
    yk_status status = saver->status;
    saver->status = YK_OK;
    memcpy(line, saver->line, sizeof line);
    pthread_mutex_unlock(&saver->lock);
    return status == YK_OK ? YK_OK : yki_error_set_line(status, line);
}

bool yk_checkpoint_saver_busy(yk_checkpoint_saver *saver)
{
    if (!saver)
        return false;
    pthread_mutex_lock(&saver->lock);
    bool busy = saver->busy;
    pthread_mutex_unlock(&saver->lock);
    return busy;
}

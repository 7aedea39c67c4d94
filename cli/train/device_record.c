/*
 * The GPU and the libraries that a run uses, in the file `device` of its output folder: a resumed
 * run has the bits of an uninterrupted one only if neither has changed. On the processor, the
 * introduction of the run says what the bits depend on.
 */
#include <errno.h>
#include <string.h>

#include "train/train.h"

/* "cuda:0: NVIDIA H200, ..." without the number, since equal GPUs give the same bits. NULL on other
 * devices. */
static const char *describe(const cli_training *t)
{
    const char *text = yk_model_device_description(t->model);
    const char *name = strncmp(text, "cuda:", 5) == 0 ? strstr(text, ": ") : NULL;
    return name ? name + 2 : NULL;
}

/* What the file says; empty if there is none. */
static void read_record(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "re");
    size_t length = file ? fread(text, 1, size - 1, file) : 0;
    text[length] = '\0';
    text[strcspn(text, "\n")] = '\0';
    if (file)
        fclose(file);
}

static bool write_record(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    bool written = file && fprintf(file, "%s\n", text) > 0;
    return (!file || fclose(file) == 0) && written;
}

void cli_keep_device(const cli_training *t)
{
    char path[CLI_PATH + 16], before[256];
    const char *now = describe(t);
    if (!now)
        return;
    snprintf(path, sizeof path, "%s/device", t->output);
    read_record(path, before, sizeof before);
    if (strcmp(before, now) == 0)
        return;
    if (*before)
        fprintf(stderr,
                "yoke train: this run used %s before, and now uses %s: it continues, but its bits "
                "will differ from those of an uninterrupted run\n",
                before, now);
    if (!write_record(path, now))
        fprintf(stderr, "yoke train: cannot write %s: %s\n", path, strerror(errno));
}

/* `yoke train` run by a test: small networks on drawn images, and the files that they write. */
#ifndef YK_TEST_TRAIN_JOB_H
#define YK_TEST_TRAIN_JOB_H

#include "../launcher/job.h"

static test_job job;

/* Trains with these options into FOLDER/name; returns the exit code, job.output what was said. */
static inline int train(const char *name, const char *options)
{
    char command[1024];
    snprintf(command, sizeof command,
             "train --data synthetic --arch mlp --lr 0.02 --threads 1 --output %s/%s %s",
             yk_test_directory(), name, options);
    test_job_start(&job, command);
    return test_job_wait(&job, 100);
}

/* What was printed, with each run of white space as one space: lines are wrapped. */
static inline const char *unwrapped(void)
{
    static char text[sizeof job.output];
    size_t length = 0;
    for (const char *at = job.output; *at; at++) {
        bool blank = *at == ' ' || *at == '\n';
        if (!blank || (length && text[length - 1] != ' '))
            text[length++] = blank ? ' ' : *at;
    }
    text[length] = '\0';
    return text;
}

static inline const char *path_of(const char *name, const char *file)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s/%s", yk_test_directory(), name, file);
    return path;
}

/* Fails unless two runs have left the same file, bit for bit. */
static inline void assert_same_file(const char *a, const char *b, const char *file)
{
    char path[2][256], *text[2];
    size_t size[2];
    snprintf(path[0], sizeof path[0], "%s", path_of(a, file));
    snprintf(path[1], sizeof path[1], "%s", path_of(b, file));
    for (int i = 0; i < 2; i++) {
        FILE *opened = fopen(path[i], "re");
        if (!opened)
            fail_msg("no %s", path[i]);
        text[i] = malloc(64 << 20);
        size[i] = fread(text[i], 1, 64 << 20, opened);
        fclose(opened);
    }
    if (size[0] != size[1] || memcmp(text[0], text[1], size[0]) != 0)
        fail_msg("%s and %s differ", path[0], path[1]);
    free(text[0]);
    free(text[1]);
}

/* All of metrics.jsonl. */
static inline const char *metrics_of(const char *name)
{
    static char text[1 << 20];
    return yk_test_read_file(text, sizeof text, path_of(name, "metrics.jsonl"));
}

/* The last value of a key in metrics.jsonl. */
static inline double last_value(const char *name, const char *key)
{
    const char *text = metrics_of(name), *found = NULL;
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    for (const char *at = text; (at = strstr(at, quoted)); at += strlen(quoted))
        found = at + strlen(quoted);
    if (!found) {
        fail_msg("no %s in \"%s\"", key, text);
        abort();
    }
    return strtod(found, NULL);
}

#endif

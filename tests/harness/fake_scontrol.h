/* A Slurm job of our own making: its variables, and a `scontrol` in PATH that logs what it is asked
 * and answers `show job` from a file. */
#ifndef YK_TEST_FAKE_SCONTROL_H
#define YK_TEST_FAKE_SCONTROL_H

#include "harness.h"

#include <stdlib.h>
#include <sys/stat.h>

#define FAKE_JOB "JobId=77 JobName=train JobState=RUNNING Reason=None Requeue=1 BatchFlag=1"

static inline const char *fake_scontrol_file(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", yk_test_directory(), name);
    return path;
}

static inline void fake_scontrol_write(const char *name, const char *text)
{
    FILE *file = fopen(fake_scontrol_file(name), "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* What `scontrol show job` says from now on. */
static inline void fake_scontrol_says(const char *job)
{
    fake_scontrol_write("job", job);
}

/* Makes this process and its children part of Slurm job 77. */
static inline void fake_scontrol_start(const char *job)
{
    char text[1024];
    fake_scontrol_says(job);
    snprintf(text, sizeof text,
             "#!/bin/sh\necho \"$*\" >> %s/log\ncase $1 in show) cat %s/job ;; "
             "*) test ! -e %s/refusal || { cat %s/refusal >&2; exit 1; } ;; esac\n",
             yk_test_directory(), yk_test_directory(), yk_test_directory(), yk_test_directory());
    fake_scontrol_write("scontrol", text);
    assert_int_equal(chmod(fake_scontrol_file("scontrol"), 0755), 0);
    snprintf(text, sizeof text, "%s:%s", yk_test_directory(), getenv("PATH"));
    setenv("PATH", text, 1);
    setenv("SLURM_JOB_ID", "77", 1);
}

/* What it has been asked, a line a call; "" for nothing. */
static inline const char *fake_scontrol_log(void)
{
    static char text[4096];
    FILE *file = fopen(fake_scontrol_file("log"), "r");
    text[file ? fread(text, 1, sizeof text - 1, file) : 0] = '\0';
    if (file)
        fclose(file);
    return text;
}

#endif

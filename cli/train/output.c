/*
 * Printing to readers that may pause for ever: a write that blocks would keep a run that has been
 * asked to stop from saving its checkpoint. What they do not take by then is left out.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "train/train.h"

static int standard_output = STDOUT_FILENO, standard_error = STDERR_FILENO;

/* Warns once that output is incomplete, unless the reader has gone or stdout is closed. */
static void say_lost(int fd, int cause)
{
    static bool said;
    if (said || fd != STDOUT_FILENO || cause == EPIPE || cause == EBADF)
        return;
    said = true;
    fprintf(stderr,
            "yoke train: cannot write to stdout: %s; the run continues, and lines are lost\n",
            strerror(cause));
}

/* A pipe that has room takes pieces of this size whole. */
static ssize_t write_patiently(void *fd, const char *text, size_t size)
{
    size_t done = 0;
    while (done < size && yk_stop_may_write(*(const int *)fd)) {
        size_t piece = size - done < PIPE_BUF ? size - done : PIPE_BUF;
        ssize_t written = write(*(const int *)fd, text + done, piece);
        if (written < 0) {
            say_lost(*(const int *)fd, errno);
            return (ssize_t)done;
        }
        done += (size_t)written;
    }
    return (ssize_t)size;
}

/* The stream itself where there is no memory. */
static FILE *make_patient(FILE *stream, int *fd, int buffering)
{
    FILE *made = fopencookie(fd, "w", (cookie_io_functions_t){.write = write_patiently});
    if (!made)
        return stream;
    fflush(stream);
    setvbuf(made, NULL, buffering, 0);
    return made;
}

void cli_training_print_patiently(void)
{
    stdout = make_patient(stdout, &standard_output, _IOLBF);
    stderr = make_patient(stderr, &standard_error, _IONBF);
}

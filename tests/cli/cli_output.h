/* What a part of the program prints to stdout or stderr, as text. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct output_capture {
    FILE *file;
    int fd, saved;
} output_capture;

/* From here to the end, what is written to the descriptor goes to a file. No assertion may fail in
 * between: its message would go there too. */
static inline output_capture output_capture_begin(int fd)
{
    fflush(NULL);
    output_capture capture = {.file = tmpfile(), .fd = fd, .saved = dup(fd)};
    assert_non_null(capture.file);
    dup2(fileno(capture.file), fd);
    return capture;
}

/* The text, valid until the next call. */
static inline const char *output_capture_end(output_capture *capture)
{
    static char text[16384];
    fflush(NULL);
    dup2(capture->saved, capture->fd);
    close(capture->saved);
    rewind(capture->file);
    text[fread(text, 1, sizeof text - 1, capture->file)] = '\0';
    fclose(capture->file);
    return text;
}

#endif

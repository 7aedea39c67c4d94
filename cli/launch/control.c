/* See control.h. */
#define _GNU_SOURCE
#include "launch/control.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch/end.h"

bool cli_control_accept(char *secret, size_t size)
{
    const char *text = getenv(CLI_CONTROL_VARIABLE);
    if (!text || strcmp(text, "1") != 0)
        return false;
    unsetenv(CLI_CONTROL_VARIABLE); /* the ranks may start launchers of their own */
    size_t length = 0;
    char byte = '\0';
    while (length + 1 < size && read(STDIN_FILENO, &byte, 1) == 1 && byte != '\n')
        secret[length++] = byte;
    secret[byte == '\n' ? length : 0] = '\0';
    return true;
}

static void obey(cli_job *job, const char *line)
{
    int number = 0;
    if (sscanf(line, "stop %d", &number) == 1)
        cli_job_request_stop(job, number);
    else if (sscanf(line, "forward %d", &number) == 1)
        cli_job_forward_to_all(job, number);
    else if (strcmp(line, "kill") == 0)
        cli_job_kill(job);
}

void cli_control_read(cli_job *job)
{
    char *text = job->order, *line = text, *end;
    ssize_t got = read(STDIN_FILENO, text + job->order_size, sizeof job->order - job->order_size);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (got <= 0) {
        job->control_fd = -1;
        cli_job_request_stop(job, SIGTERM);
        return;
    }
    size_t left = job->order_size + (size_t)got;
    for (; (end = memchr(line, '\n', left)); line = end + 1) {
        *end = '\0';
        obey(job, line);
        left -= (size_t)(end + 1 - line);
    }
    memmove(text, line, left);
    job->order_size = left < sizeof job->order ? left : 0; /* no order is that long */
}

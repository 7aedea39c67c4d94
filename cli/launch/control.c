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
    char byte;
    while (length + 1 < size && read(STDIN_FILENO, &byte, 1) == 1 && byte != '\n')
        secret[length++] = byte;
    secret[length] = '\0';
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
    char text[256], *state;
    ssize_t size = read(STDIN_FILENO, text, sizeof text - 1);
    if (size < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (size <= 0) {
        job->control_fd = -1;
        cli_job_request_stop(job, SIGTERM);
        return;
    }
    text[size] = '\0';
    for (char *line = strtok_r(text, "\n", &state); line; line = strtok_r(NULL, "\n", &state))
        obey(job, line);
}

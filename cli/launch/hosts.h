/* Lists of hosts: --hosts and --hostfile. */
#ifndef YOKE_CLI_LAUNCH_HOSTS_H
#define YOKE_CLI_LAUNCH_HOSTS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct cli_host {
    char name[256]; /* for ssh: HOST or USER@HOST */
    int slots;      /* ranks on this host */
    bool here;      /* it is the host of this launcher */
} cli_host;

enum { CLI_HOSTS_MAX = 1024 };

/* The name of a host, or its address, without the user. */
const char *cli_host_address(const cli_host *host);

/*
 * Reads "h1:4,h2,[fd00::1]:2" into hosts[CLI_HOSTS_MAX]; a host without a number gets `slots`
 * ranks. Returns the number of hosts; 0 with the reason in why when the list is invalid.
 */
int cli_hosts_parse(const char *text, int slots, cli_host *hosts, char *why, size_t size);
/* Reads a file of lines "host slots=4" (MPI, DeepSpeed), "host:4" or "host", with # comments. */
int cli_hosts_read(const char *path, int slots, cli_host *hosts, char *why, size_t size);

#endif

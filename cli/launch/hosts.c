/* See hosts.h. */
#define _GNU_SOURCE
#include "launch/hosts.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch/net.h"

enum { SLOTS_MAX = 1024 };

/* Adds "host" or "host:slots"; false with the reason in why. */
static bool add_host(const char *text, int slots, cli_host *hosts, int *count, char *why,
                     size_t size)
{
    if (*count == CLI_HOSTS_MAX) {
        snprintf(why, size, "more than %d hosts", CLI_HOSTS_MAX);
        return false;
    }
    cli_host *host = &hosts[*count];
    host->slots = slots;
    /* A name that begins with a dash would be an option of ssh. */
    if (*text == '-' || !cli_net_split(text, host->name, sizeof host->name, &host->slots) ||
        host->slots < 1 || host->slots > SLOTS_MAX) {
        snprintf(why, size, "\"%.100s\": expected HOST:RANKS, with 1 to %d ranks", text, SLOTS_MAX);
        return false;
    }
    for (int i = 0; i < *count; i++)
        if (strcmp(hosts[i].name, host->name) == 0) {
            snprintf(why, size, "host %.200s is listed twice", host->name);
            return false;
        }
    (*count)++;
    return true;
}

int cli_hosts_parse(const char *text, int slots, cli_host *hosts, char *why, size_t size)
{
    int count = 0;
    char *copy = strdup(text), *rest = copy;
    if (!copy) {
        snprintf(why, size, "no memory");
        return 0;
    }
    for (char *entry; (entry = strsep(&rest, ","));)
        if (!add_host(entry, slots, hosts, &count, why, size)) {
            count = 0;
            break;
        }
    free(copy);
    return count;
}

/* One line of a host file: a host, and words that only mpirun reads, but for slots=N. */
static bool read_line(char *line, int slots, cli_host *hosts, int *count, char *why, size_t size)
{
    line[strcspn(line, "#\n")] = '\0';
    char *state, *name = strtok_r(line, " \t\r", &state);
    if (!name)
        return true;
    for (char *word; (word = strtok_r(NULL, " \t\r", &state));)
        if (strncmp(word, "slots=", 6) == 0)
            slots = atoi(word + 6);
    return add_host(name, slots, hosts, count, why, size);
}

int cli_hosts_read(const char *path, int slots, cli_host *hosts, char *why, size_t size)
{
    char *line = NULL, reason[400];
    size_t room = 0;
    int count = 0, number = 1;
    FILE *file = fopen(path, "re");
    if (!file) {
        snprintf(why, size, "%s", strerror(errno));
        return 0;
    }
    bool sound = true;
    for (; sound && getline(&line, &room, file) > 0; number += sound)
        sound = read_line(line, slots, hosts, &count, reason, sizeof reason);
    int trouble = ferror(file) ? errno : 0;
    free(line);
    fclose(file);
    if (trouble)
        snprintf(why, size, "%s", strerror(trouble));
    else if (!sound)
        snprintf(why, size, "line %d: %s", number, reason);
    else if (count == 0)
        snprintf(why, size, "it lists no host");
    return sound && !trouble ? count : 0;
}

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

const char *cli_host_address(const cli_host *host)
{
    const char *at = strrchr(host->name, '@');
    return at ? at + 1 : host->name;
}

/* Reads "HOST:RANKS", before which there may be "USER@". */
static bool read_host(const char *text, cli_host *host)
{
    const char *at = strchr(text, '@'), *bracket = strchr(text, '[');
    size_t user = at && (!bracket || at < bracket) ? (size_t)(at + 1 - text) : 0;
    /* A name that begins with a dash would be an option of ssh. */
    if (*text == '-' || user == 1 || user >= sizeof host->name)
        return false;
    memcpy(host->name, text, user);
    return cli_net_split(text + user, host->name + user, sizeof host->name - user, &host->slots);
}

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
    if (!read_host(text, host) || host->slots < 1 || host->slots > SLOTS_MAX) {
        snprintf(why, size, "\"%.100s\": expected HOST:RANKS, with 1 to %d ranks", text, SLOTS_MAX);
        return false;
    }
    for (int i = 0; i < *count; i++)
        if (strcmp(cli_host_address(&hosts[i]), cli_host_address(host)) == 0) {
            snprintf(why, size, "host %.200s is listed twice", cli_host_address(host));
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

/* "slots=N"; false with the reason in why. */
static bool read_slots(const char *word, int *slots, char *why, size_t size)
{
    char *end;
    long number = strtol(word + strlen("slots="), &end, 10);
    *slots = (int)number;
    if (!*end && number >= 1 && number <= SLOTS_MAX)
        return true;
    snprintf(why, size, "\"%.100s\": expected slots=RANKS, with 1 to %d ranks", word, SLOTS_MAX);
    return false;
}

/* One line of a host file: a host, and words that only mpirun reads, but for slots=N. */
static bool read_line(char *line, int slots, cli_host *hosts, int *count, char *why, size_t size)
{
    line[strcspn(line, "#\n")] = '\0';
    char *state, *name = strtok_r(line, " \t\r", &state);
    if (!name)
        return true;
    for (char *word; (word = strtok_r(NULL, " \t\r", &state));)
        if (strncmp(word, "slots=", 6) == 0 && !read_slots(word, &slots, why, size))
            return false;
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

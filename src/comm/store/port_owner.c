/*
 * /proc/net/tcp lists the sockets by inode, and /proc/PID/fd shows which process has which inode
 * open. Only the processes of the same user can be looked at, unless this one is root.
 */
#define _GNU_SOURCE
#include "comm/store/port_owner.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LISTENING 0x0a

/* The inode of the socket that listens on the port, from a table of /proc; 0 if none does. */
static unsigned long listening_inode(const char *table, int port)
{
    char line[512];
    unsigned long inode = 0;
    FILE *file = fopen(table, "re");
    if (!file)
        return 0;
    while (inode == 0 && fgets(line, sizeof line, file)) {
        unsigned int local, state;
        unsigned long found;
        if (sscanf(line, " %*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %*s %*s %lu",
                   &local, &state, &found) == 3 &&
            (int)local == port && state == LISTENING)
            inode = found;
    }
    fclose(file);
    return inode;
}

static unsigned long inode_of(int port)
{
    unsigned long inode = listening_inode("/proc/net/tcp", port);
    return inode ? inode : listening_inode("/proc/net/tcp6", port);
}

bool yki_port_is_served(int port)
{
    return inode_of(port) != 0;
}

static bool has_open(const char *pid, const char *socket)
{
    char folder[300], target[64];
    snprintf(folder, sizeof folder, "/proc/%s/fd", pid);
    DIR *files = opendir(folder);
    bool found = false;
    for (struct dirent *entry; files && !found && (entry = readdir(files));) {
        ssize_t size = readlinkat(dirfd(files), entry->d_name, target, sizeof target - 1);
        target[size > 0 ? size : 0] = '\0';
        found = strcmp(target, socket) == 0;
    }
    if (files)
        closedir(files);
    return found;
}

static void describe(char text[YKI_PORT_OWNER], const char *pid)
{
    char path[300], name[32] = "?";
    snprintf(path, sizeof path, "/proc/%s/comm", pid);
    FILE *file = fopen(path, "re");
    if (file) {
        if (fscanf(file, "%31[^\n]", name) != 1)
            snprintf(name, sizeof name, "?");
        fclose(file);
    }
    snprintf(text, YKI_PORT_OWNER, "pid %.20s (%s)", pid, name);
}

void yki_port_owner(char text[YKI_PORT_OWNER], int port)
{
    char socket[64];
    unsigned long inode = inode_of(port);
    snprintf(socket, sizeof socket, "socket:[%lu]", inode);
    snprintf(text, YKI_PORT_OWNER, "another process");
    DIR *processes = inode ? opendir("/proc") : NULL;
    for (struct dirent *entry; processes && (entry = readdir(processes));)
        if (isdigit((unsigned char)entry->d_name[0]) && has_open(entry->d_name, socket)) {
            describe(text, entry->d_name);
            break;
        }
    if (processes)
        closedir(processes);
}

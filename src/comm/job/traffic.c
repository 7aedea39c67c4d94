#define _GNU_SOURCE
#include "comm/job/traffic.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

/* Heartbeats and what a host does besides are less, gradients on the slowest networks more. */
static const double least_per_s = 32e3;

void yki_traffic_read(yki_traffic *traffic)
{
    char line[512], name[64];
    uint64_t received, sent;
    *traffic = (yki_traffic){.at = yki_now()};
    FILE *file = fopen("/proc/net/dev", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, " %63[^: ]: %" SCNu64 " %*u %*u %*u %*u %*u %*u %*u %" SCNu64, name,
                   &received, &sent) == 3 &&
            strcmp(name, "lo") != 0) {
            traffic->received += received;
            traffic->sent += sent;
        }
    if (file)
        fclose(file);
}

void yki_traffic_describe(const yki_traffic *since, char *text, size_t size)
{
    yki_traffic now;
    text[0] = '\0';
    if (!(since->at > 0))
        return;
    yki_traffic_read(&now);
    double sent = (double)(now.sent - since->sent);
    double received = (double)(now.received - since->received), seconds = now.at - since->at;
    if (sent + received >= least_per_s * seconds)
        snprintf(text, size, "this host has sent %.1f MB and received %.1f MB in %.0f s",
                 sent / 1e6, received / 1e6, seconds);
}

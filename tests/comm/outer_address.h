/* An address of this host that is no loopback address. */
#ifndef YK_TEST_OUTER_ADDRESS_H
#define YK_TEST_OUTER_ADDRESS_H

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

/* An IPv4 address of this host by which others reach it; false if it has none. */
static inline bool find_outer_address(char text[INET_ADDRSTRLEN])
{
    struct ifaddrs *all = NULL;
    bool found = false;
    getifaddrs(&all);
    for (const struct ifaddrs *one = all; one && !found; one = one->ifa_next)
        if (one->ifa_addr && one->ifa_addr->sa_family == AF_INET && one->ifa_flags & IFF_UP &&
            !(one->ifa_flags & IFF_LOOPBACK))
            found = inet_ntop(AF_INET, &((struct sockaddr_in *)one->ifa_addr)->sin_addr, text,
                              INET_ADDRSTRLEN);
    freeifaddrs(all);
    return found;
}

#endif

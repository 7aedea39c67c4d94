/* What a host's name means on this host. */
#define _GNU_SOURCE
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>

#include <yoke/store.h>

#include "comm/store/resolve.h"

static bool is_same(const struct sockaddr_storage *a, const struct sockaddr *b)
{
    if (!b || a->ss_family != b->sa_family)
        return false;
    if (a->ss_family == AF_INET)
        return memcmp(&((const struct sockaddr_in *)a)->sin_addr,
                      &((const struct sockaddr_in *)b)->sin_addr, sizeof(struct in_addr)) == 0;
    return memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
                  &((const struct sockaddr_in6 *)b)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

static bool has_interface(const struct ifaddrs *interfaces, const struct sockaddr_storage *address)
{
    for (; interfaces; interfaces = interfaces->ifa_next)
        if (is_same(address, interfaces->ifa_addr))
            return true;
    return yki_address_is_loopback(address);
}

static void describe(yk_host_name *name, const yki_addresses *found)
{
    struct ifaddrs *interfaces = NULL;
    if (getifaddrs(&interfaces))
        interfaces = NULL;
    name->known = name->loopback = true;
    for (int i = 0; i < found->count; i++) {
        name->own = name->own || has_interface(interfaces, &found->list[i]);
        name->loopback = name->loopback && yki_address_is_loopback(&found->list[i]);
    }
    freeifaddrs(interfaces);
}

yk_status yk_host_look_up(yk_host_name *name, const char *host, double timeout_s)
{
    yki_addresses found;
    YKI_NOT_NULL(name);
    *name = (yk_host_name){0};
    YKI_NOT_NULL(host);
    yk_status status = yki_resolve(&found, host, 0, timeout_s, NULL);
    if (status == YK_OK)
        describe(name, &found);
    return status == YK_ERROR_NOT_FOUND ? YK_OK : status;
}

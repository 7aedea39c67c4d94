/*
 * The name of a host is for messages only: it may mean nothing, or 127.0.1.1, on another host. What
 * the ranks use is the source address of a connection that works, that to the store.
 */
#define _GNU_SOURCE
#include "comm/job/host.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "comm/store/address.h"

static const char *text_of(const char *name)
{
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

/* ---- machine and name ------------------------------------------------------------------------ */

/* Boot id and pid namespace: ranks that share both see the same pids and can share memory. */
static void describe_machine(char machine[80])
{
    struct stat info = {0};
    char boot[64] = "unknown";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file) {
        if (fscanf(file, "%63s", boot) != 1)
            snprintf(boot, sizeof boot, "unknown");
        fclose(file);
    }
    stat("/proc/self/ns/pid", &info);
    snprintf(machine, 80, "%.40s:%lu", boot, (unsigned long)info.st_ino);
}

/* Makes one printable word of a name, which the system lets be anything: words make up the entries
 * in the store (meeting.c). */
static void make_word(char *name)
{
    for (; *name; name++)
        if ((unsigned char)*name <= ' ' || *name == 127)
            *name = '?';
}

/*
 * For tests of several hosts on one machine, YOKE_TEST_HOST=a makes a process believe that it is on
 * another machine, of this name; a|b divides the ranks between two of them, a|b|c among three.
 * Processes with different names share no memory.
 */
static void pretend_host(const yki_job *job, yki_peer *me, const char *names)
{
    int count = 1;
    for (const char *at = names; *at; at++)
        count += *at == '|';
    for (int skip = (int)((long)job->rank * count / job->world); skip > 0; skip--)
        names = strchr(names, '|') + 1;
    snprintf(me->host, sizeof me->host, "%.*s", (int)strcspn(names, "|"), names);
    make_word(me->host);
    size_t used = strlen(me->machine);
    snprintf(me->machine + used, sizeof me->machine - used, ":%.16s", me->host);
}

void yki_host_describe(const yki_job *job, yki_peer *me)
{
    const char *pretended = text_of("YOKE_TEST_HOST");
    describe_machine(me->machine);
    if (gethostname(me->host, sizeof me->host) || !me->host[0])
        snprintf(me->host, sizeof me->host, "unknown");
    make_word(me->host);
    if (pretended)
        pretend_host(job, me, pretended);
}

/* ---- address --------------------------------------------------------------------------------- */

static bool write_address(char text[YKI_ADDRESS_TEXT], const struct sockaddr *address)
{
    socklen_t size =
        address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    return getnameinfo(address, size, text, YKI_ADDRESS_TEXT, NULL, 0, NI_NUMERICHOST) == 0;
}

static const double own_name_s = 10; /* how long the name service may take */

static yk_status look_up(yki_peer *me, const char *variable, const char *host)
{
    yki_addresses found;
    if (yki_resolve(&found, host, 0, own_name_s, NULL) != YK_OK)
        return yki_error_context(YK_ERROR_INVALID_ARGUMENT, "%s=%s", variable, host);
    write_address(me->address, (const struct sockaddr *)&found.list[0]);
    return YK_OK;
}

/* Whether `names`, separated by commas, has the interface's name. */
static bool is_named(const char *names, const char *interface)
{
    size_t length = strlen(interface);
    for (const char *at = names; *at;) {
        size_t size = strcspn(at, ",");
        if (size == length && strncmp(at, interface, length) == 0)
            return true;
        at += size + (at[size] == ',');
    }
    return false;
}

/* How much an address is liked: IPv4 more than IPv6, and that more than one of the link only. */
static int liking(const struct sockaddr *address)
{
    if (!address || (address->sa_family != AF_INET && address->sa_family != AF_INET6))
        return 0;
    if (address->sa_family == AF_INET)
        return 3;
    return IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)address)->sin6_addr) ? 1 : 2;
}

static yk_status take_interface(yki_peer *me, const char *variable, const char *names)
{
    struct ifaddrs *all = NULL;
    int best = 0;
    char others[200] = "";
    getifaddrs(&all);
    for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
        int like = one->ifa_flags & IFF_UP ? liking(one->ifa_addr) : 0;
        if (like > best && is_named(names, one->ifa_name)) {
            best = like;
            write_address(me->address, one->ifa_addr);
        } else if (like && !is_named(others, one->ifa_name)) {
            size_t used = strlen(others);
            snprintf(others + used, sizeof others - used, "%s%s", used ? "," : "", one->ifa_name);
        }
    }
    freeifaddrs(all);
    if (best)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "%s=%s: this host has no such interface that is up and has an address; it has "
                     "%s",
                     variable, names, others);
}

/* The address that the user has chosen, if any. */
static yk_status take_chosen(yki_peer *me)
{
    static const char *const interfaces[] = {"YOKE_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"};
    const char *local = text_of("YOKE_LOCAL_ADDR");
    if (local)
        return look_up(me, "YOKE_LOCAL_ADDR", local);
    for (int i = 0; i < 2; i++)
        if (text_of(interfaces[i]))
            return take_interface(me, interfaces[i], text_of(interfaces[i]));
    return YK_OK;
}

yk_status yki_host_address(yki_peer *me, const yk_store *store)
{
    me->address[0] = '\0';
    YK_TRY(take_chosen(me));
    if (!me->address[0])
        snprintf(me->address, sizeof me->address, "%s", yk_store_local_address(store));
    return YK_OK;
}

yk_status yki_host_all_addresses(char (*list)[YKI_ADDRESS_TEXT], int most, int *count)
{
    yki_peer me = {.address = ""};
    struct ifaddrs *all = NULL;
    *count = 0;
    YK_TRY(take_chosen(&me));
    if (me.address[0]) {
        snprintf(list[(*count)++], YKI_ADDRESS_TEXT, "%s", me.address);
        return YK_OK;
    }
    getifaddrs(&all);
    for (int like = 3; like > 1; like--)
        for (const struct ifaddrs *one = all; one && *count < most; one = one->ifa_next)
            if ((one->ifa_flags & (IFF_UP | IFF_LOOPBACK)) == IFF_UP &&
                liking(one->ifa_addr) == like)
                write_address(list[(*count)++], one->ifa_addr);
    freeifaddrs(all);
    return YK_OK;
}

bool yki_host_is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
}

/* Connecting a UDP socket sends nothing, but chooses the route. */
bool yki_host_address_towards(yki_peer *me, const char *other)
{
    struct addrinfo *found, hints = {.ai_family = AF_UNSPEC,
                                     .ai_socktype = SOCK_DGRAM,
                                     .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    if (getaddrinfo(other, "9", &hints, &found))
        return false;
    char text[YKI_ADDRESS_TEXT] = "?";
    int fd = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) == 0)
        yki_local_address(text, fd);
    if (fd >= 0)
        close(fd);
    freeaddrinfo(found);
    if (strcmp(text, "?") == 0 || yki_host_is_loopback(text))
        return false;
    snprintf(me->address, sizeof me->address, "%s", text);
    return true;
}

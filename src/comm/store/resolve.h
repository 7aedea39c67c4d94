/* The addresses of a host's name, without waiting for longer than the caller can. */
#ifndef YKI_RESOLVE_H
#define YKI_RESOLVE_H

#include <stdbool.h>
#include <sys/socket.h>

#include "base/error.h"

/* Room for a host's name. */
enum { YKI_HOST_TEXT = 1025 };

/* An IPv6 address in brackets, as in a URL, without them, in bare; else host itself. */
const char *yki_bare_host(const char *host, char bare[YKI_HOST_TEXT]);

enum { YKI_ADDRESSES_MAX = 16 };

/* In the order in which they should be tried. */
typedef struct {
    int count;
    struct sockaddr_storage list[YKI_ADDRESSES_MAX];
} yki_addresses;

/* The size that the system expects of an address. */
socklen_t yki_address_size(const struct sockaddr_storage *address);

/* Whether it is an address of the loopback interface. */
bool yki_address_is_loopback(const struct sockaddr_storage *address);

/* A name service is asked for this long at a time. A router that is lost may keep it silent for
 * minutes. */
#define YKI_RESOLVE_S 2.0

/*
 * The addresses of a name or a number, with this port. Waits at most patience_s for the name
 * service, which goes on: the next call for the same name takes its answer. YK_ERROR_NOT_FOUND when
 * there is none; *again (may be NULL) then tells whether there may be one later, as for the name of
 * a pod that has just started.
 */
yk_status yki_resolve(yki_addresses *found, const char *host, int port, double patience_s,
                      bool *again);

#endif

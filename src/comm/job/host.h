/* What a process tells the other ranks about the host on which it runs. */
#ifndef YKI_HOST_H
#define YKI_HOST_H

#include "comm/job/rendezvous.h"
#include "comm/store/address.h"

/* Sets machine and host. */
void yki_host_describe(const yki_job *job, yki_peer *me);
/*
 * Sets the address: YOKE_LOCAL_ADDR, else that of the interface YOKE_SOCKET_IFNAME (or
 * GLOO_SOCKET_IFNAME), else the source address of the connection to the store.
 */
yk_status yki_host_address(yki_peer *me, const yk_store *store);
/* The addresses at which other hosts may reach this one, the likelier ones first: the chosen one,
 * or at most `most` of those of all interfaces. */
yk_status yki_host_all_addresses(char (*list)[YKI_ADDRESS_TEXT], int most, int *count);
/* Whether other hosts cannot reach this address. */
bool yki_host_is_loopback(const char *address);
/* Sets the address to the one from which this host would reach `other`; false if there is none. */
bool yki_host_address_towards(yki_peer *me, const char *other);

#endif

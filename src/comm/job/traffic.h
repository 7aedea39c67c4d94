/* What this host sends and receives, to tell a slow network from one that loses data. */
#ifndef YKI_TRAFFIC_H
#define YKI_TRAFFIC_H

#include <stddef.h>
#include <stdint.h>

typedef struct yki_traffic {
    double at; /* when it was read, in yki_now(); 0: never */
    uint64_t sent, received;
} yki_traffic;

/* Bytes since the host has started, over all interfaces but the loopback one. */
void yki_traffic_read(yki_traffic *traffic);
/*
 * Says in text how many bytes have moved since then, if they are so many that data must have been
 * among them; "" otherwise.
 */
void yki_traffic_describe(const yki_traffic *since, char *text, size_t size);

#endif

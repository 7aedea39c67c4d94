/* See orders.h. */
#define _GNU_SOURCE
#include "launch/orders.h"

#include <stdarg.h>
#include <stdio.h>

void cli_orders_give(cli_orders *orders, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(orders->text, sizeof orders->text, format, arguments);
    va_end(arguments);
    cli_bus_post(orders->store, CLI_BUS_ORDERS, orders->text);
}

/*
 * Whoever takes part in the next attempt has read what came before the last order "round". Short
 * orders stay: a launcher that was suspended for long must still learn that its ranks are to stop.
 */
static void forget_orders(cli_orders *orders)
{
    int64_t next;
    cli_bus_empty_long(orders->store, CLI_BUS_ORDERS, &orders->kept, orders->last_round);
    if (yk_store_add(orders->store, CLI_BUS_ORDERS, 0, &next) == YK_OK)
        orders->last_round = next;
}

void cli_orders_start(cli_orders *orders, const cli_agents *agents, const cli_next_round *round)
{
    int at = snprintf(orders->text, sizeof orders->text, "round %d %d %d %d %d %d %s\n",
                      round->attempt, round->restarts, round->world, round->nodes, round->port,
                      round->master_port, round->secret);
    cli_agents_print_round(agents, orders->text + at, sizeof orders->text - (size_t)at);
    forget_orders(orders);
    cli_bus_post(orders->store, CLI_BUS_ORDERS, orders->text);
}

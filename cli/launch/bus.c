/*
 * A stream is a counter and one key per message: a writer takes the next number with an atomic add
 * and then sets the key of that number. A writer that dies between the two leaves a hole, which the
 * reader skips after a while.
 */
#include "launch/bus.h"

#include <stdio.h>
#include <string.h>

#include "clock.h"

static const double hole_patience_s = 2;

static void message_key(char key[64], const char *stream, int64_t number)
{
    snprintf(key, 64, "%s/%lld", stream, (long long)number);
}

yk_status cli_bus_post(yk_store *store, const char *stream, const char *text)
{
    char key[64];
    int64_t count;
    yk_status status = yk_store_add(store, stream, 1, &count);
    if (status != YK_OK)
        return status;
    message_key(key, stream, count - 1);
    size_t size = strlen(text);
    return yk_store_set(store, key, text, size < CLI_MESSAGE_SIZE ? size : CLI_MESSAGE_SIZE - 1);
}

yk_status cli_bus_open(cli_bus_reader *reader, yk_store *store, const char *stream)
{
    *reader = (cli_bus_reader){.stream = stream};
    return yk_store_add(store, stream, 0, &reader->next);
}

static yk_status skip_hole(cli_bus_reader *reader, yk_store *store)
{
    int64_t count;
    yk_status status = yk_store_add(store, reader->stream, 0, &count);
    double now = cli_clock_s();
    if (status != YK_OK)
        return status;
    if (count <= reader->next)
        reader->hole_s = 0;
    else if (reader->hole_s == 0)
        reader->hole_s = now;
    else if (now - reader->hole_s > hole_patience_s) {
        reader->next++;
        reader->hole_s = 0;
    }
    return YK_ERROR_TIMEOUT;
}

yk_status cli_bus_next(cli_bus_reader *reader, yk_store *store, char *text, double wait_s)
{
    char key[64];
    size_t size;
    message_key(key, reader->stream, reader->next);
    yk_status status = yk_store_get(store, key, text, CLI_MESSAGE_SIZE - 1, &size, wait_s);
    if (status == YK_ERROR_TIMEOUT)
        return skip_hole(reader, store);
    if (status != YK_OK)
        return status;
    text[size] = '\0';
    reader->next++;
    reader->hole_s = 0;
    return YK_OK;
}

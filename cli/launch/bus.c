/*
 * A stream is a counter and one key per message: a writer takes the next number with an atomic add
 * and then sets the key of that number. A writer that dies between the two leaves a hole, which the
 * reader closes after a while with an empty message. A writer that was only slow finds its number
 * closed and takes another one, so no message is lost.
 *
 * A job may be restarted for days, and with each attempt every host reports the last lines of a
 * rank. The only reader of a stream therefore empties the messages that it has read. Where there
 * are several, the writer empties the long ones that all of them must have read. The keys stay, so
 * that their numbers remain taken.
 */
#include "launch/bus.h"

#include <stdio.h>
#include <string.h>

#include "common/clock.h"

static const double hole_patience_s = 2;

static void message_key(char key[64], const char *stream, int64_t number)
{
    snprintf(key, 64, "%s/%lld", stream, (long long)number);
}

/* Sets the message of a number, unless there is one already. */
static yk_status set_message(yk_store *store, const char *stream, int64_t number, const char *text,
                             bool *set)
{
    char key[64];
    size_t size = strlen(text);
    message_key(key, stream, number);
    return yk_store_compare_set(store, key, NULL, 0, text,
                                size < CLI_MESSAGE_SIZE ? size : CLI_MESSAGE_SIZE - 1, set);
}

yk_status cli_bus_post(yk_store *store, const char *stream, const char *text)
{
    yk_status status = YK_OK;
    for (bool posted = false; status == YK_OK && !posted;) {
        int64_t count;
        status = yk_store_add(store, stream, 1, &count);
        if (status == YK_OK)
            status = set_message(store, stream, count - 1, text, &posted);
    }
    return status;
}

yk_status cli_bus_empty_long(yk_store *store, const char *stream, int64_t *first, int64_t end)
{
    yk_status status = YK_OK;
    for (; status == YK_OK && *first < end; ++*first) {
        char key[64], text[CLI_MESSAGE_SHORT];
        size_t size;
        message_key(key, stream, *first);
        status = yk_store_get(store, key, text, sizeof text, &size, 0);
        if (status == YK_ERROR_INVALID_ARGUMENT)
            status = yk_store_set(store, key, "", 0);
        else if (status == YK_ERROR_TIMEOUT)
            status = YK_OK; /* a hole */
    }
    return status;
}

yk_status cli_bus_open(cli_bus_reader *reader, yk_store *store, const char *stream)
{
    *reader = (cli_bus_reader){.stream = stream};
    return yk_store_add(store, stream, 0, &reader->next);
}

static yk_status close_hole(cli_bus_reader *reader, yk_store *store)
{
    int64_t count;
    bool closed;
    yk_status status = yk_store_add(store, reader->stream, 0, &count);
    double now = cli_clock_s();
    if (status != YK_OK)
        return status;
    if (count <= reader->next)
        reader->hole_s = 0;
    else if (reader->hole_s == 0)
        reader->hole_s = now;
    else if (now - reader->hole_s > hole_patience_s)
        status = set_message(store, reader->stream, reader->next, "", &closed);
    return status == YK_OK ? YK_ERROR_TIMEOUT : status;
}

yk_status cli_bus_next(cli_bus_reader *reader, yk_store *store, char *text, double wait_s)
{
    char key[64];
    size_t size;
    message_key(key, reader->stream, reader->next);
    yk_status status = yk_store_get(store, key, text, CLI_MESSAGE_SIZE - 1, &size, wait_s);
    if (status == YK_ERROR_TIMEOUT)
        return close_hole(reader, store);
    if (status != YK_OK)
        return status;
    text[size] = '\0';
    reader->next++;
    reader->hole_s = 0;
    if (size == 0)
        return YK_ERROR_TIMEOUT;
    return reader->forgets ? yk_store_set(store, key, "", 0) : YK_OK;
}

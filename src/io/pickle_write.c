/*
 * The opcodes of pickle protocol 2 that the checkpoints need, as CPython's Lib/pickletools.py
 * documents them. Numbers are little-endian, except for the big-endian double of BINFLOAT.
 */
#include "io/pickle_write.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "io/pickle_opcode.h"

/* Room for `count` more bytes, which are the pickle's next ones; NULL after a failure. */
static void *extend(yki_pickle_writer *writer, size_t count)
{
    writer->failed =
        writer->failed || !yki_reserve(&writer->data, writer->size + count, &writer->capacity, 1);
    if (writer->failed)
        return NULL;
    writer->size += count;
    return writer->data + writer->size - count;
}

static void put_bytes(yki_pickle_writer *writer, const void *bytes, size_t count)
{
    void *room = extend(writer, count);
    if (room)
        memcpy(room, bytes, count);
}

static void put(yki_pickle_writer *writer, int byte)
{
    unsigned char value = (unsigned char)byte;
    put_bytes(writer, &value, 1);
}

static void put_little(yki_pickle_writer *writer, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        put(writer, (int)(value >> (8 * i) & 0xff));
}

void yki_pickle_init(yki_pickle_writer *writer)
{
    *writer = (yki_pickle_writer){0};
    put(writer, YKI_OP_PROTO);
    put(writer, 2);
}

void yki_pickle_fini(yki_pickle_writer *writer)
{
    free(writer->data);
    *writer = (yki_pickle_writer){0};
}

yk_status yki_pickle_finish(yki_pickle_writer *writer)
{
    put(writer, YKI_OP_STOP);
    return writer->failed ? yki_error_memory(2 * writer->capacity, "a pickle") : YK_OK;
}

void yki_pickle_none(yki_pickle_writer *writer)
{
    put(writer, YKI_OP_NONE);
}

void yki_pickle_bool(yki_pickle_writer *writer, bool value)
{
    put(writer, value ? YKI_OP_NEWTRUE : YKI_OP_NEWFALSE);
}

void yki_pickle_int(yki_pickle_writer *writer, int64_t value)
{
    if (value >= 0 && value <= UINT8_MAX) {
        put(writer, YKI_OP_BININT1);
        put_little(writer, (uint64_t)value, 1);
    } else if (value >= 0 && value <= UINT16_MAX) {
        put(writer, YKI_OP_BININT2);
        put_little(writer, (uint64_t)value, 2);
    } else if (value >= INT32_MIN && value <= INT32_MAX) {
        put(writer, YKI_OP_BININT);
        put_little(writer, (uint64_t)value, 4);
    } else {
        put(writer, YKI_OP_LONG1);
        put(writer, 8);
        put_little(writer, (uint64_t)value, 8);
    }
}

void yki_pickle_float(yki_pickle_writer *writer, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put(writer, YKI_OP_BINFLOAT);
    for (int i = 7; i >= 0; i--)
        put(writer, (int)(bits >> (8 * i) & 0xff));
}

void yki_pickle_text(yki_pickle_writer *writer, const char *text)
{
    size_t length = strlen(text), bytes = yki_utf8_from_bytes(NULL, text, length);
    put(writer, YKI_OP_BINUNICODE);
    put_little(writer, bytes, 4);
    char *room = extend(writer, bytes);
    if (room)
        yki_utf8_from_bytes(room, text, length);
}

void yki_pickle_global(yki_pickle_writer *writer, const char *module, const char *name)
{
    put(writer, YKI_OP_GLOBAL);
    put_bytes(writer, module, strlen(module));
    put(writer, '\n');
    put_bytes(writer, name, strlen(name));
    put(writer, '\n');
}

void yki_pickle_mark(yki_pickle_writer *writer)
{
    put(writer, YKI_OP_MARK);
}

void yki_pickle_tuple(yki_pickle_writer *writer)
{
    put(writer, YKI_OP_TUPLE);
}

void yki_pickle_appends(yki_pickle_writer *writer)
{
    put(writer, YKI_OP_APPENDS);
}

void yki_pickle_setitems(yki_pickle_writer *writer)
{
    put(writer, YKI_OP_SETITEMS);
}

void yki_pickle_list(yki_pickle_writer *writer)
{
    put(writer, YKI_OP_EMPTY_LIST);
}

void yki_pickle_dict(yki_pickle_writer *writer)
{
    put(writer, YKI_OP_EMPTY_DICT);
}

void yki_pickle_ordered_dict(yki_pickle_writer *writer)
{
    yki_pickle_global(writer, "collections", "OrderedDict");
    put(writer, YKI_OP_EMPTY_TUPLE);
    put(writer, YKI_OP_REDUCE);
}

void yki_pickle_reduce(yki_pickle_writer *writer)
{
    put(writer, YKI_OP_REDUCE);
}

void yki_pickle_build(yki_pickle_writer *writer)
{
    put(writer, YKI_OP_BUILD);
}

void yki_pickle_persistent(yki_pickle_writer *writer)
{
    put(writer, YKI_OP_BINPERSID);
}

/*
 * The pickle machine's opcodes, as CPython's Modules/_pickle.c and Lib/pickletools.py describe
 * them: an allow-list. What they work on is pickle_machine.h's.
 */
#include "io/pickle.h"

#include <string.h>

#include "base/memory.h"
#include "io/pickle_machine.h"
#include "io/pickle_opcode.h"

/* ---- input ----------------------------------------------------------------------------------- */

static yk_status take(yki_pickle *pickle, size_t bytes, const uint8_t **data)
{
    if (pickle->size - pickle->at < bytes)
        return yki_pickle_refuse(pickle, "needs %zu more bytes, %zu are left", bytes,
                                 pickle->size - pickle->at);
    *data = pickle->data + pickle->at;
    pickle->at += bytes;
    return YK_OK;
}

/* A little-endian unsigned integer of 1 to 8 bytes. */
static yk_status take_unsigned(yki_pickle *pickle, size_t bytes, uint64_t *value)
{
    const uint8_t *data = NULL;
    YK_TRY(take(pickle, bytes, &data));
    *value = 0;
    for (size_t i = 0; i < bytes; i++)
        *value |= (uint64_t)data[i] << (8 * i);
    return YK_OK;
}

/* ---- leaves ---------------------------------------------------------------------------------- */

static yk_status push_new(yki_pickle *pickle, yki_pickle_type type)
{
    yki_pickle_value *value = NULL;
    YK_TRY(yki_pickle_new(pickle, type, &value));
    return yki_pickle_push(pickle, value);
}

static yk_status push_integer(yki_pickle *pickle, yki_pickle_type type, int64_t integer)
{
    yki_pickle_value *value = NULL;
    YK_TRY(yki_pickle_new(pickle, type, &value));
    value->integer = integer;
    return yki_pickle_push(pickle, value);
}

static yk_status read_integer(yki_pickle *pickle, size_t bytes)
{
    uint64_t value;
    YK_TRY(take_unsigned(pickle, bytes, &value));
    return push_integer(pickle, YKI_PICKLE_INT, bytes == 4 ? (int32_t)value : (int64_t)value);
}

static yk_status push_float(yki_pickle *pickle, double real)
{
    yki_pickle_value *value = NULL;
    YK_TRY(yki_pickle_new(pickle, YKI_PICKLE_FLOAT, &value));
    value->real = real;
    return yki_pickle_push(pickle, value);
}

/* LONG1: a length and that many bytes of two's complement, little-endian. What 64 bits do not hold
 * (states of random generators) is about the float that it becomes. */
static yk_status read_long(yki_pickle *pickle)
{
    uint64_t length = 0;
    const uint8_t *data = NULL;
    YK_TRY(take_unsigned(pickle, 1, &length));
    YK_TRY(take(pickle, length, &data));
    bool negative = length && data[length - 1] & 0x80;
    uint64_t value = negative ? UINT64_MAX : 0;
    double real = negative ? -1 : 0;
    for (size_t i = length; i-- > 0;) {
        value = value << 8 | data[i];
        real = real * 256 + data[i];
    }
    return length > 8 ? push_float(pickle, real)
                      : push_integer(pickle, YKI_PICKLE_INT, (int64_t)value);
}

static yk_status read_float(yki_pickle *pickle)
{
    const uint8_t *data = NULL;
    double real;
    YK_TRY(take(pickle, 8, &data));
    uint64_t bits = 0;
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | data[i];
    memcpy(&real, &bits, sizeof bits);
    return push_float(pickle, real);
}

static yk_status read_text(yki_pickle *pickle, yki_pickle_type type, size_t length_bytes)
{
    uint64_t length = 0;
    const uint8_t *data = NULL;
    yki_pickle_value *value = NULL;
    YK_TRY(take_unsigned(pickle, length_bytes, &length));
    YK_TRY(take(pickle, length, &data));
    YK_TRY(yki_pickle_new(pickle, type, &value));
    value->text = (const char *)data;
    value->count = (uint32_t)length;
    return yki_pickle_push(pickle, value);
}

static bool accepted(const yki_pickle *pickle, const char *text, size_t length)
{
    for (size_t i = 0; pickle->globals && pickle->globals[i]; i++)
        if (strlen(pickle->globals[i]) == length && memcmp(pickle->globals[i], text, length) == 0)
            return true;
    return !pickle->globals;
}

/* text is "MODULE\nNAME". */
static yk_status push_global(yki_pickle *pickle, const char *text, size_t length)
{
    char name[80];
    yki_pickle_value *value = NULL;
    if (!accepted(pickle, text, length))
        return yki_pickle_refuse(pickle,
                                 "refers to %s, which such a file never does (nothing was run)",
                                 yki_pickle_printable(name, sizeof name, text, length));
    YK_TRY(yki_pickle_new(pickle, YKI_PICKLE_GLOBAL, &value));
    value->text = text;
    value->count = (uint32_t)length;
    return yki_pickle_push(pickle, value);
}

/* GLOBAL: two lines, a module and a name in it. */
static yk_status read_global(yki_pickle *pickle)
{
    const char *text = (const char *)pickle->data + pickle->at;
    size_t left = pickle->size - pickle->at;
    const char *middle = memchr(text, '\n', left);
    const char *end = middle ? memchr(middle + 1, '\n', left - (size_t)(middle + 1 - text)) : NULL;
    if (!end)
        return yki_pickle_refuse(pickle, "expected a module and a name, each ended by a newline");
    size_t length = (size_t)(end - text);
    pickle->at += length + 1;
    return push_global(pickle, text, length);
}

/* STACK_GLOBAL: a module and a name in it, which are on the stack. */
static yk_status pop_global(yki_pickle *pickle)
{
    yki_pickle_value **values = NULL;
    char *text = NULL;
    YK_TRY(yki_pickle_pop(pickle, 2, &values));
    const yki_pickle_value *module = values[0], *name = values[1];
    if (module->type != YKI_PICKLE_STRING || name->type != YKI_PICKLE_STRING)
        return yki_pickle_refuse(pickle, "expected the names of a module and of something in it");
    size_t length = (size_t)module->count + 1 + name->count;
    YK_TRY(yki_pickle_new_text(pickle, length, &text));
    memcpy(text, module->text, module->count);
    text[module->count] = '\n';
    memcpy(text + module->count + 1, name->text, name->count);
    return push_global(pickle, text, length);
}

/* ---- containers ------------------------------------------------------------------------------ */

/* A new container of the n values popped at `values`. */
static yk_status push_container(yki_pickle *pickle, yki_pickle_type type, yki_pickle_value **values,
                                size_t n)
{
    yki_pickle_value *container = NULL;
    YK_TRY(yki_pickle_new(pickle, type, &container));
    YK_TRY(yki_pickle_place(pickle, container, values, n));
    return yki_pickle_push(pickle, container);
}

static yk_status make_small(yki_pickle *pickle, yki_pickle_type type, uint32_t n)
{
    yki_pickle_value **values = NULL;
    YK_TRY(yki_pickle_pop(pickle, n, &values));
    return push_container(pickle, type, values, n);
}

static yk_status make_marked(yki_pickle *pickle, yki_pickle_type type)
{
    yki_pickle_value **values = NULL;
    uint32_t count = 0;
    YK_TRY(yki_pickle_pop_mark(pickle, &values, &count));
    return push_container(pickle, type, values, count);
}

/* Whether it is _codecs.encode(TEXT, "latin1") of ASCII: what Python 3 makes of bytes in
 * protocol 2. */
static bool encodes_ascii(const yki_pickle_value *callable, const yki_pickle_value *arguments)
{
    const yki_pickle_value *text = yki_pickle_item(arguments, 0);
    if (!yki_pickle_is_global(callable, "_codecs", "encode") ||
        !yki_pickle_is(text, YKI_PICKLE_STRING) ||
        !yki_pickle_is_text(yki_pickle_item(arguments, 1), "latin1"))
        return false;
    for (uint32_t i = 0; i < text->count; i++)
        if (text->text[i] & 0x80)
            return false;
    return true;
}

static yk_status push_bytes(yki_pickle *pickle, const yki_pickle_value *text)
{
    yki_pickle_value *value = NULL;
    YK_TRY(yki_pickle_new(pickle, YKI_PICKLE_BYTES, &value));
    value->text = text->text;
    value->count = text->count;
    return yki_pickle_push(pickle, value);
}

/* REDUCE and NEWOBJ: remembers the call and makes none. */
static yk_status make_call(yki_pickle *pickle)
{
    yki_pickle_value **values = NULL;
    YK_TRY(yki_pickle_pop(pickle, 2, &values));
    if (encodes_ascii(values[0], values[1]))
        return push_bytes(pickle, yki_pickle_item(values[1], 0));
    bool callable = values[0]->type == YKI_PICKLE_GLOBAL || values[0]->type == YKI_PICKLE_CALL;
    if (!callable || values[1]->type != YKI_PICKLE_TUPLE)
        return yki_pickle_refuse(
            pickle, "expected a global and a tuple of arguments, found a %s and a %s",
            yki_pickle_type_name(values[0]->type), yki_pickle_type_name(values[1]->type));
    yki_pickle_value *head[YKI_PICKLE_CALL_HEAD] = {values[0], values[1], NULL};
    return push_container(pickle, YKI_PICKLE_CALL, head, YKI_PICKLE_CALL_HEAD);
}

static yk_status build(yki_pickle *pickle)
{
    yki_pickle_value **state, *call;
    YK_TRY(yki_pickle_pop(pickle, 1, &state));
    yki_pickle_value *value = state[0];
    YK_TRY(yki_pickle_top(pickle, &call));
    if (call->type != YKI_PICKLE_CALL || call->items[2])
        return yki_pickle_refuse(pickle, "expected a call without state, found a %s",
                                 yki_pickle_type_name(call->type));
    if (call->placed || call == value)
        return yki_pickle_refuse(pickle, "an object changes after it was put into a container");
    value->placed = 1;
    call->items[2] = value;
    if (value->height >= call->height)
        call->height = (uint16_t)(value->height + 1);
    if (call->height > YKI_PICKLE_DEPTH)
        return yki_pickle_refuse(pickle, "nested deeper than %d", YKI_PICKLE_DEPTH);
    return YK_OK;
}

/* Puts the popped values into the container on top: items of a list or set, or pairs of a dict. The
 * items of an object that is like a list, such as a deque, are not kept: nobody asks for them. */
static yk_status fill(yki_pickle *pickle, yki_pickle_type type, yki_pickle_value **values,
                      uint32_t count)
{
    yki_pickle_value *container = NULL;
    YK_TRY(yki_pickle_top(pickle, &container));
    bool is_dict = type == YKI_PICKLE_DICT, is_call = container->type == YKI_PICKLE_CALL;
    if (is_call && type == YKI_PICKLE_LIST)
        return YK_OK;
    if (container->type != type && !(is_dict && is_call))
        return yki_pickle_refuse(pickle, "expected a %s to put values into, found a %s",
                                 yki_pickle_type_name(type), yki_pickle_type_name(container->type));
    if (is_dict && count % 2)
        return yki_pickle_refuse(pickle, "expected keys and values in pairs, found %u of them",
                                 count);
    return yki_pickle_place(pickle, container, values, count);
}

static yk_status fill_small(yki_pickle *pickle, yki_pickle_type type)
{
    yki_pickle_value **values = NULL;
    uint32_t count = type == YKI_PICKLE_DICT ? 2 : 1;
    YK_TRY(yki_pickle_pop(pickle, count, &values));
    return fill(pickle, type, values, count);
}

static yk_status fill_marked(yki_pickle *pickle, yki_pickle_type type)
{
    yki_pickle_value **values = NULL;
    uint32_t count = 0;
    YK_TRY(yki_pickle_pop_mark(pickle, &values, &count));
    return fill(pickle, type, values, count);
}

/* ---- memo ------------------------------------------------------------------------------------ */

static yk_status put(yki_pickle *pickle, size_t index_bytes)
{
    uint64_t index = 0;
    yki_pickle_value *value = NULL;
    YK_TRY(take_unsigned(pickle, index_bytes, &index));
    YK_TRY(yki_pickle_top(pickle, &value));
    return yki_pickle_remember(pickle, (uint32_t)index, value);
}

/* MEMOIZE: under the next index. */
static yk_status memoize(yki_pickle *pickle)
{
    yki_pickle_value *value = NULL;
    YK_TRY(yki_pickle_top(pickle, &value));
    return yki_pickle_remember(pickle, pickle->memo.count, value);
}

static yk_status get(yki_pickle *pickle, size_t index_bytes)
{
    uint64_t index = 0;
    yki_pickle_value *value = NULL;
    YK_TRY(take_unsigned(pickle, index_bytes, &index));
    YK_TRY(yki_pickle_recall(pickle, (uint32_t)index, &value));
    return yki_pickle_push(pickle, value);
}

/* ---- the machine ----------------------------------------------------------------------------- */

static yk_status read_protocol(yki_pickle *pickle)
{
    uint64_t protocol = 0;
    YK_TRY(take_unsigned(pickle, 1, &protocol));
    if (protocol < 2 || protocol > 5)
        return yki_pickle_refuse(pickle, "expected pickle protocol 2 to 5, found %u",
                                 (unsigned)protocol);
    return YK_OK;
}

/* FRAME: how many bytes may be read at once, which matters to streams only. */
static yk_status skip_frame(yki_pickle *pickle)
{
    uint64_t bytes = 0;
    return take_unsigned(pickle, 8, &bytes);
}

/* One opcode, all but PROTO and STOP: each of the three switches leaves to the next one what it
 * does not know. step() begins, with what makes leaves. */
static yk_status step_memo(yki_pickle *pickle, uint8_t opcode)
{
    switch (opcode) {
    case YKI_OP_BINPUT:
        return put(pickle, 1);
    case YKI_OP_LONG_BINPUT:
        return put(pickle, 4);
    case YKI_OP_MEMOIZE:
        return memoize(pickle);
    case YKI_OP_FRAME:
        return skip_frame(pickle);
    case YKI_OP_BINGET:
        return get(pickle, 1);
    case YKI_OP_LONG_BINGET:
        return get(pickle, 4);
    default:
        return yki_pickle_refuse(pickle, "opcode 0x%02x is not one that is read here", opcode);
    }
}

static yk_status step_container(yki_pickle *pickle, uint8_t opcode)
{
    switch (opcode) {
    case YKI_OP_MARK:
        return yki_pickle_push_mark(pickle);
    case YKI_OP_EMPTY_LIST:
        return push_new(pickle, YKI_PICKLE_LIST);
    case YKI_OP_EMPTY_DICT:
        return push_new(pickle, YKI_PICKLE_DICT);
    case YKI_OP_EMPTY_SET:
        return push_new(pickle, YKI_PICKLE_SET);
    case YKI_OP_EMPTY_TUPLE:
        return push_new(pickle, YKI_PICKLE_TUPLE);
    case YKI_OP_TUPLE1:
        return make_small(pickle, YKI_PICKLE_TUPLE, 1);
    case YKI_OP_TUPLE2:
        return make_small(pickle, YKI_PICKLE_TUPLE, 2);
    case YKI_OP_TUPLE3:
        return make_small(pickle, YKI_PICKLE_TUPLE, 3);
    case YKI_OP_TUPLE:
        return make_marked(pickle, YKI_PICKLE_TUPLE);
    case YKI_OP_FROZENSET:
        return make_marked(pickle, YKI_PICKLE_SET);
    case YKI_OP_APPEND:
        return fill_small(pickle, YKI_PICKLE_LIST);
    case YKI_OP_APPENDS:
        return fill_marked(pickle, YKI_PICKLE_LIST);
    case YKI_OP_SETITEM:
        return fill_small(pickle, YKI_PICKLE_DICT);
    case YKI_OP_SETITEMS:
        return fill_marked(pickle, YKI_PICKLE_DICT);
    case YKI_OP_ADDITEMS:
        return fill_marked(pickle, YKI_PICKLE_SET);
    case YKI_OP_REDUCE:
    case YKI_OP_NEWOBJ:
        return make_call(pickle);
    case YKI_OP_BUILD:
        return build(pickle);
    case YKI_OP_BINPERSID:
        return make_small(pickle, YKI_PICKLE_PERSISTENT, 1);
    default:
        return step_memo(pickle, opcode);
    }
}

static yk_status step(yki_pickle *pickle, uint8_t opcode)
{
    switch (opcode) {
    case YKI_OP_NONE:
        return push_new(pickle, YKI_PICKLE_NONE);
    case YKI_OP_NEWTRUE:
        return push_integer(pickle, YKI_PICKLE_BOOL, 1);
    case YKI_OP_NEWFALSE:
        return push_integer(pickle, YKI_PICKLE_BOOL, 0);
    case YKI_OP_BININT:
        return read_integer(pickle, 4);
    case YKI_OP_BININT1:
        return read_integer(pickle, 1);
    case YKI_OP_BININT2:
        return read_integer(pickle, 2);
    case YKI_OP_LONG1:
        return read_long(pickle);
    case YKI_OP_BINFLOAT:
        return read_float(pickle);
    case YKI_OP_SHORT_BINSTRING:
    case YKI_OP_SHORT_BINBYTES:
        return read_text(pickle, YKI_PICKLE_BYTES, 1);
    case YKI_OP_BINSTRING:
    case YKI_OP_BINBYTES:
        return read_text(pickle, YKI_PICKLE_BYTES, 4);
    case YKI_OP_BINBYTES8:
    case YKI_OP_BYTEARRAY8:
        return read_text(pickle, YKI_PICKLE_BYTES, 8);
    case YKI_OP_SHORT_BINUNICODE:
        return read_text(pickle, YKI_PICKLE_STRING, 1);
    case YKI_OP_BINUNICODE:
        return read_text(pickle, YKI_PICKLE_STRING, 4);
    case YKI_OP_BINUNICODE8:
        return read_text(pickle, YKI_PICKLE_STRING, 8);
    case YKI_OP_GLOBAL:
        return read_global(pickle);
    case YKI_OP_STACK_GLOBAL:
        return pop_global(pickle);
    default:
        return step_container(pickle, opcode);
    }
}

static yk_status stop(yki_pickle *pickle)
{
    yki_pickle_value **values = NULL;
    YK_TRY(yki_pickle_pop(pickle, 1, &values));
    if (pickle->stack.count || pickle->mark_count)
        return yki_pickle_refuse(pickle, "STOP with %u values and %u marks left",
                                 pickle->stack.count, pickle->mark_count);
    if (pickle->at != pickle->size)
        return yki_pickle_refuse(pickle, "STOP with %zu bytes left", pickle->size - pickle->at);
    pickle->root = values[0];
    return YK_OK;
}

static yk_status run(yki_pickle *pickle)
{
    const uint8_t *opcode = NULL;
    YK_TRY(take(pickle, 1, &opcode));
    if (*opcode != YKI_OP_PROTO)
        return yki_pickle_refuse(
            pickle, "expected a pickle of protocol 2 or later (0x80), found 0x%02x", *opcode);
    YK_TRY(read_protocol(pickle));
    YK_TRY(yki_pickle_grow(pickle, &pickle->stack, 1)); /* from here on there is one, be it empty */
    while (!pickle->root) {
        pickle->opcode = pickle->at;
        YK_TRY(take(pickle, 1, &opcode));
        YK_TRY(*opcode == YKI_OP_STOP ? stop(pickle) : step(pickle, *opcode));
    }
    return YK_OK;
}

yk_status yki_pickle_parse(yki_pickle **pickle, const char *name, const void *data, size_t size,
                           const char *const *globals)
{
    if (size > INT32_MAX) /* counts have 32 bits, and are doubled */
        return yki_error(YK_ERROR_FORMAT, "%s: a pickle of %zu bytes; at most 2 GiB are read", name,
                         size);
    yki_pickle *self = yki_calloc(1, sizeof *self);
    if (!self)
        return yki_error_memory(sizeof *self, name);
    self->data = data;
    self->size = size;
    self->globals = globals;
    self->name = yki_strdup(name);
    yk_status status = self->name ? run(self) : yki_error_memory(strlen(name) + 1, name);
    yki_pickle_free_machine(self);
    if (status == YK_OK)
        *pickle = self;
    else
        yki_pickle_destroy(self);
    return status;
}

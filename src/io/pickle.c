/*
 * The pickle machine: a stack of values, a stack of marks into it and a memo, as CPython's
 * Modules/_pickle.c and Lib/pickletools.py describe them, over an allow-list of opcodes.
 *
 * Invariants: a mark never lies above the stack's top; an opcode takes only values above the last
 * mark; a value that was put into a container is `placed` and changes no more, therefore no value
 * can reach itself and `height` is exact. Values live in chunks and are freed with the pickle.
 */
#include "io/pickle.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* The opcodes that are read, by the names that pickletools gives them. */
enum opcode {
    OP_MARK = '(',
    OP_STOP = '.',
    OP_BININT = 'J',
    OP_BININT1 = 'K',
    OP_BININT2 = 'M',
    OP_BINFLOAT = 'G',
    OP_NONE = 'N',
    OP_BINPERSID = 'Q',
    OP_REDUCE = 'R',
    OP_BINSTRING = 'T',
    OP_SHORT_BINSTRING = 'U',
    OP_BINUNICODE = 'X',
    OP_APPEND = 'a',
    OP_BUILD = 'b',
    OP_GLOBAL = 'c',
    OP_APPENDS = 'e',
    OP_BINGET = 'h',
    OP_LONG_BINGET = 'j',
    OP_BINPUT = 'q',
    OP_LONG_BINPUT = 'r',
    OP_SETITEM = 's',
    OP_TUPLE = 't',
    OP_SETITEMS = 'u',
    OP_EMPTY_TUPLE = ')',
    OP_EMPTY_LIST = ']',
    OP_EMPTY_DICT = '}',
    OP_PROTO = 0x80,
    OP_NEWOBJ = 0x81,
    OP_TUPLE1 = 0x85,
    OP_TUPLE2 = 0x86,
    OP_TUPLE3 = 0x87,
    OP_NEWTRUE = 0x88,
    OP_NEWFALSE = 0x89,
    OP_LONG1 = 0x8a,
    OP_EMPTY_SET = 0x8f
};

enum {
    CHUNK_VALUES = 512,
    CALL_HEAD = 3,              /* callable, arguments, state */
    MALLOC_OVERHEAD = 16,       /* counted with every block */
    BUDGET_CONSTANT = 64 * 1024 /* what the smallest pickle may hold */
};

typedef struct chunk {
    struct chunk *next;
    uint32_t used;
    yki_pickle_value values[CHUNK_VALUES];
} chunk;

/* A growing array; capacity and count in elements. */
typedef struct value_stack {
    yki_pickle_value **values;
    uint32_t count, capacity;
} value_stack;

struct yki_pickle {
    char *name;
    const uint8_t *data;
    size_t size, at, opcode; /* at: next byte; opcode: where the running one began */
    const char *const *globals;
    chunk *chunks;
    value_stack stack, memo;
    uint32_t *marks, mark_count, mark_capacity;
    size_t held, peak; /* bytes */
    uint32_t made;     /* values made so far, each at least one byte of input */
    yki_pickle_value *root;
};

/* ---- errors ------------------------------------------------------------------------------------
 */

static YKI_PRINTF(2, 3) yk_status refuse(const yki_pickle *pickle, const char *format, ...)
{
    char what[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return yki_error(YK_FORMAT, "%s: offset %zu: %s", pickle->name, pickle->opcode, what);
}
#ifdef __clang_analyzer__
#define refuse(...) ((void)(refuse)(__VA_ARGS__), YK_FORMAT) /* as in base/error.h */
#endif

/* Bytes of a file made fit for a terminal: "os.system" of "os\nsystem", '?' for what is odd. */
static const char *printable(char *out, size_t size, const char *text, size_t length)
{
    size_t n = length < size - 1 ? length : size - 1;
    for (size_t i = 0; i < n; i++)
        out[i] = text[i] == '\n' ? '.' : text[i] > ' ' && text[i] < 127 ? text[i] : '?';
    out[n] = '\0';
    return out;
}

yk_status yki_pickle_unexpected(const yki_pickle *pickle, const yki_pickle_value *value,
                                const char *format, ...)
{
    char what[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    if (!value)
        return yki_error(YK_FORMAT, "%s: expected %s", pickle->name, what);
    char callee[96] = "";
    const yki_pickle_value *callable = yki_pickle_callable(value);
    if (callable)
        printable(callee, sizeof callee, callable->text, callable->count);
    return yki_error(YK_FORMAT, "%s: offset %u: expected %s, found a %s%s%s", pickle->name,
                     value->offset, what, yki_pickle_type_name(value->type), callable ? " of " : "",
                     callee);
}

/* ---- memory ------------------------------------------------------------------------------------
 */

/* realloc that counts: what is held may never exceed a small factor of the input. */
static yk_status resize(yki_pickle *pickle, void **block, size_t old_bytes, size_t bytes)
{
    size_t budget = pickle->size * YKI_PICKLE_FACTOR + BUDGET_CONSTANT;
    size_t during = pickle->held + bytes + MALLOC_OVERHEAD; /* both blocks live while one moves */
    if (during > budget)
        return refuse(pickle, "needs more than %zu bytes of memory", budget);
    void *grown = realloc(*block, bytes);
    if (!grown)
        return yki_error_memory(bytes, pickle->name);
    pickle->peak = during > pickle->peak ? during : pickle->peak;
    pickle->held = during - (*block ? old_bytes + MALLOC_OVERHEAD : 0);
    *block = grown;
    return YK_OK;
}

static yk_status new_value(yki_pickle *pickle, yki_pickle_type type, yki_pickle_value **value)
{
    if (!pickle->chunks || pickle->chunks->used == CHUNK_VALUES) {
        void *block = NULL;
        YK_TRY(resize(pickle, &block, 0, sizeof(chunk)));
        chunk *fresh = block;
        fresh->next = pickle->chunks;
        fresh->used = 0;
        pickle->chunks = fresh;
    }
    *value = &pickle->chunks->values[pickle->chunks->used++];
    **value = (yki_pickle_value){.type = (uint8_t)type, .offset = (uint32_t)pickle->opcode};
    pickle->made++;
    return YK_OK;
}

/* Items that a block holds for `count` of them: the next power of two. */
static size_t item_capacity(size_t count)
{
    size_t capacity = count ? 1 : 0;
    while (capacity < count)
        capacity *= 2;
    return capacity;
}

/* Puts n values behind the items of a container, and freezes them. */
static yk_status place(yki_pickle *pickle, yki_pickle_value *container, yki_pickle_value **values,
                       size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (values[i])
            values[i]->placed = 1;
    if (container->placed)
        return refuse(pickle, "a %s changes after it was put into a container",
                      yki_pickle_type_name(container->type));

    size_t old_capacity = item_capacity(container->count);
    size_t capacity = item_capacity(container->count + n);
    if (capacity > old_capacity) {
        void *block = container->count ? container->items : NULL;
        YK_TRY(resize(pickle, &block, old_capacity * sizeof *values, capacity * sizeof *values));
        container->items = block;
    }
    for (size_t i = 0; i < n; i++) {
        container->items[container->count++] = values[i];
        if (values[i] && values[i]->height >= container->height)
            container->height = (uint16_t)(values[i]->height + 1);
    }
    if (container->height > YKI_PICKLE_DEPTH)
        return refuse(pickle, "nested deeper than %d", YKI_PICKLE_DEPTH);
    return YK_OK;
}

/* ---- stack and marks ---------------------------------------------------------------------------
 */

static yk_status grow_stack(yki_pickle *pickle, value_stack *stack, uint32_t needed)
{
    if (needed <= stack->capacity)
        return YK_OK;
    uint32_t capacity = stack->capacity ? stack->capacity : 32;
    while (capacity < needed)
        capacity *= 2;
    size_t old_bytes = stack->capacity * sizeof *stack->values;
    void *block = stack->values;
    YK_TRY(resize(pickle, &block, old_bytes, capacity * sizeof *stack->values));
    stack->values = block;
    memset(stack->values + stack->capacity, 0,
           (capacity - stack->capacity) * sizeof *stack->values);
    stack->capacity = capacity;
    return YK_OK;
}

static yk_status push(yki_pickle *pickle, yki_pickle_value *value)
{
    YK_TRY(grow_stack(pickle, &pickle->stack, pickle->stack.count + 1));
    pickle->stack.values[pickle->stack.count++] = value;
    return YK_OK;
}

static yk_status push_mark(yki_pickle *pickle)
{
    if (pickle->mark_count == pickle->mark_capacity) {
        uint32_t capacity = pickle->mark_capacity ? 2 * pickle->mark_capacity : 32;
        void *block = pickle->marks;
        YK_TRY(resize(pickle, &block, pickle->mark_capacity * sizeof *pickle->marks,
                      capacity * sizeof *pickle->marks));
        pickle->marks = block;
        pickle->mark_capacity = capacity;
    }
    pickle->marks[pickle->mark_count++] = pickle->stack.count;
    return YK_OK;
}

/* The top n values; they may be overwritten by the next push. */
static yk_status pop(yki_pickle *pickle, uint32_t n, yki_pickle_value ***values)
{
    uint32_t floor = pickle->mark_count ? pickle->marks[pickle->mark_count - 1] : 0;
    if (pickle->stack.count - floor < n)
        return refuse(pickle, "needs %u values on the stack, which holds %u", n,
                      pickle->stack.count - floor);
    pickle->stack.count -= n;
    *values = pickle->stack.values + pickle->stack.count;
    return YK_OK;
}

/* All values above the last mark, which goes. */
static yk_status pop_mark(yki_pickle *pickle, yki_pickle_value ***values, uint32_t *count)
{
    if (!pickle->mark_count)
        return refuse(pickle, "needs a MARK, of which there is none");
    uint32_t mark = pickle->marks[--pickle->mark_count];
    *count = pickle->stack.count - mark;
    *values = pickle->stack.values + mark;
    pickle->stack.count = mark;
    return YK_OK;
}

static yk_status top(yki_pickle *pickle, yki_pickle_value **value)
{
    yki_pickle_value **values = NULL;
    YK_TRY(pop(pickle, 1, &values));
    pickle->stack.count++;
    *value = values[0];
    return YK_OK;
}

/* ---- input -------------------------------------------------------------------------------------
 */

static yk_status take(yki_pickle *pickle, size_t bytes, const uint8_t **data)
{
    if (pickle->size - pickle->at < bytes)
        return refuse(pickle, "needs %zu more bytes, %zu are left", bytes,
                      pickle->size - pickle->at);
    *data = pickle->data + pickle->at;
    pickle->at += bytes;
    return YK_OK;
}

/* A little-endian unsigned integer of 1 to 4 bytes. */
static yk_status take_unsigned(yki_pickle *pickle, size_t bytes, uint32_t *value)
{
    const uint8_t *data = NULL;
    YK_TRY(take(pickle, bytes, &data));
    *value = 0;
    for (size_t i = 0; i < bytes; i++)
        *value |= (uint32_t)data[i] << (8 * i);
    return YK_OK;
}

/* ---- leaves ------------------------------------------------------------------------------------
 */

static yk_status push_new(yki_pickle *pickle, yki_pickle_type type)
{
    yki_pickle_value *value = NULL;
    YK_TRY(new_value(pickle, type, &value));
    return push(pickle, value);
}

static yk_status push_integer(yki_pickle *pickle, yki_pickle_type type, int64_t integer)
{
    yki_pickle_value *value = NULL;
    YK_TRY(new_value(pickle, type, &value));
    value->integer = integer;
    return push(pickle, value);
}

static yk_status read_integer(yki_pickle *pickle, size_t bytes)
{
    uint32_t value;
    YK_TRY(take_unsigned(pickle, bytes, &value));
    return push_integer(pickle, YKI_PICKLE_INT, bytes == 4 ? (int32_t)value : (int64_t)value);
}

static yk_status push_float(yki_pickle *pickle, double real)
{
    yki_pickle_value *value = NULL;
    YK_TRY(new_value(pickle, YKI_PICKLE_FLOAT, &value));
    value->real = real;
    return push(pickle, value);
}

/* LONG1: a length and that many bytes of two's complement, little-endian. What 64 bits do not hold
 * (states of random generators) is about the float that it becomes. */
static yk_status read_long(yki_pickle *pickle)
{
    uint32_t length = 0;
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
    uint32_t length = 0;
    const uint8_t *data = NULL;
    yki_pickle_value *value = NULL;
    YK_TRY(take_unsigned(pickle, length_bytes, &length));
    YK_TRY(take(pickle, length, &data));
    YK_TRY(new_value(pickle, type, &value));
    value->text = (const char *)data;
    value->count = length;
    return push(pickle, value);
}

static bool accepted(const yki_pickle *pickle, const char *text, size_t length)
{
    for (size_t i = 0; pickle->globals && pickle->globals[i]; i++)
        if (strlen(pickle->globals[i]) == length && memcmp(pickle->globals[i], text, length) == 0)
            return true;
    return !pickle->globals;
}

/* GLOBAL: two lines, a module and a name in it. */
static yk_status read_global(yki_pickle *pickle)
{
    const char *text = (const char *)pickle->data + pickle->at;
    size_t left = pickle->size - pickle->at;
    const char *middle = memchr(text, '\n', left);
    const char *end = middle ? memchr(middle + 1, '\n', left - (size_t)(middle + 1 - text)) : NULL;
    if (!end)
        return refuse(pickle, "expected a module and a name, each ended by a newline");
    size_t length = (size_t)(end - text);
    char name[80];
    if (!accepted(pickle, text, length))
        return refuse(pickle, "refers to %s, which such a file never does (nothing was run)",
                      printable(name, sizeof name, text, length));
    yki_pickle_value *value = NULL;
    YK_TRY(new_value(pickle, YKI_PICKLE_GLOBAL, &value));
    value->text = text;
    value->count = (uint32_t)length;
    pickle->at += length + 1;
    return push(pickle, value);
}

/* ---- containers --------------------------------------------------------------------------------
 */

/* A new container of the n values popped at `values`. */
static yk_status push_container(yki_pickle *pickle, yki_pickle_type type, yki_pickle_value **values,
                                size_t n)
{
    yki_pickle_value *container = NULL;
    YK_TRY(new_value(pickle, type, &container));
    YK_TRY(place(pickle, container, values, n));
    return push(pickle, container);
}

static yk_status make_small(yki_pickle *pickle, yki_pickle_type type, uint32_t n)
{
    yki_pickle_value **values = NULL;
    YK_TRY(pop(pickle, n, &values));
    return push_container(pickle, type, values, n);
}

static yk_status make_tuple(yki_pickle *pickle)
{
    yki_pickle_value **values = NULL;
    uint32_t count = 0;
    YK_TRY(pop_mark(pickle, &values, &count));
    return push_container(pickle, YKI_PICKLE_TUPLE, values, count);
}

/* REDUCE and NEWOBJ: remembers the call and makes none. */
static yk_status make_call(yki_pickle *pickle)
{
    yki_pickle_value **values = NULL;
    YK_TRY(pop(pickle, 2, &values));
    if (values[0]->type != YKI_PICKLE_GLOBAL || values[1]->type != YKI_PICKLE_TUPLE)
        return refuse(pickle, "expected a global and a tuple of arguments, found a %s and a %s",
                      yki_pickle_type_name(values[0]->type), yki_pickle_type_name(values[1]->type));
    yki_pickle_value *head[CALL_HEAD] = {values[0], values[1], NULL};
    return push_container(pickle, YKI_PICKLE_CALL, head, CALL_HEAD);
}

static yk_status build(yki_pickle *pickle)
{
    yki_pickle_value **state, *call;
    YK_TRY(pop(pickle, 1, &state));
    yki_pickle_value *value = state[0];
    YK_TRY(top(pickle, &call));
    if (call->type != YKI_PICKLE_CALL || call->items[2])
        return refuse(pickle, "expected a call without state, found a %s",
                      yki_pickle_type_name(call->type));
    if (call->placed || call == value)
        return refuse(pickle, "an object changes after it was put into a container");
    value->placed = 1;
    call->items[2] = value;
    if (value->height >= call->height)
        call->height = (uint16_t)(value->height + 1);
    if (call->height > YKI_PICKLE_DEPTH)
        return refuse(pickle, "nested deeper than %d", YKI_PICKLE_DEPTH);
    return YK_OK;
}

/* Puts the popped values into the container on top: a list's items, or pairs of a dict. */
static yk_status fill(yki_pickle *pickle, bool pairs, yki_pickle_value **values, uint32_t count)
{
    yki_pickle_value *container = NULL;
    YK_TRY(top(pickle, &container));
    bool takes_pairs = container->type == YKI_PICKLE_DICT || container->type == YKI_PICKLE_CALL;
    if (pairs ? !takes_pairs : container->type != YKI_PICKLE_LIST)
        return refuse(pickle, "expected a %s to put values into, found a %s",
                      pairs ? "dict" : "list", yki_pickle_type_name(container->type));
    if (pairs && count % 2)
        return refuse(pickle, "expected keys and values in pairs, found %u of them", count);
    return place(pickle, container, values, count);
}

static yk_status fill_small(yki_pickle *pickle, bool pairs)
{
    yki_pickle_value **values = NULL;
    uint32_t count = pairs ? 2 : 1;
    YK_TRY(pop(pickle, count, &values));
    return fill(pickle, pairs, values, count);
}

static yk_status fill_marked(yki_pickle *pickle, bool pairs)
{
    yki_pickle_value **values = NULL;
    uint32_t count = 0;
    YK_TRY(pop_mark(pickle, &values, &count));
    return fill(pickle, pairs, values, count);
}

/* ---- memo --------------------------------------------------------------------------------------
 */

/* Pickles number what they remember one by one, so no honest index exceeds the values made. */
static yk_status put(yki_pickle *pickle, size_t index_bytes)
{
    uint32_t index = 0;
    yki_pickle_value *value = NULL;
    YK_TRY(take_unsigned(pickle, index_bytes, &index));
    YK_TRY(top(pickle, &value));
    if (index > pickle->made)
        return refuse(pickle, "memo index %u, but only %u values came so far", index, pickle->made);
    YK_TRY(grow_stack(pickle, &pickle->memo, index + 1));
    pickle->memo.values[index] = value;
    return YK_OK;
}

static yk_status get(yki_pickle *pickle, size_t index_bytes)
{
    uint32_t index = 0;
    YK_TRY(take_unsigned(pickle, index_bytes, &index));
    if (index >= pickle->memo.capacity || !pickle->memo.values[index])
        return refuse(pickle, "nothing was remembered under memo index %u", index);
    return push(pickle, pickle->memo.values[index]);
}

/* ---- the machine -------------------------------------------------------------------------------
 */

static yk_status read_protocol(yki_pickle *pickle)
{
    uint32_t protocol = 0;
    YK_TRY(take_unsigned(pickle, 1, &protocol));
    if (protocol != 2)
        return refuse(pickle, "expected pickle protocol 2, found %u", protocol);
    return YK_OK;
}

static yk_status step(yki_pickle *pickle, uint8_t opcode)
{
    switch (opcode) {
    case OP_NONE:
        return push_new(pickle, YKI_PICKLE_NONE);
    case OP_NEWTRUE:
        return push_integer(pickle, YKI_PICKLE_BOOL, 1);
    case OP_NEWFALSE:
        return push_integer(pickle, YKI_PICKLE_BOOL, 0);
    case OP_BININT:
        return read_integer(pickle, 4);
    case OP_BININT1:
        return read_integer(pickle, 1);
    case OP_BININT2:
        return read_integer(pickle, 2);
    case OP_LONG1:
        return read_long(pickle);
    case OP_BINFLOAT:
        return read_float(pickle);
    case OP_BINSTRING:
        return read_text(pickle, YKI_PICKLE_BYTES, 4);
    case OP_SHORT_BINSTRING:
        return read_text(pickle, YKI_PICKLE_BYTES, 1);
    case OP_BINUNICODE:
        return read_text(pickle, YKI_PICKLE_STRING, 4);
    case OP_GLOBAL:
        return read_global(pickle);
    case OP_MARK:
        return push_mark(pickle);
    case OP_EMPTY_LIST:
        return push_new(pickle, YKI_PICKLE_LIST);
    case OP_EMPTY_DICT:
        return push_new(pickle, YKI_PICKLE_DICT);
    case OP_EMPTY_SET:
        return push_new(pickle, YKI_PICKLE_SET);
    case OP_EMPTY_TUPLE:
        return push_new(pickle, YKI_PICKLE_TUPLE);
    case OP_TUPLE1:
        return make_small(pickle, YKI_PICKLE_TUPLE, 1);
    case OP_TUPLE2:
        return make_small(pickle, YKI_PICKLE_TUPLE, 2);
    case OP_TUPLE3:
        return make_small(pickle, YKI_PICKLE_TUPLE, 3);
    case OP_TUPLE:
        return make_tuple(pickle);
    case OP_APPEND:
        return fill_small(pickle, false);
    case OP_APPENDS:
        return fill_marked(pickle, false);
    case OP_SETITEM:
        return fill_small(pickle, true);
    case OP_SETITEMS:
        return fill_marked(pickle, true);
    case OP_REDUCE:
    case OP_NEWOBJ:
        return make_call(pickle);
    case OP_BUILD:
        return build(pickle);
    case OP_BINPERSID:
        return make_small(pickle, YKI_PICKLE_PERSISTENT, 1);
    case OP_BINPUT:
        return put(pickle, 1);
    case OP_LONG_BINPUT:
        return put(pickle, 4);
    case OP_BINGET:
        return get(pickle, 1);
    case OP_LONG_BINGET:
        return get(pickle, 4);
    default:
        return refuse(pickle, "opcode 0x%02x is not one that is read here", opcode);
    }
}

static yk_status stop(yki_pickle *pickle)
{
    yki_pickle_value **values = NULL;
    YK_TRY(pop(pickle, 1, &values));
    if (pickle->stack.count || pickle->mark_count)
        return refuse(pickle, "STOP with %u values and %u marks left", pickle->stack.count,
                      pickle->mark_count);
    if (pickle->at != pickle->size)
        return refuse(pickle, "STOP with %zu bytes left", pickle->size - pickle->at);
    pickle->root = values[0];
    return YK_OK;
}

static yk_status run(yki_pickle *pickle)
{
    const uint8_t *opcode = NULL;
    YK_TRY(take(pickle, 1, &opcode));
    if (*opcode != OP_PROTO)
        return refuse(pickle, "expected a pickle of protocol 2 (0x80), found 0x%02x", *opcode);
    YK_TRY(read_protocol(pickle));
    YK_TRY(grow_stack(pickle, &pickle->stack, 1)); /* from here on there is one, be it empty */
    while (!pickle->root) {
        pickle->opcode = pickle->at;
        YK_TRY(take(pickle, 1, &opcode));
        YK_TRY(*opcode == OP_STOP ? stop(pickle) : step(pickle, *opcode));
    }
    return YK_OK;
}

/* What only the machine needs goes as soon as it stops. */
static void free_machine(yki_pickle *pickle)
{
    free(pickle->stack.values);
    free(pickle->memo.values);
    free(pickle->marks);
    pickle->stack.values = pickle->memo.values = NULL;
    pickle->marks = NULL;
}

yk_status yki_pickle_parse(yki_pickle **pickle, const char *name, const void *data, size_t size,
                           const char *const *globals)
{
    if (size > UINT32_MAX)
        return yki_error(YK_FORMAT, "%s: a pickle of %zu bytes; at most 4 GiB are read", name,
                         size);
    yki_pickle *self = yki_calloc(1, sizeof *self);
    if (!self)
        return yki_error_memory(sizeof *self, name);
    self->data = data;
    self->size = size;
    self->globals = globals;
    self->name = yki_strdup(name);
    yk_status status = self->name ? run(self) : yki_error_memory(strlen(name) + 1, name);
    free_machine(self);
    if (status == YK_OK)
        *pickle = self;
    else
        yki_pickle_destroy(self);
    return status;
}

static bool owns_items(const yki_pickle_value *value)
{
    return value->count && (value->type == YKI_PICKLE_LIST || value->type == YKI_PICKLE_TUPLE ||
                            value->type == YKI_PICKLE_DICT || value->type == YKI_PICKLE_CALL ||
                            value->type == YKI_PICKLE_PERSISTENT);
}

void yki_pickle_destroy(yki_pickle *pickle)
{
    if (!pickle)
        return;
    for (chunk *block = pickle->chunks, *next; block; block = next) {
        next = block->next;
        for (uint32_t i = 0; i < block->used; i++)
            if (owns_items(&block->values[i]))
                free(block->values[i].items);
        free(block);
    }
    free(pickle->name);
    free(pickle);
}

const yki_pickle_value *yki_pickle_root(const yki_pickle *pickle)
{
    return pickle->root;
}

size_t yki_pickle_peak(const yki_pickle *pickle)
{
    return pickle->peak;
}

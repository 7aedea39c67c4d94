/*
 * A pickle reader that runs nothing. Opcodes build a tree of plain values; a GLOBAL is only a name
 * and a REDUCE only remembers what was to be called with which arguments, so that the caller looks
 * for the few shapes it knows and refuses the rest.
 *
 * It reads protocol 2 with the opcodes that torch.load(weights_only=True) allows, the string
 * opcodes of Python 2, and what stands for them in protocols 3 to 5. Strings and bytes are views
 * into the given memory, which must outlive the pickle. Memory is bounded by YKI_PICKLE_FACTOR
 * bytes a byte of input, nesting by YKI_PICKLE_DEPTH; values cannot be cyclic (what lies in a
 * container changes no more), so that a walk over them ends.
 */
#ifndef YKI_PICKLE_H
#define YKI_PICKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
    YKI_PICKLE_DEPTH = 100,
    YKI_PICKLE_FACTOR = 64,
    YKI_PICKLE_CALL_HEAD = 3 /* items of a call before its pairs: callable, arguments, state */
};

typedef enum yki_pickle_type {
    YKI_PICKLE_NONE,
    YKI_PICKLE_BOOL,       /* integer is 0 or 1 */
    YKI_PICKLE_INT,        /* integer */
    YKI_PICKLE_FLOAT,      /* real; also an integer of more than 64 bits */
    YKI_PICKLE_STRING,     /* text, count bytes of UTF-8 */
    YKI_PICKLE_BYTES,      /* text, count bytes; also Python 2's str */
    YKI_PICKLE_LIST,       /* items, count of them */
    YKI_PICKLE_TUPLE,      /* items, count of them */
    YKI_PICKLE_DICT,       /* items: key, value, key, value...; count is twice the pairs */
    YKI_PICKLE_SET,        /* items, count of them; also a frozenset */
    YKI_PICKLE_GLOBAL,     /* text is "MODULE\nNAME", count its length */
    YKI_PICKLE_CALL,       /* items: callable, arguments, state or NULL, then key, value... set;
                              not what was appended to it, as to a deque */
    YKI_PICKLE_PERSISTENT, /* items[0]: the persistent id */
    YKI_PICKLE_TYPES
} yki_pickle_type;

typedef struct yki_pickle yki_pickle;

typedef struct yki_pickle_value yki_pickle_value;
struct yki_pickle_value {
    uint8_t type;    /* a yki_pickle_type */
    uint8_t placed;  /* lies in a container: changes no more */
    uint16_t height; /* of the tree below it; 0 for a leaf */
    uint32_t count;  /* bytes of text, or items */
    uint32_t offset; /* where in the pickle it was made: for error lines */
    union {
        int64_t integer;
        double real;
        const char *text; /* not terminated by a zero */
        yki_pickle_value **items;
    };
};

/*
 * Reads the whole pickle; STOP must be its last byte. Errors (YK_ERROR_FORMAT) begin with "NAME:
 * offset N: ". globals, if not NULL, ends with NULL and lists the only globals accepted, as
 * "MODULE\nNAME".
 */
yk_status yki_pickle_parse(yki_pickle **pickle, const char *name, const void *data, size_t size,
                           const char *const *globals);
/* Frees all values. Accepts NULL. */
void yki_pickle_destroy(yki_pickle *pickle);

const yki_pickle_value *yki_pickle_root(const yki_pickle *pickle);
/* Bytes held at the most while reading. */
size_t yki_pickle_peak(const yki_pickle *pickle);

/* "NAME: offset N: expected WHAT, found a TYPE"; value may be NULL: "expected WHAT". */
yk_status yki_pickle_unexpected(const yki_pickle *pickle, const yki_pickle_value *value,
                                const char *format, ...) YKI_PRINTF(3, 4);
const char *yki_pickle_type_name(yki_pickle_type type);

/* All of these accept NULL, and answer false or NULL then. */
bool yki_pickle_is(const yki_pickle_value *value, yki_pickle_type type);
/* A string or bytes with exactly this text. */
bool yki_pickle_is_text(const yki_pickle_value *value, const char *text);
bool yki_pickle_is_global(const yki_pickle_value *value, const char *module, const char *name);
/* A call of this global. */
bool yki_pickle_is_call(const yki_pickle_value *value, const char *module, const char *name);
/* Callable, arguments (a tuple) and state of a call; state is NULL where BUILD gave none. */
const yki_pickle_value *yki_pickle_callable(const yki_pickle_value *call);
const yki_pickle_value *yki_pickle_arguments(const yki_pickle_value *call);
const yki_pickle_value *yki_pickle_state(const yki_pickle_value *call);
/* Item of a list or tuple, NULL when it has no such item. */
const yki_pickle_value *yki_pickle_item(const yki_pickle_value *value, size_t index);
/* Pairs of a dict, or of a call that items were set in (OrderedDict); 0 for others. */
size_t yki_pickle_pairs(const yki_pickle_value *value);
const yki_pickle_value *yki_pickle_key(const yki_pickle_value *value, size_t index);
const yki_pickle_value *yki_pickle_pair_value(const yki_pickle_value *value, size_t index);
/* The value under a text key; the last of equals, as in Python. */
const yki_pickle_value *yki_pickle_get(const yki_pickle_value *value, const char *key);
/* The value under a key that the dict, called `where` in errors, must have: a whole number from 0
 * on, or any number. */
yk_status yki_pickle_get_count(const yki_pickle *pickle, const yki_pickle_value *dict,
                               const char *where, const char *key, int64_t *count);
yk_status yki_pickle_get_number(const yki_pickle *pickle, const yki_pickle_value *dict,
                                const char *where, const char *key, double *real);

#endif

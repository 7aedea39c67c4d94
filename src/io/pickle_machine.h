/*
 * What the pickle machine works with: values, the stack of them, marks into it, and the memo. What
 * opcodes do with these is pickle.c's.
 *
 * Invariants: a mark never lies above the stack's top; what is popped lies above the last mark; a
 * value that was put into a container is `placed` and changes no more, therefore no value can reach
 * itself and `height` is exact. Values live in chunks and are freed with the pickle. All memory is
 * counted: it stays below YKI_PICKLE_FACTOR bytes a byte of input.
 */
#ifndef YKI_PICKLE_MACHINE_H
#define YKI_PICKLE_MACHINE_H

#include "io/pickle.h"

/* A growing array; capacity and count in elements. The memo's has gaps, which do not count. */
typedef struct yki_pickle_stack {
    yki_pickle_value **values;
    uint32_t count, capacity;
} yki_pickle_stack;

struct yki_pickle {
    char *name;
    const uint8_t *data;
    size_t size, at, opcode; /* at: next byte; opcode: where the running one began */
    const char *const *globals;
    struct yki_pickle_chunk *chunks;
    struct yki_pickle_text *texts; /* those that are not in data */
    yki_pickle_stack stack, memo;
    uint32_t *marks, mark_count, mark_capacity;
    size_t held, peak; /* bytes */
    uint32_t made;     /* values made so far, each at least one byte of input */
    yki_pickle_value *root;
};

/* YK_ERROR_FORMAT: "NAME: offset N: WHAT", N where the running opcode began. */
yk_status yki_pickle_refuse(const yki_pickle *pickle, const char *format, ...) YKI_PRINTF(2, 3);
#if defined __clang_analyzer__ && !defined YKI_PICKLE_ERROR_C /* as in base/error.h */
#define yki_pickle_refuse(...) ((void)(yki_pickle_refuse)(__VA_ARGS__), YK_ERROR_FORMAT)
#endif
/* Bytes of a file made fit for a terminal: "os.system" of "os\nsystem", '?' for what is odd. */
const char *yki_pickle_printable(char *out, size_t size, const char *text, size_t length);

/* A value of the running opcode, all else zero. */
yk_status yki_pickle_new(yki_pickle *pickle, yki_pickle_type type, yki_pickle_value **value);
/* Puts n values (NULL for an empty place) behind the items of a container, and freezes them. */
yk_status yki_pickle_place(yki_pickle *pickle, yki_pickle_value *container,
                           yki_pickle_value **values, size_t n);

/* Room for a text that is not in the pickle; it lives as long as the pickle. */
yk_status yki_pickle_new_text(yki_pickle *pickle, size_t length, char **text);

/* Makes room for as many values at least. */
yk_status yki_pickle_grow(yki_pickle *pickle, yki_pickle_stack *stack, uint32_t needed);
yk_status yki_pickle_push(yki_pickle *pickle, yki_pickle_value *value);
yk_status yki_pickle_push_mark(yki_pickle *pickle);
/* The top n values; they may be overwritten by the next push. */
yk_status yki_pickle_pop(yki_pickle *pickle, uint32_t n, yki_pickle_value ***values);
/* All values above the last mark, which goes. */
yk_status yki_pickle_pop_mark(yki_pickle *pickle, yki_pickle_value ***values, uint32_t *count);
yk_status yki_pickle_top(yki_pickle *pickle, yki_pickle_value **value);

yk_status yki_pickle_remember(yki_pickle *pickle, uint32_t index, yki_pickle_value *value);
yk_status yki_pickle_recall(yki_pickle *pickle, uint32_t index, yki_pickle_value **value);

/* Frees what only the running machine needs: stack, marks and memo. */
void yki_pickle_free_machine(yki_pickle *pickle);

#endif

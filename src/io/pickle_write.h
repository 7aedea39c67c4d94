/*
 * A pickle writer: protocol 2, and only opcodes that torch.load(weights_only=True) accepts. Values
 * are appended in the order in which the unpickler's stack wants them: a dict is dict(), mark(),
 * key, value, ..., setitems(). Running out of memory is remembered and reported by finish.
 */
#ifndef YKI_PICKLE_WRITE_H
#define YKI_PICKLE_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct yki_pickle_writer {
    unsigned char *data;
    size_t size, capacity;
    bool failed;
} yki_pickle_writer;

void yki_pickle_init(yki_pickle_writer *writer);
void yki_pickle_fini(yki_pickle_writer *writer);
/* Ends the pickle; its bytes are data and size until fini. */
yk_status yki_pickle_finish(yki_pickle_writer *writer);

void yki_pickle_none(yki_pickle_writer *writer);
void yki_pickle_bool(yki_pickle_writer *writer, bool value);
void yki_pickle_int(yki_pickle_writer *writer, int64_t value);
void yki_pickle_float(yki_pickle_writer *writer, double value);
/* What is not UTF-8 is written as yki_utf8_from_bytes makes it. */
void yki_pickle_text(yki_pickle_writer *writer, const char *text);
/* A class or function, which the unpickler looks up: "collections", "OrderedDict". */
void yki_pickle_global(yki_pickle_writer *writer, const char *module, const char *name);

/* mark, items, then one of these. */
void yki_pickle_mark(yki_pickle_writer *writer);
void yki_pickle_tuple(yki_pickle_writer *writer);
void yki_pickle_appends(yki_pickle_writer *writer);  /* behind list(), mark() */
void yki_pickle_setitems(yki_pickle_writer *writer); /* behind dict(), mark() */
/* Empty ones. */
void yki_pickle_list(yki_pickle_writer *writer);
void yki_pickle_dict(yki_pickle_writer *writer);
void yki_pickle_ordered_dict(yki_pickle_writer *writer);
/* Calls the callable below the tuple of arguments. */
void yki_pickle_reduce(yki_pickle_writer *writer);
/* Gives the object below the dict on top these attributes. */
void yki_pickle_build(yki_pickle_writer *writer);
/* Turns the tuple on top into what it is the persistent id of. */
void yki_pickle_persistent(yki_pickle_writer *writer);

#endif

/* The opcodes that are read and written, by the names that CPython's Lib/pickletools.py gives them:
 * those of protocol 2 that torch.save and Python 2's pickles consist of, and those that stand for
 * them in protocols 3 to 5, which are only read. */
#ifndef YKI_PICKLE_OPCODE_H
#define YKI_PICKLE_OPCODE_H

enum yki_pickle_opcode {
    YKI_OP_MARK = '(',
    YKI_OP_STOP = '.',
    YKI_OP_BININT = 'J',
    YKI_OP_BININT1 = 'K',
    YKI_OP_BININT2 = 'M',
    YKI_OP_BINFLOAT = 'G',
    YKI_OP_NONE = 'N',
    YKI_OP_BINBYTES = 'B',
    YKI_OP_SHORT_BINBYTES = 'C',
    YKI_OP_BINPERSID = 'Q',
    YKI_OP_REDUCE = 'R',
    YKI_OP_BINSTRING = 'T',
    YKI_OP_SHORT_BINSTRING = 'U',
    YKI_OP_BINUNICODE = 'X',
    YKI_OP_APPEND = 'a',
    YKI_OP_BUILD = 'b',
    YKI_OP_GLOBAL = 'c',
    YKI_OP_APPENDS = 'e',
    YKI_OP_BINGET = 'h',
    YKI_OP_LONG_BINGET = 'j',
    YKI_OP_BINPUT = 'q',
    YKI_OP_LONG_BINPUT = 'r',
    YKI_OP_SETITEM = 's',
    YKI_OP_TUPLE = 't',
    YKI_OP_SETITEMS = 'u',
    YKI_OP_EMPTY_TUPLE = ')',
    YKI_OP_EMPTY_LIST = ']',
    YKI_OP_EMPTY_DICT = '}',
    YKI_OP_PROTO = 0x80,
    YKI_OP_NEWOBJ = 0x81,
    YKI_OP_TUPLE1 = 0x85,
    YKI_OP_TUPLE2 = 0x86,
    YKI_OP_TUPLE3 = 0x87,
    YKI_OP_NEWTRUE = 0x88,
    YKI_OP_NEWFALSE = 0x89,
    YKI_OP_LONG1 = 0x8a,
    YKI_OP_SHORT_BINUNICODE = 0x8c,
    YKI_OP_BINUNICODE8 = 0x8d,
    YKI_OP_BINBYTES8 = 0x8e,
    YKI_OP_EMPTY_SET = 0x8f,
    YKI_OP_ADDITEMS = 0x90,
    YKI_OP_FROZENSET = 0x91,
    YKI_OP_STACK_GLOBAL = 0x93,
    YKI_OP_MEMOIZE = 0x94,
    YKI_OP_FRAME = 0x95,
    YKI_OP_BYTEARRAY8 = 0x96
};

#endif

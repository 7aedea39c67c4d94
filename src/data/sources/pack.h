/*
 * A packed file (docs/file-formats.md): one split of a data set, ready to be read. Numbers are
 * little-endian, which every machine is that yoke runs on.
 *
 *     header      64 bytes
 *     samples     from byte 4096 on, one after the other
 *     table       an entry of 24 bytes for each sample
 *     names       of the classes, each with a zero after it
 *     places      where the name of each sample begins, and where the last one ends
 *     names       of the samples
 *
 * Files without names of samples have none of the last two parts. Readers that do not know these
 * parts ignore them.
 */
#ifndef YKI_PACK_H
#define YKI_PACK_H

#include <stdint.h>

#define YKI_PACK_MAGIC "YOKEPACK"

enum { YKI_PACK_VERSION = 1, YKI_PACK_DATA = 4096 };

typedef enum yki_pack_kind {
    YKI_PACK_PIXELS, /* bytes (C, H, W) */
    YKI_PACK_FILES   /* JPEG, PNG and WebP files */
} yki_pack_kind;

typedef struct yki_pack_header {
    char magic[8];
    uint32_t version, kind;
    uint64_t count;
    uint32_t classes, channels;
    uint64_t table, names, names_bytes; /* offsets in the file; bytes */
    uint64_t places;                    /* offset of (count + 1) 64-bit offsets, or 0 */
} yki_pack_header;

typedef struct yki_pack_entry {
    uint64_t offset;
    uint32_t bytes;
    int32_t label;
    uint32_t height, width; /* of pixels; 0 for files */
} yki_pack_entry;

_Static_assert(sizeof(yki_pack_header) == 64, "the header as it is documented");
_Static_assert(sizeof(yki_pack_entry) == 24, "an entry as it is documented");

#endif

/* See tar.h. The format: POSIX.1-2017, "pax", and GNU tar's manual, "Basic Tar Format". */
#include "data/sources/tar.h"

#include <stdlib.h>
#include <string.h>

/* One extended attribute of a file may take 64 KiB; libarchive has the same limit. */
enum { BLOCK = 512, MAX_EXTENDED = 1 << 20 };

/* A header, all of it text but for large numbers. */
typedef struct header {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100];
    char magic[8], user[32], group[32], major[8], minor[8], prefix[155], padding[12];
} header;

_Static_assert(sizeof(header) == BLOCK, "a tar header is one block");

static yk_status damaged(const yki_tar *tar, size_t offset, const char *what)
{
    return yki_error(YK_ERROR_FORMAT, "%s: offset %zu: %s", tar->file->path, offset, what);
}

/* Octal digits; or, as GNU writes large numbers, 0x80 and the number in the other bytes. */
static bool parse_number(const char *field, size_t length, size_t *number)
{
    uint64_t value = 0;
    size_t i = 0;
    if ((uint8_t)field[0] == 0x80) {
        for (i = 1; i < length; i++) {
            if (value >> 55)
                return false;
            value = value << 8 | (uint8_t)field[i];
        }
        *number = value;
        return true;
    }
    while (i < length && field[i] == ' ')
        i++;
    for (; i < length && field[i] >= '0' && field[i] <= '7'; i++)
        value = value << 3 | (uint64_t)(field[i] - '0');
    *number = value;
    return i == length || field[i] == ' ' || field[i] == '\0';
}

static bool checksum_fits(const header *block)
{
    const uint8_t *bytes = (const uint8_t *)block;
    size_t expected = 0, sum = 0;
    for (size_t i = 0; i < BLOCK; i++)
        sum += i >= offsetof(header, checksum) && i < offsetof(header, type) ? ' ' : bytes[i];
    return parse_number(block->checksum, sizeof block->checksum, &expected) && sum == expected;
}

static bool is_empty(const header *block)
{
    const uint8_t *bytes = (const uint8_t *)block;
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, BLOCK - 1) == 0;
}

static bool is_gzip(const header *block)
{
    return memcmp(block->name, "\x1f\x8b", 2) == 0;
}

/* What pax says of the next file: lines "LENGTH KEY=VALUE\n". */
static void read_pax(char *text, size_t length, char *name, size_t *size, bool *has_size)
{
    for (size_t at = 0; at < length;) {
        char *key = NULL;
        size_t line = strtoul(text + at, &key, 10);
        if (line < 4 || line > length - at || *key != ' ' || text[at + line - 1] != '\n')
            return;
        text[at + line - 1] = '\0';
        if (strncmp(key, " path=", 6) == 0)
            snprintf(name, YKI_TAR_NAME, "%s", key + 6);
        if (strncmp(key, " size=", 6) == 0) {
            *size = strtoull(key + 6, NULL, 10);
            *has_size = true;
        }
        at += line;
    }
}

/* What a special header says of the file after it. */
typedef struct extension {
    char name[YKI_TAR_NAME];
    size_t size;
    bool has_size;
} extension;

static yk_status read_extension(yki_tar *tar, char type, size_t size, extension *extended)
{
    if (size > MAX_EXTENDED)
        return damaged(tar, tar->at, "an extended header is too large");
    char *text = calloc(1, size + 1);
    if (!text)
        return yki_error_memory(size, tar->file->path);
    yk_status status = yki_input_file_read(tar->file, tar->at, text, size);
    if (status == YK_OK && type == 'L')
        snprintf(extended->name, sizeof extended->name, "%s", text);
    else if (status == YK_OK)
        read_pax(text, size, extended->name, &extended->size, &extended->has_size);
    free(text);
    return status;
}

static void take_name(yki_tar *tar, const header *block, const extension *extended)
{
    bool posix = memcmp(block->magic, "ustar\0", 6) == 0 && block->prefix[0];
    if (extended->name[0])
        memcpy(tar->name, extended->name, sizeof tar->name);
    else
        snprintf(tar->name, sizeof tar->name, "%.*s%s%.*s", posix ? (int)sizeof block->prefix : 0,
                 block->prefix, posix ? "/" : "", (int)sizeof block->name, block->name);
}

yk_status yki_tar_next(yki_tar *tar, bool *found)
{
    extension extended = {.size = 0};
    *found = false;
    while (tar->at < tar->file->size) {
        header block;
        size_t size = 0, header_at = tar->at;
        YK_TRY(yki_input_file_read(tar->file, tar->at, &block, BLOCK));
        tar->ended = is_empty(&block);
        if (tar->ended)
            return YK_OK;
        if (!checksum_fits(&block) || !parse_number(block.size, sizeof block.size, &size))
            return damaged(tar, tar->at,
                           is_gzip(&block) ? "compressed, and files of an archive are read where "
                                             "they lie: unpack it with gunzip"
                                           : "expected the header of a file in a tar archive");
        tar->at += BLOCK;
        bool special = block.type == 'x' || block.type == 'L';
        if (extended.has_size && !special)
            size = extended.size;
        if (size > tar->file->size - tar->at)
            return damaged(tar, header_at, "the archive ends within this file");
        if (special)
            YK_TRY(read_extension(tar, block.type, size, &extended));
        tar->offset = tar->at;
        tar->size = size;
        size_t padded = (size + BLOCK - 1) / BLOCK * BLOCK;
        tar->at = padded < tar->file->size - tar->at ? tar->at + padded : tar->file->size;
        if (block.type == '0' || block.type == '\0' || block.type == '7') {
            take_name(tar, &block, &extended);
            *found = true;
            return YK_OK;
        }
        tar->links |= block.type == '1' || block.type == '2'; /* hard, symbolic */
        if (!special && block.type != 'K' && block.type != 'g')
            extended = (extension){.size = 0};
    }
    return YK_OK;
}

/*
 * All-gathers, in which each host gets the data of the other hosts once. Between all ranks of a
 * network, little data travels from each rank to each other, and more of it round a ring, which
 * also brings a host what has come from itself.
 *
 *   - Little data is a table, of which the first rank of each host has the row of its host. First
 *     ranks exchange rows, and give the table to their hosts.
 *
 *   - Of more data, each rank gets a column: what the ranks have that have the same place on the
 *     other hosts. The ranks of a host then share their columns.
 */
#include <string.h>

#include "comm/two_level/two_level.h"

enum {
    TABLE = 512 << 10,        /* bytes of the largest table */
    COLUMN = 4 << 20,         /* bytes of a column in a piece, ... */
    LEAST_OF_RANK = 64 << 10, /* ... unless this is less than so many for each host */
};

/* Hosts with fewer ranks than others leave gaps in the table. */
static size_t most_in_table(const two_level *tl)
{
    return TABLE / ((size_t)tl->hosts * (size_t)tl->most);
}

static size_t most_in_piece(const two_level *tl)
{
    size_t share = COLUMN / (size_t)tl->hosts;
    return share > LEAST_OF_RANK ? share : LEAST_OF_RANK;
}

two_level_way yki_two_level_way(const two_level *tl, size_t bytes)
{
    if (bytes <= most_in_table(tl))
        return TWO_LEVEL_TABLE;
    return tl->even ? TWO_LEVEL_COLUMNS : TWO_LEVEL_FLAT;
}

/* ---- a table --------------------------------------------------------------------------------- */

size_t yki_two_level_table_bytes(const two_level *tl)
{
    size_t least = sizeof(yk_descriptor), most = most_in_table(tl);
    return (size_t)tl->hosts * (size_t)tl->most * (most > least ? most : least);
}

static yk_descriptor bytes_of(yk_operation operation, size_t count)
{
    return (yk_descriptor){.operation = (uint8_t)operation, .dtype = YK_U8, .count = count};
}

yk_status yki_two_level_gather_table(two_level *tl, const void *mine, size_t bytes, void *all,
                                     bool background)
{
    size_t row = (size_t)tl->most * bytes;
    yk_descriptor one = bytes_of(YK_OPERATION_ALL_GATHER, bytes);
    yk_descriptor rows = bytes_of(YK_OPERATION_ALL_GATHER, row);
    yk_descriptor whole = bytes_of(YK_OPERATION_BROADCAST, (size_t)tl->hosts * row);
    if (bytes == 0)
        return YK_OK;
    YK_TRY(yki_two_level_run(tl, tl->reducing, &one, mine, tl->row, background));
    if (tl->leaders)
        YK_TRY(yki_two_level_run(tl, tl->leaders, &rows, tl->row, tl->table, background));
    YK_TRY(yki_two_level_run(tl, tl->reducing, &whole, tl->table, tl->table, background));
    for (int r = 0; r < tl->world; r++) {
        size_t place = (size_t)(tl->host_of[r] * tl->most + tl->index_of[r]);
        memcpy((char *)all + (size_t)r * bytes, tl->table + place * bytes, bytes);
    }
    return YK_OK;
}

/* ---- columns --------------------------------------------------------------------------------- */

size_t yki_two_level_column_bytes(const two_level *tl)
{
    return (size_t)tl->hosts * most_in_piece(tl);
}

size_t yki_two_level_column_pieces(const two_level *tl, size_t bytes)
{
    return (bytes - 1) / most_in_piece(tl) + 1;
}

static char *part_of(const two_level_piece *piece, int rank)
{
    return (char *)piece->call.out + (size_t)rank * piece->stride;
}

yk_status yki_two_level_gather_column(two_level *tl, const two_level_piece *piece)
{
    const yk_backend_call *call = &piece->call;
    size_t bytes = call->what.count * yk_dtype_size((yk_dtype)call->what.dtype);
    const char *next = tl->column;
    YK_TRY(yki_two_level_run(tl, tl->across, &call->what, call->in, tl->column, call->background));
    for (int r = 0; r < tl->world; r++)
        if (tl->index_of[r] == yk_group_rank(tl->gathering)) {
            memcpy(part_of(piece, r), next, bytes);
            next += bytes;
        }
    return YK_OK;
}

yk_status yki_two_level_share_columns(two_level *tl, const two_level_piece *piece)
{
    for (int r = 0; r < tl->world; r++) {
        yk_descriptor what = piece->call.what;
        what.operation = YK_OPERATION_BROADCAST;
        what.root = tl->index_of[r];
        void *part = part_of(piece, r);
        YK_TRY(yki_two_level_run(tl, tl->gathering, &what, part, part, piece->call.background));
    }
    return YK_OK;
}

/*
 * yk_all_to_all_v, with parts of any size. The ranks first gather how much each of them gives to,
 * and takes from, every other one. With this table, the same everywhere, all ranks know before any
 * data moves whether the sizes fit, and which do not. The parts are then messages.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "comm/arguments.h"
#include "comm/group_state.h"

static const char NAME[] = "all_to_all_v";

typedef struct exchange {
    yk_group *group;
    int rank, world;
    yk_dtype dtype;
    const char *in;
    char *out;
    uint64_t sequence;
    yk_status checked; /* of the arguments, with its error line */
    char line[YKI_ERROR_LINE];
    uint64_t table[]; /* [world][2 * world]: what each rank gives to all, and takes from all */
} exchange;

static uint64_t given(const exchange *x, int from, int to)
{
    return x->table[2 * (size_t)x->world * (size_t)from + (size_t)to];
}

static uint64_t taken(const exchange *x, int to, int from)
{
    return x->table[2 * (size_t)x->world * (size_t)to + (size_t)(x->world + from)];
}

/* ---- the sizes ------------------------------------------------------------------------------- */

static yk_status compare_sizes(const exchange *x)
{
    for (int from = 0; from < x->world; from++)
        for (int to = 0; to < x->world; to++)
            if (given(x, from, to) != taken(x, to, from))
                return yki_error(
                    YK_ERROR_MISMATCH,
                    "%s(%s), operation %llu: ranks disagree in count: rank %d gives "
                    "%llu to rank %d, which takes %llu",
                    NAME, yk_dtype_name(x->dtype), (unsigned long long)x->sequence,
                    yki_group_job_rank(x->group, from), (unsigned long long)given(x, from, to),
                    yki_group_job_rank(x->group, to), (unsigned long long)taken(x, to, from));
    return YK_OK;
}

/* Also compares what the ranks call. */
static yk_status gather_sizes(exchange *x)
{
    size_t row = 2 * (size_t)x->world, width = yk_dtype_size(x->dtype);
    yki_call call = {.base = {.what = {.operation = YK_OPERATION_ALL_TO_ALL_V,
                                       .dtype = (uint8_t)x->dtype,
                                       .count = width > 0 ? row * sizeof *x->table / width : 0},
                              .in = x->table + row * (size_t)x->rank,
                              .out = x->table}};
    if (x->checked != YK_OK)
        yki_error_set_line(x->checked, x->line);
    yk_status status = yki_group_submit(x->group, &call, x->checked, NULL);
    x->sequence = call.base.sequence;
    return status;
}

/* ---- the parts ------------------------------------------------------------------------------- */

/* Where the part for, or of, a rank begins; the row has the sizes of all parts. */
static size_t start_of(const uint64_t *row, int rank, size_t width)
{
    size_t start = 0;
    for (int r = 0; r < rank; r++)
        start += (size_t)row[r] * width;
    return start;
}

static yk_backend_message part_of(const exchange *x, yk_operation operation, int peer)
{
    const uint64_t *gives = x->table + 2 * (size_t)x->world * (size_t)x->rank;
    bool sends = operation == YK_OPERATION_SEND;
    const uint64_t *row = sends ? gives : gives + x->world;
    size_t start = start_of(row, peer, yk_dtype_size(x->dtype));
    return (yk_backend_message){.what = {.operation = (uint8_t)operation,
                                         .dtype = (uint8_t)x->dtype,
                                         .root = peer,
                                         .count = row[peer]},
                                .data = sends ? (char *)(uintptr_t)x->in + start : x->out + start};
}

/* Those that are not empty, from and to the nearest rank first, so that not all begin with the
 * same. Returns their number; messages may be NULL. */
static size_t list_parts(const exchange *x, yk_backend_message *messages)
{
    size_t count = 0;
    for (int step = 1; step < x->world; step++) {
        int to = (x->rank + step) % x->world, from = (x->rank + x->world - step) % x->world;
        const yk_backend_message parts[] = {part_of(x, YK_OPERATION_SEND, to),
                                            part_of(x, YK_OPERATION_RECV, from)};
        for (int i = 0; i < 2; i++)
            if (parts[i].what.count > 0) {
                if (messages)
                    messages[count] = parts[i];
                count++;
            }
    }
    return count;
}

static yk_status move_parts(const exchange *x)
{
    yki_call call = {
        .base = {.what = {.operation = YK_OPERATION_ALL_TO_ALL_V, .dtype = (uint8_t)x->dtype},
                 .matched = true}};
    yk_backend_message *messages, own = part_of(x, YK_OPERATION_SEND, x->rank);
    if (own.what.count > 0)
        memcpy(part_of(x, YK_OPERATION_RECV, x->rank).data, own.data,
               yki_descriptor_bytes(&own.what));
    size_t count = list_parts(x, NULL);
    if (count == 0)
        return YK_OK;
    yk_status status = yki_call_make_messages(&call, count, &messages);
    if (status != YK_OK)
        return yki_group_fail_alone(x->group, status);
    list_parts(x, messages);
    return yki_group_submit(x->group, &call, YK_OK, NULL);
}

/* ---- the call -------------------------------------------------------------------------------- */

/* Frees the exchange. */
static yk_status run(void *context)
{
    exchange *x = context;
    yk_status status = gather_sizes(x);
    if (status == YK_OK)
        status = compare_sizes(x);
    if (status == YK_OK)
        status = move_parts(x);
    free(x);
    return status;
}

/* The sum of the counts; what is too large is PTRDIFF_MAX. */
static size_t sum_of(const size_t *counts, int world)
{
    size_t sum = 0;
    for (int r = 0; r < world; r++)
        sum = counts[r] < PTRDIFF_MAX - sum ? sum + counts[r] : PTRDIFF_MAX;
    return sum;
}

static yk_status check(const yk_group *group, const void *out, const size_t *out_counts,
                       const void *in, const size_t *in_counts, yk_dtype dtype)
{
    int world = yk_group_size(group);
    if (!out_counts || !in_counts)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s: %s is NULL", NAME,
                         out_counts ? "in_counts" : "out_counts");
    size_t taken = sum_of(out_counts, world), given = sum_of(in_counts, world);
    YK_TRY(yki_check_buffer(group, NAME, out, taken, dtype));
    YK_TRY(yki_check_buffer(group, NAME, in, given, dtype));
    size_t width = yk_dtype_size(dtype);
    return yki_check_apart(NAME, in, given * width, out, taken * width);
}

yk_status yk_all_to_all_v(yk_group *group, void *out, const size_t *out_counts, const void *in,
                          const size_t *in_counts, yk_dtype dtype, yk_work **work)
{
    YK_TRY(yki_check_group(group, NAME, work));
    size_t world = (size_t)yk_group_size(group);
    exchange *x = yki_calloc(1, sizeof *x + 2 * world * world * sizeof *x->table);
    if (!x)
        return yki_group_fail_alone(
            group, yki_error_memory(2 * world * world * sizeof *x->table, "the sizes of parts"));
    *x = (exchange){.group = group,
                    .rank = yk_group_rank(group),
                    .world = (int)world,
                    .dtype = dtype,
                    .in = in,
                    .out = out,
                    .checked = check(group, out, out_counts, in, in_counts, dtype)};
    if (x->checked != YK_OK)
        yki_error_copy(x->line, sizeof x->line);
    uint64_t *gives = x->table + 2 * world * (size_t)x->rank, *takes = gives + world;
    for (size_t r = 0; r < world && x->checked == YK_OK; r++) {
        gives[r] = in_counts[r];
        takes[r] = out_counts[r];
    }
    if (!work)
        return run(x);
    yk_status status = yki_group_run(group, run, x, work);
    if (status != YK_OK)
        free(x);
    return status;
}

/*
 * Ranks compare the lengths and hashes of their texts. Only if they differ are two texts broadcast,
 * so that all ranks report the same difference.
 */
#include "parallel/same_text.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"
#include "comm/group_internal.h"

static uint64_t hash_text(const char *text)
{
    uint64_t hash = 0;
    for (; *text; text++)
        hash = yki_mix64(hash ^ (uint64_t)(unsigned char)*text);
    return hash;
}

/* Broadcasts the text of rank `root`, which is `length` bytes long. */
static yk_status broadcast_text(yk_group *group, const char *own, int root, size_t length,
                                char **text)
{
    *text = yki_calloc(length + 1, 1);
    if (!*text)
        return yki_error_memory(length, "the comparison of ranks");
    if (yk_group_rank(group) == root)
        memcpy(*text, own, length);
    return yk_broadcast(group, *text, length, YK_U8, root, NULL);
}

/* Reports the first line in which two texts differ; "nothing further" after the last. */
static yk_status report(const yk_group *group, const char *subjects, const char *first,
                        const char *second, int rank)
{
    int other = yki_group_job_rank(group, rank), root = yki_group_job_rank(group, 0);
    for (;;) {
        size_t a = strcspn(first, "\n"), b = strcspn(second, "\n");
        if (a != b || memcmp(first, second, a) != 0)
            return yki_error(YK_ERROR_MISMATCH, "%s differ: rank %d has %.*s, rank %d has %.*s",
                             subjects, root, a ? (int)a : 15, a ? first : "nothing further", other,
                             b ? (int)b : 15, b ? second : "nothing further");
        if (!first[a] || !second[b])
            return yki_error(YK_ERROR_MISMATCH, "%s differ between rank %d and rank %d", subjects,
                             root, other);
        first += a + 1;
        second += b + 1;
    }
}

static yk_status explain(yk_group *group, const char *subjects, const char *own, int rank,
                         size_t length0, size_t length)
{
    char *first = NULL, *second = NULL;
    yk_status status = broadcast_text(group, own, 0, length0, &first);
    if (status != YK_OK || (status = broadcast_text(group, own, rank, length, &second)) != YK_OK)
        goto out;
    status = report(group, subjects, first, second, rank);
out:
    free(first);
    free(second);
    return status;
}

yk_status yki_compare_texts(yk_group *group, const char *subjects, const char *own)
{
    size_t size = (size_t)yk_group_size(group);
    int64_t mine[2] = {(int64_t)hash_text(own), (int64_t)strlen(own)};
    int64_t *all = yki_calloc(size, sizeof mine);
    if (!all)
        return yki_error_memory(size * sizeof mine, "the comparison of ranks");
    yk_status status = yk_all_gather(group, all, mine, 2, YK_I64, NULL);
    for (size_t rank = 1; status == YK_OK && rank < size; rank++)
        if (memcmp(all, all + 2 * rank, sizeof mine) != 0)
            status =
                explain(group, subjects, own, (int)rank, (size_t)all[1], (size_t)all[2 * rank + 1]);
    free(all);
    return status;
}

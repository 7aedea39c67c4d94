/* See chunks.h. */
#include "optim/chunks.h"

#include <stdlib.h>

#include "base/memory.h"

enum { CHUNK_ELEMENTS = 16384 };

static size_t chunks_of(int64_t count)
{
    return (size_t)((count + CHUNK_ELEMENTS - 1) / CHUNK_ELEMENTS);
}

yk_status yki_chunks_create(yki_chunks *chunks, const yk_parameter_view *views, size_t count)
{
    size_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += chunks_of(yk_tensor_count(&views[i].value));
    *chunks = (yki_chunks){.of = yki_calloc(total, sizeof *chunks->of)};
    if (!chunks->of)
        return yki_error_memory(total * sizeof *chunks->of, "chunks of the parameters");
    for (size_t i = 0; i < count; i++) {
        int64_t elements = yk_tensor_count(&views[i].value);
        for (int64_t begin = 0; begin < elements; begin += CHUNK_ELEMENTS) {
            int64_t rest = elements - begin;
            chunks->of[chunks->count++] =
                (yki_chunk){i, begin, rest < CHUNK_ELEMENTS ? rest : CHUNK_ELEMENTS};
        }
    }
    return YK_OK;
}

void yki_chunks_keep(yki_chunks *chunks, const bool *keep)
{
    size_t kept = 0;
    for (size_t i = 0; i < chunks->count; i++)
        if (keep[chunks->of[i].parameter])
            chunks->of[kept++] = chunks->of[i];
    chunks->count = kept;
}

void yki_chunks_destroy(yki_chunks *chunks)
{
    free(chunks->of);
    *chunks = (yki_chunks){0};
}

/* See pickle_machine.h. */
#include "io/pickle_machine.h"

#include <stdlib.h>
#include <string.h>

enum {
    CHUNK_VALUES = 512,
    MALLOC_OVERHEAD = 16,       /* counted with every block */
    BUDGET_CONSTANT = 64 * 1024 /* what the smallest pickle may hold */
};

typedef struct yki_pickle_chunk {
    struct yki_pickle_chunk *next;
    uint32_t used;
    yki_pickle_value values[CHUNK_VALUES];
} chunk;

struct yki_pickle_text {
    struct yki_pickle_text *next;
    char bytes[];
};

/* ---- values and memory ----------------------------------------------------------------------- */

/* realloc that counts: what is held may never exceed a small factor of the input. */
static yk_status resize(yki_pickle *pickle, void **block, size_t old_bytes, size_t bytes)
{
    size_t budget = pickle->size * YKI_PICKLE_FACTOR + BUDGET_CONSTANT;
    size_t during = pickle->held + bytes + MALLOC_OVERHEAD; /* both blocks live while one moves */
    if (during > budget)
        return yki_pickle_refuse(pickle, "needs more than %zu bytes of memory", budget);
    void *grown = realloc(*block, bytes);
    if (!grown)
        return yki_error_memory(bytes, pickle->name);
    pickle->peak = during > pickle->peak ? during : pickle->peak;
    pickle->held = during - (*block ? old_bytes + MALLOC_OVERHEAD : 0);
    *block = grown;
    return YK_OK;
}

yk_status yki_pickle_new(yki_pickle *pickle, yki_pickle_type type, yki_pickle_value **value)
{
    if (!pickle->chunks || pickle->chunks->used == CHUNK_VALUES) {
        void *block = NULL;
        YK_TRY(resize(pickle, &block, 0, sizeof(chunk)));
        chunk *fresh = block;
        fresh->next = pickle->chunks;
        fresh->used = 0;
        pickle->chunks = fresh;
    }
    *value = &pickle->chunks->values[pickle->chunks->used++];
    **value = (yki_pickle_value){.type = (uint8_t)type, .offset = (uint32_t)pickle->opcode};
    pickle->made++;
    return YK_OK;
}

yk_status yki_pickle_new_text(yki_pickle *pickle, size_t length, char **text)
{
    void *block = NULL;
    YK_TRY(resize(pickle, &block, 0, sizeof *pickle->texts + length));
    struct yki_pickle_text *fresh = block;
    fresh->next = pickle->texts;
    pickle->texts = fresh;
    *text = fresh->bytes;
    return YK_OK;
}

/* Items that a block holds for `count` of them: the next power of two. */
static size_t item_capacity(size_t count)
{
    size_t capacity = count ? 1 : 0;
    while (capacity < count)
        capacity *= 2;
    return capacity;
}

yk_status yki_pickle_place(yki_pickle *pickle, yki_pickle_value *container,
                           yki_pickle_value **values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (values[i])
            values[i]->placed = 1;
    if (container->placed)
        return yki_pickle_refuse(pickle, "a %s changes after it was put into a container",
                                 yki_pickle_type_name(container->type));

    size_t old_capacity = item_capacity(container->count);
    size_t capacity = item_capacity(container->count + n);
    if (capacity > old_capacity) {
        void *block = container->count ? container->items : NULL;
        YK_TRY(resize(pickle, &block, old_capacity * sizeof *values, capacity * sizeof *values));
        container->items = block;
    }
    for (size_t i = 0; i < n; i++) {
        container->items[container->count++] = values[i];
        if (values[i] && values[i]->height >= container->height)
            container->height = (uint16_t)(values[i]->height + 1);
    }
    if (container->height > YKI_PICKLE_DEPTH)
        return yki_pickle_refuse(pickle, "nested deeper than %d", YKI_PICKLE_DEPTH);
    return YK_OK;
}

/* ---- stack and marks ------------------------------------------------------------------------- */

yk_status yki_pickle_grow(yki_pickle *pickle, yki_pickle_stack *stack, uint32_t needed)
{
    if (needed <= stack->capacity)
        return YK_OK;
    uint32_t capacity = stack->capacity ? stack->capacity : 32;
    while (capacity < needed)
        capacity *= 2;
    size_t old_bytes = stack->capacity * sizeof *stack->values;
    void *block = stack->values;
    YK_TRY(resize(pickle, &block, old_bytes, capacity * sizeof *stack->values));
    stack->values = block;
    memset(stack->values + stack->capacity, 0,
           (capacity - stack->capacity) * sizeof *stack->values);
    stack->capacity = capacity;
    return YK_OK;
}

yk_status yki_pickle_push(yki_pickle *pickle, yki_pickle_value *value)
{
    YK_TRY(yki_pickle_grow(pickle, &pickle->stack, pickle->stack.count + 1));
    pickle->stack.values[pickle->stack.count++] = value;
    return YK_OK;
}

yk_status yki_pickle_push_mark(yki_pickle *pickle)
{
    if (pickle->mark_count == pickle->mark_capacity) {
        uint32_t capacity = pickle->mark_capacity ? 2 * pickle->mark_capacity : 32;
        void *block = pickle->marks;
        YK_TRY(resize(pickle, &block, pickle->mark_capacity * sizeof *pickle->marks,
                      capacity * sizeof *pickle->marks));
        pickle->marks = block;
        pickle->mark_capacity = capacity;
    }
    pickle->marks[pickle->mark_count++] = pickle->stack.count;
    return YK_OK;
}

yk_status yki_pickle_pop(yki_pickle *pickle, uint32_t n, yki_pickle_value ***values)
{
    uint32_t floor = pickle->mark_count ? pickle->marks[pickle->mark_count - 1] : 0;
    if (pickle->stack.count - floor < n)
        return yki_pickle_refuse(pickle, "needs %u values on the stack, which holds %u", n,
                                 pickle->stack.count - floor);
    pickle->stack.count -= n;
    *values = pickle->stack.values + pickle->stack.count;
    return YK_OK;
}

yk_status yki_pickle_pop_mark(yki_pickle *pickle, yki_pickle_value ***values, uint32_t *count)
{
    if (!pickle->mark_count)
        return yki_pickle_refuse(pickle, "needs a MARK, of which there is none");
    uint32_t mark = pickle->marks[--pickle->mark_count];
    *count = pickle->stack.count - mark;
    *values = pickle->stack.values + mark;
    pickle->stack.count = mark;
    return YK_OK;
}

yk_status yki_pickle_top(yki_pickle *pickle, yki_pickle_value **value)
{
    yki_pickle_value **values = NULL;
    YK_TRY(yki_pickle_pop(pickle, 1, &values));
    pickle->stack.count++;
    *value = values[0];
    return YK_OK;
}

/* ---- memo ------------------------------------------------------------------------------------ */

/* Pickles number what they remember one by one, so no honest index exceeds the values made. */
yk_status yki_pickle_remember(yki_pickle *pickle, uint32_t index, yki_pickle_value *value)
{
    if (index > pickle->made)
        return yki_pickle_refuse(pickle, "memo index %u, but only %u values came so far", index,
                                 pickle->made);
    YK_TRY(yki_pickle_grow(pickle, &pickle->memo, index + 1));
    pickle->memo.count += !pickle->memo.values[index];
    pickle->memo.values[index] = value;
    return YK_OK;
}

yk_status yki_pickle_recall(yki_pickle *pickle, uint32_t index, yki_pickle_value **value)
{
    if (index >= pickle->memo.capacity || !pickle->memo.values[index])
        return yki_pickle_refuse(pickle, "nothing was remembered under memo index %u", index);
    *value = pickle->memo.values[index];
    return YK_OK;
}

/* ---- the end --------------------------------------------------------------------------------- */

void yki_pickle_free_machine(yki_pickle *pickle)
{
    free(pickle->stack.values);
    free(pickle->memo.values);
    free(pickle->marks);
    pickle->stack.values = pickle->memo.values = NULL;
    pickle->marks = NULL;
}

static bool owns_items(const yki_pickle_value *value)
{
    return value->count && (value->type == YKI_PICKLE_LIST || value->type == YKI_PICKLE_TUPLE ||
                            value->type == YKI_PICKLE_DICT || value->type == YKI_PICKLE_SET ||
                            value->type == YKI_PICKLE_CALL || value->type == YKI_PICKLE_PERSISTENT);
}

void yki_pickle_destroy(yki_pickle *pickle)
{
    if (!pickle)
        return;
    for (chunk *block = pickle->chunks, *next; block; block = next) {
        next = block->next;
        for (uint32_t i = 0; i < block->used; i++)
            if (owns_items(&block->values[i]))
                free(block->values[i].items);
        free(block);
    }
    for (struct yki_pickle_text *text = pickle->texts, *next; text; text = next) {
        next = text->next;
        free(text);
    }
    free(pickle->name);
    free(pickle);
}

/*
 * Autocast's policy as users see it: what the list of operators says (graph/operators.def), and the
 * words of the overrides. The reasons are torch.autocast's: convolutions and matrix products gain
 * most from 16 bit and tolerate it; a loss adds up many small numbers; the rest is bound by memory
 * and follows its inputs. batch_norm, which follows, keeps its statistics in f32 in any case.
 */
#include <string.h>

#include "compile/rewrite.h"

static const char *const words[] = {
    [YKI_AUTOCAST_FOLLOW] = "follow", [YKI_AUTOCAST_LOW] = "low", [YKI_AUTOCAST_FULL] = "full"};
enum { WORDS = sizeof words / sizeof *words };

/* One "OP=WORD" of the overrides; pointers into them. */
typedef struct item {
    const char *op, *word;
    size_t op_length, word_length;
} item;

/* The item at *text, which moves on to the next; false at the end. */
static bool next_item(const char **text, item *found)
{
    if (!*text || !**text)
        return false;
    size_t length = strcspn(*text, ",");
    const char *equals = memchr(*text, '=', length);
    *found = (item){.op = *text, .op_length = equals ? (size_t)(equals - *text) : length};
    if (equals)
        *found = (item){*text, equals + 1, found->op_length, length - found->op_length - 1};
    *text += length + ((*text)[length] == ',');
    return true;
}

static bool is_word(const char *text, size_t length, const char *word)
{
    return text && strlen(word) == length && strncmp(text, word, length) == 0;
}

/* The operators that users build, which come first in the list; NULL after the last. */
static const yki_op *forward_operator(size_t index)
{
    return index < YKI_OPERATORS && yki_operators[index]->infer ? yki_operators[index] : NULL;
}

static const yki_op *operator_of(const item *wanted)
{
    const yki_op *op;
    for (size_t i = 0; (op = forward_operator(i)); i++)
        if (is_word(wanted->op, wanted->op_length, op->name))
            return op;
    return NULL;
}

/* -1: no such word. */
static int policy_of(const item *wanted)
{
    for (int i = 0; i < WORDS; i++)
        if (is_word(wanted->word, wanted->word_length, words[i]))
            return i;
    return -1;
}

static const char *list_operators(char *text, size_t size)
{
    const yki_op *op;
    size_t at = 0;
    for (size_t i = 0; (op = forward_operator(i)) && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%s", i ? ", " : "", op->name);
    return text;
}

static yk_status check_item(const item *wanted)
{
    const yki_op *op = operator_of(wanted);
    int policy = policy_of(wanted), length = (int)wanted->op_length;
    char names[1024];
    if (!op)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "autocast: no operator \"%.*s\", expected one of %s", length, wanted->op,
                         list_operators(names, sizeof names));
    if (policy < 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "autocast: \"%.*s%s%.*s\": expected %s=low|full|follow", length,
                         wanted->op, wanted->word ? "=" : "", (int)wanted->word_length,
                         wanted->word ? wanted->word : "", op->name);
    if (op->autocast == YKI_AUTOCAST_FULL && policy != YKI_AUTOCAST_FULL)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "autocast: %s=%s: %s runs in f32 alone, expected %s=full", op->name,
                         words[policy], op->name, op->name);
    return YK_OK;
}

yk_status yk_autocast_check(const char *overrides)
{
    item wanted;
    while (next_item(&overrides, &wanted))
        YK_TRY(check_item(&wanted));
    return YK_OK;
}

yki_autocast yki_autocast_of(const yki_op *op, const char *overrides)
{
    yki_autocast policy = op->autocast;
    item wanted;
    while (next_item(&overrides, &wanted))
        if (operator_of(&wanted) == op)
            policy = (yki_autocast)policy_of(&wanted);
    return policy;
}

bool yk_autocast_policy(size_t index, const char **op, const char **policy)
{
    const yki_op *found = forward_operator(index);
    if (!found || !op || !policy)
        return false;
    *op = found->name;
    *policy = words[found->autocast];
    return true;
}

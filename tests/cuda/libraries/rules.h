/* Which attributes the fake cuDNN takes, as the real one does: it refuses those of another
 * descriptor, and another type or count. */
#ifndef YK_FAKE_RULES_H
#define YK_FAKE_RULES_H

#include <stdbool.h>
#include <stdint.h>

typedef struct fake_rule {
    int descriptor, name, type;
    int64_t least, most; /* how many values */
    bool needed;         /* before the descriptor is final */
} fake_rule;

extern const fake_rule fake_rules[];
extern const int fake_rule_count;

bool fake_may_set(int descriptor, int name, int type, int64_t count);
bool fake_may_get(int descriptor, int name, int type);

#endif

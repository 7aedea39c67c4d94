/* The pickle reader alone, and a walk over all that it made. */
#include "fuzz.h"

#include <stdlib.h>

#include "io/pickle.h"

static size_t walk(const yki_pickle_value *value, int depth, size_t budget)
{
    if (depth > YKI_PICKLE_DEPTH + 1)
        abort();
    for (size_t i = 0; i < yki_pickle_pairs(value) && budget; i++) {
        yki_pickle_get(value, "labels");
        budget = walk(yki_pickle_key(value, i), depth + 1, budget - 1);
        budget = budget ? walk(yki_pickle_pair_value(value, i), depth + 1, budget - 1) : 0;
    }
    for (size_t i = 0; yki_pickle_item(value, i) && budget; i++)
        budget = walk(yki_pickle_item(value, i), depth + 1, budget - 1);
    return budget;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    yki_pickle *pickle;
    fuzz_begin(size);
    yk_status status = yki_pickle_parse(&pickle, "fuzzed", data, size, NULL);
    fuzz_check(status);
    if (status == YK_OK) {
        walk(yki_pickle_root(pickle), 0, 100000);
        yki_pickle_destroy(pickle);
    }
    fuzz_end();
    return 0;
}

/* Uses the names of yoke's functions and of PyTorch's dtypes. */
#include "comm/describe.h"

#include <stdio.h>

static const char *const operations[] = {[YKI_ALL_REDUCE] = "all_reduce",
                                         [YKI_BROADCAST] = "broadcast",
                                         [YKI_ALL_GATHER] = "all_gather",
                                         [YKI_REDUCE_SCATTER] = "reduce_scatter",
                                         [YKI_GATHER] = "gather",
                                         [YKI_SCATTER] = "scatter",
                                         [YKI_BARRIER] = "barrier",
                                         [YKI_ALLOC] = "alloc",
                                         [YKI_SEND] = "send",
                                         [YKI_RECV] = "recv"};

static const char *const reductions[] = {[YK_REDUCE_SUM] = "sum",
                                         [YK_REDUCE_AVG] = "avg",
                                         [YK_REDUCE_MIN] = "min",
                                         [YK_REDUCE_MAX] = "max",
                                         [YK_REDUCE_PRODUCT] = "product"};

static const char *dtype_words(unsigned dtype)
{
    return dtype < YK_DTYPE_COUNT ? yk_dtype_name((yk_dtype)dtype) : "an unknown dtype";
}

static const char *reduction_words(unsigned reduce)
{
    return reduce <= YK_REDUCE_PRODUCT ? reductions[reduce] : "an unknown reduction";
}

void yki_describe(char text[YKI_WORDS], const yki_descriptor *what)
{
    const char *name = operations[what->operation], *dtype = dtype_words(what->dtype);
    unsigned long long count = what->count;
    switch ((yki_operation)what->operation) {
    case YKI_BARRIER:
        snprintf(text, YKI_WORDS, "barrier()");
        break;
    case YKI_ALLOC:
        snprintf(text, YKI_WORDS, "alloc(%llu bytes)", count);
        break;
    case YKI_ALL_REDUCE:
    case YKI_REDUCE_SCATTER:
        snprintf(text, YKI_WORDS, "%s(%s x %llu, %s)", name, dtype, count,
                 reduction_words(what->reduce));
        break;
    case YKI_ALL_GATHER:
        snprintf(text, YKI_WORDS, "%s(%s x %llu)", name, dtype, count);
        break;
    default:
        snprintf(text, YKI_WORDS, "%s(%s x %llu, %s %d)", name, dtype, count,
                 what->operation == YKI_SEND   ? "to rank"
                 : what->operation == YKI_RECV ? "from rank"
                                               : "root",
                 what->root);
    }
}

const char *yki_difference(const yki_descriptor *a, const yki_descriptor *b)
{
    if (a->operation != b->operation)
        return "operation";
    if (a->dtype != b->dtype)
        return "dtype";
    if (a->count != b->count)
        return "count";
    if (a->reduce != b->reduce)
        return "reduction";
    return a->root != b->root ? "root" : "arguments";
}

/* Uses the names of yoke's functions and of PyTorch's dtypes. */
#include "comm/job/describe.h"

#include <stdio.h>

static const char *const operations[] = {[YK_OPERATION_ALL_REDUCE] = "all_reduce",
                                         [YK_OPERATION_REDUCE] = "reduce",
                                         [YK_OPERATION_BROADCAST] = "broadcast",
                                         [YK_OPERATION_ALL_GATHER] = "all_gather",
                                         [YK_OPERATION_REDUCE_SCATTER] = "reduce_scatter",
                                         [YK_OPERATION_GATHER] = "gather",
                                         [YK_OPERATION_SCATTER] = "scatter",
                                         [YK_OPERATION_ALL_TO_ALL] = "all_to_all",
                                         [YK_OPERATION_BARRIER] = "barrier",
                                         [YK_OPERATION_ALLOC] = "alloc",
                                         [YK_OPERATION_ALL_TO_ALL_V] = "all_to_all_v",
                                         [YK_OPERATION_SEND] = "send",
                                         [YK_OPERATION_RECV] = "recv",
                                         [YK_OPERATION_BATCH] = "batch_send_recv"};

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

void yki_describe(char text[YKI_WORDS], const yki_job *job, const yk_descriptor *what)
{
    const char *name = operations[what->operation], *dtype = dtype_words(what->dtype);
    unsigned long long count = what->count;
    int root = yki_job_rank(job, what->root);
    switch ((yk_operation)what->operation) {
    case YK_OPERATION_BARRIER:
        snprintf(text, YKI_WORDS, "barrier()");
        break;
    case YK_OPERATION_ALLOC:
        snprintf(text, YKI_WORDS, "alloc(%llu bytes)", count);
        break;
    case YK_OPERATION_ALL_TO_ALL_V:
        snprintf(text, YKI_WORDS, "%s(%s)", name, dtype);
        break;
    case YK_OPERATION_BATCH:
        snprintf(text, YKI_WORDS, "%s(%llu messages)", name, count);
        break;
    case YK_OPERATION_ALL_REDUCE:
    case YK_OPERATION_REDUCE_SCATTER:
        snprintf(text, YKI_WORDS, "%s(%s x %llu, %s)", name, dtype, count,
                 reduction_words(what->reduce));
        break;
    case YK_OPERATION_REDUCE:
        snprintf(text, YKI_WORDS, "%s(%s x %llu, %s, root %d)", name, dtype, count,
                 reduction_words(what->reduce), root);
        break;
    case YK_OPERATION_ALL_GATHER:
    case YK_OPERATION_ALL_TO_ALL:
        snprintf(text, YKI_WORDS, "%s(%s x %llu)", name, dtype, count);
        break;
    default:
        snprintf(text, YKI_WORDS, "%s(%s x %llu, %s %d)", name, dtype, count,
                 what->operation == YK_OPERATION_SEND   ? "to rank"
                 : what->operation == YK_OPERATION_RECV ? "from rank"
                                                        : "root",
                 root);
    }
}

/* A send and a recv are two sides of one message. */
static bool is_message(const yk_descriptor *what)
{
    return what->operation == YK_OPERATION_SEND || what->operation == YK_OPERATION_RECV;
}

const char *yki_difference(const yk_descriptor *a, const yk_descriptor *b)
{
    if (a->operation != b->operation && !(is_message(a) && is_message(b)))
        return "operation";
    if (a->dtype != b->dtype)
        return "dtype";
    if (a->count != b->count)
        return "count";
    if (a->reduce != b->reduce)
        return "reduction";
    return a->root != b->root ? "root" : "arguments";
}

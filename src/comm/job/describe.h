/* Operations in words, for error lines. */
#ifndef YKI_DESCRIBE_H
#define YKI_DESCRIBE_H

#include <yoke/backend.h>

#include "comm/job/rendezvous.h"

enum { YKI_WORDS = 96 };

/* A call of the group whose job this is: "all_reduce(float32 x 1024, sum)", "send(int64 x 2, to
 * rank 1)". Ranks are named by their numbers in the job. */
void yki_describe(char text[YKI_WORDS], const yki_job *job, const yk_descriptor *what);
/* In what two descriptors differ: "operation", "dtype", "count", "reduction", "root". */
const char *yki_difference(const yk_descriptor *a, const yk_descriptor *b);

#endif

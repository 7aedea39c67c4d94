/* What becomes of operators on sequences: see sequence.c. */
#ifndef YKI_SEQUENCE_H
#define YKI_SEQUENCE_H

#include "graph/operators.h"

/* Whether the operator is element-wise, its inputs are sequences of one shape, and yki_of_row()
 * has made one of them of an image: then rows (YKI_MAX_IN) receives them as images. */
bool yki_rows_before(const yki_op *op, yk_value *const *in, yk_value **rows);

#endif

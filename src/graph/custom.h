/*
 * Operators of programs (<yoke/operator.h>) in the form of the built-in ones: a yki_op whose rules
 * call the program's. Each graph has one for every operator that it uses.
 */
#ifndef YKI_CUSTOM_H
#define YKI_CUSTOM_H

#include <yoke/operator.h>

#include "graph/operators.h"

typedef struct yki_custom_op {
    yki_op op;
    const yk_operator *table; /* the program's, which identifies it */
    yk_operator declared;     /* a copy as large as this version of the struct */
    yk_operator_kernel ref, cpu;
} yki_custom_op;

/*
 * Within a gradient rule of a program, values may be 16 bit: casts the inputs of a node that is
 * about to be built, as autocast would. False when memory is out (sticky).
 */
bool yki_custom_cast(yk_graph *graph, yki_node *draft);
/* Whether a node is a loss that is a sum over samples. */
bool yki_custom_is_sum(const yki_node *node);

#endif

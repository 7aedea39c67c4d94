/* The storages of PyTorch that a .pth file may hold, and how an element of each becomes a number.
 */
#ifndef YKI_PTH_DTYPE_H
#define YKI_PTH_DTYPE_H

#include "io/pth.h"

struct yki_pth_dtype {
    const char *storage; /* the class in the module torch */
    size_t size;
    yk_dtype same; /* our dtype with the same elements, YK_DTYPE_COUNT for none */
    double (*read)(const void *element);
};

/* For a pickled class; NULL for one that is not known. */
const yki_pth_dtype *yki_pth_dtype_find(const yki_pickle_value *storage_class);
/* Towards zero, cut off at the ends; not-a-number becomes zero. */
int64_t yki_pth_to_integer(double value, int64_t minimum, int64_t maximum);

#endif

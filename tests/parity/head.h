/* The head of a vision transformer. */
#ifndef YK_TEST_HEAD_H
#define YK_TEST_HEAD_H

#include <math.h>
#include <string.h>

#include <yoke/model.h>

#include "tensor/element.h"

/* It starts with zeros, which would hide all that comes before: other weights for it. */
static inline void draw_head(yk_model *model)
{
    for (size_t p = 0; p < yk_model_parameter_count(model); p++) {
        yk_parameter_view view = yk_model_parameter(model, p);
        if (strcmp(view.name, "heads.head.weight") != 0)
            continue;
        for (int64_t i = 0; i < yk_tensor_count(&view.value); i++)
            yki_element_set(view.value.dtype, view.value.data, i,
                            (double)(float)(0.1 * sin(0.7 * (double)(i * i % 1009))));
        yk_model_parameters_changed(model);
    }
}

#endif

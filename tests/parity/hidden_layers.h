/* What hides the layers of a new network. */
#ifndef YK_TEST_HIDDEN_LAYERS_H
#define YK_TEST_HIDDEN_LAYERS_H

#include <math.h>
#include <string.h>

#include <yoke/model.h>

#include "tensor/element.h"

static inline void draw_like_head(const yk_tensor *value)
{
    for (int64_t i = 0; i < yk_tensor_count(value); i++)
        yki_element_set(value->dtype, value->data, i,
                        (double)(float)(0.1 * sin(0.7 * (double)(i * i % 1009))));
}

/* The head of a vision transformer starts with zeros, which would hide all that comes before, and
 * the layer scale of a ConvNeXt with 1e-6, which would hide its blocks: other weights for them. */
static inline void show_hidden_layers(yk_model *model)
{
    for (size_t p = 0; p < yk_model_parameter_count(model); p++) {
        yk_parameter_view view = yk_model_parameter(model, p);
        if (strcmp(view.name, "heads.head.weight") == 0 || strstr(view.name, ".layer_scale"))
            draw_like_head(&view.value);
    }
    yk_model_parameters_changed(model);
}

#endif

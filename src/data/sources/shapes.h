/*
 * The ten classes of the synthetic data set as signed distances: negative inside, positive outside.
 * Figures take a point in a frame where the figure fills about the unit disc; textures fill the
 * plane with a period of 1. Distances of figures follow Quilez, "2D distance functions".
 */
#ifndef YKI_SHAPES_H
#define YKI_SHAPES_H

#include <stdbool.h>

typedef struct yki_shape {
    float (*distance)(float x, float y);
    bool texture;
} yki_shape;

extern const yki_shape yki_shapes[10];
extern const char *const yki_shape_names[10];

#endif

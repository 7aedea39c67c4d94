/* The first values of a tensor. */
#ifndef YKI_INIT_H
#define YKI_INIT_H

#include <yoke/graph.h> /* yk_init */

#include "base/error.h"
#include "base/random.h"

typedef enum yki_recipe_kind {
    YKI_CONSTANT,     /* value */
    YKI_UNIFORM,      /* a, b */
    YKI_NORMAL,       /* mean, std */
    YKI_TRUNC_NORMAL, /* mean, std, a, b; a good share of the normal distribution is in [a, b] */
    YKI_ORTHOGONAL    /* gain; of two dimensions or more */
} yki_recipe_kind;

/* The standard deviation of a uniform or normal distribution around 0 follows from the shape. */
typedef enum yki_scale {
    YKI_SCALE_NONE,
    YKI_SCALE_FAN_IN,  /* gain / sqrt(fan_in): He et al. 2015, torch.nn.init's kaiming */
    YKI_SCALE_FAN_OUT, /* gain / sqrt(fan_out) */
    YKI_SCALE_XAVIER   /* gain sqrt(2 / (fan_in + fan_out)): Glorot and Bengio 2010 */
} yki_scale;

/* A function of torch.nn.init and its arguments. */
typedef struct yki_recipe {
    yki_recipe_kind kind;
    yki_scale scale;
    double gain, value, a, b, mean, std;
} yki_recipe;

/*
 * Fills tensor as recipe says, drawing from generator in the order of the elements, as
 * torch.nn.init does from a seeded generator: for f32 to the bit (see box_muller.h), except for
 * normal draws of fewer than 16 elements, which differ by the C library's log and cosine, and
 * orthogonal matrices, which differ by roundings. An f64 tensor gets the same draws, so that two
 * models that differ in dtype start alike.
 */
yk_status yki_init_with(yki_mt19937 *generator, const yki_recipe *recipe, yk_tensor *tensor);

/* The same with the recipe that init stands for. fan is used by YK_INIT_UNIFORM_FAN_IN alone. */
yk_status yki_init_tensor(yki_mt19937 *generator, yk_init init, int64_t fan, yk_tensor *tensor);

#endif

/* Lists of transforms: the table of their names and parameters, and their texts. */
#ifndef YKI_TRANSFORMS_H
#define YKI_TRANSFORMS_H

#include <yoke/transforms.h>

#include "base/error.h"
#include "base/reference.h"

struct yk_transforms {
    yki_reference reference;
    int count;
    yk_transform_step *steps;
    char *text;
};

/* Takes another reference, which yk_transforms_destroy releases. */
void yki_transforms_retain(const yk_transforms *transforms);

/* What a step works on; the phases of a list never decrease. */
typedef enum yki_transform_phase {
    YKI_ON_PICTURE,
    YKI_ON_TENSOR,
    YKI_ON_BATCH
} yki_transform_phase;

typedef enum yki_parameter_type {
    YKI_PARAMETER_INT,           /* int */
    YKI_PARAMETER_NUMBER,        /* double */
    YKI_PARAMETER_SIZE,          /* int height, width */
    YKI_PARAMETER_RESIZE,        /* int height, width; bool short_side */
    YKI_PARAMETER_RANGE,         /* double[2] */
    YKI_PARAMETER_FACTOR,        /* double[2] around 1 */
    YKI_PARAMETER_HUE,           /* double[2] around 0 */
    YKI_PARAMETER_CHANNELS,      /* double[3] */
    YKI_PARAMETER_INTERPOLATION, /* yk_interpolation */
    YKI_PARAMETER_PADDING_MODE,  /* yk_padding_mode */
    YKI_PARAMETER_VALUE          /* double; bool random */
} yki_parameter_type;

typedef struct yki_parameter {
    const char *name;
    yki_parameter_type type;
    size_t offset;      /* in yk_transform_step */
    double least, most; /* of each number */
} yki_parameter;

enum { YKI_PARAMETERS_MAX = 4 };
typedef struct yki_transform_type {
    const char *name;
    yki_transform_phase phase;
    bool needs_first; /* the first parameter has no default */
    yki_parameter parameters[YKI_PARAMETERS_MAX];
    yk_transform_step defaults;
} yki_transform_type;

/* NULL for a kind that does not exist. */
const yki_transform_type *yki_transform_type_of(yk_transform_kind kind);

/* Mean and deviation that have a name. */
typedef struct yki_normalization {
    const char *name;
    yk_transform_normalize numbers;
} yki_normalization;
extern const yki_normalization yki_normalizations[];
extern const int yki_normalization_count;

/* Whether the parameters of a step lie within their bounds. */
yk_status yki_transform_check(const yk_transform_step *step);

/* Reads steps from a text: *steps is to be freed by the caller. */
yk_status yki_transforms_read(const char *text, yk_transform_step **steps, int *count);
/* The text of steps, to be freed by the caller; NULL when out of memory. */
char *yki_transforms_write(const yk_transform_step *steps, int count);
/* The text of one step. */
void yki_transform_write(const yk_transform_step *step, char *text, size_t size);

/* What the longer side becomes when the shorter one becomes `size`, as torchvision truncates it. */
int64_t yki_long_side(int64_t longer, int64_t shorter, int size);
/* dims (C, H, W), where H and W may be -1 (they differ), after one step on pictures. */
yk_status yki_transform_size_after(const yk_transform_step *step, int64_t dims[3]);

#endif

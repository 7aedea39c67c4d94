/**
 * @file
 * Transforms: what happens to a picture on its way into a batch. A list of steps with the names,
 * parameters and meaning of torchvision's (and, for pairs of samples, of its batch transforms).
 */
#ifndef YOKE_TRANSFORMS_H
#define YOKE_TRANSFORMS_H

#include <yoke/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** How the pixels of a resized picture are computed; all but NEAREST are antialiased. */
typedef enum yk_interpolation {
    YK_INTERPOLATION_NEAREST,
    YK_INTERPOLATION_BILINEAR,
    YK_INTERPOLATION_BICUBIC
} yk_interpolation;

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

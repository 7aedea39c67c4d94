/* Moving pixels: crops that may reach beyond the picture, mirrors, affine maps. */
#ifndef YKI_GEOMETRY_H
#define YKI_GEOMETRY_H

#include <stdbool.h>

#include "image/picture.h"
#include "image/reflected.h"

/* Whether box lies within a picture of this size. */
bool yki_box_is_inside(yki_box box, int width, int height);
/* Copies the box of `in` to out, a picture of its own; zeros where it reaches beyond. */
yk_status yki_crop(const yki_picture *in, yki_box box, yki_picture *out);
/* Likewise, but beyond its edges the picture is mirrored, as far as it reaches. */
yk_status yki_crop_reflected(const yki_picture *in, yki_box box, yki_picture *out);
/* Copies `in` to out, mirrored left to right, upside down, or both. */
yk_status yki_flip(const yki_picture *in, bool mirrored, bool upside_down, yki_picture *out);

/*
 * out(x, y) = in(m[0] x + m[1] y + m[2], m[3] x + m[4] y + m[5]), the nearest pixel, or 0 beyond:
 * Pillow's Image.transform(AFFINE) of the picture's own size, in its 16-bit fixed point.
 */
yk_status yki_affine(const yki_picture *in, const double m[6], yki_picture *out);
/* torchvision's rotate(): around the centre, counter-clockwise by degrees. */
yk_status yki_rotate(const yki_picture *in, double degrees, yki_picture *out);

#endif

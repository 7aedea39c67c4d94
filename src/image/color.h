/*
 * Colours, in place, with Pillow's arithmetic: ImageEnhance's and ImageOps's functions and
 * torchvision's adjust_hue. Factors are torchvision's: 1 leaves the picture as it is.
 */
#ifndef YKI_COLOR_H
#define YKI_COLOR_H

#include "image/picture.h"

void yki_adjust_brightness(yki_picture *picture, float factor);
void yki_adjust_contrast(yki_picture *picture, float factor);
void yki_adjust_saturation(yki_picture *picture, float factor);
/* Turns the circle of hues by factor, -0.5 to 0.5. Grey pictures have none. */
void yki_adjust_hue(yki_picture *picture, double factor);
/* Blends with a copy that is smoothed into scratch. */
yk_status yki_adjust_sharpness(yki_picture *picture, float factor, yki_picture *scratch);

/* Every pixel grey, in as many channels as before. */
void yki_make_grey(yki_picture *picture);
/* One channel of grey. The stride stays that of the colours. */
void yki_to_one_channel(yki_picture *picture);

/* Keeps the upper `bits` bits of each byte. */
void yki_posterize(yki_picture *picture, int bits);
/* Inverts the bytes that are not below the threshold. */
void yki_solarize(yki_picture *picture, double threshold);
void yki_autocontrast(yki_picture *picture);
void yki_equalize(yki_picture *picture);

#endif

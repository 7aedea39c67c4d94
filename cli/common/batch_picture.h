/* Pictures of what a network sees: images of a batch, transformed and normalised. */
#ifndef YOKE_CLI_BATCH_PICTURE_H
#define YOKE_CLI_BATCH_PICTURE_H

#include <stdbool.h>
#include <stdint.h>

#include <yoke/report.h>

/* How values become colours again: those of each channel fill 0 to 255. A batch has black and white
 * pixels, so this undoes the normalisation. */
typedef struct cli_batch_range {
    float low[3], scale[3];
} cli_batch_range;

/* images: (N, C, H, W) in f32 with 1 or 3 channels; false for anything else. NULL is accepted. */
bool cli_batch_range_find(cli_batch_range *range, const yk_tensor *images);

/* Draws the index-th image at (x, y) of a picture (rows, columns, 3), where it has room. */
void cli_batch_picture_draw(uint8_t *rgb, int64_t columns, int64_t x, int64_t y,
                            const yk_tensor *images, int64_t index, const cli_batch_range *range);

/* The index-th image as a PNG file, whose bytes are to be freed. */
bool cli_batch_picture_encode(yk_png *png, const yk_tensor *images, int64_t index,
                              const cli_batch_range *range);

#endif

/* What the direct convolutions on AMX share: see amx.h. */
#ifndef YKI_CONV_AMX_H
#define YKI_CONV_AMX_H

#include "device/cpu/geometry.h"
#include "device/cpu/x86/amx.h"

/* Whether AMX computes a convolution of these activations on this device: both are bf16 and
 * blocked, without groups of channels, and of enough images to fill a tile's rows. */
bool yki_conv_amx_supports(const yki_device *device, const yki_attrs *attrs, const yki_operand *x,
                           const yki_operand *y, const yki_operand *weight);

/* An activation: its channels are `blocks` of 16 in memory, and `groups` of 32 in bricks. */
typedef struct yki_amx_image {
    int64_t images, channels, blocks, groups, rows, columns;
} yki_amx_image;

yki_amx_image yki_amx_image_of(const yki_operand *activation);

/* Images are divided into blocks of up to 32, all about as large. */
typedef struct yki_amx_block {
    int64_t begin, count;
} yki_amx_block;

int64_t yki_amx_blocks(int64_t images);
yki_amx_block yki_amx_block_of(int64_t images, int64_t index);

/* Where a row of a group of channels lies, of a block's images. */
yki_amx_row yki_amx_row_at(const yki_amx_image *image, const void *data, yki_amx_block block,
                           int64_t group, int64_t row);

/* A convolution's weights: (outs, width, taps). If each output channel has kernels for fewer than
 * all input channels, channels are in groups of `width` on both sides. */
typedef struct yki_amx_kernels {
    int64_t ins, outs, width, taps;
} yki_amx_kernels;

/* With groups, 32 output channels read the same 32 input channels only. */
static inline bool yki_amx_diagonal(const yki_amx_kernels *kernels)
{
    return kernels->width < kernels->ins;
}

yki_amx_kernels yki_amx_kernels_of(const yki_operand *x, const yki_operand *weight);
/* Those from 32 input channels to 32 output channels. */
yki_amx_weights yki_amx_weights_at(const yki_amx_kernels *kernels, const float *weight, int64_t in,
                                   int64_t out);

/* Writes weights as bricks by group of outputs, group of inputs that these read, and tap. The
 * gradient of x (`backward`) has the convolution's outputs as its inputs. */
typedef struct yki_amx_pack {
    yki_amx_kernels kernels;
    bool backward;
    int team;
} yki_amx_pack;

void yki_amx_pack_weights(const yki_amx_pack *how, const float *weight, void *packed);

/* The taps of a kernel of `size` that reach `in` rows (or columns) from each of `out`: in a
 * convolution (forward), or from each of x in the gradient of x. `pitch` is what a step in this
 * direction adds to a tap's number. Returns NULL without memory; free with free(). */
yki_amx_taps *yki_amx_taps_forward(const yki_attrs *attrs, int64_t size, int64_t in, int64_t out,
                                   int pitch);
yki_amx_taps *yki_amx_taps_backward(const yki_attrs *attrs, int64_t size, int64_t in, int64_t out,
                                    int pitch);

/* The rows of the input that rows [begin, end) of the output read; at most this many. */
typedef struct yki_amx_rows {
    int64_t begin, end;
} yki_amx_rows;

yki_amx_rows yki_amx_rows_of(const yki_amx_taps *down, int64_t begin, int64_t end);
int64_t yki_amx_most_rows(const yki_amx_taps *down, int64_t rows, int64_t strip);

/* Bricks of the last rows of an input that have been read: row r is in place r % capacity. With
 * dilation, the rows that are read next may begin before these. */
typedef struct yki_amx_ring {
    char *at;
    int64_t capacity, row_bytes, group_bytes;
    yki_amx_rows rows;
} yki_amx_ring;

yki_amx_ring yki_amx_ring_of(const yki_amx_image *image, int64_t capacity, char *at);
int64_t yki_amx_ring_bytes(const yki_amx_ring *ring, const yki_amx_image *image);
/* Reads, with yki_amx_read or one of its like, those of these rows that are not there yet. */
void yki_amx_ring_read(yki_amx_ring *ring, yki_amx_rows rows, const yki_amx_image *image,
                       const void *data, yki_amx_block block,
                       void (*read)(const yki_amx_row *row, char *to));

static inline char *yki_amx_ring_row(const yki_amx_ring *ring, int64_t group, int64_t row)
{
    return ring->at + group * ring->group_bytes + row % ring->capacity * ring->row_bytes;
}

#endif

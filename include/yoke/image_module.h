/**
 * @file
 * The contract of the module that decodes pictures, and encodes them as JPEG and PNG
 * (libyoke-image.so): libyoke opens it when the first picture is decoded or encoded, so that
 * programs without pictures start without the image libraries. It needs no function of libyoke.
 */
#ifndef YOKE_IMAGE_MODULE_H
#define YOKE_IMAGE_MODULE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The version of this contract; a module of another version is not used. */
#define YK_IMAGE_MODULE_VERSION 3

/** A decoder: what one thread needs to decode one picture after another. */
typedef struct yk_image_decoder yk_image_decoder;

/** What the header of a picture says. */
typedef struct yk_image_header {
    const char *format; /**< "JPEG" */
    int width;          /**< in pixels, at least 1 */
    int height;         /**< likewise */
    int max_reduction;  /**< 1, 2, 4 or 8: up to which factor the format can be decoded at a reduced
                             size for less work */
} yk_image_header;

/** A part of a picture, in pixels. */
typedef struct yk_image_region {
    int left;   /**< the first column, from 0 */
    int top;    /**< the first row, from 0 */
    int width;  /**< the number of columns, at least 1 */
    int height; /**< the number of rows, at least 1 */
} yk_image_region;

/** A picture to be encoded. */
typedef struct yk_image_pixels {
    const uint8_t *pixels; /**< rows of 3 * width bytes of RGB */
    int width;             /**< 1 to 65500 */
    int height;            /**< 1 to 65500 */
    size_t stride;         /**< bytes from one row to the next */
} yk_image_pixels;

/**
 * The module's table. Functions that can fail return NULL on success, otherwise what is wrong with
 * the picture, in words that remain valid until the decoder's next call.
 */
typedef struct yk_image_module {
    uint32_t version;    /**< YK_IMAGE_MODULE_VERSION */
    uint32_t size;       /**< of this struct */
    const char *formats; /**< for people: "JPEG (libjpeg-turbo 2.1.5), PNG (libpng 1.6.39)" */
    /** Makes a decoder; NULL when out of memory. */
    yk_image_decoder *(*create)(void);
    /** Destroys a decoder. Accepts NULL. */
    void (*destroy)(yk_image_decoder *decoder);
    /** Reads the header of a picture, whose bytes must remain valid until it has been read. */
    const char *(*open)(yk_image_decoder *decoder, const uint8_t *bytes, size_t size,
                        yk_image_header *header);
    /**
     * Decodes the region of the opened picture, once, as RGB: rows of 3 * region.width bytes,
     * `stride` bytes apart, in memory of the decoder that is valid until its next call. With a
     * reduction r up to max_reduction the picture has ceil(width / r) x ceil(height / r) pixels,
     * and the region is counted in these. A region's pixels do not depend on where it begins and
     * ends.
     */
    const char *(*read)(yk_image_decoder *decoder, const yk_image_region *region, int reduction,
                        const uint8_t **pixels, size_t *stride);
    /**
     * Encodes pixels as a baseline JPEG of `quality` 1 to 100 with colours at half the resolution
     * (4:2:0). *bytes is memory of the decoder that is valid until its next call.
     */
    const char *(*write_jpeg)(yk_image_decoder *decoder, const yk_image_pixels *pixels, int quality,
                              const uint8_t **bytes, size_t *size);
    /** The same as a PNG of 8 bits per channel. */
    const char *(*write_png)(yk_image_decoder *decoder, const yk_image_pixels *pixels,
                             const uint8_t **bytes, size_t *size);
} yk_image_module;

/** The table that a module exports. */
extern __attribute__((visibility("default"))) const yk_image_module yk_image_decoders;

#ifdef __cplusplus
}
#endif

#endif

/* The device's kernels as the driver loads them: fatbins, which the build makes of kernels/ and
 * embeds. The tests have others, for their own driver. */
#ifndef YKI_CUDA_IMAGES_H
#define YKI_CUDA_IMAGES_H

typedef struct yki_cuda_image {
    const char *name; /* of the file of kernels, for errors */
    const void *data; /* NULL after the last */
} yki_cuda_image;

enum { YKI_CUDA_MAX_IMAGES = 32 };

extern const yki_cuda_image yki_cuda_images[];
/* The version of CUDA that a driver must support to load them: 13000 is 13.0. */
extern const int yki_cuda_images_version;

#endif

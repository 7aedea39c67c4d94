/* Images for the fake driver, which has the kernels itself. */
#include "gpu/images.h"

const yki_cuda_image yki_cuda_images[] = {{"kernels", "the fake driver's"}, {"", 0}};

const int yki_cuda_images_version = 13000;

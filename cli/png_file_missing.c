/* See png_file.h: what takes the place of png_file.c in a build without libpng. */
#include "png_file.h"

#include "errors.h"

bool cli_png_supported(void)
{
    return false;
}

bool cli_png_write(const char *path, const uint8_t *rgb, int width, int height)
{
    (void)rgb, (void)width, (void)height;
    return cli_complain(
        "%s: this build cannot write pictures: install libpng (Debian: libpng-dev), "
        "then configure with -DYOKE_PREVIEW=ON and build again",
        path);
}

bool cli_png_encode(yk_png *png, const uint8_t *rgb, int width, int height)
{
    (void)rgb;
    *png = (yk_png){.width = width, .height = height};
    return false;
}

/* See png_file.h: with libpng. Writes to a temporary file beside the path and renames it. */
#define _GNU_SOURCE
#include "png_file.h"

#include <errno.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "errors.h"

bool cli_png_supported(void)
{
    return true;
}

/* mkstemp creates files with mode 0600; this sets the mode of an ordinary new file. */
static void give_usual_mode(int fd)
{
    mode_t mask = umask(0);
    umask(mask);
    fchmod(fd, 0666 & ~mask);
}

/* Writes the picture and closes fd; NULL, or the reason of the failure. */
static const char *write_to(int fd, const uint8_t *rgb, int width, int height)
{
    static char reason[64];
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)width,
                       .height = (png_uint_32)height,
                       .format = PNG_FORMAT_RGB};
    FILE *file = fdopen(fd, "wb");
    if (!file) {
        close(fd);
        return strerror(errno);
    }
    give_usual_mode(fd);
    errno = 0;
    bool written = png_image_write_to_stdio(&image, file, 0, rgb, 0, NULL);
    snprintf(reason, sizeof reason, "%s", errno ? strerror(errno) : image.message);
    errno = 0;
    if (fclose(file) != 0 && written)
        return strerror(errno);
    return written ? NULL : reason;
}

bool cli_png_write(const char *path, const uint8_t *rgb, int width, int height)
{
    struct stat info;
    char temporary[4096];
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return cli_complain("%s: is not a file", path);
    if (snprintf(temporary, sizeof temporary, "%s.XXXXXX", path) >= (int)sizeof temporary)
        return cli_complain("%.64s...: the path is too long", path);
    int fd = mkstemp(temporary);
    if (fd < 0)
        return cli_complain("%s: %s", path, strerror(errno));
    const char *reason = write_to(fd, rgb, width, height);
    if (!reason && rename(temporary, path) != 0)
        reason = strerror(errno);
    if (!reason)
        return true;
    unlink(temporary);
    return cli_complain("%s: %s", path, reason);
}

bool cli_png_encode(yk_png *png, const uint8_t *rgb, int width, int height)
{
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)width,
                       .height = (png_uint_32)height,
                       .format = PNG_FORMAT_RGB};
    png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
    void *bytes = malloc(size);
    *png = (yk_png){.width = width, .height = height};
    if (!bytes || !png_image_write_to_memory(&image, bytes, &size, 0, rgb, 0, NULL)) {
        free(bytes);
        return false;
    }
    png->bytes = bytes;
    png->size = size;
    return true;
}

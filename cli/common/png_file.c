/* See png_file.h: writes to a temporary file beside the path and renames it. */
#define _GNU_SOURCE
#include "common/png_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <yoke/report.h>

#include "common/errors.h"

/* mkstemp creates files with mode 0600; this sets the mode of an ordinary new file. */
static void give_usual_mode(int fd)
{
    mode_t mask = umask(0);
    umask(mask);
    fchmod(fd, 0666 & ~mask);
}

/* Writes the bytes and closes fd; NULL, or the reason of the failure. */
static const char *write_to(int fd, const yk_png *png)
{
    FILE *file = fdopen(fd, "wb");
    if (!file) {
        close(fd);
        return strerror(errno);
    }
    give_usual_mode(fd);
    errno = 0;
    bool written = fwrite(png->bytes, 1, png->size, file) == png->size;
    int reason = errno;
    errno = 0;
    if (fclose(file) != 0 && written)
        return strerror(errno);
    return written ? NULL : strerror(reason);
}

static bool write_whole(const char *path, const yk_png *png)
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
    const char *reason = write_to(fd, png);
    if (!reason && rename(temporary, path) != 0)
        reason = strerror(errno);
    if (!reason)
        return true;
    unlink(temporary);
    return cli_complain("%s: %s", path, reason);
}

bool cli_png_write(const char *path, const uint8_t *rgb, int width, int height)
{
    yk_png png;
    if (yk_png_encode(&png, rgb, width, height) != YK_OK)
        return cli_complain("%s: %s", path, cli_reason());
    bool written = write_whole(path, &png);
    yk_png_free(&png);
    return written;
}

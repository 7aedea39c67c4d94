/* See png_file.h. */
#include "common/png_file.h"

#include <sys/stat.h>

#include <yoke/report.h>

#include "common/errors.h"
#include "common/files.h"

static bool write_whole(const char *path, const yk_png *png)
{
    struct stat info;
    cli_file file;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return cli_complain("%s: is not a file", path);
    if (!cli_file_create(&file, path))
        return false;
    fwrite(png->bytes, 1, png->size, file.stream);
    return cli_file_close(&file);
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

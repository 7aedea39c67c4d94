/* Writing a picture as a PNG file. The program can be built without libpng (YOKE_PREVIEW). */
#ifndef YOKE_CLI_PNG_FILE_H
#define YOKE_CLI_PNG_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include <yoke/report.h>

/* Whether this build can write PNG files. */
bool cli_png_supported(void);

/*
 * rgb: (height, width, 3). The file appears whole or not at all; only a regular file is replaced.
 * False: it has said why on stderr.
 */
bool cli_png_write(const char *path, const uint8_t *rgb, int width, int height);

/* The same file in memory; its bytes are to be freed. False where this build cannot write PNG
 * files, or when memory runs out; png->bytes is then NULL. */
bool cli_png_encode(yk_png *png, const uint8_t *rgb, int width, int height);

#endif

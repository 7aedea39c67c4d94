/* Writing a picture as a PNG file. */
#ifndef YOKE_CLI_PNG_FILE_H
#define YOKE_CLI_PNG_FILE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * rgb: (height, width, 3). The file appears whole or not at all; only a regular file is replaced.
 * False: it has said why on stderr.
 */
bool cli_png_write(const char *path, const uint8_t *rgb, int width, int height);

#endif

/* The contact sheet of a data set: a row for each class, with its name and its first images, as
 * they are or as training gets them. */
#ifndef YOKE_CLI_PREVIEW_H
#define YOKE_CLI_PREVIEW_H

#include <yoke/data.h>

enum { CLI_PREVIEW_MAX_COLUMNS = 256 }; /* a picture 18,000 pixels wide */

/* Draws the first `columns` images of each class (1 to CLI_PREVIEW_MAX_COLUMNS) as a PNG at path,
 * transformed by a list, of which normalisation and mixing are left out, or as they are (NULL).
 * With skip_damaged, the next image takes the place of a damaged one. False: it has said why on
 * stderr, and what was at path is still there. */
bool cli_preview_write(const yk_dataset *dataset, const char *path, int columns,
                       const char *transforms, bool skip_damaged);

#endif

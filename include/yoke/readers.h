/**
 * @file
 * Readers of pictures in the formats that people have them in. Each opens one split as a
 * yk_dataset with the fields "images" and "labels"; pictures are read when they are needed. On
 * failure *dataset is NULL; YK_ERROR_NOT_FOUND when there is no such data at the path.
 */
#ifndef YOKE_READERS_H
#define YOKE_READERS_H

#include <yoke/data.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/**
 * Opens a folder of JPEG, PNG and WebP files with the semantics of torchvision's ImageFolder: each
 * folder in it is a class, classes are numbered in the order of their names, and files are found in
 * nested folders, too. Files with other names than .jpg, .jpeg, .png and .webp are left out.
 *
 * If path has a folder train, this is the split for training; the test split is then the folder
 * val, valid, validation or test beside it, whose classes are numbered as those of train. Otherwise
 * path itself is the split for training, and there is no other (YK_ERROR_NOT_FOUND; see
 * yk_dataset_random_split).
 */
yk_status yk_folder_open(yk_dataset **dataset, const char *path, yk_split split);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

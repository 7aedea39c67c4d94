/*
 * A network's description as JSON, the same in every format of file:
 *
 *     {"format": 2, "yoke": "0.1.0", "arch": "resnet18-cifar", "classes": 10,
 *      "class_names": ["airplane", ...], "mean": [0.4914, ...], "std": [0.2023, ...]}
 *
 * Members that are not known are left out.
 */
#ifndef YKI_MODEL_INFO_JSON_H
#define YKI_MODEL_INFO_JSON_H

#include <yoke/model_info.h>

#include "base/error.h"

/* The text, to be freed. */
yk_status yki_model_info_to_json(char **text, const yk_model_info *info);
/* path is the file's name for error lines. Destroy *info with yki_model_info_destroy; it is NULL on
 * failure. */
yk_status yki_model_info_from_json(yk_model_info **info, const char *path, const char *text);

#endif
